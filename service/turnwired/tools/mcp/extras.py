"""Resources and prompts of a server as tools, where the configuration wants them.

They read only. A tool of the server that has one of these names is left alone, and the name of ours given up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from turnwired.domain.tool import Tool, ToolAnnotations, ToolRef, ToolSource
from turnwired.tools.mcp.content import left_out
from turnwired.tools.mcp.link import Answer, Answered, Asking, Link, Listing
from turnwired.tools.result import json_of

_READS: Final = ToolAnnotations(read_only=True, destructive=False, idempotent=True)
_NOTHING: Final = {"type": "object", "properties": {}, "additionalProperties": False}
_RESOURCES: Final = ("list_resources", "read_resource")
_PROMPTS: Final = ("list_prompts", "get_prompt")
_DESCRIBED: Final[Mapping[str, tuple[str, Mapping[str, object]]]] = {
    "list_resources": ("List the resources that this server offers for reading, with their URIs.", _NOTHING),
    "read_resource": (
        "Read a resource of this server by its URI, as list_resources or a template gives it.",
        {
            "type": "object",
            "properties": {"uri": {"type": "string", "minLength": 1}},
            "required": ["uri"],
            "additionalProperties": False,
        },
    ),
    "list_prompts": ("List the prepared prompts that this server offers, with their arguments.", _NOTHING),
    "get_prompt": (
        "Get a prepared prompt of this server, filled in with these arguments.",
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
    ),
}


class Extras:
    """The tools that stand for what a server has beside tools."""

    def __init__(self, server_id: str, *, resources: bool, prompts: bool) -> None:
        self._server_id = server_id
        self._names = (*(_RESOURCES if resources else ()), *(_PROMPTS if prompts else ()))
        self._seen: tuple[Listing, Listing] | None = None
        self._ours: frozenset[str] = frozenset()

    def added(self, listing: Listing) -> Listing:
        """The listing with ours behind it; the same object for the same listing."""
        if not self._names:
            return listing
        if self._seen is None or self._seen[0] is not listing:
            taken = {tool.ref.native_name for tool in listing.tools}
            self._ours = frozenset(self._names) - taken
            tools = [self._tool(name) for name in self._names if name in self._ours]
            left = [
                left_out(self._server_id, name, "the server has a tool of this name itself")
                for name in self._names
                if name in taken
            ]
            both = Listing((*listing.tools, *tools), (*listing.left_out, *left), listing.fresh_for)
            self._seen = (listing, both)
        return self._seen[1]

    def has(self, name: str) -> bool:
        """Whether a call of this name is ours to make."""
        return name in self._ours

    async def call(
        self,
        link: Link,
        name: str,
        arguments: Mapping[str, object],
        meta: Mapping[str, str],
        asking: Asking | None,
        more: Mapping[str, object],
    ) -> Answer:
        """Make it, with the result in the shape of a tool's."""
        match name:
            case "list_resources":
                listed = await link.list_all("resources/list", "resources")
                if not isinstance(listed, Sequence):
                    return listed
                templates = await link.list_all("resources/templates/list", "resourceTemplates")
                found: dict[str, object] = {"resources": [_plain(item) for item in listed]}
                if isinstance(templates, Sequence) and templates:
                    found["templates"] = [_plain(item) for item in templates]
                return _as_text(found)
            case "list_prompts":
                listed = await link.list_all("prompts/list", "prompts")
                if not isinstance(listed, Sequence):
                    return listed
                return _as_text({"prompts": [_plain(item) for item in listed]})
            case "read_resource":
                asked = {"uri": arguments.get("uri"), **more}
                answer = await link.request("resources/read", asked, meta, asking=asking)
                return _resource(answer)
            case _:
                params = {"name": arguments.get("name"), "arguments": arguments.get("arguments") or {}, **more}
                answer = await link.request("prompts/get", params, meta, asking=asking)
                return _prompt(answer)

    def _tool(self, name: str) -> Tool:
        description, schema = _DESCRIBED[name]
        return Tool(
            ref=ToolRef(routed_name=name, native_name=name, source=ToolSource.MCP, server_id=self._server_id),
            description=description,
            input_schema_json=json_of(schema),
            annotations=_READS,
        )


def _plain(item: Mapping[str, object]) -> dict[str, object]:
    """An entry without what only clients with a screen need."""
    return {key: value for key, value in item.items() if key not in ("_meta", "icons", "annotations")}


def _as_text(value: Mapping[str, object]) -> Answered:
    return Answered({"content": [{"type": "text", "text": json_of(value)}]})


def _resource(answer: Answer) -> Answer:
    if not isinstance(answer, Answered) or answer.result.get("resultType") == "input_required":
        return answer
    contents = answer.result.get("contents")
    blocks = [{"type": "resource", "resource": item} for item in contents] if isinstance(contents, list) else []
    return Answered({**_kind(answer), "content": blocks})


def _kind(answer: Answered) -> dict[str, object]:
    return {name: value for name, value in answer.result.items() if name == "resultType"}


def _prompt(answer: Answer) -> Answer:
    """The messages of a prompt, as text with roles where it is all text, else block by block."""
    if not isinstance(answer, Answered) or answer.result.get("resultType") == "input_required":
        return answer
    messages = answer.result.get("messages")
    blocks: list[object] = []
    for message in messages if isinstance(messages, list) else ():
        match message:
            case {"role": str(role), "content": {"type": "text", "text": str(text)}}:
                blocks.append({"type": "text", "text": f"{role}: {text}"})
            case {"content": content}:
                blocks.append(content)
            case _:
                blocks.append(message)
    return Answered({**_kind(answer), "content": blocks})
