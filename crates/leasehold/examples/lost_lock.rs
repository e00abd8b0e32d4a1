//! What a holder sees when its lock is taken away, and what `run` makes of it.

#![allow(clippy::print_stdout, reason = "examples talk to people")]

use std::time::Duration;

use leasehold::lock::RunError;
use leasehold::{Clock, Locks, SystemClock};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = leasehold::connect("memory:").await?;
    let jobs = Locks::new(store)
        .namespace("jobs")
        .ttl(Duration::from_millis(300))
        .owner("worker-1")
        .build()?;

    // An administrator ends a lock that looks stuck; the body stops at its next await.
    let admin = jobs.clone();
    let outcome = jobs
        .lock("import")
        .renewing()
        .run(|_held| async move {
            admin.force_release("import", "stuck since noon").await?;
            SystemClock
                .sleep_until(SystemClock.now().after(Duration::from_secs(60)))
                .await;
            unreachable!("the body was stopped");
            #[allow(unreachable_code, reason = "names the type of the body's result")]
            Ok::<(), leasehold::Error>(())
        })
        .await;
    match outcome {
        Err(RunError::Lost { cause, after }) => println!("lost after {after:?}: {cause}"),
        other => return Err(format!("expected a lost lock, got {other:?}").into()),
    }

    // A lease that is not renewed runs out; the guard knows before the store lets go.
    let guard = jobs.lock("export").acquire().await?;
    println!("lost: {}", guard.lost().await);
    match guard.release().await {
        Err(error) => println!("release says: {error}"),
        Ok(()) => return Err("an expired lock must not be released quietly".into()),
    }
    Ok(())
}
