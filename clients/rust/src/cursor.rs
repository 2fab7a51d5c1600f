//! Where a reader of a run stands, and what a stream that ended means for it.
//!
//! All rules of resuming, without a network, a clock or a task. It knows the messages of the contract and status codes,
//! and nothing of calls.

use std::time::Duration;

use tonic::{Code, Status};
use uuid::Uuid;

use crate::error::{Error, StreamLost};
use crate::v1::run_event::Event;
use crate::v1::{Cursor, OnWait, RunEvent, RunTurnRequest, RunTurnResponse, WatchRunRequest, WatchRunResponse};

/// How often and how fast a cut stream is taken up again.
///
/// The delay before the n-th attempt in a row is `initial_delay * 2^(n-1)`, at most `max_delay`, and shortened by a
/// random part of up to half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resume {
    /// Calls in a row that may bring nothing new; 0 never resumes.
    pub attempts: u32,
    /// Longest wait before the first of them.
    pub initial_delay: Duration,
    /// Longest wait before any.
    pub max_delay: Duration,
}

impl Default for Resume {
    fn default() -> Self {
        Self { attempts: 8, initial_delay: Duration::from_millis(100), max_delay: Duration::from_secs(5) }
    }
}

impl Resume {
    /// The wait after this many calls in a row that brought nothing, from 1.
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        let doubled = self.initial_delay.saturating_mul(1 << failures.saturating_sub(1).min(30));
        doubled.min(self.max_delay).mul_f64(1.0 - fastrand::f64() / 2.0)
    }
}

/// What a reader calls: a new turn, or a run that exists.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// `RunTurn`.
    Turn(Box<RunTurnRequest>),
    /// `WatchRun`.
    Watch(WatchRunRequest),
}

impl From<RunTurnRequest> for Request {
    fn from(request: RunTurnRequest) -> Self {
        Self::Turn(Box::new(request))
    }
}

impl From<WatchRunRequest> for Request {
    fn from(request: WatchRunRequest) -> Self {
        Self::Watch(request)
    }
}

/// A frame of either stream; they are the same on the wire.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Frame {
    /// Events since the frame before.
    pub events: Vec<RunEvent>,
    /// Epoch in which the frame was made.
    pub epoch: i64,
    /// Up to here nothing is missing.
    pub through_sequence: i64,
    /// Discard what comes after this one first.
    pub rewind_to: Option<i64>,
}

impl From<RunTurnResponse> for Frame {
    fn from(frame: RunTurnResponse) -> Self {
        Self {
            events: frame.events,
            epoch: frame.epoch,
            through_sequence: frame.through_sequence,
            rewind_to: frame.rewind_to_sequence,
        }
    }
}

impl From<WatchRunResponse> for Frame {
    fn from(frame: WatchRunResponse) -> Self {
        Self {
            events: frame.events,
            epoch: frame.epoch,
            through_sequence: frame.through_sequence,
            rewind_to: frame.rewind_to_sequence,
        }
    }
}

/// What one frame brought.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// New events, perhaps none. `event` is `None` in one of a kind that this version of the contract does not know.
    pub events: Vec<RunEvent>,
    /// When set, first discard every event after this sequence number: another server took the run over, and those
    /// events never became part of it.
    pub rewind_to: Option<i64>,
    /// The place after the events.
    pub cursor: Cursor,
}

/// Reads one run through any number of calls: [`request`](Self::request) says what to call, [`apply`](Self::apply)
/// takes what it brings, [`cut`](Self::cut) and [`failed`](Self::failed) say what its end means.
#[derive(Debug)]
pub struct Reader {
    resume: Resume,
    turn: Option<Box<RunTurnRequest>>,
    run_id: Option<String>,
    stream_detail: i32,
    on_wait: i32,
    cursor: Cursor,
    failures: u32,
    waiting: bool,
    at_end: bool,
    finished: bool,
}

impl Reader {
    /// A reader at the cursor of the request. A turn without a `request_id` gets one: trying again before the first
    /// answer could else start a second run.
    #[must_use]
    pub fn new(request: Request, resume: Resume) -> Self {
        let (turn, run_id, stream_detail, on_wait, after) = match request {
            Request::Turn(mut request) => {
                let turn = request.turn.get_or_insert_default();
                if turn.request_id.is_empty() {
                    turn.request_id = Uuid::new_v4().to_string();
                }
                let (detail, on_wait, after) = (request.stream_detail, request.on_wait, request.after);
                (Some(request), None, detail, on_wait, after)
            }
            Request::Watch(request) => {
                (None, Some(request.run_id), request.stream_detail, request.on_wait, request.after)
            }
        };
        let cursor = after.unwrap_or_default();
        // Perhaps behind the last event: until a frame comes.
        let at_end = cursor.sequence > 0;
        Self {
            resume,
            turn,
            run_id,
            stream_detail,
            on_wait,
            cursor,
            failures: 0,
            waiting: false,
            at_end,
            finished: false,
        }
    }

    /// The run, once it is known.
    #[must_use]
    pub fn run_id(&self) -> Option<&str> {
        self.run_id.as_deref()
    }

    /// Where the reader stands.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Whether the last event of the run has come.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.finished
    }

    /// The next call: `RunTurn` until the run is known, then `WatchRun`. Both go on after the cursor.
    #[must_use]
    pub fn request(&self) -> Request {
        match (&self.turn, &self.run_id) {
            (Some(turn), None) => {
                let mut turn = turn.clone();
                if self.cursor.sequence > 0 {
                    turn.after = Some(self.cursor);
                }
                Request::Turn(turn)
            }
            (_, run_id) => Request::Watch(WatchRunRequest {
                run_id: run_id.clone().unwrap_or_default(),
                after: Some(self.cursor),
                stream_detail: self.stream_detail,
                on_wait: self.on_wait,
            }),
        }
    }

    /// What the frame brings; `None` for a heartbeat that brings nothing.
    pub fn apply(&mut self, frame: Frame) -> Option<Update> {
        self.at_end = false;
        if let Some(to) = frame.rewind_to {
            self.cursor.sequence = self.cursor.sequence.min(to);
        }
        let before = self.cursor;
        let mut events = Vec::with_capacity(frame.events.len());
        for event in frame.events {
            if event.sequence > self.cursor.sequence {
                self.cursor.sequence = event.sequence;
                self.see(event.event.as_ref());
                events.push(event);
            }
        }
        if frame.epoch != 0 {
            self.cursor.epoch = frame.epoch;
        }
        self.cursor.sequence = self.cursor.sequence.max(frame.through_sequence);
        if self.cursor != before {
            self.failures = 0;
        }
        if events.is_empty() && frame.rewind_to.is_none() {
            return None;
        }
        Some(Update { events, rewind_to: frame.rewind_to, cursor: self.cursor })
    }

    /// The call ended with OK. `None` when that was its proper end, else the time until the next one.
    ///
    /// A reader that begins after the last event is sent no frame: OK is then all that is left to say.
    pub fn cut(&mut self) -> Result<Option<Duration>, StreamLost> {
        let closed = self.waiting && self.on_wait == OnWait::Close as i32;
        if self.finished || self.at_end || closed {
            return Ok(None);
        }
        self.next_delay(None).map(Some)
    }

    /// The call ended with an error: the time until the next one, or what to tell the caller.
    pub fn failed(&mut self, status: Status) -> Result<Duration, Error> {
        if is_cut(&status) { Ok(self.next_delay(Some(status))?) } else { Err(status.into()) }
    }

    fn next_delay(&mut self, why: Option<Status>) -> Result<Duration, StreamLost> {
        self.failures += 1;
        if self.failures > self.resume.attempts {
            return Err(StreamLost { run_id: self.run_id.clone(), cursor: self.cursor, why });
        }
        Ok(self.resume.delay(self.failures))
    }

    fn see(&mut self, event: Option<&Event>) {
        match event {
            // Until it goes on: more may be told meanwhile.
            Some(Event::RunWaiting(_)) => self.waiting = true,
            Some(Event::RunResumed(_)) => self.waiting = false,
            Some(Event::RunStarted(started)) => self.run_id = Some(started.run_id.clone()),
            Some(Event::RunFinished(_)) => self.finished = true,
            _ => {}
        }
    }
}

/// Whether an error says that the connection broke, rather than what the server thinks of the call: every error of a
/// Turnwire server has details, and one made on the way to it has none.
fn is_cut(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable => true,
        Code::Cancelled | Code::Internal | Code::Unknown => status.details().is_empty(),
        _ => false,
    }
}
