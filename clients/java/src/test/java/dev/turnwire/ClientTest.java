package dev.turnwire;

import static dev.turnwire.Events.broken;
import static dev.turnwire.Events.refusal;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.MessageLite;
import dev.turnwire.v1.AddMcpServerRequest;
import dev.turnwire.v1.GetRunRequest;
import dev.turnwire.v1.GetRunResponse;
import dev.turnwire.v1.McpServerServiceGrpc;
import dev.turnwire.v1.StartTurnRequest;
import dev.turnwire.v1.TurnServiceGrpc;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CancellationException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
class ClientTest {
  private static final GetRunRequest GET = GetRunRequest.newBuilder().setRunId(Events.RUN).build();
  private static final RuntimeException AWAY = broken(Status.Code.UNAVAILABLE);

  private FakeServer server;
  private TurnwireClient client;

  @BeforeEach
  void start() throws IOException {
    server = new FakeServer();
    client = server.client();
  }

  @AfterEach
  void stop() throws InterruptedException {
    client.close();
    server.close();
  }

  private static Status.Code code(Runnable call) {
    return assertThrows(StatusRuntimeException.class, call::run).getStatus().getCode();
  }

  @Test
  void whatIsSafeIsTriedFourTimesWhileTheServerIsAway() {
    server.fail(AWAY, AWAY, AWAY);
    assertEquals(GetRunResponse.getDefaultInstance(), client.call(TurnServiceGrpc.getGetRunMethod(), GET));
    assertEquals(4, server.others().size());
    server.fail(AWAY, AWAY, AWAY, AWAY);
    assertEquals(Status.Code.UNAVAILABLE, code(() -> client.call(TurnServiceGrpc.getGetRunMethod(), GET)));
    assertEquals(8, server.others().size());
  }

  @Test
  void aLargeRequestIsTriedAgainToo() {
    server.fail(AWAY, AWAY, AWAY);
    GetRunRequest large = GetRunRequest.newBuilder().setRunId("x".repeat(15 << 20)).build();
    client.call(TurnServiceGrpc.getGetRunMethod(), large);
    assertEquals(4, server.others().size());
  }

  @Test
  void whatIsNotSafeIsTriedOnce() {
    server.fail(AWAY);
    AddMcpServerRequest add = AddMcpServerRequest.getDefaultInstance();
    assertEquals(
        Status.Code.UNAVAILABLE, code(() -> client.call(McpServerServiceGrpc.getAddMcpServerMethod(), add)));
    assertEquals(List.<MessageLite>of(add), server.others());
  }

  @Test
  void noOtherErrorIsTriedAgain() {
    server.fail(refusal(Status.Code.NOT_FOUND, "RUN_NOT_FOUND"));
    TurnwireException refused =
        assertThrows(TurnwireException.class, () -> client.call(TurnServiceGrpc.getGetRunMethod(), GET));
    assertEquals("RUN_NOT_FOUND", refused.reason());
    assertEquals(1, server.others().size());
  }

  @Test
  void aTurnIsStartedWithAKeyAndTriedWithTheSame() throws Exception {
    server.fail(AWAY, AWAY, AWAY);
    StartTurnRequest request = StartTurnRequest.newBuilder().setTurn(TurnwireClient.prompt("Go").getTurn()).build();
    assertEquals(Events.RUN, client.startTurn(request).getRunId());
    StartTurnRequest first = server.request(StartTurnRequest.class);
    assertFalse(first.getTurn().getRequestId().isEmpty());
    assertEquals(List.<MessageLite>of(first, first, first), server.others());
    server.fail(AWAY, AWAY, AWAY, AWAY);
    assertEquals(Status.Code.UNAVAILABLE, code(() -> client.startTurn(request)));
  }

  @Test
  void theTokenGoesWithEveryCall() throws Exception {
    Metadata.Key<String> key = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
    client.call(TurnServiceGrpc.getGetRunMethod(), GET);
    assertNull(server.headers().get(key));
    try (TurnwireClient known = TurnwireClient.builder(server.target()).token("t").build()) {
      known.call(TurnServiceGrpc.getGetRunMethod(), GET);
      assertEquals("Bearer t", server.headers().get(key));
      TurnServiceGrpc.newBlockingStub(known.channel()).getRun(GET);
      assertEquals("Bearer t", server.headers().get(key));
    }
  }

  @Test
  void theTimeOfACallHoldsAcrossItsTries() {
    server.fail(AWAY, AWAY, AWAY);
    try (TurnwireClient hasty = TurnwireClient.builder(server.target()).deadline(Duration.ofNanos(1)).build()) {
      assertEquals(Status.Code.DEADLINE_EXCEEDED, code(() -> hasty.call(TurnServiceGrpc.getGetRunMethod(), GET)));
      StartTurnRequest start = StartTurnRequest.getDefaultInstance();
      assertEquals(Status.Code.DEADLINE_EXCEEDED, code(() -> hasty.startTurn(start)));
    }
  }

  @Test
  void anInterruptIsACancellationAndStaysSet() {
    Thread.currentThread().interrupt();
    assertThrows(CancellationException.class, () -> client.call(TurnServiceGrpc.getGetRunMethod(), GET));
    assertTrue(Thread.interrupted());
  }

  @Test
  void aRequestThatIsTooLargeIsRefusedHere() {
    try (TurnwireClient small = TurnwireClient.builder(server.target()).maxMessageBytes(3).build()) {
      assertEquals(Status.Code.RESOURCE_EXHAUSTED, code(() -> small.call(TurnServiceGrpc.getGetRunMethod(), GET)));
    }
    assertEquals(List.of(), server.others());
  }
}
