//! Work for a store: several callers at once who use every verb, before witnesses.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_conformance::history::{Did, Entry, History, Saw};
use leasehold_core::backend::{
    Acquire, Acquired, Amount, CapacitySet, Confirm, Confirmed, Heir, Inbox, Names, Release,
    Released, Renew, RenewItem, Renewed, SetCapacity, Sweep, Watch, What, Withdraw,
};
use leasehold_core::record_store::{RETENTION, RecordStore as _};
use leasehold_core::{
    Backend as _, Holder, Kind, Lease, ManualClock, Metadata, Name, Record, Token, Units,
};
use leasehold_file::File;

use super::Disk;
use super::calls::{acquire, holder, name, owner, ttl};
use super::witness::{Call, Mark, Witness};

/// How many work at once.
const CALLERS: usize = 4;
/// How many names a caller takes together if it needs much room.
const MANY: usize = 10;
/// How long a lock is asked for.
const LOCK_SECS: u64 = 20;
/// The locks that all callers want.
pub const LOCKS: [&str; 2] = ["red", "blue"];

/// A store at work.
pub struct World {
    pub disk: Disk,
    pub clock: ManualClock,
    pub file: File,
    witness: Mutex<Witness>,
    /// Tells moments apart while the clock stands.
    history: History,
}

impl World {
    pub fn new(disk: Disk, clock: ManualClock, file: File) -> Arc<Self> {
        Arc::new(Self {
            disk,
            file,
            witness: Mutex::default(),
            history: History::new(Arc::new(clock.clone())),
            clock,
        })
    }

    pub fn witness(&self) -> MutexGuard<'_, Witness> {
        self.witness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets all callers work at once, turn by turn, until each has had every turn; time goes on in between.
    ///
    /// Two at a time do the same and so get in each other's way; the other two are a little ahead, and let go what these
    /// want.
    pub async fn work(self: &Arc<Self>) {
        let inbox = self.inbox();
        let _watch: Watch = self.file.watch(&inbox, None).await.unwrap();
        let mut callers: Vec<Caller> = (0..CALLERS).map(|n| Caller::new(self, n, &inbox)).collect();
        let start = self.clock_offset(Duration::ZERO);
        let mut offset = start;
        for round in 0..TURNS {
            let tasks: Vec<_> = callers
                .into_iter()
                .map(|mut caller| {
                    tokio::spawn(async move {
                        caller.turn(round + caller.number / 2 * 2).await;
                        caller
                    })
                })
                .collect();
            callers = Vec::new();
            for task in tasks {
                callers.push(task.await.unwrap());
            }
            offset = self.clock_offset(offset + Duration::from_secs(2));
            if round % 5 == 4 {
                self.sweep().await;
            }
        }
        self.clock_offset(offset + RETENTION);
        self.sweep().await;
    }

    /// Moves everything together and closes the store. What is left is what was seen.
    pub async fn close(self: Arc<Self>) -> (Disk, Witness) {
        self.file.store().compact().await.unwrap();
        let Some(world) = Arc::into_inner(self) else {
            panic!("somebody is still at work");
        };
        drop(world.file);
        let witness = world.witness.into_inner();
        (world.disk, witness.unwrap_or_else(PoisonError::into_inner))
    }

    /// Moves the clock to this long after its start.
    fn clock_offset(&self, offset: Duration) -> Duration {
        let mut witness = self.witness();
        let moment = self.disk.moment();
        self.clock
            .advance(offset.saturating_sub(witness.offset_at(moment)));
        witness.saw_tick(moment, offset);
        offset
    }

    /// Events tell tokens, too.
    fn inbox(self: &Arc<Self>) -> Inbox {
        let world = Arc::downgrade(self);
        Inbox::new(move |event| {
            if let (Some(world), What::Granted { lease, .. }) = (world.upgrade(), event.what) {
                let moment = world.disk.moment();
                world.witness().saw_token(moment, lease.token);
            }
        })
    }

    fn saw_tokens(&self, tokens: impl IntoIterator<Item = Token>) {
        let moment = self.disk.moment();
        let mut witness = self.witness();
        for token in tokens {
            witness.saw_token(moment, token);
        }
    }

    /// Notes what is stored under some names now.
    async fn look(&self, names: &[Name]) -> Vec<Option<Record>> {
        let mut found = Vec::new();
        for name in names {
            let record = self.file.store().read(name).await.unwrap().what;
            let moment = self.disk.moment();
            self.witness().saw_state(moment, name, record.clone());
            found.push(record);
        }
        found
    }

    /// Notes that what is stored under these names of one caller came there in one step.
    async fn look_together(&self, names: &[Name]) {
        let records = self.look(names).await;
        let mark = |record: Option<Record>| Mark::Version(record.unwrap().version);
        let marks = names.iter().cloned().zip(records.into_iter().map(mark));
        self.witness().saw_together(marks.collect());
    }

    async fn acquire(&self, request: &Acquire) -> Acquired {
        let answer = self.file.acquire(request).await.unwrap();
        self.saw_tokens(tokens_in(&answer));
        let records = self.look(request.names.as_slice()).await;
        if let Acquired::Granted(leases) = &answer {
            for (lease, record) in leases.iter().zip(&records) {
                let last = record.as_ref().map(|record| record.last_token);
                assert!(
                    last >= Some(lease.token),
                    "granted, but not there: {lease:?}"
                );
            }
        }
        answer
    }

    async fn granted(&self, request: &Acquire) -> Vec<Lease> {
        match self.acquire(request).await {
            Acquired::Granted(leases) => leases.into_vec(),
            _ => Vec::new(),
        }
    }

    async fn release(&self, request: &Release, names: &[Name]) -> Vec<Released> {
        let answers = self.file.release(request).await.unwrap();
        self.look(names).await;
        answers.into_vec()
    }

    async fn sweep(&self) {
        let request = Sweep::all(100).only("passing", Kind::Lock);
        self.file.sweep(&request).await.unwrap();
        let names: Vec<Name> = (0..CALLERS).map(passing).collect();
        self.look(&names).await;
    }

    /// Runs a call on a lock and notes it for the judges.
    async fn judged<T>(
        &self,
        lock: &Name,
        who: usize,
        did: Did,
        call: impl Future<Output = T>,
        saw: impl FnOnce(&T) -> Saw,
    ) -> T {
        let (begun, start) = (self.disk.moment(), self.history.now());
        let answer = call.await;
        let call = Call {
            begun,
            answered: self.disk.moment(),
            entry: Entry {
                client: u32::try_from(who).unwrap(),
                name: lock.encoded().to_owned(),
                start,
                end: Some(self.history.now()),
                did,
                saw: saw(&answer),
            },
        };
        self.witness().saw_call(call);
        answer
    }
}

fn passing(number: usize) -> Name {
    name("passing", &number.to_string())
}

/// Every token that an answer shows.
pub fn tokens_in(answer: &Acquired) -> Vec<Token> {
    let holding = |blocked: &leasehold_core::backend::Blocked| {
        blocked.holding.as_ref().map(|holding| holding.token)
    };
    match answer {
        Acquired::Granted(leases) => leases.iter().map(|lease| lease.token).collect(),
        Acquired::Held(blocked) => blocked.iter().filter_map(holding).collect(),
        Acquired::Queued(queued) => holding(&queued.blocked).into_iter().collect(),
    }
}

/// How many turns there are.
const TURNS: usize = 16;

/// Somebody who uses a store, and what it has in its hands.
struct Caller {
    world: Arc<World>,
    number: usize,
    holder: Holder,
    inbox: Inbox,
    locks: Vec<Lease>,
    set: Vec<Lease>,
    stock: Vec<Lease>,
    claims: Vec<(Name, Token)>,
}

impl Caller {
    fn new(world: &Arc<World>, number: usize, inbox: &Inbox) -> Self {
        Self {
            world: world.clone(),
            number,
            holder: holder(&format!("caller {number}")),
            inbox: inbox.clone(),
            locks: Vec::new(),
            set: Vec::new(),
            stock: Vec::new(),
            claims: Vec::new(),
        }
    }

    fn own(&self, key: &str) -> Name {
        name("own", &format!("{key}-{}", self.number))
    }

    async fn turn(&mut self, turn: usize) {
        match turn % TURNS {
            0 | 8 => self.contend().await,
            1 | 9 => self.renew_locks().await,
            2 | 10 => self.let_go().await,
            3 => self.take_set().await,
            4 => self.renew_set().await,
            5 => self.release_set().await,
            6 => self.set_capacity().await,
            7 => self.reserve().await,
            11 => self.confirm().await,
            12 => self.hand_over_and_free().await,
            13 => self.take_common_set().await,
            14 => self.be_forced().await,
            _ => self.queue_and_take_much().await,
        }
    }

    /// Wants the locks that all want, one by one.
    async fn contend(&mut self) {
        for key in LOCKS {
            let lock = name("lock", key);
            let request = acquire([lock.clone()], &self.holder, LOCK_SECS);
            let did = Did::Acquire {
                holder: self.number as u64,
                ttl_ms: LOCK_SECS * 1000,
            };
            let call = self.world.file.acquire(&request);
            let answer = self
                .world
                .judged(&lock, self.number, did, call, Saw::acquired);
            let answer = answer.await.unwrap();
            self.world.saw_tokens(tokens_in(&answer));
            self.world.look(&[lock]).await;
            if let Acquired::Granted(leases) = answer {
                self.locks.extend(leases);
            }
        }
        let request = acquire([passing(self.number)], &self.holder, 3);
        self.world.acquire(&request).await;
    }

    async fn renew_locks(&mut self) {
        for lease in &self.locks {
            let (token, lock) = (lease.token, lease.name.clone());
            let did = Did::Renew {
                holder: self.number as u64,
                token: token.get(),
                ttl_ms: LOCK_SECS * 1000,
            };
            let item = RenewItem::lease(lock.clone(), self.holder.clone(), token, ttl(LOCK_SECS));
            let request = Renew { items: vec![item] };
            let call = async { self.world.file.renew(&request).await.unwrap().remove(0) };
            let answer = self
                .world
                .judged(&lock, self.number, did, call, Saw::renewed);
            if let Renewed::NotHeld(not_held) = answer.await.unwrap() {
                let current = not_held.current.map(|holding| holding.token);
                self.world.saw_tokens(current);
            }
            self.world.look(&[lock]).await;
        }
    }

    async fn let_go(&mut self) {
        for lease in std::mem::take(&mut self.locks) {
            let (token, lock) = (lease.token, lease.name);
            let did = Did::Release {
                holder: self.number as u64,
                token: token.get(),
            };
            let request = Release::grant(lock.clone(), self.holder.clone(), token);
            let call = async { Ok(self.world.file.release(&request).await.unwrap().remove(0)) };
            let answer = self
                .world
                .judged(&lock, self.number, did, call, Saw::released);
            answer.await.unwrap();
            self.world.look(&[lock]).await;
        }
    }

    async fn take_set(&mut self) {
        let names = ["a", "b", "c"].map(|key| self.own(key));
        let request = acquire(names.clone(), &self.holder, 60);
        self.set = self.world.granted(&request).await;
        assert_eq!(self.set.len(), 3);
        self.world.look_together(&names).await;
    }

    async fn renew_set(&mut self) {
        let item = |lease: &Lease| {
            let (name, holder) = (lease.name.clone(), self.holder.clone());
            RenewItem::lease(name, holder, lease.token, ttl(90))
        };
        let items: Vec<RenewItem> = self.set.iter().map(item).collect();
        let names: Vec<Name> = self.set.iter().map(|lease| lease.name.clone()).collect();
        let answers = self.world.file.renew(&Renew { items }).await.unwrap();
        assert!(
            answers
                .iter()
                .all(|answer| matches!(answer, Ok(Renewed::Renewed(_))))
        );
        self.world.look_together(&names).await;
    }

    async fn release_set(&mut self) {
        let set = std::mem::take(&mut self.set);
        let names: Vec<Name> = set.iter().map(|lease| lease.name.clone()).collect();
        let request = Release::Grants {
            holder: self.holder.clone(),
            grants: set
                .into_iter()
                .map(|lease| (lease.name, lease.token))
                .collect(),
        };
        self.world.release(&request, &names).await;
        self.world.look_together(&names).await;
    }

    /// One more of what all buy from; another caller may have been quicker, which is fine.
    async fn set_capacity(&mut self) {
        let stock = name("shop", "stock");
        let record = self
            .world
            .look(std::slice::from_ref(&stock))
            .await
            .remove(0);
        let units = record.as_ref().and_then(|record| record.capacity);
        let request = SetCapacity {
            name: stock.clone(),
            units: Some(units.unwrap_or(10) + 1),
            expect_version: Some(record.map_or(0, |record| record.version)),
        };
        let answer = self.world.file.set_capacity(&request).await.unwrap();
        let record = self
            .world
            .look(std::slice::from_ref(&stock))
            .await
            .remove(0);
        let (CapacitySet::Set(version) | CapacitySet::VersionChanged(version)) = answer;
        assert!(record.is_some_and(|record| record.version >= version));
    }

    /// Two units of what all buy from, and a seat of one's own, in one step.
    async fn reserve(&mut self) {
        let (seat, stock) = (self.own("seat"), name("shop", "stock"));
        let names = [seat, stock];
        let request = acquire(names, &self.holder, 120).kind(Kind::Reservation);
        let request = request.each(|name| Amount {
            units: Units::new(if name.namespace() == "shop" { 2 } else { 1 }).unwrap(),
            limit: 10,
        });
        self.stock = self.world.granted(&request).await;
        let marks = self.stock.iter();
        let marks = marks.map(|lease| (lease.name.clone(), Mark::Token(lease.token)));
        let marks = marks.collect();
        self.world.witness().saw_together(marks);
    }

    async fn confirm(&mut self) {
        let leases = std::mem::take(&mut self.stock);
        let items: Vec<_> = leases
            .into_iter()
            .map(|lease| (lease.name, lease.token))
            .collect();
        if items.is_empty() {
            return;
        }
        let request = items.iter().cloned().collect();
        let request = Confirm::all(request, self.holder.clone(), "order 7").unwrap();
        let answer = self.world.file.confirm(&request).await.unwrap();
        let names: Vec<Name> = items.iter().map(|(name, _)| name.clone()).collect();
        self.world.look(&names).await;
        let Confirmed::Confirmed(versions) = answer else {
            panic!("not confirmed: {answer:?}");
        };
        let versions = versions.into_iter().map(Mark::Version);
        let marks = names.into_iter().zip(versions);
        self.world.witness().saw_together(marks.collect());
        self.claims = items;
    }

    /// Hands its claims to somebody else, who frees one and spends the other.
    async fn hand_over_and_free(&mut self) {
        let claims = std::mem::take(&mut self.claims);
        if claims.is_empty() {
            return;
        }
        let heir = holder(&format!("heir of {}", self.number));
        let request = claims.iter().cloned().collect();
        let request = Confirm::all(request, self.holder.clone(), "order 8").unwrap();
        let request = request.hand_over(Heir {
            holder: heir.clone(),
            owner: owner(),
        });
        self.world.file.confirm(&request).await.unwrap();
        let names: Vec<Name> = claims.iter().map(|(name, _)| name.clone()).collect();
        self.world.look(&names).await;
        for (at, claim) in claims.into_iter().enumerate() {
            let names = [claim.0.clone()];
            let request = Release::Claims {
                holder: heir.clone(),
                claims: [claim].into_iter().collect(),
                spend: at == 0,
            };
            self.world.release(&request, &names).await;
        }
    }

    /// Wants three names at once that all want, and lets them go if it gets them.
    async fn take_common_set(&mut self) {
        let names = ["x", "y", "z"].map(|key| name("common", key));
        let request = acquire(names.clone(), &self.holder, 30);
        let leases = self.world.granted(&request).await;
        let marks: Vec<_> = leases
            .iter()
            .map(|lease| (lease.name.clone(), Mark::Token(lease.token)))
            .collect();
        self.world.witness().saw_together(marks);
        if !leases.is_empty() {
            let names = Names::new(names).unwrap();
            let request = Withdraw {
                names: names.clone(),
                holder: self.holder.clone(),
            };
            self.world.file.withdraw(&request).await.unwrap();
            self.world.look(names.as_slice()).await;
        }
    }

    async fn be_forced(&mut self) {
        let forced = self.own("forced");
        let request = acquire([forced.clone()], &self.holder, 60);
        let request = request.lock_delay(Duration::from_secs(5)).unwrap();
        let leases = self.world.granted(&request).await;
        let token = leases.first().map(|lease| lease.token);
        let request = Release::force(forced.clone(), token, owner(), "a test").unwrap();
        self.world.release(&request, &[forced]).await;
    }

    /// Stands in a line, and takes so much that the file must grow.
    async fn queue_and_take_much(&mut self) {
        let line = name("line", "first");
        let request = acquire([line.clone()], &self.holder, 60).queue(self.inbox.id());
        self.world.acquire(&request).await;
        let names = (0..MANY).map(|at| self.own(&format!("much-{at}")));
        let text = Metadata::new("x".repeat(Metadata::MAX_BYTES)).unwrap();
        let request = acquire(names, &self.holder, 300).metadata(Some(text));
        let much = self.world.granted(&request).await;
        assert_eq!(much.len(), MANY);
        self.world.look_together(request.names.as_slice()).await;
        let request = Withdraw {
            names: Names::one(line.clone()),
            holder: self.holder.clone(),
        };
        self.world.file.withdraw(&request).await.unwrap();
        self.world.look(&[line]).await;
    }
}
