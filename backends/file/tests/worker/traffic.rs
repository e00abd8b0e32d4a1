//! What the processes do that will be killed: eight tasks on a few names, each of which reports what it begins before it
//! begins and what it was answered before it goes on. So the parent has exactly what callers could have seen.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_conformance::history::{Did, Saw};
use leasehold_core::backend::{
    Acquire, Acquired, Confirm, Confirmed, Names, Release, Renew, RenewItem, Sweep,
};
use leasehold_core::{
    Backend as _, Clock as _, Holder, Kind, Lease, Name, Owner, Result, SystemClock, Token, Ttl,
};
use leasehold_file::{File, Options, Sync};

use super::process::{say, setting};
use super::seeded::Seeded;
use super::storage::{Fuse, Fused};
use super::witness::{FOR_GOOD_MS, Line, Sight};

pub const CLIENTS: u64 = 8;
const LOCKS: [&str; 4] = ["lock-a", "lock-b", "lock-c", "lock-d"];
const THINGS: [&str; 3] = ["thing-a", "thing-b", "thing-c"];
const ENTITY: &str = "order";

/// What a worker is told by its environment.
#[derive(Debug, Clone)]
pub struct Orders {
    pub path: PathBuf,
    pub seed: u64,
    /// The how-manieth process on this file this is.
    pub generation: u64,
    /// Nothing for a sync with every answer.
    pub pause: Option<Duration>,
    /// After so many changes of the file nothing goes on.
    pub fuse: Option<i64>,
}

impl Orders {
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![
            ("LEASEHOLD_WORKER_PATH", self.path.display().to_string()),
            ("LEASEHOLD_WORKER_SEED", self.seed.to_string()),
            ("LEASEHOLD_WORKER_GENERATION", self.generation.to_string()),
        ];
        let pause = self.pause.map(|pause| pause.as_millis().to_string());
        settings.extend(pause.map(|pause| ("LEASEHOLD_WORKER_PAUSE", pause)));
        let fuse = self.fuse.map(|fuse| fuse.to_string());
        settings.extend(fuse.map(|fuse| ("LEASEHOLD_WORKER_FUSE", fuse)));
        settings
    }

    /// What this process was told, if it is a worker.
    pub fn given() -> Option<Self> {
        let number = |key: &str| setting(key).and_then(|text| text.parse::<u64>().ok());
        Some(Self {
            path: setting("LEASEHOLD_WORKER_PATH")?.into(),
            seed: number("LEASEHOLD_WORKER_SEED")?,
            generation: number("LEASEHOLD_WORKER_GENERATION")?,
            pause: number("LEASEHOLD_WORKER_PAUSE").map(Duration::from_millis),
            fuse: setting("LEASEHOLD_WORKER_FUSE").and_then(|text| text.parse().ok()),
        })
    }

    async fn open(&self, fuse: &Fuse) -> Result<File> {
        let sync = self.pause.map_or(Sync::Always, Sync::Every);
        let options = Options::new(&self.path).sync(sync)?;
        if self.fuse.is_none() {
            return options.open().await;
        }
        let (path, fuse) = (self.path.clone(), fuse.clone());
        options
            .open_on(move || Fused::open(&path, fuse.clone()))
            .await
    }
}

/// Opens the file, says what is in it, and works until the process is killed, or for so many operations.
pub fn run(orders: &Orders, operations: u64) {
    say("hello");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(work(orders, operations));
}

async fn work(orders: &Orders, operations: u64) {
    let fuse = Fuse::default();
    let store = Arc::new(orders.open(&fuse).await.unwrap());
    let durable = store.describe().guarantees.durable;
    say(&Line::Opened { durable }.to_string());
    let reporter = Arc::new(Reporter {
        store,
        next: AtomicU64::new(orders.generation * 1_000_000),
        last: (orders.generation * 1_000_000).saturating_add(operations),
    });
    look_around(&reporter).await;
    if let Some(changes) = orders.fuse {
        fuse.set(changes);
    }
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| tokio::spawn(Client::new(client, orders, &reporter).run()))
        .collect();
    for client in clients {
        client.await.unwrap();
    }
}

/// Reports what is there, and frees what somebody confirmed who is gone now.
async fn look_around(reporter: &Reporter) {
    for key in LOCKS.into_iter().chain(THINGS) {
        let name = name(key);
        let sight = Sight::take(&reporter.store, &name).await;
        say(&Line::Seen(sight.clone()).to_string());
        for (holder, token) in sight.claims {
            reporter.free(0, &name, holder, Token::new(token)).await;
        }
    }
}

pub fn name(key: &str) -> Name {
    Name::new("kill", key).unwrap()
}

/// Every process knows the secrets of all: they follow from the number.
fn holder(number: u64) -> Holder {
    Holder::derived(["kill", &number.to_string()])
}

/// Does what it is told, and reports it.
struct Reporter {
    store: Arc<File>,
    next: AtomicU64,
    last: u64,
}

impl Reporter {
    fn is_done(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.last
    }

    /// Reports the beginning, and gives the number of the operation.
    fn begin(&self, client: u64, name: &Name, did: Did) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let line = Line::Begun {
            id,
            client: u32::try_from(client).unwrap(),
            name: name.encoded().to_owned(),
            start: SystemClock.now().as_nanos(),
            did,
        };
        say(&line.to_string());
        id
    }

    fn end(&self, id: u64, saw: Saw) {
        let end = SystemClock.now().as_nanos();
        say(&Line::Answered { id, end, saw }.to_string());
    }

    async fn acquire(&self, client: u64, request: &Acquire, number: u64) -> Option<Lease> {
        let (holder, ttl_ms) = (number, request.ttl.as_millis());
        let did = Did::Acquire { holder, ttl_ms };
        let id = self.begin(client, request.names.first(), did);
        let answer = self.store.acquire(request).await;
        self.end(id, Saw::acquired(&answer));
        match answer {
            Ok(Acquired::Granted(mut leases)) => Some(leases.remove(0)),
            _ => None,
        }
    }

    async fn renew(&self, client: u64, lease: &Lease, number: u64, ttl: Ttl) {
        let did = Did::Renew {
            holder: number,
            token: lease.token.get(),
            ttl_ms: ttl.as_millis(),
        };
        let item = RenewItem::lease(lease.name.clone(), holder(number), lease.token, ttl);
        let request = Renew { items: vec![item] };
        let id = self.begin(client, &lease.name, did);
        let answer = self.store.renew(&request).await;
        let answer = answer.and_then(|mut answers| answers.remove(0));
        self.end(id, Saw::renewed(&answer));
    }

    async fn release(&self, client: u64, lease: &Lease, number: u64) {
        let request = Release::grant(lease.name.clone(), holder(number), lease.token);
        let ended = (number, lease.token);
        self.let_go(client, &lease.name, ended, &request).await;
    }

    /// Gives up what was confirmed.
    async fn free(&self, client: u64, name: &Name, number: u64, token: Token) {
        let request = Release::Claims {
            holder: holder(number),
            claims: [(name.clone(), token)].into_iter().collect(),
            spend: false,
        };
        self.let_go(client, name, (number, token), &request).await;
    }

    async fn let_go(&self, client: u64, name: &Name, ended: (u64, Token), request: &Release) {
        let did = Did::Release {
            holder: ended.0,
            token: ended.1.get(),
        };
        let id = self.begin(client, name, did);
        let answer = self.store.release(request).await;
        let answer = answer.map(|mut answers| answers.remove(0));
        self.end(id, Saw::released(&answer));
    }

    /// Confirms a reservation. To the judges of histories that is a renewal for good.
    async fn confirm(&self, client: u64, lease: &Lease, number: u64) -> bool {
        let token = lease.token.get();
        let ttl_ms = FOR_GOOD_MS;
        let did = Did::Renew {
            holder: number,
            token,
            ttl_ms,
        };
        let name = lease.name.clone();
        let request = Confirm::new(name, lease.token, holder(number), ENTITY).unwrap();
        let id = self.begin(client, &lease.name, did);
        let answer = self.store.confirm(&request).await;
        let saw = match &answer {
            Ok(Confirmed::Confirmed(_)) => Saw::Held { token, ttl_ms },
            Ok(_) => Saw::NotHeld,
            Err(error) => Saw::failure(error),
        };
        self.end(id, saw);
        matches!(saw, Saw::Held { .. })
    }
}

/// One of eight.
struct Client {
    number: u64,
    generation: u64,
    /// How many holders it has been.
    lives: u64,
    /// Nothing that was lost may be taken for something that came twice.
    always_new: bool,
    rng: Seeded,
    reporter: Arc<Reporter>,
}

impl Client {
    fn new(number: u64, orders: &Orders, reporter: &Arc<Reporter>) -> Self {
        let seed = orders.seed ^ (orders.generation << 8) ^ number;
        Self {
            number,
            generation: orders.generation,
            lives: 0,
            always_new: orders.pause.is_some(),
            rng: Seeded::new(seed),
            reporter: reporter.clone(),
        }
    }

    async fn run(mut self) {
        while !self.reporter.is_done() {
            match self.rng.below(200) {
                // Refused if others are too busy.
                0 => drop(self.reporter.store.store().compact().await),
                1..10 => drop(self.reporter.store.sweep(&Sweep::default()).await),
                10..60 => self.use_thing().await,
                _ => self.use_lock().await,
            }
        }
    }

    /// Somebody nobody has been before, in this process or another.
    fn new_holder(&mut self) -> u64 {
        self.lives += 1;
        CLIENTS + (self.generation * CLIENTS + self.number) * 100_000 + self.lives
    }

    /// A few hundred milliseconds, or seconds.
    fn ttl(&mut self) -> Ttl {
        let millis = if self.rng.once_in(2) {
            100 + self.rng.below(300)
        } else {
            1000 + self.rng.below(2000)
        };
        Ttl::from_millis(millis).unwrap()
    }

    fn request(&mut self, key: &str, number: u64) -> Acquire {
        let owner = Owner::new(number.to_string()).unwrap();
        Acquire::new(Names::one(name(key)), holder(number), owner, self.ttl())
    }

    async fn rest(&mut self, most_ms: u64) {
        let micros = self.rng.below(most_ms * 1000);
        let end = SystemClock.now().after(Duration::from_micros(micros));
        SystemClock.sleep_until(end).await;
    }

    /// Half of the time it is the same holder as ever, who gets what it had before the process was killed.
    async fn use_lock(&mut self) {
        let number = if self.always_new || self.rng.once_in(2) {
            self.new_holder()
        } else {
            self.number
        };
        let key = *self.rng.pick(&LOCKS);
        let request = self.request(key, number);
        let reporter = self.reporter.clone();
        let Some(lease) = reporter.acquire(self.number, &request, number).await else {
            return self.rest(8).await;
        };
        for _ in 0..self.rng.below(3) {
            self.rest(4).await;
            let ttl = self.ttl();
            reporter.renew(self.number, &lease, number, ttl).await;
        }
        // Now and then it runs out, or is released twice.
        for _ in 0..self.rng.pick(&[0, 1, 1, 1, 1, 2]).to_owned() {
            reporter.release(self.number, &lease, number).await;
        }
    }

    async fn use_thing(&mut self) {
        let number = self.new_holder();
        let key = *self.rng.pick(&THINGS);
        let request = self.request(key, number).kind(Kind::Reservation);
        let reporter = self.reporter.clone();
        let Some(lease) = reporter.acquire(self.number, &request, number).await else {
            return self.rest(8).await;
        };
        if self.rng.once_in(3) {
            return reporter.release(self.number, &lease, number).await;
        }
        if reporter.confirm(self.number, &lease, number).await {
            self.rest(20).await;
            let (name, token) = (&lease.name, lease.token);
            reporter.free(self.number, name, number, token).await;
        }
    }
}
