package turnwire

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	pb "turnwire.dev/go/turnwire/v1"
)

const (
	// MaxMessageBytes is the size of the largest message sent and received.
	MaxMessageBytes = 16 << 20
	// UnaryTimeout bounds calls whose context has no deadline, streams apart.
	UnaryTimeout = 30 * time.Second
)

// Options of a Client. The zero value is a client without a token, in the clear.
type Options struct {
	// Token is sent as "authorization: Bearer ..." with every call.
	Token string
	// TLS, when set, are the credentials of the connection. Without them it is in
	// the clear, the token too: for this machine and for private networks.
	TLS credentials.TransportCredentials
	// Resume of cut streams; nil is DefaultResume.
	Resume *Resume
	// Dial options besides.
	Dial []grpc.DialOption
}

// Client calls a Turnwire server. It is safe for concurrent use.
type Client struct {
	// Turns is the stub of TurnService; Conn makes those of the other services.
	Turns pb.TurnServiceClient
	// Conn is the connection.
	Conn *grpc.ClientConn

	resume Resume
}

// NewClient makes a client of the server at target, such as "127.0.0.1:7443". It
// connects with the first call.
func NewClient(target string, options Options) (*Client, error) {
	transport := options.TLS
	if transport == nil {
		transport = insecure.NewCredentials()
	}
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.MaxCallSendMsgSize(MaxMessageBytes),
			grpc.MaxRetryRPCBufferSize(2*MaxMessageBytes), // a request that does not fit is not sent again
		),
		grpc.WithDefaultServiceConfig(retriesOfWhatIsSafe()),
		grpc.WithChainUnaryInterceptor(bounded),
	}
	if options.Token != "" {
		dial = append(dial, grpc.WithPerRPCCredentials(bearer{options.Token, options.TLS != nil}))
	}
	conn, err := grpc.NewClient(target, append(dial, options.Dial...)...)
	if err != nil {
		return nil, fmt.Errorf("turnwire: %w", err)
	}
	resume := DefaultResume
	if options.Resume != nil {
		resume = *options.Resume
	}
	return &Client{Turns: pb.NewTurnServiceClient(conn), Conn: conn, resume: resume}, nil
}

// Close ends the connection and all calls on it.
func (c *Client) Close() error { return c.Conn.Close() }

// StartTurn starts a turn without a stream. A turn without a request_id gets
// one, so that trying again is safe.
func (c *Client) StartTurn(ctx context.Context, request *pb.StartTurnRequest) (*pb.StartTurnResponse, error) {
	request = proto.CloneOf(request)
	if request.Turn == nil {
		request.Turn = &pb.TurnSpec{}
	}
	if request.Turn.GetRequestId() == "" {
		request.Turn.RequestId = newRequestID()
	}
	for try := 1; ; try++ {
		response, err := c.Turns.StartTurn(ctx, request)
		if status.Code(err) != codes.Unavailable || try == tries {
			return response, AsError(err)
		}
		if err := sleep(ctx, c.resume.delay(try)); err != nil {
			return nil, err
		}
	}
}

// tries of a call that is safe to repeat.
const tries = 4

// bearer shows the token with each call.
type bearer struct {
	token  string
	secure bool
}

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.token}, nil
}

func (b bearer) RequireTransportSecurity() bool { return b.secure }

// bounded gives a unary call that has no deadline the default one.
func bounded(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, UnaryTimeout)
		defer cancel()
	}
	return invoke(ctx, method, request, reply, conn, options...)
}

// retriesOfWhatIsSafe is a service config (gRFC A6) that repeats the unary
// methods of which the contract says that repeating them is safe, and no others.
func retriesOfWhatIsSafe() string {
	type name struct {
		Service string `json:"service"`
		Method  string `json:"method"`
	}
	var safe []name
	for _, file := range []protoreflect.FileDescriptor{
		pb.File_turnwire_v1_turn_service_proto, pb.File_turnwire_v1_session_service_proto,
		pb.File_turnwire_v1_agent_service_proto, pb.File_turnwire_v1_mcp_server_service_proto,
		pb.File_turnwire_v1_server_service_proto, pb.File_turnwire_v1_tool_host_registry_service_proto,
	} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				method := methods.Get(j)
				options, _ := method.Options().(*descriptorpb.MethodOptions)
				level := options.GetIdempotencyLevel()
				if level != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN && !method.IsStreamingServer() {
					safe = append(safe, name{string(method.Parent().FullName()), string(method.Name())})
				}
			}
		}
	}
	config, err := json.Marshal(map[string]any{"methodConfig": []any{map[string]any{
		"name": safe,
		"retryPolicy": map[string]any{
			"maxAttempts": tries, "initialBackoff": "0.1s", "maxBackoff": "5s", "backoffMultiplier": 2,
			"retryableStatusCodes": []string{"UNAVAILABLE"},
		},
	}}})
	if err != nil {
		panic(err) // of strings and numbers alone
	}
	return string(config)
}

func sleep(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// UserMessage is a message of the user with one text.
func UserMessage(text string) *pb.Message {
	return &pb.Message{Role: pb.Role_ROLE_USER, Parts: []*pb.Part{{Content: &pb.Part_Text{Text: text}}}}
}
