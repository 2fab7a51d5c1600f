package dev.turnwire;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;

import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class TurnwireExceptionTest {
  @Test
  void theDetailsOfAServerAreFields() {
    StatusRuntimeException error = Events.refusal(Status.Code.NOT_FOUND, "AGENT_NOT_FOUND");
    TurnwireException told = TurnwireException.of(error).orElseThrow();
    assertEquals(Status.Code.NOT_FOUND, told.code());
    assertEquals("AGENT_NOT_FOUND", told.reason());
    assertEquals("turnwire.v1", told.domain());
    assertEquals(Map.of("agent_id", "a"), told.metadata());
    assertEquals(Optional.of(Duration.ofMillis(1500)), told.retryDelay());
    assertEquals("NOT_FOUND (AGENT_NOT_FOUND): no", told.getMessage());
    assertSame(error, told.getCause());
  }

  @Test
  void anErrorThatNoServerMadeIsNone() {
    assertEquals(Optional.empty(), TurnwireException.of(Events.broken(Status.Code.NOT_FOUND)));
  }

  @Test
  void ofDetailsThatCannotBeReadTheCodeIsLeft() {
    Metadata trailers = new Metadata();
    trailers.put(TurnwireException.DETAILS, new byte[] {8});
    StatusRuntimeException error = Status.ABORTED.asRuntimeException(trailers);
    TurnwireException told = TurnwireException.of(error).orElseThrow();
    assertEquals(Status.Code.ABORTED, told.code());
    assertEquals("", told.reason());
    assertEquals(Optional.empty(), told.retryDelay());
    assertEquals(1, error.getSuppressed().length);
  }
}
