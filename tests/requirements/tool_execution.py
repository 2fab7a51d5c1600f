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
    "TOOLX-13": "CancelRun reaches the provider's socket, the MCP server, the tool's task and the tool's thread.",
    "TOOLX-14": "A tool's process group gets TERM within 100 ms of CancelRun, and KILL after a set grace.",
    "TOOLX-15": "CancelRun is idempotent and races with the end of a run without a second end or a changed outcome.",
    "TOOLX-16": "What was committed before a cancel stays, in the log and in the session.",
    "TOOLX-17": "A cut stream ends the run or lets it go on, down to the tool, as on_disconnect says.",
    "TOOLX-18": "A caller that closes its stream at any moment of the end loses nothing that was to be stored.",
    "TOOLX-19": "A command of a tool gets no keys, its output is bounded, and nothing of it outlives the call.",
}
