package dev.turnwire.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Implemented by an app that wants to know what runs do.
 * Answering OK acknowledges. Every other status, and no answer within the
 * deadline, make the server tell the same again: at once a few times, then in
 * growing intervals, and after a restart. UNIMPLEMENTED is no exception.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class HookServiceGrpc {

  private HookServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "turnwire.v1.HookService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.OnEventsRequest,
      dev.turnwire.v1.OnEventsResponse> getOnEventsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "OnEvents",
      requestType = dev.turnwire.v1.OnEventsRequest.class,
      responseType = dev.turnwire.v1.OnEventsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.OnEventsRequest,
      dev.turnwire.v1.OnEventsResponse> getOnEventsMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.OnEventsRequest, dev.turnwire.v1.OnEventsResponse> getOnEventsMethod;
    if ((getOnEventsMethod = HookServiceGrpc.getOnEventsMethod) == null) {
      synchronized (HookServiceGrpc.class) {
        if ((getOnEventsMethod = HookServiceGrpc.getOnEventsMethod) == null) {
          HookServiceGrpc.getOnEventsMethod = getOnEventsMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.OnEventsRequest, dev.turnwire.v1.OnEventsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "OnEvents"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.OnEventsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.OnEventsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new HookServiceMethodDescriptorSupplier("OnEvents"))
              .build();
        }
      }
    }
    return getOnEventsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.OnSettleRequest,
      dev.turnwire.v1.OnSettleResponse> getOnSettleMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "OnSettle",
      requestType = dev.turnwire.v1.OnSettleRequest.class,
      responseType = dev.turnwire.v1.OnSettleResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.OnSettleRequest,
      dev.turnwire.v1.OnSettleResponse> getOnSettleMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.OnSettleRequest, dev.turnwire.v1.OnSettleResponse> getOnSettleMethod;
    if ((getOnSettleMethod = HookServiceGrpc.getOnSettleMethod) == null) {
      synchronized (HookServiceGrpc.class) {
        if ((getOnSettleMethod = HookServiceGrpc.getOnSettleMethod) == null) {
          HookServiceGrpc.getOnSettleMethod = getOnSettleMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.OnSettleRequest, dev.turnwire.v1.OnSettleResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "OnSettle"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.OnSettleRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.OnSettleResponse.getDefaultInstance()))
              .setSchemaDescriptor(new HookServiceMethodDescriptorSupplier("OnSettle"))
              .build();
        }
      }
    }
    return getOnSettleMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static HookServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<HookServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<HookServiceStub>() {
        @java.lang.Override
        public HookServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new HookServiceStub(channel, callOptions);
        }
      };
    return HookServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static HookServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<HookServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<HookServiceBlockingV2Stub>() {
        @java.lang.Override
        public HookServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new HookServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return HookServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static HookServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<HookServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<HookServiceBlockingStub>() {
        @java.lang.Override
        public HookServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new HookServiceBlockingStub(channel, callOptions);
        }
      };
    return HookServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static HookServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<HookServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<HookServiceFutureStub>() {
        @java.lang.Override
        public HookServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new HookServiceFutureStub(channel, callOptions);
        }
      };
    return HookServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Implemented by an app that wants to know what runs do.
   * Answering OK acknowledges. Every other status, and no answer within the
   * deadline, make the server tell the same again: at once a few times, then in
   * growing intervals, and after a restart. UNIMPLEMENTED is no exception.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Tells events of one run, in their order. Told at least once: a sequence that
     * the app knows already is the same event. Different runs are told side by
     * side, and of one run there is one call at a time.
     * </pre>
     */
    default void onEvents(dev.turnwire.v1.OnEventsRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.OnEventsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getOnEventsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Tells that a run has ended, after its events; before them only if the app
     * does not take those for minutes. Told at least once, with the same
     * delivery_id each time: an app that keeps the ids it has taken, in the
     * transaction in which it acts on them, acts exactly once.
     * </pre>
     */
    default void onSettle(dev.turnwire.v1.OnSettleRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.OnSettleResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getOnSettleMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service HookService.
   * <pre>
   * Implemented by an app that wants to know what runs do.
   * Answering OK acknowledges. Every other status, and no answer within the
   * deadline, make the server tell the same again: at once a few times, then in
   * growing intervals, and after a restart. UNIMPLEMENTED is no exception.
   * </pre>
   */
  public static abstract class HookServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return HookServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service HookService.
   * <pre>
   * Implemented by an app that wants to know what runs do.
   * Answering OK acknowledges. Every other status, and no answer within the
   * deadline, make the server tell the same again: at once a few times, then in
   * growing intervals, and after a restart. UNIMPLEMENTED is no exception.
   * </pre>
   */
  public static final class HookServiceStub
      extends io.grpc.stub.AbstractAsyncStub<HookServiceStub> {
    private HookServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected HookServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new HookServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Tells events of one run, in their order. Told at least once: a sequence that
     * the app knows already is the same event. Different runs are told side by
     * side, and of one run there is one call at a time.
     * </pre>
     */
    public void onEvents(dev.turnwire.v1.OnEventsRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.OnEventsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getOnEventsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Tells that a run has ended, after its events; before them only if the app
     * does not take those for minutes. Told at least once, with the same
     * delivery_id each time: an app that keeps the ids it has taken, in the
     * transaction in which it acts on them, acts exactly once.
     * </pre>
     */
    public void onSettle(dev.turnwire.v1.OnSettleRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.OnSettleResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getOnSettleMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service HookService.
   * <pre>
   * Implemented by an app that wants to know what runs do.
   * Answering OK acknowledges. Every other status, and no answer within the
   * deadline, make the server tell the same again: at once a few times, then in
   * growing intervals, and after a restart. UNIMPLEMENTED is no exception.
   * </pre>
   */
  public static final class HookServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<HookServiceBlockingV2Stub> {
    private HookServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected HookServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new HookServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Tells events of one run, in their order. Told at least once: a sequence that
     * the app knows already is the same event. Different runs are told side by
     * side, and of one run there is one call at a time.
     * </pre>
     */
    public dev.turnwire.v1.OnEventsResponse onEvents(dev.turnwire.v1.OnEventsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getOnEventsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Tells that a run has ended, after its events; before them only if the app
     * does not take those for minutes. Told at least once, with the same
     * delivery_id each time: an app that keeps the ids it has taken, in the
     * transaction in which it acts on them, acts exactly once.
     * </pre>
     */
    public dev.turnwire.v1.OnSettleResponse onSettle(dev.turnwire.v1.OnSettleRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getOnSettleMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service HookService.
   * <pre>
   * Implemented by an app that wants to know what runs do.
   * Answering OK acknowledges. Every other status, and no answer within the
   * deadline, make the server tell the same again: at once a few times, then in
   * growing intervals, and after a restart. UNIMPLEMENTED is no exception.
   * </pre>
   */
  public static final class HookServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<HookServiceBlockingStub> {
    private HookServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected HookServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new HookServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Tells events of one run, in their order. Told at least once: a sequence that
     * the app knows already is the same event. Different runs are told side by
     * side, and of one run there is one call at a time.
     * </pre>
     */
    public dev.turnwire.v1.OnEventsResponse onEvents(dev.turnwire.v1.OnEventsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getOnEventsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Tells that a run has ended, after its events; before them only if the app
     * does not take those for minutes. Told at least once, with the same
     * delivery_id each time: an app that keeps the ids it has taken, in the
     * transaction in which it acts on them, acts exactly once.
     * </pre>
     */
    public dev.turnwire.v1.OnSettleResponse onSettle(dev.turnwire.v1.OnSettleRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getOnSettleMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service HookService.
   * <pre>
   * Implemented by an app that wants to know what runs do.
   * Answering OK acknowledges. Every other status, and no answer within the
   * deadline, make the server tell the same again: at once a few times, then in
   * growing intervals, and after a restart. UNIMPLEMENTED is no exception.
   * </pre>
   */
  public static final class HookServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<HookServiceFutureStub> {
    private HookServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected HookServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new HookServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Tells events of one run, in their order. Told at least once: a sequence that
     * the app knows already is the same event. Different runs are told side by
     * side, and of one run there is one call at a time.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.OnEventsResponse> onEvents(
        dev.turnwire.v1.OnEventsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getOnEventsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Tells that a run has ended, after its events; before them only if the app
     * does not take those for minutes. Told at least once, with the same
     * delivery_id each time: an app that keeps the ids it has taken, in the
     * transaction in which it acts on them, acts exactly once.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.OnSettleResponse> onSettle(
        dev.turnwire.v1.OnSettleRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getOnSettleMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_ON_EVENTS = 0;
  private static final int METHODID_ON_SETTLE = 1;

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
        case METHODID_ON_EVENTS:
          serviceImpl.onEvents((dev.turnwire.v1.OnEventsRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.OnEventsResponse>) responseObserver);
          break;
        case METHODID_ON_SETTLE:
          serviceImpl.onSettle((dev.turnwire.v1.OnSettleRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.OnSettleResponse>) responseObserver);
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
          getOnEventsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.OnEventsRequest,
              dev.turnwire.v1.OnEventsResponse>(
                service, METHODID_ON_EVENTS)))
        .addMethod(
          getOnSettleMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.OnSettleRequest,
              dev.turnwire.v1.OnSettleResponse>(
                service, METHODID_ON_SETTLE)))
        .build();
  }

  private static abstract class HookServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    HookServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.turnwire.v1.HookServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("HookService");
    }
  }

  private static final class HookServiceFileDescriptorSupplier
      extends HookServiceBaseDescriptorSupplier {
    HookServiceFileDescriptorSupplier() {}
  }

  private static final class HookServiceMethodDescriptorSupplier
      extends HookServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    HookServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (HookServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new HookServiceFileDescriptorSupplier())
              .addMethod(getOnEventsMethod())
              .addMethod(getOnSettleMethod())
              .build();
        }
      }
    }
    return result;
  }
}
