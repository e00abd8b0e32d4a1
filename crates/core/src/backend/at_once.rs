//! The short way into a store that is inside this process.

use std::sync::Arc;

use super::{Acquire, Acquired, Release, Releases};
use crate::clock::{Clock, Moment};
use crate::error::Result;

/// A store inside this process that answers without waiting, so that no future need be made for it.
///
/// Its verbs do exactly what those of [`Backend`](super::Backend) do. They neither block nor do I/O.
pub trait AtOnce {
    /// The clock this store goes by.
    fn clock(&self) -> &Arc<dyn Clock>;

    /// Takes all names or none, whatever [`Capabilities::atomic_names`](crate::Capabilities::atomic_names) says; and when
    /// by its [clock](Self::clock) it did. A lease it grants begins at that moment.
    fn acquire_at_once(&self, request: &Acquire) -> (Moment, Result<Acquired>);

    /// Ends what the request names. One answer per name.
    ///
    /// # Errors
    /// As [`Backend::release`](super::Backend::release).
    fn release_at_once(&self, request: &Release) -> Result<Releases>;
}
