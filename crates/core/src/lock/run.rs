//! Running a body with the lock, and stopping it when the lock is lost.

use std::fmt;
use std::time::Duration;

use super::guard::{Guard, Held};
use super::handle::Lock;
use super::hold::LostCause;
use crate::error::{Effect, Error, ErrorKind};

/// Why a body did not run to its end under the lock.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The lock stayed taken; the body was not started.
    NotAcquired(Error),
    /// The lock was lost after this long; the body was dropped at its next await, or had gone on for too long.
    Lost {
        /// Why.
        cause: LostCause,
        /// How long the lock had been held.
        after: Duration,
    },
    /// It is unknown whether the store granted the lock; the body was not started, and what may have been granted is
    /// given back in the background.
    Unknown(Error),
    /// Something failed, certainly without effect; the body was not started.
    Failed(Error),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAcquired(error) | Self::Unknown(error) | Self::Failed(error) => error.fmt(f),
            Self::Lost { cause, after } => write!(f, "the lock was lost after {after:?}: {cause}"),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotAcquired(error) | Self::Unknown(error) | Self::Failed(error) => Some(error),
            Self::Lost { .. } => None,
        }
    }
}

impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        match (error.kind(), error.effect()) {
            (ErrorKind::NotAcquired, _) => Self::NotAcquired(error),
            (_, Effect::Unknown) => Self::Unknown(error),
            (_, Effect::None) => Self::Failed(error),
        }
    }
}

impl Lock {
    /// Waits for the lock, runs the body, stops it if the lock is lost, and releases.
    ///
    /// The body gets a [`Held`] to read the token from and to check. When the lock is lost the body is dropped at the
    /// await it stands at, so that it cannot go on without the lock. Add [`renewing`](Self::renewing) to keep the lease
    /// alive for as long as the body runs.
    ///
    /// # Errors
    /// See [`RunError`]. What the body returns, errors included, comes back as it is; trouble with the release never
    /// hides it.
    ///
    /// # Cancel safety
    /// Dropped midway, the body is dropped first and the lock is then released in the background.
    pub async fn run<T, F, Fut>(&self, body: F) -> Result<T, RunError>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T>,
    {
        run(self.acquire().await?, body).await
    }

    /// As [`run`](Self::run), but waits for at most this long.
    ///
    /// # Errors
    /// See [`RunError`].
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_within<T, F, Fut>(&self, wait: Duration, body: F) -> Result<T, RunError>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T>,
    {
        run(self.acquire_within(wait).await?, body).await
    }

    /// As [`run`](Self::run), but only if the lock is free right now; `None` if it is not.
    ///
    /// # Errors
    /// See [`RunError`].
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn try_run<T, F, Fut>(&self, body: F) -> Result<Option<T>, RunError>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T>,
    {
        match self.try_acquire().await? {
            Some(guard) => run(guard, body).await.map(Some),
            None => Ok(None),
        }
    }
}

async fn run<T, F, Fut>(guard: Guard, body: F) -> Result<T, RunError>
where
    F: FnOnce(Held) -> Fut,
    Fut: Future<Output = T>,
{
    let held = guard.held();
    let finished = {
        let body = body(held.clone());
        tokio::select! {
            biased;
            cause = held.lost() => Err(cause),
            value = body => Ok(value),
        }
    };
    let after = held.held_for();
    match finished {
        Ok(value) => {
            let in_time = held.is_held();
            match guard.release().await {
                Err(error) if error.kind() == ErrorKind::Lost || !in_time => {
                    let cause = error.lost_cause().cloned().unwrap_or(LostCause::Expired);
                    Err(RunError::Lost { cause, after })
                }
                // The lock was ours while the body ran; the background finishes a failed release.
                Ok(()) | Err(_) => Ok(value),
            }
        }
        Err(cause) => Err(RunError::Lost { cause, after }),
    }
}
