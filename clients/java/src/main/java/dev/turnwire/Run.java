package dev.turnwire;

import dev.turnwire.v1.CancelRunRequest;
import dev.turnwire.v1.Cursor;
import dev.turnwire.v1.OnDisconnect;
import dev.turnwire.v1.OnWait;
import dev.turnwire.v1.RunEvent;
import dev.turnwire.v1.RunTurnRequest;
import dev.turnwire.v1.RunWaiting;
import dev.turnwire.v1.TurnServiceGrpc;
import dev.turnwire.v1.WatchRunRequest;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;

/** One run that is followed and answered. */
final class Run {
  /** How long a run that is left may take to be told so. */
  private static final Duration CANCEL_TIME = Duration.ofSeconds(5);

  /** Somebody or something else was first. The stream says so too. */
  private static final Set<String> LATE =
      Set.of("RUN_SETTLED", "APPROVAL_ALREADY_RESOLVED", "APPROVAL_NOT_FOUND");

  private final TurnwireClient client;
  private final RunOptions options;
  private final Deadline deadline;
  private final Answers answers;
  private final RunView view = new RunView();
  private final List<Future<?>> works = new ArrayList<>();
  private final AtomicReference<Throwable> failure = new AtomicReference<>();
  private final Context.CancellableContext context = Context.current().withCancellation();
  private Cursor cursor = Cursor.getDefaultInstance();
  private boolean waited;

  Run(TurnwireClient client, RunOptions options) {
    this.client = client;
    this.options = options;
    this.deadline = TurnwireClient.deadline(options.follow().timeout());
    this.answers = new Answers(options.tools(), options.approver());
  }

  /** To its end, or to where it waits for nothing that can be answered. */
  RunView toItsEnd(RunTurnRequest request) {
    Runnable unbind = options.follow().cancel().map(handle -> handle.bind(context)).orElse(() -> {});
    Context before = context.attach();
    try {
      both(request);
      return view;
    } catch (RuntimeException | Error error) {
      stop();
      if (waited && view.finished().isEmpty() && !outlivesItsCaller(request) && isLeft(error)) {
        cancelRun();
      }
      throw told(error);
    } finally {
      context.detach(before);
      unbind.run();
      stop();
    }
  }

  /** By RunTurn until it waits, since leaving that stream would end it, and then by WatchRun. */
  private void both(RunTurnRequest request) {
    RunTurnRequest turn = request.toBuilder().setOnWait(OnWait.ON_WAIT_CLOSE).build();
    drive(new Reader.Turn(turn), false);
    Optional<RunWaiting> waiting = view.waiting();
    if (waiting.isPresent() && answers.cover(waiting.get())) {
      WatchRunRequest watch =
          WatchRunRequest.newBuilder()
              .setRunId(view.runId().orElseThrow())
              .setAfter(cursor)
              .setStreamDetail(request.getStreamDetail())
              .setOnWait(OnWait.ON_WAIT_KEEP_OPEN)
              .build();
      drive(new Reader.Watch(watch), true);
    }
  }

  /** Reads a stream to its end; with {@code leave}, only until the run waits for nothing that can be answered. */
  private void drive(Reader.Request request, boolean leave) {
    FollowOptions follow = FollowOptions.DEFAULT.withResume(options.follow().resume());
    try (Updates updates = new Updates(client, request, follow, deadline)) {
      while (updates.hasNext()) {
        Update update = updates.next();
        cursor = update.cursor();
        view.apply(update);
        waited |= view.waiting().isPresent();
        show(update);
        if (update.events().stream().anyMatch(Run::bearsOnWaiting) && !answer() && leave) {
          return;
        }
      }
    }
  }

  /** What it throws is the caller's own, and ends the run as their leaving does. */
  private void show(Update update) {
    try {
      options.onUpdate().accept(update);
    } catch (RuntimeException | Error error) {
      fail(error);
      throw error;
    }
  }

  private static boolean bearsOnWaiting(RunEvent event) {
    return event.hasRunWaiting() || event.hasApprovalResolved() || event.hasToolCallFinished();
  }

  /** Begins what is new. False when the run waits for something, and nothing of it can be answered. */
  private boolean answer() {
    Optional<RunWaiting> waiting = view.waiting();
    if (waiting.isEmpty()) {
      return true;
    }
    for (Supplier<Answers.Answer> work : answers.begin(view.runId().orElseThrow(), waiting.get())) {
      works.add(client.tools().submit(context.wrap(() -> send(work))));
    }
    return answers.cover(waiting.get());
  }

  /** On a thread of its own: what it throws ends the run. */
  private void send(Supplier<Answers.Answer> work) {
    try {
      Answers.Answer answer = work.get();
      if (answer instanceof Answers.Result result) {
        persist(() -> client.call(TurnServiceGrpc.getSubmitToolResultsMethod(), result.request()));
      } else if (answer instanceof Answers.Resolution resolution) {
        persist(() -> client.call(TurnServiceGrpc.getResolveApprovalMethod(), resolution.request()));
      }
    } catch (TurnwireException refused) {
      if (!LATE.contains(refused.reason())) {
        fail(refused);
      }
    } catch (RuntimeException | Error error) {
      fail(error);
    }
  }

  /** An answer is worth as many attempts as the stream: a server that starts again is away for seconds. */
  private void persist(Runnable call) {
    Resume resume = options.follow().resume();
    for (int failures = 1; ; failures++) {
      try {
        call.run();
        return;
      } catch (TurnwireException | StatusRuntimeException error) {
        if (codeOf(error) != Status.Code.UNAVAILABLE || failures > resume.attempts()) {
          throw error;
        }
      }
      client.resetConnectBackoff();
      TurnwireClient.pause(resume.delay(failures));
    }
  }

  private static Status.Code codeOf(RuntimeException error) {
    return error instanceof TurnwireException refused ? refused.code() : Status.fromThrowable(error).getCode();
  }

  private void fail(Throwable error) {
    if (!context.isCancelled() && failure.compareAndSet(null, error)) {
      context.cancel(null);
    }
  }

  /** What to throw: an answer that failed ends the stream too, and is what there is to say. */
  private RuntimeException told(Throwable error) {
    Throwable first = failure.get() == null ? error : failure.get();
    if (first instanceof Error fatal) {
      throw fatal;
    }
    return (RuntimeException) first;
  }

  /** Ends the functions that still run. */
  private void stop() {
    context.cancel(null);
    works.forEach(work -> work.cancel(true));
  }

  /** Whether this caller has gone, and not the server. */
  private boolean isLeft(Throwable error) {
    if (failure.get() != null) {
      return true;
    }
    if (error instanceof StatusRuntimeException status) {
      return status.getStatus().getCode() == Status.Code.DEADLINE_EXCEEDED;
    }
    return !(error instanceof TurnwireException) && !(error instanceof StreamLostException);
  }

  private static boolean outlivesItsCaller(RunTurnRequest request) {
    return switch (request.getOnDisconnect()) {
      case ON_DISCONNECT_CONTINUE -> true;
      case ON_DISCONNECT_UNSPECIFIED -> request.getTurn().hasSessionId();
      default -> false;
    };
  }

  /** As the end of RunTurn's stream would have: leaving a WatchRun means nothing to the run. Nobody is told of errors. */
  private void cancelRun() {
    boolean interrupted = Thread.interrupted();
    Context before = Context.ROOT.attach();
    try {
      CancelRunRequest request =
          CancelRunRequest.newBuilder()
              .setRunId(view.runId().orElseThrow())
              .setComment("The caller has gone.")
              .build();
      client.call(TurnServiceGrpc.getCancelRunMethod(), request, CANCEL_TIME);
    } catch (RuntimeException ignored) {
      // Whoever called is gone.
    } finally {
      Context.ROOT.detach(before);
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
