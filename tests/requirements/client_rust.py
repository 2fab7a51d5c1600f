"""What the Rust client promises beyond what the conformance set asks of every client."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "CLIENT-RUST-1": "The rules of resuming, the fold, the errors and the answers of functions hold without a server.",
    "CLIENT-RUST-2": "The code is in the one format, and clippy has nothing to say of it.",
    "CLIENT-RUST-3": "The example prints the answer as it comes, the calls of tools and how the run ended.",
    "CLIENT-RUST-4": "Functions run at the same time, and each result is handed in when it is there.",
    "CLIENT-RUST-5": "Dropping a run that waits for a function ends it, unless it was to go on without its caller.",
    "CLIENT-RUST-6": "A deadline that passes while a function runs ends the run.",
    "CLIENT-RUST-7": "A run whose connection is cut is read to its end, without a gap or a repeat.",
    "CLIENT-RUST-8": "A run that waits for what has no function is left waiting, and said to be.",
    "CLIENT-RUST-9": "What is safe to call twice is tried four times while the server is away, within its deadline.",
}
