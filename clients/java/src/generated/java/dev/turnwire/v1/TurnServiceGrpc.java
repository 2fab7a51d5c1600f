package dev.turnwire.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Runs agent turns and lets a caller follow, steer and stop them.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class TurnServiceGrpc {

  private TurnServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "turnwire.v1.TurnService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.RunTurnRequest,
      dev.turnwire.v1.RunTurnResponse> getRunTurnMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RunTurn",
      requestType = dev.turnwire.v1.RunTurnRequest.class,
      responseType = dev.turnwire.v1.RunTurnResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.RunTurnRequest,
      dev.turnwire.v1.RunTurnResponse> getRunTurnMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.RunTurnRequest, dev.turnwire.v1.RunTurnResponse> getRunTurnMethod;
    if ((getRunTurnMethod = TurnServiceGrpc.getRunTurnMethod) == null) {
      synchronized (TurnServiceGrpc.class) {
        if ((getRunTurnMethod = TurnServiceGrpc.getRunTurnMethod) == null) {
          TurnServiceGrpc.getRunTurnMethod = getRunTurnMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.RunTurnRequest, dev.turnwire.v1.RunTurnResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RunTurn"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.RunTurnRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.RunTurnResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TurnServiceMethodDescriptorSupplier("RunTurn"))
              .build();
        }
      }
    }
    return getRunTurnMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.StartTurnRequest,
      dev.turnwire.v1.StartTurnResponse> getStartTurnMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "StartTurn",
      requestType = dev.turnwire.v1.StartTurnRequest.class,
      responseType = dev.turnwire.v1.StartTurnResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.StartTurnRequest,
      dev.turnwire.v1.StartTurnResponse> getStartTurnMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.StartTurnRequest, dev.turnwire.v1.StartTurnResponse> getStartTurnMethod;
    if ((getStartTurnMethod = TurnServiceGrpc.getStartTurnMethod) == null) {
      synchronized (TurnServiceGrpc.class) {
        if ((getStartTurnMethod = TurnServiceGrpc.getStartTurnMethod) == null) {
          TurnServiceGrpc.getStartTurnMethod = getStartTurnMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.StartTurnRequest, dev.turnwire.v1.StartTurnResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "StartTurn"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.StartTurnRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.StartTurnResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TurnServiceMethodDescriptorSupplier("StartTurn"))
              .build();
        }
      }
    }
    return getStartTurnMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.WatchRunRequest,
      dev.turnwire.v1.WatchRunResponse> getWatchRunMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchRun",
      requestType = dev.turnwire.v1.WatchRunRequest.class,
      responseType = dev.turnwire.v1.WatchRunResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.WatchRunRequest,
      dev.turnwire.v1.WatchRunResponse> getWatchRunMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.WatchRunRequest, dev.turnwire.v1.WatchRunResponse> getWatchRunMethod;
    if ((getWatchRunMethod = TurnServiceGrpc.getWatchRunMethod) == null) {
      synchronized (TurnServiceGrpc.class) {
        if ((getWatchRunMethod = TurnServiceGrpc.getWatchRunMethod) == null) {
          TurnServiceGrpc.getWatchRunMethod = getWatchRunMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.WatchRunRequest, dev.turnwire.v1.WatchRunResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchRun"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.WatchRunRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.WatchRunResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TurnServiceMethodDescriptorSupplier("WatchRun"))
              .build();
        }
      }
    }
    return getWatchRunMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.GetRunRequest,
      dev.turnwire.v1.GetRunResponse> getGetRunMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetRun",
      requestType = dev.turnwire.v1.GetRunRequest.class,
      responseType = dev.turnwire.v1.GetRunResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.GetRunRequest,
      dev.turnwire.v1.GetRunResponse> getGetRunMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.GetRunRequest, dev.turnwire.v1.GetRunResponse> getGetRunMethod;
    if ((getGetRunMethod = TurnServiceGrpc.getGetRunMethod) == null) {
      synchronized (TurnServiceGrpc.class) {
        if ((getGetRunMethod = TurnServiceGrpc.getGetRunMethod) == null) {
          TurnServiceGrpc.getGetRunMethod = getGetRunMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.GetRunRequest, dev.turnwire.v1.GetRunResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetRun"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.GetRunRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.GetRunResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TurnServiceMethodDescriptorSupplier("GetRun"))
              .build();
        }
      }
    }
    return getGetRunMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.ListRunsRequest,
      dev.turnwire.v1.ListRunsResponse> getListRunsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListRuns",
      requestType = dev.turnwire.v1.ListRunsRequest.class,
      responseType = dev.turnwire.v1.ListRunsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.ListRunsRequest,
      dev.turnwire.v1.ListRunsResponse> getListRunsMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.ListRunsRequest, dev.turnwire.v1.ListRunsResponse> getListRunsMethod;
    if ((getListRunsMethod = TurnServiceGrpc.getListRunsMethod) == null) {
      synchronized (TurnServiceGrpc.class) {
        if ((getListRunsMethod = TurnServiceGrpc.getListRunsMethod) == null) {
          TurnServiceGrpc.getListRunsMethod = getListRunsMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.ListRunsRequest, dev.turnwire.v1.ListRunsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListRuns"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ListRunsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ListRunsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TurnServiceMethodDescriptorSupplier("ListRuns"))
              .build();
        }
      }
    }
    return getListRunsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.CancelRunRequest,
      dev.turnwire.v1.CancelRunResponse> getCancelRunMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CancelRun",
      requestType = dev.turnwire.v1.CancelRunRequest.class,
      responseType = dev.turnwire.v1.CancelRunResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.CancelRunRequest,
      dev.turnwire.v1.CancelRunResponse> getCancelRunMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.CancelRunRequest, dev.turnwire.v1.CancelRunResponse> getCancelRunMethod;
    if ((getCancelRunMethod = TurnServiceGrpc.getCancelRunMethod) == null) {
      synchronized (TurnServiceGrpc.class) {
        if ((getCancelRunMethod = TurnServiceGrpc.getCancelRunMethod) == null) {
          TurnServiceGrpc.getCancelRunMethod = getCancelRunMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.CancelRunRequest, dev.turnwire.v1.CancelRunResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CancelRun"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.CancelRunRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.CancelRunResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TurnServiceMethodDescriptorSupplier("CancelRun"))
              .build();
        }
      }
    }
    return getCancelRunMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.ListApprovalsRequest,
      dev.turnwire.v1.ListApprovalsResponse> getListApprovalsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListApprovals",
      requestType = dev.turnwire.v1.ListApprovalsRequest.class,
      responseType = dev.turnwire.v1.ListApprovalsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.ListApprovalsRequest,
      dev.turnwire.v1.ListApprovalsResponse> getListApprovalsMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.ListApprovalsRequest, dev.turnwire.v1.ListApprovalsResponse> getListApprovalsMethod;
    if ((getListApprovalsMethod = TurnServiceGrpc.getListApprovalsMethod) == null) {
      synchronized (TurnServiceGrpc.class) {
        if ((getListApprovalsMethod = TurnServiceGrpc.getListApprovalsMethod) == null) {
          TurnServiceGrpc.getListApprovalsMethod = getListApprovalsMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.ListApprovalsRequest, dev.turnwire.v1.ListApprovalsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListApprovals"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ListApprovalsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ListApprovalsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TurnServiceMethodDescriptorSupplier("ListApprovals"))
              .build();
        }
      }
    }
    return getListApprovalsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.ResolveApprovalRequest,
      dev.turnwire.v1.ResolveApprovalResponse> getResolveApprovalMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResolveApproval",
      requestType = dev.turnwire.v1.ResolveApprovalRequest.class,
      responseType = dev.turnwire.v1.ResolveApprovalResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.ResolveApprovalRequest,
      dev.turnwire.v1.ResolveApprovalResponse> getResolveApprovalMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.ResolveApprovalRequest, dev.turnwire.v1.ResolveApprovalResponse> getResolveApprovalMethod;
    if ((getResolveApprovalMethod = TurnServiceGrpc.getResolveApprovalMethod) == null) {
      synchronized (TurnServiceGrpc.class) {
        if ((getResolveApprovalMethod = TurnServiceGrpc.getResolveApprovalMethod) == null) {
          TurnServiceGrpc.getResolveApprovalMethod = getResolveApprovalMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.ResolveApprovalRequest, dev.turnwire.v1.ResolveApprovalResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResolveApproval"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ResolveApprovalRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ResolveApprovalResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TurnServiceMethodDescriptorSupplier("ResolveApproval"))
              .build();
        }
      }
    }
    return getResolveApprovalMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.SubmitToolResultsRequest,
      dev.turnwire.v1.SubmitToolResultsResponse> getSubmitToolResultsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SubmitToolResults",
      requestType = dev.turnwire.v1.SubmitToolResultsRequest.class,
      responseType = dev.turnwire.v1.SubmitToolResultsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.SubmitToolResultsRequest,
      dev.turnwire.v1.SubmitToolResultsResponse> getSubmitToolResultsMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.SubmitToolResultsRequest, dev.turnwire.v1.SubmitToolResultsResponse> getSubmitToolResultsMethod;
    if ((getSubmitToolResultsMethod = TurnServiceGrpc.getSubmitToolResultsMethod) == null) {
      synchronized (TurnServiceGrpc.class) {
        if ((getSubmitToolResultsMethod = TurnServiceGrpc.getSubmitToolResultsMethod) == null) {
          TurnServiceGrpc.getSubmitToolResultsMethod = getSubmitToolResultsMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.SubmitToolResultsRequest, dev.turnwire.v1.SubmitToolResultsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SubmitToolResults"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.SubmitToolResultsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.SubmitToolResultsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TurnServiceMethodDescriptorSupplier("SubmitToolResults"))
              .build();
        }
      }
    }
    return getSubmitToolResultsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.AppendInputRequest,
      dev.turnwire.v1.AppendInputResponse> getAppendInputMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "AppendInput",
      requestType = dev.turnwire.v1.AppendInputRequest.class,
      responseType = dev.turnwire.v1.AppendInputResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.AppendInputRequest,
      dev.turnwire.v1.AppendInputResponse> getAppendInputMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.AppendInputRequest, dev.turnwire.v1.AppendInputResponse> getAppendInputMethod;
    if ((getAppendInputMethod = TurnServiceGrpc.getAppendInputMethod) == null) {
      synchronized (TurnServiceGrpc.class) {
        if ((getAppendInputMethod = TurnServiceGrpc.getAppendInputMethod) == null) {
          TurnServiceGrpc.getAppendInputMethod = getAppendInputMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.AppendInputRequest, dev.turnwire.v1.AppendInputResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "AppendInput"))
              .setIdempotent(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.AppendInputRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.AppendInputResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TurnServiceMethodDescriptorSupplier("AppendInput"))
              .build();
        }
      }
    }
    return getAppendInputMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.ResolvePolicyRequest,
      dev.turnwire.v1.ResolvePolicyResponse> getResolvePolicyMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ResolvePolicy",
      requestType = dev.turnwire.v1.ResolvePolicyRequest.class,
      responseType = dev.turnwire.v1.ResolvePolicyResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.ResolvePolicyRequest,
      dev.turnwire.v1.ResolvePolicyResponse> getResolvePolicyMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.ResolvePolicyRequest, dev.turnwire.v1.ResolvePolicyResponse> getResolvePolicyMethod;
    if ((getResolvePolicyMethod = TurnServiceGrpc.getResolvePolicyMethod) == null) {
      synchronized (TurnServiceGrpc.class) {
        if ((getResolvePolicyMethod = TurnServiceGrpc.getResolvePolicyMethod) == null) {
          TurnServiceGrpc.getResolvePolicyMethod = getResolvePolicyMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.ResolvePolicyRequest, dev.turnwire.v1.ResolvePolicyResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ResolvePolicy"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ResolvePolicyRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ResolvePolicyResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TurnServiceMethodDescriptorSupplier("ResolvePolicy"))
              .build();
        }
      }
    }
    return getResolvePolicyMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.CountTokensRequest,
      dev.turnwire.v1.CountTokensResponse> getCountTokensMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CountTokens",
      requestType = dev.turnwire.v1.CountTokensRequest.class,
      responseType = dev.turnwire.v1.CountTokensResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.CountTokensRequest,
      dev.turnwire.v1.CountTokensResponse> getCountTokensMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.CountTokensRequest, dev.turnwire.v1.CountTokensResponse> getCountTokensMethod;
    if ((getCountTokensMethod = TurnServiceGrpc.getCountTokensMethod) == null) {
      synchronized (TurnServiceGrpc.class) {
        if ((getCountTokensMethod = TurnServiceGrpc.getCountTokensMethod) == null) {
          TurnServiceGrpc.getCountTokensMethod = getCountTokensMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.CountTokensRequest, dev.turnwire.v1.CountTokensResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CountTokens"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.CountTokensRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.CountTokensResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TurnServiceMethodDescriptorSupplier("CountTokens"))
              .build();
        }
      }
    }
    return getCountTokensMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.turnwire.v1.ListToolsRequest,
      dev.turnwire.v1.ListToolsResponse> getListToolsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListTools",
      requestType = dev.turnwire.v1.ListToolsRequest.class,
      responseType = dev.turnwire.v1.ListToolsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.turnwire.v1.ListToolsRequest,
      dev.turnwire.v1.ListToolsResponse> getListToolsMethod() {
    io.grpc.MethodDescriptor<dev.turnwire.v1.ListToolsRequest, dev.turnwire.v1.ListToolsResponse> getListToolsMethod;
    if ((getListToolsMethod = TurnServiceGrpc.getListToolsMethod) == null) {
      synchronized (TurnServiceGrpc.class) {
        if ((getListToolsMethod = TurnServiceGrpc.getListToolsMethod) == null) {
          TurnServiceGrpc.getListToolsMethod = getListToolsMethod =
              io.grpc.MethodDescriptor.<dev.turnwire.v1.ListToolsRequest, dev.turnwire.v1.ListToolsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListTools"))
              .setSafe(true)
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ListToolsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.turnwire.v1.ListToolsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new TurnServiceMethodDescriptorSupplier("ListTools"))
              .build();
        }
      }
    }
    return getListToolsMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static TurnServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TurnServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TurnServiceStub>() {
        @java.lang.Override
        public TurnServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TurnServiceStub(channel, callOptions);
        }
      };
    return TurnServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static TurnServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TurnServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TurnServiceBlockingV2Stub>() {
        @java.lang.Override
        public TurnServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TurnServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return TurnServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static TurnServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TurnServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TurnServiceBlockingStub>() {
        @java.lang.Override
        public TurnServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TurnServiceBlockingStub(channel, callOptions);
        }
      };
    return TurnServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static TurnServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<TurnServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<TurnServiceFutureStub>() {
        @java.lang.Override
        public TurnServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new TurnServiceFutureStub(channel, callOptions);
        }
      };
    return TurnServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Runs agent turns and lets a caller follow, steer and stop them.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Starts one agent turn and streams its events until the run settles.
     * Idempotent on `request_id`: sending the same turn again attaches to the
     * run that exists and replays its events after the cursor.
     * The stream ends with OK after RunFinished, or after RunWaiting when
     * `on_wait` is ON_WAIT_CLOSE. Any other end means that the stream was cut and
     * the run may go on: attach again with WatchRun. The caller's deadline is a
     * limit of the run, unless `on_disconnect` lets the run go on.
     * </pre>
     */
    default void runTurn(dev.turnwire.v1.RunTurnRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.RunTurnResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRunTurnMethod(), responseObserver);
    }

    /**
     * <pre>
     * Starts one agent turn and returns its ids at once. The run goes on without
     * a stream; follow it with WatchRun or read it with GetRun.
     * Idempotent on `request_id`.
     * </pre>
     */
    default void startTurn(dev.turnwire.v1.StartTurnRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.StartTurnResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getStartTurnMethod(), responseObserver);
    }

    /**
     * <pre>
     * Attaches to a run, settled or not, and streams its events after a cursor.
     * Any number of watchers may be attached; none of them owns the run.
     * OUT_OF_RANGE (EVENTS_EXPIRED) when the events asked for are no longer
     * stored; the metadata holds `earliest_sequence`.
     * </pre>
     */
    default void watchRun(dev.turnwire.v1.WatchRunRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.WatchRunResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchRunMethod(), responseObserver);
    }

    /**
     * <pre>
     * Reads a run without streaming, with its final message when it has settled.
     * </pre>
     */
    default void getRun(dev.turnwire.v1.GetRunRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.GetRunResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetRunMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the runs that the caller may see, newest first.
     * </pre>
     */
    default void listRuns(dev.turnwire.v1.ListRunsRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ListRunsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListRunsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Asks a run to stop. Best effort and idempotent: a settled run is returned
     * as it is. Work that tools have already committed stays committed.
     * </pre>
     */
    default void cancelRun(dev.turnwire.v1.CancelRunRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.CancelRunResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCancelRunMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists approvals, oldest first; those of other callers' sessions for
     * operators only.
     * </pre>
     */
    default void listApprovals(dev.turnwire.v1.ListApprovalsRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ListApprovalsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListApprovalsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Answers one pending approval: once, always, or reject. ALWAYS also resolves
     * the session's other pending approvals that its patterns now allow, and
     * REJECT rejects all of them; each gets its own ApprovalResolved event.
     * Idempotent for the same decision. FAILED_PRECONDITION
     * (APPROVAL_ALREADY_RESOLVED) for a different one.
     * </pre>
     */
    default void resolveApproval(dev.turnwire.v1.ResolveApprovalRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ResolveApprovalResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResolveApprovalMethod(), responseObserver);
    }

    /**
     * <pre>
     * Hands in results of tools that the caller executes. Results may come one by
     * one and in any order; the run goes on when none is missing.
     * FAILED_PRECONDITION (RUN_SETTLED) when the run has ended.
     * </pre>
     */
    default void submitToolResults(dev.turnwire.v1.SubmitToolResultsRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.SubmitToolResultsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSubmitToolResultsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Adds input to a run in progress: an attachment that has become ready, or a
     * word from the user. The model sees it in the next iteration of this turn,
     * never between a call and its result.
     * FAILED_PRECONDITION (RUN_SETTLED) when there will be no next iteration.
     * </pre>
     */
    default void appendInput(dev.turnwire.v1.AppendInputRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.AppendInputResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getAppendInputMethod(), responseObserver);
    }

    /**
     * <pre>
     * Computes the policy that a run would get, without running anything.
     * </pre>
     */
    default void resolvePolicy(dev.turnwire.v1.ResolvePolicyRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ResolvePolicyResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getResolvePolicyMethod(), responseObserver);
    }

    /**
     * <pre>
     * Counts the input tokens of the first model call that this turn would make,
     * with its instructions, tools and history, without running anything. The
     * provider counts where it can; otherwise the answer is an estimate and says
     * so.
     * </pre>
     */
    default void countTokens(dev.turnwire.v1.CountTokensRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.CountTokensResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCountTokensMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists the tools a run would see: the registry as seen by this caller.
     * </pre>
     */
    default void listTools(dev.turnwire.v1.ListToolsRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ListToolsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListToolsMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service TurnService.
   * <pre>
   * Runs agent turns and lets a caller follow, steer and stop them.
   * </pre>
   */
  public static abstract class TurnServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return TurnServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service TurnService.
   * <pre>
   * Runs agent turns and lets a caller follow, steer and stop them.
   * </pre>
   */
  public static final class TurnServiceStub
      extends io.grpc.stub.AbstractAsyncStub<TurnServiceStub> {
    private TurnServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TurnServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TurnServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Starts one agent turn and streams its events until the run settles.
     * Idempotent on `request_id`: sending the same turn again attaches to the
     * run that exists and replays its events after the cursor.
     * The stream ends with OK after RunFinished, or after RunWaiting when
     * `on_wait` is ON_WAIT_CLOSE. Any other end means that the stream was cut and
     * the run may go on: attach again with WatchRun. The caller's deadline is a
     * limit of the run, unless `on_disconnect` lets the run go on.
     * </pre>
     */
    public void runTurn(dev.turnwire.v1.RunTurnRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.RunTurnResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getRunTurnMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Starts one agent turn and returns its ids at once. The run goes on without
     * a stream; follow it with WatchRun or read it with GetRun.
     * Idempotent on `request_id`.
     * </pre>
     */
    public void startTurn(dev.turnwire.v1.StartTurnRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.StartTurnResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getStartTurnMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Attaches to a run, settled or not, and streams its events after a cursor.
     * Any number of watchers may be attached; none of them owns the run.
     * OUT_OF_RANGE (EVENTS_EXPIRED) when the events asked for are no longer
     * stored; the metadata holds `earliest_sequence`.
     * </pre>
     */
    public void watchRun(dev.turnwire.v1.WatchRunRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.WatchRunResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchRunMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Reads a run without streaming, with its final message when it has settled.
     * </pre>
     */
    public void getRun(dev.turnwire.v1.GetRunRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.GetRunResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetRunMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the runs that the caller may see, newest first.
     * </pre>
     */
    public void listRuns(dev.turnwire.v1.ListRunsRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ListRunsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListRunsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Asks a run to stop. Best effort and idempotent: a settled run is returned
     * as it is. Work that tools have already committed stays committed.
     * </pre>
     */
    public void cancelRun(dev.turnwire.v1.CancelRunRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.CancelRunResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCancelRunMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists approvals, oldest first; those of other callers' sessions for
     * operators only.
     * </pre>
     */
    public void listApprovals(dev.turnwire.v1.ListApprovalsRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ListApprovalsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListApprovalsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Answers one pending approval: once, always, or reject. ALWAYS also resolves
     * the session's other pending approvals that its patterns now allow, and
     * REJECT rejects all of them; each gets its own ApprovalResolved event.
     * Idempotent for the same decision. FAILED_PRECONDITION
     * (APPROVAL_ALREADY_RESOLVED) for a different one.
     * </pre>
     */
    public void resolveApproval(dev.turnwire.v1.ResolveApprovalRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ResolveApprovalResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResolveApprovalMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Hands in results of tools that the caller executes. Results may come one by
     * one and in any order; the run goes on when none is missing.
     * FAILED_PRECONDITION (RUN_SETTLED) when the run has ended.
     * </pre>
     */
    public void submitToolResults(dev.turnwire.v1.SubmitToolResultsRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.SubmitToolResultsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSubmitToolResultsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Adds input to a run in progress: an attachment that has become ready, or a
     * word from the user. The model sees it in the next iteration of this turn,
     * never between a call and its result.
     * FAILED_PRECONDITION (RUN_SETTLED) when there will be no next iteration.
     * </pre>
     */
    public void appendInput(dev.turnwire.v1.AppendInputRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.AppendInputResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getAppendInputMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Computes the policy that a run would get, without running anything.
     * </pre>
     */
    public void resolvePolicy(dev.turnwire.v1.ResolvePolicyRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ResolvePolicyResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getResolvePolicyMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Counts the input tokens of the first model call that this turn would make,
     * with its instructions, tools and history, without running anything. The
     * provider counts where it can; otherwise the answer is an estimate and says
     * so.
     * </pre>
     */
    public void countTokens(dev.turnwire.v1.CountTokensRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.CountTokensResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCountTokensMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists the tools a run would see: the registry as seen by this caller.
     * </pre>
     */
    public void listTools(dev.turnwire.v1.ListToolsRequest request,
        io.grpc.stub.StreamObserver<dev.turnwire.v1.ListToolsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListToolsMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service TurnService.
   * <pre>
   * Runs agent turns and lets a caller follow, steer and stop them.
   * </pre>
   */
  public static final class TurnServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<TurnServiceBlockingV2Stub> {
    private TurnServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TurnServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TurnServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Starts one agent turn and streams its events until the run settles.
     * Idempotent on `request_id`: sending the same turn again attaches to the
     * run that exists and replays its events after the cursor.
     * The stream ends with OK after RunFinished, or after RunWaiting when
     * `on_wait` is ON_WAIT_CLOSE. Any other end means that the stream was cut and
     * the run may go on: attach again with WatchRun. The caller's deadline is a
     * limit of the run, unless `on_disconnect` lets the run go on.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, dev.turnwire.v1.RunTurnResponse>
        runTurn(dev.turnwire.v1.RunTurnRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getRunTurnMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Starts one agent turn and returns its ids at once. The run goes on without
     * a stream; follow it with WatchRun or read it with GetRun.
     * Idempotent on `request_id`.
     * </pre>
     */
    public dev.turnwire.v1.StartTurnResponse startTurn(dev.turnwire.v1.StartTurnRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getStartTurnMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Attaches to a run, settled or not, and streams its events after a cursor.
     * Any number of watchers may be attached; none of them owns the run.
     * OUT_OF_RANGE (EVENTS_EXPIRED) when the events asked for are no longer
     * stored; the metadata holds `earliest_sequence`.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, dev.turnwire.v1.WatchRunResponse>
        watchRun(dev.turnwire.v1.WatchRunRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchRunMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reads a run without streaming, with its final message when it has settled.
     * </pre>
     */
    public dev.turnwire.v1.GetRunResponse getRun(dev.turnwire.v1.GetRunRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetRunMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the runs that the caller may see, newest first.
     * </pre>
     */
    public dev.turnwire.v1.ListRunsResponse listRuns(dev.turnwire.v1.ListRunsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListRunsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Asks a run to stop. Best effort and idempotent: a settled run is returned
     * as it is. Work that tools have already committed stays committed.
     * </pre>
     */
    public dev.turnwire.v1.CancelRunResponse cancelRun(dev.turnwire.v1.CancelRunRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCancelRunMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists approvals, oldest first; those of other callers' sessions for
     * operators only.
     * </pre>
     */
    public dev.turnwire.v1.ListApprovalsResponse listApprovals(dev.turnwire.v1.ListApprovalsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListApprovalsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Answers one pending approval: once, always, or reject. ALWAYS also resolves
     * the session's other pending approvals that its patterns now allow, and
     * REJECT rejects all of them; each gets its own ApprovalResolved event.
     * Idempotent for the same decision. FAILED_PRECONDITION
     * (APPROVAL_ALREADY_RESOLVED) for a different one.
     * </pre>
     */
    public dev.turnwire.v1.ResolveApprovalResponse resolveApproval(dev.turnwire.v1.ResolveApprovalRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResolveApprovalMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Hands in results of tools that the caller executes. Results may come one by
     * one and in any order; the run goes on when none is missing.
     * FAILED_PRECONDITION (RUN_SETTLED) when the run has ended.
     * </pre>
     */
    public dev.turnwire.v1.SubmitToolResultsResponse submitToolResults(dev.turnwire.v1.SubmitToolResultsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSubmitToolResultsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Adds input to a run in progress: an attachment that has become ready, or a
     * word from the user. The model sees it in the next iteration of this turn,
     * never between a call and its result.
     * FAILED_PRECONDITION (RUN_SETTLED) when there will be no next iteration.
     * </pre>
     */
    public dev.turnwire.v1.AppendInputResponse appendInput(dev.turnwire.v1.AppendInputRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getAppendInputMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Computes the policy that a run would get, without running anything.
     * </pre>
     */
    public dev.turnwire.v1.ResolvePolicyResponse resolvePolicy(dev.turnwire.v1.ResolvePolicyRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getResolvePolicyMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Counts the input tokens of the first model call that this turn would make,
     * with its instructions, tools and history, without running anything. The
     * provider counts where it can; otherwise the answer is an estimate and says
     * so.
     * </pre>
     */
    public dev.turnwire.v1.CountTokensResponse countTokens(dev.turnwire.v1.CountTokensRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCountTokensMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the tools a run would see: the registry as seen by this caller.
     * </pre>
     */
    public dev.turnwire.v1.ListToolsResponse listTools(dev.turnwire.v1.ListToolsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListToolsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service TurnService.
   * <pre>
   * Runs agent turns and lets a caller follow, steer and stop them.
   * </pre>
   */
  public static final class TurnServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<TurnServiceBlockingStub> {
    private TurnServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TurnServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TurnServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Starts one agent turn and streams its events until the run settles.
     * Idempotent on `request_id`: sending the same turn again attaches to the
     * run that exists and replays its events after the cursor.
     * The stream ends with OK after RunFinished, or after RunWaiting when
     * `on_wait` is ON_WAIT_CLOSE. Any other end means that the stream was cut and
     * the run may go on: attach again with WatchRun. The caller's deadline is a
     * limit of the run, unless `on_disconnect` lets the run go on.
     * </pre>
     */
    public java.util.Iterator<dev.turnwire.v1.RunTurnResponse> runTurn(
        dev.turnwire.v1.RunTurnRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getRunTurnMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Starts one agent turn and returns its ids at once. The run goes on without
     * a stream; follow it with WatchRun or read it with GetRun.
     * Idempotent on `request_id`.
     * </pre>
     */
    public dev.turnwire.v1.StartTurnResponse startTurn(dev.turnwire.v1.StartTurnRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getStartTurnMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Attaches to a run, settled or not, and streams its events after a cursor.
     * Any number of watchers may be attached; none of them owns the run.
     * OUT_OF_RANGE (EVENTS_EXPIRED) when the events asked for are no longer
     * stored; the metadata holds `earliest_sequence`.
     * </pre>
     */
    public java.util.Iterator<dev.turnwire.v1.WatchRunResponse> watchRun(
        dev.turnwire.v1.WatchRunRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchRunMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reads a run without streaming, with its final message when it has settled.
     * </pre>
     */
    public dev.turnwire.v1.GetRunResponse getRun(dev.turnwire.v1.GetRunRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetRunMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the runs that the caller may see, newest first.
     * </pre>
     */
    public dev.turnwire.v1.ListRunsResponse listRuns(dev.turnwire.v1.ListRunsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListRunsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Asks a run to stop. Best effort and idempotent: a settled run is returned
     * as it is. Work that tools have already committed stays committed.
     * </pre>
     */
    public dev.turnwire.v1.CancelRunResponse cancelRun(dev.turnwire.v1.CancelRunRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCancelRunMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists approvals, oldest first; those of other callers' sessions for
     * operators only.
     * </pre>
     */
    public dev.turnwire.v1.ListApprovalsResponse listApprovals(dev.turnwire.v1.ListApprovalsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListApprovalsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Answers one pending approval: once, always, or reject. ALWAYS also resolves
     * the session's other pending approvals that its patterns now allow, and
     * REJECT rejects all of them; each gets its own ApprovalResolved event.
     * Idempotent for the same decision. FAILED_PRECONDITION
     * (APPROVAL_ALREADY_RESOLVED) for a different one.
     * </pre>
     */
    public dev.turnwire.v1.ResolveApprovalResponse resolveApproval(dev.turnwire.v1.ResolveApprovalRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResolveApprovalMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Hands in results of tools that the caller executes. Results may come one by
     * one and in any order; the run goes on when none is missing.
     * FAILED_PRECONDITION (RUN_SETTLED) when the run has ended.
     * </pre>
     */
    public dev.turnwire.v1.SubmitToolResultsResponse submitToolResults(dev.turnwire.v1.SubmitToolResultsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSubmitToolResultsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Adds input to a run in progress: an attachment that has become ready, or a
     * word from the user. The model sees it in the next iteration of this turn,
     * never between a call and its result.
     * FAILED_PRECONDITION (RUN_SETTLED) when there will be no next iteration.
     * </pre>
     */
    public dev.turnwire.v1.AppendInputResponse appendInput(dev.turnwire.v1.AppendInputRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getAppendInputMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Computes the policy that a run would get, without running anything.
     * </pre>
     */
    public dev.turnwire.v1.ResolvePolicyResponse resolvePolicy(dev.turnwire.v1.ResolvePolicyRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getResolvePolicyMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Counts the input tokens of the first model call that this turn would make,
     * with its instructions, tools and history, without running anything. The
     * provider counts where it can; otherwise the answer is an estimate and says
     * so.
     * </pre>
     */
    public dev.turnwire.v1.CountTokensResponse countTokens(dev.turnwire.v1.CountTokensRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCountTokensMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists the tools a run would see: the registry as seen by this caller.
     * </pre>
     */
    public dev.turnwire.v1.ListToolsResponse listTools(dev.turnwire.v1.ListToolsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListToolsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service TurnService.
   * <pre>
   * Runs agent turns and lets a caller follow, steer and stop them.
   * </pre>
   */
  public static final class TurnServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<TurnServiceFutureStub> {
    private TurnServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected TurnServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new TurnServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Starts one agent turn and returns its ids at once. The run goes on without
     * a stream; follow it with WatchRun or read it with GetRun.
     * Idempotent on `request_id`.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.StartTurnResponse> startTurn(
        dev.turnwire.v1.StartTurnRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getStartTurnMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Reads a run without streaming, with its final message when it has settled.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.GetRunResponse> getRun(
        dev.turnwire.v1.GetRunRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetRunMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the runs that the caller may see, newest first.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.ListRunsResponse> listRuns(
        dev.turnwire.v1.ListRunsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListRunsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Asks a run to stop. Best effort and idempotent: a settled run is returned
     * as it is. Work that tools have already committed stays committed.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.CancelRunResponse> cancelRun(
        dev.turnwire.v1.CancelRunRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCancelRunMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists approvals, oldest first; those of other callers' sessions for
     * operators only.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.ListApprovalsResponse> listApprovals(
        dev.turnwire.v1.ListApprovalsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListApprovalsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Answers one pending approval: once, always, or reject. ALWAYS also resolves
     * the session's other pending approvals that its patterns now allow, and
     * REJECT rejects all of them; each gets its own ApprovalResolved event.
     * Idempotent for the same decision. FAILED_PRECONDITION
     * (APPROVAL_ALREADY_RESOLVED) for a different one.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.ResolveApprovalResponse> resolveApproval(
        dev.turnwire.v1.ResolveApprovalRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResolveApprovalMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Hands in results of tools that the caller executes. Results may come one by
     * one and in any order; the run goes on when none is missing.
     * FAILED_PRECONDITION (RUN_SETTLED) when the run has ended.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.SubmitToolResultsResponse> submitToolResults(
        dev.turnwire.v1.SubmitToolResultsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSubmitToolResultsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Adds input to a run in progress: an attachment that has become ready, or a
     * word from the user. The model sees it in the next iteration of this turn,
     * never between a call and its result.
     * FAILED_PRECONDITION (RUN_SETTLED) when there will be no next iteration.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.AppendInputResponse> appendInput(
        dev.turnwire.v1.AppendInputRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getAppendInputMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Computes the policy that a run would get, without running anything.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.ResolvePolicyResponse> resolvePolicy(
        dev.turnwire.v1.ResolvePolicyRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getResolvePolicyMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Counts the input tokens of the first model call that this turn would make,
     * with its instructions, tools and history, without running anything. The
     * provider counts where it can; otherwise the answer is an estimate and says
     * so.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.CountTokensResponse> countTokens(
        dev.turnwire.v1.CountTokensRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCountTokensMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists the tools a run would see: the registry as seen by this caller.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.turnwire.v1.ListToolsResponse> listTools(
        dev.turnwire.v1.ListToolsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListToolsMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_RUN_TURN = 0;
  private static final int METHODID_START_TURN = 1;
  private static final int METHODID_WATCH_RUN = 2;
  private static final int METHODID_GET_RUN = 3;
  private static final int METHODID_LIST_RUNS = 4;
  private static final int METHODID_CANCEL_RUN = 5;
  private static final int METHODID_LIST_APPROVALS = 6;
  private static final int METHODID_RESOLVE_APPROVAL = 7;
  private static final int METHODID_SUBMIT_TOOL_RESULTS = 8;
  private static final int METHODID_APPEND_INPUT = 9;
  private static final int METHODID_RESOLVE_POLICY = 10;
  private static final int METHODID_COUNT_TOKENS = 11;
  private static final int METHODID_LIST_TOOLS = 12;

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
        case METHODID_RUN_TURN:
          serviceImpl.runTurn((dev.turnwire.v1.RunTurnRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.RunTurnResponse>) responseObserver);
          break;
        case METHODID_START_TURN:
          serviceImpl.startTurn((dev.turnwire.v1.StartTurnRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.StartTurnResponse>) responseObserver);
          break;
        case METHODID_WATCH_RUN:
          serviceImpl.watchRun((dev.turnwire.v1.WatchRunRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.WatchRunResponse>) responseObserver);
          break;
        case METHODID_GET_RUN:
          serviceImpl.getRun((dev.turnwire.v1.GetRunRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.GetRunResponse>) responseObserver);
          break;
        case METHODID_LIST_RUNS:
          serviceImpl.listRuns((dev.turnwire.v1.ListRunsRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.ListRunsResponse>) responseObserver);
          break;
        case METHODID_CANCEL_RUN:
          serviceImpl.cancelRun((dev.turnwire.v1.CancelRunRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.CancelRunResponse>) responseObserver);
          break;
        case METHODID_LIST_APPROVALS:
          serviceImpl.listApprovals((dev.turnwire.v1.ListApprovalsRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.ListApprovalsResponse>) responseObserver);
          break;
        case METHODID_RESOLVE_APPROVAL:
          serviceImpl.resolveApproval((dev.turnwire.v1.ResolveApprovalRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.ResolveApprovalResponse>) responseObserver);
          break;
        case METHODID_SUBMIT_TOOL_RESULTS:
          serviceImpl.submitToolResults((dev.turnwire.v1.SubmitToolResultsRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.SubmitToolResultsResponse>) responseObserver);
          break;
        case METHODID_APPEND_INPUT:
          serviceImpl.appendInput((dev.turnwire.v1.AppendInputRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.AppendInputResponse>) responseObserver);
          break;
        case METHODID_RESOLVE_POLICY:
          serviceImpl.resolvePolicy((dev.turnwire.v1.ResolvePolicyRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.ResolvePolicyResponse>) responseObserver);
          break;
        case METHODID_COUNT_TOKENS:
          serviceImpl.countTokens((dev.turnwire.v1.CountTokensRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.CountTokensResponse>) responseObserver);
          break;
        case METHODID_LIST_TOOLS:
          serviceImpl.listTools((dev.turnwire.v1.ListToolsRequest) request,
              (io.grpc.stub.StreamObserver<dev.turnwire.v1.ListToolsResponse>) responseObserver);
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
          getRunTurnMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              dev.turnwire.v1.RunTurnRequest,
              dev.turnwire.v1.RunTurnResponse>(
                service, METHODID_RUN_TURN)))
        .addMethod(
          getStartTurnMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.StartTurnRequest,
              dev.turnwire.v1.StartTurnResponse>(
                service, METHODID_START_TURN)))
        .addMethod(
          getWatchRunMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              dev.turnwire.v1.WatchRunRequest,
              dev.turnwire.v1.WatchRunResponse>(
                service, METHODID_WATCH_RUN)))
        .addMethod(
          getGetRunMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.GetRunRequest,
              dev.turnwire.v1.GetRunResponse>(
                service, METHODID_GET_RUN)))
        .addMethod(
          getListRunsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.ListRunsRequest,
              dev.turnwire.v1.ListRunsResponse>(
                service, METHODID_LIST_RUNS)))
        .addMethod(
          getCancelRunMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.CancelRunRequest,
              dev.turnwire.v1.CancelRunResponse>(
                service, METHODID_CANCEL_RUN)))
        .addMethod(
          getListApprovalsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.ListApprovalsRequest,
              dev.turnwire.v1.ListApprovalsResponse>(
                service, METHODID_LIST_APPROVALS)))
        .addMethod(
          getResolveApprovalMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.ResolveApprovalRequest,
              dev.turnwire.v1.ResolveApprovalResponse>(
                service, METHODID_RESOLVE_APPROVAL)))
        .addMethod(
          getSubmitToolResultsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.SubmitToolResultsRequest,
              dev.turnwire.v1.SubmitToolResultsResponse>(
                service, METHODID_SUBMIT_TOOL_RESULTS)))
        .addMethod(
          getAppendInputMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.AppendInputRequest,
              dev.turnwire.v1.AppendInputResponse>(
                service, METHODID_APPEND_INPUT)))
        .addMethod(
          getResolvePolicyMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.ResolvePolicyRequest,
              dev.turnwire.v1.ResolvePolicyResponse>(
                service, METHODID_RESOLVE_POLICY)))
        .addMethod(
          getCountTokensMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.CountTokensRequest,
              dev.turnwire.v1.CountTokensResponse>(
                service, METHODID_COUNT_TOKENS)))
        .addMethod(
          getListToolsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.turnwire.v1.ListToolsRequest,
              dev.turnwire.v1.ListToolsResponse>(
                service, METHODID_LIST_TOOLS)))
        .build();
  }

  private static abstract class TurnServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    TurnServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.turnwire.v1.TurnServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("TurnService");
    }
  }

  private static final class TurnServiceFileDescriptorSupplier
      extends TurnServiceBaseDescriptorSupplier {
    TurnServiceFileDescriptorSupplier() {}
  }

  private static final class TurnServiceMethodDescriptorSupplier
      extends TurnServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    TurnServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (TurnServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new TurnServiceFileDescriptorSupplier())
              .addMethod(getRunTurnMethod())
              .addMethod(getStartTurnMethod())
              .addMethod(getWatchRunMethod())
              .addMethod(getGetRunMethod())
              .addMethod(getListRunsMethod())
              .addMethod(getCancelRunMethod())
              .addMethod(getListApprovalsMethod())
              .addMethod(getResolveApprovalMethod())
              .addMethod(getSubmitToolResultsMethod())
              .addMethod(getAppendInputMethod())
              .addMethod(getResolvePolicyMethod())
              .addMethod(getCountTokensMethod())
              .addMethod(getListToolsMethod())
              .build();
        }
      }
    }
    return result;
  }
}
