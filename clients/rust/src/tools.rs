//! What a run waits for and the caller can answer: tools that are functions here, and approvals that a closure decides.
//!
//! Which of it there is and what an answer looks like on the wire; the calls and the waiting are in `run`.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::v1::part::Content;
use crate::v1::{
    Approval, ApprovalDecision, Part, ResolveApprovalRequest, RunWaiting, ToolCall, ToolResult, ToolResultStatus,
};

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type Tool<'a> = Box<dyn Fn(&str) -> BoxFuture<'a, Result<Content, String>> + Send + Sync + 'a>;
type Approve<'a> = Box<dyn Fn(Approval) -> BoxFuture<'a, Decision> + Send + Sync + 'a>;

/// The answer to an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    answer: ApprovalDecision,
    patterns: Vec<String>,
    comment: String,
    input_json: Option<String>,
}

impl Decision {
    /// Allows this call.
    #[must_use]
    pub fn once() -> Self {
        Self::of(ApprovalDecision::Once)
    }

    /// Allows this call and gives the tool the input that it asks for, a JSON object.
    #[must_use]
    pub fn once_with_input(input_json: impl Into<String>) -> Self {
        Self { input_json: Some(input_json.into()), ..Self::once() }
    }

    /// Allows this call and, for the session, all of the approval's `always_patterns`.
    #[must_use]
    pub fn always() -> Self {
        Self::of(ApprovalDecision::Always)
    }

    /// Allows this call and, for the session, these of the approval's `always_patterns`.
    #[must_use]
    pub fn always_for(patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { patterns: patterns.into_iter().map(Into::into).collect(), ..Self::always() }
    }

    /// Denies this call; the model is told the comment.
    #[must_use]
    pub fn reject(comment: impl Into<String>) -> Self {
        Self { comment: comment.into(), ..Self::of(ApprovalDecision::Reject) }
    }

    fn of(answer: ApprovalDecision) -> Self {
        Self { answer, patterns: Vec::new(), comment: String::new(), input_json: None }
    }
}

/// An answer that is on its way to the run.
#[derive(Debug)]
pub(crate) enum Answer {
    Result(Box<ToolResult>),
    Decision(Box<ResolveApprovalRequest>),
}

/// What can be answered, and what has been begun: each call and each approval once.
#[derive(Default)]
pub(crate) struct Answers<'a> {
    tools: HashMap<String, Tool<'a>>,
    approve: Option<Approve<'a>>,
    begun: HashSet<String>,
}

impl<'a> Answers<'a> {
    pub(crate) fn tool<A, R, E, F, Fut>(&mut self, name: String, function: F)
    where
        A: DeserializeOwned,
        R: Serialize,
        E: Display,
        F: Fn(A) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Result<R, E>> + Send + 'a,
    {
        let tool: Tool<'a> = Box::new(move |arguments| {
            // The model's words: perhaps no JSON, perhaps not what the function takes. It is told so.
            match serde_json::from_str::<A>(arguments) {
                Err(error) => Box::pin(std::future::ready(Err(format!("the arguments cannot be used: {error}")))),
                Ok(arguments) => {
                    let work = function(arguments);
                    Box::pin(async move {
                        let value = work.await.map_err(|error| error.to_string())?;
                        content(&value).map_err(|error| format!("the result cannot be written as JSON: {error}"))
                    })
                }
            }
        });
        self.tools.insert(name, tool);
    }

    pub(crate) fn approve<F, Fut>(&mut self, function: F)
    where
        F: Fn(Approval) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Decision> + Send + 'a,
    {
        self.approve = Some(Box::new(move |approval| Box::pin(function(approval))));
    }

    /// Whether any of it is, was or can be answered. Where all is settled, the run is about to go on.
    pub(crate) fn cover(&self, waiting: &RunWaiting) -> bool {
        (waiting.approvals.is_empty() && waiting.client_tool_calls.is_empty())
            || (self.approve.is_some() && !waiting.approvals.is_empty())
            || waiting.client_tool_calls.iter().any(|call| self.tools.contains_key(name_of(call)))
    }

    /// Begins what can be answered and has not been begun.
    pub(crate) fn begin(&mut self, run_id: &str, waiting: RunWaiting) -> Vec<BoxFuture<'a, Answer>> {
        let mut works: Vec<BoxFuture<'a, Answer>> = Vec::new();
        for call in waiting.client_tool_calls {
            let Some(tool) = self.tools.get(name_of(&call)) else { continue };
            if self.begun.insert(call.call_id.clone()) {
                let work = tool(&call.arguments_json);
                works.push(Box::pin(async move { Answer::Result(Box::new(result(call.call_id, work.await))) }));
            }
        }
        for approval in waiting.approvals {
            let Some(approve) = &self.approve else { break };
            if self.begun.insert(approval.approval_id.clone()) {
                let mut request = ResolveApprovalRequest {
                    run_id: run_id.to_owned(),
                    approval_id: approval.approval_id.clone(),
                    call_digest: Some(approval.call_digest.clone()),
                    ..ResolveApprovalRequest::default()
                };
                let work = approve(approval);
                works.push(Box::pin(async move {
                    let decided = work.await;
                    request.decision = decided.answer.into();
                    request.always_patterns = decided.patterns;
                    request.comment = decided.comment;
                    request.input_json = decided.input_json;
                    Answer::Decision(Box::new(request))
                }));
            }
        }
        works
    }
}

fn name_of(call: &ToolCall) -> &str {
    call.tool.as_ref().map_or("", |tool| &tool.routed_name)
}

/// A string is text, any other value is JSON.
fn content(value: &impl Serialize) -> Result<Content, serde_json::Error> {
    let json = serde_json::to_string(value)?;
    Ok(if json.starts_with('"') { Content::Text(serde_json::from_str(&json)?) } else { Content::DataJson(json) })
}

fn result(call_id: String, worked: Result<Content, String>) -> ToolResult {
    let (status, content) = match worked {
        Ok(content) => (ToolResultStatus::Ok, content),
        Err(message) => (ToolResultStatus::Error, Content::Text(message)),
    };
    let part = Part { content: Some(content), ..Part::default() };
    ToolResult { call_id, status: status.into(), content: vec![part], ..ToolResult::default() }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::FutureExt;
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;
    use crate::v1::ToolRef;

    fn call(call_id: &str, name: &str, arguments_json: &str) -> ToolCall {
        let tool = ToolRef { routed_name: name.into(), ..ToolRef::default() };
        ToolCall { call_id: call_id.into(), tool: Some(tool), arguments_json: arguments_json.into() }
    }

    fn waiting(calls: &[ToolCall], approval_ids: &[&str]) -> RunWaiting {
        let approval = |id: &&str| Approval {
            approval_id: (*id).into(),
            call_digest: format!("digest of {id}"),
            ..Approval::default()
        };
        RunWaiting {
            client_tool_calls: calls.to_vec(),
            approvals: approval_ids.iter().map(approval).collect(),
            ..RunWaiting::default()
        }
    }

    fn result_of(answers: &mut Answers<'_>, name: &str, arguments_json: &str) -> ToolResult {
        let works =
            answers.begin("run-1", waiting(&[call(&format!("{name} {arguments_json}"), name, arguments_json)], &[]));
        let [work] = <[_; 1]>::try_from(works).ok().expect("one call is one work");
        match work.now_or_never() {
            Some(Answer::Result(result)) => *result,
            other => panic!("{other:?}"),
        }
    }

    fn told(result: &ToolResult) -> (ToolResultStatus, &Content) {
        (result.status(), result.content[0].content.as_ref().expect("there is content"))
    }

    #[test]
    fn a_string_is_text_and_any_other_value_is_json() {
        let mut answers = Answers::default();
        answers.tool("echo".into(), |value: Box<RawValue>| async move { Ok::<_, Infallible>(value) });
        let text = result_of(&mut answers, "echo", "\"caf\\u00e9\"");
        assert_eq!(told(&text), (ToolResultStatus::Ok, &Content::Text("café".into())));
        let whole = "{\"n\":9007199254740993,\"z\":1.10}";
        let json = result_of(&mut answers, "echo", whole);
        assert_eq!(told(&json), (ToolResultStatus::Ok, &Content::DataJson(whole.into())));
        assert_eq!(json.call_id, format!("echo {whole}"));
    }

    #[test]
    fn what_a_function_says_of_its_failure_and_what_it_cannot_read_are_told_to_the_model() {
        let mut answers = Answers::default();
        answers.tool("broken".into(), |_: Value| async { Err::<Value, _>("no such city") });
        answers.tool("typed".into(), |count: u8| async move { Ok::<_, Infallible>(count) });
        let failed = result_of(&mut answers, "broken", "{}");
        assert_eq!(told(&failed), (ToolResultStatus::Error, &Content::Text("no such city".into())));
        for arguments in ["{\"n\":", "{}", "300"] {
            let refused = result_of(&mut answers, "typed", arguments);
            let (status, Content::Text(text)) = told(&refused) else { panic!("{refused:?}") };
            assert_eq!(status, ToolResultStatus::Error);
            assert!(text.starts_with("the arguments cannot be used: "), "{text}");
        }
    }

    #[test]
    fn each_call_and_each_approval_is_begun_once() {
        let mut answers = Answers::default();
        answers.tool("known".into(), |_: Value| async { Ok::<_, Infallible>(json!(1)) });
        answers.approve(|_| async { Decision::once() });
        let told = waiting(&[call("a", "known", "{}"), call("b", "other", "{}")], &["x"]);
        assert_eq!(answers.begin("run-1", told.clone()).len(), 2);
        assert_eq!(answers.begin("run-1", told).len(), 0);
        assert_eq!(answers.begin("run-1", waiting(&[call("c", "known", "{}")], &["x", "y"])).len(), 2);
    }

    #[test]
    fn a_decision_answers_for_exactly_the_call_that_was_shown() {
        let mut answers = Answers::default();
        answers.approve(|approval| async move { Decision::reject(format!("not {}", approval.approval_id)) });
        let works = answers.begin("run-1", waiting(&[], &["x"]));
        let [work] = <[_; 1]>::try_from(works).ok().expect("one approval is one work");
        let Some(Answer::Decision(request)) = work.now_or_never() else { panic!("it is decided") };
        assert_eq!(request.decision(), ApprovalDecision::Reject);
        assert_eq!((request.run_id.as_str(), request.approval_id.as_str()), ("run-1", "x"));
        assert_eq!(request.call_digest.as_deref(), Some("digest of x"));
        assert_eq!(request.comment, "not x");
    }

    #[test]
    fn what_cannot_be_answered_is_known() {
        let mut answers = Answers::default();
        answers.tool("known".into(), |_: Value| async { Ok::<_, Infallible>(json!(1)) });
        assert!(answers.cover(&waiting(&[call("a", "known", "{}"), call("b", "other", "{}")], &["x"])));
        assert!(!answers.cover(&waiting(&[call("b", "other", "{}")], &["x"])));
        assert!(answers.cover(&waiting(&[], &[])), "all is settled: the run is about to go on");
    }
}
