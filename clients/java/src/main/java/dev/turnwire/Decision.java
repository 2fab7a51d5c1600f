package dev.turnwire;

import dev.turnwire.v1.ApprovalDecision;
import java.util.List;
import java.util.Optional;

/**
 * The answer to an approval.
 *
 * @param decision once, always or reject
 * @param patterns for always: those of the approval's {@code always_patterns} that it is for; empty is all of them
 * @param comment told to the model; may be empty
 * @param inputJson for a tool that asks for input: a JSON object
 */
public record Decision(ApprovalDecision decision, List<String> patterns, String comment, Optional<String> inputJson) {
  /**
   * Keeps a copy of the list.
   *
   * @param decision once, always or reject
   * @param patterns for always
   * @param comment told to the model
   * @param inputJson a JSON object
   */
  public Decision {
    patterns = List.copyOf(patterns);
  }

  /**
   * Allows this call.
   *
   * @return a decision
   */
  public static Decision once() {
    return new Decision(ApprovalDecision.APPROVAL_DECISION_ONCE, List.of(), "", Optional.empty());
  }

  /**
   * Allows this call and gives the tool the input that it asks for.
   *
   * @param inputJson a JSON object
   * @return a decision
   */
  public static Decision onceWithInput(String inputJson) {
    return new Decision(ApprovalDecision.APPROVAL_DECISION_ONCE, List.of(), "", Optional.of(inputJson));
  }

  /**
   * Allows this call and, for the session, what matches these patterns.
   *
   * @param patterns of the approval's {@code always_patterns}; none is all of them
   * @return a decision
   */
  public static Decision always(String... patterns) {
    return new Decision(ApprovalDecision.APPROVAL_DECISION_ALWAYS, List.of(patterns), "", Optional.empty());
  }

  /**
   * Denies this call.
   *
   * @param comment told to the model
   * @return a decision
   */
  public static Decision reject(String comment) {
    return new Decision(ApprovalDecision.APPROVAL_DECISION_REJECT, List.of(), comment, Optional.empty());
  }
}
