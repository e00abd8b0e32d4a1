//! Prints what every store of this build promises, as the table in the README.

use leasehold::{Class, ExpiryClock, Fairness, Fencing, Guarantees, Survival};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("| Backend | Class | Fencing | Expiry clock | Durable | Failover | Fairness | Assumes |");
    println!("|---|---|---|---|---|---|---|---|");
    for url in ["memory:"] {
        let store = leasehold::connect(url).await?;
        let description = store.describe();
        println!("| `{}` | {} |", description.scheme, columns(&description.guarantees));
    }
    Ok(())
}

fn columns(promise: &Guarantees) -> String {
    let class = match promise.class {
        Class::F => "F",
        Class::E => "E",
        Class::P => "P",
    };
    let fencing = match promise.fencing {
        Fencing::Monotonic => "monotonic",
        Fencing::BestEffort => "best effort",
        Fencing::None => "none",
    };
    let clock = match promise.expiry_clock {
        ExpiryClock::ProcessMonotonic => "process, monotonic",
        ExpiryClock::StoreMonotonic => "store, monotonic",
        ExpiryClock::StoreWall => "store, wall",
        ExpiryClock::ClientWall => "client, wall",
    };
    let failover = match promise.survives_failover {
        Survival::Yes => "survives",
        Survival::No => "may lose",
        Survival::NotApplicable => "none",
    };
    let fairness = match promise.fairness {
        Fairness::Fifo => "FIFO",
        Fairness::LocalFifo => "FIFO per process",
    };
    let durable = if promise.durable { "yes" } else { "no" };
    [class, fencing, clock, durable, failover, fairness, promise.assumes].join(" | ")
}
