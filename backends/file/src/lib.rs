#![doc = include_str!("../README.md")]

mod cache;
mod clock;
mod commit;
mod config;
mod crowd;
mod desk;
mod engine;
mod error;
mod meta;
mod owner;
mod store;
mod tables;
mod value;
mod view;

pub use config::{Options, Sync};
pub use store::{File, Store, connect, description};

/// The URL scheme of this store.
pub const SCHEME: &str = "file";
