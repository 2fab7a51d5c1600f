//! Runs the cases of the conformance set that all clients share: one JSON object per line in, one per line out.
//!
//! The argument is a file with the descriptors of the contract (`buf build`), which proto3 JSON is read by. Everything
//! else goes through the public layer of the crate.

mod answer;
mod case;

use std::error::Error as StdError;
use std::io::{self, BufRead, Write};
use std::sync::Mutex;

use futures_util::TryStreamExt;
use prost_reflect::DescriptorPool;
use tokio::sync::Notify;
use turnwire::{Client, Error, Update};

use crate::answer::{Contract, Seen};
use crate::case::{Case, Work};

fn main() -> Result<(), Box<dyn StdError>> {
    let path = std::env::args().nth(1).ok_or("usage: conformance DESCRIPTORS")?;
    let contract = Contract::new(&DescriptorPool::decode(std::fs::read(path)?.as_slice())?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let case: Case = serde_json::from_str(&line?)?;
        let answer = runtime.block_on(answer_to(&case, &contract))?;
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

/// What the client makes of a case. An error here is a case that cannot be read.
async fn answer_to(case: &Case, contract: &Contract) -> Result<serde_json::Value, Box<dyn StdError>> {
    let work = contract.work(case)?;
    let mut builder = Client::builder(&case.target);
    if let Some(token) = &case.token {
        builder = builder.token(token);
    }
    let client = builder.build()?;
    let seen = Mutex::new(Seen::default());
    let left = Notify::new();
    let on_update = |update: &Update| {
        let mut seen = seen.lock().expect("no holder panics");
        seen.take(update);
        if let Some(kind) = &case.cancel_on
            && update.events.iter().any(|event| contract.kind(event) == *kind)
        {
            left.notify_one();
        }
    };
    // Cancellation is a drop: of the future of a run, of the stream that is followed.
    let error = tokio::select! {
        biased;
        () = left.notified() => serde_json::json!({"type": "Cancelled"}),
        ended = go(&client, work.clone(), case, &seen, on_update) => {
            ended.map_or_else(|error| answer::error(&error), |()| serde_json::Value::Null)
        }
    };
    Ok(seen.into_inner()?.answer(case, contract, work.after(), &error))
}

async fn go(
    client: &Client,
    work: Work,
    case: &Case,
    seen: &Mutex<Seen>,
    mut on_update: impl FnMut(&Update) + Send,
) -> Result<(), Error> {
    match work {
        Work::Run(request) => {
            client.run(*request, case.options(seen).on_update(on_update)).await?;
        }
        Work::Watch(request) => {
            let mut updates = client.follow(request, case.follow());
            while let Some(update) = updates.try_next().await? {
                on_update(&update);
                // A stream that is left is not asked for more.
                tokio::task::yield_now().await;
            }
        }
    }
    Ok(())
}
