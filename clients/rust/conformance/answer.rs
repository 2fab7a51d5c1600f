//! What a case has shown, as JSON.

use std::collections::BTreeMap;
use std::error::Error as StdError;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use turnwire::v1::{RunEvent, RunTurnRequest, WatchRunRequest};
use turnwire::{Error, RunView, Update, code_name};

use crate::case::{Case, Work};

/// The messages that the runner reads as JSON or names the fields of.
pub struct Contract {
    run: MessageDescriptor,
    watch: MessageDescriptor,
    event: MessageDescriptor,
}

impl Contract {
    pub fn new(pool: &DescriptorPool) -> Result<Self, String> {
        let named = |name: &str| {
            pool.get_message_by_name(&format!("turnwire.v1.{name}")).ok_or_else(|| format!("{name} is not described"))
        };
        Ok(Self { run: named("RunTurnRequest")?, watch: named("WatchRunRequest")?, event: named("RunEvent")? })
    }

    pub fn work(&self, case: &Case) -> Result<Work, Box<dyn StdError>> {
        match (&case.run, &case.watch) {
            (Some(json), None) => Ok(Work::Run(Box::new(read(&self.run, json)?.transcode_to::<RunTurnRequest>()?))),
            (None, Some(json)) => Ok(Work::Watch(read(&self.watch, json)?.transcode_to::<WatchRunRequest>()?)),
            _ => Err("exactly one of run and watch".into()),
        }
    }

    /// The name of what happened; "unknown" for what this crate has no word for.
    pub fn kind(&self, event: &RunEvent) -> String {
        if event.event.is_none() {
            return "unknown".to_owned();
        }
        let known = DynamicMessage::decode(self.event.clone(), event.encode_to_vec().as_slice());
        let oneof = self.event.oneofs().find(|oneof| oneof.name() == "event");
        let (Ok(known), Some(oneof)) = (known, oneof) else { return "unknown".to_owned() };
        let set = oneof.fields().find(|field| known.has_field(field));
        set.map_or_else(|| "unknown".to_owned(), |field| field.name().to_owned())
    }
}

fn read(descriptor: &MessageDescriptor, json: &RawValue) -> Result<DynamicMessage, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(json.get());
    DynamicMessage::deserialize(descriptor.clone(), &mut reader)
}

/// What came, also when the call then failed or was left.
#[derive(Default)]
pub struct Seen {
    pub view: RunView,
    pub arguments: BTreeMap<String, Vec<String>>,
    pub asked: Vec<String>,
    rewinds: u32,
}

impl Seen {
    pub fn take(&mut self, update: &Update) {
        self.view.apply(update.clone());
        self.rewinds += u32::from(update.rewind_to.is_some());
    }

    pub fn answer(&self, case: &Case, contract: &Contract, after: i64, error: &Value) -> Value {
        let events = self.view.events();
        let mut kinds: Vec<String> = events.iter().map(|event| contract.kind(event)).collect();
        kinds.dedup();
        let waiting = self.view.waiting().unwrap_or_default();
        let calls = waiting.client_tool_calls.iter().map(|call| &call.call_id);
        let waiting: Vec<&String> = waiting.approvals.iter().map(|item| &item.approval_id).chain(calls).collect();
        let usage = self.view.usage().map(|usage| {
            let count = |tokens: Option<i64>| tokens.map(|tokens| tokens.to_string());
            json!({"input_tokens": count(usage.input_tokens), "output_tokens": count(usage.output_tokens)})
        });
        json!({
            "id": case.id,
            "run_id": self.view.run_id(),
            "text": self.view.text(),
            "outcome": self.view.outcome().map(|outcome| outcome.kind().as_str_name()),
            "waiting": waiting,
            "kinds": kinds,
            "sequences_dense": dense(events, after),
            "last_sequence": events.last().map_or(0, |event| event.sequence).to_string(),
            "usage": usage,
            "tool_arguments": self.arguments,
            "approvals_asked": self.asked,
            "rewinds": self.rewinds,
            "error": error,
        })
    }
}

/// Whether the events cover all from the one behind `after` to the last, none twice.
fn dense(events: &[RunEvent], after: i64) -> bool {
    let mut last = after;
    events.iter().all(|event| {
        let follows = event.first_sequence.unwrap_or(event.sequence) == last + 1;
        last = event.sequence;
        follows
    })
}

pub fn error(error: &Error) -> Value {
    match error {
        Error::Turnwire(refused) => json!({
            "type": "TurnwireError",
            "code": code_name(refused.code),
            "reason": refused.reason,
            "domain": refused.domain,
            "metadata": refused.metadata,
        }),
        Error::StreamLost(_) => json!({"type": "StreamLost"}),
        Error::DeadlineExceeded => json!({"type": "DeadlineExceeded"}),
        other => json!({"type": "Error", "message": other.to_string()}),
    }
}
