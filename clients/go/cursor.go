package turnwire

import (
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "turnwire.dev/go/turnwire/v1"
)

// Where a reader of a run stands, and what a stream that ended means for it.
// All rules of resuming are here, without a network, a clock or a goroutine.

// Resume says how often and how fast a cut stream is taken up again.
type Resume struct {
	// Attempts counts calls in a row that bring nothing new; 0 never resumes.
	Attempts int
	// InitialDelay is the delay before the first such attempt. It doubles with
	// each, and a random part of up to half is taken off.
	InitialDelay time.Duration
	// MaxDelay is the longest delay.
	MaxDelay time.Duration
}

// DefaultResume makes eight attempts, 0.1 to 5 seconds apart.
var DefaultResume = Resume{Attempts: 8, InitialDelay: 100 * time.Millisecond, MaxDelay: 5 * time.Second}

// delay is how long to wait after this many calls in a row that brought
// nothing, from 1.
func (r Resume) delay(failures int) time.Duration {
	longest := r.MaxDelay
	if doublings := failures - 1; doublings < 30 {
		longest = min(r.InitialDelay<<doublings, r.MaxDelay)
	}
	return time.Duration(float64(longest) * (1 - mathrand.Float64()/2)) //nolint:gosec // spreads load, hides nothing
}

// Update is what one frame brought.
type Update struct {
	// RewindTo, when set, says to discard first every event after this sequence
	// number: another server has taken the run over, and those events never
	// became part of it.
	RewindTo *int64
	// Events in order; perhaps none.
	Events []*pb.RunEvent
	// Cursor is the place after them. A later WatchRun goes on from it.
	Cursor *pb.Cursor
}

// StreamLostError says that the stream was cut and could not be taken up again
// in the attempts allowed. The run may still go on.
type StreamLostError struct {
	// RunID is empty when the server never told it.
	RunID string
	// Cursor is where the reader stood.
	Cursor *pb.Cursor
	// Why is the last error of a call; nil when the stream just ended.
	Why error
}

func (e *StreamLostError) Error() string {
	why := ""
	if e.Why != nil {
		why = fmt.Sprintf(" (%v)", e.Why)
	}
	if e.RunID == "" {
		return "turnwire: no stream was begun: the server could not be reached" + why
	}
	return fmt.Sprintf("turnwire: run %s: cut after event %d and not resumed%s", e.RunID, e.Cursor.GetSequence(), why)
}

// Unwrap gives the last error of a call.
func (e *StreamLostError) Unwrap() error { return e.Why }

// frame is a frame of either stream.
type frame interface {
	GetEvents() []*pb.RunEvent
	GetEpoch() int64
	GetThroughSequence() int64
}

// reader reads one run through any number of calls. turn or watch says what to
// call; apply takes what it brings; cut and failed say what its end means.
type reader struct {
	resume   Resume
	request  *pb.RunTurnRequest // nil when an existing run is watched
	detail   pb.StreamDetail
	onWait   pb.OnWait
	runID    string
	epoch    int64
	sequence int64
	failures int
	waiting  bool
	atEnd    bool // perhaps: until a frame comes
	finished bool
}

func newTurnReader(request *pb.RunTurnRequest, resume Resume) *reader {
	request = proto.CloneOf(request)
	if request.Turn == nil {
		request.Turn = &pb.TurnSpec{}
	}
	if request.Turn.GetRequestId() == "" {
		// Without a key, trying again before the first answer could start a
		// second run.
		request.Turn.RequestId = newRequestID()
	}
	return newReader(request, request.GetAfter(), request.GetStreamDetail(), request.GetOnWait(), resume)
}

func newWatchReader(request *pb.WatchRunRequest, resume Resume) *reader {
	r := newReader(nil, request.GetAfter(), request.GetStreamDetail(), request.GetOnWait(), resume)
	r.runID = request.GetRunId()
	return r
}

func newReader(turn *pb.RunTurnRequest, after *pb.Cursor, detail pb.StreamDetail, onWait pb.OnWait, resume Resume) *reader {
	return &reader{
		resume: resume, request: turn, detail: detail, onWait: onWait,
		epoch: after.GetEpoch(), sequence: after.GetSequence(), atEnd: after.GetSequence() > 0,
	}
}

func (r *reader) cursor() *pb.Cursor { return &pb.Cursor{Epoch: r.epoch, Sequence: r.sequence} }

// turn is the next call while the run is not known, else nil: then watch is.
func (r *reader) turn() *pb.RunTurnRequest {
	if r.request == nil || r.runID != "" {
		return nil
	}
	if r.sequence > 0 {
		r.request.After = r.cursor()
	}
	return r.request
}

func (r *reader) watch() *pb.WatchRunRequest {
	return &pb.WatchRunRequest{RunId: r.runID, After: r.cursor(), StreamDetail: r.detail, OnWait: r.onWait}
}

// apply is what a frame brings; nil for a heartbeat that brings nothing.
func (r *reader) apply(in frame) *Update {
	r.atEnd = false
	epoch, sequence := r.epoch, r.sequence
	rewindTo := rewindOf(in)
	if rewindTo != nil {
		r.sequence = min(r.sequence, *rewindTo)
	}
	var events []*pb.RunEvent
	for _, event := range in.GetEvents() {
		if event.GetSequence() > r.sequence {
			r.sequence = event.GetSequence()
			r.see(event)
			events = append(events, event)
		}
	}
	if in.GetEpoch() != 0 {
		r.epoch = in.GetEpoch()
	}
	r.sequence = max(r.sequence, in.GetThroughSequence())
	if r.epoch != epoch || r.sequence != sequence {
		r.failures = 0
	}
	if len(events) == 0 && rewindTo == nil {
		return nil
	}
	return &Update{RewindTo: rewindTo, Events: events, Cursor: r.cursor()}
}

func (r *reader) see(event *pb.RunEvent) {
	switch event.GetEvent().(type) {
	case *pb.RunEvent_RunWaiting:
		r.waiting = true // until it goes on: more may be told meanwhile
	case *pb.RunEvent_RunResumed:
		r.waiting = false
	case *pb.RunEvent_RunStarted:
		r.runID = event.GetRunStarted().GetRunId()
	case *pb.RunEvent_RunFinished:
		r.finished = true
	}
}

// cut says what the end of a call with OK means: done when it was its proper
// end, else the delay before the next call. A reader that begins after the last
// event is sent no frame: OK is then all that is left to say.
func (r *reader) cut() (delay time.Duration, done bool, err error) {
	if r.finished || r.atEnd || (r.waiting && r.onWait == pb.OnWait_ON_WAIT_CLOSE) {
		return 0, true, nil
	}
	delay, err = r.next(nil)
	return delay, false, err
}

// failed says how long to wait after a call that ended with an error, or gives
// the error when calling again would only bring it again.
func (r *reader) failed(err error) (time.Duration, error) {
	if !isCut(err) {
		return 0, err
	}
	return r.next(err)
}

func (r *reader) next(why error) (time.Duration, error) {
	r.failures++
	if r.failures > r.resume.Attempts {
		return 0, &StreamLostError{RunID: r.runID, Cursor: r.cursor(), Why: why}
	}
	return r.resume.delay(r.failures), nil
}

// isCut tells a connection that broke from what the server thinks of the call:
// every error of a server has details, and one made on the way to it has none.
func isCut(err error) bool {
	told, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch told.Code() {
	case codes.Unavailable:
		return true
	case codes.Canceled, codes.Internal, codes.Unknown:
		return len(told.Proto().GetDetails()) == 0
	default:
		return false
	}
}

func rewindOf(in frame) *int64 {
	switch in := in.(type) {
	case *pb.RunTurnResponse:
		return in.RewindToSequence
	case *pb.WatchRunResponse:
		return in.RewindToSequence
	default:
		panic(errors.ErrUnsupported)
	}
}

// newRequestID is a random UUID (RFC 9562, version 4).
func newRequestID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
