"""Python functions as tools: signatures, threads, loading."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from tools import samples
from tools.kit import blocking, run_tool, view_of_functions, words_of

from turnwired.domain.errors import ConfigError
from turnwired.domain.failure import Reason
from turnwired.domain.message import Blob, Data, ResourceLink, Text, ToolResultStatus
from turnwired.domain.policy import ArgumentValidation
from turnwired.domain.tool import ToolAnnotations
from turnwired.tools.python import (
    ENTRY_POINT_GROUP,
    PythonToolset,
    ToolContext,
    entry_point_functions,
    load_functions,
    tool,
)


class Unit(Enum):
    """Of temperature."""

    C = "c"
    F = "f"


class Place(BaseModel):
    """Where."""

    name: str
    at: datetime | None = None


@dataclass
class Weather:
    """What it is like."""

    degrees: float
    place: Place


class Forecast:
    """A class that is no resource."""

    def get(self, place: str) -> str:
        """What the weather will be like."""
        return place


@tool(read_only=True, destructive=False, idempotent=True, open_world=True, title="Weather")
async def weather(
    place: Place,
    days: Annotated[int, Field(ge=1, le=7)],
    unit: Unit = Unit.C,
    *,
    context: ToolContext,
) -> Weather:
    """Tell the weather.

    Looks it up.

    Args:
        place: Where to look.
        days: How many days ahead.
        unit: Of the degrees.
        context: Of the call.

    Returns:
        What it is like.
    """
    assert (type(place), type(unit), context.run_id) == (Place, Unit, "run-1")
    return Weather(float(days), place)


@pytest.mark.requirement("PYTHON-1", "PYTHON-5")
async def test_a_function_becomes_a_tool_by_its_hints_and_its_docstring() -> None:
    (described,) = (await view_of_functions(weather)).tools
    assert described.description == "Tell the weather.\n\nLooks it up."
    assert described.title == "Weather"
    assert described.annotations == ToolAnnotations(True, False, True, True)
    schema = json.loads(described.input_schema_json)
    assert list(schema["properties"]) == ["place", "days", "unit"]
    assert schema["required"] == ["place", "days"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["days"] == {
        "description": "How many days ahead.",
        "maximum": 7,
        "minimum": 1,
        "type": "integer",
    }
    assert schema["properties"]["unit"]["default"] == "c"
    assert "title" not in described.input_schema_json
    assert described.output_schema_json is not None
    assert list(json.loads(described.output_schema_json)["properties"]) == ["degrees", "place"]


@pytest.mark.requirement("PYTHON-1")
async def test_a_parameter_may_be_called_title_or_like_a_method_of_pydantic() -> None:
    async def odd(title: str, schema: int = 1, json: bool = False, model_config: str = "") -> str:
        """Odd names."""
        return f"{title}{schema}{json}{model_config}"

    view = await view_of_functions(odd)
    assert list(json.loads(view.tools[0].input_schema_json)["properties"]) == [
        "title",
        "schema",
        "json",
        "model_config",
    ]
    assert words_of(await run_tool(view, "odd", '{"title":"t","json":true}')) == "t1True"


@pytest.mark.requirement("PYTHON-4", "TOOL-14")
async def test_arguments_arrive_as_hinted_and_a_typed_result_is_structured() -> None:
    view = await view_of_functions(weather)
    result = await run_tool(
        view, "weather", '{"place":{"name":"Oslo","at":"2026-01-02T03:04:05Z"},"days":2,"unit":"f"}'
    )
    assert result.structured_json == '{"degrees":2.0,"place":{"name":"Oslo","at":"2026-01-02T03:04:05Z"}}'
    assert words_of(result) == result.structured_json


@pytest.mark.requirement("PYTHON-4")
async def test_what_only_the_type_can_tell_is_told_and_not_executed() -> None:
    async def when(at: datetime) -> str:
        """Say when."""
        return at.astimezone(UTC).isoformat()

    view = await view_of_functions(when)
    result = await run_tool(view, "when", '{"at":"next Secretday"}')
    assert result.status is ToolResultStatus.NOT_EXECUTED
    assert result.failure is not None
    assert result.failure.reason is Reason.TOOL_ARGUMENTS_INVALID
    assert "/at" in words_of(result)
    assert "Secretday" not in words_of(result)


@pytest.mark.requirement("TOOL-14")
@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("text", (Text("text"),)),
        (None, ()),
        (b"\x00", (Blob("application/octet-stream", b"\x00"),)),
        (7, (Data("7"),)),
        ({"a": [1, None]}, (Data('{"a":[1,null]}'),)),
        ([Text("a"), ResourceLink("file:///x")], (Text("a"), ResourceLink("file:///x"))),
        ({"a": "\ud800"}, (Data('{"a":"\ufffd"}'),)),
        ([], (Data("[]"),)),
    ],
)
async def test_results_of_every_kind_are_content(value: object, content: tuple[object, ...]) -> None:
    async def give() -> Any:
        """Give it."""
        return value

    result = await run_tool(await view_of_functions(give), "give")
    assert result.status is ToolResultStatus.OK
    assert tuple(part.content for part in result.content) == content


@pytest.mark.requirement("TOOL-10")
async def test_a_result_that_is_no_json_is_an_error_result() -> None:
    async def odd() -> Any:
        """Give an object of no known type."""
        return object()

    result = await run_tool(await view_of_functions(odd), "odd")
    assert result.status is ToolResultStatus.ERROR
    assert "cannot be written as JSON" in words_of(result)


@pytest.mark.requirement("PYTHON-1")
async def test_methods_partials_and_callable_objects_are_tools() -> None:
    class Shop:
        async def find(self, sku: str) -> str:
            """Find it."""
            return f"found {sku}"

    class Caller:
        """Calls."""

        __name__ = "caller"

        async def __call__(self, n: int) -> str:
            """Call it."""
            return f"called {n}"

    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    added = functools.partial(add, b=2)
    tool(name="add_two")(added)
    view = await view_of_functions(Shop().find, Caller(), added)
    assert [item.ref.routed_name for item in view.tools] == ["add_two", "caller", "find"]
    assert words_of(await run_tool(view, "find", '{"sku":"x"}')) == "found x"
    assert words_of(await run_tool(view, "caller", '{"n":1}')) == "called 1"
    assert words_of(await run_tool(view, "add_two", '{"a":1}')) == "3"


def _untyped(x) -> str:  # type: ignore[no-untyped-def]
    return str(x)


def _varied(*args: int) -> str:
    return str(args)


def _field_default(x: int = Field(3)) -> str:
    return str(x)


def _odd_type(x: threading.Event) -> str:
    return str(x)


def _unknown_type(x: Unknown) -> str:  # type: ignore[name-defined]  # noqa: F821
    return str(x)


@pytest.mark.requirement("PYTHON-5")
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_untyped, "needs a type hint"),
        (_varied, "cannot be given by name"),
        (_field_default, "write parameter 'x' as Annotated"),
        (_odd_type, "no JSON Schema"),
        (_unknown_type, "signature cannot be read"),
        (lambda: "x", "no name"),
        (Forecast, "mark it with @resource"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_with_the_reason(
    function: Callable[..., object], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        PythonToolset([function])


@pytest.mark.requirement("TOOL-2")
def test_two_functions_of_one_name_are_one_tool_and_a_report() -> None:
    toolset = PythonToolset([weather, tool(name="weather")(blocking(threading.Event()))])
    assert len(toolset.left_out) == 1
    assert toolset.left_out[0].reason is Reason.TOOL_NAME_COLLISION


# --- loading ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("PYTHON-3")
def test_references_name_functions_and_lists_of_functions() -> None:
    loaded = load_functions(["tools.samples:shout", "tools.samples:SEVERAL"])
    assert loaded == [samples.shout, samples.greet, samples.shout]


@pytest.mark.requirement("PYTHON-3")
@pytest.mark.parametrize(
    ("reference", "names"),
    [
        ("no.such.module:x", "no.such.module:x"),
        ("tools.samples:nothing", "tools.samples:nothing"),
        ("tools.samples:NUMBER", "tools.samples:NUMBER"),
        ("tools.samples:untyped", "untyped"),
        ("tools.test_python:Forecast", "'Forecast' is a class"),
    ],
)
def test_a_reference_that_names_no_tool_is_one_clear_line(reference: str, names: str) -> None:
    with pytest.raises(ConfigError, match=f"^tools.python: .*{names}") as caught:
        load_functions([reference])
    assert "\n" not in str(caught.value)


@pytest.mark.requirement("PYTHON-3")
def test_a_broken_entry_point_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        importlib.metadata.EntryPoint("z", "tools.samples:greet", ENTRY_POINT_GROUP),
        importlib.metadata.EntryPoint("a", "tools.samples:missing", ENTRY_POINT_GROUP),
        importlib.metadata.EntryPoint("b", "tools.samples:untyped", ENTRY_POINT_GROUP),
    ]
    asked: list[str] = []

    def entry_points(group: str) -> list[importlib.metadata.EntryPoint]:
        asked.append(group)
        return points

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    functions, failures = entry_point_functions()
    assert (functions, asked) == ([samples.greet], [ENTRY_POINT_GROUP])
    assert [failure.origin for failure in failures] == ["a", "b"]
    assert "missing" in failures[0].message
    assert "type hint" in failures[1].message


@pytest.mark.requirement("TOOL-8")
async def test_strict_checking_refuses_parameters_that_the_function_has_not() -> None:
    view = await view_of_functions(weather)
    checked = view.check("weather", '{"place":{"name":"x"},"days":1,"context":1}', ArgumentValidation.STRICT)
    assert checked.failure is not None
    assert "'context' was unexpected" in checked.failure.message
