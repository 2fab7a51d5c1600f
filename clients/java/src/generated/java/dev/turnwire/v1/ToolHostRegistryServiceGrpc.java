package dev.turnwire.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Registers apps that implement ToolHostService.
 * A registration holds for its lease, on the server that took it, for the
 * tenant of the caller: register again before the lease ends, on every server of
 * a fleet. What a dead app has registered ends by itself.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class ToolHostRegistryServiceGrpc {

  private ToolHostRegistryServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "turnwire.v1.ToolHostRegistryService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.RegisterToolHostRequest,
      dev.turnwire.v1.RegisterToolHostResponse> getRegisterToolHostMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RegisterToolHost",
      requestType = dev.turnwire.v1.RegisterToolHostRequest.class,
      responseType = dev.turnwire.v1.RegisterToolHostResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.RegisterToolHostRequest,
      dev.turnwire.v1.RegisterToolHostResponse> getRegisterToolHostMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.RegisterToolHostRequest, dev.turnwire.v1.RegisterToolHostResponse> getRegisterToolHostMethod;
    if ((getRegisterToolHostMethod = ToolHostRegistryServiceGrpc.getRegisterToolHostMethod) == null) {
      synchronized (ToolHostRegistryServiceGrpc.class) {
        if ((getRegisterToolHostMethod = ToolHostRegistryServiceGrpc.getRegisterToolHostMethod) == null) {
          ToolHostRegistryServiceGrpc.getRegisterToolHostMethod = getRegisterToolHostMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.RegisterToolHostRequest, dev.turnwire.v1.RegisterToolHostResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RegisterToolHost"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.RegisterToolHostRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.RegisterToolHostResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ToolHostRegistryServiceMethodDescriptorSupplier("RegisterToolHost"))
              .build();
        }
      }
    }
    return getRegisterToolHostMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.UnregisterToolHostRequest,
      dev.turnwire.v1.UnregisterToolHostResponse> getUnregisterToolHostMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "UnregisterToolHost",
      requestType = dev.turnwire.v1.UnregisterToolHostRequest.class,
      responseType = dev.turnwire.v1.UnregisterToolHostResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.UnregisterToolHostRequest,
      dev.turnwire.v1.UnregisterToolHostResponse> getUnregisterToolHostMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.UnregisterToolHostRequest, dev.turnwire.v1.UnregisterToolHostResponse> getUnregisterToolHostMethod;
    if ((getUnregisterToolHostMethod = ToolHostRegistryServiceGrpc.getUnregisterToolHostMethod) == null) {
      synchronized (ToolHostRegistryServiceGrpc.class) {
        if ((getUnregisterToolHostMethod = ToolHostRegistryServiceGrpc.getUnregisterToolHostMethod) == null) {
          ToolHostRegistryServiceGrpc.getUnregisterToolHostMethod = getUnregisterToolHostMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.UnregisterToolHostRequest, dev.turnwire.v1.UnregisterToolHostResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "UnregisterToolHost"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.UnregisterToolHostRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.UnregisterToolHostResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ToolHostRegistryServiceMethodDescriptorSupplier("UnregisterToolHost"))
              .build();
        }
      }
    }
    return getUnregisterToolHostMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.ListToolHostsRequest,
      dev.turnwire.v1.ListToolHostsResponse> getListToolHostsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListToolHosts",
      requestType = dev.turnwire.v1.ListToolHostsRequest.class,
      responseType = dev.turnwire.v1.ListToolHostsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.ListToolHostsRequest,
      dev.turnwire.v1.ListToolHostsResponse> getListToolHostsMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.ListToolHostsRequest, dev.turnwire.v1.ListToolHostsResponse> getListToolHostsMethod;
    if ((getListToolHostsMethod = ToolHostRegistryServiceGrpc.getListToolHostsMethod) == null) {
      synchronized (ToolHostRegistryServiceGrpc.class) {
        if ((getListToolHostsMethod = ToolHostRegistryServiceGrpc.getListToolHostsMethod) == null) {
          ToolHostRegistryServiceGrpc.getListToolHostsMethod = getListToolHostsMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.ListToolHostsRequest, dev.turnwire.v1.ListToolHostsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListToolHosts"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ListToolHostsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ListToolHostsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ToolHostRegistryServiceMethodDescriptorSupplier("ListToolHosts"))
              .build();
        }
      }
    }
    return getListToolHostsMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static ToolHostRegistryServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ToolHostRegistryServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ToolHostRegistryServiceStub>() {
        @java.lang.Override
        public ToolHostRegistryServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ToolHostRegistryServiceStub(channel, callOptions);
        }
      };
    return ToolHostRegistryServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static ToolHostRegistryServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ToolHostRegistryServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ToolHostRegistryServiceBlockingV2Stub>() {
        @java.lang.Override
        public ToolHostRegistryServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ToolHostRegistryServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return ToolHostRegistryServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static ToolHostRegistryServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ToolHostRegistryServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ToolHostRegistryServiceBlockingStub>() {
        @java.lang.Override
        public ToolHostRegistryServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ToolHostRegistryServiceBlockingStub(channel, callOptions);
        }
      };
    return ToolHostRegistryServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static ToolHostRegistryServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ToolHostRegistryServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ToolHostRegistryServiceFutureStub>() {
        @java.lang.Override
        public ToolHostRegistryServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ToolHostRegistryServiceFutureStub(channel, callOptions);
        }
      };
    return ToolHostRegistryServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Registers apps that implement ToolHostService.
   * A registration holds for its lease, on the server that took it, for the
   * tenant of the caller: register again before the lease ends, on every server of
   * a fleet. What a dead app has registered ends by itself.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Registers an app, or renews its lease. The server connects to the address,
     * which must be of this machine or be allowed by the deployment; waits two
     * seconds at most for the first answer, and goes on trying after that. The
     * tools are there from the next iteration of every run on.
     * </pre>
     */
    default void registerToolHost(dev.turnwire.v1.RegisterToolHostRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.RegisterToolHostResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRegisterToolHostMethod(), responseObserver);
    }

    /**
     * <pre>
     * Ends a registration before its lease does. Calls in progress are ended.
     * </pre>
     */
    default void unregisterToolHost(dev.turnwire.v1.UnregisterToolHostRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.UnregisterToolHostResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getUnregisterToolHostMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the apps of the configuration and those that callers of this tenant
     * have registered.
     * </pre>
     */
    default void listToolHosts(dev.turnwire.v1.ListToolHostsRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ListToolHostsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListToolHostsMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service ToolHostRegistryService.
   * <pre>
   * Registers apps that implement ToolHostService.
   * A registration holds for its lease, on the server that took it, for the
   * tenant of the caller: register again before the lease ends, on every server of
   * a fleet. What a dead app has registered ends by itself.
   * </pre>
   */
  public static abstract class ToolHostRegistryServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return ToolHostRegistryServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service ToolHostRegistryService.
   * <pre>
   * Registers apps that implement ToolHostService.
   * A registration holds for its lease, on the server that took it, for the
   * tenant of the caller: register again before the lease ends, on every server of
   * a fleet. What a dead app has registered ends by itself.
   * </pre>
   */
  public static final class ToolHostRegistryServiceStub
      extends io.grpc.stub.AbstractAsyncStub<ToolHostRegistryServiceStub> {
    private ToolHostRegistryServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ToolHostRegistryServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ToolHostRegistryServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Registers an app, or renews its lease. The server connects to the address,
     * which must be of this machine or be allowed by the deployment; waits two
     * seconds at most for the first answer, and goes on trying after that. The
     * tools are there from the next iteration of every run on.
     * </pre>
     */
    public void registerToolHost(dev.turnwire.v1.RegisterToolHostRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.RegisterToolHostResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRegisterToolHostMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Ends a registration before its lease does. Calls in progress are ended.
     * </pre>
     */
    public void unregisterToolHost(dev.turnwire.v1.UnregisterToolHostRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.UnregisterToolHostResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getUnregisterToolHostMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the apps of the configuration and those that callers of this tenant
     * have registered.
     * </pre>
     */
    public void listToolHosts(dev.turnwire.v1.ListToolHostsRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ListToolHostsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListToolHostsMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service ToolHostRegistryService.
   * <pre>
   * Registers apps that implement ToolHostService.
   * A registration holds for its lease, on the server that took it, for the
   * tenant of the caller: register again before the lease ends, on every server of
   * a fleet. What a dead app has registered ends by itself.
   * </pre>
   */
  public static final class ToolHostRegistryServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<ToolHostRegistryServiceBlockingV2Stub> {
    private ToolHostRegistryServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ToolHostRegistryServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ToolHostRegistryServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Registers an app, or renews its lease. The server connects to the address,
     * which must be of this machine or be allowed by the deployment; waits two
     * seconds at most for the first answer, and goes on trying after that. The
     * tools are there from the next iteration of every run on.
     * </pre>
     */
    public dev.turnwire.v1.RegisterToolHostResponse registerToolHost(dev.turnwire.v1.RegisterToolHostRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRegisterToolHostMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ends a registration before its lease does. Calls in progress are ended.
     * </pre>
     */
    public dev.turnwire.v1.UnregisterToolHostResponse unregisterToolHost(dev.turnwire.v1.UnregisterToolHostRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getUnregisterToolHostMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the apps of the configuration and those that callers of this tenant
     * have registered.
     * </pre>
     */
    public dev.turnwire.v1.ListToolHostsResponse listToolHosts(dev.turnwire.v1.ListToolHostsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListToolHostsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service ToolHostRegistryService.
   * <pre>
   * Registers apps that implement ToolHostService.
   * A registration holds for its lease, on the server that took it, for the
   * tenant of the caller: register again before the lease ends, on every server of
   * a fleet. What a dead app has registered ends by itself.
   * </pre>
   */
  public static final class ToolHostRegistryServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<ToolHostRegistryServiceBlockingStub> {
    private ToolHostRegistryServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ToolHostRegistryServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ToolHostRegistryServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Registers an app, or renews its lease. The server connects to the address,
     * which must be of this machine or be allowed by the deployment; waits two
     * seconds at most for the first answer, and goes on trying after that. The
     * tools are there from the next iteration of every run on.
     * </pre>
     */
    public dev.turnwire.v1.RegisterToolHostResponse registerToolHost(dev.turnwire.v1.RegisterToolHostRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRegisterToolHostMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Ends a registration before its lease does. Calls in progress are ended.
     * </pre>
     */
    public dev.turnwire.v1.UnregisterToolHostResponse unregisterToolHost(dev.turnwire.v1.UnregisterToolHostRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getUnregisterToolHostMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the apps of the configuration and those that callers of this tenant
     * have registered.
     * </pre>
     */
    public dev.turnwire.v1.ListToolHostsResponse listToolHosts(dev.turnwire.v1.ListToolHostsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListToolHostsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service ToolHostRegistryService.
   * <pre>
   * Registers apps that implement ToolHostService.
   * A registration holds for its lease, on the server that took it, for the
   * tenant of the caller: register again before the lease ends, on every server of
   * a fleet. What a dead app has registered ends by itself.
   * </pre>
   */
  public static final class ToolHostRegistryServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<ToolHostRegistryServiceFutureStub> {
    private ToolHostRegistryServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ToolHostRegistryServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ToolHostRegistryServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Registers an app, or renews its lease. The server connects to the address,
     * which must be of this machine or be allowed by the deployment; waits two
     * seconds at most for the first answer, and goes on trying after that. The
     * tools are there from the next iteration of every run on.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.RegisterToolHostResponse> registerToolHost(
        dev.turnwire.v1.RegisterToolHostRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRegisterToolHostMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Ends a registration before its lease does. Calls in progress are ended.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.UnregisterToolHostResponse> unregisterToolHost(
        dev.turnwire.v1.UnregisterToolHostRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getUnregisterToolHostMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the apps of the configuration and those that callers of this tenant
     * have registered.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.ListToolHostsResponse> listToolHosts(
        dev.turnwire.v1.ListToolHostsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListToolHostsMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_REGISTER_TOOL_HOST = 0;
  private static final int METHODID_UNREGISTER_TOOL_HOST = 1;
  private static final int METHODID_LIST_TOOL_HOSTS = 2;

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
        case METHODID_REGISTER_TOOL_HOST:
          serviceImpl.registerToolHost((dev.turnwire.v1.RegisterToolHostRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.RegisterToolHostResponse>) responseObserver);
          break;
        case METHODID_UNREGISTER_TOOL_HOST:
          serviceImpl.unregisterToolHost((dev.turnwire.v1.UnregisterToolHostRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.UnregisterToolHostResponse>) responseObserver);
          break;
        case METHODID_LIST_TOOL_HOSTS:
          serviceImpl.listToolHosts((dev.turnwire.v1.ListToolHostsRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.ListToolHostsResponse>) responseObserver);
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
          getRegisterToolHostMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.RegisterToolHostRequest,
              dev.turnwire.v1.RegisterToolHostResponse>(
                service, METHODID_REGISTER_TOOL_HOST)))
        .addMethod(
          getUnregisterToolHostMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.UnregisterToolHostRequest,
              dev.turnwire.v1.UnregisterToolHostResponse>(
                service, METHODID_UNREGISTER_TOOL_HOST)))
        .addMethod(
          getListToolHostsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.ListToolHostsRequest,
              dev.turnwire.v1.ListToolHostsResponse>(
                service, METHODID_LIST_TOOL_HOSTS)))
        .build();
  }

  private static abstract class ToolHostRegistryServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    ToolHostRegistryServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.turnwire.v1.ToolHostRegistryServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("ToolHostRegistryService");
    }
  }

  private static final class ToolHostRegistryServiceFileDescriptorSupplier
      extends ToolHostRegistryServiceBaseDescriptorSupplier {
    ToolHostRegistryServiceFileDescriptorSupplier() {}
  }

  private static final class ToolHostRegistryServiceMethodDescriptorSupplier
      extends ToolHostRegistryServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    ToolHostRegistryServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (ToolHostRegistryServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new ToolHostRegistryServiceFileDescriptorSupplier())
              .addMethod(getRegisterToolHostMethod())
              .addMethod(getUnregisterToolHostMethod())
              .addMethod(getListToolHostsMethod())
              .build();
        }
      }
    }
    return result;
  }
}
