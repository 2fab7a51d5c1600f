"""Turns in the process of a program: results, events, cancellation, and the rules that hold as over the wire."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import anyio
import psutil
import pytest
from engine.faults import FaultyStore

import turnwired
from turnwired import Rewound, Runtime, TurnResult
from turnwired.config.load import read_config
from turnwired.config.model import Config
from turnwired.domain.errors import ConfigError, InvalidRequest, Unavailable
from turnwired.domain.event import LoggedEvent, RunFinished, RunStarted, TextDelta, ToolCallFinished
from turnwired.domain.failure import Reason
from turnwired.domain.message import Message, Part, Role, Text, ToolResultStatus
from turnwired.domain.model import ModelSelection, OutputFormat
from turnwired.domain.outcome import Outcome, OutcomeKind
from turnwired.domain.policy import LoopPolicy, Policy, PolicyLayer
from turnwired.domain.run import Caller, OnDisconnect, RunState, TurnSpec
from turnwired.domain.tool import ToolSelection
from turnwired.engine.live import Accepted
from turnwired.engine.service import Engine
from turnwired.testing.provider import ScriptedProvider, Step, answer, calls

pytestmark = pytest.mark.anyio

LIMIT = 10.0


async def find_order(number: int) -> str:
    """Find an order by its number."""
    return f"Order {number} is on its way."


def runtime(*script: list[Step], **agents: dict[str, object]) -> Runtime:
    """A runtime with a scripted model and one tool, in memory."""
    return Runtime(
        {"agents": agents or {"default": {"instructions": "Be brief."}}},
        tools=[find_order],
        providers={"scripted": ScriptedProvider(list(script))},
        environ={},
    )


async def never() -> None:
    """Waits for as long as it may."""
    await asyncio.Event().wait()


@pytest.mark.requirement("KIT-1", "KIT-2")
async def test_a_turn_with_a_tool_returns_its_result_and_tells_its_events() -> None:
    told: list[LoggedEvent | Rewound] = []
    settled: list[TurnResult] = []
    async with runtime(calls(("find_order", '{"number":4711}')), answer("On its ", "way.")) as r:
        result = await r.run_turn("Where is 4711?", on_event=told.append, on_settle=settled.append)
        run = await r.get_run(result.run_id)
    assert (result.answered, result.text, result.tool_call_count, result.iteration_count) == (True, "On its way.", 1, 2)
    assert result.usage.input_tokens == 200
    assert result.trace is None
    assert settled == [result]
    events = [item for item in told if isinstance(item, LoggedEvent)]
    assert [item.sequence for item in events] == list(range(1, len(told) + 1))
    assert isinstance(events[0].event, RunStarted)
    assert isinstance(events[-1].event, RunFinished)
    assert [item.event.text for item in events if isinstance(item.event, TextDelta)] == ["On its ", "way."]
    (finished,) = [item.event for item in events if isinstance(item.event, ToolCallFinished)]
    assert finished.result.status is ToolResultStatus.OK
    assert (run.state, run.message) == (RunState.SETTLED, result.message)


@pytest.mark.requirement("KIT-1")
async def test_no_socket_is_opened() -> None:
    process = psutil.Process()
    before = {item.laddr for item in process.net_connections("all") if item.status == psutil.CONN_LISTEN}
    async with runtime(answer("a")) as r:
        await r.run_turn("x")
        during = {item.laddr for item in process.net_connections("all") if item.status == psutil.CONN_LISTEN}
    assert during == before


@pytest.mark.requirement("KIT-1")
async def test_the_trace_is_there_when_it_is_asked_for_then_or_later() -> None:
    async with runtime(answer("a"), answer("b")) as r:
        first = await r.run_turn("x", include_trace=True)
        second = await r.run_turn("x")
        later = await r.get_trace(second.run_id)
    assert first.trace is not None
    assert second.trace is None
    assert len(later.entries) == len(first.trace.entries) == 1


@pytest.mark.requirement("KIT-2")
async def test_callbacks_may_be_async_and_a_run_without_listeners_is_read_by_its_ends_only() -> None:
    told: list[LoggedEvent | Rewound] = []
    settled = asyncio.Event()

    async def listen(item: LoggedEvent | Rewound) -> None:
        await asyncio.sleep(0)
        told.append(item)

    async def settle(result: TurnResult) -> None:
        await asyncio.sleep(0)
        settled.set()

    async with runtime(answer("a"), answer("b")) as r:
        await r.run_turn("x", on_event=listen, on_settle=settle)
        assert settled.is_set()
        assert len(told) > 3
        assert (await r.run_turn("x")).text == "b"


@pytest.mark.requirement("KIT-1")
async def test_a_session_remembers_and_a_turn_may_bring_its_own_history() -> None:
    provider = ScriptedProvider([answer("one"), answer("two"), answer("three")])
    async with Runtime({}, providers={"scripted": provider}, environ={}) as r:
        await r.run_turn("first", session_id="s")
        await r.run_turn("second", session_id="s")
        history = [Message(role, (Part("", Text(role.value)),)) for role in (Role.USER, Role.ASSISTANT, Role.USER)]
        await r.run_turn(history)
    assert [message["parts"] for message in provider.messages(1)] == [["first"], ["one"], ["second"]]
    assert [message["role"] for message in provider.messages(2)] == ["USER", "ASSISTANT", "USER"]


@pytest.mark.requirement("KIT-1")
async def test_every_ending_is_a_result_with_its_trace() -> None:
    async with runtime(calls(("find_order", '{"number":1}'))) as r:
        result = await r.run_turn("x", policies={"loop": {"max_steps": 1}})
    assert result.outcome.kind is OutcomeKind.MAX_STEPS
    assert not result.answered
    assert result.trace is not None
    assert result.outcome.limit_trip is not None


@pytest.mark.requirement("KIT-3")
@pytest.mark.parametrize("session_id", [None, "s"])
async def test_cancelling_the_task_cancels_the_run_and_waits_for_its_end(session_id: str | None) -> None:
    provider = ScriptedProvider([[*answer("partial")[:1], never]])
    settled: list[TurnResult] = []
    spoke = asyncio.Event()

    def listen(item: LoggedEvent | Rewound) -> None:
        if isinstance(item, LoggedEvent) and isinstance(item.event, TextDelta):
            spoke.set()

    async with Runtime({}, providers={"scripted": provider}, environ={}) as r:
        turn = asyncio.create_task(r.run_turn("x", session_id=session_id, on_event=listen, on_settle=settled.append))
        async with asyncio.timeout(LIMIT):
            await spoke.wait()
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
        assert provider.closed == 1
        (result,) = settled
        assert (await r.get_run(result.run_id)).state is RunState.SETTLED
    assert result.outcome.kind is OutcomeKind.ABORTED
    assert result.outcome.partial
    assert result.text == "partial"


@pytest.mark.requirement("KIT-3")
async def test_a_task_that_is_cancelled_while_its_turn_is_accepted_ends_the_run_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = FaultyStore(create_gate=asyncio.Event())
    monkeypatch.setattr("turnwired.app.MemoryStore", lambda: store)
    settled: list[TurnResult] = []
    async with runtime([never]) as r, asyncio.timeout(LIMIT):
        turn = asyncio.create_task(r.run_turn("x", session_id="s", on_settle=settled.append))
        await store.held.wait()
        turn.cancel()
        assert store.create_gate is not None
        store.create_gate.set()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert [result.outcome.kind for result in settled] == [OutcomeKind.ABORTED]


@pytest.mark.requirement("KIT-3")
async def test_leaving_a_cancelled_scope_waits_for_the_end_of_the_run_as_well() -> None:
    settled: list[TurnResult] = []
    async with runtime([never]) as r, asyncio.timeout(LIMIT):
        async with anyio.create_task_group() as group:

            async def turn() -> None:
                await r.run_turn("x", on_event=lambda _: group.cancel_scope.cancel(), on_settle=settled.append)

            group.start_soon(turn)
        assert [result.outcome.kind for result in settled] == [OutcomeKind.ABORTED]


@pytest.mark.requirement("KIT-3")
async def test_a_run_can_be_cancelled_by_its_id_and_its_caller_gets_the_result() -> None:
    ids: asyncio.Queue[str] = asyncio.Queue()

    def listen(item: LoggedEvent | Rewound) -> None:
        if isinstance(item, LoggedEvent) and isinstance(item.event, RunStarted):
            ids.put_nowait(item.event.run_id)

    async with runtime([never]) as r, asyncio.timeout(LIMIT):
        turn = asyncio.create_task(r.run_turn("x", on_event=listen))
        run_id = await ids.get()
        await r.cancel_run(run_id)
        await r.cancel_run(run_id)
        result = await turn
    assert result.outcome.kind is OutcomeKind.ABORTED
    assert result.outcome.failure is not None
    assert result.outcome.failure.reason is Reason.CANCELLED


@pytest.mark.requirement("KIT-3")
async def test_a_caller_that_only_attached_by_its_request_id_ends_no_run_of_another() -> None:
    gate, started, spoke = asyncio.Event(), asyncio.Event(), asyncio.Event()
    async with runtime([*answer("a")[:1], gate.wait, *answer("b")]) as r, asyncio.timeout(LIMIT):
        first = asyncio.create_task(r.run_turn("x", request_id="one", on_event=lambda _: started.set()))
        await started.wait()
        second = asyncio.create_task(r.run_turn("x", request_id="one", on_event=lambda _: spoke.set()))
        await spoke.wait()
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        gate.set()
        assert (await first).text == "ab"


@pytest.mark.requirement("KIT-4")
async def test_what_on_event_raises_reaches_the_caller_and_ends_the_run() -> None:
    settled: list[TurnResult] = []

    def listen(item: LoggedEvent | Rewound) -> None:
        if isinstance(item, LoggedEvent) and isinstance(item.event, TextDelta):
            raise Unavailable(Reason.OVERLOADED, "mine")

    async with runtime([*answer("a")[:1], never], answer("b")) as r, asyncio.timeout(LIMIT):
        with pytest.raises(Unavailable, match="mine"):
            await r.run_turn("x", on_event=listen, on_settle=settled.append)
        assert [result.outcome.kind for result in settled] == [OutcomeKind.ABORTED]
        assert (await r.run_turn("x")).text == "b"


@pytest.mark.requirement("KIT-5")
@pytest.mark.parametrize(
    ("turn", "field"),
    [
        ({"input": "  "}, "turn.input[0].parts"),
        ({"input": []}, "turn.input"),
        ({"input": "\ud800"}, "turn"),
        ({"input": "x", "session_id": "no id!"}, "turn.session_id"),
        ({"input": "x", "policies": {"loop": {"max_stepz": 1}}}, "turn.policy.loop.max_stepz"),
        ({"input": "x", "policies": {"loop": {"max_steps": 0}}}, "turn.policy.loop.max_steps"),
        ({"input": "x", "policies": Policy(loop=LoopPolicy(max_steps=0))}, "turn.policy.loop.max_steps"),
        ({"input": "x", "model": "nobody/m"}, "turn.model.provider"),
    ],
)
async def test_a_turn_that_a_server_would_refuse_is_refused_with_the_same_path(
    turn: dict[str, object], field: str
) -> None:
    async with runtime() as r:
        with pytest.raises(InvalidRequest) as refused:
            await r.run_turn(**turn)  # type: ignore[arg-type]
    assert refused.value.violations[0].field == field


@pytest.mark.requirement("KIT-5")
async def test_every_argument_of_a_turn_reaches_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[TurnSpec, object]] = []

    async def start_turn(engine: Engine, spec: TurnSpec, headers: object) -> Accepted:
        taken.append((spec, headers))
        raise Unavailable(Reason.OVERLOADED, "not today")

    monkeypatch.setattr(Engine, "start_turn", start_turn)
    monkeypatch.setattr(
        "turnwired.runtime.checked", lambda spec, files: spec
    )  # the formats that it takes are its own affair
    caller, tools = Caller("t", "p"), ToolSelection(include=("find_*",))
    async with runtime() as r:
        with pytest.raises(Unavailable, match="not today"):
            await r.run_turn(
                "x",
                agent="a",
                session_id="s",
                policies={"loop": {"max_steps": 2}},
                model="scripted/m/x",
                tools=tools,
                output_schema={"type": "object"},
                include_trace=True,
                request_id="r",
                labels={"k": "v"},
                caller=caller,
                headers={"traceparent": "00-1-2-3"},
            )
        for schema in ('{"type": "string"}', None):
            with pytest.raises(Unavailable):
                await r.run_turn("x", output_schema=schema)
    ((spec, headers), (text, _), (plain, _)) = taken
    user = (Message(Role.USER, (Part("", Text("x")),)),)
    assert spec == TurnSpec(
        caller=caller,
        input=user,
        request_id="r",
        agent_id="a",
        session_id="s",
        policy=Policy(loop=LoopPolicy(max_steps=2)),
        tools=tools,
        model=ModelSelection("scripted", "m/x"),
        output_format=OutputFormat('{"type": "object"}'),
        include_trace=True,
        labels={"k": "v"},
        on_disconnect=OnDisconnect.CANCEL,
    )
    assert headers == {"traceparent": "00-1-2-3"}
    assert text.output_format == OutputFormat('{"type": "string"}')
    assert plain == TurnSpec(Caller(), user, on_disconnect=OnDisconnect.CANCEL)


@pytest.mark.requirement("KIT-1")
async def test_an_answer_that_must_match_a_schema_is_a_value() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    async with runtime(answer('{"city": "Tokyo"}')) as r:
        result = await r.run_turn("Where is it?", output_schema=schema)
    assert (result.answered, result.structured_output) == (True, {"city": "Tokyo"})


@pytest.mark.requirement("KIT-1")
async def test_a_result_gives_its_structured_output_as_a_value() -> None:
    outcome = Outcome(OutcomeKind.ANSWERED)
    assert TurnResult("r", None, outcome, structured_output_json='{"a": [1]}').structured_output == {"a": [1]}
    assert TurnResult("r", None, outcome).structured_output is None


@pytest.mark.requirement("KIT-5")
async def test_the_policy_that_a_run_would_get_is_shown_with_its_layers() -> None:
    async with runtime(default={"policy": {"loop": {"max_steps": 4}}}) as r:
        effective = r.resolve_policy(policies={"retry": {"max_attempts": 2}})
        with pytest.raises(InvalidRequest):
            r.resolve_policy(policies={"loop": {"max_steps": 0}})
    layers = {leaf.path: leaf.layer for leaf in effective.provenance}
    assert (effective.policy.loop.max_steps, layers["loop.max_steps"]) == (4, PolicyLayer.AGENT)
    assert (effective.policy.retry.max_attempts, layers["retry.max_attempts"]) == (2, PolicyLayer.RUN)


@pytest.mark.requirement("KIT-6")
async def test_turns_run_side_by_side_and_leaving_settles_what_still_runs() -> None:
    script: list[Step] = [answer("a")[0], never]
    settled: list[TurnResult] = []
    both = asyncio.Event()
    begun = 0

    def listen(item: LoggedEvent | Rewound) -> None:
        nonlocal begun
        if isinstance(item, LoggedEvent) and isinstance(item.event, TextDelta):
            begun += 1
            if begun == 2:
                both.set()

    turns: list[asyncio.Task[TurnResult]] = []

    async def leave_early(r: Runtime) -> None:
        async with r, asyncio.timeout(LIMIT):
            turns.extend(
                asyncio.create_task(r.run_turn("x", on_event=listen, on_settle=settled.append)) for _ in range(2)
            )
            await both.wait()
            raise LookupError("mine")

    r = runtime(script, script)
    with pytest.raises(LookupError, match="mine"):
        await leave_early(r)
    results = await asyncio.wait_for(asyncio.gather(*turns), LIMIT)
    assert [result.outcome.kind for result in results] == [OutcomeKind.ABORTED, OutcomeKind.ABORTED]
    assert len(settled) == 2
    with pytest.raises(Unavailable):
        await r.run_turn("x")


@pytest.mark.requirement("KIT-6")
async def test_leaving_lets_a_turn_finish_within_the_grace() -> None:
    gate = asyncio.Event()
    started = asyncio.Event()
    async with runtime([*answer("a")[:1], gate.wait, *answer("b")]) as r, asyncio.timeout(LIMIT):
        turn = asyncio.create_task(r.run_turn("x", on_event=lambda _: started.set()))
        await started.wait()
        asyncio.get_running_loop().call_soon(gate.set)
    assert (await turn).answered


@pytest.mark.requirement("KIT-9")
async def test_a_store_that_fails_ends_the_run_visibly_and_the_reader_is_told_what_never_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = FaultyStore()
    monkeypatch.setattr("turnwired.app.MemoryStore", lambda: store)
    monkeypatch.setattr("turnwired.engine.log.STORE_RETRY_SECONDS", 0.001)
    told: list[LoggedEvent | Rewound] = []

    def listen(item: LoggedEvent | Rewound) -> None:
        told.append(item)
        if isinstance(item, LoggedEvent) and isinstance(item.event, TextDelta):
            store.fail_next = 6  # as often as the log tries

    async with runtime(answer("lost"), answer("kept")) as r, asyncio.timeout(LIMIT):
        result = await r.run_turn("x", on_event=listen)
        again = await r.run_turn("x")
    rewound = [item for item in told if isinstance(item, Rewound)]
    assert len(rewound) == 1
    after = told[told.index(rewound[0]) + 1 :]
    sequences = [item.sequence for item in after if isinstance(item, LoggedEvent)]
    assert sequences == list(range(rewound[0].sequence + 1, rewound[0].sequence + 1 + len(after)))
    assert result.outcome.failure is not None
    assert result.outcome.failure.reason is Reason.STORE_UNAVAILABLE
    assert again.text == "kept"


@pytest.mark.requirement("KIT-7")
async def test_a_runtime_is_made_from_a_file_and_finds_the_tools_beside_it(tmp_path: Path) -> None:
    (tmp_path / "kit7_tools.py").write_text('def ping() -> str:\n    """Ping."""\n    return "pong"\n')
    file = tmp_path / "agent.toml"
    file.write_text(
        '[agents.a]\nmodel = "scripted/scripted-model"\n[providers.scripted]\n'
        'profile = "openai-compatible"\nmodels = ["scripted-model"]\n'
        f'[tools]\npython = ["kit7_tools:ping"]\n[store]\npath = "{tmp_path}/kept.db"\n'
    )
    provider = ScriptedProvider([calls(("ping", "{}")), answer("done")])
    async with Runtime(file, providers={"scripted": provider}, environ={}) as r:
        assert [tool.ref.routed_name for tool in (await r.list_tools("a")).tools] == ["ping"]
        assert (await r.run_turn("x")).tool_call_count == 1
    assert (tmp_path / "kept.db").exists()


@pytest.mark.requirement("KIT-31")
@pytest.mark.parametrize(
    "section",
    ['[hooks]\npython = ["{module}:Audit"]\n', '[completion.hooks]\ncareful = "{module}:careful"\n'],
    ids=["hooks", "completion"],
)
async def test_hooks_too_are_found_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, section: str
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    module = f"kit31_{request.node.callspec.id}"
    (tmp_path / f"{module}.py").write_text(
        "class Audit:\n    def on_settle(self, settled):\n        pass\n\n\ndef careful(request):\n    return None\n"
    )
    file = tmp_path / "turnwire.toml"
    file.write_text(section.format(module=module) + '[store]\npath = "memory"\n')
    async with Runtime(
        file, providers={"openai": ScriptedProvider([answer("a")])}, environ={"OPENAI_API_KEY": "k"}
    ) as r:
        assert (await r.run_turn("x")).answered


@pytest.mark.requirement("KIT-31")
@pytest.mark.parametrize(
    ("section", "words"),
    [
        ('[hooks]\npython = ["kit31_no:Audit"]', "there is no module 'kit31_no', neither installed nor beside"),
        ('[completion.hooks]\nc = "kit31_no:c"', "there is no module 'kit31_no', neither installed nor beside"),
        ('[tools]\npython = ["kit31_no:c"]', "there is no module 'kit31_no', neither installed nor beside"),
        ('[hooks]\npython = ["json:Audit"]', "the module 'json' has no 'Audit'"),
    ],
)
async def test_what_is_not_there_is_named(tmp_path: Path, section: str, words: str) -> None:
    file = tmp_path / "turnwire.toml"
    file.write_text(f'{section}\n[store]\npath = "memory"\n')
    with pytest.raises(ConfigError, match=words):
        async with Runtime(file, environ={}):
            raise AssertionError("it started")


@pytest.mark.requirement("KIT-7")
async def test_without_a_file_nothing_is_written_unless_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scripted = {"scripted": ScriptedProvider([answer("a")], repeat_last=True)}
    configs: list[Config | dict[str, object] | None] = [None, {}, read_config({}, {"OPENAI_API_KEY": "k"})]
    for config in configs:
        async with Runtime(config, providers=scripted, environ={"OPENAI_API_KEY": "k"}) as r:
            assert (await r.run_turn("x", model="scripted/scripted-model")).answered
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - a path object is asked for nothing on the loop
    async with Runtime({"store": {"path": "kept.db"}}, providers=scripted, environ={}) as r:
        await r.run_turn("x")
    assert (tmp_path / "kept.db").exists()


@pytest.mark.requirement("KIT-7")
async def test_a_configuration_that_cannot_be_used_says_why_and_turns_need_an_open_runtime() -> None:
    with pytest.raises(ConfigError, match=r"program: agents\.a\.modell: unknown key; did you mean model"):
        async with Runtime({"agents": {"a": {"modell": "x/y"}}}, environ={}):
            pass
    closed = runtime()
    with pytest.raises(RuntimeError, match="async with"):
        await closed.run_turn("x")
    async with closed:
        pass
    with pytest.raises(RuntimeError, match="entered once"):
        await closed.__aenter__()


@pytest.mark.requirement("KIT-8")
def test_importing_the_package_is_light_and_gives_the_runtime_when_asked() -> None:
    code = (
        "import sys; before = set(sys.modules); import turnwired; turnwired.__version__;"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(new - sys.stdlib_module_names), [name for name in sys.modules if name.startswith('turnwired.')]);"
        "turnwired.Runtime; print('turnwired.app' in sys.modules)"
    )
    path = str(Path(turnwired.__file__).parents[1])
    client = str(Path(__file__).parents[2] / "clients" / "python")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{path}:{client}"},
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert done.stdout.splitlines() == ["['turnwired'] []", "True"]
    with pytest.raises(AttributeError):
        turnwired.nothing  # type: ignore[attr-defined]  # noqa: B018
