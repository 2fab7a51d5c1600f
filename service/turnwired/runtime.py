"""The engine in the process of a program: ``Runtime`` runs turns without a server and without a socket.

It is wired by ``app`` exactly as a server is, and a turn is held to the same rules. It may not know an adapter by name,
nor anything of the contract's messages.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, cast

import anyio

from turnwired.app import Additions, assembled, configured
from turnwired.codec.following import read_frame
from turnwired.codec.frame import Visibility
from turnwired.config.load import PROGRAM
from turnwired.config.model import MEMORY, Config, ProviderConfig
from turnwired.domain.approval import Approval, ApprovalDecision, ApprovalState
from turnwired.domain.attachment import AttachedFile
from turnwired.domain.errors import FieldViolation, InvalidRequest, TurnwireError, Unavailable
from turnwired.domain.event import LoggedEvent, ModelUsage, RunFinished
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.message import Message, Part, Role, Text
from turnwired.domain.model import ModelSelection, OutputFormat
from turnwired.domain.outcome import Outcome, OutcomeKind
from turnwired.domain.policy import NO_POLICY, EffectivePolicy, Policy
from turnwired.domain.run import Caller, Cursor, OnDisconnect, Run, TurnSpec
from turnwired.domain.tool import ToolSelection
from turnwired.domain.trace import RunTrace
from turnwired.domain.usage import Cost, Usage
from turnwired.engine.live import Accepted
from turnwired.engine.service import Engine
from turnwired.engine.steering import Answer
from turnwired.policy.leaves import policy_of
from turnwired.policy.validate import read_policy, require_valid
from turnwired.providers.port import ModelProvider
from turnwired.rpc.inside import checked, checked_input
from turnwired.runtime_calls import OwnCalls
from turnwired.store.port import ApprovalFilter
from turnwired.tools.port import Toolset, ToolView
from turnwired.tools.registry import Source

logger = logging.getLogger(__name__)

ATTACH_ATTEMPTS = 10
"""How often a run's log is taken up again, about once a second, while the store that it is in does not work."""
SETTLE_SECONDS = 10.0
"""How long a caller that was cancelled waits for its run to settle; the run goes on to its end without it."""
CALLER_GONE = Failure(
    FailurePhase.MODEL, Reason.CANCELLED, "The task that ran the turn was cancelled, or its on_event raised."
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rewound:
    """What was told after event ``sequence`` was not stored when the store failed, and never happened."""

    sequence: int


@dataclass(frozen=True, slots=True)
class TurnResult:
    """A settled run: what RunFinished says, and the ids. ``trace`` is there unless the run was answered, or if it was
    asked for with ``include_trace``.
    """

    run_id: str
    session_id: str | None
    outcome: Outcome
    message: Message | None = None
    structured_output_json: str | None = None
    usage: Usage = field(default_factory=Usage)
    cost: Cost | None = None
    model_usage: tuple[ModelUsage, ...] = ()
    iteration_count: int = 0
    tool_call_count: int = 0
    trace: RunTrace | None = None

    @property
    def answered(self) -> bool:
        """Whether the outcome is ANSWERED."""
        return self.outcome.kind is OutcomeKind.ANSWERED

    @property
    def text(self) -> str:
        """The text of the final message; empty when there is none."""
        parts = self.message.parts if self.message is not None else ()
        return "".join(part.content.text for part in parts if isinstance(part.content, Text))

    @property
    def structured_output(self) -> object:
        """The structured output as a Python value; None when there is none."""
        return None if self.structured_output_json is None else json.loads(self.structured_output_json)


OnEvent = Callable[[LoggedEvent | Rewound], Awaitable[None] | None]
OnSettle = Callable[[TurnResult], Awaitable[None] | None]


def _tell_awaited(set_ids: Sequence[str]) -> None:
    logger.info("waiting for tool sources that have not answered yet: %s", ", ".join(set_ids))


class Runtime:
    """Runs turns in this process, on asyncio. An async context manager; any number of turns may run at once.

    ``config``: a ``Config``, the path of a configuration file, a mapping in the shape of one, or None for what
    ``turnwire serve`` would read. Where neither a file nor the mapping says where to store, runs are kept in memory.
    ``tools`` are Python functions, resources and sources under their tools' own names, ``toolsets`` sources with their
    ids in front, beside those of the configuration (``turnwired.tools.decorators`` wraps either kind of source).
    ``providers`` stand in for those that the configuration calls so. All of them are closed with the runtime.

    Entering waits until the tool sources have answered, and 10 seconds at most for those that do not; it raises
    ConfigError. Leaving lets the runs in flight finish within ``server.grace_seconds`` and cancels the rest; when an
    exception leaves it, all are cancelled at once. Either way each has settled then.
    """

    def __init__(
        self,
        config: Config | os.PathLike[str] | str | Mapping[str, object] | None = None,
        *,
        tools: Sequence[object] = (),
        toolsets: Sequence[Toolset] = (),
        providers: Mapping[str, ModelProvider] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._given = config
        self._environ = dict(os.environ if environ is None else environ)
        sources = [Source(toolset, namespace=toolset.set_id) for toolset in toolsets]
        self._additions = Additions(tuple(tools), tuple(sources), dict(providers or {}))
        self._stack = AsyncExitStack()
        self._engine: Engine | None = None
        self._grace = 0.0

    async def __aenter__(self) -> Self:
        if self._engine is not None:
            raise RuntimeError("a Runtime is entered once; make another one")
        config = self._configuration()
        self._grace = config.server.grace_seconds
        assembly = await self._stack.enter_async_context(assembled(config, self._environ, self._additions))
        self._engine = assembly.engine
        try:
            await assembly.discovery.wait(_tell_awaited)
        except BaseException:  # nothing that is entered is left to itself
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._running().stop(self._grace if kind is None else 0.0)
        finally:
            await self._stack.aclose()

    async def run_turn(
        self,
        input: str | Message | Sequence[Message],  # noqa: A002 - the contract's word
        *,
        agent: str = "",
        session_id: str | None = None,
        policies: Policy | Mapping[str, object] | None = None,
        model: ModelSelection | str | None = None,
        tools: ToolSelection | None = None,
        client_tools: Sequence[Callable[..., object]] = (),
        attachments: Sequence[AttachedFile] = (),
        output_schema: Mapping[str, object] | str | None = None,
        include_trace: bool = False,
        request_id: str = "",
        labels: Mapping[str, str] | None = None,
        on_event: OnEvent | None = None,
        on_settle: OnSettle | None = None,
        caller: Caller | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> TurnResult:
        """Run one turn to its settled end and return that. However the run ends, it ends in a result.

        ``policies`` is the run's layer of policy, as a Policy or as in the file (``{"loop": {"max_steps": 3}}``).
        ``client_tools`` are functions that are tools of this turn alone; they run here, while the run waits for them.
        ``attachments`` are files that the input refers to by ``AttachmentRef``; one without bytes is awaited.
        ``model`` may be ``"provider/model"``. ``output_schema`` is the JSON Schema of the answer. ``headers`` may carry
        a ``traceparent``. ``on_event`` gets every event of the run's log, in order; a slow one slows only itself.
        ``on_settle`` gets the result once, also when this task is cancelled.

        Cancelling the task cancels the run, with or without a session, and waits for it to settle; so does an exception
        of ``on_event``, which is raised here. Only a run that ``request_id`` found already started goes on.

        Raises RequestError for a turn that cannot be taken (then there is no run), and Unavailable when the run's end
        could not be learned because the store does not work.
        """
        engine = self._running()
        who = caller or Caller()
        selected = tools or ToolSelection()
        own = OwnCalls(client_tools) if client_tools else None
        spec = TurnSpec(
            caller=who,
            input=_messages(input),
            request_id=request_id,
            agent_id=agent,
            session_id=session_id,
            policy=_policy(policies),
            tools=selected if own is None else await own.selection(selected),
            model=_model(model),
            output_format=_output_format(output_schema),
            include_trace=include_trace,
            labels=dict(labels or {}),
            on_disconnect=OnDisconnect.CANCEL,
        )
        run = _Reader(engine, who, on_event, on_settle, own)
        starting = asyncio.create_task(engine.start_turn(checked(spec, attachments), headers))
        try:
            run.accepted = await asyncio.shield(starting)
            await run.read()
        except BaseException:
            async with _in_peace():
                run.accepted = await starting
                await run.leave()
            raise
        finally:
            if own is not None:
                await own.close()
        return await run.settle()

    async def cancel_run(self, run_id: str, *, caller: Caller | None = None) -> Run:
        """Ask a run to stop; whoever runs it gets its result. Idempotent. Raises NotFound."""
        failure = Failure(FailurePhase.MODEL, Reason.CANCELLED, "cancel_run was called.")
        return await self._running().cancel_run(caller or Caller(), run_id, failure)

    async def list_approvals(
        self, *, run_id: str | None = None, session_id: str | None = None, caller: Caller | None = None
    ) -> Sequence[Approval]:
        """The questions that nobody has answered, oldest first; at most 500."""
        pending = (ApprovalState.PENDING,)
        query = ApprovalFilter((caller or Caller()).tenant, run_id=run_id, session_id=session_id, states=pending)
        return (await self._running().steering.list_approvals(query, 500, ""))[0]

    async def resolve_approval(
        self,
        approval: Approval,
        decision: ApprovalDecision | str,
        *,
        always_patterns: Sequence[str] = (),
        comment: str = "",
        input: Mapping[str, object] | None = None,  # noqa: A002 - the contract's word
        caller: Caller | None = None,
    ) -> Run:
        """Answer a question: ``"ONCE"``, ``"ALWAYS"`` or ``"REJECT"``; returns when the decision is stored.

        ``comment`` is told to the model on REJECT; ``input`` is what a tool asked for, as its ``input_schema_json``
        says. The answer holds for the call of ``approval`` and no other. Raises NotFound, InvalidRequest for input that
        does not match, and Conflict when somebody answered otherwise or the run has ended.
        """
        filled = None if input is None else json.dumps(input)
        given = Answer(ApprovalDecision(decision), tuple(always_patterns), comment, approval.call_digest, filled)
        steering = self._running().steering
        return await steering.resolve(caller or Caller(), approval.run_id, approval.approval_id, given)

    async def append_input(
        self,
        run_id: str,
        input: str | Message | Sequence[Message] = (),  # noqa: A002 - the contract's word
        *,
        attachments: Sequence[AttachedFile] = (),
        request_id: str = "",
        caller: Caller | None = None,
    ) -> Run:
        """Add the user's words, or files, to a run in progress: its model reads them in the next iteration.

        The same ``request_id`` again adds nothing. Raises NotFound, InvalidRequest, and Conflict RUN_SETTLED when there
        will be no next iteration.
        """
        messages, files = checked_input(run_id, request_id, _messages(input), attachments)
        steering = self._running().steering
        return (await steering.append_input(caller or Caller(), run_id, request_id, messages, files))[1]

    async def get_run(self, run_id: str, *, caller: Caller | None = None) -> Run:
        """A run as it stands. Raises NotFound."""
        return await self._running().get_run(caller or Caller(), run_id)

    async def get_trace(self, run_id: str, *, caller: Caller | None = None) -> RunTrace:
        """What a run did so far, of any outcome. Raises NotFound."""
        return await self._running().get_trace(caller or Caller(), run_id)

    async def list_tools(self, agent: str = "", *, caller: Caller | None = None) -> ToolView:
        """The tools that an agent sees, and what is left out and why. Raises NotFound."""
        return await self._running().list_tools(caller or Caller(), agent, ToolSelection())

    def resolve_policy(
        self,
        agent: str = "",
        *,
        policies: Policy | Mapping[str, object] | None = None,
        model: ModelSelection | str | None = None,
        caller: Caller | None = None,
    ) -> EffectivePolicy:
        """The policy that a run would get, with the layer that supplied each value. Raises NotFound, InvalidRequest."""
        policy = _policy(policies)
        require_valid(policy, "policy")
        return self._running().resolve_policy(caller or Caller(), agent, _model(model), policy)

    def _running(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("a Runtime runs turns inside of `async with`")
        return self._engine

    def _configuration(self) -> Config:
        given, added = self._given, self._additions.providers
        match given:
            case Config():
                config = given
            case Mapping():
                named = cast("Mapping[str, object]", given.get("providers", {}))
                stand_ins = {name: _stand_in(provider) for name, provider in added.items() if name not in named}
                providers = {**named, **stand_ins}
                config = configured({**given, **({"providers": providers} if providers else {})}, self._environ)
            case _:
                config = configured(None if given is None else Path(given), self._environ)
        missing = {name: _stand_in(provider) for name, provider in added.items() if name not in config.providers}
        if missing:
            read = {name: ProviderConfig.model_validate(data) for name, data in missing.items()}
            config = config.model_copy(update={"providers": {**config.providers, **read}})
        if "store" not in config.model_fields_set and config.source in (PROGRAM, "built-in"):
            config = config.model_copy(update={"store": config.store.model_copy(update={"path": MEMORY})})
        return config


class _Reader:
    """Reads one run's log to its end, and tells the caller of it. ``accepted`` is set when there is a run."""

    def __init__(
        self,
        engine: Engine,
        caller: Caller,
        on_event: OnEvent | None,
        on_settle: OnSettle | None,
        own: OwnCalls | None,
    ) -> None:
        self._own = own
        self.accepted: Accepted | None = None
        self._engine = engine
        self._caller = caller
        self._on_event = on_event
        self._on_settle = on_settle
        self._cursor = Cursor()
        self._refused = False
        self._finished: RunFinished | None = None

    @property
    def _run(self) -> Accepted:
        assert self.accepted is not None, "only a run that was accepted is read"
        return self.accepted

    async def read(self) -> None:
        """To the end of the run, across failures of the store. Raises what ``on_event`` raises, and Unavailable."""
        failures = 0
        while self._finished is None:
            before = self._cursor
            level = Visibility.OUTCOME if self._own is None else Visibility.MILESTONE
            level = level if self._on_event is None else Visibility.DELTA
            try:
                await self._engine.follow(self._caller, self._run.run_id, self._cursor, level, self._take)
            except Unavailable as error:
                failures = 1 if self._cursor != before else failures + 1
                if self._refused or failures >= ATTACH_ATTEMPTS:
                    raise
                await anyio.sleep(error.retry_after or 1.0)

    async def leave(self) -> None:
        """The caller is gone: end the run, unless it is another's, and tell ``on_settle`` how it ended."""
        if not self._run.existing:
            await self._engine.cancel_run(self._caller, self._run.run_id, CALLER_GONE)
            await self.settle()

    async def settle(self) -> TurnResult:
        """The settled result, whether or not all events were told before. Tells ``on_settle``."""
        self._on_event = self._own = None
        await self.read()
        finished = self._finished
        assert finished is not None, "a log that was read to its end ends with RunFinished"
        result = TurnResult(
            self._run.run_id,
            self._run.session_id,
            finished.outcome,
            finished.message,
            finished.structured_output_json,
            finished.usage,
            finished.cost,
            finished.model_usage,
            finished.iteration_count,
            finished.tool_call_count,
            finished.trace,
        )
        await _tell(self._on_settle, result)
        return result

    async def _take(self, data: bytes) -> None:
        frame = read_frame(data)
        if frame.rewind is not None:
            await self._tell(Rewound(frame.rewind))
        for logged in frame.events:
            if self._own is not None:
                self._own.take(self._engine, self._caller, self._run.run_id, self._run.session_id, logged)
            await self._tell(logged)
            if isinstance(logged.event, RunFinished):
                self._finished = logged.event
        self._cursor = frame.cursor

    async def _tell(self, item: LoggedEvent | Rewound) -> None:
        try:
            await _tell(self._on_event, item)
        except BaseException:
            self._refused = True
            raise


async def _tell(callback: Callable[[T], Awaitable[None] | None] | None, item: T) -> None:
    told = None if callback is None else callback(item)
    if inspect.isawaitable(told):
        await told


@asynccontextmanager
async def _in_peace() -> AsyncIterator[None]:
    """For what a cancelled task has to do still, in bounded time. A store that fails then hides no cancellation."""
    with anyio.move_on_after(SETTLE_SECONDS, shield=True), suppress(TurnwireError):
        yield


def _messages(given: str | Message | Sequence[Message]) -> tuple[Message, ...]:
    match given:
        case str():
            return (Message(Role.USER, (Part("", Text(given)),)),)
        case Message():
            return (given,)
        case _:
            return tuple(given)


def _policy(given: Policy | Mapping[str, object] | None) -> Policy:
    if given is None or isinstance(given, Policy):
        return given or NO_POLICY
    values, found = read_policy(given, "turn.policy")
    if found:
        raise InvalidRequest([FieldViolation(item.field, item.description) for item in found])
    return policy_of(values)


def _model(given: ModelSelection | str | None) -> ModelSelection | None:
    if not isinstance(given, str):
        return given
    provider, _, model = given.partition("/")
    return ModelSelection(provider, model)


def _output_format(schema: Mapping[str, object] | str | None) -> OutputFormat | None:
    if schema is None:
        return None
    return OutputFormat(schema if isinstance(schema, str) else json.dumps(schema))


def _stand_in(provider: ModelProvider) -> dict[str, object]:
    """What the configuration says of a provider that a program hands over. Its prices are not looked up."""
    return {"profile": "openai-compatible", "models": list(provider.info.models), "list_prices": False}
