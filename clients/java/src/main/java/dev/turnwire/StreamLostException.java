package dev.turnwire;

import dev.turnwire.v1.Cursor;
import java.util.Optional;

/** The stream was cut and could not be taken up again in the attempts allowed. The run may still go on. */
public final class StreamLostException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final String runId;
  private final Cursor cursor;

  StreamLostException(Optional<String> runId, Cursor cursor, Throwable cause) {
    super(words(runId, cursor), cause);
    this.runId = runId.orElse(null);
    this.cursor = cursor;
  }

  /**
   * The run, if the server ever told it.
   *
   * @return its id
   */
  public Optional<String> runId() {
    return Optional.ofNullable(runId);
  }

  /**
   * Where the stream stopped. A later WatchRun goes on there.
   *
   * @return the place after the last event that came
   */
  public Cursor cursor() {
    return cursor;
  }

  private static String words(Optional<String> runId, Cursor cursor) {
    return runId
        .map(run -> "run " + run + ": cut after event " + cursor.getSequence() + " and not resumed")
        .orElse("no stream was begun: the server could not be reached");
  }
}
