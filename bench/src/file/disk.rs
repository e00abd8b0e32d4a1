//! Where the files of these benches lie: on a disk, because in memory a sync costs nothing.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::bench::Outcome;

/// A folder for the files of one bench, gone after it.
#[derive(Debug)]
pub(super) struct Disk {
    folder: TempDir,
    system: String,
}

impl Disk {
    /// A folder beside this program, or where the system keeps files for longer, or where it keeps them for a while:
    /// whichever is on a disk.
    pub(super) fn find() -> Outcome<Self> {
        let beside = std::env::current_exe()?.parent().map(Path::to_owned);
        let others = [PathBuf::from("/var/tmp"), std::env::temp_dir()];
        for place in beside.into_iter().chain(others) {
            let system = system_of(&place);
            if matches!(system.as_str(), "tmpfs" | "ramfs") {
                continue;
            }
            let named = tempfile::Builder::new()
                .prefix("leasehold-bench-")
                .tempdir_in(&place);
            if let Ok(folder) = named {
                eprintln!("files are in {} ({system})", folder.path().display());
                return Ok(Self { folder, system });
            }
        }
        Err("there is no folder on a disk where files can be made".into())
    }

    /// The path of a file in the folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What kind of file system it is.
    pub(super) fn system(&self) -> &str {
        &self.system
    }
}

/// The kind of file system that a folder is on, as Linux names it.
fn system_of(folder: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    named_in(&mounts, &folder).unwrap_or_else(|| "unknown file system".to_owned())
}

/// The kind of the innermost mount above a folder; of two on the same point the later one counts.
fn named_in(mounts: &str, folder: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        Some((place.split(' ').nth(4)?, kind.split(' ').next()?))
    });
    let above = mounts.filter(|(point, _)| folder.starts_with(point));
    let innermost = above.max_by_key(|(point, _)| point.len());
    innermost.map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_decides() {
        let mounts = "21 1 8:1 / / rw - ext4 /dev/vda rw\n\
                      22 21 0:5 / /var/tmp rw shared:1 - tmpfs tmpfs rw\n\
                      23 21 0:6 / /var/tmpfiles rw - xfs /dev/vdb rw";
        let system = |folder: &str| named_in(mounts, Path::new(folder)).unwrap();
        assert_eq!(system("/var/tmp/x"), "tmpfs");
        assert_eq!(system("/var/tmpfiles"), "xfs");
        assert_eq!(system("/var"), "ext4");
        assert_eq!(named_in("", Path::new("/")), None);
    }
}
