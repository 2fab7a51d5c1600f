"""What the Java client promises beyond what the conformance set asks of every client."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "CLIENT-JAVA-1": "The rules of resuming, the fold, the errors and the answers of functions hold without a server.",
    "CLIENT-JAVA-2": "The compiler has no warning, and everything public is documented.",
    "CLIENT-JAVA-3": "The example prints the answer as it comes, the calls of tools and how the run ended.",
    "CLIENT-JAVA-4": "Functions run at the same time, and each result is handed in when it is there.",
    "CLIENT-JAVA-5": "Cancelling a run that waits for a function ends it, unless it was to go on without its caller.",
    "CLIENT-JAVA-6": "A deadline that passes while a function runs ends the run.",
    "CLIENT-JAVA-7": "A run that waits for what has no function is left waiting, and said to be.",
    "CLIENT-JAVA-8": "What is safe to call twice is tried four times while the server is away, within its deadline.",
    "CLIENT-JAVA-9": "A handle, an interrupt, a closed stream and a context of gRPC each cancel what waits.",
    "CLIENT-JAVA-10": "The code that the client's page shows compiles.",
}
