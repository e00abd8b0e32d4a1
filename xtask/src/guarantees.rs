//! The table of guarantees, as the backends themselves declare them.

use crate::Result;
use crate::cmd::{cargo, read};
use crate::metadata::{FACADE, Metadata};

/// The example of the facade that prints the table.
const EXAMPLE: &str = "guarantees";

/// The table in Markdown, printed by the facade with all backends compiled in.
pub(crate) fn table(metadata: &Metadata) -> Result<String> {
    let facade = metadata.member(FACADE);
    if !facade.is_some_and(|package| package.examples().any(|name| name == EXAMPLE)) {
        return Err(format!(
            "the facade has no example {EXAMPLE:?}; add one that prints the table in Markdown"
        ));
    }
    read(&mut cargo([
        "run",
        "--quiet",
        "--package",
        FACADE,
        "--all-features",
        "--example",
        EXAMPLE,
    ]))
}
