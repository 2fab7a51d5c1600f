package dev.turnwire;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/**
 * How often and how fast a cut stream is taken up again.
 *
 * <p>The delay before the n-th call in a row that follows one without news is {@code initialDelay * 2^(n-1)}, at most
 * {@code maxDelay}, and shortened by a random part of up to half.
 *
 * @param attempts calls in a row that bring nothing new before the stream is lost; 0 never resumes
 * @param initialDelay before the first of them
 * @param maxDelay before any of them
 */
public record Resume(int attempts, Duration initialDelay, Duration maxDelay) {
  /** Eight attempts, from 0.1 s to 5 s apart. */
  public static final Resume DEFAULT = new Resume(8, Duration.ofMillis(100), Duration.ofSeconds(5));

  /**
   * Checks the values.
   *
   * @param attempts 0 or more
   * @param initialDelay 0 or more
   * @param maxDelay 0 or more
   * @throws IllegalArgumentException when one is negative
   */
  public Resume {
    if (attempts < 0 || initialDelay.isNegative() || maxDelay.isNegative()) {
      throw new IllegalArgumentException("attempts and delays are 0 or more");
    }
  }

  /** The time to wait after this many calls in a row that brought nothing, from 1. */
  Duration delay(int failures) {
    double longest = Math.min(nanos(initialDelay) * Math.pow(2, failures - 1), nanos(maxDelay));
    return Duration.ofNanos((long) (longest * (1 - ThreadLocalRandom.current().nextDouble() / 2)));
  }

  /** A duration in nanoseconds, the longest that there is where it has more. */
  static long nanos(Duration duration) {
    try {
      return duration.toNanos();
    } catch (ArithmeticException tooLong) {
      return duration.isNegative() ? Long.MIN_VALUE : Long.MAX_VALUE;
    }
  }
}
