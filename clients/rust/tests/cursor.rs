//! The rules of resuming, without a network.

mod events;

use std::time::Duration;

use events::{finished, frame, started, text, unknown, waiting};
use tonic::{Code, Status};
use turnwire::cursor::{Frame, Reader, Request, Resume};
use turnwire::v1::run_event::Event;
use turnwire::v1::{Cursor, OnWait, RunResumed, RunTurnRequest, StreamDetail, TurnSpec, WatchRunRequest};
use turnwire::{Error, StreamLost};

const QUICK: Resume =
    Resume { attempts: 3, initial_delay: Duration::from_millis(100), max_delay: Duration::from_secs(1) };

fn turn() -> Reader {
    Reader::new(RunTurnRequest::default().into(), QUICK)
}

fn watch(reader: &Reader) -> WatchRunRequest {
    match reader.request() {
        Request::Watch(request) => request,
        Request::Turn(request) => panic!("a turn is not run again: {request:?}"),
    }
}

fn run(reader: &Reader) -> RunTurnRequest {
    match reader.request() {
        Request::Turn(request) => *request,
        Request::Watch(request) => panic!("there is nothing to watch yet: {request:?}"),
    }
}

fn cursor(epoch: i64, sequence: i64) -> Cursor {
    Cursor { epoch, sequence }
}

#[test]
fn a_turn_that_has_not_begun_is_sent_again_with_the_same_request_id() {
    let mut reader = turn();
    let first = run(&reader);
    assert_eq!(first.turn.as_ref().map(|turn| turn.request_id.len()), Some(36));
    assert!(reader.failed(Status::unavailable("")).is_ok());
    assert_eq!(run(&reader), first);
}

#[test]
fn a_request_id_of_the_caller_is_kept() {
    let turn = TurnSpec { request_id: "mine".into(), ..TurnSpec::default() };
    let reader = Reader::new(RunTurnRequest { turn: Some(turn), ..RunTurnRequest::default() }.into(), QUICK);
    assert_eq!(run(&reader).turn.map(|turn| turn.request_id).as_deref(), Some("mine"));
}

#[test]
fn a_cut_stream_is_watched_on_from_its_cursor_as_it_was_asked_for() {
    let request = RunTurnRequest {
        stream_detail: StreamDetail::Milestones.into(),
        on_wait: OnWait::Close.into(),
        ..RunTurnRequest::default()
    };
    let mut reader = Reader::new(request.into(), QUICK);
    reader.apply(frame([started(), text(2, 1, "It is ")]));
    assert!(matches!(reader.cut(), Ok(Some(_))));
    let again = watch(&reader);
    assert_eq!((again.run_id.as_str(), again.after), ("run-1", Some(cursor(1, 2))));
    assert_eq!((again.stream_detail(), again.on_wait()), (StreamDetail::Milestones, OnWait::Close));
}

#[test]
fn an_event_that_comes_again_is_not_seen_twice() {
    let mut reader = turn();
    reader.apply(frame([started(), text(2, 1, "a")]));
    let update = reader.apply(frame([text(2, 1, "a"), text(3, 1, "b")])).expect("there is something new");
    assert_eq!(update.events, [text(3, 1, "b")]);
}

#[test]
fn the_cursor_moves_through_what_the_stream_leaves_out_and_through_heartbeats() {
    let mut reader = turn();
    reader.apply(Frame { through_sequence: 7, ..frame([started()]) });
    assert_eq!(reader.cursor(), cursor(1, 7));
    assert_eq!(reader.apply(Frame { epoch: 2, through_sequence: 9, ..Frame::default() }), None);
    assert_eq!(reader.cursor(), cursor(2, 9));
}

#[test]
fn an_event_of_a_later_contract_is_kept_and_moves_the_cursor() {
    let mut reader = turn();
    let update = reader.apply(frame([started(), unknown(2)])).expect("there is something new");
    assert_eq!(update.events.len(), 2);
    assert_eq!(update.cursor, cursor(1, 2));
}

#[test]
fn a_rewind_is_told_and_the_events_that_took_the_place_are_new() {
    let mut reader = turn();
    reader.apply(frame([started(), text(2, 1, "lost"), text(3, 1, "lost")]));
    let update = reader
        .apply(Frame { epoch: 2, rewind_to: Some(1), ..frame([text(2, 1, "kept")]) })
        .expect("there is something new");
    assert_eq!((update.rewind_to, update.cursor), (Some(1), cursor(2, 2)));
    assert_eq!(update.events, [text(2, 1, "kept")]);
    let bare = reader.apply(Frame { epoch: 3, rewind_to: Some(1), through_sequence: 1, ..Frame::default() });
    assert_eq!(bare.map(|update| (update.rewind_to, update.cursor)), Some((Some(1), cursor(3, 1))));
}

#[test]
fn nothing_is_asked_for_after_the_run_has_finished() {
    let mut reader = turn();
    reader.apply(frame([started(), finished(2, "Noon.")]));
    assert!(reader.finished());
    assert!(matches!(reader.cut(), Ok(None)));
}

#[test]
fn a_stream_that_closes_to_wait_is_not_cut_until_the_run_goes_on() {
    let request = RunTurnRequest { on_wait: OnWait::Close.into(), ..RunTurnRequest::default() };
    let mut reader = Reader::new(request.into(), QUICK);
    reader.apply(frame([started(), waiting(2, false, &["a"]), text(3, 1, "meanwhile")]));
    assert!(matches!(reader.cut(), Ok(None)));
    reader.apply(frame([events::at(4, 0, Event::RunResumed(RunResumed {}))]));
    assert!(matches!(reader.cut(), Ok(Some(_))));

    let mut open = turn();
    open.apply(frame([started(), waiting(2, false, &["a"])]));
    assert!(matches!(open.cut(), Ok(Some(_))), "it was to stay open");
}

#[test]
fn a_reader_behind_the_last_event_ends_with_the_call() {
    let request = WatchRunRequest { run_id: "run-1".into(), after: Some(cursor(1, 5)), ..WatchRunRequest::default() };
    let mut reader = Reader::new(request.into(), QUICK);
    assert!(matches!(reader.cut(), Ok(None)));
    reader.apply(Frame { epoch: 1, through_sequence: 5, ..Frame::default() });
    assert!(matches!(reader.cut(), Ok(Some(_))), "a heartbeat says that the run goes on");
}

#[test]
fn a_run_that_cannot_be_reached_again_is_lost_with_its_cursor() {
    let mut reader = turn();
    reader.apply(frame([started(), text(2, 1, "a")]));
    for _ in 0..QUICK.attempts {
        assert!(reader.failed(Status::unavailable("gone")).is_ok());
    }
    let Err(Error::StreamLost(lost)) = reader.failed(Status::unavailable("gone")) else { panic!("it is lost") };
    assert_eq!((lost.run_id.as_deref(), lost.cursor), (Some("run-1"), cursor(1, 2)));
    assert_eq!(lost.to_string(), "run run-1: cut after event 2 and not resumed (UNAVAILABLE: gone)");
}

#[test]
fn a_turn_that_never_began_is_lost_without_a_run() {
    let mut reader = Reader::new(RunTurnRequest::default().into(), Resume { attempts: 0, ..QUICK });
    let Err(StreamLost { run_id: None, .. }) = reader.cut() else { panic!("no attempt is allowed") };
}

#[test]
fn progress_gives_new_attempts_and_a_repeated_heartbeat_does_not() {
    let mut reader = turn();
    for sequence in 1..20 {
        let event = if sequence == 1 { started() } else { text(sequence, 1, "a") };
        reader.apply(frame([event]));
        assert!(reader.failed(Status::unavailable("")).is_ok());
    }
    for _ in 1..QUICK.attempts {
        reader.apply(Frame { epoch: 1, through_sequence: 19, ..Frame::default() });
        assert!(reader.failed(Status::unavailable("")).is_ok());
    }
    assert!(reader.failed(Status::unavailable("")).is_err());
}

#[test]
fn what_the_way_says_of_a_broken_connection_is_a_cut_and_what_the_server_says_is_not() {
    let codes = (0..=16).map(Code::from).filter(|code| *code != Code::Ok);
    for code in codes {
        let on_the_way = matches!(code, Code::Unavailable | Code::Cancelled | Code::Internal | Code::Unknown);
        assert_eq!(turn().failed(Status::new(code, "")).is_ok(), on_the_way, "{code:?} without details");
        let from_the_server = Status::with_details(code, "", vec![8, 1].into());
        assert_eq!(turn().failed(from_the_server).is_ok(), code == Code::Unavailable, "{code:?} with details");
    }
}

#[test]
fn delays_double_up_to_the_longest_and_are_spread() {
    let ceilings = [100, 200, 400, 800, 1000, 1000].map(Duration::from_millis);
    for (failures, ceiling) in (1..).zip(ceilings) {
        let delays: Vec<Duration> = (0..200).map(|_| QUICK.delay(failures)).collect();
        assert!(delays.iter().all(|delay| *delay <= ceiling && *delay >= ceiling / 2), "{delays:?}");
        assert!(delays.iter().any(|delay| *delay != delays[0]));
    }
    assert!(QUICK.delay(u32::MAX) <= QUICK.max_delay);
}
