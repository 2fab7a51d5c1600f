//! Asks an agent: `cargo run --example ask -- 127.0.0.1:7443 "What time is it?"`
//!
//! Prints the answer as it comes, the calls of tools, and how the run ended. `TURNWIRE_TOKEN` is the caller's token, where
//! the server wants one. Ctrl-C drops the stream, which cancels the call.

use std::collections::HashMap;
use std::io::{Write, stdout};

use futures_util::TryStreamExt;
use turnwire::v1::run_event::Event;
use turnwire::{Client, FollowOptions, RunView, prompt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [_, address, question] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: ask ADDRESS QUESTION".into());
    };
    let mut builder = Client::builder(address);
    if let Ok(token) = std::env::var("TURNWIRE_TOKEN") {
        builder = builder.token(token);
    }
    let client = builder.build()?;
    let mut updates = client.follow(prompt(question), FollowOptions::default());
    let mut view = RunView::default();
    let mut names = HashMap::new();
    while let Some(update) = updates.try_next().await? {
        for event in &update.events {
            match &event.event {
                Some(Event::TextDelta(delta)) => print!("{}", delta.text),
                Some(Event::ToolCallStarted(call)) => {
                    let name = call.tool.as_ref().map_or(&call.requested_name, |tool| &tool.routed_name);
                    names.insert(call.call_id.clone(), name.clone());
                }
                Some(Event::ToolCallArgumentsFinished(call)) => {
                    println!("[{} {}]", names.remove(&call.call_id).unwrap_or_default(), call.arguments_json);
                }
                _ => {}
            }
        }
        stdout().flush()?;
        view.apply(update);
    }
    let outcome = view.outcome().map_or("?", |outcome| outcome.kind().as_str_name());
    println!("\n{outcome}");
    Ok(())
}
