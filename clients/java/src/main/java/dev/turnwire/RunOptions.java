package dev.turnwire;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.function.Consumer;

/**
 * What {@link TurnwireClient#run} answers with, shows, and is limited by.
 *
 * @param tools functions of client tools by their names
 * @param approver asked for every approval
 * @param onUpdate shown every update as it comes, on the calling thread
 * @param follow time for the whole run, tools and people included; resuming; cancelling
 */
public record RunOptions(
    Map<String, ToolFunction> tools,
    Optional<Approver> approver,
    Consumer<Update> onUpdate,
    FollowOptions follow) {
  /** Answers nothing, shows nothing, has no time limit. */
  public static final RunOptions DEFAULT =
      new RunOptions(Map.of(), Optional.empty(), update -> {}, FollowOptions.DEFAULT);

  /**
   * Keeps a copy of the map.
   *
   * @param tools functions by their names
   * @param approver asked for every approval
   * @param onUpdate shown every update
   * @param follow time, resuming, cancelling
   */
  public RunOptions {
    tools = Map.copyOf(tools);
  }

  /**
   * The same with one more function.
   *
   * @param name of the client tool
   * @param function called for it
   * @return other options
   */
  public RunOptions withTool(String name, ToolFunction function) {
    Map<String, ToolFunction> more = new HashMap<>(tools);
    more.put(name, function);
    return withTools(more);
  }

  /**
   * The same with these functions alone.
   *
   * @param given functions of client tools by their names
   * @return other options
   */
  public RunOptions withTools(Map<String, ToolFunction> given) {
    return new RunOptions(given, approver, onUpdate, follow);
  }

  /**
   * The same with somebody to ask.
   *
   * @param given asked for every approval
   * @return other options
   */
  public RunOptions withApprover(Approver given) {
    return new RunOptions(tools, Optional.of(given), onUpdate, follow);
  }

  /**
   * The same with a place to show updates.
   *
   * @param given shown every update as it comes, on the calling thread
   * @return other options
   */
  public RunOptions withOnUpdate(Consumer<Update> given) {
    return new RunOptions(tools, approver, given, follow);
  }

  /**
   * The same with a limit of time.
   *
   * @param given for the whole run, tools and people included
   * @return other options
   */
  public RunOptions withTimeout(Duration given) {
    return new RunOptions(tools, approver, onUpdate, follow.withTimeout(given));
  }

  /**
   * The same with other rules of resuming.
   *
   * @param given how often and how fast
   * @return other options
   */
  public RunOptions withResume(Resume given) {
    return new RunOptions(tools, approver, onUpdate, follow.withResume(given));
  }

  /**
   * The same with a handle.
   *
   * @param given what ends the run early
   * @return other options
   */
  public RunOptions withCancel(CancelHandle given) {
    return new RunOptions(tools, approver, onUpdate, follow.withCancel(given));
  }
}
