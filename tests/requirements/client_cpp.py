"""What the C++ client promises beyond what the conformance set asks of every client."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "CLIENT-CPP-1": "The rules of resuming, the fold, the errors, the calls and `run` hold against servers in the process.",
    "CLIENT-CPP-2": "The code is in the one format, and compiles without a warning.",
    "CLIENT-CPP-3": "The example prints the answer as it comes, the calls of tools and how the run ended.",
    "CLIENT-CPP-4": "Functions run at the same time, and each result is handed in when it is there.",
    "CLIENT-CPP-5": "A run that is stopped while it waits for a function ends, unless it was to go on without its caller.",
    "CLIENT-CPP-6": "A deadline that passes while a function runs ends the run.",
    "CLIENT-CPP-7": "A run whose connection is cut is read to its end, without a gap or a repeat.",
    "CLIENT-CPP-8": "A run that waits for what has no function is left waiting, and said to be.",
    "CLIENT-CPP-9": "What is safe to call twice is tried four times while the server is away; nothing else is.",
    "CLIENT-CPP-10": "An installed client is found by CMake, and the code of its page compiles against it.",
    "CLIENT-CPP-11": "Its tests find no fault of memory and nothing undefined.",
}
