//! What can go wrong with the tools themselves.

use std::fmt;
use std::io;

/// What the functions of this crate give.
pub type Result<T> = std::result::Result<T, Error>;

/// A tool that does not work, in a sentence for whoever runs the tests.
#[derive(Debug)]
pub struct Error {
    what: String,
    source: Option<io::Error>,
}

impl Error {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        let what = what.into();
        Self { what, source: None }
    }

    /// For `map_err`: the sentence first, the reason behind it.
    pub(crate) fn because(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self {
            what: what.into(),
            source: Some(source),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}: {source}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.source.as_ref()?)
    }
}
