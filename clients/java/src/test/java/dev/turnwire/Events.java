package dev.turnwire;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import dev.turnwire.v1.Approval;
import dev.turnwire.v1.ApprovalResolved;
import dev.turnwire.v1.Message;
import dev.turnwire.v1.Part;
import dev.turnwire.v1.PartFinished;
import dev.turnwire.v1.RunEvent;
import dev.turnwire.v1.RunFinished;
import dev.turnwire.v1.RunResumed;
import dev.turnwire.v1.RunStarted;
import dev.turnwire.v1.RunTurnResponse;
import dev.turnwire.v1.RunWaiting;
import dev.turnwire.v1.TextDelta;
import dev.turnwire.v1.ToolCall;
import dev.turnwire.v1.ToolCallFinished;
import dev.turnwire.v1.ToolRef;
import dev.turnwire.v1.ToolResult;
import dev.turnwire.v1.WatchRunResponse;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.List;

/** Events, frames and errors as a server sends them. */
final class Events {
  static final String RUN = "run-1";

  private Events() {}

  private static RunEvent.Builder event(long sequence) {
    return RunEvent.newBuilder().setSequence(sequence).setIteration(1);
  }

  static RunEvent started(long sequence) {
    return event(sequence).setIteration(0).setRunStarted(RunStarted.newBuilder().setRunId(RUN)).build();
  }

  static RunEvent text(long sequence, int iteration, String part, String text) {
    TextDelta delta = TextDelta.newBuilder().setPartId(part).setText(text).build();
    return event(sequence).setIteration(iteration).setTextDelta(delta).build();
  }

  static RunEvent text(long sequence, String text) {
    return text(sequence, 1, "p", text);
  }

  static RunEvent partFinished(long sequence, String part, String text) {
    Part finished = Part.newBuilder().setPartId(part).setText(text).build();
    return event(sequence).setPartFinished(PartFinished.newBuilder().setPart(finished)).build();
  }

  static RunEvent unknown(long sequence) {
    return event(sequence).build();
  }

  static RunEvent waiting(long sequence, RunWaiting.Builder waiting) {
    return event(sequence).setRunWaiting(waiting).build();
  }

  static RunWaiting.Builder forCalls(String... names) {
    RunWaiting.Builder waiting = RunWaiting.newBuilder();
    for (String name : names) {
      waiting.addClientToolCalls(call(name, "{}"));
    }
    return waiting;
  }

  static ToolCall call(String name, String argumentsJson) {
    ToolRef tool = ToolRef.newBuilder().setRoutedName(name).build();
    return ToolCall.newBuilder().setCallId("call-" + name).setTool(tool).setArgumentsJson(argumentsJson).build();
  }

  static RunWaiting.Builder forApproval(String id) {
    return RunWaiting.newBuilder()
        .addApprovals(Approval.newBuilder().setApprovalId(id).setCallDigest("digest of " + id));
  }

  static RunEvent callFinished(long sequence, String callId) {
    ToolResult result = ToolResult.newBuilder().setCallId(callId).build();
    return event(sequence).setToolCallFinished(ToolCallFinished.newBuilder().setResult(result)).build();
  }

  static RunEvent approvalResolved(long sequence, String id) {
    return event(sequence).setApprovalResolved(ApprovalResolved.newBuilder().setApprovalId(id)).build();
  }

  static RunEvent resumed(long sequence) {
    return event(sequence).setRunResumed(RunResumed.getDefaultInstance()).build();
  }

  static RunEvent finished(long sequence, String text) {
    Message message = Message.newBuilder().addParts(Part.newBuilder().setText(text)).build();
    return event(sequence).setRunFinished(RunFinished.newBuilder().setMessage(message)).build();
  }

  static RunTurnResponse turn(RunEvent... events) {
    return RunTurnResponse.newBuilder().setEpoch(1).addAllEvents(List.of(events)).build();
  }

  static WatchRunResponse watch(RunEvent... events) {
    return WatchRunResponse.newBuilder().setEpoch(1).addAllEvents(List.of(events)).build();
  }

  /** An error with the details that a server of the contract gives. */
  static StatusRuntimeException refusal(Status.Code code, String reason) {
    ErrorInfo info =
        ErrorInfo.newBuilder().setReason(reason).setDomain("turnwire.v1").putMetadata("agent_id", "a").build();
    RetryInfo retry =
        RetryInfo.newBuilder()
            .setRetryDelay(com.google.protobuf.Duration.newBuilder().setSeconds(1).setNanos(500_000_000))
            .build();
    com.google.rpc.Status status =
        com.google.rpc.Status.newBuilder()
            .setCode(code.value())
            .addDetails(Any.pack(info))
            .addDetails(Any.pack(retry))
            .build();
    Metadata trailers = new Metadata();
    trailers.put(TurnwireException.DETAILS, status.toByteArray());
    return code.toStatus().withDescription("no").asRuntimeException(trailers);
  }

  static StatusRuntimeException broken(Status.Code code) {
    return code.toStatus().withDescription("it broke").asRuntimeException();
  }
}
