"""Results in the order of the calls that they answer, however they came. Knows messages alone; they pair up already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnwired.domain.message import Message, Part, Role, ToolCall, ToolResult


def in_call_order(messages: Sequence[Message]) -> Sequence[Message]:
    """The same messages, with the results behind each group of calls in the order of the calls.

    A wire that pairs them by place alone would otherwise give each call another's result. Parts that are no results
    stay where they are, and so does the number of results in each message.
    """
    if all(message.role is not Role.TOOL for message in messages):  # nearly every turn
        return messages
    ordered = list(messages)
    places: dict[str, int] = {}
    slots: list[tuple[int, int]] = []
    for index, message in enumerate([*messages, None]):
        if message is not None and message.role is Role.TOOL:
            slots += [
                (index, place) for place, part in enumerate(message.parts) if isinstance(part.content, ToolResult)
            ]
            continue
        _sort(ordered, slots, places)
        slots, places = [], {}
        if message is not None:
            calls = (part.content.call_id for part in message.parts if isinstance(part.content, ToolCall))
            places = {call_id: place for place, call_id in enumerate(calls)}
    return ordered


def _sort(messages: list[Message], slots: Sequence[tuple[int, int]], places: dict[str, int]) -> None:
    came = [messages[index].parts[place] for index, place in slots]
    sorted_ = sorted(came, key=lambda part: places.get(_call_id(part), len(places)))
    if came == sorted_:
        return
    for (index, place), part in zip(slots, sorted_, strict=True):
        message = messages[index]
        messages[index] = replace(message, parts=(*message.parts[:place], part, *message.parts[place + 1 :]))


def _call_id(part: Part) -> str:
    return part.content.call_id if isinstance(part.content, ToolResult) else ""
