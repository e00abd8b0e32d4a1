//! What the server tells this process: one connection, however many wait.
//!
//! A task owns the connection. It is told which channels are wanted, connects again when the connection breaks, and ends
//! with the store. Whatever was said meanwhile is not heard; waiters ask again by themselves after a while, and those
//! who watch a name are told that it may have changed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use leasehold_core::backend::{Event, InboxId, What};
use leasehold_core::inboxes::Inboxes;
use leasehold_core::transition::Routed;
use leasehold_core::{Error, ErrorKind, Lease, Name, Result};
use redis::Msg;
use redis::aio::{PubSubSink, PubSubStream};
use tokio::sync::{mpsc, oneshot};

use crate::bucket::Buckets;
use crate::error::of_dial;
use crate::link::{Link, within};
use crate::value::{Bytes, inbox_digits, inbox_of};

/// How often a silent connection is asked whether it is still there.
const CHECKED_EVERY: Duration = Duration::from_secs(5);
/// How long to wait before the next attempt to connect.
const PAUSE: Duration = Duration::from_millis(200);

/// Sends orders to the task.
#[derive(Debug, Clone)]
pub(crate) struct Ears {
    orders: mpsc::UnboundedSender<Order>,
    /// How long to wait until one is carried out.
    patience: Duration,
}

#[derive(Debug)]
enum Order {
    Listen(String, oneshot::Sender<Result<()>>),
    Forget(String),
}

impl Ears {
    /// Starts the task. It needs a runtime, as every call does.
    pub(crate) fn start(link: Arc<Link>, buckets: Arc<Buckets>, inboxes: Arc<Inboxes>) -> Self {
        let (orders, inbound) = mpsc::unbounded_channel();
        // To connect, and to answer.
        let patience = link.timeout() * 2;
        let listener = Listener {
            link,
            buckets,
            inboxes,
            wanted: HashMap::new(),
            line: None,
            missed: false,
        };
        tokio::spawn(listener.run(inbound));
        Self { orders, patience }
    }

    /// Hears what is said on a channel from now on. Comes back once the server has confirmed it.
    pub(crate) async fn listen(&self, channel: String) -> Result<Heard> {
        let heard = Heard {
            ears: self.clone(),
            channel: channel.clone(),
        };
        let (done, confirmed) = oneshot::channel();
        let gone = || Error::new(ErrorKind::Closed, "the store was closed");
        let order = Order::Listen(channel, done);
        self.orders.send(order).map_err(|_| gone())?;
        match within(self.patience, confirmed).await {
            Some(confirmed) => confirmed.map_err(|_| gone())??,
            None => return Err(unconfirmed()),
        }
        Ok(heard)
    }
}

/// A channel that is listened to until this is dropped.
#[derive(Debug)]
pub(crate) struct Heard {
    ears: Ears,
    channel: String,
}

impl Drop for Heard {
    fn drop(&mut self) {
        let channel = std::mem::take(&mut self.channel);
        let _ = self.ears.orders.send(Order::Forget(channel));
    }
}

/// The channel on which an inbox is told of grants to its tickets.
pub(crate) fn inbox_channel(prefix: &str, inbox: InboxId) -> String {
    format!("{prefix}inbox:{}", inbox_digits(inbox))
}

/// The channel on which changes of a name are told.
pub(crate) fn name_channel(prefix: &str, name: &Name) -> String {
    format!("{prefix}name:{}", name.encoded())
}

struct Listener {
    link: Arc<Link>,
    buckets: Arc<Buckets>,
    inboxes: Arc<Inboxes>,
    /// The channels somebody wants, and how many do.
    wanted: HashMap<String, usize>,
    line: Option<(PubSubSink, PubSubStream)>,
    /// Whether something may have been said while nobody listened.
    missed: bool,
}

impl Listener {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut check = tokio::time::interval(CHECKED_EVERY);
        loop {
            let is_down = self.line.is_none() && !self.wanted.is_empty();
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(order) => self.obey(order).await,
                    None => return,
                },
                heard = hear(&mut self.line) => match heard {
                    Some(message) => self.deliver(&message),
                    None => self.hang_up(),
                },
                // What comes of it shows in the line.
                _ = within(PAUSE, std::future::pending::<()>()), if is_down => drop(self.connect().await),
                _ = check.tick(), if self.line.is_some() => self.check().await,
            }
        }
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Listen(channel, done) => {
                let count = self.wanted.entry(channel.clone()).or_default();
                *count += 1;
                let is_new = *count == 1;
                let answer = match (is_new, self.line.is_some()) {
                    (false, true) => Ok(()),
                    // Nobody waits for it any more, and those who do must not wait for this.
                    (_, false) if done.is_closed() => return,
                    (_, false) => self.connect().await,
                    (true, true) => self.subscribe(&[channel]).await,
                };
                let _ = done.send(answer);
            }
            Order::Forget(channel) => {
                let Some(count) = self.wanted.get_mut(&channel) else {
                    return;
                };
                *count -= 1;
                if *count > 0 {
                    return;
                }
                self.wanted.remove(&channel);
                if let Some((sink, _)) = &mut self.line {
                    // A connection that cannot even do this is found out by the next check.
                    let _ = within(PAUSE, sink.unsubscribe(channel)).await;
                }
            }
        }
    }

    /// Connects and subscribes to everything that is wanted. Whoever listened before may have missed something.
    async fn connect(&mut self) -> Result<()> {
        self.line = Some(self.link.listen().await?.split());
        let channels: Vec<_> = self.wanted.keys().cloned().collect();
        self.subscribe(&channels).await?;
        if std::mem::take(&mut self.missed) {
            self.hint();
        }
        Ok(())
    }

    fn hang_up(&mut self) {
        self.line = None;
        self.missed = true;
    }

    async fn subscribe(&mut self, channels: &[String]) -> Result<()> {
        let Some((sink, _)) = &mut self.line else {
            return Ok(());
        };
        let answer = match within(self.link.timeout(), sink.subscribe(channels)).await {
            Some(answer) => answer.map_err(of_dial),
            None => Err(unconfirmed()),
        };
        if answer.is_err() {
            self.hang_up();
        }
        answer
    }

    async fn check(&mut self) {
        if let Some((sink, _)) = &mut self.line {
            let alive = within(self.link.timeout(), sink.ping::<redis::Value>()).await;
            if !matches!(alive, Some(Ok(_))) {
                self.hang_up();
            }
        }
    }

    /// Tells everybody who watches a name that it may have changed while nothing was heard.
    fn hint(&self) {
        let prefix = format!("{}name:", self.buckets.prefix);
        let names = self.wanted.keys();
        let names = names.filter_map(|channel| Name::decode(channel.strip_prefix(&prefix)?).ok());
        self.inboxes.deliver(names.map(changed).collect());
    }

    fn deliver(&self, message: &Msg) {
        let channel = message.get_channel_name();
        let Some(rest) = channel.strip_prefix(&self.buckets.prefix) else {
            return;
        };
        let routed = if let Some(inbox) = rest.strip_prefix("inbox:") {
            granted(inbox.as_bytes(), message.get_payload_bytes())
        } else {
            let name = rest.strip_prefix("name:");
            name.and_then(|name| Name::decode(name).ok()).map(changed)
        };
        // Whatever else comes is not from a script of ours.
        let Some(routed) = routed else { return };
        if let What::Granted { lease, .. } = &routed.event.what {
            let bucket = self.buckets.of(&lease.name);
            self.buckets.get(bucket).saw(lease.token);
        }
        self.inboxes.deliver(vec![routed]);
    }
}

/// The next message; nothing if the connection is gone. Never comes back if there is none.
async fn hear(line: &mut Option<(PubSubSink, PubSubStream)>) -> Option<Msg> {
    match line {
        Some((_, stream)) => stream.next().await,
        None => std::future::pending().await,
    }
}

fn unconfirmed() -> Error {
    Error::new(
        ErrorKind::Timeout,
        "the server does not confirm that it will tell us of events",
    )
}

fn changed(name: Name) -> Routed {
    let event = Event {
        name,
        what: What::Changed,
    };
    Routed { to: None, event }
}

/// Reads what `grant_ticket` in `scripts/rule.lua` writes.
fn granted(inbox: &[u8], payload: &[u8]) -> Option<Routed> {
    let inbox = inbox_of(inbox)?;
    let mut bytes = Bytes(payload);
    let (holder, token) = (bytes.digest()?, bytes.token()?);
    let (expires_at, now) = (bytes.moment()?, bytes.moment()?);
    let name = Name::decode(std::str::from_utf8(bytes.0).ok()?).ok()?;
    let lease = Lease {
        name: name.clone(),
        token,
        expires_at,
        ttl: expires_at.since(now),
    };
    let what = What::Granted { holder, lease };
    Some(Routed {
        to: Some(inbox),
        event: Event { name, what },
    })
}
