"""Seeds faults in the turn machine and in the engine and checks that their tests notice each of them.

``python scripts/mutants.py`` prints a table and exits 1 when a fault survives. Each fault is first put before the
property tests alone (tests/turn/test_invariants.py), and before the example tests when those do not notice it; one of
the engine is put before its state machine (tests/engine/test_real_machine.py). No file is changed: each fault lives in
a forked process that imports one module with other words in it.
Needs fork, so it does not run on Windows.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = 80
"""Examples of the property tests for each fault; the suite itself uses more."""
ENGINE_EXAMPLES = 2000
"""Examples of the state machine over the real engine for each fault in the engine, as many as CI runs of it."""
SECONDS = 60
ENGINE_SECONDS = 400
"""Longest processor time for one fault; a machine that hangs is noticed too."""
LEAST_BY_PROPERTIES = 30
"""Faults that the property tests must notice by themselves."""


CALL_MUTANTS: Sequence[tuple[str, str, str, str]] = importlib.import_module("mutants_calls").CALL_MUTANTS
WAITING_MUTANTS: Sequence[tuple[str, str, str, str]] = importlib.import_module("mutants_waiting").WAITING_MUTANTS
CONTEXT_MUTANTS: Sequence[tuple[str, str, str, str]] = importlib.import_module("mutants_context").CONTEXT_MUTANTS
ENGINE_MUTANTS: Sequence[tuple[str, str, str, str]] = importlib.import_module("mutants_engine").ENGINE_MUTANTS
"""Of the files beside this one."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: in ``file`` of the turn package, ``old`` (which occurs exactly once) becomes ``new``.

    A file with a dot, such as ``policy.permissions``, is of another package.
    """

    what: str
    file: str
    old: str
    new: str


MUTANTS = (
    # --- lifecycle
    Mutant("Settle is dropped", "machine", "out.do(Settle(finished, self._transcript.messages()))", "pass"),
    Mutant("RunFinished is dropped", "machine", "out.emit_for_run(finished)", "pass"),
    Mutant("a settled run goes on", "machine", "self.state = TurnState.SETTLED", "pass"),
    Mutant(
        "the step bound allows one more", "machine", "if self.iteration >= self.setup", "if self.iteration > self.setup"
    ),
    Mutant("the step bound allows one less", "machine", "if self.iteration >= self", "if self.iteration + 1 >= self"),
    Mutant("facts of another attempt are believed", "machine", " and attempt == self.attempt", ""),
    Mutant("deltas of another attempt are believed", "machine", " or fact.attempt != self.attempt", ""),
    Mutant("deltas of another iteration are believed", "machine", "fact.iteration != self.iteration or", ""),
    Mutant("no end of the stream counts as a good one", "machine", "else FinishReason.EOF", "else FinishReason.STOP"),
    Mutant("the trace is left out", "machine", "self.outcome.kind is not OutcomeKind.ANSWERED", "False"),
    Mutant("stopping forgets the calls", "machine", "            self._batch.interrupt(out)\n", ""),
    Mutant("stopping does not abandon the model call", "machine", "if busy or executing:", "if executing:"),
    Mutant("stopping does not abandon tools", "machine", "Abandon(busy, executing)", "Abandon(busy, ())"),
    Mutant(
        "a stopped iteration stays open", "machine", "self._close_iteration(out, reason, failure=end.failure)", "pass"
    ),
    Mutant("failures do not say where", "machine", "replace(end.failure, iteration=self.iteration)", "end.failure"),
    Mutant("error_mode ABORT is ignored", "machine", "self.setup.bounds.error_mode is not ToolErrorMode.ABORT", "True"),
    Mutant("a cut answer can be told for ever", "machine", "self._limit_reported = True", "pass"),
    Mutant(
        "a paused turn is taken for an answer", "machine", "elif reason is FinishReason.PAUSE and", "elif False and"
    ),
    Mutant(
        "ignored facts are not counted",
        "machine",
        "        if not self._dispatch(fact, out):\n            self.ignored += 1",
        "        self._dispatch(fact, out)",
    ),
    # --- repaired arguments, late ends, errors that nobody read
    Mutant("repairs are not told in the log", "batch", "                out.emit(aftermath.repaired(call))\n", ""),
    Mutant("repairs are not told to the model", "batch", "        if call.repairs:\n", "        if False:\n"),
    Mutant("a late end is told again", "aftermath", "self._told.add(call_id)", "pass"),
    Mutant(
        "a late end of a call that never ran is told", "aftermath", "if call_id not in self._begun", "if not call_id"
    ),
    Mutant("late ends are not told", "machine", "self._late.began(batch.executing)", "pass"),
    Mutant("unread errors stay in the session", "machine", "            if unread:\n", "            if False:\n"),
    Mutant("unread errors go on every stop", "machine", "            if unread:\n", "            if True:\n"),
    Mutant("effects are forgotten with unread errors", "history", "and not unread(p.content))", "and False)"),
    Mutant("recovery keeps unread errors", "recovery", "        if self._unread:\n", "        if False:\n"),
    # --- bounds and order of tools
    Mutant(
        "one tool too many at once",
        "batch",
        "self._running < self._max_parallel",
        "self._running <= self._max_parallel",
    ),
    Mutant("places of finished tools stay taken", "batch", "self._running -= 1", "pass"),
    Mutant("tools start before all are checked", "batch", "if self._unresolved:", "if False:"),
    Mutant(
        "tools start in reverse",
        "batch",
        "        for call in self._calls:\n            if call.state is not CallState.READY",
        "        for call in reversed(self._calls):\n            if call.state is not CallState.READY",
    ),
    Mutant(
        "executing is not announced",
        "batch",
        "self._running += 1\n                out.emit(ToolCallExecuting(call.call_id))",
        "self._running += 1",
    ),
    Mutant("finished is not announced", "batch", "out.emit(ToolCallFinished(result, duration_ns))", "pass"),
    Mutant(
        "a second result is believed",
        "batch",
        "if call is None or call.state is not (CallState.WITH",
        "if call is None or call.state is CallState.ASKED and call.state is not (CallState.WITH",
    ),
    Mutant(
        "what waits is forgotten when the run stops",
        "batch",
        "if call.state is not CallState.SETTLED:",
        "if call.state is CallState.STREAMED:",
    ),
    Mutant(
        "an interrupted tool is said not to have run",
        "batch",
        "ToolResultStatus.INTERRUPTED,\n                    Reason",
        "ToolResultStatus.NOT_EXECUTED,\n                    Reason",
    ),
    Mutant("calls over the bound do not end the run", "machine", "elif batch.over_bound:", "elif False:"),
    Mutant(
        "a denied call is called an error",
        "batch",
        "ToolResultStatus.DENIED if denied else ToolResultStatus.ERROR",
        "ToolResultStatus.ERROR",
    ),
    Mutant("mixed-up arguments run", "batch", "elif call.damaged:", "elif False:"),
    # --- answers
    Mutant(
        "a delta is sent twice",
        "answer",
        "        dirty.sent = len(fragments)\n        if fresh:\n            delta",
        "        if fresh:\n            delta",
    ),
    Mutant(
        "a finished part is trimmed",
        "answer",
        'text = "".join(part.fragments)',
        'text = "".join(part.fragments).strip()',
    ),
    Mutant(
        "open parts stay open", "answer", "        self._end_part()\n        if complete and", "        if complete and"
    ),
    Mutant(
        "a call does not flush before it completes",
        "answer",
        '        self._flush()\n        text = "".join(call.fragments)',
        '        text = "".join(call.fragments)',
    ),
    Mutant("blanks are output", "answer", "if not dirty.signature and not fresh.strip():", "if False:"),
    Mutant("arguments grow after their end", "answer", "elif call.closed:", "elif False:"),
    Mutant("a second closing counts", "answer", "if call is None or call.closed:", "if call is None:"),
    Mutant(
        "the last finish word wins",
        "answer",
        "if self.stopped is None or self.stopped.reason is FinishReason.OTHER:",
        "if True:",
    ),
    Mutant("a repeated opening is another call", "answer", "(call.name == item.name and same_id)", "False"),
    Mutant("no arguments are no object", "answer", 'text if text.strip() else "{}"', "text"),
    Mutant(
        "cut answers count as whole",
        "ending",
        "FinishReason.OTHER, FinishReason.PAUSE}",
        "FinishReason.OTHER, FinishReason.PAUSE, FinishReason.OUTPUT_LIMIT}",
    ),
    Mutant("blank answers are answers", "ending", "if answer.has_output:", "if True:"),
    Mutant(
        "a refusal is an answer",
        "ending",
        "    if answer.refused:\n        return _refusal(answer, Reason.MODEL_REFUSED)\n    if answer.has_output",
        "    if answer.refused or answer.has_output",
    ),
    # --- native parts, files, usage
    Mutant("native items go to the end", "answer", "self._place_of(owner) + owner.attached", "len(self._entries)"),
    Mutant("a native item ends the part that grows", "answer", "owner.waiting.append(item)", "self._place(item, None)"),
    Mutant("what waits for a part is lost", "answer", "for item in part.waiting:", "for item in ():"),
    Mutant("what waits for a call is lost", "answer", "for waiting in call.waiting:", "for waiting in ():"),
    Mutant(
        "native parts do not say whose they are",
        "answer",
        "(item.kind, item.json, self._provider)",
        "(item.kind, item.json)",
    ),
    Mutant("withheld reasoning looks like any", "answer", "self._provider, part.redacted)", "self._provider)"),
    Mutant("a file is nothing to show", "answer", "isinstance(entry.part.content, Blob)", "False"),
    Mutant(
        "files of any size are kept", "answer", "if self._file_bytes + len(item.data) > MAX_FILE_BYTES:", "if False:"
    ),
    Mutant("a file of a cut answer is lost", "history", "Text | Blob | ToolCall))", "Text | ToolCall))"),
    Mutant("recovery forgets where a part stood", "recovery", "items.insert(place, (", "items.append(("),
    Mutant(
        "a stream that never began is not tried again",
        "machine",
        "if reason in ending.UNFINISHED and not answer.produced:",
        "if False:",
    ),
    Mutant("missing usage is told again and again", "machine", "self._usage_missed = True", "pass"),
    Mutant(
        "an estimate says that it is exact", "ledger", "source=UsageSource.ESTIMATED)", "source=UsageSource.PROVIDER)"
    ),
    Mutant("the usage of a cut answer looks exact", "ledger", "if not cut or not written:", "if True:"),
    # --- structured output
    Mutant("a wrong value is taken", "machine", "if checked.json is not None:", "if True:"),
    Mutant("a value is not given", "machine", "self._conclude(out, end, checked.json)", "self._conclude(out, end)"),
    Mutant(
        "a wrong answer is corrected for ever",
        "machine",
        "corrected = self._kind is not IterationKind.STEP",
        "corrected = False",
    ),
    Mutant(
        "a correction breaks the step bound",
        "machine",
        "elif corrected or self.iteration >= self.setup.bounds.max_steps:",
        "elif corrected:",
    ),
    Mutant(
        "the model is not told what is wrong",
        "machine",
        "self._transcript.add_correction(structured.correction(notice.message))",
        "pass",
    ),
    Mutant("a correction offers tools", "machine", "tools = self._offers_tools", "tools = True"),
    Mutant(
        "calls of a correction run",
        "machine",
        "elif answer.calls and not self._offers_tools:",
        "elif False:",
    ),
    Mutant("a refusal is read as JSON", "structured", "if end.kind is OutcomeKind.ANSWERED:", "if True:"),
    Mutant("a fence is part of the value", "structured", "if fenced is not None else bare", "if False else bare"),
    Mutant("recovery forgets the correction", "recovery", "if iteration.correction:", "if False:"),
    Mutant("a correction hides the text before it", "history", "self._corrected = self._turn", "pass"),
    # --- history
    Mutant("results are forgotten", "machine", "        self._transcript.add_results(batch.results())\n", ""),
    Mutant(
        "results come as they finish",
        "history",
        "by_id[call.call_id]) for call in calls",
        "result) for result in reversed(by_id.values())",
    ),
    Mutant("messages are sent again", "history", "        self._handed_out = len(self._messages)\n", ""),
    Mutant(
        "whatever arguments are replayed",
        "history",
        'return arguments_json if isinstance(value, dict) else "{}"',
        "return arguments_json",
    ),
    Mutant(
        "cut calls stay in the history",
        "machine",
        "if not (unfinished and isinstance(entry, Call) and not entry.complete)",
        "if True",
    ),
    Mutant(
        "unfinished reasoning stays in the history",
        "history",
        "if not cut or isinstance(part.content, Text | Blob | ToolCall)",
        "if True",
    ),
    # --- retries and money
    Mutant("one attempt too many", "retry", "if attempt >= bounds.max_attempts:", "if attempt > bounds.max_attempts:"),
    Mutant("tried again after output", "machine", "produced, tried = self._answer.produced", "produced, tried = False"),
    Mutant("a long Retry-After is waited for", "retry", "failure.retry_after > LONGEST_RETRY_AFTER", "False"),
    Mutant("Retry-After is ignored", "retry", "(failure.retry_after or 0.0)", "0.0"),
    Mutant("permanent failures are tried again", "retry", " or failure.reason in _PERMANENT", ""),
    Mutant("rejected credentials are final", "retry", "Again(0, renew=True) if renewable else GiveUp", "GiveUp"),
    Mutant("rejected credentials are sent again", "machine", "renew=next_step.renew,", "renew=False,"),
    Mutant("credentials are renewed for ever", "machine", "            self._renewed |= next_step.renew\n", ""),
    Mutant(
        "an iteration inherits the renewal",
        "machine",
        "        self._renewed = self._shortened = False\n        self._batch",
        "        self._batch",
    ),
    Mutant("credentials are renewed after output", "retry", "renewable = not attempt.produced and", "renewable ="),
    Mutant(
        "a renewal is no attempt",
        "retry",
        "attempt.number < bounds.max_attempts\n        return Again(0, renew",
        "True\n        return Again(0, renew",
    ),
    Mutant("credentials are renewed for any fault", "retry", "return Again(delay)", "return Again(delay, renew=True)"),
    Mutant("a renewal waits", "retry", "Again(0, renew=True)", "Again(10**9, renew=True)"),
    Mutant("jitter lengthens delays", "retry", "(1.0 - share)", "(1.0 + share)"),
    Mutant("waits beyond the run's end", "retry", "if left is not None and delay >= left:", "if False:"),
    Mutant("waits to the very end of the run", "retry", "delay >= left", "delay > left"),
    Mutant(
        "usage of failed attempts is lost",
        "machine",
        "cost = self._ledger.charge(usage, fact.duration_ns, spent=type(fact) is ModelEnded)",
        "cost = None",
    ),
    Mutant("unknown usage is free", "ledger", "elif not spent:", "else:"),
    # --- recovery
    Mutant("recovery says that running tools did not run", "recovery", "if call.executing:", "if False:"),
    Mutant("recovery forgets the open part", "recovery", "closing.append(PartFinished(part))", "pass"),
    Mutant(
        "recovery forgets the open iteration",
        "recovery",
        "closing.append(IterationFinished(FinishReason.ABORTED, failure=failure))",
        "pass",
    ),
    Mutant("recovery forgets calls", "recovery", "closing.append(ToolCallFinished(call.result))", "pass"),
    *(Mutant(*fault) for fault in (*CALL_MUTANTS, *WAITING_MUTANTS, *CONTEXT_MUTANTS)),
    *(Mutant(what, f"engine.{file}", old, new) for what, file, old, new in ENGINE_MUTANTS),
)

EXAMPLE_FILES = (
    "test_lifecycle.py",
    "test_endings.py",
    "test_tools.py",
    "test_retries.py",
    "test_renewal.py",
    "test_context.py",
    "test_answer.py",
    "test_recovery.py",
    "test_native_parts.py",
    "test_usage.py",
    "test_structured.py",
    "test_completion.py",
    "test_admission.py",
    "test_aftermath.py",
    "test_approvals.py",
    "test_asked_circles.py",
    "test_input_asked.py",
    "test_caller.py",
    "test_resume.py",
    "../policy/test_permissions.py",
    "test_budgets.py",
)
SOUND = Mutant("nothing", "machine", "", "")
NOBODY, PROPERTIES_DID, EXAMPLES_DID = "SURVIVED", "properties", "examples"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who noticed a fault, and the first words of the complaint."""

    mutant: Mutant
    noticed_by: str
    complaint: str = ""


def module_of(mutant: Mutant) -> str:
    """The name of the module that gets the fault."""
    return f"turnwired.{mutant.file}" if "." in mutant.file else f"turnwired.turn.{mutant.file}"


def path_of(mutant: Mutant) -> Path:
    """The file of that module."""
    return ROOT / "service" / f"{module_of(mutant).replace('.', '/')}.py"


def faulty_source(mutant: Mutant) -> str:
    """The module's text with the fault in it. Raises SystemExit when the table does not fit the code any more."""
    source = path_of(mutant).read_text()
    if mutant is SOUND:
        return source
    if source.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.what}: the words to change occur {source.count(mutant.old)} times in {mutant.file}")
    return source.replace(mutant.old, mutant.new)


class FaultyFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module with the given text instead of its file's."""

    def __init__(self, name: str, source: str) -> None:
        self._name = name
        self._source = source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Only the one module."""
        del path, target
        return importlib.util.spec_from_loader(fullname, self) if fullname == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        """Run the text."""
        exec(compile(self._source, f"<faulty {self._name}>", "exec"), module.__dict__)  # noqa: S102 - that is its job


def of_engine(mutant: Mutant) -> bool:
    """Whether the fault is put before the state machine over the real engine."""
    return mutant.file.startswith("engine.")


def judge(mutant: Mutant) -> tuple[str, str]:
    """Put one fault before the tests, in this process: who noticed it, and the complaint."""
    sys.meta_path.insert(0, FaultyFinder(module_of(mutant), faulty_source(mutant)))
    engine = of_engine(mutant)
    check = importlib.import_module("engine.test_real_machine" if engine else "turn.test_invariants").check

    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            check(ENGINE_EXAMPLES if engine else EXAMPLES, derandomize=True, shrink=False)
    except BaseException as error:  # noqa: BLE001 - whatever the faulty machine raises is a complaint
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return PROPERTIES_DID, (str(error).splitlines() or [type(error).__name__])[0]
    failed = "" if engine else run_examples()
    return (EXAMPLES_DID, failed) if failed else (NOBODY, "")


def run_examples() -> str:
    """Name of the first example test that fails, or nothing."""
    import pytest

    class FirstFailure:
        name = ""

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed and not self.name:
                self.name = report.nodeid.rpartition("::")[2]

        def pytest_configure(self, config: pytest.Config) -> None:
            config.addinivalue_line("markers", "requirement(*ids): see pyproject.toml")

    first = FirstFailure()
    options = ["-x", "-q", "--tb=no", "--assert=plain", "--noconftest", "--import-mode=importlib"]
    quiet = ["-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={ROOT / 'tests'}"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = pytest.main(
            [*options, *quiet, *(str(ROOT / "tests" / "turn" / name) for name in EXAMPLE_FILES)], [first]
        )
    if code not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        raise SystemExit(f"the example tests cannot run: {code!r}")
    return first.name


def fork(mutant: Mutant) -> tuple[int, int]:
    """Judge a fault in a child process: its id, and where to read what it says."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    os.close(reading)
    signal.setitimer(signal.ITIMER_PROF, ENGINE_SECONDS if of_engine(mutant) else SECONDS)
    code = 2
    try:
        noticed_by, complaint = judge(mutant)
        os.write(writing, f"{noticed_by}\n{complaint}".encode()[:4000])
        code = 0
    except SystemExit as problem:
        os.write(writing, str(problem).encode()[:4000])
    finally:
        os._exit(code)  # nothing of the parent's is to be finished twice


def judge_all(mutants: Sequence[Mutant], jobs: int) -> list[Verdict]:
    """Judge all faults, ``jobs`` at a time."""
    waiting = list(mutants)
    running: dict[int, tuple[Mutant, int]] = {}
    verdicts: dict[str, Verdict] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop(0)
            child, reading = fork(mutant)
            running[child] = (mutant, reading)
        child, status = os.wait()
        mutant, reading = running.pop(child)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        if os.WIFSIGNALED(status):
            verdicts[mutant.what] = Verdict(mutant, PROPERTIES_DID, "it hangs")
        elif os.WEXITSTATUS(status):
            raise SystemExit(f"{mutant.what}: {said or 'the tests cannot run'}")
        else:
            noticed_by, _, complaint = said.partition("\n")
            verdicts[mutant.what] = Verdict(mutant, noticed_by, complaint)
    return [verdicts[mutant.what] for mutant in mutants]


def main() -> int:
    """Judge the sound machine and all faults, and print the table."""
    parser = argparse.ArgumentParser(description="Seed faults in turn and engine; their tests must notice each.")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4), help="faults judged side by side")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--engine", action="store_true", help="only faults of the engine")
    part.add_argument("--turn", action="store_true", help="only the others, which take a fifth of the time")
    parser.add_argument("--only", default="", help="only faults whose description has this in it")
    parser.add_argument("--every", type=int, default=1, help="only each so-manieth fault, for a quick look")
    options = parser.parse_args()
    began = time.monotonic()
    sys.path[:0] = [str(ROOT / "service"), str(ROOT / "tests")]
    for name in ("pytest", "hypothesis.stateful", "turnwired.domain.event", "turnwired.policy.bounds"):
        importlib.import_module(name)  # once, before the forks
    among = [mutant for mutant in MUTANTS if not (options.turn if of_engine(mutant) else options.engine)]
    chosen = [mutant for mutant in among if options.only in mutant.what][:: options.every]
    sound, *verdicts = judge_all([SOUND, *chosen], options.jobs)
    if sound.noticed_by != NOBODY:
        print(f"the machine as it is fails its tests: {sound.complaint}")
        return 1
    for verdict in verdicts:
        print(f"{verdict.mutant.file:9} {verdict.mutant.what:47} {verdict.noticed_by:11} {verdict.complaint[:80]}")
    counts = {who: sum(v.noticed_by == who for v in verdicts) for who in (PROPERTIES_DID, EXAMPLES_DID, NOBODY)}
    print(
        f"\n{len(verdicts)} faults: {counts[PROPERTIES_DID]} noticed by the properties, {counts[EXAMPLES_DID]} by the "
        f"examples, {counts[NOBODY]} survived; {time.monotonic() - began:.0f} s"
    )
    enough = options.only or options.engine or options.every > 1 or counts[PROPERTIES_DID] >= LEAST_BY_PROPERTIES
    return 0 if enough and not counts[NOBODY] else 1


if __name__ == "__main__":
    sys.exit(main())
