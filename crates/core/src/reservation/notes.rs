//! What a reservation says about itself: the free text of its grant, in a form with two places.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::lease::Metadata;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Notes {
    /// What ties the reservation to a request, a trace or a saga.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) correlation: Option<String>,
    /// Anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
}

impl Notes {
    pub(super) fn write(&self) -> Result<Option<Metadata>> {
        if *self == Self::default() {
            return Ok(None);
        }
        let text = serde_json::to_string(self).unwrap_or_default();
        Metadata::new(text).map(Some)
    }

    /// Reads what was written; text that somebody else wrote is taken as it is.
    pub(super) fn read(metadata: Option<&Metadata>) -> Self {
        let Some(metadata) = metadata else {
            return Self::default();
        };
        serde_json::from_str(metadata.as_str()).unwrap_or_else(|_| Self {
            correlation: None,
            text: Some(metadata.as_str().to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_and_strange_text_is_kept() {
        let notes = Notes {
            correlation: Some("order \"7\"".to_owned()),
            text: None,
        };
        let written = notes.write().unwrap();
        assert_eq!(Notes::read(written.as_ref()), notes);
        assert_eq!(Notes::default().write().unwrap(), None);
        let strange = Metadata::new("not json").unwrap();
        assert_eq!(
            Notes::read(Some(&strange)).text.as_deref(),
            Some("not json")
        );
    }
}
