//! Do something once: one caller does the work, the others get its stored result.

#![allow(clippy::print_stdout, reason = "examples talk to people")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::Locks;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = leasehold::connect("memory:").await?;
    let payments = Locks::new(store).namespace("payments").build()?;
    let charges = Arc::new(AtomicU32::new(0));

    let callers = (0..10).map(|_| {
        let (payments, charges) = (payments.clone(), charges.clone());
        tokio::spawn(async move {
            let once = payments
                .idempotent("order-12345")
                .keep_for(Duration::from_secs(3600));
            once.run(|_held| async {
                charges.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Infallible>("receipt-1".to_owned())
            })
            .await
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        let answer = caller.await??;
        println!(
            "{} ({})",
            answer.value,
            if answer.fresh { "charged" } else { "found" }
        );
    }
    assert_eq!(charges.load(Ordering::SeqCst), 1);
    Ok(())
}
