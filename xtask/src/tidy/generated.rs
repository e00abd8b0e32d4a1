//! Blocks of Markdown that are generated: between a pair of markers, and never written by hand.

use std::fs;
use std::path::Path;

use super::Problem;
use crate::Result;

/// A generated text and the files that show it.
#[derive(Debug)]
pub(crate) struct Block {
    /// The word in its markers.
    pub(crate) marker: &'static str,
    /// The files with these markers.
    pub(crate) files: &'static [&'static str],
    /// What belongs between them.
    pub(crate) text: String,
}

/// Compares a block with the files that show it, or writes it into them.
pub(crate) fn check(root: &Path, block: &Block, write: bool) -> Vec<Problem> {
    let files = block.files.iter();
    files
        .filter_map(|file| {
            let outcome = check_file(&root.join(file), block, write);
            outcome.err().map(|why| Problem::new(*file, why))
        })
        .collect()
}

fn check_file(path: &Path, block: &Block, write: bool) -> Result {
    let old = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let new = splice(&old, block.marker, &block.text)?;
    if old == new {
        return Ok(());
    }
    if write {
        return fs::write(path, new).map_err(|error| format!("cannot be written: {error}"));
    }
    let marker = block.marker;
    Err(format!(
        "the generated block {marker:?} is out of date; run `cargo xtask tidy --write`"
    ))
}

/// `text` with `content` between the markers of this name.
fn splice(text: &str, marker: &str, content: &str) -> Result<String> {
    let begin = format!("<!-- {marker}:begin -->");
    let end = format!("<!-- {marker}:end -->");
    let missing = || format!("needs the lines {begin} and {end} once each, in this order");
    let (before, rest) = text.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(&end).ok_or_else(missing)?;
    if after.contains(&begin) || after.contains(&end) {
        return Err(missing());
    }
    let content = content.trim();
    Ok(format!("{before}{begin}\n\n{content}\n\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a\n<!-- t:begin -->\nold\n<!-- t:end -->\nb\n";

    #[test]
    fn content_goes_between_the_markers() {
        let new = splice(TEXT, "t", "| x |\n").unwrap();
        assert_eq!(new, "a\n<!-- t:begin -->\n\n| x |\n\n<!-- t:end -->\nb\n");
        assert_eq!(splice(&new, "t", "| x |").unwrap(), new);
    }

    #[test]
    fn missing_swapped_and_doubled_markers_are_refused() {
        for text in [
            "",
            "<!-- t:begin -->",
            "<!-- t:end --><!-- t:begin -->",
            &TEXT.repeat(2),
        ] {
            assert!(splice(text, "t", "x").is_err(), "{text}");
        }
    }

    #[test]
    fn a_stale_block_is_reported_and_then_written() {
        let root = std::env::temp_dir().join(format!("xtask-generated-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("a.md"), TEXT).unwrap();
        let block = Block {
            marker: "t",
            files: &["a.md"],
            text: "new".to_owned(),
        };
        assert!(check(&root, &block, false)[0].advice.contains("--write"));
        assert_eq!(check(&root, &block, true), []);
        assert_eq!(check(&root, &block, false), []);
        fs::remove_dir_all(&root).unwrap();
    }
}
