//! Which records belong into a list: written once, for every store that filters in this process.

use super::request::{List, Status, Sweep};
use crate::clock::Timestamp;
use crate::name::Name;
use crate::record::Record;
use crate::record_store::RETENTION;

impl List {
    /// Whether a record, as it is [seen](Record::seen_at) now, belongs into this list, on whichever page.
    #[must_use]
    pub fn matches(&self, seen: &Record) -> bool {
        self.covers(&seen.name)
            && self.matches_status(seen)
            && self.kind.is_none_or(|kind| seen.kind == kind)
            && self.matches_owner(seen)
            && self
                .entity
                .as_ref()
                .is_none_or(|entity| seen.claims.iter().any(|claim| claim.entity == *entity))
            && self
                .expires_before
                .is_none_or(|before| seen.grants.iter().any(|grant| grant.expires_at < before))
    }

    /// Whether a name is inside the namespaces and keys of this list.
    #[must_use]
    pub fn covers(&self, name: &Name) -> bool {
        let namespace = name.namespace();
        self.namespace.as_ref().is_none_or(|n| *n == namespace)
            && namespace.starts_with(&self.namespace_prefix)
            && name.key().starts_with(&self.key_prefix)
    }

    /// What the [encoded](Name::encoded) names of this list begin with; `None` if there can be no such name.
    #[must_use]
    pub fn encoded_prefix(&self) -> Option<String> {
        match &self.namespace {
            Some(namespace) => {
                let namespace = encoded_namespace(namespace)?;
                Some(format!("{namespace}/{}", self.key_prefix))
            }
            None if self.namespace_prefix.is_empty() => Some(String::new()),
            None => encoded_namespace(&self.namespace_prefix),
        }
    }

    fn matches_status(&self, seen: &Record) -> bool {
        match self.status {
            None => !seen.is_idle(),
            Some(Status::Held) => !seen.grants.is_empty(),
            Some(Status::Waited) => !seen.tickets.is_empty(),
            Some(Status::Confirmed) => !seen.claims.is_empty(),
            Some(Status::Ended) => seen.is_idle() && seen.last_end.is_some(),
        }
    }

    fn matches_owner(&self, seen: &Record) -> bool {
        self.owner.as_ref().is_none_or(|owner| {
            seen.grants.iter().any(|grant| grant.owner == *owner)
                || seen.tickets.iter().any(|ticket| ticket.owner == *owner)
                || seen.claims.iter().any(|claim| claim.owner == *owner)
        })
    }
}

impl Sweep {
    /// Whether a record is among those this sweep looks at.
    #[must_use]
    pub fn covers(&self, record: &Record) -> bool {
        self.namespace
            .as_ref()
            .is_none_or(|namespace| *namespace == record.name.namespace())
            && self.kind.is_none_or(|kind| record.kind == kind)
    }

    /// Whether this sweep has something to do about a record, or to say in a dry run.
    #[must_use]
    pub fn wants(&self, record: &Record, now: Timestamp) -> bool {
        let due = if self.dry_run {
            record.run_out(now).next().is_some()
        } else {
            record.due_at(RETENTION).is_some_and(|at| at <= now)
        };
        due && self.covers(record)
    }
}

fn encoded_namespace(namespace: &str) -> Option<String> {
    let name = Name::new(namespace, "-").ok()?;
    name.encoded().strip_suffix("/-").map(str::to_owned)
}
