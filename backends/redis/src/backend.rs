//! The store, and how one comes to it.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use leasehold_core::backend::{
    Acquire, Acquired, AtOnce, CapacitySet, Confirm, Confirmed, Inbox, List, Page, Release,
    Releases, Renew, Renewed, Seen, SetCapacity, Sweep, Swept, Watch, Withdraw, Withdrawn,
};
use leasehold_core::inboxes::Inboxes;
use leasehold_core::record_store::Listing;
use leasehold_core::{Backend, Description, Error, ErrorKind, Name, Record, Result};

use crate::SCHEME;
use crate::bucket::Buckets;
use crate::call::Caller;
use crate::config::Options;
use crate::doctor::{self, Finding, Level};
use crate::ears::{Ears, inbox_channel, name_channel};
use crate::link::Link;
use crate::promise;

/// A store on Redis.
#[derive(Debug)]
pub struct Redis {
    pub(crate) caller: Caller,
    inboxes: Arc<Inboxes>,
    ears: Ears,
    description: Description,
    findings: Vec<Finding>,
}

impl Options {
    /// Connects, looks at how the server is set up, and makes sure that it has the buckets.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the server is not set up in a way that leases can be kept on, or has another number of
    /// buckets; otherwise what the server says.
    ///
    /// # Cancel safety
    /// Cancel-safe: a connection that is not returned is dropped.
    pub async fn connect(self) -> Result<Redis> {
        let link = Arc::new(Link::new(self.place, self.timeout, self.replicas));
        let buckets = Arc::new(Buckets::new(&self.prefix, self.buckets));
        let caller = Caller::new(link.clone(), buckets.clone(), self.quarantine, self.on_loss);
        let examined = doctor::examine(&link).await;
        let examined = examined.map_err(|error| error.during("connect", SCHEME))?;
        refuse(&examined.findings, self.evicting)?;
        let found = make_buckets(&caller).await;
        found.map_err(|error| error.during("connect", SCHEME))?;
        let inboxes = Arc::<Inboxes>::default();
        Ok(Redis {
            caller,
            ears: Ears::start(link, buckets, inboxes.clone()),
            inboxes,
            description: promise::describe(examined.facts),
            findings: examined.findings,
        })
    }
}

/// The first one says how many there are, so that none too many is made.
async fn make_buckets(caller: &Caller) -> Result<()> {
    caller.found(0).await?;
    let others = (1..caller.buckets.count()).map(|number| caller.found(number));
    try_join_all(others).await.map(drop)
}

fn refuse(findings: &[Finding], evicting: bool) -> Result<()> {
    let allowed = |finding: &&Finding| finding.check == "eviction" && evicting;
    let mut refused = findings.iter().filter(|it| it.level == Level::Refused);
    match refused.find(|finding| !allowed(finding)) {
        Some(finding) => Err(Error::new(ErrorKind::Config, finding.to_string())),
        None => Ok(()),
    }
}

impl Redis {
    /// What was found when the connection was made: how the server is set up, and what that means for the promises.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How often the server was found to have lost what it had acknowledged. Each time its tokens were raised above
    /// those that were seen before, and nothing new is granted for a while.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.caller.losses()
    }

    /// How many requests were sent.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.caller.link.sent()
    }
}

#[async_trait]
impl Backend for Redis {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn at_once(&self) -> Option<&dyn AtOnce> {
        None
    }

    async fn acquire(&self, request: &Acquire) -> Result<Acquired> {
        let done = self.acquire_now(request).await;
        done.map_err(|error| about(error, "acquire", request.names.single()))
    }

    async fn renew(&self, request: &Renew) -> Result<Vec<Result<Renewed>>> {
        if request.items.is_empty() {
            return Ok(Vec::new());
        }
        let done = self.renew_now(request).await;
        done.map_err(|error| about(error, "renew", None))
    }

    async fn release(&self, request: &Release) -> Result<Releases> {
        let done = self.release_now(request).await;
        done.map_err(|error| about(error, "release", request.single()))
    }

    async fn confirm(&self, request: &Confirm) -> Result<Confirmed> {
        let done = self.confirm_now(request).await;
        done.map_err(|error| about(error, "confirm", None))
    }

    async fn withdraw(&self, request: &Withdraw) -> Result<Withdrawn> {
        let done = self.withdraw_now(request).await;
        done.map_err(|error| about(error, "withdraw", request.names.single()))
    }

    async fn set_capacity(&self, request: &SetCapacity) -> Result<CapacitySet> {
        let done = self.set_capacity_now(request).await;
        done.map_err(|error| about(error, "set_capacity", Some(&request.name)))
    }

    async fn get(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        let done = self.get_now(name).await;
        done.map_err(|error| about(error, "get", Some(name)))
    }

    async fn list(&self, request: &List) -> Result<Seen<Page<Record>>> {
        let mut listed = Listing::new(request);
        loop {
            let seen = self.scan(listed.scan()).await;
            let seen = seen.map_err(|error| about(error, "list", None))?;
            if let Some(page) = listed.add(seen) {
                return Ok(page);
            }
        }
    }

    async fn sweep(&self, request: &Sweep) -> Result<Swept> {
        let done = self.sweep_now(request).await;
        done.map_err(|error| about(error, "sweep", None))
    }

    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        let prefix = &self.buckets().prefix;
        let watch = self.inboxes.watch(inbox, name);
        let failed = |error| about(error, "watch", name);
        let for_inbox = self.ears.listen(inbox_channel(prefix, inbox.id()));
        let for_inbox = for_inbox.await.map_err(failed)?;
        let for_name = match name {
            Some(name) => Some(
                self.ears
                    .listen(name_channel(prefix, name))
                    .await
                    .map_err(failed)?,
            ),
            None => None,
        };
        Ok(Watch::new(move || drop((watch, for_inbox, for_name))))
    }
}

fn about(error: Error, op: &'static str, name: Option<&Name>) -> Error {
    let error = error.during(op, SCHEME);
    match name {
        Some(name) => error.with_name(name),
        None => error,
    }
}
