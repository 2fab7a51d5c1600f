//! A case as it comes, and what it asks of the client.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use turnwire::v1::{RunTurnRequest, WatchRunRequest};
use turnwire::{Decision, FollowOptions, Resume, RunOptions};

use crate::answer::Seen;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub id: String,
    pub target: String,
    pub token: Option<String>,
    pub run: Option<Box<RawValue>>,
    pub watch: Option<Box<RawValue>>,
    timeout_ms: Option<u64>,
    pub cancel_on: Option<String>,
    #[serde(default)]
    tools: HashMap<String, Tool>,
    approvals: Option<Approvals>,
    resume: Option<ResumeOf>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Tool {
    Return(Box<RawValue>),
    Fail(String),
    Echo(bool),
    Hang(bool),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Approvals {
    decision: DecisionName,
    #[serde(default)]
    comment: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DecisionName {
    Once,
    Always,
    Reject,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeOf {
    attempts: u32,
    initial_delay_ms: u64,
    max_delay_ms: u64,
}

/// The call that a case makes.
#[derive(Clone)]
pub enum Work {
    Run(Box<RunTurnRequest>),
    Watch(WatchRunRequest),
}

impl Work {
    /// The event after which it begins to read.
    pub fn after(&self) -> i64 {
        let cursor = match self {
            Self::Run(request) => request.after,
            Self::Watch(request) => request.after,
        };
        cursor.map_or(0, |cursor| cursor.sequence)
    }
}

impl Case {
    pub fn follow(&self) -> FollowOptions {
        FollowOptions { timeout: self.timeout_ms.map(Duration::from_millis), resume: self.resume() }
    }

    fn resume(&self) -> Resume {
        self.resume.as_ref().map_or_else(Resume::default, |given| Resume {
            attempts: given.attempts,
            initial_delay: Duration::from_millis(given.initial_delay_ms),
            max_delay: Duration::from_millis(given.max_delay_ms),
        })
    }

    pub fn options<'a>(&'a self, seen: &'a Mutex<Seen>) -> RunOptions<'a> {
        let mut options = RunOptions::new().resume(self.resume());
        if let Some(milliseconds) = self.timeout_ms {
            options = options.timeout(Duration::from_millis(milliseconds));
        }
        for (name, tool) in &self.tools {
            options = options.tool(name, move |arguments: Box<RawValue>| async move {
                let told = arguments.get().to_owned();
                seen.lock().expect("no holder panics").arguments.entry(name.clone()).or_default().push(told);
                match tool.clone() {
                    Tool::Return(value) => Ok(value),
                    Tool::Echo(true) => Ok(arguments),
                    Tool::Hang(true) => std::future::pending().await,
                    Tool::Echo(false) | Tool::Hang(false) => Err("a case says true or nothing".to_owned()),
                    Tool::Fail(text) => Err(text),
                }
            });
        }
        if let Some(approvals) = &self.approvals {
            options = options.approve(move |approval| async move {
                let tool = approval.call.and_then(|call| call.tool).map(|tool| tool.routed_name);
                seen.lock().expect("no holder panics").asked.push(tool.unwrap_or_default());
                match approvals.decision {
                    DecisionName::Once => Decision::once(),
                    DecisionName::Always => Decision::always(),
                    DecisionName::Reject => Decision::reject(&approvals.comment),
                }
            });
        }
        options
    }
}
