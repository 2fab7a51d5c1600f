//! A run as far as it has been seen: the fold that most callers want over the updates of `follow`.

use std::collections::HashSet;

use crate::cursor::Update;
use crate::v1::part::Content;
use crate::v1::run_event::Event;
use crate::v1::{Message, Outcome, RunEvent, RunFinished, RunStarted, RunWaiting, Usage};

/// Keeps the events of a run and answers the questions that callers ask of them.
///
/// Memory grows with the run; code that only shows text as it comes needs no view, but must then handle
/// [`Update::rewind_to`] itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunView {
    events: Vec<RunEvent>,
}

impl RunView {
    /// Takes one update, in the order in which they come.
    pub fn apply(&mut self, update: Update) {
        if let Some(to) = update.rewind_to {
            while self.events.last().is_some_and(|event| event.sequence > to) {
                self.events.pop();
            }
        }
        self.events.extend(update.events);
    }

    /// The events that are part of the run, in order.
    #[must_use]
    pub fn events(&self) -> &[RunEvent] {
        &self.events
    }

    /// The first event, once it is there.
    #[must_use]
    pub fn started(&self) -> Option<&RunStarted> {
        match self.events.first()?.event.as_ref()? {
            Event::RunStarted(started) => Some(started),
            _ => None,
        }
    }

    /// The last event, once it is there.
    #[must_use]
    pub fn finished(&self) -> Option<&RunFinished> {
        match self.events.last()?.event.as_ref()? {
            Event::RunFinished(finished) => Some(finished),
            _ => None,
        }
    }

    /// The run's id, once it is known.
    #[must_use]
    pub fn run_id(&self) -> Option<&str> {
        self.started().map(|started| started.run_id.as_str())
    }

    /// All that the run waits for from its caller, while it does.
    #[must_use]
    pub fn waiting(&self) -> Option<RunWaiting> {
        let mut settled = HashSet::new();
        let mut told = Vec::new(); // the newest first
        for event in self.events.iter().rev() {
            match event.event.as_ref() {
                Some(Event::RunWaiting(waiting)) => {
                    told.push(waiting);
                    if !waiting.only_new {
                        break;
                    }
                }
                Some(Event::RunResumed(_) | Event::RunFinished(_)) if told.is_empty() => return None,
                Some(Event::ApprovalResolved(resolved)) => {
                    settled.insert(resolved.approval_id.as_str());
                }
                Some(Event::ToolCallFinished(finished)) => {
                    settled.extend(finished.result.as_ref().map(|result| result.call_id.as_str()));
                }
                _ => {}
            }
        }
        let mut whole = RunWaiting { expire_time: told.first()?.expire_time, ..RunWaiting::default() };
        for waiting in told.into_iter().rev() {
            let approvals = waiting.approvals.iter().filter(|item| !settled.contains(item.approval_id.as_str()));
            whole.approvals.extend(approvals.cloned());
            let calls = waiting.client_tool_calls.iter().filter(|call| !settled.contains(call.call_id.as_str()));
            whole.client_tool_calls.extend(calls.cloned());
        }
        Some(whole)
    }

    /// How the run ended; `None` while it goes on.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        self.finished()?.outcome.as_ref()
    }

    /// The final message, when the run has ended with one.
    #[must_use]
    pub fn message(&self) -> Option<&Message> {
        self.finished()?.message.as_ref()
    }

    /// The JSON text that matches the output format, when one was asked for and the run has ended with it.
    #[must_use]
    pub fn structured_output_json(&self) -> Option<&str> {
        self.finished()?.structured_output_json.as_deref()
    }

    /// The usage of the whole run, when it has ended.
    #[must_use]
    pub fn usage(&self) -> Option<&Usage> {
        self.finished()?.usage.as_ref()
    }

    /// The text of the answer: of the final message, or else of the newest iteration as far as it came.
    #[must_use]
    pub fn text(&self) -> String {
        if let Some(message) = self.message() {
            return message.parts.iter().filter_map(|part| text_of(part.content.as_ref())).collect();
        }
        let newest = self.events.iter().map(|event| event.iteration).max().unwrap_or_default();
        let mut parts: Vec<(&str, String)> = Vec::new();
        for event in self.events.iter().filter(|event| event.iteration == newest) {
            match event.event.as_ref() {
                Some(Event::TextDelta(delta)) => text_part(&mut parts, &delta.part_id).push_str(&delta.text),
                Some(Event::PartFinished(finished)) => {
                    let Some(part) = &finished.part else { continue };
                    if let Some(text) = text_of(part.content.as_ref()) {
                        text_part(&mut parts, &part.part_id).replace_range(.., text);
                    }
                }
                _ => {}
            }
        }
        parts.into_iter().map(|(_, text)| text).collect()
    }
}

fn text_of(content: Option<&Content>) -> Option<&str> {
    match content {
        Some(Content::Text(text)) => Some(text),
        _ => None,
    }
}

fn text_part<'a, 'b>(parts: &'a mut Vec<(&'b str, String)>, part_id: &'b str) -> &'a mut String {
    let place = parts.iter().rposition(|(id, _)| *id == part_id).unwrap_or_else(|| {
        parts.push((part_id, String::new()));
        parts.len() - 1
    });
    &mut parts[place].1
}
