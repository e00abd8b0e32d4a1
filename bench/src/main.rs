//! Measures Leasehold against floors and peers in the same run; `--check` fails if a target is missed.
//!
//! Absolute figures mean little on a shared machine: read the ratios. `--list` names the benches.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a binary for people, which measures real time"
)]

mod alloc;
mod args;
mod bench;
mod core;
mod file;
mod measure;
mod pairs;
mod redis;
mod report;
mod setup;

use std::process::ExitCode;

use args::Args;
use bench::Bench;

/// Every bench there is.
fn all() -> Vec<Bench> {
    [core::benches(), file::benches(), redis::benches()].concat()
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let as_child = file::run_as_child(&args).or_else(|| redis::run_as_child(&args));
    if let Some(code) = as_child {
        return code;
    }
    match args::parse(&args, &all()).and_then(run) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs what was asked for; `false` if it was to be checked and fell short.
fn run(args: Args) -> Result<bool, String> {
    if args.list {
        for bench in &args.benches {
            println!("{:<16} {}", bench.name, bench.about);
        }
        return Ok(true);
    }
    let mut rows = Vec::new();
    for bench in &args.benches {
        let measured = bench.run(args.check);
        rows.extend(measured.map_err(|error| format!("{} failed: {error}", bench.name))?);
    }
    print!("{}", report::table(&rows));
    let missed = rows.iter().filter(|row| row.is_missed()).count();
    if args.check && missed > 0 {
        eprintln!("bench: {missed} of the targets marked \"must\" were missed");
    }
    Ok(!args.check || missed == 0)
}
