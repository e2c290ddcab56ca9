//! Watches the last answer of the page index for each partition, and logs changes.
//!
//! **Invariant:** the answer of one partition says nothing about the others: a failed cluster
//! master affects only its partitions. The log gets at most one line per [`LOG_PAUSE`], however
//! many readers notice (`changes_are_logged_and_requests_are_not`).

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

use page_index::IndexPartition;
use parking_lot::Mutex;
use strum::{IntoStaticStr, VariantArray};

/// Minimum pause between two log lines about the page index.
const LOG_PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum IndexAnswerKind {
    Ready,
    NotReady,
    Unreachable,
    /// It was not asked, because the id of the table was not known.
    Unknown,
    /// It refuses, or holds invalid data: an operator has to look.
    Broken,
}

#[derive(Debug)]
pub(crate) struct IndexWatch(Mutex<Watched>);

#[derive(Debug)]
struct Watched {
    partitions: Vec<Option<IndexAnswerKind>>,
    /// How many partitions have an answer other than [`IndexAnswerKind::Ready`].
    unavailable: usize,
    logged: usize,
    logged_at: Option<Instant>,
}

impl IndexWatch {
    pub(crate) fn new(partitions: usize) -> Self {
        let partitions = vec![None; partitions];
        Self(Mutex::new(Watched {
            partitions,
            unavailable: 0,
            logged: 0,
            logged_at: None,
        }))
    }

    /// Records an answer, and the reason when it cannot be trusted.
    pub(crate) fn note(
        &self,
        partition: IndexPartition,
        kind: IndexAnswerKind,
        reason: Option<&dyn Display>,
    ) {
        let mut watched = self.0.lock();
        let Some(last) = watched.partitions.get_mut(usize::from(partition.number())) else {
            return;
        };
        let was_available = last
            .replace(kind)
            .is_none_or(|before| before == IndexAnswerKind::Ready);
        watched.unavailable += usize::from(kind != IndexAnswerKind::Ready);
        watched.unavailable -= usize::from(!was_available);
        let Some(before) = watched.change_to_log() else {
            return;
        };
        let unavailable = watched.unavailable;
        let of = watched.partitions.len();
        let partition = partition.number();
        // The log may block, and other readers must not wait for it.
        drop(watched);
        let reason = reason.map(ToString::to_string);
        match kind {
            _ if unavailable == 0 => tracing::info!("the page index answers again"),
            _ if unavailable < before => {
                tracing::info!(unavailable, of, "more of the page index answers again")
            }
            IndexAnswerKind::Ready | IndexAnswerKind::Unknown => {
                tracing::warn!(unavailable, of, "parts of the page index are unavailable");
            }
            IndexAnswerKind::NotReady => {
                tracing::warn!(
                    unavailable,
                    of,
                    partition,
                    reason,
                    "the page index is not ready"
                );
            }
            IndexAnswerKind::Unreachable => {
                tracing::warn!(
                    unavailable,
                    of,
                    partition,
                    reason,
                    "the page index is out of reach"
                );
            }
            // For example a wrong password, a missing permission, or a member that is not an id.
            // Page 1 and cursors must still work.
            IndexAnswerKind::Broken => {
                tracing::error!(
                    unavailable,
                    of,
                    partition,
                    reason,
                    "the page index does not work"
                );
            }
        }
    }

    /// How many partitions gave each kind of answer the last time.
    pub(crate) fn answers(&self) -> Vec<(IndexAnswerKind, usize)> {
        let watched = self.0.lock();
        let mut answers = Vec::new();
        for kind in IndexAnswerKind::VARIANTS {
            let of_kind = watched
                .partitions
                .iter()
                .filter(|answer| **answer == Some(*kind));
            answers.push((*kind, of_kind.count()));
        }
        answers
    }
}

impl Watched {
    /// If the number of unavailable partitions must be logged now: the number that was logged
    /// before. `None` when it has not changed since, or was logged a moment ago.
    fn change_to_log(&mut self) -> Option<usize> {
        let is_due = self
            .logged_at
            .is_none_or(|logged_at| logged_at.elapsed() >= LOG_PAUSE);
        if self.unavailable == self.logged || !is_due {
            return None;
        }
        self.logged_at = Some(Instant::now());
        Some(std::mem::replace(&mut self.logged, self.unavailable))
    }
}

#[cfg(test)]
mod tests {
    use deployed_index::PageIndexSettings;
    use model::ProductId;

    use super::*;

    /// How many partitions gave this kind of answer the last time.
    fn count(watch: &IndexWatch, kind: IndexAnswerKind) -> usize {
        let mut answers = watch.answers().into_iter();
        answers.find(|(other, _)| *other == kind).unwrap().1
    }

    fn logged(watch: &IndexWatch) -> usize {
        watch.0.lock().logged
    }

    fn end_pause(watch: &IndexWatch) {
        watch.0.lock().logged_at = None;
    }

    #[test]
    fn changes_are_logged_and_requests_are_not() {
        let index =
            deployed_index::connect(&PageIndexSettings::new("redis://127.0.0.1:1")).unwrap();
        let [up, down] =
            ["a", "b"].map(|product| index.partition_of(&ProductId::parse(product).unwrap()));
        assert_ne!(up, down);
        let watch = IndexWatch::new(index.partitions().count());
        watch.note(up, IndexAnswerKind::Ready, None);
        assert!(
            watch.0.lock().logged_at.is_none(),
            "nothing has changed for the worse"
        );
        // Readers alternate between two products. The master of one of them is down.
        watch.note(down, IndexAnswerKind::Unreachable, Some(&"no answer"));
        assert_eq!(logged(&watch), 1);
        for _ in 0..100 {
            end_pause(&watch);
            watch.note(up, IndexAnswerKind::Ready, None);
            watch.note(down, IndexAnswerKind::Unreachable, Some(&"no answer"));
            assert!(watch.0.lock().logged_at.is_none(), "a request is logged");
        }
        assert_eq!(
            [
                count(&watch, IndexAnswerKind::Ready),
                count(&watch, IndexAnswerKind::Unreachable)
            ],
            [1, 1]
        );

        // After the pause, the next request logs the changes made during it.
        watch.0.lock().logged_at = Some(Instant::now());
        watch.note(down, IndexAnswerKind::Ready, None);
        assert_eq!(logged(&watch), 1);
        end_pause(&watch);
        watch.note(up, IndexAnswerKind::Ready, None);
        assert_eq!((logged(&watch), watch.0.lock().unavailable), (0, 0));
    }
}
