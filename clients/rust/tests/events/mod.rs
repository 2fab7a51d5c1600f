//! Events as a server would send them, for the tests beside this file.
#![allow(dead_code)] // each test file uses its part

use turnwire::Update;
use turnwire::cursor::Frame;
use turnwire::v1::part::Content;
use turnwire::v1::run_event::Event;
use turnwire::v1::{
    Approval, ApprovalResolved, Cursor, Message, Outcome, OutcomeKind, Part, RunEvent, RunFinished, RunStarted,
    RunWaiting, TextDelta,
};

pub fn at(sequence: i64, iteration: i32, event: Event) -> RunEvent {
    RunEvent { sequence, iteration, event: Some(event), ..RunEvent::default() }
}

pub fn started() -> RunEvent {
    at(1, 0, Event::RunStarted(RunStarted { run_id: "run-1".into(), ..RunStarted::default() }.into()))
}

pub fn text(sequence: i64, iteration: i32, text: &str) -> RunEvent {
    at(sequence, iteration, Event::TextDelta(TextDelta { part_id: "part-1".into(), text: text.into() }))
}

pub fn part(text: &str) -> Part {
    Part { part_id: "part-1".into(), content: Some(Content::Text(text.into())) }
}

pub fn finished(sequence: i64, text: &str) -> RunEvent {
    let outcome = Outcome { kind: OutcomeKind::Answered.into(), ..Outcome::default() };
    let message = Message { parts: vec![part(text)], ..Message::default() };
    let finished = RunFinished { outcome: Some(outcome), message: Some(message), ..RunFinished::default() };
    at(sequence, 0, Event::RunFinished(finished.into()))
}

pub fn waiting(sequence: i64, only_new: bool, approval_ids: &[&str]) -> RunEvent {
    let approvals =
        approval_ids.iter().map(|id| Approval { approval_id: (*id).into(), ..Approval::default() }).collect();
    at(sequence, 0, Event::RunWaiting(RunWaiting { approvals, only_new, ..RunWaiting::default() }))
}

pub fn resolved(sequence: i64, approval_id: &str) -> RunEvent {
    let resolved = ApprovalResolved { approval_id: approval_id.into(), ..ApprovalResolved::default() };
    at(sequence, 0, Event::ApprovalResolved(resolved))
}

/// A case of a later contract: it comes as an event without one.
pub fn unknown(sequence: i64) -> RunEvent {
    RunEvent { sequence, ..RunEvent::default() }
}

/// A frame of the first epoch that is complete through its last event.
pub fn frame(events: impl Into<Vec<RunEvent>>) -> Frame {
    let events = events.into();
    let through_sequence = events.last().map_or(0, |event| event.sequence);
    Frame { events, epoch: 1, through_sequence, rewind_to: None }
}

pub fn update(events: impl Into<Vec<RunEvent>>) -> Update {
    Update { events: events.into(), rewind_to: None, cursor: Cursor::default() }
}
