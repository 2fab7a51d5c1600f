package dev.turnwire;

import dev.turnwire.v1.Approval;
import dev.turnwire.v1.Part;
import dev.turnwire.v1.ResolveApprovalRequest;
import dev.turnwire.v1.RunWaiting;
import dev.turnwire.v1.SubmitToolResultsRequest;
import dev.turnwire.v1.ToolCall;
import dev.turnwire.v1.ToolResult;
import dev.turnwire.v1.ToolResultStatus;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;

/**
 * What a run waits for and the caller can answer: which of it there is, what has been begun, and what an answer looks
 * like on the wire. Knows nothing of calls and threads.
 */
final class Answers {
  /** An answer that is ready to be sent. */
  sealed interface Answer {}

  /** Of a function. */
  record Result(SubmitToolResultsRequest request) implements Answer {}

  /** Of the approver. */
  record Resolution(ResolveApprovalRequest request) implements Answer {}

  private final Map<String, ToolFunction> tools;
  private final Optional<Approver> approver;
  private final Set<String> begun = new HashSet<>();

  Answers(Map<String, ToolFunction> tools, Optional<Approver> approver) {
    this.tools = tools;
    this.approver = approver;
  }

  /** Whether any of it is, was or can be answered. Where all is settled, the run is about to go on. */
  boolean cover(RunWaiting waiting) {
    boolean nothing = waiting.getApprovalsCount() == 0 && waiting.getClientToolCallsCount() == 0;
    return nothing
        || (approver.isPresent() && waiting.getApprovalsCount() > 0)
        || waiting.getClientToolCallsList().stream().anyMatch(call -> tools.containsKey(name(call)));
  }

  /** What can be answered and has not been begun: each call and each approval once. */
  List<Supplier<Answer>> begin(String runId, RunWaiting waiting) {
    List<Supplier<Answer>> works = new ArrayList<>();
    for (ToolCall call : waiting.getClientToolCallsList()) {
      ToolFunction function = tools.get(name(call));
      if (function != null && begun.add(call.getCallId())) {
        works.add(() -> new Result(result(runId, call, function)));
      }
    }
    for (Approval approval : waiting.getApprovalsList()) {
      if (approver.isPresent() && begun.add(approval.getApprovalId())) {
        works.add(() -> new Resolution(resolution(runId, approval, approver.get())));
      }
    }
    return works;
  }

  private static String name(ToolCall call) {
    return call.getTool().getRoutedName();
  }

  private static SubmitToolResultsRequest result(String runId, ToolCall call, ToolFunction function) {
    ToolResult.Builder result = ToolResult.newBuilder().setCallId(call.getCallId());
    try {
      result.addContent(part(function.call(new Arguments(call.getArgumentsJson()))));
      result.setStatus(ToolResultStatus.TOOL_RESULT_STATUS_OK);
    } catch (Exception error) { // the boundary of somebody's function: the model is told
      String words = Objects.requireNonNullElse(error.getMessage(), error.getClass().getSimpleName());
      result.addContent(Part.newBuilder().setText(words));
      result.setStatus(ToolResultStatus.TOOL_RESULT_STATUS_ERROR);
    }
    return SubmitToolResultsRequest.newBuilder().setRunId(runId).addResults(result).build();
  }

  private static Part part(Object value) {
    if (value instanceof CharSequence text) {
      return Part.newBuilder().setText(text.toString()).build();
    }
    String json = Json.write(value);
    // A tree may be a string too.
    return json.startsWith("\"")
        ? Part.newBuilder().setText(Json.read(json, String.class)).build()
        : Part.newBuilder().setDataJson(json).build();
  }

  private static ResolveApprovalRequest resolution(String runId, Approval approval, Approver approver) {
    Decision decided = Objects.requireNonNull(approver.decide(approval), "an approver returns a decision");
    ResolveApprovalRequest.Builder request =
        ResolveApprovalRequest.newBuilder()
            .setRunId(runId)
            .setApprovalId(approval.getApprovalId())
            .setDecision(decided.decision())
            .addAllAlwaysPatterns(decided.patterns())
            .setComment(decided.comment())
            .setCallDigest(approval.getCallDigest());
    decided.inputJson().ifPresent(request::setInputJson);
    return request.build();
  }
}
