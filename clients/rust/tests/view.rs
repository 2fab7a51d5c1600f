//! The fold that callers get.

mod events;

use events::{at, finished, part, resolved, started, text, unknown, update, waiting};
use turnwire::v1::run_event::Event;
use turnwire::v1::{
    Cursor, OutcomeKind, PartFinished, RunResumed, RunWaiting, ToolCall, ToolCallFinished, ToolResult, Usage,
};
use turnwire::{RunView, Update};

fn view(updates: impl IntoIterator<Item = Update>) -> RunView {
    let mut view = RunView::default();
    for update in updates {
        view.apply(update);
    }
    view
}

fn waited_for(view: &RunView) -> Option<Vec<String>> {
    view.waiting().map(|waiting| waiting.approvals.into_iter().map(|approval| approval.approval_id).collect())
}

#[test]
fn a_view_of_nothing_has_nothing() {
    let view = RunView::default();
    assert!(view.run_id().is_none() && view.outcome().is_none() && view.message().is_none() && view.usage().is_none());
    assert_eq!((view.text().as_str(), view.waiting()), ("", None));
}

#[test]
fn text_grows_with_the_deltas_of_the_newest_iteration() {
    let view = view([
        update([started(), text(2, 1, "Let me look. ")]),
        update([text(3, 2, "It is "), text(4, 2, "noon."), unknown(5)]),
    ]);
    assert_eq!((view.run_id(), view.text().as_str()), (Some("run-1"), "It is noon."));
    assert_eq!(view.outcome(), None);
}

#[test]
fn a_finished_part_replaces_its_deltas() {
    let whole = at(3, 1, Event::PartFinished(PartFinished { part: Some(part("Hello")) }.into()));
    assert_eq!(view([update([started(), text(2, 1, "Hel"), whole])]).text(), "Hello");
}

#[test]
fn the_end_has_the_message_the_outcome_and_what_was_used() {
    let mut end = finished(3, "It is noon.");
    if let Some(Event::RunFinished(finished)) = &mut end.event {
        // More than a double can hold.
        finished.usage = Some(Usage { input_tokens: Some((1 << 53) + 1), ..Usage::default() });
        finished.structured_output_json = Some("{\"n\":1}".into());
    }
    let view = view([update([started(), text(2, 1, "It"), end])]);
    assert_eq!(view.text(), "It is noon.");
    assert_eq!(view.outcome().map(turnwire::v1::Outcome::kind), Some(OutcomeKind::Answered));
    assert_eq!(view.usage().and_then(|usage| usage.input_tokens), Some(9_007_199_254_740_993));
    assert_eq!(view.structured_output_json(), Some("{\"n\":1}"));
}

#[test]
fn a_rewind_takes_back_what_never_happened() {
    let rewound = Update { events: vec![text(3, 1, "new")], rewind_to: Some(2), cursor: Cursor::default() };
    let view = view([update([started(), text(2, 1, "kept, "), text(3, 1, "lost")]), rewound]);
    assert_eq!(view.text(), "kept, new");
    assert_eq!(view.events().iter().map(|event| event.sequence).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn a_view_shows_what_the_run_waits_for_while_it_waits() {
    let mut seen = view([update([started(), waiting(2, false, &["a", "b"])])]);
    assert_eq!(waited_for(&seen).unwrap(), ["a", "b"]);
    seen.apply(update([waiting(3, true, &["c"]), resolved(4, "a")]));
    assert_eq!(waited_for(&seen).unwrap(), ["b", "c"]);
    seen.apply(update([waiting(5, false, &["c"])]));
    assert_eq!(waited_for(&seen).unwrap(), ["c"]);
    seen.apply(update([at(6, 0, Event::RunResumed(RunResumed {}))]));
    assert_eq!(waited_for(&seen), None);
}

#[test]
fn a_call_that_has_its_result_is_not_waited_for_any_more() {
    let calls = ["x", "y"].map(|id| ToolCall { call_id: id.into(), ..ToolCall::default() });
    let told = RunWaiting { client_tool_calls: calls.to_vec(), ..RunWaiting::default() };
    let result = ToolResult { call_id: "x".into(), ..ToolResult::default() };
    let view = view([update([
        started(),
        at(2, 0, Event::RunWaiting(told)),
        at(3, 0, Event::ToolCallFinished(ToolCallFinished { result: Some(result), duration: None }.into())),
    ])]);
    let left: Vec<String> = view.waiting().unwrap().client_tool_calls.into_iter().map(|call| call.call_id).collect();
    assert_eq!(left, ["y"]);
}

#[test]
fn a_delta_of_a_few_letters_is_small() {
    assert!(size_of::<turnwire::v1::RunEvent>() <= 192, "{}", size_of::<turnwire::v1::RunEvent>());
}
