package dev.turnwire;

import static dev.turnwire.Events.callFinished;
import static dev.turnwire.Events.finished;
import static dev.turnwire.Events.forApproval;
import static dev.turnwire.Events.forCalls;
import static dev.turnwire.Events.partFinished;
import static dev.turnwire.Events.resumed;
import static dev.turnwire.Events.started;
import static dev.turnwire.Events.text;
import static dev.turnwire.Events.unknown;
import static dev.turnwire.Events.waiting;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Timestamp;
import dev.turnwire.v1.Approval;
import dev.turnwire.v1.Cursor;
import dev.turnwire.v1.Outcome;
import dev.turnwire.v1.OutcomeKind;
import dev.turnwire.v1.RunEvent;
import dev.turnwire.v1.RunFinished;
import dev.turnwire.v1.RunWaiting;
import dev.turnwire.v1.ToolCall;
import dev.turnwire.v1.Usage;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

class RunViewTest {
  private final RunView view = new RunView();

  private void come(RunEvent... events) {
    view.apply(new Update(List.of(events), OptionalLong.empty(), Cursor.getDefaultInstance()));
  }

  private List<String> ids() {
    RunWaiting waiting = view.waiting().orElseThrow();
    List<String> ids = new java.util.ArrayList<>();
    waiting.getApprovalsList().stream().map(Approval::getApprovalId).forEach(ids::add);
    waiting.getClientToolCallsList().stream().map(ToolCall::getCallId).forEach(ids::add);
    return ids;
  }

  @Test
  void ofNothingThereIsNothing() {
    assertEquals(Optional.empty(), view.runId());
    assertEquals(Optional.empty(), view.outcome());
    assertEquals(Optional.empty(), view.waiting());
    assertEquals("", view.text());
    come(unknown(1));
    assertEquals(List.of(unknown(1)), view.events());
    assertThrows(UnsupportedOperationException.class, () -> view.events().clear());
  }

  @Test
  void theTextIsOfTheNewestIterationUntilThereIsAMessage() {
    come(started(1), text(2, 1, "a", "old"), text(3, 2, "b", "ne"), text(4, 2, "c", "er"), text(5, 2, "b", "w"));
    assertEquals("newer", view.text());
    come(finished(6, "The end."));
    assertEquals("The end.", view.text());
  }

  @Test
  void aFinishedPartIsItsWholeText() {
    come(text(1, 1, "a", "so f"), partFinished(2, "a", "so far"));
    assertEquals("so far", view.text());
  }

  @Test
  void aRewindDiscardsWhatNeverHappened() {
    come(started(1), text(2, "a"), text(3, "b"));
    view.apply(new Update(List.of(text(3, "c")), OptionalLong.of(2), Cursor.getDefaultInstance()));
    assertEquals("ac", view.text());
    assertEquals(List.of(started(1), text(2, "a"), text(3, "c")), view.events());
  }

  @Test
  void whatIsWaitedForIsToldTogetherWithoutWhatHasSettled() {
    Timestamp expires = Timestamp.newBuilder().setSeconds(7).build();
    come(started(1), waiting(2, forCalls("a", "b").mergeFrom(forApproval("x").build())));
    come(callFinished(3, "call-a"), waiting(4, forCalls("c").setOnlyNew(true).setExpireTime(expires)));
    assertEquals(List.of("x", "call-b", "call-c"), ids());
    assertEquals(expires, view.waiting().orElseThrow().getExpireTime());
    come(Events.approvalResolved(5, "x"), callFinished(6, "call-b"), callFinished(7, "call-c"));
    assertEquals(List.of(), ids());
    come(resumed(8));
    assertEquals(Optional.empty(), view.waiting());
    come(waiting(9, forCalls("d")));
    assertEquals(List.of("call-d"), ids());
  }

  @Test
  void whatTheRunEndedWithIsThere() {
    RunFinished last =
        RunFinished.newBuilder()
            .setOutcome(Outcome.newBuilder().setKind(OutcomeKind.OUTCOME_KIND_ANSWERED))
            .setUsage(Usage.newBuilder().setInputTokens(9007199254740993L))
            .setStructuredOutputJson("{}")
            .build();
    come(started(1), waiting(2, forCalls("a")));
    come(RunEvent.newBuilder().setSequence(3).setRunFinished(last).build());
    assertEquals(Optional.of(OutcomeKind.OUTCOME_KIND_ANSWERED), view.outcome().map(Outcome::getKind));
    assertEquals(9007199254740993L, view.usage().orElseThrow().getInputTokens());
    assertEquals(Optional.of("{}"), view.structuredOutputJson());
    assertEquals(Optional.empty(), view.message());
    assertEquals(Optional.of(Events.RUN), view.runId());
    assertTrue(view.waiting().isEmpty());
  }
}
