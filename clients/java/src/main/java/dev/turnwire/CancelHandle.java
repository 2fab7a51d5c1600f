package dev.turnwire;

import io.grpc.Context;

/**
 * Cancels calls from another thread: give it to {@link FollowOptions#withCancel} or {@link RunOptions#withCancel}. The
 * call then ends with {@link java.util.concurrent.CancellationException}. One handle may be given to many calls; once
 * cancelled, it cancels those that are begun later too.
 */
public final class CancelHandle {
  private final Context.CancellableContext context = Context.ROOT.withCancellation();

  /** Makes a handle of nothing yet. */
  public CancelHandle() {}

  /** Cancels every call that has this handle. May be called from any thread, and again. */
  public void cancel() {
    context.cancel(null);
  }

  /**
   * Whether {@link #cancel} has been called.
   *
   * @return true from then on
   */
  public boolean isCancelled() {
    return context.isCancelled();
  }

  /** Has a call's own context end with this handle, until what is returned is run. */
  Runnable bind(Context.CancellableContext call) {
    Context.CancellationListener listener = cancelled -> call.cancel(null);
    context.addListener(listener, Runnable::run);
    return () -> context.removeListener(listener);
  }
}
