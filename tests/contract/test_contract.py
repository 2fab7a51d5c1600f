"""Promises of the contract that neither the linter nor the compiler checks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from turnwire.v1 import event_pb2, policy_pb2, server_service_pb2, turn_service_pb2

ROOT = Path(__file__).parents[2]
PROTOS = sorted((ROOT / "proto").rglob("*.proto"))


def shape(message: Descriptor) -> list[tuple[object, ...]]:
    """What the fields of a message are on the wire."""
    return [
        (field.number, field.name, field.type, field.is_repeated, field.has_presence, _type_name(field))
        for field in message.fields
    ]


def _type_name(field: FieldDescriptor) -> str:
    return field.message_type.full_name if field.message_type is not None else ""


@pytest.mark.requirement("CONTRACT-1")
def test_frames_of_both_streams_are_the_same_bytes() -> None:
    run, watch = turn_service_pb2.RunTurnResponse.DESCRIPTOR, turn_service_pb2.WatchRunResponse.DESCRIPTOR
    assert shape(run) == shape(watch)
    assert run.fields_by_name["events"].number == 1


@pytest.mark.requirement("CONTRACT-2")
def test_no_cap_of_the_policy_is_a_bare_number_or_duration() -> None:
    numbers = {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_DOUBLE}
    for group in policy_pb2.Policy.DESCRIPTOR.fields:
        assert group.message_type is not None
        for leaf in group.message_type.fields:
            path = f"{group.name}.{leaf.name}"
            assert leaf.cpp_type not in numbers, path
            assert _type_name(leaf) != "google.protobuf.Duration", path


@pytest.mark.requirement("CONTRACT-2")
def test_every_cap_says_which_modes_it_allows() -> None:
    lines = (ROOT / "proto/turnwire/v1/policy.proto").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if "Limit " in line or "Limit> " in line:
            if not line.startswith("  ") or "=" not in line:
                continue
            comment: list[str] = []
            for above in reversed(lines[:number]):
                if not above.strip().startswith("//"):
                    break
                comment.append(above)
            assert any("Modes: D" in words for words in comment), line


@pytest.mark.requirement("CONTRACT-2")
def test_the_bounds_that_end_the_loop_know_no_unbounded_mode() -> None:
    text = (ROOT / "proto/turnwire/v1/policy.proto").read_text(encoding="utf-8")
    for bound in ("max_steps", "max_tool_calls"):
        comment = text.partition(f"CountLimit {bound} =")[0].rpartition("CountLimit")[2]
        assert "Modes: D." in comment, bound


@pytest.mark.requirement("CONTRACT-3")
@pytest.mark.parametrize("path", PROTOS, ids=lambda path: path.name)
def test_a_client_needs_no_protos_beside_ours_and_protobufs_own(path: Path) -> None:
    imports = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("import ")]
    assert all('"turnwire/v1/' in line or '"google/protobuf/' in line for line in imports), imports


@pytest.mark.requirement("CONTRACT-4")
def test_events_that_come_often_have_numbers_of_one_byte() -> None:
    often = ("text_delta", "reasoning_delta", "tool_call_arguments_delta", "tool_call_progressed", "part_finished")
    fields = event_pb2.RunEvent.DESCRIPTOR.fields_by_name
    assert all(fields[name].number < 16 for name in often)


@pytest.mark.requirement("CONTRACT-5")
def test_nothing_that_tells_of_providers_has_room_for_a_key() -> None:
    names = {
        field.name
        for message in (server_service_pb2.ProviderInfo, server_service_pb2.ModelInfo)
        for field in message.DESCRIPTOR.fields
    }
    assert names == {
        *("provider", "wire", "configured", "models"),
        *("model", "context_tokens", "max_output_tokens", "priced"),
    }


@pytest.mark.requirement("CONTRACT-6")
def test_regenerating_the_python_code_leaves_no_difference() -> None:
    pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed")
    script = ROOT / "scripts" / "generate.py"
    result = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
