"""The conversation held against what the policy and the model take, before each model call.

Counts each message once, by the provider's tokenizer or from its size: an estimate, and said to be one. Knows neither
machine nor log. Where the number is left to the provider, the provider says what is too long; only if the oldest groups
are to be left out is it asked less than the window of the model that its profile knows, frame and answer taken off.
"""

from __future__ import annotations

from turnwired.context.history import History
from turnwired.domain.errors import ProviderError
from turnwired.domain.event import HistoryTruncated
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.domain.policy import HistoryOverflowMode
from turnwired.domain.usage import estimated_tokens
from turnwired.policy.bounds import Bounds
from turnwired.providers.port import ModelProvider, ModelRequest

_ANSWER_SHARE = 4
"""Part of a model's window that is kept free for its answer, at most, where nobody says how long that may be."""


async def fit(
    history: History, provider: ModelProvider, request: ModelRequest, bounds: Bounds, *, shorten: bool = False
) -> HistoryTruncated | None:
    """Leave out what does not fit; what that changed, if it did. ``request`` is what there is beside the messages.

    ``shorten``: the provider found what was sent too long. Raises ProviderError CONTEXT_OVERFLOW.
    """
    truncates = bounds.history_overflow is HistoryOverflowMode.TRUNCATE
    limit = bounds.max_history_tokens
    if limit is None:
        limit = _window(provider, request) if truncates else None
    if (learned := history.learned) is not None:
        limit = learned - 1 if limit is None else min(limit, learned - 1)
    if limit is not None and history.size() <= limit:
        limit = None  # a token has a byte at least, so nothing has to be counted
    if limit is None and not shorten:
        return None
    await _count(history, provider, request.model)
    if limit is not None and not truncates:
        if (observed := history.total(request.model)) > limit:
            raise _too_long(bounds, observed)
        return None
    if limit is not None and not history.fit(request.model, limit):
        raise _cannot_be_shortened()
    if shorten and not history.shorten(request.model):
        raise _cannot_be_shortened()
    cut = history.cut()
    if cut is None:
        return None
    return HistoryTruncated(cut.messages, cut.tool_groups, cut.tokens_before, cut.tokens_after)


def _window(provider: ModelProvider, request: ModelRequest) -> int | None:
    """What the model takes of the conversation, where its window is known."""
    limits = provider.limits(request.model)
    window = limits.context_tokens
    if window is None:
        return None
    answer = request.max_output_tokens
    if answer is None:
        answer = min(limits.output_tokens or window, window // _ANSWER_SHARE)
    return max(window - answer - estimated_tokens(len(request.system) + len(request.tools)), 1)


async def _count(history: History, provider: ModelProvider, model: str) -> None:
    unknown = [piece for piece in history.pieces if piece.tokens(model) is None]
    if not unknown:
        return
    counts = await provider.measure(model, [piece.data for piece in unknown])
    for piece, tokens in zip(unknown, counts, strict=True):
        piece.counted = model, tokens


def _too_long(bounds: Bounds, observed: int) -> ProviderError:
    limit = str(bounds.max_history_tokens)
    return ProviderError(
        Failure(
            FailurePhase.MODEL,
            Reason.CONTEXT_OVERFLOW,
            f"The conversation has about {observed} tokens and the run may send {limit} (context.max_history_tokens). "
            "Nothing was sent.",
            metadata={"policy_path": "context.max_history_tokens", "limit": limit, "estimated": str(observed)},
        )
    )


def _cannot_be_shortened() -> ProviderError:
    return ProviderError(
        Failure(
            FailurePhase.MODEL,
            Reason.CONTEXT_OVERFLOW,
            "The conversation is too long, and what must stay of it is too: the last message of the user, and the "
            "results that the model is to see. Nothing was sent.",
        )
    )
