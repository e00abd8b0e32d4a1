//! Managers of reservations over the backend of a case, and short words for what they are asked.

use std::fmt::Debug;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_core::memory::Memory;
use leasehold_core::reservation::{
    Code, Conflict, Found, MIN_TTL, Pass, Reservation, Reservations, ReservationsBuilder, Reserve,
    ReserveOutcome,
};
use leasehold_core::{Effect, Result, Ttl};
use serde_json::Value;

use super::Scene;

impl Scene {
    /// A manager in the namespace of this case, whose reservations outlast the case.
    #[must_use]
    pub fn reservations(&self) -> Reservations {
        self.reservations_with(|builder| builder)
    }

    /// A manager in the namespace of this case, on the clock of the harness, with other options.
    pub fn reservations_with(
        &self,
        with: impl FnOnce(ReservationsBuilder) -> ReservationsBuilder,
    ) -> Reservations {
        let builder = Reservations::new(self.backend.clone()).namespace(self.namespace());
        with(self.usual(builder))
            .build()
            .expect("a case uses valid options")
    }

    /// A manager of the same namespace in another store, which knows nothing of this one.
    #[must_use]
    pub fn reservations_elsewhere(&self) -> Reservations {
        let memory = Memory::with_clock(self.harness.clock());
        let builder = Reservations::new(Arc::new(memory)).namespace(self.namespace());
        self.usual(builder).build().expect("memory can reserve")
    }

    fn usual(&self, builder: ReservationsBuilder) -> ReservationsBuilder {
        builder
            .clock(self.harness.clock())
            .ttl(self.long().as_duration())
            .sweep_every(None)
    }

    /// The shortest reservation that a case may wait out.
    #[must_use]
    pub fn brief_reservation(&self) -> Duration {
        self.brief().as_duration().max(MIN_TTL)
    }

    /// Lets enough time pass for a reservation of [`brief_reservation`](Self::brief_reservation) to run out.
    pub async fn outlive_brief_reservation(&self) {
        let ttl = Ttl::new(self.brief_reservation()).expect("a case uses a valid ttl");
        self.outlive(ttl).await;
    }

    /// Waits, while time passes, until something is so.
    pub async fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let so = poll_fn(|_| match is_so() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        });
        self.in_time(what, so).await;
    }

    /// Waits, while time passes, until a request is granted.
    pub async fn until_granted(&self, request: Reserve) -> Reservation {
        let granted = async {
            loop {
                let outcome = request.clone().reserve().await;
                if let Ok(ReserveOutcome::Reserved(reservation)) = outcome {
                    return reservation;
                }
                tokio::task::yield_now().await;
            }
        };
        self.in_time("it can be reserved", granted).await
    }

    /// Reserves a value only as long as a case may wait.
    pub(crate) async fn book_briefly(
        &self,
        names: &Reservations,
        kind: &str,
        value: &str,
    ) -> Reservation {
        let request = names.request().value(kind, value);
        granted(request.ttl(self.brief_reservation())).await
    }
}

/// Sends a request that must be granted.
pub(crate) async fn granted(request: Reserve) -> Reservation {
    let outcome = request.reserve().await.expect("reserve must be answered");
    outcome.reserved().expect("nothing should be in the way")
}

/// Sends a request that something must be in the way of.
pub(crate) async fn turned_away(request: Reserve) -> Conflict {
    match request.reserve().await.expect("reserve must be answered") {
        ReserveOutcome::Conflict(conflict) => conflict,
        ReserveOutcome::Reserved(reservation) => panic!("not refused: {reservation:?}"),
    }
}

/// Reserves a value for longer than the case lasts.
pub(crate) async fn book(names: &Reservations, kind: &str, value: &str) -> Reservation {
    granted(names.request().value(kind, value)).await
}

/// Asks for a value that must be taken.
pub(crate) async fn refused(names: &Reservations, kind: &str, value: &str) -> Conflict {
    turned_away(names.request().value(kind, value)).await
}

/// Reserves units for longer than the case lasts.
pub(crate) async fn book_units(names: &Reservations, sku: &str, units: u32) -> Reservation {
    granted(names.request().units("sku", sku, units)).await
}

/// What is known about a value that must be known.
pub(crate) async fn found(names: &Reservations, kind: &str, value: &str) -> Found {
    let found = names.find(kind, value).await;
    found
        .expect("find must be answered")
        .expect("it must be known")
}

/// Checks that a call was refused for this reason and changed nothing.
#[track_caller]
pub(crate) fn assert_code<T: Debug>(answer: Result<T>, code: Code) {
    let error = answer.expect_err("it should have been refused");
    assert_eq!(error.code(), Some(code), "{error}");
    assert_eq!((error.kind(), error.effect()), (code.kind(), Effect::None));
}

/// A pass with the secret of another: everything else is right.
pub(crate) fn with_secret_of(pass: &Pass, other: &Pass) -> Pass {
    let read = |pass: &Pass| -> Value {
        serde_json::from_str(&pass.to_string()).expect("a pass is written as JSON")
    };
    let (mut forged, mut other) = (read(pass), read(other));
    let secret = other["secret"].take();
    assert!(!secret.is_null() && secret != forged["secret"]);
    forged["secret"] = secret;
    forged.to_string().parse().expect("it looks like a pass")
}

/// The secret of a pass, in every form somebody could have written it in.
pub(crate) fn secret_forms(pass: &Pass) -> Vec<String> {
    let pass: Value = serde_json::from_str(&pass.to_string()).expect("a pass is written as JSON");
    let secret: Vec<u8> =
        serde_json::from_value(pass["secret"].clone()).expect("a secret is a list of bytes");
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let list = format!("{secret:?}");
    vec![list.replace(' ', ""), list, hex.to_uppercase(), hex]
}
