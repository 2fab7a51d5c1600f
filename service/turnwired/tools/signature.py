"""From a Python function to a tool: JSON Schema of its parameters from type hints, words from its docstring.

Knows pydantic, but neither the registry nor how functions are called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NotRequired, cast, get_type_hints

import orjson
from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from turnwired.domain.approval import PermissionRequest
from turnwired.domain.errors import ConfigError
from turnwired.domain.message import Blob, Data, OpaqueBlock, ResourceLink, Text
from turnwired.domain.tool import ToolAnnotations
from turnwired.tools.port import ToolOutput

_OPTIONS_ATTRIBUTE: Final = "__turnwire_tool__"
_NO_SCHEMA: Final[tuple[object, ...]] = (
    *(inspect.Parameter.empty, None, Any, str),
    *(ToolOutput, Text, Blob, ResourceLink, Data, OpaqueBlock),
)
"""Return types that say nothing about the shape of a result: text, and what is a result already."""
_MAPS_OF_NAMES: Final = frozenset(("properties", "$defs", "patternProperties", "dependentSchemas"))


Asks = Callable[[Mapping[str, object]], PermissionRequest | None]
"""From the checked arguments of a call, a JSON object, to what it asks permission for; None: the tool's name."""


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What ``@tool`` was given; None and empty: from the function itself."""

    name: str | None = None
    description: str | None = None
    title: str = ""
    annotations: ToolAnnotations = field(default_factory=ToolAnnotations)
    asks: Asks | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """A function as a tool.

    ``arguments`` converts the parsed JSON object into the function's keyword arguments. ``context_parameter`` is the
    name of the parameter that takes the call's context, or None.
    """

    name: str
    description: str
    input_schema_json: str
    output_schema_json: str | None
    arguments: TypeAdapter[dict[str, object]]
    context_parameter: str | None


def set_options(function: Callable[..., object], options: ToolOptions) -> None:
    """Keep the options with the function, which stays what it is."""
    setattr(function, _OPTIONS_ATTRIBUTE, options)


def options_of(function: Callable[..., object]) -> ToolOptions:
    """What ``set_options`` kept, or the defaults."""
    return cast("ToolOptions", getattr(function, _OPTIONS_ATTRIBUTE, ToolOptions()))


def has_options(function: object) -> bool:
    """Whether ``set_options`` kept any."""
    return hasattr(function, _OPTIONS_ATTRIBUTE)


def signature_of(function: Callable[..., object], context_type: type) -> Signature:
    """Read a function. Raises ConfigError, with one sentence, for one that cannot be a tool."""
    options = options_of(function)
    name = options.name or getattr(function, "__name__", "")
    if not name or name == "<lambda>":
        raise ConfigError(f"{function!r} has no name: give it one with @tool(name=...)")
    if isinstance(function, type):
        raise ConfigError(f"{name!r} is a class, and no resource: mark it with @resource, or give its methods as tools")
    try:
        parameters = inspect.signature(function, eval_str=True).parameters
        hints = get_type_hints(plain_function(function), include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise ConfigError(f"tool {name!r}: its signature cannot be read: {error}") from error
    described, words = _words(function)
    fields: dict[str, object] = {}
    defaults: dict[str, object] = {}
    context_parameter: str | None = None
    for parameter in parameters.values():
        annotation = hints.get(parameter.name, parameter.annotation)
        if annotation is context_type:
            context_parameter = parameter.name
            continue
        fields[parameter.name] = _field(name, parameter, annotation, words.get(parameter.name))
        if parameter.default is not inspect.Parameter.empty:
            defaults[parameter.name] = parameter.default
    arguments = _adapter(name, fields)
    return Signature(
        name=name,
        description=options.description or described,
        input_schema_json=_input_schema(name, arguments, defaults),
        output_schema_json=_output_schema(hints.get("return", inspect.Parameter.empty)),
        arguments=arguments,
        context_parameter=context_parameter,
    )


def plain_function(function: Callable[..., object]) -> Callable[..., object]:
    """What the type hints of a callable are written on."""
    function = inspect.unwrap(function)
    partial = getattr(function, "func", None)
    if callable(partial):
        return cast("Callable[..., object]", partial)
    return function if inspect.isroutine(function) else type(function).__call__


def _field(tool: str, parameter: inspect.Parameter, annotation: object, words: str | None) -> object:
    match parameter.kind:
        case inspect.Parameter.VAR_POSITIONAL | inspect.Parameter.VAR_KEYWORD | inspect.Parameter.POSITIONAL_ONLY:
            raise ConfigError(f"tool {tool!r}: parameter {parameter} cannot be given by name")
        case inspect.Parameter.POSITIONAL_OR_KEYWORD | inspect.Parameter.KEYWORD_ONLY:
            pass
    if annotation is inspect.Parameter.empty:
        raise ConfigError(f"tool {tool!r}: parameter {parameter.name!r} needs a type hint")
    if type(parameter.default).__name__ == "FieldInfo":
        raise ConfigError(f"tool {tool!r}: write parameter {parameter.name!r} as Annotated[..., Field(...)] = default")
    if words:
        annotation = Annotated[cast("Any", annotation), Field(description=words)]
    return annotation if parameter.default is inspect.Parameter.empty else NotRequired[cast("Any", annotation)]


def _adapter(tool: str, fields: Mapping[str, object]) -> TypeAdapter[dict[str, object]]:
    shape = TypedDict("Arguments", dict(fields))  # type: ignore[misc]  # noqa: UP013  known at run time only
    shape.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]
    try:
        return TypeAdapter(cast("type[dict[str, object]]", shape))
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise ConfigError(f"tool {tool!r}: a parameter's type has no JSON Schema: {error.message}") from error


def _input_schema(tool: str, arguments: TypeAdapter[dict[str, object]], defaults: Mapping[str, object]) -> str:
    try:
        schema = _untitled(arguments.json_schema())
    except PydanticUserError as error:
        raise ConfigError(f"tool {tool!r}: a parameter's type has no JSON Schema: {error.message}") from error
    for name, default in defaults.items():
        try:
            value = to_jsonable_python(default)
        except PydanticSerializationError:
            continue  # a default that is no JSON value is the function's own affair
        schema["properties"][name].setdefault("default", value)
    return orjson.dumps(schema).decode()


def _output_schema(annotation: object) -> str | None:
    """The schema of what the function returns, where that is a JSON object of a known shape."""
    if annotation in _NO_SCHEMA:
        return None
    try:
        schema = TypeAdapter(cast("Any", annotation)).json_schema(mode="serialization")
    except PydanticUserError:
        return None
    if schema.get("type") != "object" or "properties" not in schema:
        return None
    return orjson.dumps(_untitled(schema)).decode()


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the titles that pydantic derives from names: the model would read every name twice."""
    slim: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title":
            continue
        if key in _MAPS_OF_NAMES:
            slim[key] = {name: _untitled(item) if isinstance(item, dict) else item for name, item in value.items()}
        elif isinstance(value, dict) and key not in ("default", "const", "examples"):
            slim[key] = _untitled(value)
        elif isinstance(value, list) and key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            slim[key] = [_untitled(item) if isinstance(item, dict) else item for item in value]
        else:
            slim[key] = value
    return slim


def _words(function: Callable[..., object]) -> tuple[str, dict[str, str]]:
    """The description and the words for each parameter, from a Google, NumPy or Sphinx docstring."""
    text = inspect.getdoc(function if inspect.isroutine(function) else plain_function(function))
    if not text:
        return "", {}
    import docstring_parser  # 70 ms, and needed only where there are Python tools

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return text, {}
    words = {item.arg_name: " ".join((item.description or "").split()) for item in parsed.params}
    return (parsed.description or text).strip(), words
