"""Messages, policies, runs and turns as they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from codec.values import values
from google.protobuf.duration_pb2 import Duration
from hypothesis import given
from hypothesis import strategies as st

from turnwire.v1 import event_pb2, message_pb2, outcome_pb2, policy_pb2, tool_pb2, turn_service_pb2
from turnwired.codec import enums
from turnwired.codec.frame import varint
from turnwired.codec.message import decode_message, encode_message, message_from_pb
from turnwired.codec.policy import policy_from_pb, policy_to_pb, unenforced_paths
from turnwired.codec.run import (
    cursor_from_pb,
    decode_run,
    decode_turn,
    encode_run,
    encode_turn,
    turn_from_pb,
)
from turnwired.codec.values import (
    duration_from_pb,
    duration_to_pb,
    failure_from_pb,
    failure_to_pb,
    seconds_from_pb,
    seconds_to_pb,
    tool_collision_from_pb,
    tool_collision_to_pb,
    tool_from_pb,
    tool_to_pb,
)
from turnwired.domain.errors import CodecError
from turnwired.domain.failure import Failure
from turnwired.domain.message import Message
from turnwired.domain.policy import LimitMode, LoopPolicy, Policy
from turnwired.domain.run import Caller, Cursor, Run, TurnSpec
from turnwired.domain.tool import Tool, ToolCollision

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor

TABLES = {name: table for name, table in vars(enums).items() if isinstance(table, enums.EnumTable)}


@pytest.mark.requirement("CODEC-4")
@given(values(Message))
def test_a_message_survives(message: Message) -> None:
    body = encode_message(message)
    assert decode_message(body) == message
    assert encode_message(decode_message(body)) == body


@pytest.mark.requirement("CODEC-4")
@given(values(Policy))
def test_a_policy_survives(policy: Policy) -> None:
    out, again = policy_pb2.Policy(), policy_pb2.Policy()
    policy_to_pb(policy, out)
    assert policy_from_pb(out) == policy
    policy_to_pb(policy_from_pb(out), again)
    assert again == out


@pytest.mark.requirement("CODEC-4")
@given(values(Run))
def test_a_run_survives_with_its_final_message(run: Run) -> None:
    body = encode_run(run)
    assert decode_run(body) == run
    assert encode_run(decode_run(body)) == body


@pytest.mark.requirement("CODEC-4")
@given(values(TurnSpec))
def test_a_turn_survives(turn: TurnSpec) -> None:
    body = encode_turn(turn)
    assert decode_turn(body, turn.caller) == turn
    assert encode_turn(decode_turn(body, turn.caller)) == body


@pytest.mark.requirement("CODEC-4")
@given(values(Failure))
def test_a_failure_survives(failure: Failure) -> None:
    out = outcome_pb2.Failure()
    failure_to_pb(failure, out)
    assert failure_from_pb(out) == failure


@pytest.mark.requirement("CODEC-4")
@given(values(Cursor))
def test_a_cursor_is_read(cursor: Cursor) -> None:
    assert cursor_from_pb(event_pb2.Cursor(epoch=cursor.epoch, sequence=cursor.sequence)) == cursor


@pytest.mark.requirement("CODEC-4")
@given(values(Tool))
def test_a_tool_survives(tool: Tool) -> None:
    out = tool_pb2.Tool()
    tool_to_pb(tool, out)
    assert tool_from_pb(out) == tool


@pytest.mark.requirement("CODEC-4")
@given(values(ToolCollision))
def test_a_tool_collision_survives(collision: ToolCollision) -> None:
    out = tool_pb2.ToolCollision()
    tool_collision_to_pb(collision, out)
    assert tool_collision_from_pb(out) == collision


@pytest.mark.requirement("CODEC-4")
@given(st.integers(-(10**15), 10**15))
def test_durations_of_both_signs_are_well_formed(nanoseconds: int) -> None:
    out = Duration()
    duration_to_pb(nanoseconds, out)
    assert duration_from_pb(out) == nanoseconds
    assert out.ToNanoseconds() == nanoseconds
    seconds = Duration()
    seconds_to_pb(nanoseconds / 1e9, seconds)
    assert seconds_from_pb(seconds) == nanoseconds / 1e9


@pytest.mark.requirement("CODEC-5")
@pytest.mark.parametrize("name", sorted(TABLES))
def test_an_enum_has_the_same_members_in_domain_and_contract(name: str) -> None:
    table = TABLES[name]
    known = {int(number) for number in table.to_wire.values()}
    assert known | {0} == table.wire_numbers | {0}


@pytest.mark.requirement("CODEC-5")
def test_every_leaf_of_the_contract_is_read_or_reported_and_none_is_dropped() -> None:
    for group in policy_pb2.Policy.DESCRIPTOR.fields:
        assert group.message_type is not None
        for leaf in group.message_type.fields:
            message = policy_pb2.Policy.FromString(_policy_with_only(group, leaf))
            assert [sub.name for sub, _ in getattr(message, group.name).ListFields()] == [leaf.name]
            read = policy_from_pb(message) != Policy()
            assert read != bool(unenforced_paths(message)), f"{group.name}.{leaf.name}"


def _policy_with_only(group: FieldDescriptor, leaf: FieldDescriptor) -> bytes:
    """Bytes of a policy in which one leaf is set: to the value 1, or to something that has it."""
    one = b"\x08\x01"  # field 1 of a limit, as a count
    if leaf.message_type is None:
        content = varint(leaf.number << 3) + b"\x01" if leaf.type != leaf.TYPE_STRING else _bytes(leaf.number, b"x")
    elif leaf.message_type.name == "CountLimit":
        content = _bytes(leaf.number, one)
    elif leaf.message_type.name == "PermissionRule":
        content = _bytes(leaf.number, b"\x18\x01")
    elif leaf.message_type.GetOptions().map_entry:
        content = _bytes(leaf.number, _bytes(1, b"tool") + _bytes(2, one))
    else:
        content = _bytes(leaf.number, _bytes(1, one))
    return _bytes(group.number, content)


def _bytes(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


@pytest.mark.requirement("CODEC-4")
def test_a_cap_is_a_value_or_a_mode_and_zero_is_a_value() -> None:
    message = policy_pb2.Policy()
    message.loop.max_steps.value = 0
    message.loop.max_tool_calls.mode = policy_pb2.LIMIT_MODE_RUNTIME_DEFAULT
    assert policy_from_pb(message).loop == LoopPolicy(max_steps=0, max_tool_calls=LimitMode.RUNTIME_DEFAULT)


@pytest.mark.requirement("CODEC-6")
def test_a_limit_without_a_setting_is_an_error_at_its_path() -> None:
    message = policy_pb2.Policy()
    message.timeout.tool_call.SetInParent()
    with pytest.raises(CodecError) as caught:
        policy_from_pb(message)
    assert (caught.value.path, caught.value.problem) == ("timeout.tool_call", "must have a value or a mode")


@pytest.mark.requirement("CODEC-6")
@pytest.mark.parametrize("mode", [0, 99])
def test_a_mode_that_is_not_known_is_an_error_at_its_path(mode: int) -> None:
    message = policy_pb2.Policy()
    message.budget.max_cost.mode = policy_pb2.LimitMode.ValueType(mode)
    with pytest.raises(CodecError) as caught:
        policy_from_pb(message)
    assert caught.value.path == "budget.max_cost.mode"


@pytest.mark.requirement("CODEC-6")
def test_a_turn_names_the_part_of_the_input_that_is_wrong() -> None:
    turn = turn_service_pb2.TurnSpec()
    turn.input.add(role=message_pb2.ROLE_USER).parts.add(part_id="p", text="hello")
    turn.input.add(role=message_pb2.ROLE_USER).parts.add(part_id="empty")
    with pytest.raises(CodecError) as caught:
        turn_from_pb(turn, Caller())
    assert caught.value.path == "input[1].parts[0]"


@pytest.mark.requirement("CODEC-6")
def test_a_message_without_a_role_is_an_error() -> None:
    with pytest.raises(CodecError, match="role: must be set"):
        message_from_pb(message_pb2.Message())


@pytest.mark.requirement("CODEC-6")
@pytest.mark.parametrize("field", ["epoch", "sequence"])
def test_a_cursor_before_the_start_is_an_error(field: str) -> None:
    cursor = event_pb2.Cursor()
    setattr(cursor, field, -1)
    with pytest.raises(CodecError, match=f"{field}: must not be negative"):
        cursor_from_pb(cursor)
