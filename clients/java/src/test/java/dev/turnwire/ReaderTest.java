package dev.turnwire;

import static dev.turnwire.Events.broken;
import static dev.turnwire.Events.finished;
import static dev.turnwire.Events.refusal;
import static dev.turnwire.Events.started;
import static dev.turnwire.Events.text;
import static dev.turnwire.Events.unknown;
import static dev.turnwire.Events.waiting;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.turnwire.v1.Cursor;
import dev.turnwire.v1.OnWait;
import dev.turnwire.v1.RunEvent;
import dev.turnwire.v1.RunTurnRequest;
import dev.turnwire.v1.RunWaiting;
import dev.turnwire.v1.StreamDetail;
import dev.turnwire.v1.TurnSpec;
import dev.turnwire.v1.WatchRunRequest;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class ReaderTest {
  private static final Resume TWICE = new Resume(2, Duration.ofMillis(100), Duration.ofMillis(150));

  private static Reader reader(RunTurnRequest request) {
    return Reader.of(new Reader.Turn(request), TWICE);
  }

  private static Reader reader() {
    return reader(RunTurnRequest.getDefaultInstance());
  }

  private static Reader.Frame frame(RunEvent... events) {
    return new Reader.Frame(List.of(events), 1, 0, OptionalLong.empty());
  }

  private static Cursor at(long epoch, long sequence) {
    return Cursor.newBuilder().setEpoch(epoch).setSequence(sequence).build();
  }

  private static RunTurnRequest turnOf(Reader reader) {
    return assertInstanceOf(Reader.Turn.class, reader.request()).request();
  }

  @Test
  void aTurnWithoutAKeyGetsOneThatStays() {
    Reader reader = reader();
    String key = turnOf(reader).getTurn().getRequestId();
    assertFalse(key.isEmpty());
    assertEquals(key, turnOf(reader).getTurn().getRequestId());
    RunTurnRequest own = RunTurnRequest.newBuilder().setTurn(TurnSpec.newBuilder().setRequestId("mine")).build();
    assertSame(own, turnOf(reader(own)));
  }

  @Test
  void onceTheRunIsKnownItIsWatchedFromWhereTheReaderStands() {
    Reader reader =
        reader(
            RunTurnRequest.newBuilder()
                .setStreamDetail(StreamDetail.STREAM_DETAIL_MILESTONES)
                .setOnWait(OnWait.ON_WAIT_CLOSE)
                .build());
    reader.apply(frame(started(1), text(2, "a")));
    WatchRunRequest expected =
        WatchRunRequest.newBuilder()
            .setRunId(Events.RUN)
            .setAfter(at(1, 2))
            .setStreamDetail(StreamDetail.STREAM_DETAIL_MILESTONES)
            .setOnWait(OnWait.ON_WAIT_CLOSE)
            .build();
    assertEquals(new Reader.Watch(expected), reader.request());
    assertEquals(Optional.of(Events.RUN), reader.runId());
  }

  @Test
  void eventsThatWereSeenAreDroppedAndTheCursorIsWhereTheServerSaysItIs() {
    Reader reader = reader();
    reader.apply(frame(started(1), text(2, "a")));
    Update update =
        reader
            .apply(new Reader.Frame(List.of(text(2, "a"), text(3, "b"), unknown(4)), 2, 9, OptionalLong.empty()))
            .orElseThrow();
    assertEquals(List.of(text(3, "b"), unknown(4)), update.events());
    assertEquals(at(2, 9), update.cursor());
    assertEquals(Optional.empty(), reader.apply(new Reader.Frame(List.of(), 0, 9, OptionalLong.empty())));
    assertEquals(at(2, 9), reader.cursor());
  }

  @Test
  void aRewindTakesTheReaderBackAndIsAnUpdateByItself() {
    Reader reader = reader();
    reader.apply(frame(started(1), text(2, "a"), text(3, "b")));
    Update update = reader.apply(new Reader.Frame(List.of(), 2, 0, OptionalLong.of(1))).orElseThrow();
    assertEquals(OptionalLong.of(1), update.rewindTo());
    assertEquals(at(2, 1), update.cursor());
    Update again = reader.apply(frame(text(2, "c"))).orElseThrow();
    assertEquals(List.of(text(2, "c")), again.events());
  }

  @Test
  void anEndBeforeTheRunHasEndedIsACut() {
    Reader reader = reader();
    reader.apply(frame(started(1)));
    assertTrue(reader.cut().isPresent());
    reader.apply(frame(finished(2, "")));
    assertTrue(reader.finished());
    assertEquals(Optional.empty(), reader.cut());
  }

  @Test
  void anEndWhileTheRunWaitsIsProperOnlyWhereItWasAskedFor() {
    for (OnWait onWait : List.of(OnWait.ON_WAIT_CLOSE, OnWait.ON_WAIT_KEEP_OPEN)) {
      Reader reader = reader(RunTurnRequest.newBuilder().setOnWait(onWait).build());
      reader.apply(frame(started(1), waiting(2, RunWaiting.newBuilder())));
      assertEquals(onWait == OnWait.ON_WAIT_KEEP_OPEN, reader.cut().isPresent());
      reader.apply(frame(Events.resumed(3)));
      assertTrue(reader.cut().isPresent());
    }
  }

  @Test
  void aReaderThatBeginsBehindTheLastEventIsSentNothingAndThatIsAnEnd() {
    WatchRunRequest watch = WatchRunRequest.newBuilder().setRunId(Events.RUN).setAfter(at(1, 7)).build();
    Reader reader = Reader.of(new Reader.Watch(watch), TWICE);
    assertEquals(Optional.empty(), reader.cut());
    reader.apply(frame(text(8, "a")));
    assertTrue(reader.cut().isPresent());
  }

  @Test
  void delaysDoubleUpToTheirLimitAndNewsBeginThemAgain() {
    for (int round = 0; round < 200; round++) {
      Reader reader = reader();
      reader.apply(frame(started(1)));
      between(50, 100, reader.cut().orElseThrow());
      between(75, 150, reader.failed(broken(Status.Code.UNAVAILABLE)));
      reader.apply(frame(text(2, "a")));
      between(50, 100, reader.cut().orElseThrow());
    }
  }

  private static void between(long least, long most, Duration delay) {
    assertTrue(delay.toMillis() >= least && delay.compareTo(Duration.ofMillis(most)) <= 0, delay.toString());
  }

  @Test
  void afterTheAttemptsTheStreamIsLostWithThePlaceToGoOnFrom() {
    Reader reader = reader();
    reader.apply(frame(started(1), text(2, "a")));
    StatusRuntimeException error = broken(Status.Code.UNAVAILABLE);
    reader.failed(error);
    reader.cut();
    StreamLostException lost = assertThrows(StreamLostException.class, () -> reader.failed(error));
    assertEquals(Optional.of(Events.RUN), lost.runId());
    assertEquals(at(1, 2), lost.cursor());
    assertSame(error, lost.getCause());
    assertEquals("run run-1: cut after event 2 and not resumed", lost.getMessage());
  }

  @ParameterizedTest
  @EnumSource(Status.Code.class)
  void anErrorIsACutByItsCodeAndByWhoMadeIt(Status.Code code) {
    boolean ofTheWay = List.of("CANCELLED", "INTERNAL", "UNKNOWN").contains(code.name());
    boolean away = code == Status.Code.UNAVAILABLE;
    assertEquals(away || ofTheWay, Reader.isCut(broken(code)));
    assertEquals(away, Reader.isCut(refusal(code, "SOME_REASON")));
  }

  @Test
  void anErrorThatIsNoCutIsThrownAsWhatItIs() {
    StatusRuntimeException deadline = broken(Status.Code.DEADLINE_EXCEEDED);
    assertSame(deadline, assertThrows(StatusRuntimeException.class, () -> reader().failed(deadline)));
    StatusRuntimeException refusal = refusal(Status.Code.NOT_FOUND, "AGENT_NOT_FOUND");
    assertSame(refusal, assertThrows(TurnwireException.class, () -> reader().failed(refusal)).getCause());
  }

  @Test
  void valuesOfResumeAreChecked() {
    Duration negative = Duration.ofMillis(-1);
    assertThrows(IllegalArgumentException.class, () -> new Resume(-1, Duration.ZERO, Duration.ZERO));
    assertThrows(IllegalArgumentException.class, () -> new Resume(1, negative, Duration.ZERO));
    assertThrows(IllegalArgumentException.class, () -> new Resume(1, Duration.ZERO, negative));
    Duration forever = Duration.ofSeconds(Long.MAX_VALUE);
    assertTrue(new Resume(1, forever, forever).delay(99).toDays() > 0);
  }
}
