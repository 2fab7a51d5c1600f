"""What the tests of operator tools share: toolsets over a temporary directory, and calls of their tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tools.kit import invocation as anybodys
from tools.kit import words_of

from turnwired.domain.failure import Failure
from turnwired.domain.message import ToolResult, ToolResultStatus
from turnwired.domain.policy import ArgumentValidation
from turnwired.domain.run import OPERATOR_ROLE, Caller
from turnwired.domain.tool import ToolSelection
from turnwired.tools.operator.config import OperatorConfig
from turnwired.tools.operator.fetch import Resolver
from turnwired.tools.operator.toolset import OperatorToolset
from turnwired.tools.port import ToolInvocation, Toolset, ToolView
from turnwired.tools.registry import Registry, Source

OPERATOR = Caller(principal="ann", roles=frozenset({OPERATOR_ROLE}))
OK, ERROR = ToolResultStatus.OK, ToolResultStatus.ERROR


def invocation(
    arguments: dict[str, object], *, timeout: float | None = 20, caller: Caller = OPERATOR
) -> ToolInvocation:
    """One call of an operator's run."""
    return replace(anybodys(arguments, timeout=timeout), caller=caller)


async def seen(toolset: Toolset) -> ToolView:
    """What an operator sees of a source."""
    return await Registry([Source(toolset)]).view(ToolSelection(), OPERATOR)


@dataclass(frozen=True)
class Tools:
    """Operator tools under test, called as a run does: checked, then executed."""

    view: ToolView

    async def result(self, name: str, **arguments: object) -> ToolResult:
        """The result of a call, also of one that is refused before it is made."""
        checked = self.view.check(name, json.dumps(arguments), ArgumentValidation.STRICT)
        if checked.arguments is None:
            assert checked.failure is not None
            return ToolResult("call-1", ERROR, failure=checked.failure)
        return await self.view.execute(name, invocation(dict(checked.arguments)), 4 << 20)

    async def words(self, name: str, **arguments: object) -> str:
        """What the model reads of a call that must succeed."""
        result = await self.result(name, **arguments)
        assert result.status is OK, result.failure
        return words_of(result)

    async def failure(self, name: str, **arguments: object) -> Failure:
        """The failure of a call that must fail."""
        result = await self.result(name, **arguments)
        assert result.status is ERROR and result.failure is not None, words_of(result)
        return result.failure

    async def code(self, name: str, **arguments: object) -> str:
        """The code of the failure of a call that must fail."""
        return (await self.failure(name, **arguments)).origin_code


async def tools_of(config: Mapping[str, Any], resolver: Resolver | None = None) -> Tools:
    """The tools of a configuration."""
    return Tools(await seen(OperatorToolset(OperatorConfig.model_validate(config), resolver)))


def files(root: Path, **settings: object) -> dict[str, object]:
    """A configuration of file tools over one writable root, called ``root``."""
    of_root = {key: settings.pop(key) for key in ("writable", "exclude") if key in settings}
    return {"files": {"roots": [{"path": root, "name": "root", "writable": True, **of_root}], **settings}}


def names(directory: Path) -> list[str]:
    """All that is in a directory, hidden or not."""
    return sorted(path.name for path in directory.iterdir())
