package dev.turnwire.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Operates the MCP servers this service connects to.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class McpServerServiceGrpc {

  private McpServerServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "turnwire.v1.McpServerService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.ListMcpServersRequest,
      dev.turnwire.v1.ListMcpServersResponse> getListMcpServersMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListMcpServers",
      requestType = dev.turnwire.v1.ListMcpServersRequest.class,
      responseType = dev.turnwire.v1.ListMcpServersResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.ListMcpServersRequest,
      dev.turnwire.v1.ListMcpServersResponse> getListMcpServersMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.ListMcpServersRequest, dev.turnwire.v1.ListMcpServersResponse> getListMcpServersMethod;
    if ((getListMcpServersMethod = McpServerServiceGrpc.getListMcpServersMethod) == null) {
      synchronized (McpServerServiceGrpc.class) {
        if ((getListMcpServersMethod = McpServerServiceGrpc.getListMcpServersMethod) == null) {
          McpServerServiceGrpc.getListMcpServersMethod = getListMcpServersMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.ListMcpServersRequest, dev.turnwire.v1.ListMcpServersResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListMcpServers"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ListMcpServersRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ListMcpServersResponse.getDefaultInstance()))
              .setSchemaDescriptor(new McpServerServiceMethodDescriptorSupplier("ListMcpServers"))
              .build();
        }
      }
    }
    return getListMcpServersMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.EnableMcpServerRequest,
      dev.turnwire.v1.EnableMcpServerResponse> getEnableMcpServerMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "EnableMcpServer",
      requestType = dev.turnwire.v1.EnableMcpServerRequest.class,
      responseType = dev.turnwire.v1.EnableMcpServerResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.EnableMcpServerRequest,
      dev.turnwire.v1.EnableMcpServerResponse> getEnableMcpServerMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.EnableMcpServerRequest, dev.turnwire.v1.EnableMcpServerResponse> getEnableMcpServerMethod;
    if ((getEnableMcpServerMethod = McpServerServiceGrpc.getEnableMcpServerMethod) == null) {
      synchronized (McpServerServiceGrpc.class) {
        if ((getEnableMcpServerMethod = McpServerServiceGrpc.getEnableMcpServerMethod) == null) {
          McpServerServiceGrpc.getEnableMcpServerMethod = getEnableMcpServerMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.EnableMcpServerRequest, dev.turnwire.v1.EnableMcpServerResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "EnableMcpServer"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.EnableMcpServerRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.EnableMcpServerResponse.getDefaultInstance()))
              .setSchemaDescriptor(new McpServerServiceMethodDescriptorSupplier("EnableMcpServer"))
              .build();
        }
      }
    }
    return getEnableMcpServerMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.DisableMcpServerRequest,
      dev.turnwire.v1.DisableMcpServerResponse> getDisableMcpServerMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DisableMcpServer",
      requestType = dev.turnwire.v1.DisableMcpServerRequest.class,
      responseType = dev.turnwire.v1.DisableMcpServerResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.DisableMcpServerRequest,
      dev.turnwire.v1.DisableMcpServerResponse> getDisableMcpServerMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.DisableMcpServerRequest, dev.turnwire.v1.DisableMcpServerResponse> getDisableMcpServerMethod;
    if ((getDisableMcpServerMethod = McpServerServiceGrpc.getDisableMcpServerMethod) == null) {
      synchronized (McpServerServiceGrpc.class) {
        if ((getDisableMcpServerMethod = McpServerServiceGrpc.getDisableMcpServerMethod) == null) {
          McpServerServiceGrpc.getDisableMcpServerMethod = getDisableMcpServerMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.DisableMcpServerRequest, dev.turnwire.v1.DisableMcpServerResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DisableMcpServer"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.DisableMcpServerRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.DisableMcpServerResponse.getDefaultInstance()))
              .setSchemaDescriptor(new McpServerServiceMethodDescriptorSupplier("DisableMcpServer"))
              .build();
        }
      }
    }
    return getDisableMcpServerMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.ReconnectMcpServerRequest,
      dev.turnwire.v1.ReconnectMcpServerResponse> getReconnectMcpServerMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ReconnectMcpServer",
      requestType = dev.turnwire.v1.ReconnectMcpServerRequest.class,
      responseType = dev.turnwire.v1.ReconnectMcpServerResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.ReconnectMcpServerRequest,
      dev.turnwire.v1.ReconnectMcpServerResponse> getReconnectMcpServerMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.ReconnectMcpServerRequest, dev.turnwire.v1.ReconnectMcpServerResponse> getReconnectMcpServerMethod;
    if ((getReconnectMcpServerMethod = McpServerServiceGrpc.getReconnectMcpServerMethod) == null) {
      synchronized (McpServerServiceGrpc.class) {
        if ((getReconnectMcpServerMethod = McpServerServiceGrpc.getReconnectMcpServerMethod) == null) {
          McpServerServiceGrpc.getReconnectMcpServerMethod = getReconnectMcpServerMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.ReconnectMcpServerRequest, dev.turnwire.v1.ReconnectMcpServerResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ReconnectMcpServer"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ReconnectMcpServerRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ReconnectMcpServerResponse.getDefaultInstance()))
              .setSchemaDescriptor(new McpServerServiceMethodDescriptorSupplier("ReconnectMcpServer"))
              .build();
        }
      }
    }
    return getReconnectMcpServerMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.AddMcpServerRequest,
      dev.turnwire.v1.AddMcpServerResponse> getAddMcpServerMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "AddMcpServer",
      requestType = dev.turnwire.v1.AddMcpServerRequest.class,
      responseType = dev.turnwire.v1.AddMcpServerResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.AddMcpServerRequest,
      dev.turnwire.v1.AddMcpServerResponse> getAddMcpServerMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.AddMcpServerRequest, dev.turnwire.v1.AddMcpServerResponse> getAddMcpServerMethod;
    if ((getAddMcpServerMethod = McpServerServiceGrpc.getAddMcpServerMethod) == null) {
      synchronized (McpServerServiceGrpc.class) {
        if ((getAddMcpServerMethod = McpServerServiceGrpc.getAddMcpServerMethod) == null) {
          McpServerServiceGrpc.getAddMcpServerMethod = getAddMcpServerMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.AddMcpServerRequest, dev.turnwire.v1.AddMcpServerResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "AddMcpServer"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.AddMcpServerRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.AddMcpServerResponse.getDefaultInstance()))
              .setSchemaDescriptor(new McpServerServiceMethodDescriptorSupplier("AddMcpServer"))
              .build();
        }
      }
    }
    return getAddMcpServerMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.RemoveMcpServerRequest,
      dev.turnwire.v1.RemoveMcpServerResponse> getRemoveMcpServerMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RemoveMcpServer",
      requestType = dev.turnwire.v1.RemoveMcpServerRequest.class,
      responseType = dev.turnwire.v1.RemoveMcpServerResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.RemoveMcpServerRequest,
      dev.turnwire.v1.RemoveMcpServerResponse> getRemoveMcpServerMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.RemoveMcpServerRequest, dev.turnwire.v1.RemoveMcpServerResponse> getRemoveMcpServerMethod;
    if ((getRemoveMcpServerMethod = McpServerServiceGrpc.getRemoveMcpServerMethod) == null) {
      synchronized (McpServerServiceGrpc.class) {
        if ((getRemoveMcpServerMethod = McpServerServiceGrpc.getRemoveMcpServerMethod) == null) {
          McpServerServiceGrpc.getRemoveMcpServerMethod = getRemoveMcpServerMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.RemoveMcpServerRequest, dev.turnwire.v1.RemoveMcpServerResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RemoveMcpServer"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.RemoveMcpServerRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.RemoveMcpServerResponse.getDefaultInstance()))
              .setSchemaDescriptor(new McpServerServiceMethodDescriptorSupplier("RemoveMcpServer"))
              .build();
        }
      }
    }
    return getRemoveMcpServerMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static McpServerServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<McpServerServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<McpServerServiceStub>() {
        @java.lang.Override
        public McpServerServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new McpServerServiceStub(channel, callOptions);
        }
      };
    return McpServerServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static McpServerServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<McpServerServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<McpServerServiceBlockingV2Stub>() {
        @java.lang.Override
        public McpServerServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new McpServerServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return McpServerServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static McpServerServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<McpServerServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<McpServerServiceBlockingStub>() {
        @java.lang.Override
        public McpServerServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new McpServerServiceBlockingStub(channel, callOptions);
        }
      };
    return McpServerServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static McpServerServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<McpServerServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<McpServerServiceFutureStub>() {
        @java.lang.Override
        public McpServerServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new McpServerServiceFutureStub(channel, callOptions);
        }
      };
    return McpServerServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Operates the MCP servers this service connects to.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Lists MCP servers with their connection status.
     * </pre>
     */
    default void listMcpServers(dev.turnwire.v1.ListMcpServersRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ListMcpServersResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListMcpServersMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lets an MCP server be used, and connects to it.
     * </pre>
     */
    default void enableMcpServer(dev.turnwire.v1.EnableMcpServerRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.EnableMcpServerResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getEnableMcpServerMethod(), responseObserver);
    }

    /**
     * <pre>
     * Stops using an MCP server. Tools of other sources are not touched.
     * </pre>
     */
    default void disableMcpServer(dev.turnwire.v1.DisableMcpServerRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.DisableMcpServerResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDisableMcpServerMethod(), responseObserver);
    }

    /**
     * <pre>
     * Drops the connection, its session and its tool cache, and connects again.
     * </pre>
     */
    default void reconnectMcpServer(dev.turnwire.v1.ReconnectMcpServerRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ReconnectMcpServerResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getReconnectMcpServerMethod(), responseObserver);
    }

    /**
     * <pre>
     * Adds an MCP server until the service ends, and connects to it. Refused
     * with PERMISSION_DENIED unless the configuration allows servers of its kind
     * to be added.
     * </pre>
     */
    default void addMcpServer(dev.turnwire.v1.AddMcpServerRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.AddMcpServerResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getAddMcpServerMethod(), responseObserver);
    }

    /**
     * <pre>
     * Ends and forgets an MCP server that was added at runtime. One of the
     * configuration can only be disabled.
     * </pre>
     */
    default void removeMcpServer(dev.turnwire.v1.RemoveMcpServerRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.RemoveMcpServerResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRemoveMcpServerMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service McpServerService.
   * <pre>
   * Operates the MCP servers this service connects to.
   * </pre>
   */
  public static abstract class McpServerServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return McpServerServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service McpServerService.
   * <pre>
   * Operates the MCP servers this service connects to.
   * </pre>
   */
  public static final class McpServerServiceStub
      extends io.grpc.stub.AbstractAsyncStub<McpServerServiceStub> {
    private McpServerServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected McpServerServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new McpServerServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists MCP servers with their connection status.
     * </pre>
     */
    public void listMcpServers(dev.turnwire.v1.ListMcpServersRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ListMcpServersResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListMcpServersMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lets an MCP server be used, and connects to it.
     * </pre>
     */
    public void enableMcpServer(dev.turnwire.v1.EnableMcpServerRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.EnableMcpServerResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getEnableMcpServerMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Stops using an MCP server. Tools of other sources are not touched.
     * </pre>
     */
    public void disableMcpServer(dev.turnwire.v1.DisableMcpServerRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.DisableMcpServerResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDisableMcpServerMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Drops the connection, its session and its tool cache, and connects again.
     * </pre>
     */
    public void reconnectMcpServer(dev.turnwire.v1.ReconnectMcpServerRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ReconnectMcpServerResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getReconnectMcpServerMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Adds an MCP server until the service ends, and connects to it. Refused
     * with PERMISSION_DENIED unless the configuration allows servers of its kind
     * to be added.
     * </pre>
     */
    public void addMcpServer(dev.turnwire.v1.AddMcpServerRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.AddMcpServerResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getAddMcpServerMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Ends and forgets an MCP server that was added at runtime. One of the
     * configuration can only be disabled.
     * </pre>
     */
    public void removeMcpServer(dev.turnwire.v1.RemoveMcpServerRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.RemoveMcpServerResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRemoveMcpServerMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service McpServerService.
   * <pre>
   * Operates the MCP servers this service connects to.
   * </pre>
   */
  public static final class McpServerServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<McpServerServiceBlockingV2Stub> {
    private McpServerServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected McpServerServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new McpServerServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists MCP servers with their connection status.
     * </pre>
     */
    public dev.turnwire.v1.ListMcpServersResponse listMcpServers(dev.turnwire.v1.ListMcpServersRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListMcpServersMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lets an MCP server be used, and connects to it.
     * </pre>
     */
    public dev.turnwire.v1.EnableMcpServerResponse enableMcpServer(dev.turnwire.v1.EnableMcpServerRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getEnableMcpServerMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Stops using an MCP server. Tools of other sources are not touched.
     * </pre>
     */
    public dev.turnwire.v1.DisableMcpServerResponse disableMcpServer(dev.turnwire.v1.DisableMcpServerRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDisableMcpServerMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Drops the connection, its session and its tool cache, and connects again.
     * </pre>
     */
    public dev.turnwire.v1.ReconnectMcpServerResponse reconnectMcpServer(dev.turnwire.v1.ReconnectMcpServerRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getReconnectMcpServerMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Adds an MCP server until the service ends, and connects to it. Refused
     * with PERMISSION_DENIED unless the configuration allows servers of its kind
     * to be added.
     * </pre>
     */
    public dev.turnwire.v1.AddMcpServerResponse addMcpServer(dev.turnwire.v1.AddMcpServerRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getAddMcpServerMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ends and forgets an MCP server that was added at runtime. One of the
     * configuration can only be disabled.
     * </pre>
     */
    public dev.turnwire.v1.RemoveMcpServerResponse removeMcpServer(dev.turnwire.v1.RemoveMcpServerRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRemoveMcpServerMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service McpServerService.
   * <pre>
   * Operates the MCP servers this service connects to.
   * </pre>
   */
  public static final class McpServerServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<McpServerServiceBlockingStub> {
    private McpServerServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected McpServerServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new McpServerServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists MCP servers with their connection status.
     * </pre>
     */
    public dev.turnwire.v1.ListMcpServersResponse listMcpServers(dev.turnwire.v1.ListMcpServersRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListMcpServersMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lets an MCP server be used, and connects to it.
     * </pre>
     */
    public dev.turnwire.v1.EnableMcpServerResponse enableMcpServer(dev.turnwire.v1.EnableMcpServerRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getEnableMcpServerMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Stops using an MCP server. Tools of other sources are not touched.
     * </pre>
     */
    public dev.turnwire.v1.DisableMcpServerResponse disableMcpServer(dev.turnwire.v1.DisableMcpServerRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDisableMcpServerMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Drops the connection, its session and its tool cache, and connects again.
     * </pre>
     */
    public dev.turnwire.v1.ReconnectMcpServerResponse reconnectMcpServer(dev.turnwire.v1.ReconnectMcpServerRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getReconnectMcpServerMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Adds an MCP server until the service ends, and connects to it. Refused
     * with PERMISSION_DENIED unless the configuration allows servers of its kind
     * to be added.
     * </pre>
     */
    public dev.turnwire.v1.AddMcpServerResponse addMcpServer(dev.turnwire.v1.AddMcpServerRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getAddMcpServerMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ends and forgets an MCP server that was added at runtime. One of the
     * configuration can only be disabled.
     * </pre>
     */
    public dev.turnwire.v1.RemoveMcpServerResponse removeMcpServer(dev.turnwire.v1.RemoveMcpServerRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRemoveMcpServerMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service McpServerService.
   * <pre>
   * Operates the MCP servers this service connects to.
   * </pre>
   */
  public static final class McpServerServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<McpServerServiceFutureStub> {
    private McpServerServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected McpServerServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new McpServerServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists MCP servers with their connection status.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.ListMcpServersResponse> listMcpServers(
        dev.turnwire.v1.ListMcpServersRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListMcpServersMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lets an MCP server be used, and connects to it.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.EnableMcpServerResponse> enableMcpServer(
        dev.turnwire.v1.EnableMcpServerRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getEnableMcpServerMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Stops using an MCP server. Tools of other sources are not touched.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.DisableMcpServerResponse> disableMcpServer(
        dev.turnwire.v1.DisableMcpServerRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDisableMcpServerMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Drops the connection, its session and its tool cache, and connects again.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.ReconnectMcpServerResponse> reconnectMcpServer(
        dev.turnwire.v1.ReconnectMcpServerRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getReconnectMcpServerMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Adds an MCP server until the service ends, and connects to it. Refused
     * with PERMISSION_DENIED unless the configuration allows servers of its kind
     * to be added.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.AddMcpServerResponse> addMcpServer(
        dev.turnwire.v1.AddMcpServerRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getAddMcpServerMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Ends and forgets an MCP server that was added at runtime. One of the
     * configuration can only be disabled.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.RemoveMcpServerResponse> removeMcpServer(
        dev.turnwire.v1.RemoveMcpServerRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRemoveMcpServerMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_LIST_MCP_SERVERS = 0;
  private static final int METHODID_ENABLE_MCP_SERVER = 1;
  private static final int METHODID_DISABLE_MCP_SERVER = 2;
  private static final int METHODID_RECONNECT_MCP_SERVER = 3;
  private static final int METHODID_ADD_MCP_SERVER = 4;
  private static final int METHODID_REMOVE_MCP_SERVER = 5;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_LIST_MCP_SERVERS:
          serviceImpl.listMcpServers((dev.turnwire.v1.ListMcpServersRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.ListMcpServersResponse>) responseObserver);
          break;
        case METHODID_ENABLE_MCP_SERVER:
          serviceImpl.enableMcpServer((dev.turnwire.v1.EnableMcpServerRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.EnableMcpServerResponse>) responseObserver);
          break;
        case METHODID_DISABLE_MCP_SERVER:
          serviceImpl.disableMcpServer((dev.turnwire.v1.DisableMcpServerRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.DisableMcpServerResponse>) responseObserver);
          break;
        case METHODID_RECONNECT_MCP_SERVER:
          serviceImpl.reconnectMcpServer((dev.turnwire.v1.ReconnectMcpServerRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.ReconnectMcpServerResponse>) responseObserver);
          break;
        case METHODID_ADD_MCP_SERVER:
          serviceImpl.addMcpServer((dev.turnwire.v1.AddMcpServerRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.AddMcpServerResponse>) responseObserver);
          break;
        case METHODID_REMOVE_MCP_SERVER:
          serviceImpl.removeMcpServer((dev.turnwire.v1.RemoveMcpServerRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.RemoveMcpServerResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getListMcpServersMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.ListMcpServersRequest,
              dev.turnwire.v1.ListMcpServersResponse>(
                service, METHODID_LIST_MCP_SERVERS)))
        .addMethod(
          getEnableMcpServerMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.EnableMcpServerRequest,
              dev.turnwire.v1.EnableMcpServerResponse>(
                service, METHODID_ENABLE_MCP_SERVER)))
        .addMethod(
          getDisableMcpServerMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.DisableMcpServerRequest,
              dev.turnwire.v1.DisableMcpServerResponse>(
                service, METHODID_DISABLE_MCP_SERVER)))
        .addMethod(
          getReconnectMcpServerMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.ReconnectMcpServerRequest,
              dev.turnwire.v1.ReconnectMcpServerResponse>(
                service, METHODID_RECONNECT_MCP_SERVER)))
        .addMethod(
          getAddMcpServerMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.AddMcpServerRequest,
              dev.turnwire.v1.AddMcpServerResponse>(
                service, METHODID_ADD_MCP_SERVER)))
        .addMethod(
          getRemoveMcpServerMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.RemoveMcpServerRequest,
              dev.turnwire.v1.RemoveMcpServerResponse>(
                service, METHODID_REMOVE_MCP_SERVER)))
        .build();
  }

  private static abstract class McpServerServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    McpServerServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.turnwire.v1.McpServerServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("McpServerService");
    }
  }

  private static final class McpServerServiceFileDescriptorSupplier
      extends McpServerServiceBaseDescriptorSupplier {
    McpServerServiceFileDescriptorSupplier() {}
  }

  private static final class McpServerServiceMethodDescriptorSupplier
      extends McpServerServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    McpServerServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (McpServerServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new McpServerServiceFileDescriptorSupplier())
              .addMethod(getListMcpServersMethod())
              .addMethod(getEnableMcpServerMethod())
              .addMethod(getDisableMcpServerMethod())
              .addMethod(getReconnectMcpServerMethod())
              .addMethod(getAddMcpServerMethod())
              .addMethod(getRemoveMcpServerMethod())
              .build();
        }
      }
    }
    return result;
  }
}
