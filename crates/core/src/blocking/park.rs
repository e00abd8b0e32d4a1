//! Running a future on the calling thread.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::coop;

use crate::error::{Error, ErrorKind, Result};

/// The runtime that does the background work of blocking managers, started when first needed.
///
/// # Errors
/// [`ErrorKind::Unavailable`] if its thread cannot be started.
pub fn runtime() -> Result<Handle> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime.handle().clone());
    }
    let fresh = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("leasehold")
        .enable_all()
        .build()
        .map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                "the background thread could not be started",
            )
            .with_source(error)
        })?;
    // Two threads may get here at once; the runtime of the slower one goes away unused.
    if let Err(unused) = RUNTIME.set(fresh) {
        unused.shutdown_background();
    }
    runtime()
}

/// Runs a future to its end on the calling thread, which is parked meanwhile.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if the calling thread is running an async task: blocking it could stop the very work
/// that is waited for.
pub fn block_on<F: Future>(future: F) -> Result<F::Output> {
    if is_inside_async_task() {
        return Err(Error::unsupported(
            "a blocking call was made inside an async task; use the async API there, or spawn_blocking",
        ));
    }
    let runtime = runtime()?;
    let _timers = runtime.enter();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return Ok(value);
        }
        thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Whether this thread is polling an async task of a Tokio runtime.
///
/// A runtime can be *entered* on threads that may block, such as those of `spawn_blocking`, so its presence says
/// nothing. But only tasks have a budget of steps before they must yield: if a few hundred steps use it up, this is
/// one. The budget is lost on a call that answers with an error anyway.
fn is_inside_async_task() -> bool {
    const MORE_THAN_ANY_BUDGET: usize = 1024;
    if Handle::try_current().is_err() {
        return false;
    }
    let mut cx = Context::from_waker(Waker::noop());
    (0..MORE_THAN_ANY_BUDGET).any(|_| match coop::poll_proceed(&mut cx) {
        Poll::Ready(step) => {
            step.made_progress();
            false
        }
        Poll::Pending => true,
    })
}
