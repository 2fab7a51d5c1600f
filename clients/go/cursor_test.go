package turnwire

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "turnwire.dev/go/turnwire/v1"
)

var quick = Resume{Attempts: 2, InitialDelay: time.Millisecond, MaxDelay: 4 * time.Millisecond}

func started(sequence int64) *pb.RunEvent {
	return &pb.RunEvent{Sequence: sequence, Event: &pb.RunEvent_RunStarted{RunStarted: &pb.RunStarted{RunId: "run_1"}}}
}

func words(sequence int64, text string) *pb.RunEvent {
	delta := &pb.TextDelta{PartId: "part_1", Text: text}
	return &pb.RunEvent{Sequence: sequence, Iteration: 1, Event: &pb.RunEvent_TextDelta{TextDelta: delta}}
}

func finished(sequence int64) *pb.RunEvent {
	end := &pb.RunFinished{Outcome: &pb.Outcome{Kind: pb.OutcomeKind_OUTCOME_KIND_ANSWERED}}
	return &pb.RunEvent{Sequence: sequence, Event: &pb.RunEvent_RunFinished{RunFinished: end}}
}

func frameOf(epoch int64, events ...*pb.RunEvent) *pb.RunTurnResponse {
	through := int64(0)
	if len(events) > 0 {
		through = events[len(events)-1].GetSequence()
	}
	return &pb.RunTurnResponse{Events: events, Epoch: epoch, ThroughSequence: through, LastSequence: through}
}

func fromServer(t *testing.T, code codes.Code) error {
	t.Helper()
	told, err := status.New(code, "no").WithDetails(&pb.Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	return told.Err()
}

func TestATurnGetsARequestIDOnceAndKeepsItsOwn(t *testing.T) {
	given := &pb.RunTurnRequest{Turn: &pb.TurnSpec{}}
	r := newTurnReader(given, quick)
	first := r.turn().GetTurn().GetRequestId()
	if len(first) != 36 || r.turn().GetTurn().GetRequestId() != first {
		t.Errorf("request ids: %q, then %q", first, r.turn().GetTurn().GetRequestId())
	}
	if given.GetTurn().GetRequestId() != "" {
		t.Error("the caller's request was changed")
	}
	own := newTurnReader(&pb.RunTurnRequest{Turn: &pb.TurnSpec{RequestId: "mine"}}, quick)
	if got := own.turn().GetTurn().GetRequestId(); got != "mine" {
		t.Errorf("request id %q", got)
	}
}

func TestOnceTheRunIsKnownItIsWatchedFromTheCursor(t *testing.T) {
	request := &pb.RunTurnRequest{StreamDetail: pb.StreamDetail_STREAM_DETAIL_MILESTONES, OnWait: pb.OnWait_ON_WAIT_CLOSE}
	r := newTurnReader(request, quick)
	r.apply(frameOf(3, started(1), words(2, "a")))
	if r.turn() != nil {
		t.Fatal("RunTurn again")
	}
	want := &pb.WatchRunRequest{
		RunId: "run_1", After: &pb.Cursor{Epoch: 3, Sequence: 2},
		StreamDetail: pb.StreamDetail_STREAM_DETAIL_MILESTONES, OnWait: pb.OnWait_ON_WAIT_CLOSE,
	}
	if got := r.watch(); !proto.Equal(got, want) {
		t.Errorf("watches %v", got)
	}
}

func TestEventsThatTheReaderHasAreDroppedAndHeartbeatsBringNothing(t *testing.T) {
	r := newTurnReader(&pb.RunTurnRequest{}, quick)
	r.apply(frameOf(1, started(1), words(2, "a")))
	update := r.apply(frameOf(1, words(2, "a"), words(3, "b")))
	if len(update.Events) != 1 || update.Events[0].GetSequence() != 3 {
		t.Errorf("update %v", update.Events)
	}
	if update := r.apply(&pb.RunTurnResponse{Epoch: 1, ThroughSequence: 9}); update != nil {
		t.Errorf("a heartbeat brought %v", update)
	}
	if got := r.cursor().GetSequence(); got != 9 {
		t.Errorf("the cursor stands at %d: a stream with fewer details skips numbers", got)
	}
}

func TestARewindMovesTheReaderBackAndTellsSo(t *testing.T) {
	r := newTurnReader(&pb.RunTurnRequest{}, quick)
	r.apply(frameOf(1, started(1), words(2, "a"), words(3, "lost")))
	in := frameOf(2, words(3, "b"))
	in.RewindToSequence = proto.Int64(2)
	update := r.apply(in)
	if update.RewindTo == nil || *update.RewindTo != 2 || len(update.Events) != 1 {
		t.Errorf("update %+v", update)
	}
	if want := (&pb.Cursor{Epoch: 2, Sequence: 3}); !proto.Equal(r.cursor(), want) {
		t.Errorf("cursor %v", r.cursor())
	}
}

func TestAnEventOfAnUnknownCaseMovesTheCursor(t *testing.T) {
	r := newTurnReader(&pb.RunTurnRequest{}, quick)
	update := r.apply(frameOf(1, started(1), &pb.RunEvent{Sequence: 2}))
	if len(update.Events) != 2 || r.cursor().GetSequence() != 2 {
		t.Errorf("update %v, cursor %v", update.Events, r.cursor())
	}
}

func TestOKIsTheProperEndOnlyAfterTheLastEventOrAWaitThatCloses(t *testing.T) {
	waiting := &pb.RunEvent{Sequence: 2, Event: &pb.RunEvent_RunWaiting{RunWaiting: &pb.RunWaiting{}}}
	resumed := &pb.RunEvent{Sequence: 3, Event: &pb.RunEvent_RunResumed{RunResumed: &pb.RunResumed{}}}
	closes := &pb.RunTurnRequest{OnWait: pb.OnWait_ON_WAIT_CLOSE}
	for name, each := range map[string]struct {
		request *pb.RunTurnRequest
		events  []*pb.RunEvent
		done    bool
	}{
		"finished":             {&pb.RunTurnRequest{}, []*pb.RunEvent{started(1), finished(2)}, true},
		"in the middle":        {&pb.RunTurnRequest{}, []*pb.RunEvent{started(1)}, false},
		"waiting, closes":      {closes, []*pb.RunEvent{started(1), waiting}, true},
		"waiting, stays":       {&pb.RunTurnRequest{}, []*pb.RunEvent{started(1), waiting}, false},
		"waited, went on":      {closes, []*pb.RunEvent{started(1), waiting, resumed}, false},
		"nothing after begins": {&pb.RunTurnRequest{}, nil, false},
	} {
		r := newTurnReader(each.request, quick)
		if each.events != nil {
			r.apply(frameOf(1, each.events...))
		}
		if _, done, err := r.cut(); done != each.done || err != nil {
			t.Errorf("%s: done %v, %v", name, done, err)
		}
	}
	behind := newWatchReader(&pb.WatchRunRequest{RunId: "run_1", After: &pb.Cursor{Epoch: 1, Sequence: 7}}, quick)
	if _, done, _ := behind.cut(); !done {
		t.Error("a reader that begins after the last event is sent no frame, and OK")
	}
}

func TestErrorsOfTheWayAreCutsAndThoseOfTheServerAreAnswers(t *testing.T) {
	for err, cut := range map[error]bool{
		status.Error(codes.Unavailable, "gone"):     true,
		fromServer(t, codes.Unavailable):            true,
		status.Error(codes.Internal, "RST_STREAM"):  true,
		status.Error(codes.Unknown, "stream broke"): true,
		status.Error(codes.Canceled, "proxy"):       true,
		fromServer(t, codes.Internal):               false,
		fromServer(t, codes.NotFound):               false,
		status.Error(codes.NotFound, "no route"):    false,
		errors.New("no status"):                     false,
	} {
		if got := isCut(err); got != cut {
			t.Errorf("%v: cut %v", err, got)
		}
	}
}

func TestAfterTheAttemptsTheStreamIsLostUnlessSomethingCameBetween(t *testing.T) {
	r := newTurnReader(&pb.RunTurnRequest{}, quick)
	gone := status.Error(codes.Unavailable, "gone")
	r.apply(frameOf(1, started(1)))
	for round := range 3 {
		for range 2 {
			if _, err := r.failed(gone); err != nil {
				t.Fatal(err)
			}
		}
		r.apply(frameOf(1, words(int64(round+2), "more")))
	}
	_, _ = r.failed(gone)
	_, _ = r.failed(gone)
	_, err := r.failed(gone)
	var lost *StreamLostError
	if !errors.As(err, &lost) || lost.RunID != "run_1" || lost.Cursor.GetSequence() != 4 || !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

func TestDelaysDoubleUpToTheLongestAndAreSpread(t *testing.T) {
	resume := Resume{Attempts: 99, InitialDelay: 100 * time.Millisecond, MaxDelay: time.Second}
	for failures, longest := range map[int]time.Duration{1: 100, 2: 200, 4: 800, 5: 1000, 60: 1000} {
		longest *= time.Millisecond
		for range 20 {
			if got := resume.delay(failures); got > longest || got < longest/2 {
				t.Errorf("after %d failures %v", failures, got)
			}
		}
	}
}
