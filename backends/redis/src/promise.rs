//! What a store on Redis can do and promises, by what was found out about the server.

use leasehold_core::{
    AtomicNames, Capabilities, Class, Description, ExpiryClock, Fairness, Fencing, Guarantees,
    Survival, Ttl,
};

use crate::SCHEME;

/// What matters for the promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Facts {
    /// Every answer is on the disk before it is given.
    pub(crate) durable: bool,
    /// Another server may take over.
    pub(crate) replicated: bool,
    /// Names in different buckets cannot be taken in one step.
    pub(crate) is_cluster: bool,
    /// Keys may be thrown away when memory runs short.
    pub(crate) evicting: bool,
}

/// What a store is, can do and promises about which nothing is known yet: the least that may turn out.
#[must_use]
pub fn description() -> Description {
    describe(Facts {
        replicated: true,
        ..Facts::default()
    })
}

pub(crate) fn describe(facts: Facts) -> Description {
    let safe = facts.durable && !facts.replicated && !facts.evicting;
    Description {
        scheme: SCHEME,
        capabilities: Capabilities {
            queue: true,
            watch: true,
            list: true,
            reservations: true,
            quantities: true,
            adopt: true,
            atomic_names: if facts.is_cluster {
                AtomicNames::Bucket
            } else {
                AtomicNames::All
            },
            atomic_facts: true,
            renew_batch: 500,
            min_ttl: Ttl::MIN,
            max_ttl: Ttl::MAX,
            ttl_step: Ttl::MIN,
        },
        guarantees: Guarantees {
            class: Class::E,
            fencing: if safe {
                Fencing::Monotonic
            } else {
                Fencing::BestEffort
            },
            expiry_clock: ExpiryClock::StoreWall,
            durable: facts.durable,
            survives_failover: if facts.replicated {
                Survival::No
            } else {
                Survival::NotApplicable
            },
            fairness: Fairness::Fifo,
            assumes: assumes(facts),
        },
    }
}

fn assumes(facts: Facts) -> &'static str {
    if facts.evicting {
        return "the server does not run short of memory, or it throws leases away; nor may it crash or fail over, and its \
                clock is not set";
    }
    match (facts.durable, facts.replicated) {
        (true, false) => {
            "the server's clock is not set: a step of it ends or prolongs leases; tokens grow all the same"
        }
        (true, true) => {
            "no failover loses what was acknowledged, and no clock is set; what is lost is noticed by who had seen it, and \
             then tokens go on growing and nothing is granted for a while"
        }
        (false, false) => {
            "the server does not crash, and its clock is not set; what a crash loses is noticed by who had seen it, and \
             then tokens go on growing and nothing is granted for a while"
        }
        (false, true) => {
            "no crash or failover loses what was acknowledged, and no clock is set; what is lost is noticed by who had \
             seen it, and then tokens go on growing and nothing is granted for a while"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_durable_server_alone_promises_tokens_that_always_grow() {
        let durable = Facts {
            durable: true,
            ..Facts::default()
        };
        let fencing = |facts| describe(facts).guarantees.fencing;
        assert_eq!(fencing(durable), Fencing::Monotonic);
        assert_eq!(fencing(Facts::default()), Fencing::BestEffort);
        let replicated = Facts {
            replicated: true,
            ..durable
        };
        assert_eq!(fencing(replicated), Fencing::BestEffort);
        let evicting = Facts {
            evicting: true,
            ..durable
        };
        assert_eq!(fencing(evicting), Fencing::BestEffort);
        assert_eq!(description().guarantees.class, Class::E);
    }
}
