"""What errors of providers mean."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwired.domain.failure import Reason
from turnwired.providers.errors import (
    MAX_RETRY_AFTER,
    CallContext,
    ErrorKind,
    WireError,
    classify,
    failure_of,
    retry_after,
)
from turnwired.providers.profiles import shipped

NOW = 1_795_000_000.0
KEY = "sk-secret-0123456789"
RULES = shipped()["openai-compatible"].errors
CONTEXT = CallContext("acme", "big-model", "the environment variable ACME_KEY", "api.acme.example:443", KEY, RULES)


@pytest.mark.requirement("WIRE-5")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (WireError(400, code="context_length_exceeded"), ErrorKind.CONTEXT_OVERFLOW),
        (WireError(413), ErrorKind.CONTEXT_OVERFLOW),
        (WireError(400, message="prompt is too long: 9 tokens > 8 maximum"), ErrorKind.CONTEXT_OVERFLOW),
        (WireError(413, type="tokens", code="rate_limit_exceeded"), ErrorKind.RATE_LIMIT),
        (WireError(429), ErrorKind.RATE_LIMIT),
        (WireError(429, code="insufficient_quota"), ErrorKind.QUOTA),
        (WireError(402), ErrorKind.QUOTA),
        (WireError(200, code="429"), ErrorKind.RATE_LIMIT),
        (WireError(200, code="rate_limit_exceeded"), ErrorKind.RATE_LIMIT),
        (WireError(200, type="overloaded_error"), ErrorKind.OVERLOADED),
        (WireError(529), ErrorKind.OVERLOADED),
        (WireError(503), ErrorKind.OVERLOADED),
        (WireError(401), ErrorKind.AUTH),
        (WireError(400, message="Incorrect API key provided: x"), ErrorKind.AUTH),
        (WireError(403), ErrorKind.FORBIDDEN),
        (WireError(404), ErrorKind.NOT_FOUND),
        (WireError(400, code="model_not_found"), ErrorKind.NOT_FOUND),
        (WireError(400, code="content_filter"), ErrorKind.CONTENT_FILTER),
        (WireError(400, code="tool_use_failed"), ErrorKind.TOOL_USE_FAILED),
        (WireError(500, message="tools param requires --jinja flag"), ErrorKind.BAD_REQUEST),
        (WireError(500), ErrorKind.SERVER_ERROR),
        (WireError(504), ErrorKind.SERVER_ERROR),
        (WireError(408), ErrorKind.SERVER_ERROR),
        (WireError(400), ErrorKind.BAD_REQUEST),
        (WireError(418, message="teapot"), ErrorKind.BAD_REQUEST),
    ],
)
def test_an_error_is_of_its_kind(error: WireError, kind: ErrorKind) -> None:
    assert classify(error, RULES) is kind


@pytest.mark.requirement("WIRE-11")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "2400"}, 2.4),
        ({"retry-after": "1", "retry-after-ms": "0"}, 1.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "Sun, 18 Jan 2026 10:00:00 GMT"}, 0.0),
        ({"retry-after": formatdate(NOW + 30, usegmt=True)}, 30.0),
        ({"retry-after": str(int(NOW) + 7)}, 7.0),
        ({"retry-after": str((int(NOW) + 7) * 1000)}, 7.0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "86401"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "9" * 500}, None),
        ({"retry-after": "Wed, 99 Foo 2026 99:99:99 GMT"}, None),
        ({"retry-after-ms": "x", "retry-after": "3"}, 3.0),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: Mapping[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@pytest.mark.requirement("WIRE-11")
@given(st.text(max_size=50), st.text(max_size=50))
def test_retry_after_of_any_text_is_absent_or_within_a_day(seconds: str, milliseconds: str) -> None:
    found = retry_after({"retry-after": seconds, "retry-after-ms": milliseconds}, NOW)
    assert found is None or 0 <= found <= MAX_RETRY_AFTER


@pytest.mark.requirement("WIRE-5", "WIRE-11")
def test_a_rate_limit_is_retryable_after_the_time_told() -> None:
    failure = failure_of(WireError(429, code="rate_limit_exceeded"), {"retry-after": "20"}, CONTEXT, NOW)
    assert (failure.reason, failure.retryable, failure.retry_after) == (Reason.PROVIDER_RATE_LIMITED, True, 20.0)
    assert (failure.origin, failure.origin_code) == ("acme", "rate_limit_exceeded")


@pytest.mark.requirement("WIRE-5")
@pytest.mark.parametrize(("status", "retryable"), [(429, True), (500, True), (503, True), (400, False), (401, False)])
def test_only_what_may_pass_is_retryable(status: int, retryable: bool) -> None:
    assert failure_of(WireError(status), {}, CONTEXT, NOW).retryable is retryable
    assert not failure_of(WireError(status), {"x-should-retry": "false"}, CONTEXT, NOW).retryable


@pytest.mark.requirement("WIRE-12")
@pytest.mark.parametrize("status", [200, 400, 401, 402, 403, 404, 413, 429, 500, 503])
def test_a_failure_repeats_neither_the_key_nor_what_the_provider_wrote(status: int) -> None:
    words = "Your prompt 'my diary of 1999' and key " + KEY
    for error in (
        WireError(status, KEY, KEY, words, KEY),
        WireError(status, "my diary of 1999", "my diary of 1999", words, "my diary of 1999"),
        WireError(status, KEY[:12], KEY[3:], words),
    ):
        failure = failure_of(error, {}, CONTEXT, NOW)
        for text in (failure.message, failure.origin_code, *failure.metadata.values()):
            assert "diary" not in text
            assert "secret" not in text


@pytest.mark.requirement("WIRE-12")
def test_a_context_and_an_error_do_not_show_key_and_text() -> None:
    assert KEY not in repr(CONTEXT)
    assert "diary" not in repr(WireError(400, message="my diary"))


@pytest.mark.requirement("WIRE-12")
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (WireError(401), ["acme", "ACME_KEY"]),
        (WireError(404), ["big-model", "api.acme.example:443", "base URL"]),
        (WireError(429, code="insufficient_quota"), ["credit"]),
        (WireError(400, code="unsupported_parameter", param="max_tokens"), ["unsupported_parameter", "max_tokens"]),
        (WireError(500, message="tools param requires --jinja flag"), ["--jinja"]),
    ],
)
def test_a_failure_says_what_to_do(error: WireError, words: list[str]) -> None:
    message = failure_of(error, {}, CONTEXT, NOW).message
    assert all(word in message for word in words), message
