"""Resources in Python: a class with some of get, search, list, create, update and delete becomes a tool for each.

A resource can say how a transaction is made: then each call is one, and the audit row of a change is written in it,
beside the change. It knows functions and their options, neither the registry nor how functions are called.

    @resource
    class Book:
        def transaction(self, context: ToolContext) -> AbstractContextManager[Connection]: ...
        def get(self, isbn: str, *, tx: Tx[Connection]) -> BookRow | None:
            \"\"\"Read one book.\"\"\"
        def audit(self, tx: Connection, row: AuditRow) -> None: ...
"""

from __future__ import annotations

import functools
import inspect
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, TypeVar, cast, get_args, get_origin, overload

from turnwired.domain.errors import ConfigError, ToolError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.run import Caller
from turnwired.domain.tool import ToolAnnotations
from turnwired.tools.context import ToolContext
from turnwired.tools.signature import ToolOptions, has_options, options_of, set_options

T = TypeVar("T")
C = TypeVar("C", bound=type)


class _InTransaction:
    """Marks the parameter that gets what ``transaction`` opened."""


Tx = Annotated[T, _InTransaction]
"""Type hint of the one parameter that gets what ``transaction`` opened, unseen by the model: ``tx: Tx[Connection]``."""

VERBS: Final[Mapping[str, ToolAnnotations]] = {
    "get": ToolAnnotations(read_only=True),
    "search": ToolAnnotations(read_only=True),
    "list": ToolAnnotations(read_only=True),
    "create": ToolAnnotations(destructive=False),
    "update": ToolAnnotations(),
    "delete": ToolAnnotations(destructive=True),
}
"""Methods that are tools without being told, and what a tool of that name may do unless ``@tool`` says otherwise."""

_NAME_ATTRIBUTE: Final = "__turnwire_resource__"
_CONTEXT: Final = "turnwire_context"
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}\Z")


@dataclass(frozen=True, slots=True)
class AuditRow:
    """What was changed, for whom. ``arguments`` are those that the method got; ``time_ns`` is Unix time."""

    resource: str
    tool: str
    caller: Caller
    run_id: str
    call_id: str
    session_id: str | None
    arguments: Mapping[str, object]
    time_ns: int


@overload
def resource(cls: C, /) -> C: ...
@overload
def resource(*, name: str) -> Callable[[C], C]: ...
def resource(cls: C | None = None, /, *, name: str = "") -> C | Callable[[C], C]:
    """Make a class a resource. ``name``, in the singular, is the second half of its tools' names; else the class's.

    The class is made without arguments, once, when its tools are loaded; an instance serves as well.
    """

    def mark(found: C) -> C:
        setattr(found, _NAME_ATTRIBUTE, name or _WORD.sub("_", found.__name__).lower())
        return found

    return mark if cls is None else mark(cls)


def is_resource(found: object) -> bool:
    """Whether this is a class made by ``@resource``, or an instance of one."""
    return hasattr(found, _NAME_ATTRIBUTE)


def resource_functions(found: object) -> list[Callable[..., object]]:
    """The tools of a resource as functions: its verbs in the order of ``VERBS``, then what ``@tool`` marks, by name.

    Raises ConfigError for a class that cannot be made, has no tools, or has a method that does not fit.
    """
    instance = found
    if isinstance(found, type):
        try:
            instance = found()
        except TypeError as error:
            raise ConfigError(f"resource {found.__name__}: cannot be made without arguments: {error}") from error
    name = str(getattr(instance, _NAME_ATTRIBUTE))
    if not _NAME.match(name):
        raise ConfigError(f"resource {name!r}: a name is lower-case letters, digits and underscores, 41 at most")
    kind = type(instance)
    verbs = [verb for verb in VERBS if callable(getattr(kind, verb, None))]
    others = sorted(
        member
        for member, function in inspect.getmembers(kind, callable)
        if member not in VERBS and not member.startswith("_") and has_options(function)
    )
    if not verbs and not others:
        raise ConfigError(f"resource {name!r}: has none of {', '.join(VERBS)}, and no method with @tool")
    return [_Method(instance, name, method).as_function() for method in (*verbs, *others)]


@dataclass(frozen=True, slots=True)
class _Method:
    """One method of a resource as a tool."""

    owner: object
    resource: str
    method: str

    def as_function(self) -> Callable[..., object]:
        """A function with the method's own parameters, but for the transaction, and with the call's context."""
        method = getattr(self.owner, self.method)
        options = self._options(method)
        signature, tx, context = self._signature(method)
        needs_tx = hasattr(self.owner, "transaction")
        if tx is not None and not needs_tx:
            raise ConfigError(f"{self._where}: takes a transaction, but the resource has no method transaction")
        run = _Run(self, method, tx, context, audited=not options.annotations.read_only)
        function: Callable[..., object]
        if inspect.iscoroutinefunction(method):

            async def wrapped_async(**arguments: object) -> object:
                return await run.asynchronous(arguments)

            function = wrapped_async
        else:
            self._require_plain("transaction")
            self._require_plain("audit")

            def wrapped(**arguments: object) -> object:
                return run.plain(arguments)

            function = wrapped
        functools.update_wrapper(function, method)
        function.__signature__ = signature  # type: ignore[attr-defined]
        set_options(function, options)
        return function

    @property
    def _where(self) -> str:
        return f"resource {self.resource!r}: {self.method}"

    def _options(self, method: Callable[..., object]) -> ToolOptions:
        given = options_of(method)
        annotations = given.annotations if given.annotations != ToolAnnotations() else VERBS.get(self.method)
        described = given.description or inspect.getdoc(method)
        return replace(
            given,
            name=given.name or f"{self.method}_{self.resource}",
            description=given.description if described else f"{self.method.capitalize()} a {self.resource}.",
            annotations=annotations or ToolAnnotations(),
        )

    def _signature(self, method: Callable[..., object]) -> tuple[inspect.Signature, str | None, str | None]:
        """The signature that the model sees plus the context, the transaction's parameter, and the context's."""
        try:
            signature = inspect.signature(method, eval_str=True)
        except (NameError, TypeError, ValueError) as error:
            raise ConfigError(f"{self._where}: its signature cannot be read: {error}") from error
        shown: list[inspect.Parameter] = []
        tx = context = None
        for parameter in signature.parameters.values():
            if _is_tx(parameter.annotation):
                tx = parameter.name
                continue
            if parameter.annotation is ToolContext:
                context = parameter.name
                continue
            shown.append(parameter)
        shown.append(inspect.Parameter(_CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=ToolContext))
        return signature.replace(parameters=shown), tx, context

    def _require_plain(self, hook: str) -> None:
        found = getattr(self.owner, hook, None)
        if inspect.iscoroutinefunction(found):
            raise ConfigError(f"{self._where} is not async, so {hook} must not be async either")


@dataclass(frozen=True, slots=True)
class _Run:
    """Runs a method in its transaction, with its audit row."""

    of: _Method
    method: Callable[..., object]
    tx: str | None
    context: str | None
    audited: bool

    def plain(self, arguments: dict[str, object]) -> object:
        """In the thread of the call, from beginning to end."""
        context = cast("ToolContext", arguments.pop(_CONTEXT))
        opened = self._transaction(context)
        if not isinstance(opened, AbstractContextManager):
            raise TypeError("transaction gives no context manager, which a method that is not async needs")
        with cast("AbstractContextManager[object]", opened) as tx:
            value = self.method(**self._given(arguments, tx, context))
            if self.audited and (audit := self._audit) is not None:
                audit(tx, self._row(arguments, context))
        return self._found(value, context)

    async def asynchronous(self, arguments: dict[str, object]) -> object:
        """On the event loop; transaction and audit may each be async or not."""
        context = cast("ToolContext", arguments.pop(_CONTEXT))
        opened = self._transaction(context)
        if isinstance(opened, AbstractAsyncContextManager):
            async with cast("AbstractAsyncContextManager[object]", opened) as tx:
                value = await self._in(tx, arguments, context)
        else:
            with cast("AbstractContextManager[object]", opened) as tx:
                value = await self._in(tx, arguments, context)
        return self._found(value, context)

    async def _in(self, tx: object, arguments: dict[str, object], context: ToolContext) -> object:
        value = await cast("Awaitable[object]", self.method(**self._given(arguments, tx, context)))
        if self.audited and (audit := self._audit) is not None:
            written = audit(tx, self._row(arguments, context))
            if inspect.isawaitable(written):
                await written
        return value

    def _transaction(self, context: ToolContext) -> object:
        make = getattr(self.of.owner, "transaction", None)
        return nullcontext() if make is None else make(context)

    @property
    def _audit(self) -> Callable[[object, AuditRow], object] | None:
        return cast("Callable[[object, AuditRow], object] | None", getattr(self.of.owner, "audit", None))

    def _given(self, arguments: Mapping[str, object], tx: object, context: ToolContext) -> dict[str, object]:
        given = dict(arguments)
        if self.tx is not None:
            given[self.tx] = tx
        if self.context is not None:
            given[self.context] = context
        return given

    def _row(self, arguments: Mapping[str, object], context: ToolContext) -> AuditRow:
        return AuditRow(
            resource=self.of.resource,
            tool=self.of.method,
            caller=context.caller,
            run_id=context.run_id,
            call_id=context.call_id,
            session_id=context.session_id,
            arguments=dict(arguments),
            time_ns=time.time_ns(),
        )

    def _found(self, value: object, context: ToolContext) -> object:
        """Nothing from ``get`` is an answer that the model can act on."""
        if value is not None or self.of.method != "get":
            return value
        words = f"There is no such {self.of.resource}."
        raise ToolError(
            Failure(FailurePhase.TOOL, Reason.TOOL_FAILED, words, call_id=context.call_id, origin=self.of.resource)
        )


def _is_tx(annotation: Any) -> bool:
    return get_origin(annotation) is Annotated and _InTransaction in get_args(annotation)[1:]


def expanded(items: Sequence[object]) -> list[Callable[..., object]]:
    """The functions, with those of each resource in its place. Raises ConfigError."""
    found: list[Callable[..., object]] = []
    for item in items:
        found += resource_functions(item) if is_resource(item) else [cast("Callable[..., object]", item)]
    return found
