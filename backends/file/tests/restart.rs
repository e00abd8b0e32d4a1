//! Files that are closed and opened again, on a clock that the test moves: under the same start of the machine, under
//! another one, and under none that is known. What was promised is kept (S3, S7, S12, F14), the books of the file add up,
//! and it does not grow without end (S15).

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod worker;

#[path = "worker/restart_books.rs"]
mod restart_books;
#[path = "worker/restart_end.rs"]
mod restart_end;
#[path = "worker/restart_kept.rs"]
mod restart_kept;
#[path = "worker/restart_time.rs"]
mod restart_time;
#[path = "worker/restart_tokens.rs"]
mod restart_tokens;

/// Starts of the machine.
const FIRST: Option<&str> = Some("first");
const SECOND: Option<&str> = Some("second");
const UNKNOWN: Option<&str> = None;
