package dev.turnwire;

import static dev.turnwire.Events.broken;
import static dev.turnwire.Events.finished;
import static dev.turnwire.Events.refusal;
import static dev.turnwire.Events.started;
import static dev.turnwire.Events.text;
import static dev.turnwire.Events.turn;
import static dev.turnwire.Events.watch;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.turnwire.v1.Cursor;
import dev.turnwire.v1.OnWait;
import dev.turnwire.v1.RunTurnRequest;
import dev.turnwire.v1.RunWaiting;
import dev.turnwire.v1.WatchRunRequest;
import io.grpc.Context;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
class FollowTest {
  private static final RunTurnRequest TURN = TurnwireClient.prompt("Go");
  private static final FollowOptions SOON =
      FollowOptions.DEFAULT.withResume(new Resume(3, Duration.ofMillis(1), Duration.ofMillis(10)));

  private FakeServer server;
  private TurnwireClient client;

  @BeforeEach
  void start() throws IOException {
    server = new FakeServer();
    client = server.client();
  }

  @AfterEach
  void stop() throws InterruptedException {
    client.close();
    server.close();
  }

  private RunView read(FollowOptions options) {
    RunView view = new RunView();
    try (Updates updates = client.follow(TURN, options)) {
      updates.forEachRemaining(view::apply);
      assertThrows(NoSuchElementException.class, updates::next);
    }
    return view;
  }

  @Test
  void aCutStreamIsTakenUpWhereItStopped() throws Exception {
    server.turn(to -> {
      to.onNext(turn(started(1), text(2, "one ")));
      to.onError(broken(Status.Code.UNAVAILABLE));
    });
    server.watch(to -> {
      to.onNext(watch(text(2, "one "), text(3, "two ")));
      to.onError(broken(Status.Code.INTERNAL));
    });
    server.watch(to -> {
      to.onNext(watch(text(4, "three")));
      to.onCompleted();
    });
    server.watch(to -> to.onNext(watch(finished(5, "one two three"))));
    assertEquals(List.of(1L, 2L, 3L, 4L, 5L), read(SOON).events().stream().map(e -> e.getSequence()).toList());
    server.request(RunTurnRequest.class);
    for (long after : List.of(2L, 3L, 4L)) {
      WatchRunRequest request = server.request(WatchRunRequest.class);
      assertEquals(Cursor.newBuilder().setEpoch(1).setSequence(after).build(), request.getAfter());
    }
    assertEquals("WatchRun", server.left(), "nothing of a call is left open when the run has ended");
  }

  @Test
  void aTurnThatIsCutBeforeItIsKnownIsTriedWithTheSameKey() throws Exception {
    server.turn(to -> to.onError(broken(Status.Code.UNAVAILABLE)));
    server.turn(to -> to.onNext(turn(started(1), finished(2, "Done."))));
    assertEquals("Done.", read(SOON).text());
    String key = server.request(RunTurnRequest.class).getTurn().getRequestId();
    assertFalse(key.isEmpty());
    assertEquals(key, server.request(RunTurnRequest.class).getTurn().getRequestId());
  }

  @Test
  void aServerThatStaysAwayIsALostStream() throws Exception {
    server.turn(to -> to.onNext(turn(started(1), text(2, "a"))));
    try (Updates updates = client.follow(TURN, SOON)) {
      updates.next();
      server.close();
      StreamLostException lost = assertThrows(StreamLostException.class, updates::hasNext);
      assertEquals(2, lost.cursor().getSequence());
      assertEquals(Events.RUN, lost.runId().orElseThrow());
      assertFalse(updates.hasNext());
    }
  }

  @Test
  void aServerThatIsBackIsFoundByTheNextTry() throws Exception {
    server.close();
    assertThrows(StreamLostException.class, () -> read(SOON.withResume(new Resume(0, Duration.ZERO, Duration.ZERO))));
    server = new FakeServer(server.port());
    server.turn(to -> to.onNext(turn(started(1), finished(2, "Back."))));
    Duration soon = Duration.ofMillis(400);
    assertEquals("Back.", read(SOON.withResume(new Resume(1, soon, soon))).text());
  }

  @Test
  void whatTheServerRefusesIsNotAskedAgain() throws Exception {
    server.turn(to -> to.onError(refusal(Status.Code.UNKNOWN, "SOME_REASON")));
    assertEquals("SOME_REASON", assertThrows(TurnwireException.class, () -> read(SOON)).reason());
    server.request(RunTurnRequest.class);
    assertEquals(List.of(), server.others());
  }

  @Test
  void leavingTheStreamCancelsItsCall() throws Exception {
    server.turn(to -> to.onNext(turn(started(1))));
    Updates updates = client.follow(TURN, SOON);
    updates.next();
    updates.close();
    assertEquals("RunTurn", server.left());
    assertThrows(CancellationException.class, updates::hasNext);
  }

  @Test
  void aStreamOfARunThatWaitsEndsWhereThatWasAskedFor() throws Exception {
    server.turn(to -> {
      to.onNext(turn(started(1), Events.waiting(2, RunWaiting.newBuilder())));
      to.onCompleted();
    });
    RunTurnRequest request = TURN.toBuilder().setOnWait(OnWait.ON_WAIT_CLOSE).build();
    try (Updates updates = client.follow(request, SOON)) {
      updates.next();
      assertFalse(updates.hasNext());
    }
    server.request(RunTurnRequest.class);
    assertEquals(List.of(), server.others());
  }

  /** What a thread that waits for more ends with, when this is done to it. */
  private Throwable endedBy(FollowOptions options, Runnable doing, boolean interrupt) throws InterruptedException {
    server.turn(to -> to.onNext(turn(started(1))));
    Updates updates = client.follow(TURN, options);
    updates.next();
    FutureTask<Boolean> waiting = new FutureTask<>(() -> {
      try {
        return updates.hasNext();
      } finally {
        assertEquals(interrupt, Thread.currentThread().isInterrupted());
      }
    });
    Thread thread = new Thread(waiting);
    thread.start();
    doing.run();
    if (interrupt) {
      thread.interrupt();
    }
    ExecutionException ended = assertThrows(ExecutionException.class, () -> waiting.get(20, TimeUnit.SECONDS));
    assertEquals("RunTurn", server.left());
    return ended.getCause();
  }

  @Test
  void aHandleEndsWhoWaits() throws Exception {
    CancelHandle handle = new CancelHandle();
    Throwable ended = endedBy(SOON.withCancel(handle), handle::cancel, false);
    assertEquals(CancellationException.class, ended.getClass());
    assertTrue(handle.isCancelled());
    try (Updates later = client.follow(TURN, SOON.withCancel(handle))) {
      assertThrows(CancellationException.class, later::hasNext);
    }
  }

  @Test
  void anInterruptEndsWhoWaitsAndStaysSet() throws Exception {
    assertEquals(CancellationException.class, endedBy(SOON, () -> {}, true).getClass());
  }

  @Test
  void closingTheClientEndsWhoWaits() throws Exception {
    assertEquals(CancellationException.class, endedBy(SOON, client::close, false).getClass());
  }

  @Test
  void aHandleEndsAPauseBeforeTheNextTry() throws Exception {
    CancelHandle handle = new CancelHandle();
    Duration hour = Duration.ofHours(1);
    server.turn(to -> {
      to.onError(broken(Status.Code.UNAVAILABLE));
      handle.cancel();
    });
    FollowOptions options = SOON.withResume(new Resume(3, hour, hour)).withCancel(handle);
    assertThrows(CancellationException.class, () -> read(options));
  }

  @Test
  void theContextOfGrpcEndsItToo() throws Exception {
    server.turn(to -> to.onNext(turn(started(1))));
    Context.CancellableContext context = Context.current().withCancellation();
    Updates updates = context.call(() -> client.follow(TURN, SOON));
    updates.next();
    context.cancel(null);
    assertThrows(CancellationException.class, updates::hasNext);
    assertEquals("RunTurn", server.left());
  }

  @Test
  void theTimeHoldsAcrossCallsAndPauses() {
    server.turn(to -> to.onError(broken(Status.Code.UNAVAILABLE)));
    Duration hour = Duration.ofHours(1);
    FollowOptions options = SOON.withResume(new Resume(3, hour, hour)).withTimeout(Duration.ofMillis(300));
    assertDeadline(options);
    assertDeadline(SOON.withTimeout(Duration.ofMillis(200)));
    assertDeadline(SOON.withTimeout(Duration.ZERO));
  }

  private void assertDeadline(FollowOptions options) {
    StatusRuntimeException error = assertThrows(StatusRuntimeException.class, () -> read(options));
    assertEquals(Status.Code.DEADLINE_EXCEEDED, error.getStatus().getCode());
  }

  @Test
  void aRequestThatIsTooLargeIsNotSent() {
    try (TurnwireClient small = TurnwireClient.builder(server.target()).maxMessageBytes(1000).build();
        Updates updates = small.follow(TurnwireClient.prompt("x".repeat(1001)), SOON)) {
      StatusRuntimeException error = assertThrows(StatusRuntimeException.class, updates::hasNext);
      assertEquals(Status.Code.RESOURCE_EXHAUSTED, error.getStatus().getCode());
    }
    assertEquals(List.of(), server.others());
  }
}
