"""Counting input tokens: by the provider, by a tokenizer, by size."""

from __future__ import annotations

REQUIREMENTS: dict[str, str] = {
    "TOK-1": "A provider with a counter counts, and the count says that it is exact.",
    "TOK-2": "A counter that fails or gives no number is replaced by the next best, which says so.",
    "TOK-3": "A tokenizer counts text, names, arguments and schemas, and files at a flat rate, off the event loop.",
    "TOK-4": "Without counter and tokenizer the count is an estimate from the size, files at a flat rate, and says so.",
    "TOK-5": "CountTokens counts instructions, tools, history and input of the first model call, and runs nothing.",
    "TOK-6": "CountTokens refuses what a turn would be refused for.",
}
