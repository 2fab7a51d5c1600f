//! Client of Turnwire: runs agent turns, follows them across cut connections,
//! and answers what they wait for.
//!
//! ```no_run
//! use turnwire::{Client, RunOptions, prompt};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("127.0.0.1:7443").build()?;
//! let run = client.run(prompt("Hello"), RunOptions::new()).await?;
//! println!("{}", run.text());
//! # Ok(())
//! # }
//! ```
//!
//! [`Client::follow`] gives a stream of [`Update`]s, [`RunView`] folds them, and [`Client::run`] also calls tools and
//! answers approvals. Dropping a stream or a future cancels its call. Messages and stubs of the contract are in [`v1`].

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod calls;
mod client;
pub mod cursor;
mod error;
mod follow;
mod run;
mod tools;
mod view;

#[allow(missing_docs, clippy::all, clippy::pedantic, rustdoc::all)]
/// The contract `turnwire.v1`, generated.
pub mod v1 {
    include!("turnwire/v1/turnwire.v1.rs");
}

pub use client::{Bearer, Builder, Client, Service};
pub use cursor::{Request, Resume, Update};
pub use error::{Error, SetupError, StreamLost, TurnwireError, code_name};
pub use follow::{FollowOptions, Updates};
pub use run::RunOptions;
pub use tools::Decision;
pub use view::RunView;

/// A turn with one message of the user.
#[must_use]
pub fn prompt(text: impl Into<String>) -> v1::RunTurnRequest {
    let part = v1::Part { content: Some(v1::part::Content::Text(text.into())), ..v1::Part::default() };
    let message = v1::Message { role: v1::Role::User.into(), parts: vec![part], ..v1::Message::default() };
    let turn = v1::TurnSpec { input: vec![message], ..v1::TurnSpec::default() };
    v1::RunTurnRequest { turn: Some(turn), ..v1::RunTurnRequest::default() }
}
