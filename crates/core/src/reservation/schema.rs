//! What a reservation consists of, for people who build tables, dashboards and schedules around it.

use std::time::Duration;

use super::found::ReservationStatus;

/// How often expired reservations should be swept.
pub const SWEEP_EVERY: Duration = Duration::from_secs(5 * 60);
/// How many records one step of a sweep should look at.
pub const SWEEP_BATCH: usize = 100;
/// What a scheduled sweep is called.
pub const SWEEP_JOB: &str = "expire-reservations";

/// One thing that is known about a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// What it is called.
    pub name: &'static str,
    /// Whether it can be missing.
    pub optional: bool,
    /// What it means.
    pub about: &'static str,
}

const fn field(name: &'static str, optional: bool, about: &'static str) -> Field {
    Field {
        name,
        optional,
        about,
    }
}

/// Everything that is known about a reservation, as [`Found`](super::Found) shows it.
pub const FIELDS: &[Field] = &[
    field("id", false, "deterministic from the full name"),
    field("key", false, "the kind, a colon and the value"),
    field("kind", false, "what sort of value it is"),
    field("value", false, "what is reserved, as its kind spells it"),
    field("status", false, "reserved, confirmed, released or expired"),
    field("expires_at", true, "when it ends; missing once confirmed"),
    field("entity", true, "what it belongs to; only once confirmed"),
    field("confirmed_at", true, "when it was confirmed"),
    field("ended_at", true, "when it was released or ran out"),
    field("correlation", true, "ties it to a request or a saga"),
    field("text", true, "anything else it says about itself"),
    field("owner", true, "the label of who made it"),
    field(
        "units",
        true,
        "how many units it takes; none once it has ended",
    ),
    field("token", false, "larger for every new reservation of a key"),
    field(
        "version",
        false,
        "changes with every change and never comes back",
    ),
    field("created_at", true, "when it was reserved"),
];

/// Every state a reservation can be in.
pub const STATUSES: &[ReservationStatus] = &[
    ReservationStatus::Reserved,
    ReservationStatus::Confirmed,
    ReservationStatus::Released,
    ReservationStatus::Expired,
];

/// An index that a store of its own tables would need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Index {
    /// What it is called.
    pub name: &'static str,
    /// The fields it covers, in order.
    pub fields: &'static [&'static str],
}

/// The indexes that serve every query.
pub const INDEXES: &[Index] = &[
    Index {
        name: "by_id",
        fields: &["id"],
    },
    Index {
        name: "by_key",
        fields: &["key"],
    },
    Index {
        name: "by_kind_value",
        fields: &["kind", "value"],
    },
    Index {
        name: "by_status_expires_at",
        fields: &["status", "expires_at"],
    },
    Index {
        name: "by_entity",
        fields: &["entity"],
    },
];

/// A line of crontab that runs `command` every five minutes, for those who sweep from outside.
#[must_use]
pub fn crontab(command: &str) -> String {
    format!(
        "*/{} * * * * {command} # {SWEEP_JOB}",
        SWEEP_EVERY.as_secs() / 60
    )
}

/// A systemd timer that starts the service of the same name every five minutes.
#[must_use]
pub fn systemd_timer() -> String {
    format!(
        "[Unit]\nDescription={SWEEP_JOB}\n\n[Timer]\nOnBootSec={every}\nOnUnitActiveSec={every}\n\n[Install]\nWantedBy=timers.target\n",
        every = SWEEP_EVERY.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S3-16: the helpers agree with each other and with the recommended five minutes.
    #[test]
    fn indexes_cover_fields_and_schedules_say_five_minutes() {
        let known: Vec<_> = FIELDS.iter().map(|field| field.name).collect();
        for index in INDEXES {
            assert!(index.fields.iter().all(|field| known.contains(field)));
        }
        assert_eq!(STATUSES.len(), 4);
        assert_eq!(crontab("sweep"), "*/5 * * * * sweep # expire-reservations");
        assert!(systemd_timer().contains("OnUnitActiveSec=300"));
    }
}
