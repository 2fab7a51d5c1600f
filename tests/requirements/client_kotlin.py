"""What is promised of Kotlin."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "CLIENT-KOTLIN-1": "What the build makes of the contract for Kotlin compiles, and its example runs a turn.",
}
