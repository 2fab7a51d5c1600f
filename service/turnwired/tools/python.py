"""Python functions as tools: from entry points, from the configuration, or handed over by a program.

Async functions run on the event loop, plain ones in a bounded pool of threads. A function gets its arguments as its
type hints say, converted by pydantic. The registry, not this module, checks the schema and bounds the call.

    @tool(read_only=True)
    async def find_order(order_id: int, context: ToolContext) -> dict[str, str]:
        \"\"\"Find an order by its number.\"\"\"
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast, overload

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from turnwired.apart import Nursery
from turnwired.domain.approval import PermissionRequest
from turnwired.domain.errors import ConfigError, ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.faults import where_raised
from turnwired.domain.message import Blob, Content, Data, OpaqueBlock, Part, ResourceLink, Text
from turnwired.domain.permission import is_permission
from turnwired.domain.tool import Tool, ToolAnnotations, ToolRef, ToolSource
from turnwired.plugins import named, offered, why_not
from turnwired.tools.context import ToolContext
from turnwired.tools.port import ToolInvocation, ToolOutput
from turnwired.tools.resource import expanded, is_resource
from turnwired.tools.result import json_of, redact
from turnwired.tools.signature import (
    Asks,
    Signature,
    ToolOptions,
    options_of,
    plain_function,
    set_options,
    signature_of,
)
from turnwired.tools.threads import CallState, WorkerPool

__all__ = ["PythonToolset", "ToolContext", "entry_point_functions", "load_functions", "tool"]

ENTRY_POINT_GROUP: Final = "turnwired.tools"

_LOG = logging.getLogger(__name__)
_Function = TypeVar("_Function", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class _Decorator:
    options: ToolOptions

    def __call__(self, function: _Function) -> _Function:
        set_options(function, self.options)
        return function


@overload
def tool(function: _Function, /) -> _Function: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    title: str = "",
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    asks: Asks | None = None,
) -> _Decorator: ...
def tool(
    function: _Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    title: str = "",
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    asks: Asks | None = None,
) -> _Function | _Decorator:
    """Say more about a tool than its function does. The function stays an ordinary function.

    ``idempotent`` allows a call to be repeated after a crash; leave it out unless repeating it changes nothing more.
    ``asks`` says from a call's arguments what it asks permission for, where the name of the tool is too coarse: see
    ``turnwired.tools.shell``. It is quick and has no side effects; a call for which it raises is not made.
    """
    annotations = ToolAnnotations(read_only, destructive, idempotent, open_world)
    decorator = _Decorator(ToolOptions(name, description, title, annotations, asks))
    return decorator if function is None else decorator(function)


@dataclass(frozen=True, slots=True)
class _Bound:
    """A function that was read."""

    function: Callable[..., object]
    signature: Signature
    is_async: bool
    tool: Tool
    asks: Asks | None = None


@dataclass(slots=True)
class PythonToolset:
    """A ``Toolset`` over Python functions, and resources (``turnwired.tools.resource``)."""

    functions: Sequence[object]
    set_id: str = "python"
    left_out: Sequence[Failure] = ()
    pool: WorkerPool = field(default_factory=WorkerPool)
    nursery: Nursery = field(default_factory=Nursery)
    _tools: tuple[Tool, ...] = ()
    _by_name: dict[str, _Bound] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for function in expanded(self.functions):
            item = _read(function)
            name = item.signature.name
            if self._by_name.setdefault(name, item) is not item:
                words = f"{name!r} of {function.__module__!r} is left out: the name is taken; use @tool(name=...)"
                collision = Failure(FailurePhase.ROUTING, Reason.TOOL_NAME_COLLISION, words, origin=name)
                self.left_out = (*self.left_out, collision)
        self._tools = tuple(item.tool for item in self._by_name.values())

    @property
    def failure(self) -> Failure | None:
        """Functions are always there."""
        return None

    async def start(self) -> None:
        """Nothing to start: threads are made when needed."""

    async def tools(self) -> Sequence[Tool]:
        """The tools, in the order in which the functions were given."""
        return self._tools

    def asks_for(self, native_name: str, arguments: Mapping[str, object]) -> PermissionRequest | None:
        """What the function's ``asks`` says. Raises ToolError for a permission that no rule could name."""
        item = self._by_name.get(native_name)
        if item is None or item.asks is None:
            return None
        request = item.asks(arguments)
        if request is not None and not is_permission(request.permission):
            words = (
                f"{native_name}: it asks for the permission {request.permission[:64]!r}, which no rule can name; one "
                "of the deployment's own has a dot in its name, such as 'acme.deploy'. It was not called."
            )
            raise ToolError(Failure(FailurePhase.TOOL, Reason.TOOL_NOT_EXECUTED, words, origin=native_name))
        return request

    async def call(self, invocation: ToolInvocation) -> ToolOutput:
        """Call the function. What it raises is an error result with its words; only cancellation goes through."""
        item = self._by_name.get(invocation.native_name)
        if item is None:
            raise ToolError(_failure(invocation, Reason.TOOL_NOT_FOUND, "there is no such Python tool"))
        state = CallState(on_late=invocation.on_late)
        arguments = _arguments(item.signature, invocation, state)
        function = item.function
        try:
            if item.is_async:
                work = cast("Awaitable[object]", function(**arguments))
                value = await self.nursery.run(work, invocation.native_name, invocation.on_late)
            else:
                value = await self.pool.run(lambda: function(**arguments), state)
                if inspect.isawaitable(value):
                    value = await self.nursery.run(value, invocation.native_name, invocation.on_late)
        except ToolError:
            raise
        except asyncio.CancelledError:
            state.given_up = True
            raise
        except BaseException as error:  # noqa: BLE001  boundary: whatever a tool raises is its result
            return _raised(invocation, error)
        return _output(invocation, value, item.tool.output_schema_json is not None)

    async def aclose(self) -> None:
        """Let the threads end, and what runs on although its call was cancelled."""
        self.pool.close()
        await self.nursery.aclose()
        for task in self.nursery.stray:
            _LOG.warning("tool %s goes on although it was cancelled", task.get_name())


def _arguments(signature: Signature, invocation: ToolInvocation, state: CallState) -> dict[str, object]:
    try:
        arguments = signature.arguments.validate_python(dict(invocation.arguments))
    except ValidationError as error:
        words = "; ".join(
            f"/{'/'.join(map(str, detail['loc']))}: {detail['msg']}"
            for detail in error.errors(include_url=False, include_input=False, include_context=False)[:5]
        )
        raise ToolError(_failure(invocation, Reason.TOOL_ARGUMENTS_INVALID, words)) from error
    if signature.context_parameter is not None:
        arguments[signature.context_parameter] = ToolContext(
            caller=invocation.caller,
            run_id=invocation.run_id,
            call_id=invocation.call_id,
            session_id=invocation.session_id,
            attempt=invocation.attempt,
            headers=invocation.headers,
            _ask=invocation.ask,
            _progress=invocation.on_progress,
            _loop=asyncio.get_running_loop(),
            _loop_thread=threading.get_ident(),
            _state=state,
        )
    return arguments


def _read(function: Callable[..., object]) -> _Bound:
    signature = signature_of(function, ToolContext)
    options = options_of(function)
    described = Tool(
        ref=ToolRef(signature.name, signature.name, ToolSource.LOCAL),
        description=signature.description,
        input_schema_json=signature.input_schema_json,
        output_schema_json=signature.output_schema_json,
        title=options.title,
        annotations=options.annotations,
    )
    return _Bound(function, signature, inspect.iscoroutinefunction(plain_function(function)), described, options.asks)


def load_functions(references: Iterable[str]) -> list[Callable[..., object]]:
    """The functions that ``module:attribute`` references name; an attribute may be a list of functions.

    Raises ConfigError: what the configuration names must be there.
    """
    functions: list[Callable[..., object]] = []
    for reference in references:
        try:
            found = named(reference)
        except ModuleNotFoundError as error:
            raise ConfigError(f"tools.python: {reference!r} cannot be loaded: {why_not(error)}") from error
        except Exception as error:  # boundary: importing runs whatever the module holds
            raise ConfigError(
                f"tools.python: {reference!r} cannot be loaded: {type(error).__name__}: {redact(str(error), 300)}"
            ) from error
        try:
            loaded = _callables(reference, found)
            for function in loaded:
                signature_of(function, ToolContext)
        except ConfigError as error:
            raise ConfigError(f"tools.python: {error}") from error
        functions += loaded
    return functions


def entry_point_functions() -> tuple[list[Callable[..., object]], list[Failure]]:
    """The functions of installed distributions, and a failure for each entry point that could not be loaded.

    In the order of their names, so that every process has the same tools in the same order.
    """
    functions: list[Callable[..., object]] = []
    failures: list[Failure] = []
    for entry_point in offered(ENTRY_POINT_GROUP):
        try:
            loaded = _callables(entry_point.value, entry_point.load())
            for function in loaded:
                signature_of(function, ToolContext)
        except Exception as error:  # noqa: BLE001  boundary: a broken distribution fails alone
            words = f"entry point {entry_point.name!r} ({entry_point.value}) is left out: {type(error).__name__}"
            failures.append(
                Failure(
                    phase=FailurePhase.PREPARATION,
                    reason=Reason.TOOL_QUARANTINED,
                    message=f"{words}: {redact(str(error), 300)}",
                    origin=entry_point.name,
                )
            )
            continue
        functions += loaded
    return functions, failures


def _callables(reference: str, found: object) -> list[Callable[..., object]]:
    items = list(cast("Iterable[object]", found)) if isinstance(found, (list, tuple)) else [found]
    for item in items:
        if not callable(item) and not is_resource(item):
            raise ConfigError(f"Python tool {reference!r} is no function, no resource, and no list of them")
    return expanded(items)


def _raised(invocation: ToolInvocation, error: BaseException) -> ToolOutput:
    """The words of an exception go to the model as content; the failure names its type only. Never a traceback."""
    name = type(error).__name__
    _LOG.info("tool %s raised %s", invocation.native_name, name)
    if _LOG.isEnabledFor(logging.DEBUG):
        _LOG.debug("%s", where_raised(error))
    failure = _failure(invocation, Reason.TOOL_FAILED, f"the tool raised {name}", code=name)
    words = redact(str(error))
    return ToolOutput((_part(Text(f"{name}: {words}" if words else name)),), is_error=True, failure=failure)


def _output(invocation: ToolInvocation, value: object, has_schema: bool) -> ToolOutput:
    match value:
        case ToolOutput():
            return value
        case None:
            return ToolOutput(())
        case str():
            return ToolOutput((_part(Text(value)),))
        case Text() | Blob() | ResourceLink() | Data() | OpaqueBlock():
            return ToolOutput((_part(value),))
        case bytes():
            return ToolOutput((_part(Blob("application/octet-stream", value)),))
        case list() | tuple() if value and all(
            isinstance(item, (Text, Blob, ResourceLink, OpaqueBlock)) for item in value
        ):
            return ToolOutput(tuple(_part(cast("Content", item)) for item in value))
        case _:
            text = _json(invocation, value)
            return ToolOutput((), structured_json=text) if has_schema else ToolOutput((_part(Data(text)),))


def _json(invocation: ToolInvocation, value: object) -> str:
    try:
        return to_json(value, inf_nan_mode="strings").decode()  # NaN and Infinity are no JSON
    except (PydanticSerializationError, UnicodeError, ValueError, RecursionError) as error:
        try:
            return json_of(value)
        except (TypeError, ValueError, RecursionError):
            failure = _failure(
                invocation, Reason.TOOL_FAILED, "its result cannot be written as JSON", type(error).__name__
            )
            raise ToolError(failure) from error


def _part(content: Content) -> Part:
    return Part("", content)  # numbered by the registry


def _failure(invocation: ToolInvocation, reason: Reason, words: str, code: str = "") -> Failure:
    return Failure(
        phase=FailurePhase.TOOL,
        reason=reason,
        message=f"{invocation.native_name}: {words}",
        call_id=invocation.call_id,
        origin=invocation.native_name,
        origin_code=code,
    )
