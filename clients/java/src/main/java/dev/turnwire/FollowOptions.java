package dev.turnwire;

import java.time.Duration;
import java.util.Optional;

/**
 * How a run is followed.
 *
 * @param timeout over all calls. It is the deadline of the call, which RunTurn takes as a limit of the run
 * @param resume how a cut stream is taken up again
 * @param cancel what ends it early
 */
public record FollowOptions(Optional<Duration> timeout, Resume resume, Optional<CancelHandle> cancel) {
  /** No time limit, and resumed as {@link Resume#DEFAULT} says. */
  public static final FollowOptions DEFAULT = new FollowOptions(Optional.empty(), Resume.DEFAULT, Optional.empty());

  /**
   * The same with a limit of time.
   *
   * @param given over all calls
   * @return other options
   */
  public FollowOptions withTimeout(Duration given) {
    return new FollowOptions(Optional.of(given), resume, cancel);
  }

  /**
   * The same with other rules of resuming.
   *
   * @param given how often and how fast
   * @return other options
   */
  public FollowOptions withResume(Resume given) {
    return new FollowOptions(timeout, given, cancel);
  }

  /**
   * The same with a handle.
   *
   * @param given what ends it early
   * @return other options
   */
  public FollowOptions withCancel(CancelHandle given) {
    return new FollowOptions(timeout, resume, Optional.of(given));
  }
}
