//! The conformance kit: one suite that every backend passes.
//!
//! # Test your own backend
//!
//! Add this crate as a dev-dependency, turn the usual test harness off for one test file
//! (`[[test]] name = "conformance"`, `harness = false`), and write in `tests/conformance.rs`:
//!
//! ```no_run
//! use std::{process::ExitCode, sync::Arc};
//! use leasehold_conformance::{Harness, Unavailable, async_trait, run};
//! use leasehold_core::Backend;
//!
//! struct Mine;
//!
//! #[async_trait]
//! impl Harness for Mine {
//!     fn name(&self) -> &str { "mine" }
//!     async fn connect(&self) -> Result<Arc<dyn Backend>, Unavailable> {
//!         Err(Unavailable::new("connect to your store here"))
//!     }
//! }
//!
//! fn main() -> ExitCode { run(Mine) }
//! ```
//!
//! A store in your process whose clock can be moved needs no harness of its own: give it a
//! [`ManualClock`](leasehold_core::ManualClock) and run [`VirtualStore`]. Nothing waits then, and expiries are checked to
//! the millisecond.
//!
//! Cases are chosen by the capabilities the backend declares; the others are shown as ignored. The store is never
//! wiped. New versions of the kit bring new cases by themselves. See [`Harness`] for what else can be said about a
//! store, [`model`] for the comparison with the rule, and [`history`] for checking recorded histories.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a case fails by panicking"
)]

pub mod case;
mod cases;
pub mod fault;
mod harness;
pub mod history;
pub mod mailbox;
pub mod model;
mod runner;
pub mod scene;
mod virtual_store;

pub use async_trait::async_trait;
pub use case::{Case, ELSEWHERE, NOT_APPLICABLE, Need, all};
pub use fault::FaultBackend;
pub use harness::{Contention, Harness, Severed, Time, Unavailable};
pub use mailbox::Mailbox;
pub use runner::{run, run_all, run_all_cases, run_cases};
pub use scene::{Party, Scene};
pub use virtual_store::VirtualStore;
