//! Rules about the text of sources: what must not be left behind, and what must stay small.

use super::Problem;
use super::tree::Tree;

const LIB_LINES: usize = 150;

/// What must not be in a source, and what to do instead. Written in two parts, so that this file obeys its own rule.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("todo", "!("), "finish it"),
    (concat!("unimplemented", "!("), "finish it"),
    (
        concat!("#[", "ignore"),
        "run the test, or list it as unsupported by capability",
    ),
    (concat!("#[", "should_panic"), "assert on a returned error"),
];

/// Every source that breaks a rule.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = tree.not_utf8();
    for (path, text) in tree.ending(".rs") {
        problems.extend(forbidden(path, text));
        problems.extend(banners(path, text));
        problems.extend(small_lib(path, text));
    }
    for (path, text) in tree.ending(".rs").chain(tree.ending(".md")) {
        problems.extend(ignored_examples(path, text));
    }
    problems
}

fn forbidden(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (word, instead) in FORBIDDEN {
        let advice = format!("must not hold {word}: {instead}");
        problems.extend(lines_where(path, text, &advice, |line| line.contains(word)));
    }
    problems
}

fn banners(path: &str, text: &str) -> Vec<Problem> {
    lines_where(path, text, "is a banner comment; remove it", |line| {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            return false;
        };
        let body = comment.trim_start_matches(['/', '!']).trim_start();
        ["====", "----", "****", "####"]
            .iter()
            .any(|rule| body.starts_with(rule))
    })
}

fn ignored_examples(path: &str, text: &str) -> Vec<Problem> {
    let advice = "must be compiled; use `no_run` or `text` instead of `ignore`";
    lines_where(path, text, advice, |line| {
        let line = line.trim_start_matches(['/', '!', ' ']);
        let words = line.strip_prefix("```").unwrap_or("");
        words.split([',', ' ']).any(|word| word == "ignore")
    })
}

fn small_lib(path: &str, text: &str) -> Option<Problem> {
    let lines = text.lines().count();
    let too_long = path.ends_with("src/lib.rs") && lines >= LIB_LINES;
    let advice =
        || format!("has {lines} lines; keep it under {LIB_LINES}: docs and re-exports only");
    too_long.then(|| Problem::new(path, advice()))
}

fn lines_where(
    path: &str,
    text: &str,
    advice: &str,
    broken: impl Fn(&str) -> bool,
) -> Vec<Problem> {
    let lines = text.lines().enumerate().filter(|(_, line)| broken(line));
    lines
        .map(|(at, _)| Problem::new(format!("{path}:{}", at + 1), advice))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::tree;
    use super::*;

    #[test]
    fn what_is_left_behind_is_found_with_its_line() {
        for (word, _) in FORBIDDEN {
            let source = format!("fn f() {{\n    {word}\n}}\n");
            let problems = check(&tree(&[("a.rs", &source)]));
            assert_eq!(problems.len(), 1, "{word}");
            assert_eq!(problems[0].place, "a.rs:2");
        }
    }

    #[test]
    fn banners_are_found_and_tables_are_not() {
        let banner = format!("// {}\n    //{}\n", "=".repeat(4), "-".repeat(8));
        assert_eq!(banners("a.rs", &banner).len(), 2);
        assert_eq!(banners("a.rs", "/// |---|---|\n// a ==== b\n"), []);
    }

    #[test]
    fn ignored_examples_are_found_in_docs_and_pages() {
        let page = format!("{}rust,ignore\nx\n", "`".repeat(3));
        assert_eq!(ignored_examples("a.md", &page).len(), 1);
        let docs = format!("//! {}ignore\n", "`".repeat(3));
        assert_eq!(ignored_examples("a.rs", &docs).len(), 1);
        let fine = format!("{}rust\nignore\n", "`".repeat(3));
        assert_eq!(ignored_examples("a.md", &fine), []);
    }

    #[test]
    fn only_lib_must_stay_small() {
        let long = "x\n".repeat(LIB_LINES);
        assert!(small_lib("crates/core/src/lib.rs", &long).is_some());
        assert!(small_lib("crates/core/src/lock.rs", &long).is_none());
    }
}
