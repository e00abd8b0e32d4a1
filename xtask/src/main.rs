//! The chores of this workspace. `cargo xtask --help` lists them.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a binary for people"
)]

mod args;
mod bench;
mod check;
mod cmd;
mod guarantees;
mod metadata;
mod services;
mod test;
mod tidy;

use std::process::ExitCode;

use args::Job;

/// What every chore gives: nothing, or a sentence that says what went wrong and what to do.
type Result<T = ()> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args::parse(&args).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(job: Job) -> Result {
    match job {
        Job::Help => {
            print!("{}", args::HELP);
            Ok(())
        }
        Job::Check { keep_going } => check::run(keep_going),
        Job::Tidy { write } => tidy::run(write),
        Job::Test(options) => test::run(&options),
        Job::ServicesUp { names } => services::up(&names),
        Job::ServicesDown { names } => services::down(&names),
        Job::Bench { args } => bench::run(&args),
    }
}
