package turnwire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "turnwire.dev/go/turnwire/v1"
)

// Tool is a function that the model may call and that runs here: the arguments
// are the model's JSON text. A string that it returns is text; anything else is
// sent as JSON. An error is told to the model, which may try something else.
type Tool func(ctx context.Context, argumentsJSON string) (any, error)

// ToolFunc makes a Tool of a function that takes its arguments decoded.
func ToolFunc[Arguments, Result any](function func(context.Context, Arguments) (Result, error)) Tool {
	return func(ctx context.Context, argumentsJSON string) (any, error) {
		var arguments Arguments
		if err := json.Unmarshal([]byte(argumentsJSON), &arguments); err != nil {
			return nil, fmt.Errorf("the arguments do not fit: %w", err)
		}
		return function(ctx, arguments)
	}
}

// Decision answers an approval.
type Decision struct {
	// Decision is once, always or reject.
	Decision pb.ApprovalDecision
	// Comment is told to the model on reject.
	Comment string
	// AlwaysPatterns are those of the approval's that always is for; none: all.
	AlwaysPatterns []string
	// InputJSON is what a tool asked for, when the approval has a schema.
	InputJSON string
}

// RunOptions says what Run does with what a run waits for.
type RunOptions struct {
	// Tools are functions by the name under which the request declares them
	// (ToolSelection.client_tools). Each call runs in a goroutine of its own.
	Tools map[string]Tool
	// Approve is asked about each approval, in a goroutine of its own.
	Approve func(context.Context, *pb.Approval) (Decision, error)
	// OnUpdate is told of each update, after the view has it.
	OnUpdate func(*Update, *RunView)
}

// Run runs a turn to its end and answers what it waits for: calls of client
// tools with Tools, approvals with Approve. It returns early, with
// RunView.Waiting set and no error, when the run waits for nothing that they can
// answer; the run goes on waiting. Errors are those of Follow, of Approve and of
// the answering calls; what was seen until then comes with them.
//
// The end of ctx ends the run as well, unless the request's on_disconnect lets
// it go on.
func (c *Client) Run(ctx context.Context, request *pb.RunTurnRequest, options RunOptions) (*RunView, error) {
	turn := proto.CloneOf(request)
	turn.OnWait = pb.OnWait_ON_WAIT_CLOSE // leaving the stream of RunTurn would end the run
	reader := newTurnReader(turn, c.resume)
	work, cancel := context.WithCancelCause(ctx)
	r := &run{client: c, options: options, begun: map[string]bool{}, cancel: cancel}
	defer r.group.Wait()
	defer cancel(nil)
	err := r.read(work, c.follow(work, reader), false)
	if err == nil && r.answering {
		after := &pb.WatchRunRequest{RunId: r.view.RunID(), After: reader.cursor(), StreamDetail: turn.GetStreamDetail()}
		err = r.read(work, c.Watch(work, after), true)
	}
	// What has begun to wait is past the stream of RunTurn, whose end would have
	// ended it.
	if err != nil && work.Err() != nil && len(r.begun) > 0 && endsWithItsStream(request) {
		r.end(ctx)
	}
	if cause := context.Cause(work); err != nil && cause != nil {
		err = cause
	}
	return &r.view, err
}

// run is one run that is followed and answered.
type run struct {
	client    *Client
	options   RunOptions
	view      RunView
	begun     map[string]bool
	answering bool // what it waits for now, in part at least
	cancel    context.CancelCauseFunc
	group     sync.WaitGroup
}

// read takes a stream to its end, or leaves it where nothing can be answered.
func (r *run) read(ctx context.Context, updates iter.Seq2[*Update, error], leave bool) error {
	for update, err := range updates {
		if err != nil {
			return err
		}
		r.view.Apply(update)
		if r.options.OnUpdate != nil {
			r.options.OnUpdate(update, &r.view)
		}
		waiting := r.view.Waiting()
		r.answering = waiting != nil && r.answer(ctx, waiting)
		if leave && waiting != nil && !r.answering {
			return nil
		}
	}
	return nil
}

// endsWithItsStream tells that a run is not to go on without its caller.
func endsWithItsStream(request *pb.RunTurnRequest) bool {
	switch request.GetOnDisconnect() {
	case pb.OnDisconnect_ON_DISCONNECT_UNSPECIFIED:
		return request.GetTurn().GetSessionId() == ""
	case pb.OnDisconnect_ON_DISCONNECT_CANCEL:
		return true
	default:
		return false
	}
}

// end cancels the run, as the end of RunTurn's stream would have.
func (r *run) end(ctx context.Context) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	request := &pb.CancelRunRequest{RunId: r.view.RunID(), Comment: "The caller has gone."}
	// Best effort, as a stream that breaks is: who called is gone.
	_, _ = r.client.Turns.CancelRun(ctx, request)
}

// answer begins to answer what is new. False when there is something, and
// nothing of it can be answered.
func (r *run) answer(ctx context.Context, waiting *pb.RunWaiting) bool {
	hope, runID := len(waiting.GetClientToolCalls())+len(waiting.GetApprovals()) == 0, r.view.RunID()
	for _, call := range waiting.GetClientToolCalls() {
		if tool, known := r.options.Tools[call.GetTool().GetRoutedName()]; known {
			hope = true
			r.once(call.GetCallId(), func() error { return r.call(ctx, runID, call, tool) })
		}
	}
	for _, approval := range waiting.GetApprovals() {
		if r.options.Approve != nil {
			hope = true
			r.once(approval.GetApprovalId(), func() error { return r.approve(ctx, runID, approval) })
		}
	}
	return hope
}

// once does something in a goroutine, one time for an id. Its error ends the run
// for this caller.
func (r *run) once(id string, do func() error) {
	if r.begun[id] {
		return
	}
	r.begun[id] = true
	r.group.Add(1)
	go func() {
		defer r.group.Done()
		if err := do(); err != nil && !isLate(err) {
			r.cancel(err)
		}
	}()
}

func (r *run) call(ctx context.Context, runID string, call *pb.ToolCall, tool Tool) error {
	result := &pb.ToolResult{CallId: call.GetCallId(), Status: pb.ToolResultStatus_TOOL_RESULT_STATUS_OK}
	value, err := tool(ctx, call.GetArgumentsJson())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	part := &pb.Part{}
	if err == nil {
		err = fill(part, value)
	}
	if err != nil {
		result.Status = pb.ToolResultStatus_TOOL_RESULT_STATUS_ERROR
		part.Content = &pb.Part_Text{Text: err.Error()}
	}
	result.Content = []*pb.Part{part}
	request := &pb.SubmitToolResultsRequest{RunId: runID, Results: []*pb.ToolResult{result}}
	return r.send(ctx, func() error {
		_, err := r.client.Turns.SubmitToolResults(ctx, request)
		return err
	})
}

func (r *run) approve(ctx context.Context, runID string, approval *pb.Approval) error {
	decision, err := r.options.Approve(ctx, approval)
	if err != nil {
		return err
	}
	digest := approval.GetCallDigest()
	request := &pb.ResolveApprovalRequest{
		RunId: runID, ApprovalId: approval.GetApprovalId(), Decision: decision.Decision, Comment: decision.Comment,
		AlwaysPatterns: decision.AlwaysPatterns, CallDigest: &digest,
	}
	if decision.InputJSON != "" {
		request.InputJson = &decision.InputJSON
	}
	return r.send(ctx, func() error {
		_, err := r.client.Turns.ResolveApproval(ctx, request)
		return err
	})
}

// send makes an answer's call with as many attempts as the stream has: a server
// that starts again is away for seconds.
func (r *run) send(ctx context.Context, call func() error) error {
	for failures := 1; ; failures++ {
		err := call()
		if status.Code(err) != codes.Unavailable || failures > r.client.resume.Attempts {
			return AsError(err)
		}
		if err := sleep(ctx, r.client.resume.delay(failures)); err != nil {
			return err
		}
	}
}

// fill puts what a tool returned into a part: text as it is, all else as JSON.
func fill(part *pb.Part, value any) error {
	if text, ok := value.(string); ok {
		part.Content = &pb.Part_Text{Text: text}
		return nil
	}
	data, err := json.Marshal(value)
	part.Content = &pb.Part_DataJson{DataJson: string(data)}
	return err
}

// isLate tells that somebody or something else was first: the stream says so too.
func isLate(err error) bool {
	var told *Error
	if !errors.As(err, &told) {
		return false
	}
	switch told.Reason {
	case "RUN_SETTLED", "APPROVAL_ALREADY_RESOLVED", "APPROVAL_NOT_FOUND":
		return true
	default:
		return false
	}
}
