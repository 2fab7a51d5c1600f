"""What the C++ client promises beyond what the conformance set asks of every client."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "CLIENT-CPP-1": "Resuming, fold, errors, calls and `run` keep their rules, against a server in the process.",
    "CLIENT-CPP-2": "The code is in the one format (where there is a clang-format), and a warning is an error.",
    "CLIENT-CPP-3": "The example prints the answer as it comes, the calls of tools and how the run ended.",
    "CLIENT-CPP-4": "Functions run at the same time, and each result is handed in when it is there.",
    "CLIENT-CPP-5": "Stopping a run that waits for a function ends it, unless it was to go on without its caller.",
    "CLIENT-CPP-6": "A deadline that passes while a function runs ends the run.",
    "CLIENT-CPP-7": "A run whose connection is cut is read to its end, without a gap or a repeat.",
    "CLIENT-CPP-8": "A run that waits for what has no function is left waiting, and said to be.",
    "CLIENT-CPP-9": "What is safe to call twice is tried four times while the server is away; nothing else is.",
    "CLIENT-CPP-10": "CMake finds an installed client or has it as a subdirectory; the code of the page runs with it.",
    "CLIENT-CPP-11": "Its tests find no fault of memory and nothing undefined.",
}
