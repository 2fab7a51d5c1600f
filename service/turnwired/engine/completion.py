"""Completion hooks of the deployment: looked up before a run exists, called in a thread when its loop has ended.

What a hook does wrong never ends a run: the machine then completes it as if there were no hook. Knows no configuration.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import anyio

from turnwired.apart import Nursery
from turnwired.domain.completion import MAX_INSTRUCTION, CompletionHook, CompletionRequest
from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.faults import where_raised
from turnwired.domain.policy import CompletionMode, CompletionPolicy, EffectivePolicy, Policy
from turnwired.stray import require_stray
from turnwired.turn.facts import CompletionDecided

logger = logging.getLogger(__name__)

HOOK_SECONDS = 10.0
"""How long a hook may think. Its thread runs on behind that, unheard."""
_PATH = "turn.policy.completion"


def require_completion(policy: EffectivePolicy, run: Policy, hooks: Mapping[str, CompletionHook]) -> None:
    """Raise InvalidRequest for a completion that cannot be what it says: without words, with two, with no such hook.

    ``run`` is the layer of the request: what it sets there must have an effect.
    """
    found = [FieldViolation(f"{_PATH}.{name}", what) for name, what in _problems(policy.policy.completion, run, hooks)]
    if found:
        raise InvalidRequest(found)


def _problems(completion: CompletionPolicy, run: Policy, hooks: Mapping[str, CompletionHook]) -> list[tuple[str, str]]:
    prompt, hook = completion.custom_prompt or "", completion.custom_hook or ""
    if completion.mode is not CompletionMode.CUSTOM:
        asked = (("custom_prompt", run.completion.custom_prompt), ("custom_hook", run.completion.custom_hook))
        return [(name, "has an effect only with completion.mode CUSTOM") for name, value in asked if value]
    if prompt and hook:
        return [("custom_prompt", 'is set and so is custom_hook; set one of them to ""')]
    if not prompt and not hook:
        return [("mode", "is CUSTOM and needs custom_prompt or custom_hook")]
    if hook and hook not in hooks:
        known = ", ".join(sorted(hooks)) or "none"
        return [("custom_hook", f"there is no completion hook {hook!r}; configured: {known}")]
    return []


async def ask_hook(iteration: int, hook: CompletionHook, request: CompletionRequest) -> CompletionDecided:
    """The hook's answer in bounded time, or in one sentence why there is none. Raises only cancellation."""
    try:
        with anyio.fail_after(HOOK_SECONDS):
            work = anyio.to_thread.run_sync(hook, request, abandon_on_cancel=True)
            answer = await Nursery().run(work, "completion hook")
    except TimeoutError:
        return _cannot(iteration, f"The completion hook did not answer within {HOOK_SECONDS:g} s.")
    except BaseException as error:  # noqa: BLE001 - boundary: a hook is somebody else's code, whatever it raises
        require_stray(error)
        logger.warning("run %s: the completion hook failed: %s", request.run_id, where_raised(error))
        return _cannot(iteration, f"The completion hook failed ({type(error).__name__}).")
    if answer is None:
        return CompletionDecided(iteration, None)
    if not isinstance(answer, str) or not answer.strip():
        return _cannot(iteration, f"The completion hook gave {type(answer).__name__}, not an instruction or None.")
    if len(answer) > MAX_INSTRUCTION:
        return _cannot(iteration, f"The completion hook gave more than {MAX_INSTRUCTION} characters.")
    return CompletionDecided(iteration, answer)


def _cannot(iteration: int, problem: str) -> CompletionDecided:
    return CompletionDecided(iteration, None, problem)
