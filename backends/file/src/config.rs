//! Where the file is and how it is used. No I/O.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::registry::{StoreUrl, percent_decode};
use leasehold_core::{Clock, Error, ErrorKind, Result, SystemClock};

const EXAMPLE: &str = "file:///var/lib/leasehold/leases.redb";
const MIB: usize = 1024 * 1024;
const DEFAULT_CACHE: usize = 64 * MIB;
const SMALLEST_CACHE: usize = MIB;
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// When an answer counts as safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sync {
    /// Once it is on the disk. Callers that come at the same time share the wait.
    Always,
    /// At once. The disk follows after this long, so that the end of the process, however it comes, loses what was
    /// acknowledged in that time: grants that others may get once more, releases, confirmations. Tokens still grow.
    Every(Duration),
}

/// What it takes to open a file.
#[derive(Debug, Clone)]
#[must_use = "options do nothing until they are opened"]
pub struct Options {
    pub(crate) path: PathBuf,
    pub(crate) sync: Sync,
    pub(crate) cache: usize,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) boot: Option<String>,
}

impl Options {
    /// The file at this path, which is made if it is not there; its folder must exist.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            sync: Sync::Always,
            cache: DEFAULT_CACHE,
            clock: SystemClock::shared(),
            boot: crate::clock::boot_id(),
        }
    }

    /// Reads `file:///path`, with the options `sync` and `cache` in its query.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if there is no path, a host, an unknown option or a value outside its range.
    pub fn from_url(url: &StoreUrl) -> Result<Self> {
        let mut options = Self::new(path(url)?);
        for (key, value) in url.query() {
            options = match key.as_str() {
                "sync" => options.sync(parse_sync(value)?)?,
                "cache" => options.cache(parse_mib(value)?)?,
                _ => {
                    return Err(config(format!(
                        "the store URL has the option {key:?}; a file takes sync and cache"
                    )));
                }
            };
        }
        Ok(options)
    }

    /// Says when an answer counts as safe; [`Sync::Always`] unless told.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a pause under 1 ms or over a minute.
    pub fn sync(mut self, sync: Sync) -> Result<Self> {
        if let Sync::Every(pause) = sync
            && !(SHORTEST_PAUSE..=LONGEST_PAUSE).contains(&pause)
        {
            return Err(config(format!(
                "the disk cannot follow after {pause:?}; choose 1ms to 60s, or always"
            )));
        }
        self.sync = sync;
        Ok(self)
    }

    /// How many bytes of the file are kept in memory; 64 MiB unless told.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for less than 1 MiB.
    pub fn cache(mut self, bytes: usize) -> Result<Self> {
        if bytes < SMALLEST_CACHE {
            return Err(config("the cache needs at least 1MiB"));
        }
        self.cache = bytes;
        Ok(self)
    }

    /// Goes by this clock instead of the system's, for tests. `boot` says from which start of the machine its readings
    /// are: a file last used under another one, or under none, takes its clock for a new one.
    pub fn clock(mut self, clock: Arc<dyn Clock>, boot: Option<&str>) -> Self {
        self.clock = clock;
        self.boot = boot.map(str::to_owned);
        self
    }
}

fn path(url: &StoreUrl) -> Result<PathBuf> {
    let rest = url.rest();
    let path = match rest.strip_prefix("//") {
        Some(after) if after.starts_with('/') => after,
        Some(_) => {
            return Err(config(format!(
                "the store URL {url} names a host, or lacks a slash; a file is here, and looks like {EXAMPLE}"
            )));
        }
        None => rest,
    };
    if path.is_empty() || path.ends_with('/') {
        return Err(config(format!(
            "the store URL {url} does not end in the name of a file; it looks like {EXAMPLE}"
        )));
    }
    let path = percent_decode(path)?;
    if path.contains('\0') {
        return Err(config("the path in the store URL holds a NUL character"));
    }
    Ok(path.into())
}

fn parse_sync(text: &str) -> Result<Sync> {
    if text == "always" {
        return Ok(Sync::Always);
    }
    let pause = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(millis), _) => number(millis).map(Duration::from_millis),
        (None, Some(seconds)) => number(seconds).map(Duration::from_secs),
        (None, None) => None,
    };
    pause.map(Sync::Every).ok_or_else(|| {
        config(format!(
            "the option sync is {text:?}; it must be always, or a pause such as 100ms or 1s"
        ))
    })
}

fn parse_mib(text: &str) -> Result<usize> {
    let mib = text.strip_suffix("MiB").and_then(number);
    let bytes = mib.and_then(|mib| usize::try_from(mib).ok()?.checked_mul(MIB));
    bytes.ok_or_else(|| {
        config(format!(
            "the option cache is {text:?}; it must be a size such as 64MiB"
        ))
    })
}

/// Digits only: the standard library would take a sign as well.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn config(detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Config, detail)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Options> {
        Options::from_url(&StoreUrl::parse(url)?)
    }

    #[test]
    fn a_url_says_where_and_how() {
        for (url, path) in [
            ("file:///var/lib/x.redb", "/var/lib/x.redb"),
            ("file:/var/lib/x.redb", "/var/lib/x.redb"),
            ("file:x.redb", "x.redb"),
            ("file:///a%20b%3Fc", "/a b?c"),
        ] {
            let options = read(url).unwrap();
            assert_eq!(options.path, Path::new(path));
            assert_eq!((options.sync, options.cache), (Sync::Always, DEFAULT_CACHE));
        }
        let options = read("file:///x?sync=20ms&cache=8MiB").unwrap();
        assert_eq!(options.sync, Sync::Every(Duration::from_millis(20)));
        assert_eq!(options.cache, 8 * MIB);
        assert_eq!(read("file:///x?sync=always").unwrap().sync, Sync::Always);
        let second = Sync::Every(Duration::from_secs(1));
        assert_eq!(read("file:///x?sync=1s").unwrap().sync, second);
    }

    #[test]
    fn a_wrong_url_is_told_what_is_allowed() {
        for (url, told) in [
            ("file:", "does not end in the name of a file"),
            ("file://", "names a host, or lacks a slash"),
            ("file:///", "does not end in the name of a file"),
            ("file:///var/", "does not end in the name of a file"),
            ("file://host/x", "names a host"),
            ("file:///x%00", "NUL"),
            ("file:///x?fsync=no", "takes sync and cache"),
            ("file:///x?sync=never", "must be always, or a pause"),
            ("file:///x?sync=+5ms", "must be always, or a pause"),
            ("file:///x?sync=0ms", "choose 1ms to 60s"),
            ("file:///x?sync=61s", "choose 1ms to 60s"),
            ("file:///x?cache=64", "such as 64MiB"),
            ("file:///x?cache=0MiB", "at least 1MiB"),
            ("file:///x?cache=99999999999999999999MiB", "such as 64MiB"),
        ] {
            let error = read(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            assert!(error.to_string().contains(told), "{url}: {error}");
        }
    }
}
