//! An allocator that counts what is in use, while it is told to.
#![allow(
    unsafe_code,
    reason = "an allocator cannot be written without; it only counts and passes on"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

#[global_allocator]
static COUNTED: Counted = Counted;

/// Off except where bytes are measured, so that counting does not slow the other benches.
static COUNTING: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicI64 = AtomicI64::new(0);
static CALLS: AtomicI64 = AtomicI64::new(0);

struct Counted;

/// What was allocated and not freed, and how often something was allocated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// Bytes, as the system's allocator lays them out.
    pub(crate) bytes: i64,
    /// Allocations, freed or not.
    pub(crate) calls: i64,
}

/// Runs something and says what it allocated beyond what it freed. Nothing else may run meanwhile.
pub(crate) fn count<T>(run: impl FnOnce() -> T) -> (T, Usage) {
    let (bytes, calls) = (BYTES.load(Ordering::Relaxed), CALLS.load(Ordering::Relaxed));
    COUNTING.store(true, Ordering::SeqCst);
    let result = run();
    COUNTING.store(false, Ordering::SeqCst);
    let usage = Usage {
        bytes: BYTES.load(Ordering::Relaxed) - bytes,
        calls: CALLS.load(Ordering::Relaxed) - calls,
    };
    (result, usage)
}

/// What an allocation takes: 64-bit glibc adds 8 bytes, rounds up to 16 and gives at least 32.
fn taken(size: usize) -> i64 {
    i64::try_from((size + 8).next_multiple_of(16).max(32)).unwrap_or(i64::MAX)
}

fn note(bytes: i64, calls: i64) {
    if COUNTING.load(Ordering::Relaxed) {
        BYTES.fetch_add(bytes, Ordering::Relaxed);
        CALLS.fetch_add(calls, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to the system's allocator with the caller's own arguments.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(taken(layout.size()), 1);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        note(-taken(layout.size()), 0);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(taken(size) - taken(layout.size()), 1);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(at, layout, size) }
    }
}
