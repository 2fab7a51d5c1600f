"""What a provider's error means: its kind, whether trying again may help, and a sentence that says what to do.

Works on what every wire can extract from an error body (``WireError``); knows no wire. A provider's own message is read
to tell the kind but never repeated: it may quote the prompt, the output or a part of the key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from enum import StrEnum

from turnwired.domain.errors import ProviderError
from turnwired.domain.failure import Failure, FailurePhase, Reason
from turnwired.providers.patterns import MAX_TEXT, RULE, is_quick

MAX_RETRY_AFTER = 24 * 3600.0
_EPOCH_SECONDS = 1e9
_EPOCH_MILLISECONDS = 1e12
_KEY_PIECE = 6
_SAFE_TOKEN = re.compile(r"[A-Za-z0-9_.:\[\]-]{1,80}")


class ErrorKind(StrEnum):
    """Kinds of errors that providers report, whatever words they use."""

    CONTEXT_OVERFLOW = "context_overflow"
    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    AUTH = "auth"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    CONTENT_FILTER = "content_filter"
    TOOL_USE_FAILED = "tool_use_failed"
    BAD_REQUEST = "bad_request"


@dataclass(frozen=True, slots=True)
class WireError:
    """An error as a wire found it. ``status`` is the HTTP status, also when it is 200; empty: not told.

    ``message`` is the provider's text: only for telling the kind.
    """

    status: int
    type: str = ""
    code: str = ""
    message: str = field(default="", repr=False)
    param: str = ""

    @property
    def effective_status(self) -> int:
        """The HTTP status, or the one that the body of a 200 names instead."""
        if self.status >= 400:
            return self.status
        for word in (self.code, self.type):
            if word.isascii() and word.isdigit() and len(word) == 3 and word[0] in "45":
                return int(word)
        return self.status


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """What makes an error one of a kind: a code, a type, an HTTP status, or a pattern in the provider's text.

    ``codes`` and ``types`` are whole words in any case; ``text`` is a regular expression, searched for in any case in
    the first ``MAX_TEXT`` characters; any of them is enough. ``only``: HTTP statuses to which the rule is confined; 200
    is an error inside a good answer. ``hint``: a sentence that is added to the failure's message.
    Raises ValueError for a rule that cannot match or whose pattern is no good.
    """

    kind: ErrorKind
    codes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    statuses: tuple[int, ...] = ()
    text: str = ""
    only: tuple[int, ...] = ()
    hint: str = ""

    def __post_init__(self) -> None:
        if not (self.codes or self.types or self.statuses or self.text):
            raise ValueError("a rule needs codes, types, statuses or text")
        if not is_quick(self.text):
            raise ValueError(f"text {RULE}")

    def matches(self, error: WireError) -> bool:
        """Whether an error is one of these."""
        status = error.effective_status
        if self.only and status not in self.only:
            return False
        if status in self.statuses or _among(error.code, self.codes) or _among(error.type, self.types):
            return True
        return bool(self.text) and re.search(self.text, error.message[:MAX_TEXT], re.IGNORECASE) is not None


def _among(word: str, words: tuple[str, ...]) -> bool:
    return bool(word) and any(word.lower() == one.lower() for one in words)


@dataclass(frozen=True, slots=True)
class CallContext:
    """What the sentences name: the provider, the model, where the key comes from and the server's address.

    ``rules``: the profile's own, which are looked at before the general ones.
    """

    provider: str
    model: str = ""
    key_hint: str = "its API key"
    address: str = ""
    secret: str = field(default="", repr=False)
    rules: tuple[ErrorRule, ...] = ()


def _rule(
    kind: ErrorKind, words: str = "", statuses: tuple[int, ...] = (), text: str = "", only: tuple[int, ...] = ()
) -> ErrorRule:
    """A general rule, whose ``words`` may be codes or types: providers do not agree on which is which."""
    both = tuple(words.split())
    return ErrorRule(kind, both, both, statuses, text, only)


_OVERFLOW = (
    r"max(imum)? context|available context size|prompt (is )?too long|"
    r"context (window|limit|length) (is |was )?exceeded|exceed\w* (the )?(model'?s )?context|"
    r"total length of all messages is too long"
)

# For all providers: what one of them alone says is in the rows of profiles.toml. The first match counts.
_RULES = (
    _rule(ErrorKind.RATE_LIMIT, "rate_limit_exceeded rate_limit_error too_many_requests"),
    _rule(
        ErrorKind.CONTEXT_OVERFLOW,
        "context_length_exceeded exceed_context_size_error too_many_prompt_tokens request_too_large "
        "context_window_exceeded model_context_window_exceeded",
        statuses=(413,),
    ),
    _rule(
        ErrorKind.CONTEXT_OVERFLOW,
        text=_OVERFLOW,
        only=(200, 400, 422, 500),
    ),
    _rule(
        ErrorKind.QUOTA,
        "insufficient_quota billing_error billing_not_active insufficient_credits quota_exceeded "
        "spend_limit_reached organization_spend_limit_reached workspace_spend_limit_reached",
        statuses=(402,),
    ),
    _rule(
        ErrorKind.CONTENT_FILTER,
        "content_filter content_policy_violation responsibleaipolicyviolation data_inspection_failed",
    ),
    _rule(ErrorKind.RATE_LIMIT, statuses=(429,)),
    _rule(ErrorKind.AUTH, "invalid_api_key authentication_error unauthorized invalid_authentication", statuses=(401,)),
    _rule(
        ErrorKind.AUTH,
        text=r"(incorrect|invalid|missing|expired) api[ _-]?key|api[ _-]?key (is )?(not valid|invalid|missing|expired)",
        only=(200, 400, 403),
    ),
    _rule(
        ErrorKind.NOT_FOUND,
        "model_not_found not_found_error model_not_available",
        statuses=(404, 410),
    ),
    _rule(
        ErrorKind.NOT_FOUND,
        text=r"not a valid model id|invalid model:|model\b.{0,80}\b(not found|does not exist|is not available)",
        only=(200, 400, 422),
    ),
    _rule(ErrorKind.FORBIDDEN, "permission_error permission_denied forbidden", statuses=(403,)),
    _rule(
        ErrorKind.OVERLOADED,
        "overloaded_error overloaded slow_down service_unavailable_error engine_overloaded provider_overloaded",
        statuses=(503, 529),
    ),
    _rule(
        ErrorKind.SERVER_ERROR,
        "server_error api_error internal_server_error internalservererror internal_error provider_unavailable "
        "timeout_error",
        statuses=(408, 409, 425, 500, 501, 502, 504, *range(505, 529), *range(530, 600)),
    ),
)


@dataclass(frozen=True, slots=True)
class _Meaning:
    reason: Reason
    retryable: bool
    sentence: str


_MEANINGS: Mapping[ErrorKind, _Meaning] = {
    ErrorKind.CONTEXT_OVERFLOW: _Meaning(
        Reason.CONTEXT_OVERFLOW,
        False,
        "The conversation does not fit the context of model {model}: shorten or compact it, or use a larger model.",
    ),
    ErrorKind.RATE_LIMIT: _Meaning(
        Reason.PROVIDER_RATE_LIMITED,
        True,
        "{provider} limits the rate of requests: wait, send fewer at once, or ask the provider for a higher limit.",
    ),
    ErrorKind.QUOTA: _Meaning(
        Reason.PROVIDER_QUOTA_EXHAUSTED,
        False,
        "The quota or credit of the {provider} account is used up: add credit or raise the spending limit there.",
    ),
    ErrorKind.AUTH: _Meaning(
        Reason.PROVIDER_AUTH_FAILED, False, "{provider} rejects the credentials: put a valid key into {key_hint}."
    ),
    ErrorKind.FORBIDDEN: _Meaning(
        Reason.PROVIDER_FORBIDDEN,
        False,
        "{provider} does not allow this account to use model {model}: check the permissions of the key in {key_hint}.",
    ),
    ErrorKind.NOT_FOUND: _Meaning(
        Reason.MODEL_NOT_FOUND,
        False,
        "{provider} has no model {model} at {address}: check the model's name and the base URL.",
    ),
    ErrorKind.OVERLOADED: _Meaning(
        Reason.PROVIDER_UNAVAILABLE, True, "{provider} is overloaded: try again later or use another model."
    ),
    ErrorKind.SERVER_ERROR: _Meaning(
        Reason.PROVIDER_UNAVAILABLE, True, "{provider} failed to answer: try again, and see the provider's status page."
    ),
    ErrorKind.CONTENT_FILTER: _Meaning(
        Reason.PROVIDER_CONTENT_FILTERED, False, "{provider}'s content filter blocked the request: change the input."
    ),
    ErrorKind.TOOL_USE_FAILED: _Meaning(
        Reason.PROVIDER_MODEL_FAULT,
        True,
        "Model {model} wrote a tool call that {provider} cannot use: try again, or use a model that is better at it.",
    ),
    ErrorKind.BAD_REQUEST: _Meaning(
        Reason.PROVIDER_REJECTED,
        False,
        "{provider} rejects the request as invalid for model {model}: see the code, and check options and tools.",
    ),
}


def classify(error: WireError, rules: Sequence[ErrorRule] = ()) -> ErrorKind:
    """The kind of an error, by the profile's own ``rules`` first. Anything unknown is a bad request: never retried."""
    rule = _rule_for(error, rules)
    return ErrorKind.BAD_REQUEST if rule is None else rule.kind


def _rule_for(error: WireError, rules: Sequence[ErrorRule]) -> ErrorRule | None:
    return next((rule for rule in (*rules, *_RULES) if rule.matches(error)), None)


def failure_of(error: WireError, headers: Mapping[str, str], context: CallContext, now: float) -> Failure:
    """The failure to report. ``headers`` have lower-case names; ``now`` is Unix time in seconds."""
    rule = _rule_for(error, context.rules)
    meaning = _MEANINGS[ErrorKind.BAD_REQUEST if rule is None else rule.kind]
    retryable = meaning.retryable
    if retryable and headers.get("x-should-retry", "").strip().lower() == "false":
        retryable = False
    code, kind_word, param = (_safe(word, context.secret) for word in (error.code, error.type, error.param))
    status = error.effective_status
    message = _sentence(meaning.sentence, context)
    details = [f"status {status}"] if status >= 400 else []
    details += [f"code {code}"] if code and code != str(status) else []
    details += [f"parameter {param}"] if param else []
    if details:
        message += f" ({', '.join(details)})"
    if rule is not None and rule.hint:
        message += f" {rule.hint}"
    found = {"http_status": str(error.status), "type": kind_word, "param": param}
    return Failure(
        FailurePhase.MODEL,
        meaning.reason,
        message,
        retryable=retryable,
        retry_after=retry_after(headers, now) if retryable else None,
        origin=context.provider,
        origin_code=code or (str(status) if status >= 400 else ""),
        metadata={name: value for name, value in found.items() if value},
    )


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait, from ``retry-after-ms`` and ``retry-after`` (RFC 9110: seconds or a date); None: not told.

    The longer of the two counts, since some servers send 0 in one of them. A value of ten digits or more is taken for
    the Unix time that some gateways send. Negative, unreadable and beyond 24 hours: not told.
    """
    found = [_milliseconds(headers.get("retry-after-ms")), _seconds(headers.get("retry-after"), now)]
    credible = [value for value in found if value is not None and 0 <= value <= MAX_RETRY_AFTER]
    return max(credible, default=None)


def _milliseconds(text: str | None) -> float | None:
    value = _number(text)
    return None if value is None else value / 1000


def _seconds(text: str | None, now: float) -> float | None:
    if not text:
        return None
    value = _number(text)
    if value is not None:
        if value >= _EPOCH_MILLISECONDS:
            return value / 1000 - now
        return value - now if value >= _EPOCH_SECONDS else value
    try:
        return max(0.0, parsedate_to_datetime(text.strip()).timestamp() - now)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


def _number(text: str | None) -> float | None:
    if text is None or len(text) > 40:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _safe(word: str, secret: str) -> str:
    """A provider's own word, when it looks like an identifier and cannot be a piece of text or of the key."""
    shows_key = bool(secret) and (secret in word or (len(word) >= _KEY_PIECE and word in secret))
    return word if _SAFE_TOKEN.fullmatch(word) and not shows_key else ""


def _sentence(template: str, context: CallContext) -> str:
    return template.format(
        provider=context.provider or "The provider",
        model=f'"{context.model}"' if context.model else "(none)",
        key_hint=context.key_hint,
        address=context.address or "its address",
    )


def provider_failure(
    reason: Reason, message: str, *, retryable: bool = False, origin: str = "", code: str = ""
) -> ProviderError:
    """A ProviderError of the model phase, for what no provider reported itself."""
    return ProviderError(
        Failure(FailurePhase.MODEL, reason, message, retryable=retryable, origin=origin, origin_code=code)
    )


def protocol_error(message: str, origin: str = "") -> ProviderError:
    """The provider broke its protocol; another attempt may go well."""
    return provider_failure(Reason.PROVIDER_PROTOCOL_ERROR, message, retryable=True, origin=origin)
