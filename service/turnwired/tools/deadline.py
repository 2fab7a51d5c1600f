"""The time of a call, which stands still while its tool waits for a person. Knows scopes, and no tool."""

from __future__ import annotations

import math

import anyio

from turnwired.tools.port import AskUser, InputAnswer, InputRequest


def standing_still(scope: anyio.CancelScope, ask: AskUser) -> AskUser:
    """Questions during which the scope's deadline stands still, also when several are asked side by side."""
    waiting = 0
    left = math.inf

    async def ask_outside(request: InputRequest) -> InputAnswer:
        nonlocal waiting, left
        if not waiting:
            left, scope.deadline = scope.deadline - anyio.current_time(), math.inf
        waiting += 1
        try:
            return await ask(request)
        finally:
            waiting -= 1
            if not waiting:
                scope.deadline = anyio.current_time() + left

    return ask_outside
