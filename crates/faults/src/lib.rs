//! Tools for tests on real servers.
//!
//! * [`proxy`] stands between a client and a server and behaves as a bad network would.
//! * `process` runs a server as a child that can be killed, stopped and started again.
//! * `clock` moves the wall clock of such a child, and of nobody else.
//!
//! None of them knows what is tested: they carry bytes, send signals and shift time.
#![allow(
    clippy::disallowed_methods,
    reason = "networks and processes live in real time; there is no clock to hand in"
)]

#[cfg(target_os = "linux")]
pub mod clock;
mod error;
#[cfg(unix)]
pub mod process;
pub mod proxy;

pub use error::{Error, Result};
