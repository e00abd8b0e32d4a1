//! Requests, and stores on a clock that the test moves.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::backend::{
    Acquire, Acquired, Inbox, Names, Release, Released, Renew, RenewItem, Renewed, Seen, Sweep,
    Swept,
};
use leasehold_core::{
    Backend as _, Clock as _, Holder, Lease, ManualClock, Name, Owner, Record, Result, SystemClock,
    Ttl,
};
use leasehold_file::{File, Options, Sync};

/// Nothing that works at all takes so long.
const PATIENCE: Duration = Duration::from_secs(10);

pub fn name(key: &str) -> Name {
    Name::new("n", key).unwrap()
}

pub fn seconds(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn acquire(name: &Name, holder: &Holder, ttl: Duration) -> Acquire {
    let owner = Owner::new("test").unwrap();
    let ttl = Ttl::new(ttl).unwrap();
    Acquire::new(Names::one(name.clone()), holder.clone(), owner, ttl)
}

/// Waits no longer than a test should, so that a call that hangs fails with its name.
pub async fn soon<T>(what: &str, call: impl Future<Output = T>) -> T {
    let end = SystemClock.now().after(PATIENCE);
    tokio::select! {
        answer = call => answer,
        () = SystemClock.sleep_until(end) => panic!("no answer within {PATIENCE:?}: {what}"),
    }
}

/// A file and the clock it goes by.
#[derive(Debug)]
pub struct Site {
    pub folder: tempfile::TempDir,
    pub clock: ManualClock,
    pub sync: Sync,
}

impl Site {
    pub fn new() -> Self {
        Self::with(Sync::Always)
    }

    /// The disk follows at its leisure, which makes many changes quick.
    pub fn lazy() -> Self {
        Self::with(Sync::Every(millis(20)))
    }

    pub fn with(sync: Sync) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            clock: ManualClock::new(),
            sync,
        }
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("leases.redb")
    }

    pub async fn open(&self, boot: Option<&str>) -> File {
        self.open_at(&self.path(), boot).await.unwrap()
    }

    pub async fn open_at(&self, path: &Path, boot: Option<&str>) -> Result<File> {
        let options = Options::new(path).sync(self.sync)?;
        let clock = Arc::new(self.clock.clone());
        soon("opening", options.clock(clock, boot).open()).await
    }

    pub fn size(&self) -> u64 {
        std::fs::metadata(self.path()).unwrap().len()
    }
}

pub async fn try_take(store: &File, request: &Acquire) -> Option<Lease> {
    match soon("acquire", store.acquire(request)).await.unwrap() {
        Acquired::Granted(mut leases) => Some(leases.remove(0)),
        Acquired::Held(_) | Acquired::Queued(_) => None,
    }
}

pub async fn take(store: &File, name: &Name, holder: &Holder, ttl: Duration) -> Lease {
    let lease = try_take(store, &acquire(name, holder, ttl)).await;
    lease.unwrap_or_else(|| panic!("{name} was refused"))
}

/// Whether a stranger gets the name; if so it is given back at once.
pub async fn is_free(store: &File, name: &Name) -> bool {
    let stranger = Holder::random();
    let Some(lease) = try_take(store, &acquire(name, &stranger, seconds(1))).await else {
        return false;
    };
    assert_eq!(release(store, &lease, &stranger).await, Released::Released);
    true
}

pub async fn queue(store: &File, name: &Name, holder: &Holder, ttl: Duration, inbox: &Inbox) {
    let request = acquire(name, holder, ttl).queue(inbox.id());
    let answer = soon("queue", store.acquire(&request)).await.unwrap();
    assert!(matches!(answer, Acquired::Queued(_)), "{answer:?}");
}

pub async fn release(store: &File, lease: &Lease, holder: &Holder) -> Released {
    let request = Release::grant(lease.name.clone(), holder.clone(), lease.token);
    soon("release", store.release(&request))
        .await
        .unwrap()
        .remove(0)
}

pub async fn renew(store: &File, lease: &Lease, holder: &Holder, ttl: Duration) -> Renewed {
    let ttl = Ttl::new(ttl).unwrap();
    let item = RenewItem::lease(lease.name.clone(), holder.clone(), lease.token, ttl);
    let items = vec![item];
    let mut answers = soon("renew", store.renew(&Renew { items })).await.unwrap();
    answers.remove(0).unwrap()
}

pub async fn look(store: &File, name: &Name) -> Option<Record> {
    let Seen { what, .. } = soon("get", store.get(name)).await.unwrap();
    what
}

pub async fn sweep(store: &File) -> Swept {
    let request = Sweep::all(1000);
    soon("sweep", store.sweep(&request)).await.unwrap()
}

/// The keys of the leases that a sweep found to have run out, in order.
pub fn keys(swept: &Swept) -> Vec<String> {
    let mut keys: Vec<_> = swept
        .expired
        .iter()
        .map(|expired| expired.name.key().to_owned())
        .collect();
    keys.sort_unstable();
    keys
}
