"""Trace context on the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwired.telemetry.propagation import SpanReference, extract

GOOD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.requirement("TEL-16")
@given(
    trace_id=st.integers(1, 2**128 - 1),
    span_id=st.integers(1, 2**64 - 1),
    sampled=st.booleans(),
    state=st.sampled_from(["", "a=1", "a=1,b=2"]),
)
def test_headers_say_what_they_were_made_of(trace_id: int, span_id: int, sampled: bool, state: str) -> None:
    reference = SpanReference(trace_id, span_id, sampled, state)
    assert extract(reference.headers()) == reference


@pytest.mark.requirement("TEL-16")
@pytest.mark.parametrize(
    "value",
    [
        "",
        "nonsense",
        GOOD[:-1],
        GOOD.upper(),
        GOOD + "-more",
        "ff" + GOOD[2:],
        "00-" + "0" * 32 + GOOD[35:],
        GOOD[:36] + "0" * 16 + GOOD[52:],
        GOOD + "\n",
        "\u0660\u0660" + GOOD[2:],
    ],
)
def test_a_malformed_header_names_no_parent(value: str) -> None:
    assert extract({"traceparent": value}) is None


@pytest.mark.requirement("TEL-16")
def test_a_later_version_may_say_more() -> None:
    assert extract({"traceparent": "01" + GOOD[2:] + "-more"}) is not None


@pytest.mark.requirement("TEL-16")
@given(st.text(max_size=80))
def test_no_header_raises(value: str) -> None:
    extract({"traceparent": value, "tracestate": value})
    found = extract({"traceparent": GOOD, "tracestate": value})
    assert found is not None
    assert found.trace_state in ("", value)


@pytest.mark.requirement("TEL-16")
def test_a_state_that_is_too_long_or_unprintable_is_not_passed_on() -> None:
    for state in ("x" * 513, "a=\x00", "a=é"):
        assert extract({"traceparent": GOOD, "tracestate": state}) == extract({"traceparent": GOOD})
