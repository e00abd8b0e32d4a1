//! What every backend must bring: tests, a page, a test service, a place in the facade.

use std::collections::BTreeSet;

use super::Problem;
use super::markdown;
use super::tree::Tree;
use crate::metadata::{FACADE, Metadata};
use crate::services;

/// The headings of a backend's page, in order.
const HEADINGS: &[&str] = &[
    "Example",
    "Setup",
    "What it maps to",
    "Implementation notes",
    "Options",
    "Guarantees",
    "What can go wrong",
];

/// Everything that is missing.
pub(crate) fn check(tree: &Tree, metadata: &Metadata) -> Vec<Problem> {
    let mut problems: Vec<Problem> = page(tree, "memory").into_iter().collect();
    for name in folders(tree) {
        problems.extend(page(tree, &name));
        problems.extend(package(metadata, &name));
        problems.extend(conformance(tree, &name));
        problems.extend(service(&name));
        problems.extend(facade(tree, metadata, &name));
    }
    problems
}

fn folders(tree: &Tree) -> BTreeSet<String> {
    tree.files()
        .filter_map(|(path, _)| path.strip_prefix("backends/")?.split_once('/'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn page(tree: &Tree, name: &str) -> Option<Problem> {
    let path = format!("docs/backends/{name}.md");
    let wanted = HEADINGS.join(" · ");
    let Some(text) = tree.get(&path) else {
        let advice = format!("is missing; write it with the headings {wanted}");
        return Some(Problem::new(path, advice));
    };
    let right = markdown::headings(text, 2).eq(HEADINGS.iter().copied());
    let advice = || format!("must have these second-level headings, in this order: {wanted}");
    (!right).then(|| Problem::new(path, advice()))
}

fn package(metadata: &Metadata, name: &str) -> Option<Problem> {
    let folder = format!("backends/{name}");
    let wanted = format!("leasehold-{name}");
    let member = metadata.members().find(|it| metadata.folder(it) == folder);
    let right = member.is_some_and(|package| package.name == wanted);
    let advice = format!("must be a member of the workspace and be called {wanted}");
    (!right).then(|| Problem::new(folder, advice))
}

fn conformance(tree: &Tree, name: &str) -> Option<Problem> {
    let path = format!("backends/{name}/tests/conformance.rs");
    let advice = "is missing; run the kit there, see docs/testing.md";
    (!tree.contains(&path)).then(|| Problem::new(path, advice))
}

fn service(name: &str) -> Option<Problem> {
    let advice =
        format!("does not list {name}; say what its tests need, or that they need nothing");
    (!services::is_listed(name)).then(|| Problem::new("xtask/src/services/mod.rs", advice))
}

fn facade(tree: &Tree, metadata: &Metadata, name: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let package = metadata.member(FACADE);
    if !package.is_some_and(|package| package.features.contains_key(name)) {
        let advice = format!("needs a feature {name:?} that turns on leasehold-{name}");
        problems.push(Problem::new("crates/leasehold/Cargo.toml", advice));
    }
    let sources = tree.ending(".rs");
    let mut sources = sources.filter(|(path, _)| path.starts_with("crates/leasehold/src/"));
    if !sources.any(|(_, text)| registers(text, name)) {
        let advice = format!("must register leasehold_{name}, so that connect knows its scheme");
        problems.push(Problem::new("crates/leasehold/src", advice));
    }
    problems
}

/// Whether one statement of a source both registers and names the backend's crate.
fn registers(source: &str, name: &str) -> bool {
    let path = format!("leasehold_{name}::");
    let mut statements = source.split(';');
    statements.any(|it| it.contains("register") && it.contains(&path))
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::tree;
    use super::*;
    use crate::metadata::tests::workspace;

    #[test]
    fn a_page_needs_its_headings_in_order() {
        let good: String = HEADINGS.iter().map(|it| format!("## {it}\n")).collect();
        let path = "docs/backends/memory.md";
        assert_eq!(page(&tree(&[(path, &good)]), "memory"), None);
        let bad = good.replace("Setup", "Set-up");
        assert!(page(&tree(&[(path, &bad)]), "memory").is_some());
        assert!(page(&tree(&[]), "memory").is_some());
    }

    #[test]
    fn a_bare_folder_lacks_everything() {
        let tree = tree(&[("backends/surprise/src/lib.rs", "")]);
        let problems = check(&tree, &workspace(&[]));
        let places: Vec<_> = problems.iter().map(|it| it.place.as_str()).collect();
        assert_eq!(
            places,
            [
                "docs/backends/memory.md",
                "docs/backends/surprise.md",
                "backends/surprise",
                "backends/surprise/tests/conformance.rs",
                "xtask/src/services/mod.rs",
                "crates/leasehold/Cargo.toml",
                "crates/leasehold/src",
            ]
        );
    }

    #[test]
    fn a_register_line_may_be_broken_over_several() {
        let source =
            "registry.register(\n    leasehold_redis::SCHEME,\n    leasehold_redis::open,\n);";
        assert!(registers(source, "redis"));
        assert!(!registers("pub use leasehold_redis::Backend;", "redis"));
    }
}
