"""What the codec promises."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "CODEC-1": "Every event of the domain survives encoding and decoding unchanged, with its place in the log.",
    "CODEC-2": "Records can be joined into rows and frames, and frames read as messages of both streams.",
    "CODEC-3": "A row can be cut into its records again, byte for byte, with what a stream needs to filter them.",
    "CODEC-4": "Messages, policies, runs and turns survive encoding unchanged; equal values give equal bytes.",
    "CODEC-5": "Domain and contract have the same members in every enum and the same names in every policy group.",
    "CODEC-6": "What cannot be decoded is a CodecError that says where, never a wrong value.",
    "CODEC-7": "A text delta is encoded in a few microseconds.",
}
