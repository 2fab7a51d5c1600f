//! What a call of this crate may end with.
//!
//! ```text
//! SetupError           no client can be made of what was given
//! Error
//!   Turnwire           the server, or something on the way to it, refused the call
//!   StreamLost         a stream was cut and not taken up again
//!   DeadlineExceeded   the time that the caller gave is over
//! ```

use std::collections::HashMap;
use std::error::Error as _;
use std::time::Duration;

use tonic::{Code, Status, TimeoutExpired};
use tonic_types::StatusExt;

use crate::v1::Cursor;

/// What a call may end with. A run that failed is none of it: that is an outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call was refused.
    #[error(transparent)]
    Turnwire(#[from] Box<TurnwireError>),
    /// A stream was cut and not taken up again.
    #[error(transparent)]
    StreamLost(#[from] Box<StreamLost>),
    /// The time that the caller gave is over.
    #[error("the deadline is exceeded")]
    DeadlineExceeded,
}

/// A call that was refused, in the words of the contract.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}: {message}{}", code_name(*code), if reason.is_empty() { String::new() } else { format!(" ({reason})") })]
pub struct TurnwireError {
    /// Status code of gRPC.
    pub code: Code,
    /// For people; never the reason alone.
    pub message: String,
    /// A name of the contract's `Reason` without its prefix, such as `AGENT_NOT_FOUND`. Empty when the error is none
    /// of the server's.
    pub reason: String,
    /// Whose reason it is: `turnwire.v1`.
    pub domain: String,
    /// What goes with the reason.
    pub metadata: HashMap<String, String>,
    /// When trying again makes sense, if the server knows.
    pub retry_delay: Option<Duration>,
    /// The status as it came, with all its details.
    #[source]
    pub status: Status,
}

/// A stream that was cut and could not be taken up again in the attempts allowed. The run may still go on.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}{}", lost_words(run_id.as_deref(), cursor), why.as_ref().map(why_words).unwrap_or_default())]
pub struct StreamLost {
    /// `None` when the server never told it.
    pub run_id: Option<String>,
    /// A later `WatchRun` from here goes on where this stream stopped.
    pub cursor: Cursor,
    /// The last error, when the last call ended with one.
    #[source]
    pub why: Option<Status>,
}

/// No client can be made of what was given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The target is no address, or its TLS settings cannot be used.
    #[error("no usable target")]
    Target(#[from] tonic::transport::Error),
    /// An `https` URL, and this crate was built without its feature `tls`.
    #[error("the feature tls is off")]
    NoTls,
    /// The token has characters that a header cannot carry.
    #[error("no usable token")]
    Token(#[from] tonic::metadata::errors::InvalidMetadataValue),
}

impl Error {
    /// The contract's reason for a refusal, such as `AGENT_NOT_FOUND`.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Turnwire(error) if !error.reason.is_empty() => Some(&error.reason),
            _ => None,
        }
    }

    /// Whether nobody answered, so that the same may be asked again.
    pub(crate) fn is_unavailable(&self) -> bool {
        matches!(self, Self::Turnwire(refused) if refused.code == Code::Unavailable)
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        // What the channel says of a deadline that passed here is CANCELLED.
        let passed_here = status.source().is_some_and(<dyn std::error::Error>::is::<TimeoutExpired>);
        if status.code() == Code::DeadlineExceeded || passed_here {
            return Self::DeadlineExceeded;
        }
        Self::Turnwire(Box::new(status.into()))
    }
}

impl From<StreamLost> for Error {
    fn from(lost: StreamLost) -> Self {
        Self::StreamLost(Box::new(lost))
    }
}

impl From<Status> for TurnwireError {
    fn from(status: Status) -> Self {
        let info = status.get_details_error_info();
        let (reason, domain, metadata) = info.map(|info| (info.reason, info.domain, info.metadata)).unwrap_or_default();
        Self {
            code: status.code(),
            message: status.message().to_owned(),
            reason,
            domain,
            metadata,
            retry_delay: status.get_details_retry_info().and_then(|info| info.retry_delay),
            status,
        }
    }
}

/// The name of a code as the specification of gRPC writes it.
#[must_use]
pub fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

fn lost_words(run_id: Option<&str>, cursor: &Cursor) -> String {
    match run_id {
        None => "no stream was begun: the server could not be reached".to_owned(),
        Some(run_id) => format!("run {run_id}: cut after event {} and not resumed", cursor.sequence),
    }
}

fn why_words(status: &Status) -> String {
    format!(" ({}: {})", code_name(status.code()), status.message())
}
