"""Behaviours of the Messages wire, each with an id that its tests name."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "MSG-1": "Every recorded Messages answer gives its truth in reads of any size; 1 % disputed at most, with reasons.",
    "MSG-2": "The items of a Messages answer do not depend on how its bytes are cut into reads.",
    "MSG-3": "No bytes make the Messages parser crash, hang or grow without bound.",
    "MSG-4": "Text, thinking and arguments that come in one read are one item for each block.",
    "MSG-5": "Blocks are told apart by their index, wherever it begins, and each one is a part of its own, in order.",
    "MSG-6": "A signature and redacted thinking are kept as they came.",
    "MSG-7": "What a tool of the provider does, and any unknown block, is kept whole and word for word, never a call.",
    "MSG-8": "Citations and what a call has beside its input are kept with the text or the call that they belong to.",
    "MSG-9": "An error is of its kind, in a body or as an event in a stream, and keeps the output before it.",
    "MSG-10": "Usage is cumulative, what a later report leaves out stays, and input includes cache reads and writes.",
    "MSG-11": "Only a stop reason makes an end signal; each has its meaning, and one that is unknown is kept open.",
    "MSG-12": "A call that was cut before its end is never closed.",
    "MSG-13": "A second answer in the middle of the first one breaks it off; before any output it takes its place.",
    "MSG-14": "Silence while the model thinks, or a tool of the provider runs, is told from other silence.",
}
