package turnwire

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"google.golang.org/grpc"

	pb "turnwire.dev/go/turnwire/v1"
)

// Follow runs a turn and gives what happens until RunFinished, or RunWaiting
// with ON_WAIT_CLOSE. A cut stream is taken up again where it stopped. A turn
// without a request_id gets one, so that this is safe.
//
// The deadline of ctx holds over all calls, and RunTurn takes it as a limit of
// the run. Ending the loop, or ctx, cancels the call, and with it the run as its
// on_disconnect says. The last pair has the error, if there is one: a *Error of
// the server, a *StreamLostError, or that of ctx.
func (c *Client) Follow(ctx context.Context, request *pb.RunTurnRequest) iter.Seq2[*Update, error] {
	return c.follow(ctx, newTurnReader(request, c.resume))
}

// Watch follows a run that exists, settled or not, from the cursor of the
// request on. Ending it does nothing to the run.
func (c *Client) Watch(ctx context.Context, request *pb.WatchRunRequest) iter.Seq2[*Update, error] {
	return c.follow(ctx, newWatchReader(request, c.resume))
}

func (c *Client) follow(ctx context.Context, r *reader) iter.Seq2[*Update, error] {
	return func(yield func(*Update, error) bool) {
		for {
			left, err := c.once(ctx, r, yield)
			if left {
				return
			}
			delay, done, err := ended(ctx, r, err)
			if err == nil && !done {
				err = sleep(ctx, delay)
			}
			if err != nil {
				yield(nil, err)
			}
			if done || err != nil {
				return
			}
		}
	}
}

// ended says what the end of one call means.
func ended(ctx context.Context, r *reader, err error) (delay time.Duration, done bool, failure error) {
	if r.finished {
		return 0, true, nil
	}
	if err == nil {
		return r.cut()
	}
	if ctx.Err() != nil {
		return 0, false, ctx.Err()
	}
	delay, failure = r.failed(err)
	return delay, false, AsError(failure)
}

// once makes one call to its end. left says that the loop was left.
func (c *Client) once(ctx context.Context, r *reader, yield func(*Update, error) bool) (left bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next, err := c.open(ctx, r)
	for err == nil && !r.finished {
		var in frame
		if in, err = next(); err != nil {
			break
		}
		if update := r.apply(in); update != nil && !yield(update, nil) {
			return true, nil
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return false, err
}

func (c *Client) open(ctx context.Context, r *reader) (func() (frame, error), error) {
	if turn := r.turn(); turn != nil {
		stream, err := c.Turns.RunTurn(ctx, turn)
		return frames(stream), err
	}
	stream, err := c.Turns.WatchRun(ctx, r.watch())
	return frames(stream), err
}

func frames[F any, P interface {
	*F
	frame
}](stream grpc.ServerStreamingClient[F]) func() (frame, error) {
	return func() (frame, error) {
		in, err := stream.Recv()
		return P(in), err
	}
}
