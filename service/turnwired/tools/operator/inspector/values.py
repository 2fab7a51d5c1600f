"""Values of the inspected process, and profiles of it, in few words. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

MAX_JSON: Final = 64 * 1024
_MAX_TEXT: Final = 2000
_MAX_FRAMES: Final = 20
_MAX_FUNCTIONS: Final = 25

GIVE_JSON: Final = (
    "function () { try { const seen = new WeakSet(); const text = JSON.stringify(this, (key, value) => {"
    " if (typeof value === 'bigint') return String(value) + 'n';"
    " if (value instanceof Map) value = [...value.entries()]; if (value instanceof Set) value = [...value];"
    " if (typeof value === 'object' && value !== null) { if (seen.has(value)) return '[seen above]'; seen.add(value) }"
    f" return value }}); return text === undefined || text.length > {MAX_JSON} ? undefined : text"
    " } catch { return undefined } }"
)
"""Called on an object: its JSON, or nothing where it has none or too much."""


def described(remote: Mapping[str, Any], json_text: object = None) -> dict[str, object]:
    """A value as the protocol gives it (``Runtime.RemoteObject``), with its JSON where it is an object that has one."""
    kind = str(remote.get("subtype") or remote.get("type") or "undefined")
    if isinstance(json_text, str):
        return {"type": kind, "value": json.loads(json_text)}
    if "unserializableValue" in remote:
        return {"type": kind, "value": str(remote["unserializableValue"])}
    if "value" in remote:
        value = remote["value"]
        if isinstance(value, str) and len(value) > MAX_JSON:
            return {"type": kind, "value": value[:MAX_JSON], "cut": True}
        return {"type": kind, "value": value}
    text = str(remote.get("description", ""))
    return {"type": kind, "description": text[:_MAX_TEXT]} if text else {"type": kind}


def short(remote: Mapping[str, Any]) -> object:
    """A variable in one line."""
    if "preview" in remote and remote.get("subtype") != "error":
        preview = remote["preview"]
        inner = ", ".join(
            f"{each.get('name')}: {each.get('value', each.get('type'))}" for each in preview["properties"]
        )
        return f"{remote.get('description', '')} {{{inner}{', …' if preview.get('overflow') else ''}}}"[:_MAX_TEXT]
    found = described(remote)
    value = found.get("value", found.get("description", found["type"]))
    return value[:_MAX_TEXT] if isinstance(value, str) else value


def frames_of(frames: Sequence[Mapping[str, Any]], scripts: Mapping[str, str]) -> list[dict[str, object]]:
    """A call stack, from the innermost frame. ``scripts``: URLs by id."""
    return [
        {
            "function": str(frame.get("functionName") or "(anonymous)")[:200],
            "file": scripts.get(str(frame.get("location", {}).get("scriptId")), "")[:500],
            "line": int(frame.get("location", {}).get("lineNumber", 0)) + 1,
        }
        for frame in frames[:_MAX_FRAMES]
    ]


def hottest(profile: Mapping[str, Any]) -> dict[str, object]:
    """Where a profile's time went, by function: itself, and with what it called. Times are in milliseconds."""
    nodes = {int(node["id"]): node for node in profile.get("nodes", [])}
    parents = {int(child): number for number, node in nodes.items() for child in node.get("children", [])}
    alone: dict[int, float] = defaultdict(float)
    for number, micros in zip(profile.get("samples", []), profile.get("timeDeltas", []), strict=False):
        alone[int(number)] += max(0, micros) / 1000
    self_ms: dict[tuple[str, str, int], float] = defaultdict(float)
    total_ms: dict[tuple[str, str, int], float] = defaultdict(float)
    for number, spent in alone.items():
        self_ms[_function(nodes[number])] += spent
        seen: set[tuple[str, str, int]] = set()
        current: int | None = number
        while current is not None:
            function = _function(nodes[current])
            if function not in seen:  # a recursion's time counts once
                seen.add(function)
                total_ms[function] += spent
            current = parents.get(current)
    measured = sum(alone.values())
    ordered = sorted(self_ms.items(), key=lambda item: (-item[1], item[0]))[:_MAX_FUNCTIONS]
    functions = [
        {
            "function": name,
            "file": file,
            "line": line,
            "self_ms": round(spent, 1),
            "total_ms": round(total_ms[name, file, line], 1),
            "self_percent": round(100 * spent / measured, 1) if measured else 0.0,
        }
        for (name, file, line), spent in ordered
    ]
    return {"measured_ms": round(measured, 1), "samples": len(profile.get("samples", [])), "functions": functions}


def _function(node: Mapping[str, Any]) -> tuple[str, str, int]:
    frame = node.get("callFrame", {})
    name = str(frame.get("functionName") or "(anonymous)")[:200]
    return name, str(frame.get("url", ""))[:500], int(frame.get("lineNumber", -1)) + 1
