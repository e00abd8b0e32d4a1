//! Those whose calls are being worked on, counted so that one commit can serve all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Crowd(AtomicUsize);

impl Crowd {
    /// Counts a call until its visit is dropped, however that comes about.
    pub(crate) fn join(crowd: &Arc<Self>) -> Visit {
        crowd.0.fetch_add(1, Ordering::Relaxed);
        Visit(crowd.clone())
    }

    pub(crate) fn size(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(crate) struct Visit(Arc<Crowd>);

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_goes_away_is_counted_no_more() {
        let crowd = Arc::<Crowd>::default();
        let (first, second) = (Crowd::join(&crowd), Crowd::join(&crowd));
        assert_eq!(crowd.size(), 2);
        drop(first);
        assert_eq!(crowd.size(), 1);
        drop(second);
        assert_eq!(crowd.size(), 0);
    }
}
