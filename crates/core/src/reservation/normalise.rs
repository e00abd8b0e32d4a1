//! Making different spellings of a value one, where its kind asks for that.

use std::fmt;
use std::sync::Arc;

use unicode_normalization::UnicodeNormalization as _;

/// How values of one kind are spelled before they are compared. By default nothing is changed.
///
/// ```
/// use leasehold_core::reservation::Normalise;
///
/// let email = Normalise::new().trim().compose().lowercase();
/// assert_eq!(email.apply("  Alice@Example.com "), "alice@example.com");
/// ```
#[derive(Clone, Default)]
pub struct Normalise {
    steps: Vec<Step>,
}

#[derive(Clone)]
enum Step {
    Trim,
    Compose,
    Lowercase,
    Other(Arc<dyn Fn(&str) -> String + Send + Sync>),
}

impl Normalise {
    /// Changes nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes space off both ends.
    #[must_use]
    pub fn trim(self) -> Self {
        self.then(Step::Trim)
    }

    /// Brings Unicode into its compatibility composed form (NFKC): `é` is one character however it was typed.
    #[must_use]
    pub fn compose(self) -> Self {
        self.then(Step::Compose)
    }

    /// Lowers every letter.
    #[must_use]
    pub fn lowercase(self) -> Self {
        self.then(Step::Lowercase)
    }

    /// Does something of your own. It must give the same result for the same value for as long as anything is reserved.
    #[must_use]
    pub fn with(self, spell: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.then(Step::Other(Arc::new(spell)))
    }

    fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// The value as it is compared and stored.
    #[must_use]
    pub fn apply(&self, value: &str) -> String {
        let apply = |value: String, step: &Step| match step {
            Step::Trim => value.trim().to_owned(),
            Step::Compose => value.nfkc().collect(),
            Step::Lowercase => value.to_lowercase(),
            Step::Other(spell) => spell(&value),
        };
        self.steps.iter().fold(value.to_owned(), apply)
    }
}

impl fmt::Debug for Normalise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.steps.iter().map(|step| match step {
            Step::Trim => "trim",
            Step::Compose => "compose",
            Step::Lowercase => "lowercase",
            Step::Other(_) => "with",
        });
        f.debug_list().entries(names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W3-10: spellings become one only where asked for, in the order asked for.
    #[test]
    fn steps_are_taken_in_order_and_only_if_asked_for() {
        assert_eq!(Normalise::new().apply(" Ä "), " Ä ");
        let email = Normalise::new().trim().compose().lowercase();
        assert_eq!(email.apply(" E\u{301}va@X "), "éva@x");
        let phone = Normalise::new().with(|value| value.replace('-', ""));
        assert_eq!(phone.apply("+1-555-0123"), "+15550123");
    }
}
