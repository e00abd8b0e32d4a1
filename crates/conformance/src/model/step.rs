//! What a random caller may do. Everything is said by small numbers, so that failing sequences shrink well.

use leasehold_core::backend::Own;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

/// A sequence of steps over some names.
#[derive(Debug, Clone)]
pub(crate) struct Play {
    /// How many names are used. With more than one, the store is swept whenever time passes, because a store may
    /// settle a name before anybody touches it and would then differ from the rule without being wrong.
    pub(crate) names: usize,
    /// What is done.
    pub(crate) steps: Vec<Step>,
}

/// One step. Grants are picked among those seen, the latest first; holders and names by number.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Acquire(Wish),
    AcquireAll {
        holder: usize,
        ttl: Length,
    },
    Renew {
        grant: usize,
        by: By,
        ttl: Length,
    },
    Add {
        grant: usize,
        ttl: Length,
        expect: Expect,
    },
    RenewTicket {
        name: usize,
        holder: usize,
        ttl: Length,
    },
    Adopt {
        grant: usize,
        heir: usize,
        ttl: Length,
    },
    Release {
        grant: usize,
        by: By,
    },
    FreeClaim {
        grant: usize,
        by: By,
        spend: bool,
    },
    Force {
        name: usize,
        grant: Option<usize>,
    },
    Confirm {
        grant: usize,
        by: By,
        entity: usize,
        expect: Expect,
    },
    HandOver {
        grant: usize,
        heir: usize,
    },
    Withdraw {
        name: usize,
        holder: usize,
    },
    SetCapacity {
        name: usize,
        units: Option<u32>,
        expect: Expect,
    },
    /// The last request once more, as after a lost reply.
    Again,
    Pass(Until),
    Sweep,
}

/// A request for one name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) name: usize,
    pub(crate) holder: usize,
    pub(crate) ttl: Length,
    pub(crate) terms: Terms,
    pub(crate) own: Own,
    pub(crate) queue: bool,
    pub(crate) delay: bool,
}

/// How long a lease shall last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    Short,
    Middle,
    Long,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Terms {
    Lock,
    Reservation,
    Shared,
    /// So many of three units.
    Units(u32),
    /// So many of three units, reserved.
    Reserved(u32),
    /// So many units, reserved, of those somebody set.
    Stock(u32),
}

/// Who sends a request about a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Holder,
    /// Somebody else.
    Stranger,
    /// The holder, with a token that was never given.
    WrongToken,
}

/// What a conditional request expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    Nothing,
    Right,
    Wrong,
}

/// How much time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// To one millisecond before the next end of something, to that end, or one millisecond after it.
    NextEnd(Side),
    Millis(u64),
}

/// Where a boundary is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    At,
    After,
}

/// How many holders there are.
pub(crate) const HOLDERS: usize = 4;
/// How far back a grant is picked.
const PICKS: usize = 6;
/// The longest sequence.
const STEPS: usize = 30;

/// Sequences of steps.
pub(crate) fn plays() -> impl Strategy<Value = Play> {
    let names = prop_oneof![2 => Just(1usize), 1 => Just(2), 1 => Just(3)];
    (names, vec(step(), 1..=STEPS)).prop_map(|(names, steps)| Play { names, steps })
}

fn step() -> impl Strategy<Value = Step> {
    let raw = (
        0u8..100,
        0usize..3,
        0usize..HOLDERS,
        0usize..PICKS,
        any::<[u8; 4]>(),
    );
    raw.prop_map(|(op, name, holder, pick, dice)| decode(op, name, holder, pick, dice))
}

/// Boundaries and repetitions are what finds bugs, so they take a large share.
fn decode(op: u8, name: usize, holder: usize, grant: usize, dice: [u8; 4]) -> Step {
    let [one, two, three, _] = dice;
    let ttl = length(one);
    match op {
        0..30 => Step::Acquire(wish(name, holder, dice)),
        30..33 => Step::AcquireAll { holder, ttl },
        33..40 => Step::Renew {
            grant,
            by: by(two),
            ttl,
        },
        40..45 => Step::Add {
            grant,
            ttl,
            expect: expect(two),
        },
        45..49 => Step::RenewTicket { name, holder, ttl },
        49..51 => Step::Adopt {
            grant,
            heir: holder,
            ttl,
        },
        51..60 => Step::Release { grant, by: by(two) },
        60..63 => Step::FreeClaim {
            grant,
            by: by(two),
            spend: three % 2 == 0,
        },
        63..66 => Step::Force {
            name,
            grant: (two % 2 == 0).then_some(grant),
        },
        66..71 => Step::Confirm {
            grant,
            by: by(two),
            entity: usize::from(three % 2),
            expect: expect(one),
        },
        71..73 => Step::HandOver {
            grant,
            heir: holder,
        },
        73..77 => Step::Withdraw { name, holder },
        77..80 => Step::SetCapacity {
            name,
            units: Some(u32::from(two % 6)).filter(|units| *units < 5),
            expect: expect(three),
        },
        80..86 => Step::Again,
        86..98 => Step::Pass(until(two, three)),
        _ => Step::Sweep,
    }
}

fn wish(name: usize, holder: usize, dice: [u8; 4]) -> Wish {
    let [one, two, three, four] = dice;
    Wish {
        name,
        holder,
        ttl: length(one),
        terms: match two % 16 {
            0..7 => Terms::Lock,
            7..9 => Terms::Reservation,
            9..11 => Terms::Shared,
            11 => Terms::Units(1),
            12 => Terms::Units(2),
            13 => Terms::Reserved(1),
            14 => Terms::Reserved(2),
            _ => Terms::Stock(1 + u32::from(one % 2)),
        },
        own: match three % 4 {
            0 | 1 => Own::Refresh,
            2 => Own::Keep,
            _ => Own::Replace,
        },
        queue: four % 2 == 1,
        delay: four >= 224,
    }
}

fn length(die: u8) -> Length {
    match die % 3 {
        0 => Length::Short,
        1 => Length::Middle,
        _ => Length::Long,
    }
}

fn by(die: u8) -> By {
    match die % 8 {
        0..6 => By::Holder,
        6 => By::Stranger,
        _ => By::WrongToken,
    }
}

fn expect(die: u8) -> Expect {
    match die % 4 {
        0 | 1 => Expect::Nothing,
        2 => Expect::Right,
        _ => Expect::Wrong,
    }
}

fn until(which: u8, how: u8) -> Until {
    match which % 4 {
        0 => Until::NextEnd(Side::Before),
        1 => Until::NextEnd(Side::At),
        2 => Until::NextEnd(Side::After),
        _ => Until::Millis(u64::from(how) * 4),
    }
}
