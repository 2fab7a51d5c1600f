"""Trace context on the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import get_current_span

from turnwired.telemetry.spans import parent_of

GOOD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.requirement("TEL-16")
def test_a_callers_span_is_a_remote_parent() -> None:
    parent = get_current_span(parent_of({"traceparent": GOOD, "tracestate": "a=1"})).get_span_context()
    assert (parent.span_id, parent.is_remote) == (0xB7AD6B7169203331, True)
    assert parent.trace_state.to_header() == "a=1"


@pytest.mark.requirement("TEL-16")
@pytest.mark.parametrize("value", ["", "nonsense", GOOD.upper(), "ff" + GOOD[2:], GOOD[:36] + "0" * 16 + GOOD[52:]])
def test_a_malformed_header_names_no_parent(value: str) -> None:
    assert not get_current_span(parent_of({"traceparent": value})).get_span_context().is_valid


@pytest.mark.requirement("TEL-16")
@given(value=st.text(max_size=80))
def test_no_header_raises(value: str) -> None:
    parent_of({"traceparent": value, "tracestate": value})
    parent_of({"traceparent": GOOD, "tracestate": value})
