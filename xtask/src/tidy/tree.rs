//! The files of the workspace that people write.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::Problem;
use crate::Result;

/// Folders that hold no sources.
const SKIPPED: &[&str] = &["target", ".git", "node_modules", "proptest-regressions"];

/// Endings of files that are text. Files without an ending are text as well.
const TEXT: &[&str] = &[
    "rs", "md", "toml", "json", "lua", "sql", "sh", "yaml", "yml", "html", "css", "js", "txt",
];

/// Every text file, by its path relative to the root, with `/` between its parts.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
    broken: Vec<String>,
}

impl Tree {
    /// Reads the files under `root`.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.walk(root, "")
            .map_err(|error| format!("cannot read the sources: {error}"))?;
        Ok(tree)
    }

    fn walk(&mut self, folder: &Path, prefix: &str) -> std::io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.walk(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() && is_text(&name) {
                self.add(path, fs::read(entry.path())?);
            }
        }
        Ok(())
    }

    fn add(&mut self, path: String, bytes: Vec<u8>) {
        match String::from_utf8(bytes) {
            Ok(text) => drop(self.files.insert(path, text)),
            Err(_) => self.broken.push(path),
        }
    }

    /// All files, in order.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files whose name ends so.
    pub(crate) fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files().filter(move |(path, _)| path.ends_with(end))
    }

    /// One file.
    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether there is such a file or folder.
    pub(crate) fn contains(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        self.files.contains_key(path) || self.files.keys().any(|file| file.starts_with(&inside))
    }

    /// The files that are not UTF-8.
    pub(crate) fn not_utf8(&self) -> Vec<Problem> {
        let problem = |path: &String| Problem::new(path, "is not UTF-8; save it as UTF-8");
        self.broken.iter().map(problem).collect()
    }
}

fn is_text(name: &str) -> bool {
    match name.trim_start_matches('.').rsplit_once('.') {
        Some((_, end)) => TEXT.contains(&end),
        None => true,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A tree of these files.
    pub(crate) fn tree(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.add((*path).to_owned(), (*text).into());
        }
        tree
    }

    #[test]
    fn files_and_folders_are_found() {
        let tree = tree(&[("docs/backends/memory.md", "")]);
        assert!(tree.contains("docs/backends/memory.md"));
        assert!(tree.contains("docs/backends"));
        assert!(!tree.contains("docs/back"));
    }

    #[test]
    fn what_is_not_utf8_is_named() {
        let mut tree = Tree::default();
        tree.add("a.txt".to_owned(), vec![0xff]);
        assert_eq!(tree.not_utf8().len(), 1);
    }

    #[test]
    fn pictures_are_not_text() {
        assert!(is_text("LICENSE-MIT") && is_text(".gitignore") && is_text("lib.rs"));
        assert!(!is_text("logo.png"));
    }
}
