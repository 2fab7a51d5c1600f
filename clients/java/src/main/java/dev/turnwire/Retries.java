package dev.turnwire;

import com.google.protobuf.DescriptorProtos.MethodOptions.IdempotencyLevel;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.Descriptors.MethodDescriptor;
import dev.turnwire.v1.AgentServiceProto;
import dev.turnwire.v1.McpServerServiceProto;
import dev.turnwire.v1.ServerServiceProto;
import dev.turnwire.v1.SessionServiceProto;
import dev.turnwire.v1.ToolHostRegistryServiceProto;
import dev.turnwire.v1.TurnServiceProto;
import java.util.List;
import java.util.Map;

/** Has gRPC itself repeat the unary methods of which the contract says that repeating is safe (gRFC A6). */
final class Retries {
  /** The first one counted. */
  static final int TRIES = 4;

  private static final List<FileDescriptor> SERVICES =
      List.of(
          AgentServiceProto.getDescriptor(),
          McpServerServiceProto.getDescriptor(),
          ServerServiceProto.getDescriptor(),
          SessionServiceProto.getDescriptor(),
          ToolHostRegistryServiceProto.getDescriptor(),
          TurnServiceProto.getDescriptor());

  private Retries() {}

  /** In gRPC's words, with numbers as it wants them. */
  static Map<String, Object> serviceConfig() {
    List<Map<String, String>> safe =
        SERVICES.stream()
            .flatMap(file -> file.getServices().stream())
            .flatMap(service -> service.getMethods().stream())
            .filter(Retries::isSafe)
            .map(method -> Map.of("service", method.getService().getFullName(), "method", method.getName()))
            .toList();
    Map<String, Object> policy =
        Map.of(
            "maxAttempts", (double) TRIES,
            "initialBackoff", "0.1s",
            "maxBackoff", "5s",
            "backoffMultiplier", 2.0,
            "retryableStatusCodes", List.of("UNAVAILABLE"));
    return Map.of("methodConfig", List.of(Map.of("name", safe, "retryPolicy", policy)));
  }

  private static boolean isSafe(MethodDescriptor method) {
    boolean repeatable = method.getOptions().getIdempotencyLevel() != IdempotencyLevel.IDEMPOTENCY_UNKNOWN;
    return repeatable && !method.isServerStreaming();
  }
}
