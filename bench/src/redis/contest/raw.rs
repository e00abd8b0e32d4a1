//! The floor of a hand-over: who finds the name taken leaves its id in a list, and who releases it tells the first.
//!
//! There is no ticket that runs out, so a worker that dies in the list stops all others. Each process has a connection
//! for calls and one to be told over, as the store has.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use redis::Client;
use redis::aio::{MultiplexedConnection, PubSubStream};
use tokio::sync::Notify;

use super::worker::Contender;
use crate::bench::Outcome;
use crate::redis::raw::{connect, evalsha, load};
use crate::setup::TTL;

const NAME: &str = "raw:one";
const LINE: &str = "raw:one:line";

/// Takes the name, or a place in the line.
const TAKE: &str = "
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
redis.call('LPUSH', KEYS[2], ARGV[1])
return 0";

/// Hands the name to the first in the line and tells it, or frees it.
const PASS: &str = "
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local next = redis.call('RPOP', KEYS[2])
if not next then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], next, 'PX', ARGV[2])
redis.call('PUBLISH', next, '')
return 1";

/// One worker, by an id that is also the channel it is told on.
pub(super) struct Raw {
    connection: MultiplexedConnection,
    take: String,
    pass: String,
    id: String,
    told: Arc<Notify>,
}

/// The workers of one process, of which the first has this number.
pub(super) async fn team(client: Client, first: usize, workers: usize) -> Outcome<Vec<Raw>> {
    let mut connection = connect(&client).await?;
    let take = load(&mut connection, TAKE).await?;
    let pass = load(&mut connection, PASS).await?;
    let worker = |number: usize| Raw {
        connection: connection.clone(),
        take: take.clone(),
        pass: pass.clone(),
        id: format!("raw:worker:{number}"),
        told: Arc::default(),
    };
    let team: Vec<Raw> = (first..first + workers).map(worker).collect();
    let (mut sink, stream) = client.get_async_pubsub().await?.split();
    for worker in &team {
        sink.subscribe(&worker.id).await?;
    }
    let told = team.iter().map(|it| (it.id.clone(), it.told.clone()));
    let told = told.collect();
    tokio::spawn(async move {
        listen(stream, told).await;
        // Without it nobody would be told anything.
        drop(sink);
    });
    Ok(team)
}

async fn listen(mut stream: PubSubStream, told: HashMap<String, Arc<Notify>>) {
    while let Some(message) = stream.next().await {
        if let Some(worker) = told.get(message.get_channel_name()) {
            worker.notify_one();
        }
    }
}

impl Raw {
    async fn call(&mut self, script: &str) -> Outcome<bool> {
        let mut command = evalsha(script, 2);
        command.arg(NAME).arg(LINE).arg(&self.id);
        command.arg(TTL.as_millis() as u64);
        Ok(command.query_async(&mut self.connection).await?)
    }
}

impl Contender for Raw {
    type Held = ();

    async fn acquire(&mut self) -> Outcome<()> {
        if !self.call(&self.take.clone()).await? {
            self.told.notified().await;
        }
        Ok(())
    }

    async fn release(&mut self, (): ()) -> Outcome<()> {
        match self.call(&self.pass.clone()).await? {
            true => Ok(()),
            false => Err("the name was lost".into()),
        }
    }
}
