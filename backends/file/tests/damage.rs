//! Damaged files (F22): whatever is on the disk instead of what was written, a store either is as it was or says that it
//! is not, naming the file. It never panics, never begins anew and never gives a token again.
//!
//! Whatever could take the process down runs in [another one](storage::child).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::print_stdout,
    reason = "how much was tried is part of the result"
)]

mod storage;

use std::path::Path;
use std::time::Duration;

use leasehold_core::{Error, ErrorKind, ManualClock};
use redb::{Database, ReadableDatabase as _, TableDefinition, WriteTransaction};

use storage::calls::{Seeded, clock_at, grant, holder, is_long, name};
use storage::child::{Outcome, in_child};
use storage::rot::Rotting;
use storage::sample::{HEADER, PAGE, Sample, block_on, folder, options};

/// The byte that says which of the last two commits counts, and the bit of it that does.
///
/// This is the one hole: nothing in the file vouches for it, and only a witness outside of the file could. It is left out
/// wherever bits are flipped, and has [a test of its own](the_bit_that_says_which_commit_counts_is_beyond_us).
const WHICH_COMMIT: (usize, usize) = (9, 0);

/// Where the keys of a page end, which stand in front, and its records begin, if they are as large as those of
/// [`Rotting`].
const INSIDE: usize = 256;

/// How a file was left.
#[derive(Debug, Clone, Copy)]
enum Left {
    Closed,
    Killed,
}

const BOTH: [Left; 2] = [Left::Closed, Left::Killed];

/// Something that is done to a file.
#[derive(Debug, Clone, Copy)]
enum Damage {
    /// One bit of this byte is another.
    Flip(usize, usize),
    /// It ends here.
    Cut(usize),
    /// It has so many bytes more.
    Longer(usize),
    /// Nothing is in this page any more.
    Blank(usize),
    /// What belongs into the one page is in the other.
    Swap(usize, usize),
    /// This page is as it was one commit before: a write was lost.
    Stale(usize),
    /// From here on so many bytes are anything, by this seed.
    Noise(usize, usize, u64),
}

impl Damage {
    fn done_to(self, image: &[u8], before: &[u8]) -> Vec<u8> {
        let mut bytes = image.to_vec();
        let page = |page: usize| page * PAGE..(page + 1) * PAGE;
        match self {
            Self::Flip(at, bit) => bytes[at] ^= 1 << bit,
            Self::Cut(length) => bytes.truncate(length),
            Self::Longer(by) => bytes.resize(image.len() + by, b'?'),
            Self::Blank(at) => bytes[page(at)].fill(0),
            Self::Swap(one, other) => {
                bytes[page(one)].copy_from_slice(&image[page(other)]);
                bytes[page(other)].copy_from_slice(&image[page(one)]);
            }
            Self::Stale(at) => bytes[page(at)].copy_from_slice(&before[page(at)]),
            Self::Noise(at, length, seed) => {
                let mut random = Seeded::new(seed);
                let end = (at + length).min(bytes.len());
                bytes[at..end].fill_with(|| random.below(256) as u8);
            }
        }
        bytes
    }
}

/// A file and what is done to it.
type Case = (Left, Damage);

fn image(sample: &Sample, left: Left) -> &[u8] {
    match left {
        Left::Closed => &sample.closed,
        Left::Killed => &sample.killed,
    }
}

/// The pages of a file that have anything in them.
fn used_pages(image: &[u8]) -> Vec<usize> {
    let is_used = |page: &usize| {
        let bytes = &image[page * PAGE..(page + 1) * PAGE];
        bytes.iter().any(|byte| *byte != 0)
    };
    (0..image.len() / PAGE).filter(is_used).collect()
}

/// Does each of these things to a fresh copy of the file, and looks what comes of it.
fn damage_everything(test: &str, cases: impl FnOnce(&Sample) -> Vec<Case>) {
    let sample = Sample::new();
    let run = |(left, damage): &Case| -> Outcome {
        let before = &sample.before.killed;
        sample.outcome(&damage.done_to(image(&sample, *left), before))
    };
    in_child(test, || cases(&sample), run);
}

/// So many, or many more in a long run.
fn amount(usual: usize, long: usize) -> usize {
    if is_long() { long } else { usual }
}

/// F22. Every byte of the header, one bit of it or all of them.
#[test]
fn a_flipped_bit_in_the_header_is_told_or_harmless() {
    let test = "a_flipped_bit_in_the_header_is_told_or_harmless";
    damage_everything(test, |_| {
        let mut random = Seeded::new(22);
        let mut cases = Vec::new();
        for (left, at) in BOTH
            .iter()
            .flat_map(|left| (0..HEADER).map(move |at| (*left, at)))
        {
            let one = random.below(8);
            let bits = (0..8).filter(|bit| is_long() || *bit == one || at == WHICH_COMMIT.0);
            let bits = bits.filter(|bit| (at, *bit) != WHICH_COMMIT);
            cases.extend(bits.map(|bit| (left, Damage::Flip(at, bit))));
        }
        cases
    });
}

/// F22. Half of the bits are taken from the first bytes of a page, where the engine keeps what it goes by.
#[test]
fn a_flipped_bit_behind_the_header_is_told_or_harmless() {
    let test = "a_flipped_bit_behind_the_header_is_told_or_harmless";
    damage_everything(test, |sample| {
        let mut random = Seeded::new(23);
        let mut cases = Vec::new();
        for left in BOTH {
            let pages = used_pages(image(sample, left));
            while cases.len() < amount(150, 5000) * (left as usize + 1) {
                let within = if random.once_in(2) { PAGE } else { 64 };
                let at = pages[random.below(pages.len())] * PAGE + random.below(within);
                if at >= HEADER {
                    cases.push((left, Damage::Flip(at, random.below(8))));
                }
            }
        }
        cases
    });
}

/// F22. Cut off anywhere, or longer than it was.
#[test]
fn a_file_of_another_length_is_told_or_harmless() {
    let test = "a_file_of_another_length_is_told_or_harmless";
    damage_everything(test, |sample| {
        let mut random = Seeded::new(24);
        let mut cases = Vec::new();
        for left in BOTH {
            let whole = image(sample, left).len();
            let sectors = (1..whole / 512).map(|sector| sector * 512);
            let sectors = sectors.filter(|_| is_long() || random.once_in(whole / 512 / 60 + 1));
            cases.extend(sectors.map(|length| (left, Damage::Cut(length))));
            let odd = [1, 8, 9, 10, HEADER - 1, HEADER, HEADER + 1, whole - 1];
            cases.extend(odd.map(|length| (left, Damage::Cut(length))));
            let more = [1, 512, PAGE, PAGE + 1, 1 << 20, whole];
            cases.extend(more.map(|by| (left, Damage::Longer(by))));
        }
        cases
    });
}

/// F22. Pages that are gone, in the wrong place, of yesterday, or noise. The first page is not made stale: its header is
/// what says which commit counts, and an old one is the hole of [`WHICH_COMMIT`] once more.
#[test]
fn a_page_that_is_not_what_was_written_is_told_or_harmless() {
    let test = "a_page_that_is_not_what_was_written_is_told_or_harmless";
    damage_everything(test, |sample| {
        let mut random = Seeded::new(25);
        let mut cases = Vec::new();
        for left in BOTH {
            let pages = used_pages(image(sample, left));
            let one_of = |random: &mut Seeded| pages[random.below(pages.len())];
            cases.extend(pages.iter().map(|page| (left, Damage::Blank(*page))));
            for _ in 0..amount(40, 1000) {
                let (one, other) = (one_of(&mut random), one_of(&mut random));
                cases.push((left, Damage::Swap(one, other)));
                let at = one_of(&mut random) * PAGE + random.below(PAGE);
                cases.push((
                    left,
                    Damage::Noise(at, 1 + random.below(2 * PAGE), random.next()),
                ));
            }
        }
        let pages = used_pages(&sample.killed).into_iter().skip(1);
        cases.extend(pages.map(|page| (Left::Killed, Damage::Stale(page))));
        cases
    });
}

/// The known hole, documented with the store under *What can go wrong*: with this bit flipped, the commit before the last
/// one counts, and nothing tells. It is asserted to be no larger than that: all of the commit before is there, and as long
/// as time goes on, tokens do not come again.
#[test]
fn the_bit_that_says_which_commit_counts_is_beyond_us() {
    let sample = Sample::new();
    let flip = Damage::Flip(WHICH_COMMIT.0, WHICH_COMMIT.1);
    let folder = folder();
    let path = folder.path().join("leases.redb");
    std::fs::write(&path, flip.done_to(&sample.killed, &[])).unwrap();
    block_on(async {
        let clock = clock_at(Duration::from_secs(1));
        let file = options(&path, &clock).open().await.unwrap();
        assert!(sample.is_one_commit_behind(&file).await);
        let lease = grant(&file, &name("last", "lease"), &holder("other")).await;
        assert!(lease.token > sample.highest());
    });
    // After an orderly end the last commit holds nothing but the time, so that nothing is lost with it.
    let closed = sample.outcome(&flip.done_to(&sample.closed, &[]));
    println!("after an orderly end: {closed:?}");
    closed.unwrap();
}

/// Opens what must not open, and gives the reason, which names the file.
fn refused(path: &Path) -> Error {
    let error = block_on(options(path, &ManualClock::new()).open()).unwrap_err();
    assert!(
        error.to_string().contains(&path.display().to_string()),
        "{error}"
    );
    error
}

/// F22. None of this is a store that has lost everything.
#[test]
fn what_is_no_file_of_ours_is_refused_and_left_alone() {
    let folder = folder();
    let path = folder.path().join("leases.redb");
    let zeros = vec![0; 1 << 20];
    for bytes in [&b""[..], b"\n", b"redb", b"a shopping list\n", &zeros] {
        std::fs::write(&path, bytes).unwrap();
        let error = refused(&path);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    let inside = folder.path().join("folder");
    std::fs::create_dir(&inside).unwrap();
    assert_eq!(refused(&inside).kind(), ErrorKind::Config);
    let nowhere = folder.path().join("nowhere").join("leases.redb");
    assert_eq!(refused(&nowhere).kind(), ErrorKind::Config);
}

const THEIRS: TableDefinition<'_, u64, &str> = TableDefinition::new("users");
const THEIR_RECORDS: TableDefinition<'_, u64, u64> = TableDefinition::new("records");
const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");
/// Where a file says what it is.
const META: &[u8] = b"\0";

/// Makes a change to a database that is closed.
fn edit(path: &Path, edit: impl FnOnce(&WriteTransaction)) {
    let database = Database::create(path).unwrap();
    let txn = database.begin_write().unwrap();
    edit(&txn);
    txn.commit().unwrap();
}

/// What is in a table of ours.
fn stored(path: &Path, key: &[u8]) -> Vec<u8> {
    let database = Database::open(path).unwrap();
    let records = database.begin_read().unwrap().open_table(RECORDS).unwrap();
    records.get(key).unwrap().unwrap().value().to_vec()
}

/// F22. A database of the same engine that belongs to somebody else, also one that has a table of the same name.
#[test]
fn a_database_of_somebody_else_is_refused_and_left_alone() {
    let add: [fn(&WriteTransaction); 3] = [
        |_| {},
        |txn| drop(txn.open_table(RECORDS).unwrap()),
        |txn| drop(txn.open_table(RECORDS).unwrap().insert(META, &b"?"[..])),
    ];
    for (at, add) in add.into_iter().enumerate() {
        let folder = folder();
        let path = folder.path().join("users.redb");
        edit(&path, |txn| {
            txn.open_table(THEIRS).unwrap().insert(7, "ada").unwrap();
            add(txn);
        });
        let error = refused(&path);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{at}: {error}");
        let txn = Database::open(&path).unwrap().begin_read().unwrap();
        let users = txn.open_table(THEIRS).unwrap();
        assert_eq!(users.get(7).unwrap().unwrap().value(), "ada");
        let tables = txn.list_tables().unwrap().count();
        assert_eq!(tables, 1 + usize::from(at > 0));
    }
}

/// F22. The same, if a table of theirs has a name of ours and something else in it. Trying again does not help, so the error
/// must not be one that says it does.
#[test]
fn a_database_with_another_table_of_the_same_name_is_told_as_damage() {
    let folder = folder();
    let path = folder.path().join("users.redb");
    edit(&path, |txn| {
        let mut table = txn.open_table(THEIR_RECORDS).unwrap();
        table.insert(1, 2).unwrap();
    });
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

/// A file of a later version, which this one does not understand.
#[test]
fn a_file_of_another_form_is_refused_and_left_alone() {
    let sample = Sample::new();
    let folder = folder();
    let path = folder.path().join("leases.redb");
    std::fs::write(&path, &sample.closed).unwrap();
    let known = stored(&path, META);
    let mut sum = crc32fast::Hasher::new();
    sum.update(META);
    sum.update(&99_u64.to_le_bytes());
    let mut later = sum.finalize().to_le_bytes().to_vec();
    later.extend(99_u64.to_le_bytes());
    let write = |meta: &[u8]| {
        edit(&path, |txn| {
            let mut records = txn.open_table(RECORDS).unwrap();
            records.insert(META, meta).unwrap();
        });
    };
    write(&later);
    let error = refused(&path);
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains("form 99"), "{error}");
    assert_eq!(stored(&path, META), later);
    write(&known);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(sample.outcome(&bytes), Ok("as it was"));
}

/// F21: a file is made under another name first. Whatever a crash left of that is no obstacle, and nobody's data.
#[test]
fn a_file_that_was_cut_off_in_the_making_is_made_again() {
    let sample = Sample::new();
    let folder = folder();
    for (at, half_made) in [&b""[..], b"redb", &sample.closed[..5000], &sample.closed]
        .iter()
        .enumerate()
    {
        let path = folder.path().join(format!("{at}.redb"));
        std::fs::write(folder.path().join(format!("{at}.redb.new")), half_made).unwrap();
        block_on(async {
            let clock = ManualClock::new();
            let file = options(&path, &clock).open().await.unwrap();
            grant(&file, &name("last", "lease"), &holder("other")).await;
        });
    }
}

/// The pages of a [`Rotting`] store that are part of a record.
fn record_pages(image: &[u8]) -> Vec<usize> {
    let is_text = |page: &usize| {
        let bytes = &image[page * PAGE..(page + 1) * PAGE];
        bytes.iter().filter(|byte| **byte == b'x').count() > PAGE / 2
    };
    (0..image.len() / PAGE).filter(is_text).collect()
}

/// Does each of these things to the disk of a store that is open and does not fit into its memory.
fn rot_everything(
    test: &str,
    pages: fn(&[u8]) -> Vec<usize>,
    mut damage: impl FnMut(&mut Seeded, usize) -> Damage,
) {
    let large = Rotting::new();
    let cases = || {
        let mut random = Seeded::new(26);
        let pages = pages(&large.image);
        let mut one = |_| {
            let page = pages[random.below(pages.len())];
            damage(&mut random, page)
        };
        (0..amount(15, 400)).map(&mut one).collect()
    };
    in_child(test, cases, |damage: &Damage| {
        large.outcome(|bytes| *bytes = damage.done_to(bytes, &[]))
    });
}

/// F22, while the store is open: the engine trusts what it has verified at opening, and panics over what it does not
/// expect.
#[test]
fn a_page_that_turns_to_noise_under_an_open_store_is_told() {
    let test = "a_page_that_turns_to_noise_under_an_open_store_is_told";
    rot_everything(test, used_pages, |random, page| match random.once_in(2) {
        true => Damage::Blank(page),
        false => Damage::Noise(page * PAGE, PAGE, random.next()),
    });
}

/// F22, while the store is open: a record has a checksum of ours.
#[test]
fn a_record_that_rots_under_an_open_store_is_told_or_harmless() {
    let test = "a_record_that_rots_under_an_open_store_is_told_or_harmless";
    rot_everything(test, record_pages, |random, page| {
        let at = INSIDE + random.below(PAGE - INSIDE);
        Damage::Flip(page * PAGE + at, random.below(8))
    });
}
