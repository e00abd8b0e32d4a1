//! Stock under fire: whatever buyers do, and however badly the store answers, no unit is sold twice and none is lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_conformance::FaultBackend;
use leasehold_conformance::fault::Faults;
use leasehold_core::memory::Memory;
use leasehold_core::reservation::{Claim, Pass, Reservation, Reservations, ReserveOutcome};
use leasehold_core::{Backend, Effect, Error, ManualClock, Name, Record};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

const SKUS: usize = 20;
const STOCK: u64 = 40;
const BUYERS: u64 = 16;
const OPERATIONS: usize = 100_000;
const TTL: Duration = Duration::from_secs(10);

/// The store itself, which never fails, and the books of what went in and out.
struct Warehouse {
    clock: ManualClock,
    memory: Arc<Memory>,
    books: [Book; SKUS],
}

/// What is known of one sku. What is on its way may be counted on either side.
#[derive(Default)]
struct Book {
    put_in: AtomicU64,
    on_its_way_in: AtomicU64,
    taken_out: AtomicU64,
    on_its_way_out: AtomicU64,
}

fn sku(number: usize) -> String {
    format!("tv-{number}")
}

fn number(sku: &str) -> usize {
    sku.strip_prefix("tv-").unwrap().parse().unwrap()
}

impl Warehouse {
    async fn look(&self, number: usize) -> Record {
        let name = Name::new("shop", &format!("sku:{}", sku(number))).unwrap();
        self.memory.get(&name).await.unwrap().what.unwrap()
    }

    /// No more is taken than there is, and there is what was put in less what was taken out.
    async fn check(&self, number: usize) {
        let book = &self.books[number];
        let (in_before, out_before) = (get(&book.put_in), get(&book.taken_out));
        let record = self.look(number).await;
        let most_out = get(&book.on_its_way_out) + get(&book.taken_out);
        let most_in = get(&book.on_its_way_in) + get(&book.put_in);
        let there = u64::from(record.capacity.unwrap());
        assert!(record.units_taken() <= there, "oversold: {record:?}");
        let (least, most) = (in_before.saturating_sub(most_out), most_in - out_before);
        assert!(
            (least..=most).contains(&there),
            "{there} of sku {number}, not {least} to {most}"
        );
    }
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::SeqCst)
}

fn add(counter: &AtomicU64, units: u64) {
    counter.fetch_add(units, Ordering::SeqCst);
}

fn take(counter: &AtomicU64, units: u64) {
    counter.fetch_sub(units, Ordering::SeqCst);
}

/// One customer, with everything it has in its hands.
struct Buyer {
    house: Arc<Warehouse>,
    shop: Reservations,
    random: StdRng,
    reserved: Vec<Reservation>,
    claims: Vec<Claim>,
}

impl Buyer {
    async fn act(&mut self) {
        match self.random.random_range(0..100) {
            0..40 => self.reserve().await,
            40..60 => self.confirm().await,
            60..72 => self.release().await,
            72..80 => self.free_or_spend().await,
            80..84 => drop(self.pick_reserved()),
            84..88 => self.give_up_midway().await,
            88..92 => self.restock().await,
            92..96 => drop(self.shop.expire(50).await),
            96..98 => self.go_on_elsewhere(),
            _ => self.house.clock.advance(TTL / 5),
        }
        for _ in 0..2 {
            let number = self.random.random_range(0..SKUS);
            self.house.check(number).await;
        }
    }

    fn wish(&mut self) -> leasehold_core::reservation::Reserve {
        let mut numbers: Vec<usize> = (0..SKUS).collect();
        let count = *[1, 1, 1, 2, 3].choose(&mut self.random).unwrap();
        let mut request = self.shop.request().ttl(TTL);
        for _ in 0..count {
            let number = numbers.swap_remove(self.random.random_range(0..numbers.len()));
            let units = self.random.random_range(1..6);
            request = request.units("sku", &sku(number), units);
        }
        request
    }

    async fn reserve(&mut self) {
        if let Ok(ReserveOutcome::Reserved(reservation)) = self.wish().reserve().await {
            self.reserved.push(reservation);
        }
    }

    /// A customer that goes away while the store works.
    async fn give_up_midway(&mut self) {
        let polls = self.random.random_range(0..4);
        let mut attempt = Box::pin(self.wish().reserve());
        for _ in 0..polls {
            tokio::select! {
                biased;
                outcome = &mut attempt => {
                    if let Ok(ReserveOutcome::Reserved(reservation)) = outcome {
                        self.reserved.push(reservation);
                    }
                    return;
                }
                () = tokio::task::yield_now() => {}
            }
        }
    }

    fn pick_reserved(&mut self) -> Option<Reservation> {
        let some = !self.reserved.is_empty();
        some.then(|| {
            let at = self.random.random_range(0..self.reserved.len());
            self.reserved.swap_remove(at)
        })
    }

    /// Confirming again finds out whether it was done, so that what is in hand is certain.
    async fn confirm(&mut self) {
        let Some(reservation) = self.pick_reserved() else {
            return;
        };
        loop {
            match reservation.confirm("order").await {
                Ok(claim) => return self.claims.push(claim),
                Err(error) if in_doubt(&error) => {}
                Err(_) => return,
            }
        }
    }

    async fn release(&mut self) {
        if let Some(reservation) = self.pick_reserved()
            && let Err(error) = reservation.release().await
            && in_doubt(&error)
        {
            self.reserved.push(reservation);
        }
    }

    async fn free_or_spend(&mut self) {
        if let Some(claim) = self.claims.pop() {
            if self.random.random_bool(0.5) {
                self.spend(&claim).await;
            } else {
                while claim.free().await.is_err_and(|error| in_doubt(&error)) {}
            }
        }
    }

    async fn spend(&self, claim: &Claim) {
        let out: Vec<(&Book, u64)> = claim
            .items()
            .map(|(key, units, _)| {
                let book = &self.house.books[number(key.value())];
                (book, u64::from(units.get()))
            })
            .collect();
        out.iter()
            .for_each(|(book, units)| add(&book.on_its_way_out, *units));
        // Nobody else has the secret: once it is gone after an attempt, it was that attempt.
        while claim.spend().await.is_err_and(|error| in_doubt(&error)) {}
        for (book, units) in out {
            add(&book.taken_out, units);
            take(&book.on_its_way_out, units);
        }
    }

    /// By a hand that never fails, so that the books are right.
    async fn restock(&mut self) {
        let number = self.random.random_range(0..SKUS);
        let units = self.random.random_range(1..6);
        let book = &self.house.books[number];
        add(&book.on_its_way_in, units);
        let direct = shop(self.house.memory.clone(), &self.house.clock);
        let by = i64::try_from(units).unwrap();
        direct.change_stock("sku", &sku(number), by).await.unwrap();
        add(&book.put_in, units);
        take(&book.on_its_way_in, units);
    }

    /// The customer's process dies; another goes on from what was written down.
    fn go_on_elsewhere(&mut self) {
        let written: Vec<String> = self.reserved.iter().map(|r| r.pass().to_string()).collect();
        self.reserved = written
            .iter()
            .map(|text| self.shop.resume(&text.parse::<Pass>().unwrap()).unwrap())
            .collect();
    }
}

/// Whether it is unknown what the store did, or it could not be asked.
fn in_doubt(error: &Error) -> bool {
    error.effect() == Effect::Unknown || error.is_retryable()
}

fn shop(store: Arc<dyn Backend>, clock: &ManualClock) -> Reservations {
    let shop = Reservations::new(store).namespace("shop").sweep_every(None);
    shop.clock(Arc::new(clock.clone())).build().unwrap()
}

/// S2-12: units in are units out, at every step.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_unit_is_sold_twice_and_none_is_lost() {
    let clock = ManualClock::new();
    let memory = Arc::new(Memory::with_clock(Arc::new(clock.clone())));
    let house = Arc::new(Warehouse {
        clock: clock.clone(),
        memory: memory.clone(),
        books: Default::default(),
    });
    let direct = shop(memory.clone(), &clock);
    for number in 0..SKUS {
        let units = u32::try_from(STOCK).unwrap();
        direct.set_stock("sku", &sku(number), units).await.unwrap();
        add(&house.books[number].put_in, STOCK);
    }
    let store = Arc::new(FaultBackend::random(memory, Faults::SOME));
    let seed = store.seed();
    let buyers: Vec<_> = (0..BUYERS)
        .map(|number| {
            let mut buyer = Buyer {
                house: house.clone(),
                shop: shop(store.clone(), &clock),
                random: StdRng::seed_from_u64(seed.wrapping_add(number)),
                reserved: Vec::new(),
                claims: Vec::new(),
            };
            tokio::spawn(async move {
                for _ in 0..OPERATIONS / BUYERS as usize {
                    buyer.act().await;
                }
                buyer
            })
        })
        .collect();
    let mut bought = 0;
    for buyer in buyers {
        let buyer = buyer
            .await
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        store.heal();
        for claim in &buyer.claims {
            claim.free().await.unwrap();
            bought += 1;
        }
        store.break_again();
    }
    assert!(bought > 0 && store.counts().lost_replies > 0, "seed {seed}");
    // Whatever nobody has in hand any more comes back by itself.
    store.heal();
    clock.advance(TTL * 2);
    for number in 0..SKUS {
        house.check(number).await;
        let (record, book) = (house.look(number).await, &house.books[number]);
        assert_eq!(record.units_taken(), 0, "seed {seed}");
        let there = get(&book.put_in) - get(&book.taken_out);
        assert_eq!(record.capacity.map(u64::from), Some(there), "seed {seed}");
    }
}
