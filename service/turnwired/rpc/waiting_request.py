"""From requests about waiting runs to domain values, checked: answers, results, input."""

from __future__ import annotations

from turnwire.v1 import turn_service_pb2
from turnwired.codec.enums import APPROVAL_DECISION, APPROVAL_STATE, TOOL_RESULT_STATUS
from turnwired.codec.message import messages_from_pb, tool_result_from_pb
from turnwired.domain.approval import ApprovalDecision, ApprovalState
from turnwired.domain.errors import CodecError, FieldViolation, InvalidRequest
from turnwired.domain.message import AttachmentRef, Blob, Data, Message, Role, ToolCall, ToolResult, ToolResultStatus
from turnwired.domain.text import parse_json
from turnwired.engine.attaching import MAX_BYTES
from turnwired.engine.steering import Answer, File, Handed
from turnwired.rpc.attachments import put_in, read_attachments
from turnwired.rpc.request import Problems, check_blobs, is_blank, require_id
from turnwired.store.port import ApprovalFilter

MAX_COMMENT = 4000
MAX_PATTERNS = 100
MAX_RESULTS = 1000
MAX_RESULT_PARTS = 20_000
MAX_MESSAGES = 100
MAX_MESSAGE_PARTS = 1000


def approval_filter(request: turn_service_pb2.ListApprovalsRequest, tenant: str) -> ApprovalFilter:
    """Which approvals are asked for: the pending ones unless states are named. Raises InvalidRequest."""
    try:
        states = tuple(APPROVAL_STATE.from_wire(state, "states") for state in request.states)
    except CodecError as error:
        raise InvalidRequest([FieldViolation("states", error.problem)]) from error
    return ApprovalFilter(
        tenant=tenant,
        run_id=request.run_id if request.HasField("run_id") else None,
        session_id=request.session_id if request.HasField("session_id") else None,
        agent_id=request.agent_id if request.HasField("agent_id") else None,
        states=states or (ApprovalState.PENDING,),
    )


def answer(request: turn_service_pb2.ResolveApprovalRequest) -> Answer:
    """A checked answer. Raises InvalidRequest."""
    problems = Problems()
    problems.check_id("run_id", request.run_id)
    problems.check_id("approval_id", request.approval_id)
    decision = ApprovalDecision.REJECT
    try:
        decision = APPROVAL_DECISION.from_wire(request.decision, "decision")
    except CodecError as error:
        problems.add("decision", error.problem)
    if request.always_patterns and decision is not ApprovalDecision.ALWAYS:
        problems.add("always_patterns", "goes with a decision of ALWAYS only")
    if len(request.always_patterns) > MAX_PATTERNS:
        problems.add(
            "always_patterns", f"has {len(request.always_patterns)} entries; at most {MAX_PATTERNS} are allowed"
        )
    if request.comment and decision is not ApprovalDecision.REJECT:
        problems.add("comment", "is told to the model on REJECT only; use AppendInput to tell it more")
    if len(request.comment) > MAX_COMMENT:
        problems.add("comment", f"has {len(request.comment)} characters; at most {MAX_COMMENT} are allowed")
    problems.raise_if_any()
    digest = request.call_digest if request.HasField("call_digest") else None
    filled = request.input_json if request.HasField("input_json") else None
    return Answer(decision, tuple(request.always_patterns), request.comment, digest, filled)


def results(request: turn_service_pb2.SubmitToolResultsRequest) -> list[Handed]:
    """Checked results. Raises InvalidRequest."""
    require_id("run_id", request.run_id)
    problems = Problems()
    parts = sum(len(result.content) for result in request.results)
    if not request.results:
        problems.add("results", "must have at least one result")
    elif len(request.results) > MAX_RESULTS:
        problems.add("results", f"has {len(request.results)} results; at most {MAX_RESULTS} are allowed")
    elif parts > MAX_RESULT_PARTS:
        problems.add("results", f"has {parts} parts; at most {MAX_RESULT_PARTS} are allowed")
    problems.raise_if_any()
    handed: list[Handed] = []
    for index, message in enumerate(request.results):
        path = f"results[{index}]"
        why = message.failure.message if message.HasField("failure") else None
        message.ClearField("failure")  # of which only the words are the caller's to say
        try:
            result = tool_result_from_pb(message)
        except CodecError as error:
            problems.add(f"{path}.{error.path}" if error.path else path, error.problem)
            continue
        handed.append(_handed(result, why, path, problems))
    problems.raise_if_any()
    return handed


def _is_json(text: str) -> bool:
    try:
        parse_json(text)
    except (ValueError, RecursionError):
        return False
    return True


def _handed(result: ToolResult, why: str | None, path: str, problems: Problems) -> Handed:
    problems.check_id(f"{path}.call_id", result.call_id)
    if result.status not in (ToolResultStatus.OK, ToolResultStatus.ERROR):
        words = TOOL_RESULT_STATUS.to_wire[result.status]
        problems.add(f"{path}.status", f"must be OK or ERROR, not {words}")
    if why is not None and result.status is ToolResultStatus.OK:
        problems.add(f"{path}.failure", "goes with a status of ERROR only")
    if result.original_size_bytes is not None:
        problems.add(f"{path}.original_size_bytes", "is set by the server, which cuts what is too long")
    if result.structured_json is not None and not _is_json(result.structured_json):
        problems.add(f"{path}.structured_json", "is not JSON")
    for number, part in enumerate(result.content):
        if isinstance(part.content, Data) and not _is_json(part.content.json):
            problems.add(f"{path}.content[{number}].data_json", "is not JSON")
        if isinstance(part.content, ToolCall | ToolResult | AttachmentRef):
            problems.add(f"{path}.content[{number}]", "a result holds no calls, no results and no attachments")
    is_error = result.status is ToolResultStatus.ERROR
    return Handed(result.call_id, result.content, result.structured_json, is_error, why or "")


def appended(request: turn_service_pb2.AppendInputRequest) -> tuple[tuple[Message, ...], tuple[File, ...]]:
    """Checked messages of the user, with the files that they refer to in them, and the other files. InvalidRequest."""
    problems = Problems()
    problems.check_id("run_id", request.run_id)
    if request.request_id:
        problems.check_id("request_id", request.request_id)
    given = read_attachments(request.attachments, "attachments", problems, pending=False)
    if (not given and not request.input) or len(request.input) > MAX_MESSAGES:
        problems.add("input", f"must have 1 to {MAX_MESSAGES} messages, unless there are attachments")
    elif sum(len(message.parts) for message in request.input) > MAX_MESSAGE_PARTS:
        problems.add("input", f"at most {MAX_MESSAGE_PARTS} parts are allowed")
    problems.raise_if_any()
    try:
        messages = messages_from_pb(request.input, "input")
    except CodecError as error:
        raise InvalidRequest([FieldViolation(error.path, error.problem)]) from error
    for index, message in enumerate(messages):
        _check_message(message, f"input[{index}]", problems)
    named = {
        part.content.attachment_id
        for message in messages
        for part in message.parts
        if isinstance(part.content, AttachmentRef)
    }
    messages = put_in(messages, [each for each in given if each.attachment.attachment_id in named], problems, "")
    blobs = [part.content for message in messages for part in message.parts if isinstance(part.content, Blob)]
    if (size := sum(len(blob.data) for blob in blobs)) > MAX_BYTES:
        problems.add("input", f"has files of {size} bytes; at most {MAX_BYTES} may come while the run goes on")
    problems.raise_if_any()
    rest = [each for each in given if each.attachment.attachment_id not in named]
    return messages, tuple((each.attachment, each.content) for each in rest if each.content is not None)


def _check_message(message: Message, path: str, problems: Problems) -> None:
    if message.role is not Role.USER:
        problems.add(f"{path}.role", "must be ROLE_USER: only the user's words are added to a run")
    if not message.parts:
        problems.add(f"{path}.parts", "must not be empty")
    elif all(is_blank(part.content) for part in message.parts):
        problems.add(f"{path}.parts", "must say something: all of its text is blank")
    if any(isinstance(part.content, ToolCall | ToolResult) for part in message.parts):
        problems.add(f"{path}.parts", "must hold no calls and no results")
    check_blobs(message, path, problems)
