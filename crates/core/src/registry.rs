//! From a URL to a backend: a table of schemes that the program fills itself.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::backend::Backend;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{self, Memory};

/// Where a store is and how to reach it: `<scheme>:<rest>?<key>=<value>&...`.
///
/// Only the scheme and the query are read here; the rest means what the backend says. It may hold secrets, so
/// printing it shows neither what stands before an `@` nor the values of the query.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    text: String,
    /// Byte length of the scheme inside `text`.
    scheme: usize,
    query: Vec<(String, String)>,
}

const EXAMPLE: &str = "redis://localhost:6379/0";

impl StoreUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if it is empty, has no scheme, holds white space at its ends or control characters, or a
    /// `%` of its query is not followed by two hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(config(format!(
                "the store URL is empty; it looks like {EXAMPLE} or memory:"
            )));
        }
        if text.trim() != text || text.contains(char::is_control) {
            return Err(config(format!(
                "the store URL holds white space at its ends or control characters; it looks like {EXAMPLE}"
            )));
        }
        // What has no scheme may be anything, a bare password included, so it is not shown.
        let scheme = text.split_once(':').map(|(scheme, _)| scheme);
        let Some(scheme) = scheme.filter(|scheme| is_scheme(scheme)) else {
            return Err(config(format!(
                "the store URL does not begin with a scheme in lower case and a colon; it looks like {EXAMPLE}"
            )));
        };
        Ok(Self {
            scheme: scheme.len(),
            query: parse_query(text)?,
            text: text.to_owned(),
        })
    }

    /// What stands before the first colon.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.text[..self.scheme]
    }

    /// The whole text, secrets included, for drivers that read URLs themselves.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What stands between the scheme's colon and the query, as it is written.
    #[must_use]
    pub fn rest(&self) -> &str {
        let rest = &self.text[self.scheme + 1..];
        rest.split_once('?').map_or(rest, |(rest, _)| rest)
    }

    /// The pairs of the query, percent-decoded, in order. A key without `=` has an empty value.
    #[must_use]
    pub fn query(&self) -> &[(String, String)] {
        &self.query
    }

    /// The text without its secrets.
    #[must_use]
    pub fn redacted(&self) -> String {
        let (scheme, rest) = (self.scheme(), &self.text[self.scheme + 1..]);
        let slashes = if rest.starts_with("//") { "//" } else { "" };
        // A password may hold an unescaped `/`, `?` or `@`, so everything up to the last `@` is taken for secret.
        let (secret, rest) = match rest.rsplit_once('@') {
            Some((_, rest)) => ("***@", rest),
            None => ("", &rest[slashes.len()..]),
        };
        let (place, query) = match rest.split_once('?') {
            Some((place, query)) => (place, redact_query(query)),
            None => (rest, String::new()),
        };
        format!("{scheme}:{slashes}{secret}{place}{query}")
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+.-".contains(c))
}

fn parse_query(text: &str) -> Result<Vec<(String, String)>> {
    let query = text.split_once('?').map_or("", |(_, query)| query);
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((percent_decode(key)?, percent_decode(value)?))
        })
        .collect()
}

fn redact_query(query: &str) -> String {
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((key, _)) => format!("{key}=***"),
        None => "***".to_owned(),
    });
    format!("?{}", pairs.collect::<Vec<_>>().join("&"))
}

/// Reads `%XX` escapes. A `+` stays a plus.
///
/// # Errors
/// [`ErrorKind::Config`] if a `%` is not followed by two hexadecimal digits, or the bytes are not UTF-8.
pub fn percent_decode(text: &str) -> Result<String> {
    let malformed = || {
        config(
            "a % in the store URL is not followed by the two hexadecimal digits of a byte of UTF-8",
        )
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend(parts.next().unwrap_or_default().bytes());
    for part in parts {
        let digits = part.get(..2).ok_or_else(malformed)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(malformed());
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| malformed())?);
        bytes.extend(part[2..].bytes());
    }
    String::from_utf8(bytes).map_err(|_| malformed())
}

fn config(detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Config, detail)
}

type Connecting = Pin<Box<dyn Future<Output = Result<Arc<dyn Backend>>> + Send>>;
type Factory = Arc<dyn Fn(StoreUrl) -> Connecting + Send + Sync>;

/// Which scheme is served by which backend. Nothing is registered behind the program's back.
#[derive(Clone, Default)]
pub struct Registry {
    factories: BTreeMap<&'static str, Factory>,
}

impl Registry {
    /// A registry that knows no scheme.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets `factory` serve a scheme, instead of whatever served it before.
    #[must_use]
    pub fn register<F, C>(self, scheme: &'static str, factory: F) -> Self
    where
        F: Fn(StoreUrl) -> C + Send + Sync + 'static,
        C: Future<Output = Result<Arc<dyn Backend>>> + Send + 'static,
    {
        self.register_all(&[scheme], factory)
    }

    /// As [`register`](Self::register), for a backend with several schemes, such as `redis` and `rediss`.
    #[must_use]
    pub fn register_all<F, C>(mut self, schemes: &[&'static str], factory: F) -> Self
    where
        F: Fn(StoreUrl) -> C + Send + Sync + 'static,
        C: Future<Output = Result<Arc<dyn Backend>>> + Send + 'static,
    {
        let factory: Factory = Arc::new(move |url| Box::pin(factory(url)));
        for scheme in schemes {
            self.factories.insert(scheme, factory.clone());
        }
        self
    }

    /// The schemes that are served, sorted.
    #[must_use]
    pub fn schemes(&self) -> Vec<&'static str> {
        self.factories.keys().copied().collect()
    }

    /// Connects to the store at a URL.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the URL cannot be read or nobody serves its scheme; otherwise whatever the backend
    /// says.
    ///
    /// # Cancel safety
    /// Cancel-safe: a connection that is not returned is dropped.
    pub async fn connect(&self, url: &str) -> Result<Arc<dyn Backend>> {
        let url = StoreUrl::parse(url)?;
        match self.factories.get(url.scheme()) {
            Some(factory) => factory(url).await,
            None => Err(self.not_served(url.scheme())),
        }
    }

    fn not_served(&self, scheme: &str) -> Error {
        let known = match self.schemes() {
            schemes if schemes.is_empty() => "no scheme".to_owned(),
            schemes => schemes.join(", "),
        };
        config(match feature_of(scheme) {
            Some(feature) => format!(
                "the backend for {scheme:?} is not compiled in; enable the cargo feature {feature:?}. This program knows {known}"
            ),
            None => format!("the scheme {scheme:?} is not known; this program knows {known}"),
        })
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registry").field(&self.schemes()).finish()
    }
}

/// The cargo feature of the facade that brings the backend for a scheme, if it is one of ours.
fn feature_of(scheme: &str) -> Option<&'static str> {
    Some(match scheme {
        "file" => "file",
        "redis" | "rediss" => "redis",
        "postgres" | "postgresql" => "postgres",
        "oracle" => "oracle",
        "etcd" | "etcds" => "etcd",
        "firestore" => "firestore",
        "hazelcast" => "hazelcast",
        "http" | "https" => "client",
        _ => return None,
    })
}

/// The factory for `memory:`: a store of its own for every call.
///
/// # Errors
/// [`ErrorKind::Config`] for anything but `memory:` and `memory://`: there is nothing to configure.
pub async fn connect_memory(url: StoreUrl) -> Result<Arc<dyn Backend>> {
    if url.scheme() == memory::SCHEME && matches!(url.as_str(), "memory:" | "memory://") {
        return Ok(Arc::new(Memory::new()));
    }
    Err(config(format!(
        "the store URL {url} says more than memory:, and this store takes neither a place nor options"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> Registry {
        Registry::new().register("memory", connect_memory)
    }

    async fn refusal(registry: &Registry, url: &str) -> String {
        let error = registry.connect(url).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config, "{url}");
        error.to_string()
    }

    #[tokio::test]
    async fn a_registered_scheme_connects() {
        for url in ["memory:", "memory://"] {
            let store = registry().connect(url).await.unwrap();
            assert_eq!(store.describe().scheme, "memory");
        }
    }

    #[tokio::test]
    async fn memory_takes_nothing_else() {
        for url in ["memory:x", "memory:///", "memory://host", "memory:?a=b"] {
            let text = refusal(&registry(), url).await;
            assert!(text.contains("neither a place nor options"), "{text}");
        }
    }

    #[tokio::test]
    async fn several_schemes_may_share_a_backend_and_are_listed() {
        let registry = registry().register_all(&["redis", "rediss"], |url| async move {
            assert!(url.scheme().starts_with("redis"));
            connect_memory(StoreUrl::parse("memory:")?).await
        });
        assert_eq!(registry.schemes(), ["memory", "redis", "rediss"]);
        assert!(registry.connect("rediss://h").await.is_ok());
        assert_eq!(
            format!("{registry:?}"),
            r#"Registry(["memory", "redis", "rediss"])"#
        );
    }

    #[tokio::test]
    async fn an_unknown_scheme_says_what_is_known_or_missing() {
        let text = refusal(&registry(), "zookeeper://h").await;
        assert!(
            text.contains(r#""zookeeper" is not known; this program knows memory"#),
            "{text}"
        );
        let text = refusal(&registry(), "rediss://u:secret@h").await;
        assert!(
            text.contains(r#"enable the cargo feature "redis""#),
            "{text}"
        );
        assert!(!text.contains("secret"), "{text}");
        let text = refusal(&Registry::new(), "memory:").await;
        assert!(text.contains("knows no scheme"), "{text}");
    }

    #[tokio::test]
    async fn a_malformed_url_is_refused_with_an_example_and_not_shown() {
        for url in [
            "",
            "secret",
            ":secret",
            "Redis://secret",
            "1a:secret",
            "redis ://secret",
            " redis://secret",
            "redis://secret\n",
            "//secret:1",
        ] {
            let text = refusal(&registry(), url).await;
            assert!(text.contains("it looks like redis://localhost"), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
        let text = refusal(&registry(), "memory:?a=secret%zz").await;
        assert!(text.contains("two hexadecimal digits"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn the_parts_come_apart() {
        let url = StoreUrl::parse("redis://u:p@h:1/0?a=b%20c&d&e=%C3%BC+f&&g=h=i").unwrap();
        assert_eq!(url.scheme(), "redis");
        assert_eq!(url.rest(), "//u:p@h:1/0");
        let pairs: Vec<_> = url
            .query()
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(pairs, [("a", "b c"), ("d", ""), ("e", "ü+f"), ("g", "h=i")]);
        for bad in ["%", "%4", "%4g", "%+1", "%ü", "%ff"] {
            assert!(percent_decode(bad).is_err(), "{bad}");
        }
        assert_eq!(percent_decode("%2Fa%25").unwrap(), "/a%");
    }

    #[test]
    fn nothing_secret_is_printed() {
        for (url, shown) in [
            ("redis://u:p@h:1/0", "redis://***@h:1/0"),
            ("redis://:p@ss/w?rd@h/0?x=y&z", "redis://***@h/0?x=***&***"),
            ("oracle:scott/tiger@//h:1521/x", "oracle:***@//h:1521/x"),
            (
                "postgres://h/db?password=s&sslmode=on",
                "postgres://h/db?password=***&sslmode=***",
            ),
            ("file:/var/lib/x", "file:/var/lib/x"),
            ("memory:", "memory:"),
        ] {
            let url = StoreUrl::parse(url).unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), format!("StoreUrl({shown})"));
        }
    }
}
