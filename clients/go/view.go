package turnwire

import (
	"slices"
	"strings"

	pb "turnwire.dev/go/turnwire/v1"
)

// RunView is a run as far as it has been seen: it keeps the events and answers
// the questions that callers ask of them. Memory grows with the run; code that
// only shows text as it comes needs no view, but must then heed Update.RewindTo
// itself. The zero value is ready. It is not for several goroutines at once.
type RunView struct {
	// Events in order, without those that a rewind took back.
	Events []*pb.RunEvent
}

// Apply takes one update, in the order in which they come.
func (v *RunView) Apply(update *Update) {
	if update.RewindTo != nil {
		kept := len(v.Events)
		for kept > 0 && v.Events[kept-1].GetSequence() > *update.RewindTo {
			kept--
		}
		v.Events = v.Events[:kept]
	}
	v.Events = append(v.Events, update.Events...)
}

// Started is the first event, once it is there, else nil.
func (v *RunView) Started() *pb.RunStarted {
	if len(v.Events) == 0 {
		return nil
	}
	return v.Events[0].GetRunStarted()
}

// Finished is the last event of the run, once it is there, else nil.
func (v *RunView) Finished() *pb.RunFinished {
	if len(v.Events) == 0 {
		return nil
	}
	return v.Events[len(v.Events)-1].GetRunFinished()
}

// RunID is the run's id, once it is known.
func (v *RunView) RunID() string { return v.Started().GetRunId() }

// Outcome is how the run ended; nil while it goes on.
func (v *RunView) Outcome() *pb.Outcome { return v.Finished().GetOutcome() }

// Message is the final message, when the run has ended with one.
func (v *RunView) Message() *pb.Message { return v.Finished().GetMessage() }

// Usage is the tokens of the whole run, once it has ended.
func (v *RunView) Usage() *pb.Usage { return v.Finished().GetUsage() }

// StructuredOutputJSON is the JSON text that matches the output format, when
// one was asked for and the run has ended with it.
func (v *RunView) StructuredOutputJSON() (string, bool) {
	finished := v.Finished()
	return finished.GetStructuredOutputJson(), finished != nil && finished.StructuredOutputJson != nil
}

// Waiting is all that the run waits for from its caller, while it does; else nil.
func (v *RunView) Waiting() *pb.RunWaiting {
	settled := map[string]bool{}
	var told []*pb.RunWaiting // the newest first
events:
	for _, event := range slices.Backward(v.Events) {
		switch event.GetEvent().(type) {
		case *pb.RunEvent_RunWaiting:
			told = append(told, event.GetRunWaiting())
			if !event.GetRunWaiting().GetOnlyNew() {
				break events
			}
		case *pb.RunEvent_RunResumed, *pb.RunEvent_RunFinished:
			if len(told) == 0 {
				return nil
			}
		case *pb.RunEvent_ApprovalResolved:
			settled[event.GetApprovalResolved().GetApprovalId()] = true
		case *pb.RunEvent_ToolCallFinished:
			settled[event.GetToolCallFinished().GetResult().GetCallId()] = true
		}
	}
	if len(told) == 0 {
		return nil
	}
	whole := &pb.RunWaiting{ExpireTime: told[0].GetExpireTime()}
	for _, waiting := range slices.Backward(told) {
		for _, approval := range waiting.GetApprovals() {
			if !settled[approval.GetApprovalId()] {
				whole.Approvals = append(whole.Approvals, approval)
			}
		}
		for _, call := range waiting.GetClientToolCalls() {
			if !settled[call.GetCallId()] {
				whole.ClientToolCalls = append(whole.ClientToolCalls, call)
			}
		}
	}
	return whole
}

// Text is the text of the answer: of the final message, or else of the newest
// iteration as far as it came.
func (v *RunView) Text() string {
	var text strings.Builder
	if message := v.Message(); message != nil {
		for _, part := range message.GetParts() {
			text.WriteString(part.GetText())
		}
		return text.String()
	}
	newest := int32(0)
	for _, event := range v.Events {
		newest = max(newest, event.GetIteration())
	}
	var order []string
	parts := map[string]string{}
	set := func(id, words string) {
		if _, known := parts[id]; !known {
			order = append(order, id)
		}
		parts[id] = words
	}
	for _, event := range v.Events {
		if event.GetIteration() != newest {
			continue
		}
		switch event.GetEvent().(type) {
		case *pb.RunEvent_TextDelta:
			delta := event.GetTextDelta()
			set(delta.GetPartId(), parts[delta.GetPartId()]+delta.GetText())
		case *pb.RunEvent_PartFinished:
			if whole, ok := event.GetPartFinished().GetPart().GetContent().(*pb.Part_Text); ok {
				set(event.GetPartFinished().GetPart().GetPartId(), whole.Text)
			}
		}
	}
	for _, id := range order {
		text.WriteString(parts[id])
	}
	return text.String()
}
