//! Prints what every store of this build promises, as the table in the README.

#![allow(clippy::print_stdout, reason = "examples talk to people")]

use leasehold::{Class, ExpiryClock, Fairness, Fencing, Guarantees, Survival};

fn main() {
    println!(
        "| Backend | Class | Fencing | Expiry clock | Durable | Failover | Fairness | Assumes |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for description in leasehold::descriptions() {
        println!(
            "| `{}` | {} |",
            description.scheme,
            columns(&description.guarantees)
        );
    }
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
    [
        class,
        fencing,
        clock,
        durable,
        failover,
        fairness,
        promise.assumes,
    ]
    .join(" | ")
}
