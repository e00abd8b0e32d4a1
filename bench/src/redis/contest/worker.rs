//! What every worker does, whatever excludes it from the others.

use std::hint::spin_loop;
use std::thread;
use std::time::Duration;

use super::section::{Section, Window, now};
use crate::bench::Outcome;

/// How long the name is held.
const HOLD: Duration = Duration::from_millis(1);
/// How long a worker rests before it comes again.
const REST: Duration = Duration::from_millis(2);
/// The system wakes sleepers up to this late.
const LATE: u64 = 100_000;

/// Something that takes the name and releases it, for one worker.
pub(super) trait Contender: Send + 'static {
    /// What it has while it has the name.
    type Held: Send;

    /// Waits for the name.
    fn acquire(&mut self) -> impl Future<Output = Outcome<Self::Held>> + Send;

    /// Lets the next one have it.
    fn release(&mut self, held: Self::Held) -> impl Future<Output = Outcome<()>> + Send;
}

/// Works through a window.
pub(super) async fn work<C: Contender>(
    contender: &mut C,
    worker: usize,
    window: Window,
) -> Outcome<Vec<Section>> {
    let mut sections = Vec::new();
    sleep_until(window.from).await?;
    loop {
        let asked = now();
        if asked >= window.until {
            return Ok(sections);
        }
        let held = contender.acquire().await?;
        let got = now();
        sleep_until(got + HOLD.as_nanos() as u64).await?;
        let gave = now();
        contender.release(held).await?;
        sections.push(Section {
            worker,
            asked,
            got,
            gave,
        });
        tokio::time::sleep(REST).await;
    }
}

/// On a thread beside the runtime, because the runtime's own timer knows nothing shorter than a millisecond.
async fn sleep_until(moment: u64) -> Outcome<()> {
    let sleep = move || {
        thread::sleep(Duration::from_nanos(moment.saturating_sub(now() + LATE)));
        while now() < moment {
            spin_loop();
        }
    };
    Ok(tokio::task::spawn_blocking(sleep).await?)
}
