//! `cargo xtask tidy`: the rules of this workspace that no compiler knows.
//!
//! Each rule is a function that returns what it found. Everything found is printed, each with what to do about it.

mod backends;
mod deps;
mod docs;
mod generated;
mod markdown;
mod text;
mod tree;

use std::fmt;
use std::path::Path;

use crate::Result;
use crate::cmd::root;
use crate::guarantees;
use crate::metadata::Metadata;
use generated::Block;
use tree::Tree;

/// Something that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    place: String,
    advice: String,
}

impl Problem {
    fn new(place: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            advice: advice.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.advice)
    }
}

/// Checks every rule; with `write` the generated tables are brought up to date first.
pub(crate) fn run(write: bool) -> Result {
    let metadata = Metadata::load()?;
    let mut problems = generated_tables(root(), &metadata, write);
    let tree = Tree::read(root())?;
    problems.extend(deps::check(&metadata));
    problems.extend(backends::check(&tree, &metadata));
    problems.extend(docs::check(&tree));
    problems.extend(text::check(&tree));
    report(&problems)
}

fn generated_tables(root: &Path, metadata: &Metadata, write: bool) -> Vec<Problem> {
    let dependencies = Block {
        marker: "dependencies",
        files: &["docs/architecture.md"],
        text: deps::invariants(),
    };
    let mut problems = generated::check(root, &dependencies, write);
    match guarantees::table(metadata) {
        Ok(text) => {
            let table = Block {
                marker: "guarantees",
                files: &["README.md", "docs/guarantees.md"],
                text,
            };
            problems.extend(generated::check(root, &table, write));
        }
        Err(why) => problems.push(Problem::new("crates/leasehold", why)),
    }
    problems
}

fn report(problems: &[Problem]) -> Result {
    for problem in problems {
        eprintln!("{problem}");
    }
    match problems.len() {
        0 => {
            eprintln!("xtask: everything is tidy");
            Ok(())
        }
        1 => Err("1 problem".to_owned()),
        many => Err(format!("{many} problems")),
    }
}
