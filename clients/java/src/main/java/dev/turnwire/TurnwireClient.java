package dev.turnwire;

import com.google.protobuf.MessageLite;
import dev.turnwire.v1.Message;
import dev.turnwire.v1.Part;
import dev.turnwire.v1.Role;
import dev.turnwire.v1.RunTurnRequest;
import dev.turnwire.v1.StartTurnRequest;
import dev.turnwire.v1.StartTurnResponse;
import dev.turnwire.v1.TurnServiceGrpc;
import dev.turnwire.v1.TurnSpec;
import dev.turnwire.v1.WatchRunRequest;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptors;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.time.Duration;
import java.util.Iterator;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * Calls a Turnwire server. For use by any number of threads; connects with the first call.
 *
 * <p>Closing it ends the connection, the calls on it and the functions.
 */
public final class TurnwireClient implements AutoCloseable {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  private final ManagedChannel connection;
  private final Channel channel;
  private final ExecutorService tools;
  private final CancelHandle closing = new CancelHandle();
  private final Duration deadline;
  private final int maxMessageBytes;

  private TurnwireClient(Builder made) {
    ManagedChannelBuilder<?> builder =
        Grpc.newChannelBuilder(made.target, made.credentials)
            .userAgent("turnwire-java")
            .maxInboundMessageSize(made.maxMessageBytes)
            .defaultServiceConfig(Retries.serviceConfig())
            .enableRetry()
            // A request that does not fit is not sent again.
            .perRpcBufferLimit(2L * made.maxMessageBytes)
            .retryBufferSize(8L * made.maxMessageBytes);
    if (made.keepAlive != null) {
      builder.keepAliveTime(Resume.nanos(made.keepAlive), TimeUnit.NANOSECONDS);
    }
    connection = builder.build();
    channel = made.token == null ? connection : ClientInterceptors.intercept(connection, bearer(made.token));
    tools = ToolThreads.pool(made.toolThreads);
    deadline = made.deadline;
    maxMessageBytes = made.maxMessageBytes;
  }

  private static io.grpc.ClientInterceptor bearer(String token) {
    Metadata headers = new Metadata();
    headers.put(AUTHORIZATION, "Bearer " + token);
    return MetadataUtils.newAttachHeadersInterceptor(headers);
  }

  /**
   * What a client is made of.
   *
   * @param target {@code host:port}, or another target of gRPC
   * @return to be completed
   */
  public static Builder builder(String target) {
    return new Builder(target);
  }

  /**
   * A turn with one message of the user.
   *
   * @param text of the message
   * @return a request to add to, if there is more to say
   */
  public static RunTurnRequest prompt(String text) {
    Message message = Message.newBuilder().setRole(Role.ROLE_USER).addParts(Part.newBuilder().setText(text)).build();
    return RunTurnRequest.newBuilder().setTurn(TurnSpec.newBuilder().addInput(message)).build();
  }

  /**
   * Runs a turn, and gives what happens until it has ended (or waits, with {@code ON_WAIT_CLOSE}). The call is made by
   * the first {@link Updates#hasNext}.
   *
   * <p>A cut stream is taken up again where it stopped, by WatchRun once the run is known. A turn without a request_id
   * gets one, so that this is safe.
   *
   * @param request of RunTurn
   * @param options time, resuming, cancelling
   * @return to be closed
   */
  public Updates follow(RunTurnRequest request, FollowOptions options) {
    return new Updates(this, new Reader.Turn(request), options, deadline(options.timeout()));
  }

  /**
   * Watches a run, and gives what happens until it has ended (or waits, with {@code ON_WAIT_CLOSE}). A cut stream is
   * taken up again where it stopped.
   *
   * @param request of WatchRun
   * @param options time, resuming, cancelling
   * @return to be closed
   */
  public Updates follow(WatchRunRequest request, FollowOptions options) {
    return new Updates(this, new Reader.Watch(request), options, deadline(options.timeout()));
  }

  /**
   * Runs a turn to its end and answers what it waits for. {@code on_wait} of the request is this method's own.
   *
   * <p>Functions run side by side on threads of this client; each result is handed in when it is there. Cancelling ends
   * the functions and the run, unless the request's {@code on_disconnect} lets it go on.
   *
   * @param request of RunTurn
   * @param options functions, approver, time
   * @return the run as it ended; or with {@link RunView#waiting} set, when it waits for nothing that can be answered
   * @throws StreamLostException when the server stays away
   * @throws TurnwireException when the server refuses the turn or an answer
   * @throws StatusRuntimeException with DEADLINE_EXCEEDED when the time is over; the run is cancelled then
   * @throws CancellationException when it was cancelled, or the thread is interrupted
   */
  public RunView run(RunTurnRequest request, RunOptions options) {
    return new Run(this, options).toItsEnd(request);
  }

  /**
   * Starts a turn and returns its ids at once. Follow it with a {@link WatchRunRequest}. A turn without a request_id gets
   * one, so that it can be tried again while the server is away: four times, within the deadline.
   *
   * @param request of StartTurn
   * @return the run's and the session's id
   * @throws TurnwireException when the server refuses
   */
  public StartTurnResponse startTurn(StartTurnRequest request) {
    StartTurnRequest.Builder keyed = request.toBuilder();
    if (request.getTurn().getRequestId().isEmpty()) {
      keyed.getTurnBuilder().setRequestId(UUID.randomUUID().toString());
    }
    Deadline until = deadline(Optional.of(deadline));
    for (int failures = 1; ; failures++) {
      try {
        return unary(TurnServiceGrpc.getStartTurnMethod(), keyed.build(), until);
      } catch (StatusRuntimeException error) {
        if (error.getStatus().getCode() != Status.Code.UNAVAILABLE || failures == Retries.TRIES) {
          throw seen(error);
        }
        resetConnectBackoff();
        pause(Resume.DEFAULT.delay(failures));
      }
    }
  }

  /**
   * Makes a unary call of the contract within this client's deadline: {@code
   * client.call(AgentServiceGrpc.getGetAgentMethod(), request)}. One that the contract calls idempotent is tried up to
   * four times while the server is away; no other is tried twice.
   *
   * @param method of a generated service
   * @param request of the method
   * @param <Q> of the request
   * @param <R> of the response
   * @return the response
   * @throws TurnwireException when the server refuses
   * @throws StatusRuntimeException when there is no answer of a server; with DEADLINE_EXCEEDED when the time is over
   * @throws CancellationException when the thread is interrupted
   */
  public <Q extends MessageLite, R> R call(MethodDescriptor<Q, R> method, Q request) {
    return call(method, request, deadline);
  }

  /**
   * {@link #call(MethodDescriptor, MessageLite)} within another deadline.
   *
   * @param method of a generated service
   * @param request of the method
   * @param timeout for all tries
   * @param <Q> of the request
   * @param <R> of the response
   * @return the response
   */
  public <Q extends MessageLite, R> R call(MethodDescriptor<Q, R> method, Q request, Duration timeout) {
    try {
      return unary(method, request, deadline(Optional.of(timeout)));
    } catch (StatusRuntimeException error) {
      throw seen(error);
    }
  }

  /**
   * What generated stubs are made of, with the token in each call.
   *
   * @return the same for the life of this client
   */
  public Channel channel() {
    return channel;
  }

  /** Ends the connection, the calls on it and the functions. Who waits gets a {@link CancellationException}. */
  @Override
  public void close() {
    closing.cancel();
    connection.shutdownNow();
    tools.shutdownNow();
  }

  /** What ends with this client. */
  CancelHandle closing() {
    return closing;
  }

  /** The threads of functions. */
  ExecutorService tools() {
    return tools;
  }

  /** Connects again with the next call, however long ago the last try was. */
  void resetConnectBackoff() {
    connection.resetConnectBackoff();
  }

  /** The frames of a call that is made now, in the current context. */
  Iterator<Reader.Frame> stream(Reader.Request request, Deadline until) {
    if (request instanceof Reader.Turn turn) {
      return frames(TurnServiceGrpc.getRunTurnMethod(), turn.request(), until, Reader.Frame::of);
    }
    return frames(TurnServiceGrpc.getWatchRunMethod(), ((Reader.Watch) request).request(), until, Reader.Frame::of);
  }

  /** The moment after this time; null when there is none. */
  static Deadline deadline(Optional<Duration> timeout) {
    return timeout.map(time -> Deadline.after(Resume.nanos(time), TimeUnit.NANOSECONDS)).orElse(null);
  }

  private <Q extends MessageLite, R> Iterator<Reader.Frame> frames(
      MethodDescriptor<Q, R> method, Q request, Deadline until, Function<R, Reader.Frame> frame) {
    check(request);
    Iterator<R> responses = ClientCalls.blockingServerStreamingCall(channel, method, options(until), request);
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return responses.hasNext();
      }

      @Override
      public Reader.Frame next() {
        return frame.apply(responses.next());
      }
    };
  }

  private <Q extends MessageLite, R> R unary(MethodDescriptor<Q, R> method, Q request, Deadline until) {
    check(request);
    return ClientCalls.blockingUnaryCall(channel, method, options(until), request);
  }

  private static CallOptions options(Deadline until) {
    return CallOptions.DEFAULT.withDeadline(until);
  }

  /**
   * Refuses a request that is too large as a server would. gRPC says only that the call was cancelled, which would be
   * taken for a cut.
   */
  private void check(MessageLite request) {
    int size = request.getSerializedSize();
    if (size > maxMessageBytes) {
      throw Status.RESOURCE_EXHAUSTED
          .withDescription("the request has " + size + " bytes and may have " + maxMessageBytes)
          .asRuntimeException();
    }
  }

  private static RuntimeException seen(StatusRuntimeException error) {
    boolean left = Thread.currentThread().isInterrupted() || Context.current().isCancelled();
    if (left && error.getStatus().getCode() == Status.Code.CANCELLED && !TurnwireException.isOfServer(error)) {
      CancellationException cancelled = new CancellationException("the call was cancelled");
      cancelled.initCause(error);
      return cancelled;
    }
    return TurnwireException.seen(error);
  }

  static void pause(Duration delay) {
    try {
      TimeUnit.NANOSECONDS.sleep(delay.toNanos());
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new CancellationException("the thread was interrupted");
    }
  }

  /** What a {@link TurnwireClient} is made of. */
  public static final class Builder {
    private final String target;
    private String token;
    private ChannelCredentials credentials = InsecureChannelCredentials.create();
    private Duration deadline = Duration.ofSeconds(30);
    private Duration keepAlive;
    private int maxMessageBytes = 16 << 20;
    private int toolThreads = 64;

    private Builder(String target) {
      this.target = Objects.requireNonNull(target, "target");
    }

    /**
     * Sends {@code authorization: Bearer TOKEN} with every call.
     *
     * @param given the caller's
     * @return this
     */
    public Builder token(String given) {
      token = given;
      return this;
    }

    /**
     * How the server is trusted. Without them the connection is in the clear, the token too: for this machine and for
     * private networks.
     *
     * @param given such as {@code TlsChannelCredentials.create()}
     * @return this
     */
    public Builder credentials(ChannelCredentials given) {
      credentials = Objects.requireNonNull(given, "credentials");
      return this;
    }

    /**
     * How long a unary call may take, its further tries included. 30 s unless said.
     *
     * @param given more than 0
     * @return this
     */
    public Builder deadline(Duration given) {
      deadline = Objects.requireNonNull(given, "deadline");
      return this;
    }

    /**
     * The largest message that is sent or taken. 16 MiB unless said.
     *
     * @param bytes serialized
     * @return this
     */
    public Builder maxMessageBytes(int bytes) {
      maxMessageBytes = bytes;
      return this;
    }

    /**
     * Asks the server this often whether it is there while a call is open, so that a connection that died without a word
     * is noticed. Never unless said; servers end connections that ask too often, many above once in 5 minutes.
     *
     * @param interval gRPC takes 10 s at least
     * @return this
     */
    public Builder keepAlive(Duration interval) {
      keepAlive = interval;
      return this;
    }

    /**
     * How many functions of tools and approvals run at once; more wait for their turn. 64 unless said; threads are made
     * when they are needed, and end when they are not.
     *
     * @param threads 1 or more
     * @return this
     */
    public Builder toolThreads(int threads) {
      toolThreads = threads;
      return this;
    }

    /**
     * The client, not yet connected.
     *
     * @return to be closed
     */
    public TurnwireClient build() {
      return new TurnwireClient(this);
    }
  }
}
