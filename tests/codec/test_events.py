"""Events, records and frames: what goes in comes out, byte for byte where bytes are kept."""

from __future__ import annotations

import typing

import pytest
from codec import cost_of_a_delta
from codec.values import INT64, LOGGED_EVENTS, values
from hypothesis import given
from hypothesis import strategies as st

from turnwire.v1 import event_pb2, message_pb2, outcome_pb2, turn_service_pb2
from turnwired.codec.event import decode_events, encode_event, event_from_pb
from turnwired.codec.frame import Visibility, frame, record_header, split_records, varint
from turnwired.domain import event
from turnwired.domain.errors import CodecError
from turnwired.domain.event import LoggedEvent


def encode(logged: LoggedEvent) -> bytes:
    return encode_event(logged.sequence, logged.time_ns, logged.iteration, logged.event)


@pytest.mark.requirement("CODEC-1")
@pytest.mark.parametrize("kind", typing.get_args(event.Event), ids=lambda kind: kind.__name__)
def test_every_kind_of_event_survives_encoding_and_decoding(kind: type) -> None:
    @given(values(kind), INT64, st.integers(0, 2**62), st.integers(0, 2**31 - 1))
    def survives(payload: event.Event, sequence: int, time_ns: int, iteration: int) -> None:
        record = encode_event(sequence, time_ns, iteration, payload)
        assert decode_events(record) == [LoggedEvent(sequence, time_ns, iteration, payload)]

    survives()


@pytest.mark.requirement("CODEC-1", "CODEC-2")
@given(st.lists(LOGGED_EVENTS, max_size=5))
def test_joined_records_decode_to_their_events_in_order(log: list[LoggedEvent]) -> None:
    assert decode_events(b"".join(encode(logged) for logged in log)) == log


@pytest.mark.requirement("CODEC-2")
@pytest.mark.parametrize("response", [turn_service_pb2.RunTurnResponse, turn_service_pb2.WatchRunResponse])
@given(
    log=st.lists(LOGGED_EVENTS, max_size=3),
    epoch=INT64,
    through=INT64,
    last=INT64,
    rewind=st.none() | INT64,
)
def test_a_frame_reads_as_a_message_of_either_stream(
    response: type[turn_service_pb2.RunTurnResponse],
    log: list[LoggedEvent],
    epoch: int,
    through: int,
    last: int,
    rewind: int | None,
) -> None:
    data = frame([encode(logged) for logged in log], epoch, through, last, rewind)
    message = response.FromString(data)
    assert [event_from_pb(item) for item in message.events] == log
    assert (message.epoch, message.through_sequence, message.last_sequence) == (epoch, through, last)
    assert (message.rewind_to_sequence if message.HasField("rewind_to_sequence") else None) == rewind
    assert decode_events(data) == log
    assert message.SerializeToString(deterministic=True) == data


@pytest.mark.requirement("CODEC-2")
def test_a_rewind_to_the_start_is_told_from_no_rewind() -> None:
    message = turn_service_pb2.WatchRunResponse.FromString(frame([], 2, 0, 0, rewind=0))
    assert message.HasField("rewind_to_sequence")


@pytest.mark.requirement("CODEC-3")
@given(st.lists(LOGGED_EVENTS, max_size=5))
def test_a_row_is_cut_into_the_records_it_was_joined_from(log: list[LoggedEvent]) -> None:
    records = [encode(logged) for logged in log]
    cut = split_records(b"".join(records))
    assert [record.data for record in cut] == records
    assert [record.sequence for record in cut] == [logged.sequence for logged in log]


@pytest.mark.requirement("CODEC-3")
def test_a_record_longer_than_one_length_byte_is_cut_whole() -> None:
    records = [encode_event(n, 0, 1, event.TextDelta("p", "x" * size)) for n, size in enumerate((120, 200, 20_000))]
    assert [record.data for record in split_records(b"".join(records))] == records


@pytest.mark.requirement("CODEC-3")
@given(LOGGED_EVENTS)
def test_deltas_are_for_detailed_streams_and_the_ends_of_a_run_for_all(logged: LoggedEvent) -> None:
    (record,) = split_records(encode(logged))
    if isinstance(logged.event, event.DELTA_EVENTS):
        assert record.visibility is Visibility.DELTA
    elif isinstance(logged.event, event.RunStarted | event.RunWaiting | event.RunFinished):
        assert record.visibility is Visibility.OUTCOME
    else:
        assert record.visibility is Visibility.MILESTONE


@pytest.mark.requirement("CODEC-3")
def test_levels_of_visibility_are_those_of_the_contract() -> None:
    detail = turn_service_pb2.StreamDetail
    order = [detail.STREAM_DETAIL_OUTCOME, detail.STREAM_DETAIL_MILESTONES, detail.STREAM_DETAIL_DELTAS]
    assert sorted(Visibility) == [Visibility.OUTCOME, Visibility.MILESTONE, Visibility.DELTA]
    assert len(order) == len(Visibility) == len(detail.keys()) - 1


@pytest.mark.requirement("CODEC-3")
def test_an_event_of_a_newer_contract_is_sent_on_as_a_milestone() -> None:
    newer = event_pb2.RunEvent(sequence=7).SerializeToString() + b"\xfa\x02\x00"  # an empty message in field 47
    body = record_header(len(newer)) + newer
    assert [(r.sequence, r.visibility, r.data) for r in split_records(body)] == [(7, Visibility.MILESTONE, body)]
    with pytest.raises(CodecError, match="event 7 is of a kind that this version does not know"):
        decode_events(body)


@pytest.mark.requirement("CODEC-6")
@pytest.mark.parametrize("body", [b"\x0a\x05ab", b"\xff", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"])
def test_bytes_that_are_no_frame_are_a_codec_error(body: bytes) -> None:
    with pytest.raises(CodecError):
        decode_events(body)
    with pytest.raises(CodecError):
        split_records(body)


@pytest.mark.requirement("CODEC-6")
def test_a_row_with_something_else_behind_its_records_is_a_codec_error() -> None:
    with pytest.raises(CodecError, match="no record"):
        split_records(encode_event(1, 0, 0, event.TextDelta("p", "t")) + b"\x10\x01")


@pytest.mark.requirement("CODEC-6")
def test_an_error_deep_in_an_event_names_the_place() -> None:
    message = event_pb2.RunEvent(sequence=3)
    message.run_finished.outcome.kind = outcome_pb2.OUTCOME_KIND_ANSWERED
    message.run_finished.message.role = message_pb2.ROLE_ASSISTANT
    message.run_finished.message.parts.add(part_id="p1", text="fine")
    message.run_finished.message.parts.add(part_id="p2").tool_result.call_id = "c"
    with pytest.raises(CodecError, match=r"event 3 run_finished.parts\[1\].tool_result.status: must be set"):
        event_from_pb(message)


@pytest.mark.requirement("CODEC-2")
@given(INT64)
def test_a_varint_is_what_protobuf_reads(value: int) -> None:
    assert event_pb2.Cursor.FromString(b"\x10" + varint(value)).sequence == value


def test_a_negative_number_is_no_varint() -> None:
    with pytest.raises(ValueError, match="-1 is negative"):
        varint(-1)


@pytest.mark.requirement("CODEC-7")
def test_encoding_a_text_delta_costs_microseconds() -> None:
    # About 2 us when the machine is quiet; the bound only catches a wrong turn, such as keyword construction.
    assert cost_of_a_delta.figures()["encode text delta"] < 20
