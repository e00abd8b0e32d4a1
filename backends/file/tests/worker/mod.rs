//! What the tests of the file store share: requests, a seeded generator, the books of a closed file, and other processes
//! that run this test binary again.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "compiled into several test binaries, each of which uses a part"
)]

pub mod books;
pub mod process;
pub mod requests;
pub mod seeded;
pub mod storage;
pub mod traffic;
pub mod witness;
