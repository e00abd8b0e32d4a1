//! Rules about pages: nothing dangles, nothing is orphaned, the README stays short.

use std::collections::BTreeSet;

use super::Problem;
use super::markdown;
use super::tree::Tree;

const README: &str = "README.md";
const README_LINES: usize = 200;
const MAP: &str = "docs/README.md";

/// Every page that breaks a rule.
pub(crate) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = readme_is_short(tree);
    problems.extend(links_resolve(tree));
    problems.extend(pages_are_on_the_map(tree));
    problems
}

fn readme_is_short(tree: &Tree) -> Vec<Problem> {
    let lines = tree.get(README).map_or(0, |text| text.lines().count());
    match lines {
        0 => vec![Problem::new(README, "is missing or empty; write it")],
        1..=README_LINES => Vec::new(),
        _ => {
            let advice =
                format!("has {lines} lines; move detail to docs/ until it has {README_LINES}");
            vec![Problem::new(README, advice)]
        }
    }
}

fn links_resolve(tree: &Tree) -> Vec<Problem> {
    let pages = tree.ending(".md");
    pages
        .flat_map(|(page, text)| {
            let dangling = markdown::links(text)
                .into_iter()
                .filter(|link| !resolves(tree, page, link));
            dangling
                .map(|link| {
                    Problem::new(page, format!("the link {link} leads nowhere; correct it"))
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

fn resolves(tree: &Tree, page: &str, link: &str) -> bool {
    if link.contains("://") || link.starts_with("mailto:") {
        return true;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match path {
        "" => Some(page.to_owned()),
        _ => join(page, path),
    };
    let Some(target) = target else { return false };
    if anchor.is_empty() {
        return tree.contains(&target);
    }
    let text = tree.get(&target);
    text.is_some_and(|text| markdown::anchors(text).iter().any(|it| it == anchor))
}

fn pages_are_on_the_map(tree: &Tree) -> Vec<Problem> {
    let linked = linked_from(tree, MAP);
    let pages = tree.ending(".md").map(|(path, _)| path);
    let lost =
        pages.filter(|path| path.starts_with("docs/") && *path != MAP && !linked.contains(*path));
    lost.map(|path| Problem::new(path, format!("is not linked from {MAP}; add it there")))
        .collect()
}

fn linked_from(tree: &Tree, page: &str) -> BTreeSet<String> {
    let links = markdown::links(tree.get(page).unwrap_or(""));
    links
        .iter()
        .filter_map(|link| join(page, link.split('#').next()?))
        .collect()
}

/// The file that a relative link on a page means; `None` if it leads out of the workspace.
fn join(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::tree;
    use super::*;

    #[test]
    fn links_to_files_folders_and_headings_resolve() {
        let tree = tree(&[
            (
                "README.md",
                "[a](docs/a.md#top) [b](docs) [c](https://x.example/) [d](#here)\n# Here",
            ),
            ("docs/a.md", "# Top\n[up](../README.md)"),
        ]);
        assert_eq!(links_resolve(&tree), []);
    }

    #[test]
    fn dangling_links_are_found() {
        let tree = tree(&[("docs/a.md", "[x](b.md) [y](../../out.md) [z](a.md#none)")]);
        assert_eq!(links_resolve(&tree).len(), 3);
    }

    #[test]
    fn a_page_that_is_not_on_the_map_is_found() {
        let tree = tree(&[
            ("docs/README.md", "[a](a.md) [d](decisions/0001-x.md#why)"),
            ("docs/a.md", ""),
            ("docs/decisions/0001-x.md", ""),
            ("docs/lost.md", ""),
        ]);
        let problems = pages_are_on_the_map(&tree);
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].place, "docs/lost.md");
    }

    #[test]
    fn a_long_readme_is_refused() {
        let long = "x\n".repeat(README_LINES + 1);
        assert_eq!(readme_is_short(&tree(&[("README.md", &long)])).len(), 1);
        let fits = "x\n".repeat(README_LINES);
        assert_eq!(readme_is_short(&tree(&[("README.md", &fits)])), []);
    }
}
