//! One error type. Being refused is an outcome; these are failures, and each says what it did to the store.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::backend::Blocked;
use crate::lock::LostCause;
use crate::name::Name;
use crate::reservation::Code;

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in a closed set that callers can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument breaks a documented rule; the message says which and what is allowed.
    InvalidInput,
    /// The set-up is wrong: a builder option, a URL, a missing runtime.
    Config,
    /// The store (or this build) cannot do what was asked; it was not asked.
    Unsupported,
    /// The store cannot be reached or refuses to work right now.
    Unavailable,
    /// The store did not answer in time.
    Timeout,
    /// The store refuses us: wrong credentials or missing rights.
    Denied,
    /// The store holds something that cannot be a record of ours.
    Corrupt,
    /// The name stayed taken until the deadline. [`Error::blocked`] says by whom.
    NotAcquired,
    /// The lease is no longer held.
    Lost,
    /// What was asked for contradicts what is there by now; [`Error::code`] says how.
    Conflict,
    /// The wait was cancelled.
    Cancelled,
    /// The manager was closed or shut down.
    Closed,
    /// A defect in this library or a broken promise of a backend.
    Internal,
}

impl ErrorKind {
    /// The kind as a permanent snake_case word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid_input",
            Self::Config => "config",
            Self::Unsupported => "unsupported",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Denied => "denied",
            Self::Corrupt => "corrupt",
            Self::NotAcquired => "not_acquired",
            Self::Lost => "lost",
            Self::Conflict => "conflict",
            Self::Cancelled => "cancelled",
            Self::Closed => "closed",
            Self::Internal => "internal",
        }
    }
}

/// What a failed call did to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Certainly nothing.
    None,
    /// Nobody can tell: the request may have taken effect, or may yet.
    Unknown,
}

/// A failure: what kind, what it did to the store, and where it happened.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    effect: Effect,
    detail: Cow<'static, str>,
    op: Option<&'static str>,
    backend: Option<&'static str>,
    name: Option<Name>,
    blocked: Option<Blocked>,
    lost: Option<LostCause>,
    code: Option<Code>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// A failure of this kind that certainly changed nothing in the store.
    pub fn new(kind: ErrorKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            effect: Effect::None,
            detail: detail.into(),
            op: None,
            backend: None,
            name: None,
            blocked: None,
            lost: None,
            code: None,
            source: None,
        }))
    }

    /// Shorthand for an [`ErrorKind::InvalidInput`].
    pub fn invalid(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidInput, detail)
    }

    /// Shorthand for an [`ErrorKind::Unsupported`].
    pub fn unsupported(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unsupported, detail)
    }

    /// Says what the failed call did to the store.
    #[must_use]
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.0.effect = effect;
        self
    }

    /// Says which operation failed, on which backend.
    #[must_use]
    pub fn during(mut self, op: &'static str, backend: &'static str) -> Self {
        self.0.op.get_or_insert(op);
        self.0.backend.get_or_insert(backend);
        self
    }

    /// Says which name was concerned.
    #[must_use]
    pub fn with_name(mut self, name: &Name) -> Self {
        self.0.name.get_or_insert_with(|| name.clone());
        self
    }

    /// Says who was in the way.
    #[must_use]
    pub fn with_blocked(mut self, blocked: Blocked) -> Self {
        self.0.blocked = Some(blocked);
        self
    }

    /// Says how the lease was lost.
    #[must_use]
    pub(crate) fn with_lost(mut self, cause: LostCause) -> Self {
        self.0.lost = Some(cause);
        self
    }

    /// Gives it the permanent word it is known by.
    #[must_use]
    pub(crate) fn with_code(mut self, code: Code) -> Self {
        self.0.code = Some(code);
        self
    }

    /// The same error about other names, for wrappers that rename.
    #[must_use]
    pub(crate) fn map_names(mut self, rename: impl Fn(Name) -> Name) -> Self {
        self.0.name = self.0.name.take().map(&rename);
        if let Some(blocked) = &mut self.0.blocked {
            blocked.name = rename(blocked.name.clone());
        }
        self
    }

    /// The same error again, without its source.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self(Box::new(Inner {
            kind: self.0.kind,
            effect: self.0.effect,
            detail: self.0.detail.clone(),
            op: self.0.op,
            backend: self.0.backend,
            name: self.0.name.clone(),
            blocked: self.0.blocked.clone(),
            lost: self.0.lost.clone(),
            code: self.0.code,
            source: None,
        }))
    }

    /// Keeps the underlying error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What the failed call did to the store.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// The operation that failed, where known.
    #[must_use]
    pub fn op(&self) -> Option<&'static str> {
        self.0.op
    }

    /// The backend it failed on, where known.
    #[must_use]
    pub fn backend(&self) -> Option<&'static str> {
        self.0.backend
    }

    /// The name concerned, where there is one.
    #[must_use]
    pub fn name(&self) -> Option<&Name> {
        self.0.name.as_ref()
    }

    /// Who was in the way, for [`ErrorKind::NotAcquired`].
    #[must_use]
    pub fn blocked(&self) -> Option<&Blocked> {
        self.0.blocked.as_ref()
    }

    /// How the lease was lost, for [`ErrorKind::Lost`].
    #[must_use]
    pub fn lost_cause(&self) -> Option<&LostCause> {
        self.0.lost.as_ref()
    }

    /// The permanent word it is known by, for what went wrong with a reservation.
    #[must_use]
    pub fn code(&self) -> Option<Code> {
        self.0.code
    }

    /// The message without its context.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Whether trying the same call again, unchanged, may succeed.
    ///
    /// Every verb of the seam may be repeated safely after an unknown effect, so only the kind matters.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &*self.0;
        match (e.op, &e.name) {
            (Some(op), Some(name)) => write!(f, "{op} {name} ")?,
            (Some(op), None) => write!(f, "{op} ")?,
            (None, Some(name)) => write!(f, "{name}: ")?,
            (None, None) => {}
        }
        if let Some(op_backend) = e.op.and(e.backend) {
            write!(f, "on {op_backend} ")?;
        }
        if e.op.is_some() {
            f.write_str("failed: ")?;
        }
        f.write_str(&e.detail)?;
        if let Some(blocked) = &e.blocked {
            write!(f, "; {blocked}")?;
        }
        if e.effect == Effect::Unknown {
            f.write_str(" (it is unknown whether the store changed)")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &*self.0;
        f.debug_struct("Error")
            .field("kind", &e.kind)
            .field("effect", &e.effect)
            .field("op", &e.op)
            .field("backend", &e.backend)
            .field("name", &e.name)
            .field("detail", &e.detail)
            .field("blocked", &e.blocked)
            .field("code", &e.code)
            .field("source", &e.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S0-11: an error carries where it happened and what caused it, in one line.
    #[test]
    fn display_is_one_line_with_operation_name_and_backend() {
        let error = Error::new(ErrorKind::Timeout, "no answer within 2s")
            .with_effect(Effect::Unknown)
            .during("acquire", "redis")
            .with_name(&Name::new("orders", "1").unwrap())
            .with_source(std::io::Error::other("socket"));
        assert_eq!(
            error.to_string(),
            "acquire orders/1 on redis failed: no answer within 2s (it is unknown whether the store changed)"
        );
        assert_eq!(error.source().unwrap().to_string(), "socket");
        assert!(error.is_retryable());
    }

    #[test]
    fn the_first_context_wins() {
        let error = Error::invalid("x")
            .during("acquire", "memory")
            .during("run", "prefix");
        assert_eq!(
            (error.op(), error.backend()),
            (Some("acquire"), Some("memory"))
        );
    }
}
