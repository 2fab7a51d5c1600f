//! `run`: follows a turn and answers what it waits for.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::client::{Client, after};
use crate::cursor::{Resume, Update};
use crate::error::Error;
use crate::follow::{FollowOptions, Updates};
use crate::tools::{Answer, Answers, Decision};
use crate::v1::run_event::Event;
use crate::v1::{
    Approval, CancelRunRequest, Cursor, OnDisconnect, OnWait, RunTurnRequest, SubmitToolResultsRequest, WatchRunRequest,
};
use crate::view::RunView;

/// How long a run that is left may take to be told so.
const CANCEL_TIME: Duration = Duration::from_secs(5);

type Show<'a> = Box<dyn FnMut(&Update) + Send + 'a>;

/// What [`Client::run`] needs: functions for tools, a decision for approvals, and what to show.
#[derive(Default)]
pub struct RunOptions<'a> {
    follow: FollowOptions,
    answers: Answers<'a>,
    on_update: Option<Show<'a>>,
}

impl<'a> RunOptions<'a> {
    /// Answers nothing and shows nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls this function when the model calls the client tool of this name, which the turn must declare.
    ///
    /// The arguments are read from the model's JSON; what cannot be read is an error that the model is told, and so is
    /// an `Err`. A string as result is text for the model, any other value is JSON. Functions run concurrently, within
    /// the future of [`Client::run`].
    #[must_use]
    pub fn tool<A, R, E, F, Fut>(mut self, name: impl Into<String>, function: F) -> Self
    where
        A: DeserializeOwned,
        R: Serialize,
        E: Display,
        F: Fn(A) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Result<R, E>> + Send + 'a,
    {
        self.answers.tool(name.into(), function);
        self
    }

    /// Asks this function for every approval.
    #[must_use]
    pub fn approve<F, Fut>(mut self, function: F) -> Self
    where
        F: Fn(Approval) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Decision> + Send + 'a,
    {
        self.answers.approve(function);
        self
    }

    /// Shows this function every update as it comes.
    #[must_use]
    pub fn on_update(mut self, function: impl FnMut(&Update) + Send + 'a) -> Self {
        self.on_update = Some(Box::new(function));
        self
    }

    /// Time for the whole run, tools and people included.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.follow.timeout = Some(timeout);
        self
    }

    /// How a cut stream is taken up again.
    #[must_use]
    pub fn resume(mut self, resume: Resume) -> Self {
        self.follow.resume = resume;
        self
    }
}

impl Client {
    /// Runs a turn to its end and answers what it waits for. `on_wait` of the request is this function's own.
    ///
    /// Returns early, with [`RunView::waiting`] set, when the run waits for nothing that can be answered here. Dropping
    /// the future stops the functions and the run, unless its `on_disconnect` lets it go on.
    pub async fn run(&self, mut request: RunTurnRequest, options: RunOptions<'_>) -> Result<RunView, Error> {
        let deadline = options.follow.timeout.and_then(after);
        let resume = options.follow.resume;
        let mut driver = Driver::new(self.clone(), options, &request);
        // A stream that stays open could not be left without ending a stateless run.
        request.on_wait = OnWait::Close.into();
        let ended = driver.run(request, resume, deadline).await;
        match ended {
            Err(Error::DeadlineExceeded) => driver.left.cancel().await,
            Err(_) if driver.refused => driver.left.cancel().await,
            _ => driver.left.armed = false,
        }
        ended.map(|()| driver.view)
    }
}

/// Whether a run goes on when the stream that began it is left.
fn outlives_stream(request: &RunTurnRequest) -> bool {
    match request.on_disconnect() {
        OnDisconnect::Continue => true,
        OnDisconnect::Cancel => false,
        OnDisconnect::Unspecified => request.turn.as_ref().is_some_and(|turn| turn.session_id.is_some()),
    }
}

/// Tells the server that nobody waits for a run any more, if it is dropped while it is armed and the run has begun to
/// wait: by then no stream is open that would say so by its end. Leaving a `WatchRun` means nothing to the run.
struct CancelWhenLeft {
    client: Client,
    run_id: Option<String>,
    armed: bool,
}

impl CancelWhenLeft {
    /// Cancels the run if it is to be, and waits for the answer.
    async fn cancel(&mut self) {
        if let Some(asked) = self.ask() {
            asked.await;
        }
    }

    /// The call that cancels the run, once. That it cannot be made does not matter to who has left.
    fn ask(&mut self) -> Option<impl Future<Output = ()> + Send + 'static> {
        let run_id = self.run_id.take().filter(|_| self.armed)?;
        let client = self.client.with_deadline(CANCEL_TIME);
        Some(async move {
            let _ = client.cancel_run(CancelRunRequest { run_id, comment: String::new() }).await;
        })
    }
}

impl Drop for CancelWhenLeft {
    fn drop(&mut self) {
        if let Some(asked) = self.ask()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(asked);
        }
    }
}

type Works<'a> = FuturesUnordered<futures_util::future::BoxFuture<'a, Result<(), Error>>>;

/// Reads streams into a view and makes the answers meanwhile.
struct Driver<'a> {
    client: Client,
    answers: Answers<'a>,
    on_update: Option<Show<'a>>,
    works: Works<'a>,
    view: RunView,
    cursor: Cursor,
    left: CancelWhenLeft,
    resume: Resume,
    refused: bool, // an answer was: nobody goes on answering
}

impl<'a> Driver<'a> {
    fn new(client: Client, options: RunOptions<'a>, request: &RunTurnRequest) -> Self {
        let left = CancelWhenLeft { client: client.clone(), run_id: None, armed: !outlives_stream(request) };
        Self {
            left,
            resume: options.follow.resume,
            refused: false,
            client,
            answers: options.answers,
            on_update: options.on_update,
            works: Works::new(),
            view: RunView::default(),
            cursor: Cursor::default(),
        }
    }

    /// The turn until it ends or waits, then what follows its answers.
    async fn run(&mut self, request: RunTurnRequest, resume: Resume, deadline: Option<Instant>) -> Result<(), Error> {
        let stream_detail = request.stream_detail;
        self.drive(self.client.updates(request.into(), resume, deadline), false).await?;
        let Some(run_id) = self.view.run_id().filter(|_| self.answerable()).map(str::to_owned) else {
            return Ok(());
        };
        let on_wait = OnWait::KeepOpen.into();
        let watch = WatchRunRequest { run_id, after: Some(self.cursor), stream_detail, on_wait };
        self.drive(self.client.updates(watch.into(), resume, deadline), true).await
    }

    /// Whether the run waits for something that is, was or can be answered.
    fn answerable(&self) -> bool {
        self.view.waiting().is_some_and(|waiting| self.answers.cover(&waiting))
    }

    /// Reads a stream to its end; with `leave`, only until the run waits for nothing that can be answered.
    async fn drive(&mut self, mut updates: Updates, leave: bool) -> Result<(), Error> {
        loop {
            tokio::select! {
                update = updates.next() => match update.transpose()? {
                    None => return Ok(()),
                    Some(update) => {
                        if self.take(update) && leave && self.stuck() {
                            return Ok(());
                        }
                    }
                },
                Some(answered) = self.works.next() => {
                    self.refused = answered.is_err();
                    answered?;
                }
            }
        }
    }

    /// Takes an update; whether what the run waits for may have changed.
    fn take(&mut self, update: Update) -> bool {
        if let Some(show) = &mut self.on_update {
            show(&update);
        }
        let changed = update.events.iter().any(|event| {
            let bearing = event.event.as_ref();
            matches!(bearing, Some(Event::RunWaiting(_) | Event::ApprovalResolved(_) | Event::ToolCallFinished(_)))
        });
        self.cursor = update.cursor;
        self.view.apply(update);
        if changed {
            self.begin();
        }
        changed
    }

    fn stuck(&self) -> bool {
        self.view.waiting().is_some_and(|waiting| !self.answers.cover(&waiting))
    }

    fn begin(&mut self) {
        let (Some(run_id), Some(waiting)) = (self.view.run_id(), self.view.waiting()) else { return };
        self.left.run_id = Some(run_id.to_owned());
        for work in self.answers.begin(run_id, waiting) {
            let (client, run_id) = (self.client.clone(), run_id.to_owned());
            let resume = self.resume;
            self.works.push(async move { send(&client, &resume, run_id, work.await).await }.boxed());
        }
    }
}

/// Sends an answer, with as many attempts as the stream has: a server that starts again is away for seconds. That the run
/// has ended or that somebody else was first is no error: the stream says so.
async fn send(client: &Client, resume: &Resume, run_id: String, answer: Answer) -> Result<(), Error> {
    let mut failures = 0;
    let sent = loop {
        let sent = match &answer {
            Answer::Result(result) => {
                let request = SubmitToolResultsRequest { run_id: run_id.clone(), results: vec![(**result).clone()] };
                client.submit_tool_results(request).await.map(drop)
            }
            Answer::Decision(request) => client.resolve_approval((**request).clone()).await.map(drop),
        };
        failures += 1;
        match &sent {
            Err(error) if error.is_unavailable() && failures <= resume.attempts => sleep(resume.delay(failures)).await,
            _ => break sent,
        }
    };
    match sent {
        Err(error) => match error.reason() {
            Some("RUN_SETTLED" | "APPROVAL_ALREADY_RESOLVED" | "APPROVAL_NOT_FOUND") => Ok(()),
            _ => Err(error),
        },
        Ok(()) => Ok(()),
    }
}
