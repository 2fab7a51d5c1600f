package turnwire

import (
	"testing"

	"google.golang.org/protobuf/proto"

	pb "turnwire.dev/go/turnwire/v1"
)

func waitingFor(sequence int64, onlyNew bool, calls ...string) *pb.RunEvent {
	waiting := &pb.RunWaiting{OnlyNew: onlyNew}
	for _, id := range calls {
		waiting.ClientToolCalls = append(waiting.ClientToolCalls, &pb.ToolCall{CallId: id})
	}
	return &pb.RunEvent{Sequence: sequence, Event: &pb.RunEvent_RunWaiting{RunWaiting: waiting}}
}

func calledBack(sequence int64, id string) *pb.RunEvent {
	done := &pb.ToolCallFinished{Result: &pb.ToolResult{CallId: id}}
	return &pb.RunEvent{Sequence: sequence, Event: &pb.RunEvent_ToolCallFinished{ToolCallFinished: done}}
}

func pending(view *RunView) []string {
	var ids []string
	for _, call := range view.Waiting().GetClientToolCalls() {
		ids = append(ids, call.GetCallId())
	}
	return ids
}

func TestTheTextGrowsWithDeltasAndIsThenThatOfTheMessage(t *testing.T) {
	view := &RunView{}
	view.Apply(&Update{Events: []*pb.RunEvent{started(1), words(2, "It "), words(3, "is")}})
	if got := view.Text(); got != "It is" {
		t.Errorf("text %q", got)
	}
	whole := &pb.PartFinished{Part: &pb.Part{PartId: "part_1", Content: &pb.Part_Text{Text: "It is noon."}}}
	part := &pb.RunEvent{Sequence: 4, Iteration: 1, Event: &pb.RunEvent_PartFinished{PartFinished: whole}}
	view.Apply(&Update{Events: []*pb.RunEvent{part}})
	if got := view.Text(); got != "It is noon." {
		t.Errorf("text %q", got)
	}
	end := finished(5)
	end.GetRunFinished().Message = UserMessage("Noon.")
	view.Apply(&Update{Events: []*pb.RunEvent{end}})
	if got := view.Text(); got != "Noon." || view.RunID() != "run_1" {
		t.Errorf("text %q of %q", got, view.RunID())
	}
}

func TestTheTextIsOfTheNewestIterationAlone(t *testing.T) {
	later := words(3, "Later")
	later.Iteration = 2
	view := &RunView{}
	view.Apply(&Update{Events: []*pb.RunEvent{started(1), words(2, "Let me see."), later}})
	if got := view.Text(); got != "Later" {
		t.Errorf("text %q", got)
	}
}

func TestARewindTakesEventsBack(t *testing.T) {
	view := &RunView{}
	view.Apply(&Update{Events: []*pb.RunEvent{started(1), words(2, "a"), words(3, "lost")}})
	view.Apply(&Update{RewindTo: proto.Int64(2), Events: []*pb.RunEvent{words(3, "b")}})
	if got := view.Text(); got != "ab" || len(view.Events) != 3 {
		t.Errorf("text %q of %d events", got, len(view.Events))
	}
}

func TestWhatIsWaitedForIsTheWholeSetWithoutWhatHasSettled(t *testing.T) {
	view := &RunView{}
	view.Apply(&Update{Events: []*pb.RunEvent{started(1)}})
	if view.Waiting() != nil {
		t.Error("it does not wait yet")
	}
	view.Apply(&Update{Events: []*pb.RunEvent{waitingFor(2, false, "a", "b"), calledBack(3, "a"), waitingFor(4, true, "c")}})
	if got := pending(view); len(got) != 2 || got[0] != "b" || got[1] != "c" {
		t.Errorf("waits for %v", got)
	}
	view.Apply(&Update{Events: []*pb.RunEvent{waitingFor(5, false, "c")}})
	if got := pending(view); len(got) != 1 || got[0] != "c" {
		t.Errorf("waits for %v", got)
	}
	view.Apply(&Update{Events: []*pb.RunEvent{{Sequence: 6, Event: &pb.RunEvent_RunResumed{RunResumed: &pb.RunResumed{}}}}})
	if view.Waiting() != nil {
		t.Errorf("waits for %v after it went on", view.Waiting())
	}
}
