"""What a model puts out beside text: native parts, files, structured values; how it is asked to; what is counted."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "OUT-1": "A native item at the position of a part or call stands right behind it: live, in the trace, recovered.",
    "OUT-2": "Reasoning and native parts name their provider and go back as they came, in order, in later requests.",
    "OUT-3": "A file that the model made is output: shown, kept, and an answer by itself; one too large is a notice.",
    "OUT-4": "Tools that the provider executed are parts: nothing is dispatched, counted or waited for.",
    "OUT-5": "A paused turn goes back as it is until it ends, within loop.max_steps.",
    "OUT-6": "Usage that a provider does not report is said once in a run and estimated, and the estimate says so.",
    "OUT-7": "Usage reported before an answer broke off counts, and is no exact number of what was put out.",
    "OUT-8": "A stream that ends before it began is a failed attempt like any other; after output nothing is repeated.",
}
