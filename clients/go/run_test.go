package turnwire

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	pb "turnwire.dev/go/turnwire/v1"
)

// server waits for a call of "weather" and an approval, and ends when it has
// what it waits for.
type server struct {
	pb.UnimplementedTurnServiceServer

	mu        sync.Mutex
	results   []*pb.ToolResult
	answers   []*pb.ResolveApprovalRequest
	cancelled []string
	tokens    []string
	refuse    error
	answered  chan struct{} // one for each answer
}

func (s *server) RunTurn(in *pb.RunTurnRequest, out grpc.ServerStreamingServer[pb.RunTurnResponse]) error {
	if s.refuse != nil {
		return s.refuse
	}
	given, _ := metadata.FromIncomingContext(out.Context())
	s.mu.Lock()
	s.tokens = given.Get("authorization")
	s.mu.Unlock()
	call := &pb.ToolCall{CallId: "call_1", Tool: &pb.ToolRef{RoutedName: "weather"}, ArgumentsJson: `{"city":"Oslo"}`}
	waiting := &pb.RunWaiting{
		ClientToolCalls: []*pb.ToolCall{call},
		Approvals:       []*pb.Approval{{ApprovalId: "appr_1", CallDigest: "d1"}},
	}
	event := &pb.RunEvent{Sequence: 2, Event: &pb.RunEvent_RunWaiting{RunWaiting: waiting}}
	if in.GetOnWait() != pb.OnWait_ON_WAIT_CLOSE {
		return status.Error(codes.InvalidArgument, "it would have to leave the stream")
	}
	return out.Send(frameOf(1, started(1), event))
}

func (s *server) WatchRun(in *pb.WatchRunRequest, out grpc.ServerStreamingServer[pb.WatchRunResponse]) error {
	for range 2 {
		select {
		case <-s.answered:
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
	next := in.GetAfter().GetSequence() + 1
	return out.Send(&pb.WatchRunResponse{Events: []*pb.RunEvent{finished(next)}, Epoch: 1, ThroughSequence: next})
}

func (s *server) SubmitToolResults(_ context.Context, in *pb.SubmitToolResultsRequest) (*pb.SubmitToolResultsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results = append(s.results, in.GetResults()...)
	s.answered <- struct{}{}
	return &pb.SubmitToolResultsResponse{}, nil
}

func (s *server) ResolveApproval(_ context.Context, in *pb.ResolveApprovalRequest) (*pb.ResolveApprovalResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, in)
	s.answered <- struct{}{}
	return &pb.ResolveApprovalResponse{}, nil
}

func (s *server) CancelRun(_ context.Context, in *pb.CancelRunRequest) (*pb.CancelRunResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelled = append(s.cancelled, in.GetRunId())
	return &pb.CancelRunResponse{}, nil
}

func serve(t *testing.T, s *server) *Client {
	t.Helper()
	s.answered = make(chan struct{}, 9)
	listener := bufconn.Listen(1 << 20)
	up := grpc.NewServer()
	pb.RegisterTurnServiceServer(up, s)
	go func() { _ = up.Serve(listener) }()
	t.Cleanup(up.Stop)
	dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })
	client, err := NewClient("passthrough:///here", Options{Token: "secret", Resume: &quick, Dial: []grpc.DialOption{dial}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func bounds(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func once(context.Context, *pb.Approval) (Decision, error) {
	return Decision{Decision: pb.ApprovalDecision_APPROVAL_DECISION_ONCE}, nil
}

func TestRunAnswersWhatTheRunWaitsFor(t *testing.T) {
	s := &server{}
	type place struct {
		City string `json:"city"`
	}
	weather := ToolFunc(func(_ context.Context, in place) (map[string]string, error) {
		return map[string]string{"in": in.City}, nil
	})
	view, err := serve(t, s).Run(bounds(t), &pb.RunTurnRequest{}, RunOptions{Tools: map[string]Tool{"weather": weather}, Approve: once})
	if err != nil || view.Outcome().GetKind() != pb.OutcomeKind_OUTCOME_KIND_ANSWERED {
		t.Fatalf("%v, %v", view.Outcome(), err)
	}
	if len(s.results) != 1 || s.results[0].GetContent()[0].GetDataJson() != `{"in":"Oslo"}` {
		t.Errorf("results %v", s.results)
	}
	if len(s.answers) != 1 || s.answers[0].GetCallDigest() != "d1" {
		t.Errorf("answers %v", s.answers)
	}
	if len(s.tokens) != 1 || s.tokens[0] != "Bearer secret" || len(s.cancelled) != 0 {
		t.Errorf("tokens %v, cancelled %v", s.tokens, s.cancelled)
	}
}

func TestAnErrorOfAToolAndArgumentsThatDoNotFitAreResults(t *testing.T) {
	for name, tool := range map[string]Tool{
		"no weather":             func(context.Context, string) (any, error) { return nil, errors.New("no weather") },
		"the arguments do not":   ToolFunc(func(context.Context, []int) (string, error) { return "", nil }),
		"json: unsupported type": func(context.Context, string) (any, error) { return make(chan int), nil },
	} {
		s := &server{}
		_, err := serve(t, s).Run(bounds(t), &pb.RunTurnRequest{}, RunOptions{Tools: map[string]Tool{"weather": tool}, Approve: once})
		if err != nil {
			t.Fatal(err)
		}
		text := s.results[0].GetContent()[0].GetText()
		if s.results[0].GetStatus() != pb.ToolResultStatus_TOOL_RESULT_STATUS_ERROR || len(text) < len(name) || text[:len(name)] != name {
			t.Errorf("%s: %v", name, s.results)
		}
	}
}

func TestWhatNothingCanAnswerIsReturnedAndTheRunIsLeftWaiting(t *testing.T) {
	s := &server{}
	view, err := serve(t, s).Run(bounds(t), &pb.RunTurnRequest{}, RunOptions{})
	if err != nil || len(view.Waiting().GetClientToolCalls()) != 1 || len(view.Waiting().GetApprovals()) != 1 {
		t.Fatalf("%v, %v", view.Waiting(), err)
	}
	if len(s.cancelled) != 0 {
		t.Error("the run was cancelled")
	}
}

func TestTheEndOfTheContextEndsTheFunctionsAndTheRunToo(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		s := &server{}
		ctx, cancel := context.WithCancel(bounds(t))
		hangs := func(ctx context.Context, _ string) (any, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		request := &pb.RunTurnRequest{}
		if keeps {
			request.OnDisconnect = pb.OnDisconnect_ON_DISCONNECT_CONTINUE
		}
		_, err := serve(t, s).Run(ctx, request, RunOptions{Tools: map[string]Tool{"weather": hangs}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if keeps != (len(s.cancelled) == 0) {
			t.Errorf("on_disconnect keeps %v, cancelled %v", keeps, s.cancelled)
		}
	}
}

func TestAnErrorOfTheCallbackEndsTheRunWithIt(t *testing.T) {
	s := &server{}
	no := errors.New("nobody to ask")
	approve := func(context.Context, *pb.Approval) (Decision, error) { return Decision{}, no }
	if _, err := serve(t, s).Run(bounds(t), &pb.RunTurnRequest{}, RunOptions{Approve: approve}); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
}

func TestAnErrorOfTheServerIsRead(t *testing.T) {
	info := &errdetails.ErrorInfo{Reason: "AGENT_NOT_FOUND", Domain: "turnwire.v1", Metadata: map[string]string{"agent_id": "x"}}
	told, err := status.New(codes.NotFound, "No agent.").WithDetails(info)
	if err != nil {
		t.Fatal(err)
	}
	_, err = serve(t, &server{refuse: told.Err()}).Run(bounds(t), &pb.RunTurnRequest{}, RunOptions{})
	var read *Error
	if !errors.As(err, &read) || read.Reason != "AGENT_NOT_FOUND" || read.Metadata["agent_id"] != "x" {
		t.Fatalf("%v", err)
	}
	if want := "turnwire: NotFound (AGENT_NOT_FOUND): No agent."; err.Error() != want {
		t.Errorf("%q", err.Error())
	}
}

func TestAServerThatIsNotThereIsAStreamThatWasLost(t *testing.T) {
	client, err := NewClient("127.0.0.1:1", Options{Resume: &quick})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Run(bounds(t), &pb.RunTurnRequest{}, RunOptions{})
	var lost *StreamLostError
	if !errors.As(err, &lost) || lost.RunID != "" {
		t.Errorf("%v", err)
	}
}
