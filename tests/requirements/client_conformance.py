"""What every client promises, in every language, and where that is shown."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "CLIENT-10": "Each language plays each scenario of the conformance set against the real service.",
    "CLIENT-11": "The table of the README says what came of it, of all scenarios and all languages.",
    "CLIENT-12": "Each language's own tests, its look at its code, and its example hold.",
}
