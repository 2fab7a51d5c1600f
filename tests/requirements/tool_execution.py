"""Tool execution, cancelling, sessions, agents and hooks, each behaviour with an id that its tests name."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "TOOLX-1": "Lenient validation repairs simple type errors where the schema leaves one reading, and says which.",
    "TOOLX-2": "What lenient validation cannot make valid as a whole fails as strict validation would say it.",
    "TOOLX-3": "A repair is a notice in the log and a word to the model; the log keeps the model's own arguments.",
    "TOOLX-4": "A result that comes after its call was given up is dropped, counted and told once.",
    "TOOLX-5": "With error_mode ABORT a failing tool stops its siblings, and the run ends after they have unwound.",
    "TOOLX-6": "No session keeps an error that no model has read; calls that may have taken effect stay with results.",
    "TOOLX-7": "A call that cannot run as it is gets a result that the model can act on, and the run goes on.",
    "TOOLX-8": "Calls of one answer run side by side within the bound, or one after the other, results in call order.",
    "TOOLX-9": "One cap holds for the results of every source: whole characters, a marker, the original size.",
    "TOOLX-10": "Text with NUL or lone surrogates is stored, streamed and sent as the same clean text.",
    "TOOLX-11": "Results stay what they are: text, JSON, image, audio, resource, interfaces word for word.",
    "TOOLX-12": "A tool that its server no longer has is said to be gone, and the server's list is read again.",
}
