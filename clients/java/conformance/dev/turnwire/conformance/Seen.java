package dev.turnwire.conformance;

import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import dev.turnwire.RunView;
import dev.turnwire.TurnwireException;
import dev.turnwire.Update;
import dev.turnwire.v1.RunEvent;
import dev.turnwire.v1.RunWaiting;
import dev.turnwire.v1.Usage;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What a case has shown, also when the call then failed or was left. */
final class Seen {
  private final Case played;
  private final Runnable cancel;
  private final RunView view = new RunView();
  private final Map<String, List<String>> arguments = new TreeMap<>();
  private final List<String> asked = new ArrayList<>();
  private int rewinds;

  Seen(Case played, Runnable cancel) {
    this.played = played;
    this.cancel = cancel;
  }

  void take(Update update) {
    view.apply(update);
    rewinds += update.rewindTo().isPresent() ? 1 : 0;
    if (update.events().stream().anyMatch(event -> kind(event).equals(played.cancel_on()))) {
      cancel.run();
    }
  }

  synchronized void called(String name, String json) {
    arguments.computeIfAbsent(name, first -> new ArrayList<>()).add(json);
  }

  synchronized void asked(String name) {
    asked.add(name);
  }

  synchronized Map<String, Object> answer(long after, JsonElement error) {
    List<RunEvent> events = view.events();
    List<String> kinds = new ArrayList<>();
    for (RunEvent event : events) {
      if (kinds.isEmpty() || !kinds.get(kinds.size() - 1).equals(kind(event))) {
        kinds.add(kind(event));
      }
    }
    Map<String, Object> answer = new LinkedHashMap<>();
    answer.put("id", played.id());
    answer.put("run_id", view.runId().orElse(null));
    answer.put("text", view.text());
    answer.put("outcome", view.outcome().map(outcome -> outcome.getKind().name()).orElse(null));
    answer.put("waiting", view.waiting().map(Seen::ids).orElse(List.of()));
    answer.put("kinds", kinds);
    answer.put("sequences_dense", dense(events, after));
    answer.put("last_sequence", Long.toString(events.isEmpty() ? 0 : events.get(events.size() - 1).getSequence()));
    answer.put("usage", view.usage().map(Seen::tokens).orElse(null));
    answer.put("tool_arguments", arguments);
    answer.put("approvals_asked", asked);
    answer.put("rewinds", rewinds);
    answer.put("error", error);
    return answer;
  }

  static JsonElement refusal(TurnwireException error) {
    JsonObject told = named("TurnwireError").getAsJsonObject();
    told.addProperty("code", error.code().name());
    told.addProperty("reason", error.reason());
    told.addProperty("domain", error.domain());
    JsonObject metadata = new JsonObject();
    error.metadata().forEach(metadata::addProperty);
    told.add("metadata", metadata);
    return told;
  }

  static JsonElement named(String type) {
    JsonObject told = new JsonObject();
    told.addProperty("type", type);
    return told;
  }

  static JsonElement none() {
    return JsonNull.INSTANCE;
  }

  /** The name of what happened; "unknown" for what this client has no word for. */
  private static String kind(RunEvent event) {
    int number = event.getEventCase().getNumber();
    return number == 0 ? "unknown" : RunEvent.getDescriptor().findFieldByNumber(number).getName();
  }

  private static List<String> ids(RunWaiting waiting) {
    List<String> ids = new ArrayList<>();
    waiting.getApprovalsList().forEach(approval -> ids.add(approval.getApprovalId()));
    waiting.getClientToolCallsList().forEach(call -> ids.add(call.getCallId()));
    return ids;
  }

  private static Map<String, String> tokens(Usage usage) {
    Map<String, String> tokens = new LinkedHashMap<>();
    tokens.put("input_tokens", usage.hasInputTokens() ? Long.toString(usage.getInputTokens()) : null);
    tokens.put("output_tokens", usage.hasOutputTokens() ? Long.toString(usage.getOutputTokens()) : null);
    return tokens;
  }

  /** Whether the events cover all from the one behind {@code after} to the last, none twice. */
  private static boolean dense(List<RunEvent> events, long after) {
    long last = after;
    for (RunEvent event : events) {
      long first = event.hasFirstSequence() ? event.getFirstSequence() : event.getSequence();
      if (first != last + 1) {
        return false;
      }
      last = event.getSequence();
    }
    return true;
  }
}
