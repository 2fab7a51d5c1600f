// Command conformance runs the cases of the conformance set that all clients
// share: one JSON object per line in, one per line out. See docs/clients.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	turnwire "turnwire.dev/go"
	pb "turnwire.dev/go/turnwire/v1"
)

type testCase struct {
	ID        string              `json:"id"`
	Target    string              `json:"target"`
	Token     string              `json:"token"`
	Run       json.RawMessage     `json:"run"`
	Watch     json.RawMessage     `json:"watch"`
	TimeoutMS int                 `json:"timeout_ms"`
	CancelOn  string              `json:"cancel_on"`
	Tools     map[string]toolCase `json:"tools"`
	Approvals *approvalCase       `json:"approvals"`
	Resume    *resumeCase         `json:"resume"`
}

type toolCase struct {
	Return json.RawMessage `json:"return"`
	Fail   string          `json:"fail"`
	Echo   bool            `json:"echo"`
}

type approvalCase struct {
	Decision string `json:"decision"`
	Comment  string `json:"comment"`
}

type resumeCase struct {
	Attempts       int `json:"attempts"`
	InitialDelayMS int `json:"initial_delay_ms"`
	MaxDelayMS     int `json:"max_delay_ms"`
}

type answer struct {
	ID             string              `json:"id"`
	RunID          *string             `json:"run_id"`
	Text           string              `json:"text"`
	Outcome        *string             `json:"outcome"`
	Waiting        []string            `json:"waiting"`
	Kinds          []string            `json:"kinds"`
	SequencesDense bool                `json:"sequences_dense"`
	LastSequence   string              `json:"last_sequence"`
	Usage          map[string]string   `json:"usage"`
	ToolArguments  map[string][]string `json:"tool_arguments"`
	ApprovalsAsked []string            `json:"approvals_asked"`
	Rewinds        int                 `json:"rewinds"`
	Error          *failure            `json:"error"`
}

type failure struct {
	Type     string            `json:"type"`
	Code     string            `json:"code,omitempty"`
	Reason   string            `json:"reason,omitempty"`
	Domain   string            `json:"domain,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

func main() {
	lines := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var given testCase
			if err := json.Unmarshal(line, &given); err != nil {
				log.Fatal("no case: ", err)
			}
			made, err := play(given)
			if err != nil {
				log.Fatal(given.ID, ": ", err)
			}
			if err := out.Encode(made); err != nil {
				log.Fatal(err)
			}
		}
		if err != nil {
			return
		}
	}
}

// played is what is kept of a case beside its view.
type played struct {
	mu        sync.Mutex
	arguments map[string][]string
	asked     []string
	rewinds   int
}

func play(given testCase) (*answer, error) {
	client, err := turnwire.NewClient(given.Target, turnwire.Options{Token: given.Token, Resume: resume(given.Resume)})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if given.TimeoutMS > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(ctx, time.Duration(given.TimeoutMS)*time.Millisecond)
		defer done()
	}
	p := &played{arguments: map[string][]string{}}
	seen := func(update *turnwire.Update, _ *turnwire.RunView) {
		if update.RewindTo != nil {
			p.rewinds++
		}
		for _, event := range update.Events {
			if given.CancelOn != "" && kind(event) == given.CancelOn {
				cancel()
			}
		}
	}
	view := &turnwire.RunView{}
	if given.Watch != nil {
		request := &pb.WatchRunRequest{}
		if err := protojson.Unmarshal(given.Watch, request); err != nil {
			return nil, err
		}
		view, err = watch(ctx, client, request, seen)
	} else {
		request := &pb.RunTurnRequest{}
		if err := protojson.Unmarshal(given.Run, request); err != nil {
			return nil, err
		}
		options := turnwire.RunOptions{Tools: p.tools(given.Tools), OnUpdate: seen}
		if given.Approvals != nil {
			options.Approve = p.approve(*given.Approvals)
		}
		view, err = client.Run(ctx, request, options)
	}
	return p.answer(given.ID, view, err), nil
}

func watch(
	ctx context.Context, client *turnwire.Client, request *pb.WatchRunRequest, seen func(*turnwire.Update, *turnwire.RunView),
) (*turnwire.RunView, error) {
	view := &turnwire.RunView{}
	for update, err := range client.Watch(ctx, request) {
		if err != nil {
			return view, err
		}
		view.Apply(update)
		seen(update, view)
	}
	return view, nil
}

func resume(given *resumeCase) *turnwire.Resume {
	if given == nil {
		return nil
	}
	return &turnwire.Resume{
		Attempts:     given.Attempts,
		InitialDelay: time.Duration(given.InitialDelayMS) * time.Millisecond,
		MaxDelay:     time.Duration(given.MaxDelayMS) * time.Millisecond,
	}
}

func (p *played) tools(given map[string]toolCase) map[string]turnwire.Tool {
	tools := map[string]turnwire.Tool{}
	for name, behaviour := range given {
		tools[name] = func(_ context.Context, argumentsJSON string) (any, error) {
			p.mu.Lock()
			p.arguments[name] = append(p.arguments[name], argumentsJSON)
			p.mu.Unlock()
			switch {
			case behaviour.Fail != "":
				return nil, errors.New(behaviour.Fail)
			case behaviour.Echo:
				return json.RawMessage(argumentsJSON), nil
			default:
				var text string
				if json.Unmarshal(behaviour.Return, &text) == nil {
					return text, nil
				}
				return behaviour.Return, nil
			}
		}
	}
	return tools
}

func (p *played) approve(given approvalCase) func(context.Context, *pb.Approval) (turnwire.Decision, error) {
	decisions := map[string]pb.ApprovalDecision{
		"once":   pb.ApprovalDecision_APPROVAL_DECISION_ONCE,
		"always": pb.ApprovalDecision_APPROVAL_DECISION_ALWAYS,
		"reject": pb.ApprovalDecision_APPROVAL_DECISION_REJECT,
	}
	return func(_ context.Context, approval *pb.Approval) (turnwire.Decision, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked = append(p.asked, approval.GetCall().GetTool().GetRoutedName())
		return turnwire.Decision{Decision: decisions[given.Decision], Comment: given.Comment}, nil
	}
}

func (p *played) answer(id string, view *turnwire.RunView, err error) *answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	made := &answer{
		ID: id, Text: view.Text(), Waiting: []string{}, Kinds: []string{}, SequencesDense: true, LastSequence: "0",
		ToolArguments: p.arguments, ApprovalsAsked: append([]string{}, p.asked...), Rewinds: p.rewinds, Error: read(err),
	}
	if runID := view.RunID(); runID != "" {
		made.RunID = &runID
	}
	if outcome := view.Outcome(); outcome != nil {
		made.Outcome = proto.String(outcome.GetKind().String())
	}
	for _, approval := range view.Waiting().GetApprovals() {
		made.Waiting = append(made.Waiting, approval.GetApprovalId())
	}
	for _, call := range view.Waiting().GetClientToolCalls() {
		made.Waiting = append(made.Waiting, call.GetCallId())
	}
	last := int64(0)
	for _, event := range view.Events {
		first := event.GetSequence()
		if event.FirstSequence != nil {
			first = event.GetFirstSequence()
		}
		made.SequencesDense = made.SequencesDense && first == last+1
		last = event.GetSequence()
		if name := kind(event); len(made.Kinds) == 0 || made.Kinds[len(made.Kinds)-1] != name {
			made.Kinds = append(made.Kinds, name)
		}
	}
	made.LastSequence = strconv.FormatInt(last, 10)
	if usage := view.Usage(); usage != nil {
		made.Usage = map[string]string{
			"input_tokens":  strconv.FormatInt(usage.GetInputTokens(), 10),
			"output_tokens": strconv.FormatInt(usage.GetOutputTokens(), 10),
		}
	}
	return made
}

// read sorts an error as the language itself does.
func read(err error) *failure {
	var told *turnwire.Error
	var lost *turnwire.StreamLostError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &lost):
		return &failure{Type: "StreamLost"}
	case errors.Is(err, context.DeadlineExceeded):
		return &failure{Type: "DeadlineExceeded"}
	case errors.Is(err, context.Canceled):
		return &failure{Type: "Cancelled"}
	case errors.As(err, &told):
		return &failure{"TurnwireError", codeNames[told.Code], told.Reason, told.Domain, told.Metadata}
	default:
		return &failure{Type: fmt.Sprintf("%T: %v", err, err)}
	}
}

var codeNames = map[codes.Code]string{
	codes.InvalidArgument: "INVALID_ARGUMENT", codes.NotFound: "NOT_FOUND", codes.AlreadyExists: "ALREADY_EXISTS",
	codes.PermissionDenied: "PERMISSION_DENIED", codes.Unauthenticated: "UNAUTHENTICATED", codes.Aborted: "ABORTED",
	codes.FailedPrecondition: "FAILED_PRECONDITION", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
	codes.OutOfRange: "OUT_OF_RANGE", codes.Unimplemented: "UNIMPLEMENTED", codes.Unavailable: "UNAVAILABLE",
	codes.Internal: "INTERNAL", codes.Unknown: "UNKNOWN",
}

// kind is the name of the event's case in the contract.
func kind(event *pb.RunEvent) string {
	message := event.ProtoReflect()
	var cases protoreflect.OneofDescriptor = message.Descriptor().Oneofs().ByName("event")
	if field := message.WhichOneof(cases); field != nil {
		return string(field.Name())
	}
	return "unknown"
}
