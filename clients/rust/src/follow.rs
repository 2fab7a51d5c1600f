//! `follow`: the events of a run, across cut connections, until it has ended.
//!
//! It makes the calls; what a frame or an end means is decided in [`cursor`](crate::cursor).

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use futures_util::stream;
use tokio::time::{Instant, sleep};
use tonic::{Status, Streaming};

use crate::client::{Client, after, within};
use crate::cursor::{Frame, Reader, Request, Resume, Update};
use crate::error::Error;
use crate::v1::{RunTurnResponse, WatchRunResponse};

/// How a run is followed.
#[derive(Debug, Clone, Copy, Default)]
pub struct FollowOptions {
    /// Time over all calls. It is the deadline of the call, which `RunTurn` takes as a limit of the run. None unless said.
    pub timeout: Option<Duration>,
    /// How a cut stream is taken up again.
    pub resume: Resume,
}

/// What happens in a run, as a [`Stream`]. Dropping it cancels the call.
pub struct Updates(Pin<Box<dyn Stream<Item = Result<Update, Error>> + Send>>);

impl Stream for Updates {
    type Item = Result<Update, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}

impl Client {
    /// Runs a turn or watches a run, and gives what happens until `RunFinished` (or `RunWaiting` with
    /// `ON_WAIT_CLOSE`).
    ///
    /// A cut stream is taken up again where it stopped, by `WatchRun` once the run is known. A turn without a
    /// `request_id` gets one, so that this is safe. An error is the last item: [`Error::StreamLost`] after
    /// [`Resume::attempts`] calls in a row that brought nothing, else what the server said.
    #[must_use]
    pub fn follow(&self, request: impl Into<Request>, options: FollowOptions) -> Updates {
        self.updates(request.into(), options.resume, options.timeout.and_then(after))
    }

    pub(crate) fn updates(&self, request: Request, resume: Resume, deadline: Option<Instant>) -> Updates {
        let follower = Follower { client: self.clone(), reader: Reader::new(request, resume), deadline, call: None };
        Updates(Box::pin(stream::try_unfold(follower, |mut follower| async move {
            let update = within(follower.deadline, follower.next()).await?;
            Ok(update.map(|update| (update, follower)))
        })))
    }
}

enum Call {
    Turn(Streaming<RunTurnResponse>),
    Watch(Streaming<WatchRunResponse>),
}

struct Follower {
    client: Client,
    reader: Reader,
    deadline: Option<Instant>,
    call: Option<Call>,
}

impl Follower {
    async fn next(&mut self) -> Result<Option<Update>, Error> {
        while !self.reader.finished() {
            let delay = match self.frame().await {
                Ok(Some(frame)) => match self.reader.apply(frame) {
                    Some(update) => return Ok(Some(update)),
                    None => continue,
                },
                Ok(None) => self.reader.cut()?,
                Err(status) => Some(self.reader.failed(status)?),
            };
            self.call = None;
            match delay {
                None => break,
                Some(delay) => sleep(delay).await,
            }
        }
        Ok(None)
    }

    /// The next frame of the call, which is made first if there is none. `None` when it ended with OK.
    async fn frame(&mut self) -> Result<Option<Frame>, Status> {
        if self.call.is_none() {
            self.call = Some(self.begin().await?);
        }
        match &mut self.call {
            Some(Call::Turn(frames)) => Ok(frames.message().await?.map(Frame::from)),
            Some(Call::Watch(frames)) => Ok(frames.message().await?.map(Frame::from)),
            None => Ok(None),
        }
    }

    async fn begin(&self) -> Result<Call, Status> {
        let mut turns = self.client.turns();
        match self.reader.request() {
            Request::Turn(request) => {
                self.client.check(&*request)?;
                Ok(Call::Turn(turns.run_turn(self.with_timeout(*request)).await?.into_inner()))
            }
            Request::Watch(request) => Ok(Call::Watch(turns.watch_run(self.with_timeout(request)).await?.into_inner())),
        }
    }

    fn with_timeout<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        if let Some(deadline) = self.deadline {
            request.set_timeout(deadline.duration_since(Instant::now()));
        }
        request
    }
}
