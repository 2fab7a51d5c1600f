package dev.turnwire;

import dev.turnwire.v1.Cursor;
import dev.turnwire.v1.OnWait;
import dev.turnwire.v1.RunEvent;
import dev.turnwire.v1.RunTurnRequest;
import dev.turnwire.v1.RunTurnResponse;
import dev.turnwire.v1.StreamDetail;
import dev.turnwire.v1.WatchRunRequest;
import dev.turnwire.v1.WatchRunResponse;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.UUID;

/**
 * Where a reader of a run stands, and what a stream that ended means for it: all rules of resuming, without a network, a
 * clock or a thread.
 *
 * <p>{@link #request()} says what to call; {@link #apply} takes what it brings; {@link #cut()} and {@link #failed} say
 * what its end means.
 */
final class Reader {
  /** What to call. */
  sealed interface Request {}

  /** RunTurn. */
  record Turn(RunTurnRequest request) implements Request {}

  /** WatchRun. */
  record Watch(WatchRunRequest request) implements Request {}

  /** What a stream brings at once, of either call. */
  record Frame(List<RunEvent> events, long epoch, long through, OptionalLong rewindTo) {
    static Frame of(RunTurnResponse frame) {
      return new Frame(
          frame.getEventsList(),
          frame.getEpoch(),
          frame.getThroughSequence(),
          frame.hasRewindToSequence() ? OptionalLong.of(frame.getRewindToSequence()) : OptionalLong.empty());
    }

    static Frame of(WatchRunResponse frame) {
      return new Frame(
          frame.getEventsList(),
          frame.getEpoch(),
          frame.getThroughSequence(),
          frame.hasRewindToSequence() ? OptionalLong.of(frame.getRewindToSequence()) : OptionalLong.empty());
    }
  }

  private final Resume resume;
  private final RunTurnRequest turn;
  private final StreamDetail detail;
  private final OnWait onWait;
  private String runId;
  private long epoch;
  private long sequence;
  private int failures;
  private boolean waiting;
  private boolean atEnd;
  private boolean finished;

  private Reader(Resume resume, RunTurnRequest turn, String runId, Cursor after, StreamDetail detail, OnWait onWait) {
    this.resume = resume;
    this.turn = turn;
    this.runId = runId;
    this.epoch = after.getEpoch();
    this.sequence = after.getSequence();
    this.detail = detail;
    this.onWait = onWait;
    this.atEnd = sequence > 0; // perhaps: until a frame comes
  }

  static Reader of(Request request, Resume resume) {
    if (request instanceof Turn given) {
      RunTurnRequest turn = given.request();
      // Without a key, trying again before the first answer could start a second run.
      RunTurnRequest keyed = turn.getTurn().getRequestId().isEmpty() ? keyed(turn) : turn;
      return new Reader(resume, keyed, null, turn.getAfter(), turn.getStreamDetail(), turn.getOnWait());
    }
    WatchRunRequest watch = ((Watch) request).request();
    return new Reader(resume, null, watch.getRunId(), watch.getAfter(), watch.getStreamDetail(), watch.getOnWait());
  }

  private static RunTurnRequest keyed(RunTurnRequest turn) {
    RunTurnRequest.Builder keyed = turn.toBuilder();
    keyed.getTurnBuilder().setRequestId(UUID.randomUUID().toString());
    return keyed.build();
  }

  /** The run, once it is known. */
  Optional<String> runId() {
    return Optional.ofNullable(runId);
  }

  /** Where the reader stands. */
  Cursor cursor() {
    return Cursor.newBuilder().setEpoch(epoch).setSequence(sequence).build();
  }

  /** Whether the run has ended. */
  boolean finished() {
    return finished;
  }

  /** The next call: RunTurn until the run is known, then WatchRun. Both go on after the cursor. */
  Request request() {
    if (runId == null) {
      return new Turn(sequence > 0 ? turn.toBuilder().setAfter(cursor()).build() : turn);
    }
    return new Watch(
        WatchRunRequest.newBuilder()
            .setRunId(runId)
            .setAfter(cursor())
            .setStreamDetail(detail)
            .setOnWait(onWait)
            .build());
  }

  /** What the frame brings; empty for a heartbeat that brings nothing. */
  Optional<Update> apply(Frame frame) {
    atEnd = false;
    frame.rewindTo().ifPresent(to -> sequence = Math.min(sequence, to));
    long epochBefore = epoch;
    long sequenceBefore = sequence;
    List<RunEvent> events = frame.events().stream().filter(event -> event.getSequence() > sequenceBefore).toList();
    for (RunEvent event : events) {
      sequence = event.getSequence();
      see(event);
    }
    epoch = frame.epoch() == 0 ? epoch : frame.epoch();
    sequence = Math.max(sequence, frame.through());
    if (epoch != epochBefore || sequence != sequenceBefore) {
      failures = 0;
    }
    if (events.isEmpty() && frame.rewindTo().isEmpty()) {
      return Optional.empty();
    }
    return Optional.of(new Update(events, frame.rewindTo(), cursor()));
  }

  /**
   * The call ended with OK. Empty when that was its proper end, else the time until the next one. A reader that begins
   * after the last event is sent no frame: OK is then all that is left to say.
   */
  Optional<Duration> cut() {
    if (finished || atEnd || (waiting && onWait == OnWait.ON_WAIT_CLOSE)) {
      return Optional.empty();
    }
    return Optional.of(nextDelay(null));
  }

  /**
   * The call ended with an error: the time until the next one. Throws the error itself when calling again would only
   * bring it again.
   */
  Duration failed(StatusRuntimeException error) {
    if (!isCut(error)) {
      throw TurnwireException.seen(error);
    }
    return nextDelay(error);
  }

  /** Whether an error says that the connection broke, rather than what the server thinks of the call. */
  static boolean isCut(StatusRuntimeException error) {
    Status.Code code = error.getStatus().getCode();
    if (code == Status.Code.UNAVAILABLE) {
      return true;
    }
    // Proxies and transports say these of a connection that broke. From the server itself they are answers.
    boolean onTheWay = code == Status.Code.CANCELLED || code == Status.Code.INTERNAL || code == Status.Code.UNKNOWN;
    return onTheWay && !TurnwireException.isOfServer(error);
  }

  private Duration nextDelay(StatusRuntimeException error) {
    failures++;
    if (failures > resume.attempts()) {
      throw new StreamLostException(runId(), cursor(), error);
    }
    return resume.delay(failures);
  }

  private void see(RunEvent event) {
    switch (event.getEventCase()) {
      case RUN_WAITING -> waiting = true; // until it goes on: more may be told meanwhile
      case RUN_RESUMED -> waiting = false;
      case RUN_STARTED -> runId = event.getRunStarted().getRunId();
      case RUN_FINISHED -> finished = true;
      default -> {}
    }
  }
}
