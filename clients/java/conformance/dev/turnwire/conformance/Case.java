package dev.turnwire.conformance;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import dev.turnwire.Approver;
import dev.turnwire.CancelHandle;
import dev.turnwire.Decision;
import dev.turnwire.FollowOptions;
import dev.turnwire.Resume;
import dev.turnwire.RunOptions;
import dev.turnwire.ToolFunction;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;

/**
 * A case as it comes. docs/clients.md says what each member means.
 *
 * @param run RunTurnRequest as proto3 JSON, or null
 * @param watch WatchRunRequest as proto3 JSON, or null
 */
record Case(
    String id,
    String target,
    String token,
    JsonElement run,
    JsonElement watch,
    Long timeout_ms,
    String cancel_on,
    Map<String, JsonObject> tools,
    Approvals approvals,
    Resuming resume) {
  record Approvals(String decision, String comment) {
    Decision decide() {
      return switch (decision) {
        case "once" -> Decision.once();
        case "always" -> Decision.always();
        case "reject" -> Decision.reject(comment == null ? "" : comment);
        default -> throw new IllegalArgumentException("no such decision: " + decision);
      };
    }
  }

  record Resuming(int attempts, long initial_delay_ms, long max_delay_ms) {}

  FollowOptions follow(CancelHandle cancel) {
    FollowOptions options = FollowOptions.DEFAULT.withCancel(cancel);
    if (timeout_ms != null) {
      options = options.withTimeout(Duration.ofMillis(timeout_ms));
    }
    if (resume != null) {
      Duration first = Duration.ofMillis(resume.initial_delay_ms());
      options = options.withResume(new Resume(resume.attempts(), first, Duration.ofMillis(resume.max_delay_ms())));
    }
    return options;
  }

  RunOptions options(Seen seen, CancelHandle cancel) {
    Optional<Approver> approver =
        Optional.ofNullable(approvals).map(given -> approval -> {
          seen.asked(approval.getCall().getTool().getRoutedName());
          return given.decide();
        });
    RunOptions options = new RunOptions(Map.of(), approver, seen::take, follow(cancel));
    for (Map.Entry<String, JsonObject> tool : (tools == null ? Map.<String, JsonObject>of() : tools).entrySet()) {
      options = options.withTool(tool.getKey(), function(tool.getKey(), tool.getValue(), seen));
    }
    return options;
  }

  private static ToolFunction function(String name, JsonObject does, Seen seen) {
    return arguments -> {
      seen.called(name, arguments.json());
      if (does.has("fail")) {
        throw new IllegalStateException(does.get("fail").getAsString());
      }
      if (does.has("hang")) {
        new CountDownLatch(1).await();
      }
      return does.has("echo") ? arguments.tree() : does.get("return");
    };
  }
}
