package dev.turnwire;

import static dev.turnwire.Events.broken;
import static dev.turnwire.Events.callFinished;
import static dev.turnwire.Events.finished;
import static dev.turnwire.Events.forApproval;
import static dev.turnwire.Events.forCalls;
import static dev.turnwire.Events.refusal;
import static dev.turnwire.Events.resumed;
import static dev.turnwire.Events.started;
import static dev.turnwire.Events.turn;
import static dev.turnwire.Events.waiting;
import static dev.turnwire.Events.watch;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.MessageLite;
import dev.turnwire.v1.CancelRunRequest;
import dev.turnwire.v1.OnDisconnect;
import dev.turnwire.v1.OnWait;
import dev.turnwire.v1.ResolveApprovalRequest;
import dev.turnwire.v1.RunTurnRequest;
import dev.turnwire.v1.RunWaiting;
import dev.turnwire.v1.SubmitToolResultsRequest;
import dev.turnwire.v1.ToolResult;
import dev.turnwire.v1.ToolResultStatus;
import dev.turnwire.v1.WatchRunRequest;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
class RunTest {
  private static final RunTurnRequest TURN = TurnwireClient.prompt("Go");

  private final CountDownLatch called = new CountDownLatch(1);
  private final CountDownLatch interrupted = new CountDownLatch(1);
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

  /** RunTurn as it is where the run waits for this. */
  private void turnThatWaits(RunWaiting.Builder waiting) {
    server.turn(to -> {
      to.onNext(turn(started(1), waiting(2, waiting)));
      to.onCompleted();
    });
  }

  private static RunWaiting.Builder both(RunWaiting.Builder one, RunWaiting.Builder other) {
    return one.mergeFrom(other.build());
  }

  private Object untilInterrupted(Arguments arguments) throws InterruptedException {
    called.countDown();
    try {
      return new CountDownLatch(1).await(20, TimeUnit.SECONDS);
    } catch (InterruptedException stopped) {
      interrupted.countDown();
      throw stopped;
    }
  }

  /** Until there is a function to interrupt. */
  private void untilCalled() throws InterruptedException {
    assertTrue(called.await(10, TimeUnit.SECONDS), "no function was called");
  }

  private void assertInterrupted() throws InterruptedException {
    assertTrue(interrupted.await(10, TimeUnit.SECONDS), "the function goes on");
  }

  @Test
  void functionsRunSideBySideAndWhatIsWaitedForIsAnsweredOnce() throws Exception {
    turnThatWaits(both(forCalls("a", "b"), forApproval("x")));
    List<MessageLite> came = Collections.synchronizedList(new ArrayList<>());
    server.watch(to -> {
      came.addAll(server.untilAnswers(3));
      to.onNext(watch(waiting(3, forCalls("c").setOnlyNew(true)), callFinished(4, "call-a")));
      came.addAll(server.untilAnswers(1));
      to.onNext(watch(callFinished(5, "call-b"), callFinished(6, "call-c"), resumed(7), finished(8, "Done.")));
    });
    CyclicBarrier together = new CyclicBarrier(3);
    ToolFunction meets = arguments -> together.await(10, TimeUnit.SECONDS);
    Approver meetsToo = approval -> {
      try {
        together.await(10, TimeUnit.SECONDS);
      } catch (Exception late) {
        throw new IllegalStateException(late);
      }
      return Decision.once();
    };
    List<Update> shown = new ArrayList<>();
    RunOptions options =
        RunOptions.DEFAULT
            .withTool("a", meets)
            .withTool("b", meets)
            .withTool("c", arguments -> 3)
            .withApprover(meetsToo)
            .withOnUpdate(shown::add);
    assertEquals("Done.", client.run(TURN, options).text());
    assertEquals(8, shown.stream().mapToInt(update -> update.events().size()).sum());
    assertEquals(List.of("call-a", "call-b", "call-c", "x"), came.stream().flatMap(RunTest::answered).sorted().toList());
    RunTurnRequest turned = came.stream().flatMap(only(RunTurnRequest.class)).findFirst().orElseThrow();
    assertEquals(OnWait.ON_WAIT_CLOSE, turned.getOnWait());
    WatchRunRequest watched = came.stream().flatMap(only(WatchRunRequest.class)).findFirst().orElseThrow();
    assertEquals(OnWait.ON_WAIT_KEEP_OPEN, watched.getOnWait());
    assertEquals(2, watched.getAfter().getSequence());
    assertEquals(List.of(), server.others());
  }

  private static <T> Function<MessageLite, Stream<T>> only(Class<T> type) {
    return request -> Stream.of(request).filter(type::isInstance).map(type::cast);
  }

  /** What a request answers. */
  private static Stream<String> answered(MessageLite request) {
    if (request instanceof SubmitToolResultsRequest submitted) {
      return submitted.getResultsList().stream()
          .peek(result -> assertEquals(ToolResultStatus.TOOL_RESULT_STATUS_OK, result.getStatus()))
          .map(ToolResult::getCallId);
    }
    return only(ResolveApprovalRequest.class).apply(request).map(ResolveApprovalRequest::getApprovalId);
  }

  @Test
  void anAnswerThatIsLostIsSentAgainAndMadeOnce() throws Exception {
    turnThatWaits(forCalls("a"));
    server.fail(broken(Status.Code.UNAVAILABLE), broken(Status.Code.UNAVAILABLE));
    server.watch(to -> {
      server.untilAnswers(3);
      to.onNext(watch(callFinished(3, "call-a"), resumed(4), finished(5, "Done.")));
    });
    AtomicInteger times = new AtomicInteger();
    client.run(TURN, RunOptions.DEFAULT.withTool("a", arguments -> times.incrementAndGet()));
    assertEquals(1, times.get());
  }

  @Test
  void aRunThatWaitsForWhatNobodyAnswersIsLeftWaiting() throws Exception {
    turnThatWaits(both(forCalls("other"), forApproval("x")));
    RunView view = client.run(TURN, RunOptions.DEFAULT.withTool("a", arguments -> 1));
    assertEquals(1, view.waiting().orElseThrow().getApprovalsCount());
    server.request(RunTurnRequest.class);
    assertEquals(List.of(), server.others());
  }

  @Test
  void aRunIsLeftWaitingOnceTheRestIsAnswered() throws Exception {
    turnThatWaits(forCalls("a", "other"));
    server.watch(to -> to.onNext(watch(callFinished(3, "call-a"))));
    RunView view = client.run(TURN, RunOptions.DEFAULT.withTool("a", arguments -> 1));
    assertEquals("call-other", view.waiting().orElseThrow().getClientToolCalls(0).getCallId());
    assertEquals("WatchRun", server.left());
  }

  @Test
  void whatIsSettledIsAboutToGoOn() throws Exception {
    turnThatWaits(forCalls("a"));
    server.watch(to -> {
      to.onNext(watch(callFinished(3, "call-a")));
      to.onNext(watch(resumed(4), finished(5, "Done.")));
    });
    assertEquals("Done.", client.run(TURN, RunOptions.DEFAULT.withTool("a", arguments -> 1)).text());
  }

  /** Cancels a run whose function does not return. */
  private void leave(RunTurnRequest request) throws InterruptedException {
    turnThatWaits(forCalls("a"));
    CancelHandle handle = new CancelHandle();
    CountDownLatch begun = new CountDownLatch(1);
    server.watch(to -> {
      begun.await(10, TimeUnit.SECONDS);
      handle.cancel();
    });
    ToolFunction function = arguments -> {
      begun.countDown();
      return untilInterrupted(arguments);
    };
    RunOptions options = RunOptions.DEFAULT.withTool("a", function).withCancel(handle);
    assertThrows(CancellationException.class, () -> client.run(request, options));
    assertInterrupted();
    server.request(RunTurnRequest.class);
    server.request(WatchRunRequest.class);
  }

  @Test
  void aRunThatIsLeftWhileItWaitsIsCancelled() throws Exception {
    leave(TURN);
    assertEquals(Events.RUN, server.request(CancelRunRequest.class).getRunId());
    assertEquals(List.of(), server.others());
  }

  @Test
  void aRunThatIsToGoOnWithoutItsCallerDoes() throws Exception {
    leave(TURN.toBuilder().setOnDisconnect(OnDisconnect.ON_DISCONNECT_CONTINUE).build());
    assertEquals(List.of(), server.others());
    RunTurnRequest.Builder ofSession = TURN.toBuilder();
    ofSession.getTurnBuilder().setSessionId("s");
    leave(ofSession.build());
    assertEquals(List.of(), server.others());
    leave(ofSession.setOnDisconnect(OnDisconnect.ON_DISCONNECT_CANCEL).build());
    server.request(CancelRunRequest.class);
  }

  @Test
  void anInterruptIsACancellationTooAndStaysSet() throws Exception {
    turnThatWaits(forCalls("a"));
    Thread caller = Thread.currentThread();
    server.watch(to -> {
      untilCalled();
      caller.interrupt();
    });
    RunOptions options = RunOptions.DEFAULT.withTool("a", this::untilInterrupted);
    assertThrows(CancellationException.class, () -> client.run(TURN, options));
    assertTrue(Thread.interrupted());
    assertInterrupted();
    server.request(RunTurnRequest.class);
    server.request(WatchRunRequest.class);
    server.request(CancelRunRequest.class);
  }

  @Test
  void aTimeThatPassesWhileAFunctionRunsEndsTheRun() throws Exception {
    turnThatWaits(forCalls("a"));
    RunOptions options =
        RunOptions.DEFAULT.withTool("a", this::untilInterrupted).withTimeout(Duration.ofSeconds(1));
    StatusRuntimeException late = assertThrows(StatusRuntimeException.class, () -> client.run(TURN, options));
    assertEquals(Status.Code.DEADLINE_EXCEEDED, late.getStatus().getCode());
    assertInterrupted();
    server.request(RunTurnRequest.class);
    server.request(WatchRunRequest.class);
    server.request(CancelRunRequest.class);
  }

  @Test
  void anAnswerThatIsRefusedEndsTheRunAndIsWhatIsTold() throws Exception {
    turnThatWaits(forCalls("a", "b"));
    server.fail(refusal(Status.Code.PERMISSION_DENIED, "NOT_YOURS"));
    ToolFunction waits = arguments -> {
      untilCalled();
      return 1;
    };
    RunOptions options = RunOptions.DEFAULT.withTool("a", waits).withTool("b", this::untilInterrupted);
    TurnwireException refused = assertThrows(TurnwireException.class, () -> client.run(TURN, options));
    assertEquals("NOT_YOURS", refused.reason());
    assertInterrupted();
  }

  @Test
  void whatIsThrownWhereUpdatesAreShownIsThrownAndEndsARunThatWaits() throws Exception {
    RuntimeException refused = TurnwireException.seen(refusal(Status.Code.NOT_FOUND, "NO_SCREEN"));
    for (RuntimeException error : List.of(new IllegalStateException("the screen is full"), refused)) {
      turnThatWaits(forCalls("a"));
      RunOptions options = RunOptions.DEFAULT.withTool("a", this::untilInterrupted).withOnUpdate(update -> {
        throw error;
      });
      assertSame(error, assertThrows(RuntimeException.class, () -> client.run(TURN, options)));
      server.request(RunTurnRequest.class);
      server.request(CancelRunRequest.class);
    }
  }

  @Test
  void anAnswerThatComesTooLateIsNoError() throws Exception {
    // With one thread, the second is asked about when the first answer has come to its end.
    try (TurnwireClient narrow = TurnwireClient.builder(server.target()).toolThreads(1).build()) {
      for (String reason : List.of("RUN_SETTLED", "APPROVAL_ALREADY_RESOLVED", "APPROVAL_NOT_FOUND")) {
        turnThatWaits(both(forApproval("x"), forApproval("y")));
        server.fail(refusal(Status.Code.FAILED_PRECONDITION, reason));
        CountDownLatch asked = new CountDownLatch(2);
        server.watch(to -> {
          assertTrue(asked.await(10, TimeUnit.SECONDS));
          to.onNext(watch(resumed(3), finished(4, reason)));
        });
        RunOptions options = RunOptions.DEFAULT.withApprover(approval -> {
          asked.countDown();
          return Decision.once();
        });
        assertEquals(reason, narrow.run(TURN, options).text());
      }
    }
  }

  @Test
  void whatAnApproverThrowsIsThrownAndEndsTheRun() throws Exception {
    turnThatWaits(both(forCalls("a"), forApproval("x")));
    IllegalStateException error = new IllegalStateException("nobody is there");
    RunOptions options = RunOptions.DEFAULT.withTool("a", this::untilInterrupted).withApprover(approval -> {
      try {
        untilCalled();
      } catch (InterruptedException stopped) {
        throw new AssertionError(stopped);
      }
      throw error;
    });
    assertSame(error, assertThrows(IllegalStateException.class, () -> client.run(TURN, options)));
    assertInterrupted();
  }

  @Test
  void noMoreFunctionsRunAtOnceThanWasSaid() throws Exception {
    turnThatWaits(forCalls("a", "b", "c"));
    AtomicInteger running = new AtomicInteger();
    AtomicInteger most = new AtomicInteger();
    CountDownLatch all = new CountDownLatch(3);
    server.watch(to -> {
      assertTrue(all.await(10, TimeUnit.SECONDS));
      to.onNext(watch(resumed(3), finished(4, "Done.")));
    });
    ToolFunction counts = arguments -> {
      most.accumulateAndGet(running.incrementAndGet(), Math::max);
      Thread.yield();
      running.decrementAndGet();
      all.countDown();
      return 1;
    };
    RunOptions options = RunOptions.DEFAULT.withTool("a", counts).withTool("b", counts).withTool("c", counts);
    try (TurnwireClient narrow = TurnwireClient.builder(server.target()).toolThreads(1).build()) {
      assertEquals("Done.", narrow.run(TURN, options).text());
    }
    assertEquals(1, most.get());
  }
}
