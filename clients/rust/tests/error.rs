//! What callers are told of a call that failed.

use std::collections::HashMap;
use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use turnwire::{Client, Error, SetupError, prompt};

#[test]
fn a_refusal_has_the_reason_its_domain_and_what_goes_with_it() {
    let mut details = ErrorDetails::new();
    details.set_error_info("AGENT_NOT_FOUND", "turnwire.v1", HashMap::from([("agent_id".into(), "x".into())]));
    details.set_retry_info(Some(Duration::from_millis(1500)));
    let status = Status::with_error_details(Code::NotFound, "no agent x", details);
    let error = Error::from(status);
    assert_eq!(error.reason(), Some("AGENT_NOT_FOUND"));
    assert_eq!(error.to_string(), "NOT_FOUND: no agent x (AGENT_NOT_FOUND)");
    let Error::Turnwire(refused) = error else { panic!("it is a refusal") };
    assert_eq!((refused.code, refused.domain.as_str()), (Code::NotFound, "turnwire.v1"));
    assert_eq!(refused.metadata["agent_id"], "x");
    assert_eq!(refused.retry_delay, Some(Duration::from_millis(1500)));
}

#[test]
fn an_error_without_details_has_no_reason() {
    let error = Error::from(Status::resource_exhausted("too large"));
    assert_eq!((error.reason(), error.to_string().as_str()), (None, "RESOURCE_EXHAUSTED: too large"));
}

#[test]
fn a_deadline_is_an_error_of_its_own() {
    assert!(matches!(Error::from(Status::deadline_exceeded("late")), Error::DeadlineExceeded));
}

#[tokio::test]
async fn a_client_of_something_unusable_is_not_made() {
    assert!(matches!(Client::builder("no address").build(), Err(SetupError::Target(_))));
    let https = Client::builder("https://localhost:1").build();
    assert_eq!(matches!(https, Err(SetupError::NoTls)), cfg!(not(feature = "tls")), "{https:?}");
    assert!(matches!(Client::builder("127.0.0.1:1").token("a\nb").build(), Err(SetupError::Token(_))));
}

#[tokio::test]
async fn a_token_is_not_shown() {
    let client = Client::builder("127.0.0.1:1").token("s3cret").build().unwrap();
    assert!(!format!("{client:?}").contains("s3cret"));
}

#[tokio::test]
async fn a_turn_of_a_server_that_is_not_there_is_lost_after_its_attempts() {
    use futures_util::TryStreamExt;
    use turnwire::{FollowOptions, Resume};
    let resume = Resume { attempts: 2, initial_delay: Duration::from_millis(1), max_delay: Duration::from_millis(1) };
    let client = Client::builder("127.0.0.1:1").build().unwrap();
    let options = FollowOptions { timeout: None, resume };
    let Err(Error::StreamLost(lost)) = client.follow(prompt("x"), options).try_next().await else {
        panic!("nobody listens there")
    };
    assert_eq!((lost.run_id.clone(), lost.why.as_ref().map(Status::code)), (None, Some(Code::Unavailable)));
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused_and_not_sent_again() {
    use futures_util::TryStreamExt;
    use turnwire::FollowOptions;
    use turnwire::v1::StartTurnRequest;
    let client = Client::builder("127.0.0.1:1").max_message_bytes(64).build().unwrap();
    let request = prompt("x".repeat(100));
    let streamed = client.follow(request.clone(), FollowOptions::default()).try_next().await.map(drop);
    let started = client.start_turn(StartTurnRequest { turn: request.turn }).await.map(drop);
    for ended in [streamed, started] {
        let Err(Error::Turnwire(refused)) = ended else { panic!("{ended:?}") };
        assert_eq!(refused.code, Code::ResourceExhausted);
        assert!(refused.message.ends_with("bytes and may have 64"), "{}", refused.message);
    }
}
