//! Who may depend on whom. The same rules are printed into `docs/architecture.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::Problem;
use crate::metadata::{Dependency, Metadata, Package};

/// What the crate in a folder may depend on inside the workspace.
struct Rule {
    /// The folder; `backends/*` stands for every folder in `backends/`.
    folder: &'static str,
    /// Folders it may depend on.
    may: &'static [&'static str],
    /// Folders that its tests may depend on as well.
    tests_may: &'static [&'static str],
}

const RULES: &[Rule] = &[
    rule("crates/core", &[], &["crates/conformance"]),
    rule("crates/conformance", &["crates/core"], &[]),
    rule("crates/seeded", &["crates/core", "crates/conformance"], &[]),
    rule("crates/faults", &[], &[]),
    rule(
        "backends/*",
        &["crates/core"],
        &["crates/conformance", "crates/faults"],
    ),
    rule("crates/api", &["crates/core"], &[]),
    rule(
        "crates/client",
        &["crates/core", "crates/api"],
        &["crates/conformance"],
    ),
    rule(
        "crates/leasehold",
        &["crates/core", "backends/*", "crates/client"],
        &[],
    ),
    rule("crates/server", &["crates/leasehold", "crates/api"], &[]),
    rule(
        "crates/cli",
        &["crates/leasehold", "crates/client", "crates/api"],
        &[],
    ),
    rule(
        "bench",
        &[
            "crates/leasehold",
            "crates/core",
            "crates/conformance",
            "crates/faults",
            "backends/*",
        ],
        &[],
    ),
    rule("e2e", &["crates/leasehold"], &[]),
    rule("examples", &["crates/leasehold"], &[]),
    rule("xtask", &[], &[]),
];

/// Crates that must never be needed to build core, not even through another crate.
const DRIVERS: &[&str] = &[
    "redis",
    "tokio-postgres",
    "postgres",
    "sqlx",
    "rusqlite",
    "redb",
    "fjall",
    "tonic",
    "etcd-client",
    "reqwest",
    "hyper",
    "axum",
    "oracle",
    "oracledb",
];

const fn rule(
    folder: &'static str,
    may: &'static [&'static str],
    tests_may: &'static [&'static str],
) -> Rule {
    Rule {
        folder,
        may,
        tests_may,
    }
}

/// Every dependency that breaks a rule.
pub(crate) fn check(metadata: &Metadata) -> Vec<Problem> {
    let members = metadata.members();
    let mut problems: Vec<Problem> = members.flat_map(|it| check_member(metadata, it)).collect();
    problems.extend(drivers_in_core(metadata));
    problems
}

/// The rules as a list in Markdown.
pub(crate) fn invariants() -> String {
    let mut out = String::new();
    for rule in RULES {
        let may = match spell(rule.may) {
            Some(folders) => format!("at most on {folders}"),
            None => "on no other crate of the workspace".to_owned(),
        };
        let tests = spell(rule.tests_may).map(|it| format!("; its tests may also use {it}"));
        let tests = tests.unwrap_or_default();
        let folder = rule.folder;
        let _ = writeln!(out, "* **Invariant:** `{folder}` depends {may}{tests}.");
    }
    out.push_str(
        "* **Invariant:** building `crates/core` needs no driver of a store and no HTTP stack.\n",
    );
    out
}

fn spell(folders: &[&str]) -> Option<String> {
    let quoted: Vec<String> = folders.iter().map(|it| format!("`{it}`")).collect();
    match quoted.split_last()? {
        (last, []) => Some(last.clone()),
        (last, rest) => Some(format!("{} and {last}", rest.join(", "))),
    }
}

fn check_member(metadata: &Metadata, package: &Package) -> Vec<Problem> {
    let folder = metadata.folder(package);
    let manifest = format!("{folder}/Cargo.toml");
    let Some(rule) = RULES.iter().find(|rule| covers(rule.folder, &folder)) else {
        let advice =
            "no rule says what this crate may depend on; add one to xtask/src/tidy/deps.rs";
        return vec![Problem::new(manifest, advice)];
    };
    let inside = package.dependencies.iter().filter_map(|dependency| {
        let on = metadata.relative(dependency.path.as_deref()?);
        (!allowed(rule, &on, dependency)).then_some(on)
    });
    inside
        .map(|on| {
            let advice = format!("must not depend on {on}; see docs/architecture.md for the rule");
            Problem::new(manifest.clone(), advice)
        })
        .collect()
}

fn allowed(rule: &Rule, on: &str, dependency: &Dependency) -> bool {
    let in_tests = dependency.kind.as_deref() == Some("dev");
    let tests_may: &[&str] = if in_tests { rule.tests_may } else { &[] };
    rule.may
        .iter()
        .chain(tests_may)
        .any(|pattern| covers(pattern, on))
}

fn covers(pattern: &str, folder: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => folder.starts_with(prefix),
        None => folder == pattern,
    }
}

fn drivers_in_core(metadata: &Metadata) -> Vec<Problem> {
    let core = metadata
        .members()
        .find(|package| metadata.folder(package) == "crates/core");
    let needed = core.map_or_else(BTreeSet::new, |core| needed_by(metadata, &core.id));
    let drivers = metadata
        .packages
        .iter()
        .filter(|package| needed.contains(&package.id) && DRIVERS.contains(&package.name.as_str()));
    drivers
        .map(|package| {
            let name = &package.name;
            let advice = format!("core must build without {name}; drivers belong in backends/");
            Problem::new("crates/core/Cargo.toml", advice)
        })
        .collect()
}

/// The ids of everything needed to build a package, directly or not; what only tests need is left out.
fn needed_by<'a>(metadata: &'a Metadata, id: &'a str) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open = vec![id];
    while let Some(id) = open.pop() {
        let node = metadata.resolve.nodes.iter().find(|node| node.id == id);
        let edges = node.into_iter().flat_map(|node| &node.deps);
        let built = edges.filter(|edge| {
            let mut kinds = edge.dep_kinds.iter();
            kinds.any(|it| it.kind.as_deref() != Some("dev"))
        });
        for edge in built {
            if found.insert(&edge.pkg) {
                open.push(&edge.pkg);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::tests::{Member, workspace};

    fn found(members: &[Member<'_>]) -> Vec<String> {
        let problems = check(&workspace(members));
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_intended_graph_is_accepted() {
        let none = found(&[
            ("crates/core", &[("crates/conformance", Some("dev"))]),
            ("crates/conformance", &[("crates/core", None)]),
            (
                "backends/redis",
                &[("crates/core", None), ("crates/conformance", Some("dev"))],
            ),
            (
                "crates/leasehold",
                &[("crates/core", None), ("backends/redis", None)],
            ),
            ("crates/server", &[("crates/leasehold", None)]),
            ("xtask", &[]),
        ]);
        assert_eq!(none, Vec::<String>::new());
    }

    #[test]
    fn a_backend_must_not_depend_on_another() {
        let problems = found(&[("backends/redis", &[("backends/file", None)])]);
        assert_eq!(problems.len(), 1);
        assert!(
            problems[0].starts_with("backends/redis/Cargo.toml: must not depend on backends/file")
        );
    }

    #[test]
    fn the_kit_is_for_tests_only() {
        let problems = found(&[("backends/redis", &[("crates/conformance", None)])]);
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn a_crate_without_a_rule_is_reported() {
        let problems = found(&[("crates/surprise", &[])]);
        assert!(problems[0].contains("no rule"), "{problems:?}");
    }

    #[test]
    fn a_driver_under_core_is_found_unless_only_tests_need_it() {
        let mut metadata = workspace(&[("crates/core", &[]), ("middle", &[]), ("redis", &[])]);
        metadata.workspace_members.truncate(1);
        let edges = |kind: &str| {
            serde_json::from_str(&format!(
                r#"{{"nodes": [
                    {{"id": "crates/core", "deps": [{{"pkg": "middle", "dep_kinds": [{{"kind": {kind}}}]}}]}},
                    {{"id": "middle", "deps": [{{"pkg": "redis", "dep_kinds": [{{"kind": null}}]}}]}}
                ]}}"#
            ))
            .unwrap()
        };
        metadata.resolve = edges("null");
        assert_eq!(check(&metadata).len(), 1);
        metadata.resolve = edges("\"dev\"");
        assert_eq!(check(&metadata), []);
    }

    #[test]
    fn every_rule_is_a_sentence() {
        let text = invariants();
        assert!(text.contains(
            "`crates/client` depends at most on `crates/core` and `crates/api`; its tests may also use"
        ));
        assert!(text.contains("`xtask` depends on no other crate of the workspace."));
    }
}
