package turnwire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Error is what a server says when a call fails. A run that exists ends in band
// instead: its outcome says what happened.
type Error struct {
	// Code of the status.
	Code codes.Code
	// Message for people.
	Message string
	// Reason for programs, such as "AGENT_NOT_FOUND"; empty when the transport
	// failed before a server answered. See turnwirev1.Reason.
	Reason string
	// Domain of the reason, "turnwire.v1".
	Domain string
	// Metadata says what the reason is about.
	Metadata map[string]string
	// RetryDelay is how long to wait before trying again, when the server says so.
	RetryDelay time.Duration

	cause error
}

func (e *Error) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("turnwire: %s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("turnwire: %s (%s): %s", e.Code, e.Reason, e.Message)
}

// Unwrap gives the gRPC error.
func (e *Error) Unwrap() error { return e.cause }

// Is makes errors.Is work with context.Canceled and context.DeadlineExceeded.
func (e *Error) Is(target error) bool {
	switch target {
	case context.Canceled:
		return e.Code == codes.Canceled
	case context.DeadlineExceeded:
		return e.Code == codes.DeadlineExceeded
	default:
		return false
	}
}

// AsError reads a gRPC error; what is none, and nil, come back as they are. The
// methods of Client return such errors already; it is for calls made with a stub.
func AsError(err error) error {
	if typed := (*Error)(nil); err == nil || errors.As(err, &typed) {
		return err
	}
	told, ok := status.FromError(err)
	if !ok {
		return err
	}
	read := &Error{Code: told.Code(), Message: told.Message(), cause: err}
	for _, detail := range told.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			read.Reason, read.Domain, read.Metadata = detail.GetReason(), detail.GetDomain(), detail.GetMetadata()
		case *errdetails.RetryInfo:
			read.RetryDelay = detail.GetRetryDelay().AsDuration()
		}
	}
	return read
}
