//! By what workers exclude each other.

/// By what workers exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redis) enum Kind {
    /// Locks of ours.
    Ours,
    /// The floor: two scripts made by hand.
    Raw,
    /// A peer.
    Rslock,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Ours, Self::Raw, Self::Rslock];

    /// The word for it on a command line.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Raw => "raw",
            Self::Rslock => "rslock",
        }
    }

    /// The kind that a word stands for.
    pub(super) fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// The commands it sends. What its scripts call is none of them, because the server counts both alike.
    pub(super) fn commands(self) -> &'static [&'static str] {
        match self {
            Self::Ours | Self::Raw => &["evalsha", "eval", "subscribe", "unsubscribe"],
            Self::Rslock => &["set", "evalsha", "eval", "script|load"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_known_by_its_word() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(kind.word()), Some(kind));
        }
        assert_eq!(Kind::of("theirs"), None);
    }
}
