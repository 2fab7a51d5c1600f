package dev.turnwire;

import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * What happens in a run, as it comes. {@link #hasNext} waits for it; closing cancels the call.
 *
 * <p>For one thread, but {@link #close} may be called from any: whoever waits then gets a {@link CancellationException},
 * and so does who asks for more.
 */
public final class Updates implements Iterator<Update>, AutoCloseable {
  private final TurnwireClient client;
  private final Reader reader;
  private final Deadline deadline;
  private final Context.CancellableContext context = Context.current().withCancellation();
  private final CountDownLatch left = new CountDownLatch(1);
  private final Runnable unbind;
  private final Runnable unbindFromClient;
  private Iterator<Reader.Frame> frames;
  private Update next;
  private boolean ended;

  Updates(TurnwireClient client, Reader.Request request, FollowOptions options, Deadline deadline) {
    this.client = client;
    this.reader = Reader.of(request, options.resume());
    this.deadline = deadline;
    this.unbind = options.cancel().map(handle -> handle.bind(context)).orElse(() -> {});
    this.unbindFromClient = client.closing().bind(context);
    context.addListener(cancelled -> left.countDown(), Runnable::run);
  }

  /**
   * Waits for the next update.
   *
   * @return false when the run has ended, or waits and was asked for with ON_WAIT_CLOSE
   * @throws StreamLostException after {@link Resume#attempts} calls in a row that brought nothing
   * @throws TurnwireException when the server refuses
   * @throws StatusRuntimeException with DEADLINE_EXCEEDED when the time is over
   * @throws CancellationException when it was closed or cancelled, or the thread is interrupted
   */
  @Override
  public boolean hasNext() {
    if (next == null && !ended) {
      try {
        next = read();
      } finally {
        ended = next == null;
        if (ended) {
          close();
        }
      }
    }
    return next != null;
  }

  /**
   * The next update, waited for as by {@link #hasNext}.
   *
   * @throws NoSuchElementException when there is none
   */
  @Override
  public Update next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    Update update = next;
    next = null;
    return update;
  }

  /** Cancels the call, if it has not ended. A run without a session ends with the RunTurn that it was begun by. */
  @Override
  public void close() {
    unbind.run();
    unbindFromClient.run();
    context.cancel(null);
  }

  private Update read() {
    while (!reader.finished()) {
      Optional<Duration> delay;
      try {
        stopIfLeft();
        if (frames == null) {
          frames = begin();
        }
        if (frames.hasNext()) {
          Optional<Update> update = reader.apply(frames.next());
          if (update.isPresent()) {
            return update.get();
          }
          continue;
        }
        delay = reader.cut();
      } catch (StatusRuntimeException error) {
        stopIfLeft();
        delay = Optional.of(reader.failed(error));
      }
      frames = null;
      if (delay.isEmpty()) {
        return null;
      }
      // gRPC's own pauses are for who does not ask again so soon.
      client.resetConnectBackoff();
      pause(delay.get());
    }
    return null;
  }

  private Iterator<Reader.Frame> begin() {
    Context before = context.attach();
    try {
      return client.stream(reader.request(), deadline);
    } finally {
      context.detach(before);
    }
  }

  private void stopIfLeft() {
    if (Thread.currentThread().isInterrupted()) {
      throw new CancellationException("the thread was interrupted");
    }
    if (!context.isCancelled()) {
      return;
    }
    if (context.cancellationCause() instanceof TimeoutException) {
      throw Status.DEADLINE_EXCEEDED.withDescription("the deadline of the context has passed").asRuntimeException();
    }
    throw new CancellationException("the stream was left");
  }

  private void pause(Duration delay) {
    long nanos = Resume.nanos(delay);
    if (deadline != null) {
      nanos = Math.min(nanos, deadline.timeRemaining(TimeUnit.NANOSECONDS));
    }
    try {
      left.await(nanos, TimeUnit.NANOSECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt(); // seen next
    }
  }
}
