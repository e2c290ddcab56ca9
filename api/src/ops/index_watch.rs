//! Watches the last answer of the page index for each partition, and logs changes.
//!
//! **Invariant:** the answer of one partition says nothing about the others: a failed cluster master affects only its
//! partitions. The log gets at most one line per [`LOG_PAUSE`], however many readers notice
//! (`the_log_tells_of_changes_and_not_of_requests`).

use std::{
    fmt::Display,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use page_index::IndexPartition;

use crate::ops::metrics::IndexAnswerKind;

/// Minimum pause between two log lines about the page index.
const LOG_PAUSE: Duration = Duration::from_secs(5);

/// The last answer of each partition.
pub(crate) struct IndexWatch {
    /// 0 before the first answer, otherwise an index in [`IndexAnswerKind::ALL`], counted from 1.
    partitions: Box<[AtomicU8]>,
    unavailable: AtomicUsize,
    /// The state that was last logged.
    told: AtomicUsize,
    told_at: Mutex<Option<Instant>>,
}

impl IndexWatch {
    pub(crate) fn new(partitions: usize) -> Self {
        Self {
            partitions: (0..partitions).map(|_| AtomicU8::new(0)).collect(),
            unavailable: AtomicUsize::new(0),
            told: AtomicUsize::new(0),
            told_at: Mutex::default(),
        }
    }

    /// Records an answer, and the reason when it cannot be trusted.
    pub(crate) fn note(&self, partition: IndexPartition, kind: IndexAnswerKind, reason: Option<&dyn Display>) {
        let Some(state) = self.partitions.get(usize::from(partition.number())) else { return };
        let before = IndexAnswerKind::of_code(state.swap(kind.code(), Ordering::Relaxed));
        let unavailable =
            if before == Some(kind) { self.unavailable.load(Ordering::Relaxed) } else { self.count(before, kind) };
        if unavailable != self.told.load(Ordering::Relaxed) {
            self.tell(partition, unavailable, kind, reason);
        }
    }

    /// Number of partitions by the kind of their last answer.
    pub(crate) fn answers(&self) -> [(IndexAnswerKind, usize); 5] {
        let codes: Vec<u8> = self.partitions.iter().map(|state| state.load(Ordering::Relaxed)).collect();
        IndexAnswerKind::ALL.map(|kind| (kind, codes.iter().filter(|code| **code == kind.code()).count()))
    }

    /// Number of unavailable partitions after one has changed.
    fn count(&self, before: Option<IndexAnswerKind>, now: IndexAnswerKind) -> usize {
        let was_available = before.is_none_or(|before| before == IndexAnswerKind::Ready);
        match (was_available, now == IndexAnswerKind::Ready) {
            (true, false) => self.unavailable.fetch_add(1, Ordering::Relaxed) + 1,
            (false, true) => self.unavailable.fetch_sub(1, Ordering::Relaxed).saturating_sub(1),
            (true, true) | (false, false) => self.unavailable.load(Ordering::Relaxed),
        }
    }

    /// Logs how many partitions are unavailable, unless a change was logged a moment ago.
    fn tell(&self, partition: IndexPartition, unavailable: usize, kind: IndexAnswerKind, reason: Option<&dyn Display>) {
        let mut told_at = self.told_at.lock().unwrap_or_else(PoisonError::into_inner);
        if told_at.is_some_and(|told_at| told_at.elapsed() < LOG_PAUSE) {
            return;
        }
        *told_at = Some(Instant::now());
        let before = self.told.swap(unavailable, Ordering::Relaxed);
        drop(told_at);
        let (partition, of) = (partition.number(), self.partitions.len());
        let reason = reason.map(|reason| reason.to_string());
        match kind {
            _ if unavailable == 0 => tracing::info!("the page index answers again"),
            _ if unavailable < before => tracing::info!(unavailable, of, "more of the page index answers again"),
            IndexAnswerKind::Ready | IndexAnswerKind::Unknown => {
                tracing::warn!(unavailable, of, "parts of the page index are unavailable");
            }
            IndexAnswerKind::NotReady => {
                tracing::warn!(unavailable, of, partition, reason, "the page index is not ready");
            }
            IndexAnswerKind::Unreachable => {
                tracing::warn!(unavailable, of, partition, reason, "the page index is out of reach");
            }
            // For example a wrong password, a missing permission, or a member that is not an id. Page 1 and cursors
            // must still work.
            IndexAnswerKind::Broken => {
                tracing::error!(unavailable, of, partition, reason, "the page index does not work");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::ProductId;
    use page_index::{PageIndex, PageIndexConfig};

    use super::*;

    #[test]
    fn the_log_tells_of_changes_and_not_of_requests() {
        let index = PageIndex::connect(&PageIndexConfig::new("redis://127.0.0.1:1")).unwrap();
        let [up, down] = ["a", "b"].map(|product| index.partition_of(&ProductId::parse(product).unwrap()));
        assert_ne!(up, down);
        let watch = IndexWatch::new(index.partitions().count());
        let told = || watch.told.load(Ordering::Relaxed);
        let pause_is_over = || *watch.told_at.lock().unwrap() = None;
        watch.note(up, IndexAnswerKind::Ready, None);
        assert!(watch.told_at.lock().unwrap().is_none(), "nothing has changed for the worse");
        // Readers alternate between two products. The master of one of them is down.
        watch.note(down, IndexAnswerKind::Unreachable, Some(&"no answer"));
        assert_eq!(told(), 1);
        for _ in 0..100 {
            pause_is_over();
            watch.note(up, IndexAnswerKind::Ready, None);
            watch.note(down, IndexAnswerKind::Unreachable, Some(&"no answer"));
            assert!(watch.told_at.lock().unwrap().is_none(), "a request is told");
        }
        let count = |kind| watch.answers().into_iter().find(|(other, _)| *other == kind).unwrap().1;
        assert_eq!([count(IndexAnswerKind::Ready), count(IndexAnswerKind::Unreachable)], [1, 1]);

        // After the pause, the next request logs the changes made during it.
        *watch.told_at.lock().unwrap() = Some(Instant::now());
        watch.note(down, IndexAnswerKind::Ready, None);
        assert_eq!(told(), 1);
        pause_is_over();
        watch.note(up, IndexAnswerKind::Ready, None);
        assert_eq!((told(), watch.unavailable.load(Ordering::Relaxed)), (0, 0));
    }
}
