package dev.turnwire.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Implemented by an app whose functions are to be tools.
 * Metadata of every call says on whose behalf it is, as fields of the request
 * do: x-turnwire-tenant, x-turnwire-principal, x-turnwire-run-id,
 * idempotency-key, traceparent and tracestate. The deadline is that of the call.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class ToolHostServiceGrpc {

  private ToolHostServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "turnwire.v1.ToolHostService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.ToolHostServiceListToolsRequest,
      dev.turnwire.v1.ToolHostServiceListToolsResponse> getListToolsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListTools",
      requestType = dev.turnwire.v1.ToolHostServiceListToolsRequest.class,
      responseType = dev.turnwire.v1.ToolHostServiceListToolsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.ToolHostServiceListToolsRequest,
      dev.turnwire.v1.ToolHostServiceListToolsResponse> getListToolsMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.ToolHostServiceListToolsRequest, dev.turnwire.v1.ToolHostServiceListToolsResponse> getListToolsMethod;
    if ((getListToolsMethod = ToolHostServiceGrpc.getListToolsMethod) == null) {
      synchronized (ToolHostServiceGrpc.class) {
        if ((getListToolsMethod = ToolHostServiceGrpc.getListToolsMethod) == null) {
          ToolHostServiceGrpc.getListToolsMethod = getListToolsMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.ToolHostServiceListToolsRequest, dev.turnwire.v1.ToolHostServiceListToolsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListTools"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ToolHostServiceListToolsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ToolHostServiceListToolsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ToolHostServiceMethodDescriptorSupplier("ListTools"))
              .build();
        }
      }
    }
    return getListToolsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.WatchToolsRequest,
      dev.turnwire.v1.WatchToolsResponse> getWatchToolsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchTools",
      requestType = dev.turnwire.v1.WatchToolsRequest.class,
      responseType = dev.turnwire.v1.WatchToolsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.WatchToolsRequest,
      dev.turnwire.v1.WatchToolsResponse> getWatchToolsMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.WatchToolsRequest, dev.turnwire.v1.WatchToolsResponse> getWatchToolsMethod;
    if ((getWatchToolsMethod = ToolHostServiceGrpc.getWatchToolsMethod) == null) {
      synchronized (ToolHostServiceGrpc.class) {
        if ((getWatchToolsMethod = ToolHostServiceGrpc.getWatchToolsMethod) == null) {
          ToolHostServiceGrpc.getWatchToolsMethod = getWatchToolsMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.WatchToolsRequest, dev.turnwire.v1.WatchToolsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchTools"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.WatchToolsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.WatchToolsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ToolHostServiceMethodDescriptorSupplier("WatchTools"))
              .build();
        }
      }
    }
    return getWatchToolsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.CallToolRequest,
      dev.turnwire.v1.CallToolResponse> getCallToolMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CallTool",
      requestType = dev.turnwire.v1.CallToolRequest.class,
      responseType = dev.turnwire.v1.CallToolResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.CallToolRequest,
      dev.turnwire.v1.CallToolResponse> getCallToolMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.CallToolRequest, dev.turnwire.v1.CallToolResponse> getCallToolMethod;
    if ((getCallToolMethod = ToolHostServiceGrpc.getCallToolMethod) == null) {
      synchronized (ToolHostServiceGrpc.class) {
        if ((getCallToolMethod = ToolHostServiceGrpc.getCallToolMethod) == null) {
          ToolHostServiceGrpc.getCallToolMethod = getCallToolMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.CallToolRequest, dev.turnwire.v1.CallToolResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CallTool"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.CallToolRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.CallToolResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ToolHostServiceMethodDescriptorSupplier("CallTool"))
              .build();
        }
      }
    }
    return getCallToolMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static ToolHostServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ToolHostServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ToolHostServiceStub>() {
        @java.lang.Override
        public ToolHostServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ToolHostServiceStub(channel, callOptions);
        }
      };
    return ToolHostServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static ToolHostServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ToolHostServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ToolHostServiceBlockingV2Stub>() {
        @java.lang.Override
        public ToolHostServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ToolHostServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return ToolHostServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static ToolHostServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ToolHostServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ToolHostServiceBlockingStub>() {
        @java.lang.Override
        public ToolHostServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ToolHostServiceBlockingStub(channel, callOptions);
        }
      };
    return ToolHostServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static ToolHostServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ToolHostServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ToolHostServiceFutureStub>() {
        @java.lang.Override
        public ToolHostServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ToolHostServiceFutureStub(channel, callOptions);
        }
      };
    return ToolHostServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Implemented by an app whose functions are to be tools.
   * Metadata of every call says on whose behalf it is, as fields of the request
   * do: x-turnwire-tenant, x-turnwire-principal, x-turnwire-run-id,
   * idempotency-key, traceparent and tracestate. The deadline is that of the call.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Lists the tools. Asked at the start, after a connection was lost, after a
     * change, and every few minutes.
     * </pre>
     */
    default void listTools(dev.turnwire.v1.ToolHostServiceListToolsRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ToolHostServiceListToolsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListToolsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Sends the version of the tools, at once and after each change, for as long
     * as the server listens. May be left out: the server then asks now and then.
     * </pre>
     */
    default void watchTools(dev.turnwire.v1.WatchToolsRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.WatchToolsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchToolsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Calls a tool. The app sends progress, any number of times, and then one
     * result, and ends the stream with OK.
     * A tool that failed is a result with is_error, whose content the model reads.
     * Any other status is a fault, of which the model reads code and message;
     * what a refusal such as INVALID_ARGUMENT says has not been done is believed.
     * A call that is cancelled has no result: stop as soon as you can.
     * A call whose connection was lost may have been executed. It is sent again,
     * once, only if the tool is idempotent, read_only or deduplicated, with the
     * same idempotency_key; else the model is told that its outcome is unknown.
     * </pre>
     */
    default void callTool(dev.turnwire.v1.CallToolRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.CallToolResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCallToolMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service ToolHostService.
   * <pre>
   * Implemented by an app whose functions are to be tools.
   * Metadata of every call says on whose behalf it is, as fields of the request
   * do: x-turnwire-tenant, x-turnwire-principal, x-turnwire-run-id,
   * idempotency-key, traceparent and tracestate. The deadline is that of the call.
   * </pre>
   */
  public static abstract class ToolHostServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return ToolHostServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service ToolHostService.
   * <pre>
   * Implemented by an app whose functions are to be tools.
   * Metadata of every call says on whose behalf it is, as fields of the request
   * do: x-turnwire-tenant, x-turnwire-principal, x-turnwire-run-id,
   * idempotency-key, traceparent and tracestate. The deadline is that of the call.
   * </pre>
   */
  public static final class ToolHostServiceStub
      extends io.grpc.stub.AbstractAsyncStub<ToolHostServiceStub> {
    private ToolHostServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ToolHostServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ToolHostServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists the tools. Asked at the start, after a connection was lost, after a
     * change, and every few minutes.
     * </pre>
     */
    public void listTools(dev.turnwire.v1.ToolHostServiceListToolsRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ToolHostServiceListToolsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListToolsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Sends the version of the tools, at once and after each change, for as long
     * as the server listens. May be left out: the server then asks now and then.
     * </pre>
     */
    public void watchTools(dev.turnwire.v1.WatchToolsRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.WatchToolsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchToolsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Calls a tool. The app sends progress, any number of times, and then one
     * result, and ends the stream with OK.
     * A tool that failed is a result with is_error, whose content the model reads.
     * Any other status is a fault, of which the model reads code and message;
     * what a refusal such as INVALID_ARGUMENT says has not been done is believed.
     * A call that is cancelled has no result: stop as soon as you can.
     * A call whose connection was lost may have been executed. It is sent again,
     * once, only if the tool is idempotent, read_only or deduplicated, with the
     * same idempotency_key; else the model is told that its outcome is unknown.
     * </pre>
     */
    public void callTool(dev.turnwire.v1.CallToolRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.CallToolResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getCallToolMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service ToolHostService.
   * <pre>
   * Implemented by an app whose functions are to be tools.
   * Metadata of every call says on whose behalf it is, as fields of the request
   * do: x-turnwire-tenant, x-turnwire-principal, x-turnwire-run-id,
   * idempotency-key, traceparent and tracestate. The deadline is that of the call.
   * </pre>
   */
  public static final class ToolHostServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<ToolHostServiceBlockingV2Stub> {
    private ToolHostServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ToolHostServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ToolHostServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists the tools. Asked at the start, after a connection was lost, after a
     * change, and every few minutes.
     * </pre>
     */
    public dev.turnwire.v1.ToolHostServiceListToolsResponse listTools(dev.turnwire.v1.ToolHostServiceListToolsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListToolsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Sends the version of the tools, at once and after each change, for as long
     * as the server listens. May be left out: the server then asks now and then.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, dev.turnwire.v1.WatchToolsResponse>
        watchTools(dev.turnwire.v1.WatchToolsRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchToolsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Calls a tool. The app sends progress, any number of times, and then one
     * result, and ends the stream with OK.
     * A tool that failed is a result with is_error, whose content the model reads.
     * Any other status is a fault, of which the model reads code and message;
     * what a refusal such as INVALID_ARGUMENT says has not been done is believed.
     * A call that is cancelled has no result: stop as soon as you can.
     * A call whose connection was lost may have been executed. It is sent again,
     * once, only if the tool is idempotent, read_only or deduplicated, with the
     * same idempotency_key; else the model is told that its outcome is unknown.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, dev.turnwire.v1.CallToolResponse>
        callTool(dev.turnwire.v1.CallToolRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getCallToolMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service ToolHostService.
   * <pre>
   * Implemented by an app whose functions are to be tools.
   * Metadata of every call says on whose behalf it is, as fields of the request
   * do: x-turnwire-tenant, x-turnwire-principal, x-turnwire-run-id,
   * idempotency-key, traceparent and tracestate. The deadline is that of the call.
   * </pre>
   */
  public static final class ToolHostServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<ToolHostServiceBlockingStub> {
    private ToolHostServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ToolHostServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ToolHostServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists the tools. Asked at the start, after a connection was lost, after a
     * change, and every few minutes.
     * </pre>
     */
    public dev.turnwire.v1.ToolHostServiceListToolsResponse listTools(dev.turnwire.v1.ToolHostServiceListToolsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListToolsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Sends the version of the tools, at once and after each change, for as long
     * as the server listens. May be left out: the server then asks now and then.
     * </pre>
     */
    public java.util.Iterator<dev.turnwire.v1.WatchToolsResponse> watchTools(
        dev.turnwire.v1.WatchToolsRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchToolsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Calls a tool. The app sends progress, any number of times, and then one
     * result, and ends the stream with OK.
     * A tool that failed is a result with is_error, whose content the model reads.
     * Any other status is a fault, of which the model reads code and message;
     * what a refusal such as INVALID_ARGUMENT says has not been done is believed.
     * A call that is cancelled has no result: stop as soon as you can.
     * A call whose connection was lost may have been executed. It is sent again,
     * once, only if the tool is idempotent, read_only or deduplicated, with the
     * same idempotency_key; else the model is told that its outcome is unknown.
     * </pre>
     */
    public java.util.Iterator<dev.turnwire.v1.CallToolResponse> callTool(
        dev.turnwire.v1.CallToolRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getCallToolMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service ToolHostService.
   * <pre>
   * Implemented by an app whose functions are to be tools.
   * Metadata of every call says on whose behalf it is, as fields of the request
   * do: x-turnwire-tenant, x-turnwire-principal, x-turnwire-run-id,
   * idempotency-key, traceparent and tracestate. The deadline is that of the call.
   * </pre>
   */
  public static final class ToolHostServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<ToolHostServiceFutureStub> {
    private ToolHostServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ToolHostServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ToolHostServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists the tools. Asked at the start, after a connection was lost, after a
     * change, and every few minutes.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.ToolHostServiceListToolsResponse> listTools(
        dev.turnwire.v1.ToolHostServiceListToolsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListToolsMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_LIST_TOOLS = 0;
  private static final int METHODID_WATCH_TOOLS = 1;
  private static final int METHODID_CALL_TOOL = 2;

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
        case METHODID_LIST_TOOLS:
          serviceImpl.listTools((dev.turnwire.v1.ToolHostServiceListToolsRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.ToolHostServiceListToolsResponse>) responseObserver);
          break;
        case METHODID_WATCH_TOOLS:
          serviceImpl.watchTools((dev.turnwire.v1.WatchToolsRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.WatchToolsResponse>) responseObserver);
          break;
        case METHODID_CALL_TOOL:
          serviceImpl.callTool((dev.turnwire.v1.CallToolRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.CallToolResponse>) responseObserver);
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
          getListToolsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.ToolHostServiceListToolsRequest,
              dev.turnwire.v1.ToolHostServiceListToolsResponse>(
                service, METHODID_LIST_TOOLS)))
        .addMethod(
          getWatchToolsMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              dev.turnwire.v1.WatchToolsRequest,
              dev.turnwire.v1.WatchToolsResponse>(
                service, METHODID_WATCH_TOOLS)))
        .addMethod(
          getCallToolMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              dev.turnwire.v1.CallToolRequest,
              dev.turnwire.v1.CallToolResponse>(
                service, METHODID_CALL_TOOL)))
        .build();
  }

  private static abstract class ToolHostServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    ToolHostServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.turnwire.v1.ToolHostServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("ToolHostService");
    }
  }

  private static final class ToolHostServiceFileDescriptorSupplier
      extends ToolHostServiceBaseDescriptorSupplier {
    ToolHostServiceFileDescriptorSupplier() {}
  }

  private static final class ToolHostServiceMethodDescriptorSupplier
      extends ToolHostServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    ToolHostServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (ToolHostServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new ToolHostServiceFileDescriptorSupplier())
              .addMethod(getListToolsMethod())
              .addMethod(getWatchToolsMethod())
              .addMethod(getCallToolMethod())
              .build();
        }
      }
    }
    return result;
  }
}
