package dev.turnwire;

import com.google.protobuf.MessageLite;
import dev.turnwire.v1.AddMcpServerRequest;
import dev.turnwire.v1.AddMcpServerResponse;
import dev.turnwire.v1.CancelRunRequest;
import dev.turnwire.v1.CancelRunResponse;
import dev.turnwire.v1.GetRunRequest;
import dev.turnwire.v1.GetRunResponse;
import dev.turnwire.v1.McpServerServiceGrpc;
import dev.turnwire.v1.ResolveApprovalRequest;
import dev.turnwire.v1.ResolveApprovalResponse;
import dev.turnwire.v1.RunTurnRequest;
import dev.turnwire.v1.RunTurnResponse;
import dev.turnwire.v1.StartTurnRequest;
import dev.turnwire.v1.StartTurnResponse;
import dev.turnwire.v1.SubmitToolResultsRequest;
import dev.turnwire.v1.SubmitToolResultsResponse;
import dev.turnwire.v1.TurnServiceGrpc;
import dev.turnwire.v1.WatchRunRequest;
import dev.turnwire.v1.WatchRunResponse;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A server of this process that plays a script, on the loopback interface. What has no script stays open. */
final class FakeServer {
  /** What a call of a stream gets. */
  interface Script<R> {
    void play(StreamObserver<R> to) throws InterruptedException;
  }

  private final BlockingQueue<Script<RunTurnResponse>> turns = new LinkedBlockingQueue<>();
  private final BlockingQueue<Script<WatchRunResponse>> watches = new LinkedBlockingQueue<>();
  private final BlockingQueue<RuntimeException> failures = new LinkedBlockingQueue<>();
  private final BlockingQueue<MessageLite> requests = new LinkedBlockingQueue<>();
  private final BlockingQueue<String> left = new LinkedBlockingQueue<>();
  private final BlockingQueue<Metadata> headers = new LinkedBlockingQueue<>();
  private final Server server;
  private final int port;

  FakeServer() throws IOException {
    this(0);
  }

  FakeServer(int port) throws IOException {
    server =
        NettyServerBuilder.forAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), port))
            .addService(new Turns())
            .addService(new Servers())
            .intercept(new Headers())
            .maxInboundMessageSize(32 << 20)
            .build()
            .start();
    this.port = server.getPort();
  }

  int port() {
    return port;
  }

  String target() {
    return "127.0.0.1:" + port;
  }

  TurnwireClient client() {
    return TurnwireClient.builder(target()).build();
  }

  void turn(Script<RunTurnResponse> script) {
    turns.add(script);
  }

  void watch(Script<WatchRunResponse> script) {
    watches.add(script);
  }

  /** What the next unary calls get, before any gets an answer. */
  void fail(RuntimeException... with) {
    failures.addAll(Arrays.asList(with));
  }

  /** The next request that came, of this kind. */
  <T extends MessageLite> T request(Class<T> type) throws InterruptedException {
    MessageLite next = requests.poll(10, TimeUnit.SECONDS);
    if (!type.isInstance(next)) {
      throw new AssertionError("a " + type.getSimpleName() + " was to come, not " + next);
    }
    return type.cast(next);
  }

  /** Waits until so many answers of a caller have come: everything that came by then. */
  List<MessageLite> untilAnswers(int count) throws InterruptedException {
    List<MessageLite> came = new ArrayList<>();
    for (int seen = 0; seen < count; ) {
      MessageLite next = requests.poll(10, TimeUnit.SECONDS);
      if (next == null) {
        throw new AssertionError("only these came: " + came);
      }
      came.add(next);
      seen += next instanceof SubmitToolResultsRequest || next instanceof ResolveApprovalRequest ? 1 : 0;
    }
    return came;
  }

  /** The requests that came and were not looked at. */
  List<MessageLite> others() {
    return List.copyOf(requests);
  }

  Metadata headers() throws InterruptedException {
    return headers.poll(10, TimeUnit.SECONDS);
  }

  /** The name of the next stream that its caller has left. */
  String left() throws InterruptedException {
    return left.poll(10, TimeUnit.SECONDS);
  }

  void close() throws InterruptedException {
    server.shutdownNow();
    server.awaitTermination(10, TimeUnit.SECONDS);
  }

  private <R> void stream(MessageLite request, String name, BlockingQueue<Script<R>> scripts, StreamObserver<R> to) {
    ((ServerCallStreamObserver<R>) to).setOnCancelHandler(() -> left.add(name));
    requests.add(request);
    Script<R> script = scripts.poll();
    if (script != null) {
      try {
        script.play(to);
      } catch (InterruptedException stopped) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private <R> void unary(MessageLite request, R response, StreamObserver<R> to) {
    requests.add(request);
    RuntimeException failure = failures.poll();
    if (failure != null) {
      to.onError(failure);
    } else {
      to.onNext(response);
      to.onCompleted();
    }
  }

  private final class Headers implements ServerInterceptor {
    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, R> call, Metadata given, ServerCallHandler<Q, R> next) {
      headers.add(given);
      return next.startCall(call, given);
    }
  }

  private final class Servers extends McpServerServiceGrpc.McpServerServiceImplBase {
    @Override
    public void addMcpServer(AddMcpServerRequest request, StreamObserver<AddMcpServerResponse> to) {
      unary(request, AddMcpServerResponse.getDefaultInstance(), to);
    }
  }

  private final class Turns extends TurnServiceGrpc.TurnServiceImplBase {
    @Override
    public void runTurn(RunTurnRequest request, StreamObserver<RunTurnResponse> to) {
      stream(request, "RunTurn", turns, to);
    }

    @Override
    public void watchRun(WatchRunRequest request, StreamObserver<WatchRunResponse> to) {
      stream(request, "WatchRun", watches, to);
    }

    @Override
    public void startTurn(StartTurnRequest request, StreamObserver<StartTurnResponse> to) {
      unary(request, StartTurnResponse.newBuilder().setRunId(Events.RUN).build(), to);
    }

    @Override
    public void getRun(GetRunRequest request, StreamObserver<GetRunResponse> to) {
      unary(request, GetRunResponse.getDefaultInstance(), to);
    }

    @Override
    public void cancelRun(CancelRunRequest request, StreamObserver<CancelRunResponse> to) {
      unary(request, CancelRunResponse.getDefaultInstance(), to);
    }

    @Override
    public void submitToolResults(SubmitToolResultsRequest request, StreamObserver<SubmitToolResultsResponse> to) {
      unary(request, SubmitToolResultsResponse.getDefaultInstance(), to);
    }

    @Override
    public void resolveApproval(ResolveApprovalRequest request, StreamObserver<ResolveApprovalResponse> to) {
      unary(request, ResolveApprovalResponse.getDefaultInstance(), to);
    }
  }
}
