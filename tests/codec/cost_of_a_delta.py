"""Measures what encoding one text delta costs. Run it by hand: ``python tests/codec/cost_of_a_delta.py``.

Figures of the machine the code was written on stand in ``docs/design/0001-contract.md``.
"""

from __future__ import annotations

import time
import timeit

from turnwired.codec.event import decode_events, encode_event
from turnwired.codec.frame import frame, split_records
from turnwired.domain.event import TextDelta, ToolCallArgumentsDelta

TIME_NS = 1_790_000_000_123_456_789


def microseconds(statement: object, number: int = 5_000) -> float:
    """Best of fifteen, for one execution, in CPU time."""
    timer = timeit.Timer(statement, timer=time.process_time)  # type: ignore[arg-type]
    return min(timer.repeat(15, number)) / number * 1e6


def figures() -> dict[str, float]:
    """Microseconds of each operation, by name."""
    delta, arguments = TextDelta("p1", " token"), ToolCallArgumentsDelta("call_1", '{"a": 1')
    records = [encode_event(number, TIME_NS, 3, delta) for number in range(1, 65)]
    body = b"".join(records)
    return {
        "encode text delta": microseconds(lambda: encode_event(123_456, TIME_NS, 3, delta)),
        "encode arguments delta": microseconds(lambda: encode_event(123_456, TIME_NS, 3, arguments)),
        "frame of 64 records": microseconds(lambda: frame(records, 1, 64, 64)),
        "decode one of 64 events": microseconds(lambda: decode_events(body), 100) / 64,
        "split one of 64 records": microseconds(lambda: split_records(body), 100) / 64,
    }


if __name__ == "__main__":
    for name, cost in figures().items():
        print(f"{name:28} {cost:6.2f} us")
