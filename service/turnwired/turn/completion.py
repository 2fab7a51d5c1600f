"""Whether a run whose loop has ended gets one more answer from the model, how it is asked, and what the run then is.

Pure. The pass is made at most once in a run, only when at least one tool has completed and nothing was said since, and
never after an answer that was cut, refused or stopped. It is bounded by itself and is no step of ``loop.max_steps``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.outcome import Notice, OutcomeKind
from turnwired.domain.policy import CompletionMode, CountLimit
from turnwired.policy.bounds import Bounds
from turnwired.turn.ending import Ending, OutputCap

INSTRUCTION = "instruction"
"""Key in the metadata of a notice that starts a pass: what the model is told. Recovery finds it there."""
ANSWER_NOW = (
    "You ended your turn without an answer. Answer the request now, in text, from the results of the tools above. "
    "Do not call tools."
)
NO_STEPS_LEFT = (
    "No further tool calls are possible in this turn. Answer the request now, in text, from the results so far, and "
    "say what is still missing. Do not call tools."
)
NOT_OFFERED = "Not executed: the run is over but for its final answer, and no tools were offered for it."
CALLED_TOOLS = Notice(
    Reason.TOOL_NOT_EXECUTED, "Asked for its final answer, the model called tools all the same. They were not executed."
)


@dataclass(frozen=True, slots=True)
class AskModel:
    """Call the model once more, with this instruction."""

    instruction: str


@dataclass(frozen=True, slots=True)
class AskHook:
    """Let the deployment's hook of this name say whether, and with which instruction."""

    name: str


class Completion:
    """The completion policy of one run. ``end`` is how the loop ended, once that is to be completed."""

    def __init__(self, bounds: Bounds, most: CountLimit | None) -> None:
        """``most``: output tokens of any answer as far as they are known, by policy or by the model itself."""
        self._bounds = bounds
        self._most = most
        self.end: Ending | None = None
        self._tools_offered = False

    def plan(self, end: Ending, completed: int) -> AskModel | AskHook | None:
        """What follows the loop's end; None: nothing, the run settles. ``completed`` counts tool calls with a result.

        Answers otherwise than None once only.
        """
        if self.end is not None or not completed or end.kind not in {OutcomeKind.TOOL_ONLY, OutcomeKind.MAX_STEPS}:
            return None
        bounds, at_bound = self._bounds, end.kind is OutcomeKind.MAX_STEPS
        instruction = NO_STEPS_LEFT if at_bound else ANSWER_NOW
        plan: AskModel | AskHook | None
        match bounds.completion_mode:
            case CompletionMode.CUSTOM if bounds.completion_hook is not None:
                plan = AskHook(bounds.completion_hook)
            case CompletionMode.CUSTOM:
                plan = AskModel(bounds.completion_prompt or instruction)
            case CompletionMode.REQUIRE_TEXT_AFTER_TOOLS:
                plan = AskModel(instruction)
            case CompletionMode.NONE:
                plan = AskModel(instruction) if at_bound and bounds.answer_at_step_bound else None
        if plan is not None:
            self.end = end
            self._tools_offered = bounds.completion_tools and not at_bound
        return plan

    def resume(self) -> None:
        """Stand in a pass whose tools run: it followed an end without text, since none are offered at a bound."""
        words = "The model ended its turn after tools without text."
        self.end = Ending(OutcomeKind.TOOL_ONLY, Failure(FailurePhase.MODEL, Reason.ANSWER_MISSING, words))

    @property
    def instruction(self) -> str:
        """What the model is told where the policy has no words of its own, also when a hook has failed."""
        return NO_STEPS_LEFT if self.end is not None and self.end.kind is OutcomeKind.MAX_STEPS else ANSWER_NOW

    def told(self, instruction: str) -> Notice:
        """The notice that says why the model is asked again, and with which words."""
        assert self.end is not None, "a pass follows the end of the loop"
        if self.end.kind is OutcomeKind.MAX_STEPS:
            trip = self.end.limit_trip
            path = trip.policy_path if trip is not None else "loop.max_steps"
            words = f"The run has reached {path}. The model is asked once for an answer from what it has."
            return Notice(Reason.LIMIT_REACHED, words, {INSTRUCTION: instruction, "policy_path": path})
        words = "The model ended its turn after tools without text. It is asked once for an answer."
        return Notice(Reason.ANSWER_MISSING, words, {INSTRUCTION: instruction})

    @property
    def offers_tools(self) -> bool:
        """Whether the next model call of the pass may call tools: its first, where ``completion.allow_tools``."""
        return self._tools_offered

    def tools_used(self) -> None:
        """Tools were called in the pass: what follows is the answer, and nothing else."""
        self._tools_offered = False

    @property
    def output_cap(self) -> OutputCap:
        """The cap of the pass's output: what is reserved for it, or that of every answer where it is lower."""
        reserve, most = self._bounds.reserved_output_tokens, self._most
        if reserve is None or (isinstance(most, int) and most < reserve):
            return OutputCap(self._bounds.max_output_tokens)
        return OutputCap(reserve, "completion.reserved_output_tokens")

    def after_pass(self, found: Ending, *, has_output: bool) -> Ending:
        """How the run ends when the pass has ended with ``found``.

        A run at its bound stays MAX_STEPS, whatever came. Else the pass answers for the run; what failed in it without
        any text leaves TOOL_ONLY, which can be recovered from.
        """
        before = self.end
        assert before is not None, "a pass follows the end of the loop"
        if found.kind is OutcomeKind.BUDGET_EXCEEDED:
            return found  # whatever the run still lacked, nothing more may be spent on it
        answered = found.kind is OutcomeKind.ANSWERED
        if before.kind is OutcomeKind.MAX_STEPS:
            if answered:
                return replace(before, whole=True)
            return before.explained(f"The answer from what it had did not come either: {_why(found)}")
        if answered:
            return found
        failure = found.failure or Failure(FailurePhase.MODEL, Reason.ANSWER_MISSING, "There was no answer.")
        failure = replace(failure, phase=FailurePhase.SYNTHESIS)
        if has_output or found.kind is OutcomeKind.REFUSED:
            return replace(found, failure=failure)
        words = f"The tools completed, but no text followed, and none when it was asked for. {failure.message}"
        return Ending(OutcomeKind.TOOL_ONLY, replace(failure, message=words))


def called_tools() -> Ending:
    """The model called tools where only an answer was asked for."""
    message = "The model called tools instead of answering. The results so far are kept; ask it to answer."
    return Ending(
        OutcomeKind.TOOL_ONLY, Failure(FailurePhase.SYNTHESIS, Reason.ANSWER_MISSING, message, retryable=True)
    )


def hook_failed(words: str) -> Notice:
    """A hook of the deployment could not say how the run is to be completed."""
    return Notice(Reason.HOOK_FAILED, f"{words} The model is asked for an answer as if there were no hook.")


def _why(found: Ending) -> str:
    return found.failure.message if found.failure is not None else "nothing was said."
