package dev.turnwire;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;

/**
 * An error that a Turnwire server gave, from google.rpc.ErrorInfo and RetryInfo in the details of the status. The gRPC
 * error is its cause.
 *
 * <p>A run that failed is none of these: it has an outcome.
 */
public final class TurnwireException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** Trailing metadata that every error of a Turnwire server has, and an error made on the way to it has not. */
  static final Metadata.Key<byte[]> DETAILS =
      Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);

  private final Status.Code code;
  private final ErrorInfo info;
  private final Duration retryDelay;

  private TurnwireException(StatusRuntimeException cause, ErrorInfo info, Duration retryDelay) {
    super(words(cause.getStatus(), info.getReason()), cause);
    this.code = cause.getStatus().getCode();
    this.info = info;
    this.retryDelay = retryDelay;
  }

  /**
   * What a gRPC error says.
   *
   * @param error of any call
   * @return empty for one that no Turnwire server made, such as that of a broken connection
   */
  public static Optional<TurnwireException> of(StatusRuntimeException error) {
    byte[] details = details(error);
    if (details == null) {
      return Optional.empty();
    }
    ErrorInfo info = ErrorInfo.getDefaultInstance();
    Duration delay = null;
    try {
      for (Any detail : com.google.rpc.Status.parseFrom(details).getDetailsList()) {
        if (detail.is(ErrorInfo.class)) {
          info = detail.unpack(ErrorInfo.class);
        } else if (detail.is(RetryInfo.class)) {
          com.google.protobuf.Duration told = detail.unpack(RetryInfo.class).getRetryDelay();
          delay = Duration.ofSeconds(told.getSeconds(), told.getNanos());
        }
      }
    } catch (InvalidProtocolBufferException unreadable) {
      // Of details that cannot be read, the code and the words are left.
      error.addSuppressed(unreadable);
    }
    return Optional.of(new TurnwireException(error, info, delay));
  }

  /** Whether a server of the contract made this error, rather than something on the way to it. */
  static boolean isOfServer(StatusRuntimeException error) {
    return details(error) != null;
  }

  /** The error as callers of this package see it. */
  static RuntimeException seen(StatusRuntimeException error) {
    return of(error).<RuntimeException>map(told -> told).orElse(error);
  }

  /**
   * The status code of gRPC.
   *
   * @return never OK
   */
  public Status.Code code() {
    return code;
  }

  /**
   * What went wrong, as a name of the contract's enum Reason without its prefix, such as AGENT_NOT_FOUND.
   *
   * @return empty when the server gave none
   */
  public String reason() {
    return info.getReason();
  }

  /**
   * Who the reason is of.
   *
   * @return {@code turnwire.v1} for all that this contract defines
   */
  public String domain() {
    return info.getDomain();
  }

  /**
   * What the error is about, such as an id or a field.
   *
   * @return names and values; may be empty
   */
  public Map<String, String> metadata() {
    return info.getMetadataMap();
  }

  /**
   * When to try again.
   *
   * @return the time from now, where the server says it
   */
  public Optional<Duration> retryDelay() {
    return Optional.ofNullable(retryDelay);
  }

  private static byte[] details(StatusRuntimeException error) {
    Metadata trailers = error.getTrailers();
    return trailers == null ? null : trailers.get(DETAILS);
  }

  private static String words(Status status, String reason) {
    String description = status.getDescription() == null ? "" : status.getDescription();
    return status.getCode() + " (" + reason + "): " + description;
  }
}
