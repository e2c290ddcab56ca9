//! The bound on connections, and whether it is nearly reached.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use prometheus_client::metrics::counter::Counter;

#[derive(Debug, Clone)]
pub(crate) struct Places {
    taken: Arc<AtomicUsize>,
    max: usize,
    /// Counts requests of their connections that actix refuses before it has a head.
    pub(super) malformed: Counter,
}

impl Places {
    pub(crate) fn new(max: usize, malformed: Counter) -> Self {
        Self { taken: Arc::default(), max, malformed }
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn take(&self) -> Place {
        self.taken.fetch_add(1, Ordering::Relaxed);
        Place(self.clone())
    }
}

/// A connection's place; dropping this frees it.
#[derive(Debug)]
pub(super) struct Place(Places);

impl Place {
    /// Whether less than a quarter of the places is left.
    pub(super) fn is_scarce(&self) -> bool {
        let Places { taken, max, .. } = &self.0;
        taken.load(Ordering::Relaxed) > max - max / 4
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}
