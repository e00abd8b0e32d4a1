//! Work that takes longer than the lease: kept alive while it runs, stopped if the lock is lost.

#![allow(clippy::print_stdout, reason = "examples talk to people")]

use std::time::Duration;

use leasehold::{Clock, Locks, SystemClock};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = leasehold::connect("memory:").await?;
    let reports = Locks::new(store)
        .namespace("reports")
        .ttl(Duration::from_millis(300))
        .on_event(|event| println!("  event: {event:?}"))
        .build()?;

    println!("a job of one second under a lease of 300 milliseconds:");
    let rows = reports
        .lock("nightly")
        .renewing()
        .run(|held| async move {
            let mut rows = 0;
            for _ in 0..10 {
                SystemClock
                    .sleep_until(SystemClock.now().after(Duration::from_millis(100)))
                    .await;
                held.check()?; // before every step that must not happen without the lock
                rows += 100;
            }
            Ok::<_, leasehold::Error>(rows)
        })
        .await??;
    println!("done: {rows} rows");
    Ok(())
}
