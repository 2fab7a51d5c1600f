package dev.turnwire;

import dev.turnwire.v1.Message;
import dev.turnwire.v1.Outcome;
import dev.turnwire.v1.Part;
import dev.turnwire.v1.RunEvent;
import dev.turnwire.v1.RunFinished;
import dev.turnwire.v1.RunStarted;
import dev.turnwire.v1.RunWaiting;
import dev.turnwire.v1.TextDelta;
import dev.turnwire.v1.Usage;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * A run as far as it has been seen: keeps its events and answers the questions that callers ask of them.
 *
 * <p>Memory grows with the run; code that only shows text as it comes needs no view, but must then handle {@link
 * Update#rewindTo} itself. Not for use by several threads at once.
 */
public final class RunView {
  private final List<RunEvent> events = new ArrayList<>();

  /** Makes a view of nothing yet. */
  public RunView() {}

  /**
   * Takes one update, in the order in which they come.
   *
   * @param update the next one
   */
  public void apply(Update update) {
    update.rewindTo().ifPresent(to -> {
      while (!events.isEmpty() && events.get(events.size() - 1).getSequence() > to) {
        events.remove(events.size() - 1);
      }
    });
    events.addAll(update.events());
  }

  /**
   * All events, in order.
   *
   * @return a view of them that cannot be changed, and changes with this one
   */
  public List<RunEvent> events() {
    return Collections.unmodifiableList(events);
  }

  /**
   * The first event, once it is there.
   *
   * @return what the run was begun with
   */
  public Optional<RunStarted> started() {
    return events.stream().limit(1).filter(RunEvent::hasRunStarted).map(RunEvent::getRunStarted).findFirst();
  }

  /**
   * The last event, once it is there.
   *
   * @return what the run ended with
   */
  public Optional<RunFinished> finished() {
    RunEvent last = events.isEmpty() ? RunEvent.getDefaultInstance() : events.get(events.size() - 1);
    return last.hasRunFinished() ? Optional.of(last.getRunFinished()) : Optional.empty();
  }

  /**
   * The run, once it is known.
   *
   * @return its id
   */
  public Optional<String> runId() {
    return started().map(RunStarted::getRunId);
  }

  /**
   * All that the run waits for from its caller, while it does.
   *
   * @return empty when it does not wait; with empty lists when all is settled and the run is about to go on
   */
  public Optional<RunWaiting> waiting() {
    Set<String> settled = new HashSet<>();
    List<RunWaiting> told = new ArrayList<>(); // the newest first
    for (int i = events.size() - 1; i >= 0; i--) {
      RunEvent event = events.get(i);
      switch (event.getEventCase()) {
        case RUN_WAITING -> {
          told.add(event.getRunWaiting());
          if (!event.getRunWaiting().getOnlyNew()) {
            return together(told, settled);
          }
        }
        case RUN_RESUMED, RUN_FINISHED -> {
          if (told.isEmpty()) {
            return Optional.empty();
          }
        }
        case APPROVAL_RESOLVED -> settled.add(event.getApprovalResolved().getApprovalId());
        case TOOL_CALL_FINISHED -> settled.add(event.getToolCallFinished().getResult().getCallId());
        default -> {}
      }
    }
    return together(told, settled);
  }

  /**
   * How the run ended.
   *
   * @return empty while it goes on
   */
  public Optional<Outcome> outcome() {
    return finished().map(RunFinished::getOutcome);
  }

  /**
   * What the whole run used, once it has ended.
   *
   * @return numbers of tokens
   */
  public Optional<Usage> usage() {
    return finished().filter(RunFinished::hasUsage).map(RunFinished::getUsage);
  }

  /**
   * The final message.
   *
   * @return present when the run has ended with one
   */
  public Optional<Message> message() {
    return finished().filter(RunFinished::hasMessage).map(RunFinished::getMessage);
  }

  /**
   * The JSON text that matches the output format.
   *
   * @return present when one was asked for and the run has ended with it
   */
  public Optional<String> structuredOutputJson() {
    return finished().filter(RunFinished::hasStructuredOutputJson).map(RunFinished::getStructuredOutputJson);
  }

  /**
   * The text of the answer: of the final message, or else of the newest iteration as far as it came.
   *
   * @return empty when there is none
   */
  public String text() {
    Optional<Message> message = message();
    if (message.isPresent()) {
      return message.get().getPartsList().stream().map(Part::getText).collect(Collectors.joining());
    }
    int newest = events.stream().mapToInt(RunEvent::getIteration).max().orElse(0);
    Map<String, StringBuilder> parts = new LinkedHashMap<>();
    for (RunEvent event : events) {
      if (event.getIteration() == newest) {
        addText(event, parts);
      }
    }
    return String.join("", parts.values());
  }

  private static void addText(RunEvent event, Map<String, StringBuilder> parts) {
    if (event.hasTextDelta()) {
      TextDelta delta = event.getTextDelta();
      parts.computeIfAbsent(delta.getPartId(), id -> new StringBuilder()).append(delta.getText());
    } else if (event.hasPartFinished() && event.getPartFinished().getPart().hasText()) {
      Part part = event.getPartFinished().getPart();
      parts.put(part.getPartId(), new StringBuilder(part.getText()));
    }
  }

  /** What was told, the newest first, without what has been settled since. */
  private static Optional<RunWaiting> together(List<RunWaiting> told, Set<String> settled) {
    if (told.isEmpty()) {
      return Optional.empty();
    }
    RunWaiting.Builder whole = RunWaiting.newBuilder();
    if (told.get(0).hasExpireTime()) {
      whole.setExpireTime(told.get(0).getExpireTime());
    }
    for (int i = told.size() - 1; i >= 0; i--) {
      RunWaiting waiting = told.get(i);
      waiting.getApprovalsList().stream()
          .filter(approval -> !settled.contains(approval.getApprovalId()))
          .forEach(whole::addApprovals);
      waiting.getClientToolCallsList().stream()
          .filter(call -> !settled.contains(call.getCallId()))
          .forEach(whole::addClientToolCalls);
    }
    return Optional.of(whole.build());
  }
}
