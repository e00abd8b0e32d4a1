//! One call to each of several stores, all of them under way at once.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::{Effect, Error, ErrorKind, Result};

pub(super) type Call<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// What each store has said, in their order; `None` if it has not.
pub(super) type Answers<T> = Vec<Option<Result<T>>>;

/// The calls that have not been answered yet, each with the number of its store.
pub(super) struct Fan<T>(Vec<(usize, Call<T>)>);

impl<T> Fan<T> {
    pub(super) fn new(calls: impl IntoIterator<Item = (usize, Call<T>)>) -> Self {
        Self(calls.into_iter().collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The answers that are there, without waiting for one.
    ///
    /// All calls go on meanwhile, so that even a decision after the first answer finds all requests sent.
    pub(super) async fn ready(&mut self) -> Vec<(usize, Result<T>)> {
        poll_fn(|cx| Poll::Ready(self.poll(cx))).await
    }

    /// The answers that are there, as soon as there is one; none if no call is under way any more.
    pub(super) async fn answers(&mut self) -> Vec<(usize, Result<T>)> {
        poll_fn(|cx| match self.poll(cx) {
            came if came.is_empty() && !self.is_empty() => Poll::Pending,
            came => Poll::Ready(came),
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Vec<(usize, Result<T>)> {
        let mut came = Vec::new();
        self.0
            .retain_mut(|(at, call)| match call.as_mut().poll(cx) {
                Poll::Ready(answer) => {
                    came.push((*at, answer));
                    false
                }
                Poll::Pending => true,
            });
        came
    }
}

/// How many stores have answered like this.
pub(super) fn count<T>(answers: &Answers<T>, which: impl Fn(&Result<T>) -> bool) -> usize {
    answers.iter().flatten().filter(|a| which(a)).count()
}

/// What the stores answered that did answer.
pub(super) fn given<T>(answers: &Answers<T>) -> impl Iterator<Item = &T> {
    answers
        .iter()
        .flatten()
        .filter_map(|answer| answer.as_ref().ok())
}

/// Why too few stores have answered.
///
/// If a majority objects to the request in the same way, that is what is wrong; anything else may pass.
pub(super) fn failure<T>(answers: &Answers<T>, needed: usize, effect: Effect) -> Error {
    let errors: Vec<&Error> = answers
        .iter()
        .flatten()
        .filter_map(|answer| answer.as_ref().err())
        .collect();
    let alike = |one: &Error| errors.iter().filter(|e| e.kind() == one.kind()).count();
    let objection = |error: &&&Error| !error.is_retryable() && alike(error) >= needed;
    if let Some(error) = errors.iter().find(objection) {
        return error.copy().with_effect(effect);
    }
    let silent = answers.iter().filter(|answer| answer.is_none()).count();
    let Some(first) = errors.first() else {
        let detail = format!("{silent} stores did not answer in time, and {needed} have to agree");
        return Error::new(ErrorKind::Timeout, detail).with_effect(effect);
    };
    let detail = format!(
        "of {} stores {} failed and {silent} did not answer in time, and {needed} have to agree; one said: {}",
        answers.len(),
        errors.len(),
        first.detail()
    );
    Error::new(ErrorKind::Unavailable, detail)
        .with_effect(effect)
        .with_source(first.copy())
}

/// What calls that came to no decision did to the stores.
pub(super) fn effect<T>(answers: &Answers<T>) -> Effect {
    let nothing = |answer: &Option<Result<T>>| matches!(answer, Some(Err(error)) if error.effect() == Effect::None);
    if answers.iter().all(nothing) {
        Effect::None
    } else {
        Effect::Unknown
    }
}
