//! Opening and making the file. Everything the engine says about damage is turned into an error here or in
//! [`error`](crate::error).

use std::fs;
use std::mem::ManuallyDrop;
use std::path::Path;

use leasehold_core::Result;
use redb::{Builder, Database, ReadableDatabase as _, StorageBackend, WriteTransaction};

use crate::error::{Trouble, corrupt, guarded, of_io};
use crate::meta::Meta;
use crate::owner::{beside, create_private};
use crate::tables;

/// What a new file is called behind its name until it is whole.
const FRESH: &str = ".new";

/// Opens the file, verified from one end to the other: afterwards the engine trusts what it reads.
pub(crate) fn open(path: &Path, cache: usize) -> Result<Database> {
    let metadata = fs::metadata(path).map_err(|error| of_io(path, error))?;
    if metadata.is_file() && metadata.len() == 0 {
        return Err(corrupt(path, "it is empty"));
    }
    let opened = guarded(|| Ok(Builder::new().set_cache_size(cache).open(path)?));
    verified(path, opened.map_err(|trouble| trouble.explain(path))?)
}

/// As [`open`], on storage of one's own, and [`create`] if there is nothing on it.
pub(crate) fn open_on(
    path: &Path,
    storage: impl StorageBackend,
    cache: usize,
    meta: &Meta,
) -> Result<Database> {
    let opened = guarded(|| {
        let mut builder = Builder::new();
        Ok(builder.set_cache_size(cache).create_with_backend(storage)?)
    });
    let database = verified(path, opened.map_err(|trouble| trouble.explain(path))?)?;
    let prepared = guarded(|| {
        let txn = begin(&database)?;
        if txn.list_tables()?.next().is_none() {
            tables::create(&txn, meta)?;
            txn.commit()?;
        }
        Ok(())
    });
    prepared.map_err(|trouble| trouble.explain(path))?;
    Ok(database)
}

/// Verifies an open database. One that fails is leaked: dropping it could bring the whole process down.
fn verified(path: &Path, database: Database) -> Result<Database> {
    let mut database = ManuallyDrop::new(database);
    guarded(|| Ok(database.check_integrity()?)).map_err(|trouble| trouble.explain(path))?;
    Ok(ManuallyDrop::into_inner(database))
}

/// Makes a new file, under another name first: one that is cut off in the making could never be opened again.
pub(crate) fn create(path: &Path, cache: usize, meta: &Meta) -> Result<()> {
    make_beside(path, cache, |txn| tables::create(txn, meta))?;
    put_in_place(path)
}

/// Copies everything into a new file beside the one at `path`. Says whether the new one is smaller.
pub(crate) fn copy(from: &Database, path: &Path, cache: usize) -> Result<bool> {
    make_beside(path, cache, |txn| tables::copy(&from.begin_read()?, txn))?;
    let size = |path: &Path| fs::metadata(path).map(|metadata| metadata.len());
    let sizes = size(&beside(path, FRESH)).and_then(|new| Ok(new < size(path)?));
    sizes.map_err(|error| of_io(path, error))
}

/// Makes a file beside the one at `path`, to be [put in its place](put_in_place).
fn make_beside(
    path: &Path,
    cache: usize,
    fill: impl FnOnce(&WriteTransaction) -> Result<(), Trouble>,
) -> Result<()> {
    let fresh = beside(path, FRESH);
    let failed = |error| of_io(path, error);
    if fresh.symlink_metadata().is_ok() {
        fs::remove_file(&fresh).map_err(failed)?;
    }
    let file = create_private(&fresh).map_err(failed)?;
    let made = guarded(|| {
        let database = Builder::new().set_cache_size(cache).create_file(file)?;
        let txn = begin(&database)?;
        fill(&txn)?;
        Ok(txn.commit()?)
    });
    made.map_err(|trouble| trouble.explain(path))
}

/// Puts the new file in the place of the one at `path`, or where none was.
pub(crate) fn put_in_place(path: &Path) -> Result<()> {
    let moved = fs::rename(beside(path, FRESH), path).and_then(|()| sync_folder(path));
    moved.map_err(|error| of_io(path, error))
}

/// Starts a transaction as all of ours are: with the second sync that a commit needs to survive a failed one.
pub(crate) fn begin(database: &Database) -> Result<WriteTransaction, Trouble> {
    let mut txn = database.begin_write()?;
    txn.set_two_phase_commit(true);
    Ok(txn)
}

/// Makes the system forget what it has in memory of the file. After a failed sync that may be something else than what is
/// on the disk.
pub(crate) fn forget_cached(path: &Path) {
    #[cfg(target_os = "linux")]
    if let Ok(file) = fs::File::open(path) {
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = path;
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    fs::File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> std::io::Result<()> {
    Ok(())
}
