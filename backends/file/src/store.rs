//! The store: what is loaded, written and looked at.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use leasehold_core::backend::{Inbox, List, Page, Seen, Sweep, Watch};
use leasehold_core::record_store::{Change, Committed, Loaded, RecordBackend, RecordStore};
use leasehold_core::registry::StoreUrl;
use leasehold_core::transition::Env;
use leasehold_core::{
    AtomicNames, Backend, Capabilities, Class, Description, Effect, Error, ErrorKind, ExpiryClock,
    Fairness, Fencing, Guarantees, Name, Record, Result, Survival, Timestamp, Token, Ttl,
};
use redb::{Database, StorageBackend};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

use crate::SCHEME;
use crate::clock::StoreClock;
use crate::commit::{Committer, Open, Shared, token_to_write};
use crate::config::{Options, Sync};
use crate::crowd::{Crowd, Visit};
use crate::desk::Desk;
use crate::engine;
use crate::error::{Trouble, guarded, of_io};
use crate::meta::Meta;
use crate::owner::Ownership;
use crate::tables::{self, Books};
use crate::view::View;

/// A file as a [`Backend`]; [`store`](RecordBackend::store) has what only files can do.
pub type File = RecordBackend<Store>;

/// Records in a file of which this process is the only owner.
///
/// Dropping it brings the rest to the disk and closes the file, which takes as long as one commit.
#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
    description: Description,
    /// Above the ownership: the file is closed before somebody else may have it.
    committer: Committer,
    ownership: Option<Ownership>,
}

/// The desk: nobody else is at it.
#[derive(Debug)]
pub struct Stamp {
    desk: OwnedMutexGuard<Desk>,
    visit: Visit,
}

impl Options {
    /// Opens the file, which is made if it is not there.
    ///
    /// The whole file is verified, at about a second per gigabyte.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if another process has it, and which; [`ErrorKind::Corrupt`] if it is damaged or of a
    /// form that is not known here; otherwise what the system says.
    ///
    /// # Cancel safety
    /// Dropped midway, the file is opened, closed again and may have been made.
    pub async fn open(self) -> Result<File> {
        off_thread(move || {
            refuse_folder(&self.path)?;
            let ownership = Ownership::take(&self.path)?;
            let (path, cache) = (self.path.clone(), self.cache);
            if !path.try_exists().map_err(|error| of_io(&path, error))? {
                engine::create(&path, cache, &self.first_meta())?;
            }
            let open = move || engine::open(&path, cache);
            let database = open()?;
            Store::start(self, database, Box::new(open), Some(ownership))
        })
        .await
    }

    /// Opens a database on storage of one's own, for tests of what storage can do to us. Nobody keeps others out.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[doc(hidden)]
    pub async fn open_on<S: StorageBackend>(
        self,
        storage: impl Fn() -> S + Send + std::marker::Sync + 'static,
    ) -> Result<File> {
        off_thread(move || {
            let (path, cache, meta) = (self.path.clone(), self.cache, self.first_meta());
            let open = move || engine::open_on(&path, storage(), cache, &meta);
            let database = open()?;
            Store::start(self, database, Box::new(open), None)
        })
        .await
    }

    fn first_meta(&self) -> Meta {
        let (clock, _) = StoreClock::resume(self.clock.clone(), self.boot.clone(), None);
        Meta {
            next_token: 1,
            reading: clock.reading(),
        }
    }
}

impl Store {
    /// Goes on where the file left off.
    fn start(
        options: Options,
        database: Database,
        open: Open,
        ownership: Option<Ownership>,
    ) -> Result<File> {
        let begun = guarded(|| begin_again(&options, &database));
        let (desk, clock) =
            begun.map_err(|trouble| about_the_file(trouble.explain(&options.path), &options))?;
        let description = description_of(options.sync);
        let shared = Arc::new(Shared {
            options,
            open,
            clock,
            inboxes: Arc::default(),
            crowd: Arc::default(),
            desk: Arc::new(Mutex::new(desk)),
            database: RwLock::new(Some(database)),
        });
        let committer = Committer::start(shared.clone())?;
        Ok(RecordBackend::new(Self {
            shared,
            description,
            committer,
            ownership,
        }))
    }

    /// Opens the file again after a failure, once its cause is gone: a disk that was full, or that came back.
    ///
    /// Whatever was acknowledged is there. What was on its way when it failed may be there or not, as its caller was told.
    /// Does nothing if there was no failure.
    ///
    /// # Errors
    /// As [`Options::open`]; the store then stays as it was.
    pub async fn recover(&self) -> Result<()> {
        let desk = self.shared.desk().await;
        if !desk.has_failed() {
            return Ok(());
        }
        let shared = self.shared.clone();
        off_thread(move || reopen(&shared, desk)).await
    }

    /// Copies what is in the file to a new one, which takes its place and no more room than it needs. Others wait
    /// meanwhile, and the disk needs room for both. Says whether the new one is smaller.
    ///
    /// A file does not grow without end: what becomes free is used again. This is for one that was much larger once.
    ///
    /// # Errors
    /// If the copy could not be made; the store goes on with the file it has.
    pub async fn compact(&self) -> Result<bool> {
        let check = self.shared.desk().await.check();
        check.map_err(|trouble| self.explain(trouble))?;
        // Storage of one's own has no place for a copy.
        if self.ownership.is_none() {
            return Ok(false);
        }
        self.catch_up().await?;
        let shared = self.shared.clone();
        off_thread(move || compact(&shared)).await
    }

    /// Whether an answer may be given only once it is on the disk. However seldom the disk follows, no token may be seen
    /// that could come back.
    fn must_wait(&self, desk: &Desk) -> bool {
        self.shared.options.sync == Sync::Always || desk.next_token > desk.written_token
    }

    /// Brings whatever was acknowledged to the disk, if it may not be there yet.
    async fn catch_up(&self) -> Result<()> {
        if self.shared.options.sync == Sync::Always {
            return Ok(());
        }
        let desk = self.shared.desk().await;
        if !desk.is_ahead() {
            return Ok(());
        }
        self.on_disk(desk).await
    }

    /// Waits until all that is at the desk is on the disk.
    async fn on_disk(&self, mut desk: OwnedMutexGuard<Desk>) -> Result<()> {
        let told = desk.wait();
        let is_to_call = desk.is_to_call();
        drop(desk);
        if is_to_call {
            self.committer.hurry();
        }
        told.await.unwrap_or_else(|_| {
            let gone = Error::new(
                ErrorKind::Unavailable,
                "the store was closed before it could answer",
            );
            Err(gone.with_effect(Effect::Unknown))
        })
    }

    /// Looks at what was acknowledged.
    async fn look<T>(&self, look: impl FnOnce(&View) -> Result<T, Trouble>) -> Result<T> {
        self.catch_up().await?;
        let seen = self
            .shared
            .on_database(|database| look(&View::of(database)?));
        seen.map_err(|trouble| self.explain(trouble))
    }

    fn explain(&self, trouble: Trouble) -> Error {
        about_the_file(
            trouble.explain(&self.shared.options.path),
            &self.shared.options,
        )
    }

    /// What to answer over a trouble in the transaction: one record, or the end of all work.
    fn stopped(&self, desk: &mut Desk, trouble: Trouble) -> Error {
        if trouble.is_harmless() {
            self.explain(trouble)
        } else {
            self.shared.fail(desk, trouble)
        }
    }
}

/// Before a note is left beside something that is no file.
fn refuse_folder(path: &Path) -> Result<()> {
    if path.file_name().is_none() || path.is_dir() {
        return Err(of_io(path, std::io::ErrorKind::IsADirectory.into()));
    }
    Ok(())
}

/// Damage of one record is told with the file it is in.
fn about_the_file(error: Error, options: &Options) -> Error {
    let path = options.path.display().to_string();
    if error.kind() != ErrorKind::Corrupt || error.detail().contains(&path) {
        return error;
    }
    Error::new(
        ErrorKind::Corrupt,
        format!("in the file {path}: {}", error.detail()),
    )
}

/// What a file that is being opened has to go on with. What was live when it was last written is prolonged.
fn begin_again(options: &Options, database: &Database) -> Result<(Desk, StoreClock), Trouble> {
    let txn = engine::begin(database)?;
    let last = tables::read_meta(&txn)?;
    let (clock, boot) = (options.clock.clone(), options.boot.clone());
    let (clock, gap) = StoreClock::resume(clock, boot, Some(&last.reading));
    let reading = clock.reading();
    let written = token_to_write(options.sync, last.next_token, &reading);
    let desk = Desk::new(last.next_token, written);
    if gap.is_zero() && written == last.next_token {
        txn.abort()?;
        return Ok((desk, clock));
    }
    let mut books = Books::open(&txn)?;
    if !gap.is_zero() {
        books.prolong(Timestamp::from_millis(last.reading.micros / 1000), gap)?;
    }
    books.write_meta(&Meta {
        next_token: written,
        reading,
    })?;
    drop(books);
    txn.commit()?;
    Ok((desk, clock))
}

fn reopen(shared: &Shared, mut desk: OwnedMutexGuard<Desk>) -> Result<()> {
    let options = &shared.options;
    let mut database = shared
        .database
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    drop(database.take());
    engine::forget_cached(&options.path);
    let opened = (shared.open)()?;
    let meta = guarded(|| tables::read_meta(&engine::begin(&opened)?));
    let meta = meta.map_err(|trouble| trouble.explain(&options.path))?;
    desk.reopen(meta.next_token);
    *database = Some(opened);
    Ok(())
}

/// Copies the file and puts the copy in its place.
///
/// The engine could do it in place, but with commits of one sync, of which a failed one could take the whole file along.
fn compact(shared: &Shared) -> Result<bool> {
    let options = &shared.options;
    let mut place = shared
        .database
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    let database = place.as_ref().ok_or(redb::Error::DatabaseClosed);
    let copied = match database {
        Ok(database) => engine::copy(database, &options.path, options.cache),
        Err(error) => Err(Trouble::from(error).explain(&options.path)),
    };
    // Up to here nothing has happened to the file.
    let gained = copied?;
    drop(place.take());
    match engine::put_in_place(&options.path).and_then(|()| (shared.open)()) {
        Ok(database) => {
            *place = Some(database);
            Ok(gained)
        }
        Err(error) => {
            drop(place);
            Err(shared.fail(&mut shared.desk.blocking_lock(), Trouble::Ours(error)))
        }
    }
}

#[async_trait]
impl RecordStore for Store {
    type Stamp = Stamp;

    fn describe(&self) -> &Description {
        &self.description
    }

    async fn load(&self, names: &[&Name]) -> Result<Loaded<Stamp>> {
        let visit = Crowd::join(&self.shared.crowd);
        let mut desk = self.shared.desk().await;
        let records = match desk.load(names, |missing| self.shared.fetch(missing)) {
            Ok(records) => records,
            Err(trouble) => return Err(self.stopped(&mut desk, trouble)),
        };
        // After the desk was ours: time spent waiting for it is over.
        let micros = self.shared.clock.micros();
        let env = Env {
            watched: self.shared.inboxes.watches_names(),
            now: Timestamp::from_millis(micros / 1000),
            next_token: Token::new(desk.next_token.max(micros)),
        };
        Ok(Loaded {
            records,
            env,
            stamp: Stamp { desk, visit },
        })
    }

    async fn commit(&self, stamp: Stamp, change: Change) -> Result<Committed> {
        let Stamp { mut desk, visit } = stamp;
        let changed = desk.change(change.records, change.next_token.get());
        changed.map_err(|trouble| self.explain(trouble))?;
        // However seldom the disk follows, no token may be seen that could come back.
        let at_once =
            self.shared.options.sync == Sync::Always || desk.next_token > desk.written_token;
        if at_once {
            desk.tell(change.events);
            self.on_disk(desk).await?;
        } else {
            drop(desk);
            self.committer.call();
            self.shared.inboxes.deliver(change.events);
        }
        drop(visit);
        Ok(Committed::Done)
    }

    /// Others may have written what the answer rests on; until it is on the disk, they may lose it again.
    async fn unchanged(&self, stamp: Stamp) -> Result<()> {
        let Stamp { desk, visit } = stamp;
        if desk.is_ahead() && self.must_wait(&desk) {
            self.on_disk(desk).await?;
        }
        drop(visit);
        Ok(())
    }

    async fn read(&self, name: &Name) -> Result<Seen<Option<Record>>> {
        let now = self.shared.clock.now();
        if self.shared.options.sync != Sync::Always {
            let desk = self.shared.desk().await;
            let must_wait = desk.is_ahead() && self.must_wait(&desk);
            if let Some(record) = desk.cache.get(name).filter(|_| !must_wait) {
                let what = (!record.is_blank()).then(|| record.clone());
                return Ok(Seen { what, now });
            }
        }
        let what = self.look(|view| view.read(name)).await?;
        Ok(Seen { what, now })
    }

    async fn scan(&self, request: &List) -> Result<Seen<Page<Record>>> {
        let now = self.shared.clock.now();
        let (items, more) = self.look(|view| view.scan(request)).await?;
        let what = Page { items, more };
        Ok(Seen { what, now })
    }

    async fn due(&self, sweep: &Sweep, limit: usize) -> Result<Vec<Name>> {
        let now = self.shared.clock.now();
        loop {
            let found = self.look(|view| view.overdue(sweep, limit, now)).await?;
            if found.early.is_empty() {
                return Ok(found.wanted);
            }
            let mut desk = self.shared.desk().await;
            let fetch = |missing: &[&Name]| self.shared.fetch(missing);
            if let Err(trouble) = desk.put_right(&found.early, fetch) {
                return Err(self.stopped(&mut desk, trouble));
            }
            if !found.cut_short {
                drop(desk);
                self.committer.call();
                return Ok(found.wanted);
            }
            self.on_disk(desk).await?;
        }
    }

    async fn watch(&self, inbox: &Inbox, name: Option<&Name>) -> Result<Watch> {
        Ok(self.shared.inboxes.watch(inbox, name))
    }
}

/// Runs something that takes its time on a thread of its own, and waits for it without blocking.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (done, result) = oneshot::channel();
    let thread = std::thread::Builder::new().name("leasehold-file-open".to_owned());
    let spawned = thread.spawn(move || {
        let _ = done.send(work());
    });
    spawned.map_err(|error| {
        Error::new(ErrorKind::Unavailable, "the system gives no thread").with_source(error)
    })?;
    result
        .await
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "opening the file panicked")))
}

/// The factory for `file:`.
///
/// # Errors
/// As [`Options::from_url`] and [`Options::open`].
pub async fn connect(url: StoreUrl) -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(Options::from_url(&url)?.open().await?))
}

/// What this store is, can do and promises, unless it is told to sync less often.
#[must_use]
pub fn description() -> Description {
    description_of(Sync::Always)
}

fn description_of(sync: Sync) -> Description {
    let (durable, assumes) = match sync {
        Sync::Always => (
            true,
            "one process owns the file, and the disk keeps what it has acknowledged; after a restart of the machine, \
             live leases last longer by the time since the last commit",
        ),
        Sync::Every(_) => (
            false,
            "one process owns the file; the end of the process loses what was acknowledged since the last sync, grants \
             included, though tokens still grow",
        ),
    };
    Description {
        scheme: SCHEME,
        capabilities: Capabilities {
            queue: true,
            watch: true,
            list: true,
            reservations: true,
            quantities: true,
            adopt: true,
            atomic_names: AtomicNames::All,
            atomic_facts: true,
            renew_batch: 1000,
            min_ttl: Ttl::MIN,
            max_ttl: Ttl::MAX,
            ttl_step: Ttl::MIN,
        },
        guarantees: Guarantees {
            class: Class::P,
            fencing: Fencing::Monotonic,
            expiry_clock: ExpiryClock::ProcessMonotonic,
            durable,
            survives_failover: Survival::NotApplicable,
            fairness: Fairness::Fifo,
            assumes,
        },
    }
}
