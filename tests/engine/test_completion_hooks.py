"""Where completion hooks come from, and that docs/completion.md holds."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from turnwired.app import running
from turnwired.config.load import load_config
from turnwired.domain.completion import CompletionHook, CompletionRequest
from turnwired.domain.errors import ConfigError
from turnwired.domain.outcome import OutcomeKind
from turnwired.domain.policy import CompletionMode
from turnwired.engine.completion_loading import COMPLETION_GROUP, completion_hooks
from turnwired.policy.leaves import policy_of
from turnwired.policy.validate import read_policy, require_valid

DOCS = Path(__file__).parents[2] / "docs" / "completion.md"
HERE = __name__


def asks(request: CompletionRequest) -> str | None:
    """A hook to be loaded."""
    return request.run_id


def offer(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    """Have installed distributions offer these."""

    def entry_points(*, group: str) -> tuple[EntryPoint, ...]:
        return tuple(point for point in points if point.group == group)

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)


@pytest.mark.requirement("COMPLETE-12")
def test_hooks_are_those_configured_and_those_of_installed_distributions(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    offer(
        monkeypatch,
        EntryPoint("theirs", f"{HERE}:asks", COMPLETION_GROUP),
        EntryPoint("mine", f"{HERE}:HERE", COMPLETION_GROUP),
        EntryPoint("broken", "no_such_module:hook", COMPLETION_GROUP),
        EntryPoint("other", f"{HERE}:asks", "turnwired.tools"),
    )
    hooks = completion_hooks({"mine": f"{HERE}:asks"})
    assert hooks == {"mine": asks, "theirs": asks}
    assert sum("is left out" in record.getMessage() for record in caplog.records) == 2


@pytest.mark.requirement("COMPLETE-12")
@pytest.mark.parametrize("reference", ["no_such_module:hook", f"{HERE}:missing", f"{HERE}:HERE"])
def test_a_configured_hook_that_cannot_be_loaded_is_an_error_with_its_path(reference: str) -> None:
    with pytest.raises(ConfigError, match=r"^completion\.hooks\.mine: .* cannot be loaded"):
        completion_hooks({"mine": reference})


@pytest.mark.requirement("COMPLETE-12")
@pytest.mark.anyio
async def test_a_service_does_not_start_with_a_hook_that_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "turnwire.toml"
    file.write_text(
        '[store]\npath = "memory"\n[server]\nlisten = "127.0.0.1:0"\n[completion.hooks]\nmine = "no_such_module:x"\n'
    )
    with pytest.raises(ConfigError, match=r"completion\.hooks\.mine"):
        async with running(load_config(file, {}, tmp_path), {}):
            raise AssertionError("it started")


def blocks(language: str) -> list[str]:
    """The examples of the document."""
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.requirement("COMPLETE-17")
def test_the_configuration_of_the_document_is_taken() -> None:
    (example,) = blocks("toml")
    data = tomllib.loads(example)
    for policy in (data["policy"], data["agents"]["clerk"]["policy"]):
        values, found = read_policy(policy)
        assert found == []
        require_valid(policy_of(values))
    assert {mode.lower() for mode in CompletionMode} == set(
        re.findall(r"^\| `(\w+)` \|", DOCS.read_text(), re.MULTILINE)
    )


@pytest.mark.requirement("COMPLETE-17")
def test_the_hook_of_the_document_works(monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = blocks("python")
    module = ModuleType("orders_completion_of_the_document")
    exec(compile(example, str(DOCS), "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    hook = cast(CompletionHook, cast(Any, completion_hooks({"careful": f"{module.__name__}:careful"})["careful"]))
    silent = CompletionRequest("run", "clerk", None, OutcomeKind.TOOL_ONLY, ())
    assert hook(silent) == "Answer in one sentence from the 0 messages above."
    assert hook(CompletionRequest("run", "clerk", None, OutcomeKind.MAX_STEPS, ())) is None
