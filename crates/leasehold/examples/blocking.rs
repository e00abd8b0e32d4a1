//! The same locks without async: threads, and no runtime in this program.

#![allow(clippy::print_stdout, reason = "examples talk to people")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use leasehold::{Backend, Locks, memory::Memory};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store: Arc<dyn Backend> = Arc::new(Memory::new());
    let stock = Locks::new(store).namespace("stock").build_blocking()?;
    let counter = Arc::new(AtomicU64::new(0));

    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (stock, counter) = (stock.clone(), counter.clone());
            thread::spawn(move || {
                for _ in 0..100 {
                    // Read and write are two steps; only the lock makes them one.
                    stock.lock("sku-1").run(|_held| {
                        let seen = counter.load(Ordering::SeqCst);
                        thread::yield_now();
                        counter.store(seen + 1, Ordering::SeqCst);
                    })?;
                }
                Ok::<_, leasehold::lock::RunError>(())
            })
        })
        .collect();
    for worker in workers {
        worker.join().map_err(|_| "a worker panicked")??;
    }
    println!(
        "400 increments by four threads: {}",
        counter.load(Ordering::SeqCst)
    );
    assert_eq!(counter.load(Ordering::SeqCst), 400);

    // A thread may take its own lock again, and releases it as often.
    let lock = stock.lock("sku-1");
    let outer = lock.acquire()?;
    let inner = lock.acquire()?;
    println!(
        "held by this thread: {}, {} times",
        lock.is_held_by_current_thread(),
        outer.depth()
    );
    inner.release()?;
    outer.release()?;
    Ok(())
}
