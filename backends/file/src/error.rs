//! What the engine's errors mean to callers.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use leasehold_core::{Error, ErrorKind};

/// Why the engine could not do something.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It said so.
    Told(redb::Error),
    /// It panicked, as it does over pages that make no sense. Nothing of it may be used or even dropped afterwards.
    Panicked(String),
    /// An error of ours: one record makes no sense, or the store has stopped before.
    Ours(Error),
}

impl Trouble {
    /// Whether the engine itself is all right.
    pub(crate) fn is_harmless(&self) -> bool {
        matches!(self, Self::Ours(_))
    }

    /// The error for callers, naming the file.
    pub(crate) fn explain(self, path: &Path) -> Error {
        match self {
            Self::Told(error) => of_engine(path, error),
            Self::Panicked(what) => corrupt(path, &what),
            Self::Ours(error) => error,
        }
    }
}

impl<E: Into<redb::Error>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Told(error.into())
    }
}

/// Calls the engine, which panics over some kinds of damage.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, Trouble>) -> Result<T, Trouble> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(answer) => answer,
        Err(panic) => Err(Trouble::Panicked(words_of(&*panic))),
    }
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a page makes no sense").to_owned()
}

fn of_engine(path: &Path, error: redb::Error) -> Error {
    let shown = path.display();
    match error {
        redb::Error::Io(error) => of_io(path, error),
        redb::Error::Corrupted(what) => corrupt(path, &what),
        redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TypeDefinitionChanged { .. } => corrupt(path, "it is no file of this store"),
        redb::Error::UpgradeRequired(version) => Error::new(
            ErrorKind::Corrupt,
            format!(
                "the file {shown} has the engine's old format {version}, which is not read any more"
            ),
        ),
        redb::Error::PreviousIo | redb::Error::DatabaseClosed => Error::new(
            ErrorKind::Unavailable,
            format!("the file {shown} is not used any more since an earlier failure"),
        ),
        error => Error::new(
            ErrorKind::Unavailable,
            format!("the file {shown} could not be used: {error}"),
        )
        .with_source(error),
    }
}

/// What an error of the system means for a file.
pub(crate) fn of_io(path: &Path, error: io::Error) -> Error {
    let shown = path.display();
    let (kind, what) = match error.kind() {
        io::ErrorKind::NotFound => (ErrorKind::Config, "its folder does not exist"),
        io::ErrorKind::PermissionDenied => (ErrorKind::Denied, "no permission"),
        io::ErrorKind::IsADirectory => (ErrorKind::Config, "it is a folder"),
        io::ErrorKind::NotADirectory => (ErrorKind::Config, "its folder is a file"),
        io::ErrorKind::InvalidFilename => (ErrorKind::Config, "its name is too long"),
        io::ErrorKind::ReadOnlyFilesystem => (ErrorKind::Denied, "the disk is read-only"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (ErrorKind::Unavailable, "the disk is full")
        }
        io::ErrorKind::UnexpectedEof => (ErrorKind::Corrupt, "it is cut off"),
        io::ErrorKind::InvalidData => (ErrorKind::Corrupt, "it is no file of this store"),
        _ => (ErrorKind::Unavailable, "reading or writing failed"),
    };
    let detail = format!("the file {shown} could not be used: {what} ({error})");
    Error::new(kind, detail).with_source(error)
}

/// The file holds something it should not.
pub(crate) fn corrupt(path: &Path, what: &str) -> Error {
    let shown = path.display();
    Error::new(
        ErrorKind::Corrupt,
        format!("the file {shown} is damaged and must be restored from a copy: {what}"),
    )
}
