//! As much Markdown as the rules need: headings, links, fenced code.

/// The lines outside fenced code.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fence: Option<&str> = None;
    text.lines().filter(move |line| {
        let mark = fence_mark(line);
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if mark.starts_with(open) => fence = None,
            (None, None) => return true,
            _ => {}
        }
        false
    })
}

/// The run of backticks that opens or closes a fence on this line.
fn fence_mark(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let length = line.len() - line.trim_start_matches('`').len();
    (length >= 3).then(|| &line[..length])
}

/// The text of every heading of a level.
pub(crate) fn headings(text: &str, level: usize) -> impl Iterator<Item = &str> {
    let mark = format!("{} ", "#".repeat(level));
    prose(text).filter_map(move |line| Some(line.strip_prefix(mark.as_str())?.trim()))
}

/// The targets of all links in prose.
pub(crate) fn links(text: &str) -> Vec<String> {
    prose(text).flat_map(links_of_line).collect()
}

fn links_of_line(line: &str) -> Vec<String> {
    let line = without_code(line);
    let starts = line.match_indices("](");
    starts
        .filter_map(|(at, mark)| {
            let target = line[at + mark.len()..].split(')').next()?;
            Some(target.split_whitespace().next().unwrap_or("").to_owned())
        })
        .collect()
}

/// The line without its inline code.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The anchors that headings give a page.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    (1..=6)
        .flat_map(|level| headings(text, level).map(anchor).collect::<Vec<_>>())
        .collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_not_prose() {
        let text =
            "a\n```rust\n[x](y)\n```\n````md\n```\n[x](z)\n````\nb [c](d.md \"t\") `[e](f)` [g](h)";
        assert_eq!(prose(text).next(), Some("a"));
        assert_eq!(links(text), ["d.md", "h"]);
    }

    #[test]
    fn headings_give_anchors() {
        let text = "# One two\n## What `it` is, and isn't\n";
        assert_eq!(anchors(text), ["one-two", "what-it-is-and-isnt"]);
        assert_eq!(headings(text, 1).collect::<Vec<_>>(), ["One two"]);
    }
}
