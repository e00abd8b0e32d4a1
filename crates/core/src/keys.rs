//! Building hierarchical keys such as `cinema:show:7:seat:A12` without letting one part run into the next.

use crate::error::{Error, Result};

/// Joins the parts of a key with a delimiter that no part may contain.
///
/// ```
/// use leasehold_core::Keys;
///
/// let seat = Keys::default().join(["cinema", "show", "7", "seat", "A12"])?;
/// assert_eq!(seat, "cinema:show:7:seat:A12");
/// assert!(Keys::default().join(["a:b", "c"]).is_err());
/// # Ok::<(), leasehold_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    delimiter: String,
}

impl Default for Keys {
    /// Joins with a single colon.
    fn default() -> Self {
        Self {
            delimiter: ":".to_owned(),
        }
    }
}

impl Keys {
    /// Joins with this delimiter.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if the delimiter is empty.
    pub fn delimited_by(delimiter: impl Into<String>) -> Result<Self> {
        let delimiter = delimiter.into();
        if delimiter.is_empty() {
            return Err(Error::invalid("the delimiter of keys must not be empty"));
        }
        Ok(Self { delimiter })
    }

    /// The delimiter.
    #[must_use]
    pub fn delimiter(&self) -> &str {
        &self.delimiter
    }

    /// Joins the parts, of which there must be at least one, none empty and none with the delimiter in it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) naming the part that breaks this.
    pub fn join<P: AsRef<str>>(&self, parts: impl IntoIterator<Item = P>) -> Result<String> {
        let mut key = String::new();
        for (at, part) in parts.into_iter().enumerate() {
            self.check(at + 1, part.as_ref())?;
            if at > 0 {
                key.push_str(&self.delimiter);
            }
            key.push_str(part.as_ref());
        }
        if key.is_empty() {
            return Err(Error::invalid("a key needs at least one part"));
        }
        Ok(key)
    }

    fn check(&self, number: usize, part: &str) -> Result<()> {
        let refuse = |why: &str| {
            Err(Error::invalid(format!(
                "part {number} of the key, {part:?}, {why}"
            )))
        };
        if part.is_empty() {
            return refuse("is empty");
        }
        if part.contains(&self.delimiter) {
            return refuse(&format!("contains the delimiter {:?}", self.delimiter));
        }
        // With `::`, "a:" and "b" would make the same key as "a" and ":b".
        if format!("{part}{}", self.delimiter).find(&self.delimiter) != Some(part.len()) {
            return refuse(&format!(
                "ends like the delimiter {:?} begins",
                self.delimiter
            ));
        }
        Ok(())
    }

    /// Splits a key that [`join`](Self::join) made into its parts.
    pub fn split<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        key.split(self.delimiter.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S1-02, S2-08: the eleven key-builder cases of the source document.
    #[test]
    fn parts_are_joined_and_checked() {
        let colons = Keys::delimited_by("::").unwrap();
        assert_eq!(colons.join(["orders", "12345"]).unwrap(), "orders::12345");
        assert_eq!(Keys::default().join(["a-b", "c_d"]).unwrap(), "a-b:c_d");
        assert_eq!(colons.delimiter(), "::");
        let bad: [&[&str]; 5] = [&["", "x"], &["x", ""], &["a::b", "c"], &["a", "b::c"], &[]];
        for parts in bad {
            assert!(colons.join(parts).is_err(), "{parts:?}");
        }
        assert!(Keys::delimited_by("").is_err());
    }

    #[test]
    fn what_was_joined_can_be_split() {
        let keys = Keys::default();
        let key = keys.join(["flight", "LX38", "date", "2026-01-01"]).unwrap();
        assert_eq!(
            keys.split(&key).collect::<Vec<_>>(),
            ["flight", "LX38", "date", "2026-01-01"]
        );
    }

    /// W0-13: a part cannot run into the next one by ending or beginning with half a delimiter.
    #[test]
    fn neighbours_never_make_the_same_key() {
        let keys = Keys::delimited_by("::").unwrap();
        assert!(keys.join(["a:", "b"]).is_err());
        assert_eq!(keys.join(["a", ":b"]).unwrap(), "a:::b");
    }
}
