"""From the messages of a request to domain values, checked. Every broken rule is named with its path.

What the contract has but this release does not enforce is refused here with OPTION_NOT_SUPPORTED, never ignored.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from turnwire.v1 import event_pb2, message_pb2, model_pb2, policy_pb2, tool_pb2, turn_service_pb2
from turnwired.codec.frame import Visibility
from turnwired.codec.model import model_from_pb
from turnwired.codec.policy import policy_from_pb, unenforced_paths
from turnwired.codec.run import cursor_from_pb, turn_from_pb
from turnwired.codec.values import tool_selection_from_pb
from turnwired.domain.errors import CodecError, FieldViolation, InvalidRequest
from turnwired.domain.failure import Reason
from turnwired.domain.message import AttachmentRef, Blob, Content, Message, Role, Text, ToolCall, ToolResult
from turnwired.domain.model import ModelSelection, OutputFormat
from turnwired.domain.policy import NO_POLICY, Policy
from turnwired.domain.run import Caller, Cursor, OnDisconnect, TurnSpec
from turnwired.domain.text import parse_json
from turnwired.domain.tool import ToolSelection
from turnwired.policy.options import option_violations
from turnwired.policy.validate import MOST_ENTRIES, require_valid
from turnwired.rpc.attachments import MEDIA_TYPE, put_in, read_attachments

MAX_LABELS = 16
MAX_LABEL_LENGTH = 256
MAX_INPUT_MESSAGES = 10_000
MAX_INPUT_PARTS = 20_000
"""Parts of all messages and of the results in them: each costs the loop some 25 us, whatever it holds."""
MAX_MODEL_LENGTH = 256
MAX_OPTIONS_DEPTH = 64
MAX_SCHEMA_BYTES = 256 << 10
MAX_PATTERNS = 500
MAX_PATTERN_LENGTH = 256
_FORMAT_NAME = re.compile(r"[A-Za-z0-9_-]{0,64}\Z")
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")


@dataclass(slots=True)
class Problems:
    """Broken rules of one request, gathered so that the caller learns of all of them at once."""

    invalid: list[FieldViolation] = field(default_factory=list[FieldViolation])
    unsupported: list[FieldViolation] = field(default_factory=list[FieldViolation])

    def add(self, path: str, description: str) -> None:
        """A rule that the request breaks."""
        self.invalid.append(FieldViolation(path, description))

    def refuse(self, path: str, what: str = "is") -> None:
        """An option that this release does not enforce."""
        text = f"{what} not supported by this release of the server; leave it unset"
        self.unsupported.append(FieldViolation(path, text))

    def raise_if_any(self) -> None:
        """Raise InvalidRequest when there are any; OPTION_NOT_SUPPORTED only when nothing else is wrong."""
        if self.invalid:
            raise InvalidRequest([*self.invalid, *self.unsupported])
        if self.unsupported:
            raise InvalidRequest(self.unsupported, Reason.OPTION_NOT_SUPPORTED)

    def check_id(self, path: str, value: str) -> None:
        """Ids are 1 to 64 characters of [A-Za-z0-9._-]."""
        if not _ID.match(value):
            self.add(path, "must be 1 to 64 characters of [A-Za-z0-9._-]")


def require_id(path: str, value: str) -> None:
    """Raises InvalidRequest for what no id can be."""
    problems = Problems()
    problems.check_id(path, value)
    problems.raise_if_any()


def turn_spec(turn: turn_service_pb2.TurnSpec, caller: Caller, on_disconnect: OnDisconnect | None = None) -> TurnSpec:
    """A checked turn. Raises InvalidRequest."""
    problems = Problems()
    _check_size(turn, problems)
    problems.raise_if_any()
    _refuse_what_is_not_built(turn, problems)
    try:
        spec = turn_from_pb(turn, caller)
    except CodecError as error:
        path = error.path.removeprefix("turn.")
        problems.add(f"turn.{path}" if path else "turn", error.problem)
        problems.raise_if_any()
        raise AssertionError("a problem was added") from error
    spec = _with_attachments(spec, turn, problems)
    _check_ids(turn, problems)
    check_labels(spec.labels, "turn.labels", problems)
    check_selection(spec.tools, "turn.tools", problems)
    _check_input(spec, problems)
    check_model(spec.model, "turn.model", problems)
    _check_format(spec.output_format, problems)
    _check_policy(spec.policy, "turn.policy", problems)
    problems.raise_if_any()
    # Only a request id asks for it, and of a long history it costs a millisecond.
    digest = digest_of(turn) if turn.request_id else b""
    return replace(spec, on_disconnect=on_disconnect, digest=digest)


def _with_attachments(spec: TurnSpec, turn: turn_service_pb2.TurnSpec, problems: Problems) -> TurnSpec:
    given = read_attachments(turn.attachments, "turn.attachments", problems)
    input_ = put_in(spec.input, given, problems)
    if input_ is spec.input:
        return spec
    places = {
        part.content.attachment_id: (index, place)
        for index, message in enumerate(spec.input)
        for place, part in enumerate(message.parts)
        if isinstance(part.content, AttachmentRef)
    }
    files = tuple(each.attachment for each in given)
    return replace(spec, input=input_, attachments=files, attachment_places=places)


def _check_size(turn: turn_service_pb2.TurnSpec, problems: Problems) -> None:
    """Before anything of it is copied: what is too much to look at in one go."""
    _check_entries(turn.policy, "turn.policy", problems)
    if len(turn.input) > MAX_INPUT_MESSAGES:
        problems.add("turn.input", f"has {len(turn.input)} messages; at most {MAX_INPUT_MESSAGES} are allowed")
        return
    parts = sum(len(item.parts) for item in turn.input)
    if parts <= MAX_INPUT_PARTS:
        parts += sum(_inner_parts(item) for item in turn.input)
    if parts > MAX_INPUT_PARTS:
        problems.add("turn.input", f"has {parts} parts; at most {MAX_INPUT_PARTS} are allowed")


def _check_entries(message: policy_pb2.Policy, path: str, problems: Problems) -> None:
    entries = len(message.loop.max_tool_calls_per_tool)
    if entries > MOST_ENTRIES:
        what = f"has {entries} entries; at most {MOST_ENTRIES} are allowed"
        problems.add(f"{path}.loop.max_tool_calls_per_tool", what)


def _inner_parts(item: message_pb2.Message) -> int:
    return sum(len(part.tool_result.content) for part in item.parts if part.HasField("tool_result"))


def digest_of(turn: turn_service_pb2.TurnSpec) -> bytes:
    """What tells a repeated request from a reused request_id: all of the turn but that id."""
    content = turn_service_pb2.TurnSpec()
    content.CopyFrom(turn)
    content.request_id = ""
    return hashlib.sha256(content.SerializeToString(deterministic=True)).digest()


def _refuse_what_is_not_built(turn: turn_service_pb2.TurnSpec, problems: Problems) -> None:
    if turn.on_busy not in turn_service_pb2.OnBusy.values():
        problems.add("turn.on_busy", f"has the unknown value {turn.on_busy}")
    elif turn.on_busy not in (turn_service_pb2.ON_BUSY_UNSPECIFIED, turn_service_pb2.ON_BUSY_REJECT):
        problems.refuse("turn.on_busy", "queueing and appending are")
    for path in unenforced_paths(turn.policy):
        problems.refuse(f"turn.policy.{path}")


def refuse_client_tools(selection: tool_pb2.ToolSelection, path: str, problems: Problems) -> None:
    """Tools of a caller belong to its turns: nobody would be there to execute them elsewhere."""
    if selection.client_tools:
        problems.add(f"{path}.client_tools", "must be empty: client tools come with each turn")


def check_selection(selection: ToolSelection, path: str, problems: Problems) -> None:
    """Patterns of bounded number and length: each is held against every tool."""
    for name, patterns in (("include", selection.include), ("exclude", selection.exclude)):
        if len(patterns) > MAX_PATTERNS:
            problems.add(f"{path}.{name}", f"has {len(patterns)} entries; at most {MAX_PATTERNS} are allowed")
        elif any(len(pattern) > MAX_PATTERN_LENGTH for pattern in patterns):
            problems.add(f"{path}.{name}", f"patterns have at most {MAX_PATTERN_LENGTH} characters")


def _check_ids(turn: turn_service_pb2.TurnSpec, problems: Problems) -> None:
    if turn.request_id:
        problems.check_id("turn.request_id", turn.request_id)
    if turn.agent_id:
        problems.check_id("turn.agent_id", turn.agent_id)
    if turn.HasField("session_id"):
        problems.check_id("turn.session_id", turn.session_id)
    if turn.HasField("parent_run_id"):
        problems.check_id("turn.parent_run_id", turn.parent_run_id)


def check_labels(labels: Mapping[str, str], path: str, problems: Problems) -> None:
    """Few and short ones."""
    if len(labels) > MAX_LABELS:
        problems.add(path, f"has {len(labels)} entries; at most {MAX_LABELS} are allowed")
    for key, value in labels.items():
        if not key or len(key) > MAX_LABEL_LENGTH or len(value) > MAX_LABEL_LENGTH:
            problems.add(path, f"keys are 1 to {MAX_LABEL_LENGTH} characters, values at most as many")
            return


def require_labels(labels: Mapping[str, str]) -> None:
    """Raises InvalidRequest for labels that no run can have."""
    problems = Problems()
    check_labels(labels, "labels", problems)
    problems.raise_if_any()


def check_model(model: ModelSelection | None, path: str, problems: Problems) -> None:
    """Names of bounded length; provider options are a JSON object."""
    if model is None:
        return
    for name, value in (("provider", model.provider), ("model", model.model)):
        if len(value) > MAX_MODEL_LENGTH:
            problems.add(f"{path}.{name}", f"has {len(value)} characters; at most {MAX_MODEL_LENGTH} are allowed")
    problems.invalid.extend(option_violations(model.options, f"{path}.options"))
    if model.provider_options_json is not None:
        _check_object(model.provider_options_json, f"{path}.provider_options_json", problems)


def _check_object(text: str, path: str, problems: Problems) -> None:
    """A JSON object that is not nested beyond reason."""
    try:
        value = parse_json(text)
    except ValueError as error:
        problems.add(path, f"is not JSON ({error})")
        return
    except RecursionError:
        problems.add(path, "is nested too deeply")
        return
    if not isinstance(value, dict):
        problems.add(path, "must be a JSON object")
    elif not _is_shallow(cast("object", value), MAX_OPTIONS_DEPTH):
        problems.add(path, "is nested too deeply")


def _check_format(wanted: OutputFormat | None, problems: Problems) -> None:
    """What can be told without compiling the schema, which the engine does."""
    if wanted is None:
        return
    if not _FORMAT_NAME.match(wanted.name):
        problems.add("turn.output_format.name", "must be at most 64 characters of [A-Za-z0-9_-]")
    path, size = "turn.output_format.json_schema", len(wanted.json_schema.encode())
    if size > MAX_SCHEMA_BYTES:
        problems.add(path, f"has {size} bytes; at most {MAX_SCHEMA_BYTES} are allowed")
    else:
        _check_object(wanted.json_schema, path, problems)


def _is_shallow(value: object, levels: int) -> bool:
    if isinstance(value, dict):
        inner: Iterable[object] = cast("dict[str, object]", value).values()
    elif isinstance(value, list):
        inner = cast("list[object]", value)
    else:
        return True
    return levels > 0 and all(_is_shallow(item, levels - 1) for item in inner)


def _check_policy(policy: Policy, path: str, problems: Problems) -> None:
    if policy is NO_POLICY:
        return
    try:
        require_valid(policy, path)
    except InvalidRequest as error:
        unsupported = error.reason is Reason.OPTION_NOT_SUPPORTED
        (problems.unsupported if unsupported else problems.invalid).extend(error.violations)


def _check_input(spec: TurnSpec, problems: Problems) -> None:
    if not spec.input:
        problems.add("turn.input", "must have at least one message, normally of ROLE_USER")
        return
    if spec.input[-1].role not in (Role.USER, Role.TOOL):
        problems.add(f"turn.input[{len(spec.input) - 1}].role", "the last message must be of ROLE_USER or ROLE_TOOL")
    open_calls: list[str] = []
    for index, message in enumerate(spec.input):
        if not open_calls and message.role is not Role.TOOL and _is_plain_text(message):
            continue  # nearly all of a history
        path = f"turn.input[{index}]"
        if not message.parts:
            problems.add(f"{path}.parts", "must not be empty")
        elif message.role is Role.USER and all(is_blank(part.content) for part in message.parts):
            problems.add(f"{path}.parts", "must say something: all of its text is blank")
        check_blobs(message, path, problems)
        open_calls = _check_pairs(message, path, open_calls, problems)
    if open_calls:
        problems.add("turn.input", f"calls without a result: {', '.join(open_calls)}")


def check_blobs(message: Message, path: str, problems: Problems) -> None:
    """Bytes say what they are. Their size is bounded by that of the request; their kind by what the wire can carry."""
    for index, part in enumerate(message.parts):
        if isinstance(part.content, Blob):
            where = f"{path}.parts[{index}].blob"
            if not MEDIA_TYPE.match(part.content.media_type):
                problems.add(f"{where}.media_type", "must be an IANA media type such as image/png")
            if not part.content.data:
                of_uri = "; the server fetches nothing from uri" if part.content.uri else ""
                problems.add(f"{where}.data", f"must not be empty{of_uri}")


def _is_plain_text(message: Message) -> bool:
    if len(message.parts) != 1:
        return False
    content = message.parts[0].content
    return type(content) is Text and bool(content.text) and not content.text.isspace()


def is_blank(content: Content) -> bool:
    """Whether it is text that says nothing."""
    return isinstance(content, Text) and not content.text.strip()


def _check_pairs(message: Message, path: str, open_calls: list[str], problems: Problems) -> list[str]:
    """Every call in history has exactly one result right after it: no provider takes anything else."""
    calls = [part.content.call_id for part in message.parts if isinstance(part.content, ToolCall)]
    results = [part.content.call_id for part in message.parts if isinstance(part.content, ToolResult)]
    if calls and message.role is not Role.ASSISTANT:
        problems.add(f"{path}.parts", "only ROLE_ASSISTANT messages may hold tool calls")
    if results and message.role is not Role.TOOL:
        problems.add(f"{path}.parts", "only ROLE_TOOL messages may hold tool results")
    if message.role is Role.TOOL:
        unknown = _extra(results, open_calls)
        if unknown or not results:
            problems.add(f"{path}.parts", f"results must answer the calls right before them; unknown: {unknown}")
        return _extra(open_calls, results)
    if open_calls:
        problems.add(path, f"comes before the results of the calls {', '.join(open_calls)}")
    if len(set(calls)) != len(calls):
        problems.add(f"{path}.parts", "call ids repeat within the message")
    return calls


def _extra(items: Iterable[str], known: Iterable[str]) -> list[str]:
    left = Counter(known)  # a message may hold a hundred thousand of them
    extra: list[str] = []
    for item in items:
        if left[item]:
            left[item] -= 1
        else:
            extra.append(item)
    return extra


def cursor(after: event_pb2.Cursor, path: str = "after") -> Cursor:
    """A reader's cursor. Raises InvalidRequest."""
    try:
        value = cursor_from_pb(after)
    except CodecError as error:
        raise InvalidRequest([FieldViolation(f"{path}.{error.path}", error.problem)]) from error
    if value.sequence > 0 and value.epoch == 0:
        raise InvalidRequest([FieldViolation(f"{path}.epoch", "must be set, from the frame that gave the sequence")])
    return value


_DETAILS = {
    turn_service_pb2.STREAM_DETAIL_UNSPECIFIED: Visibility.DELTA,
    turn_service_pb2.STREAM_DETAIL_DELTAS: Visibility.DELTA,
    turn_service_pb2.STREAM_DETAIL_MILESTONES: Visibility.MILESTONE,
    turn_service_pb2.STREAM_DETAIL_OUTCOME: Visibility.OUTCOME,
}


def stream_detail(detail: int) -> Visibility:
    """How much of the log a stream carries. Raises InvalidRequest for a value that this server does not know."""
    for known, level in _DETAILS.items():
        if known == detail:
            return level
    raise InvalidRequest([FieldViolation("stream_detail", f"has the unknown value {detail}")])


def closes_on_wait(value: int) -> bool:
    """Whether a stream ends where the run waits for its caller. Raises InvalidRequest for an unknown value."""
    if value not in turn_service_pb2.OnWait.values():
        raise InvalidRequest([FieldViolation("on_wait", f"has the unknown value {value}")])
    return value == turn_service_pb2.ON_WAIT_CLOSE


def disconnect(value: int) -> OnDisconnect | None:
    """What the run does when the stream is cut; None: the server chooses."""
    match value:
        case turn_service_pb2.ON_DISCONNECT_UNSPECIFIED:
            return None
        case turn_service_pb2.ON_DISCONNECT_CANCEL:
            return OnDisconnect.CANCEL
        case turn_service_pb2.ON_DISCONNECT_CONTINUE:
            return OnDisconnect.CONTINUE
        case _:
            raise InvalidRequest([FieldViolation("on_disconnect", f"has the unknown value {value}")])


def tool_selection(message: tool_pb2.ToolSelection, path: str) -> ToolSelection:
    """A checked selection. Raises InvalidRequest."""
    problems = Problems()
    try:
        selection = tool_selection_from_pb(message)
    except CodecError as error:
        raise InvalidRequest([FieldViolation(f"{path}.{error.path}", error.problem)]) from error
    check_selection(selection, path, problems)
    problems.raise_if_any()
    return selection


def policy(message: policy_pb2.Policy, path: str) -> Policy:
    """A checked layer of policy. Raises InvalidRequest."""
    problems = Problems()
    _check_entries(message, path, problems)
    problems.raise_if_any()
    for unenforced in unenforced_paths(message):
        problems.refuse(f"{path}.{unenforced}")
    try:
        value = policy_from_pb(message)
    except CodecError as error:
        raise InvalidRequest([FieldViolation(f"{path}.{error.path}", error.problem)]) from error
    _check_policy(value, path, problems)
    problems.raise_if_any()
    return value


def model(message: model_pb2.ModelSelection, path: str) -> ModelSelection:
    """A checked model selection. Raises InvalidRequest."""
    problems = Problems()
    try:
        value = model_from_pb(message)
    except CodecError as error:
        raise InvalidRequest([FieldViolation(f"{path}.{error.path}", error.problem)]) from error
    check_model(value, path, problems)
    problems.raise_if_any()
    return value


def page_size(value: int, default: int, maximum: int) -> int:
    """0 lets the server choose. Raises InvalidRequest for a negative number; more than the maximum is the maximum."""
    if value < 0:
        raise InvalidRequest([FieldViolation("page_size", "must not be negative")])
    return min(value or default, maximum)
