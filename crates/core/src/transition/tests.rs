//! unit tests
