//! The differences that pages meet: which of them are reported to the next `recent`.
//!
//! A write on its way looks like a difference, so only one that lasts is reported. The memory is
//! bounded, and so is the rate. The next reader meets again what is not reported now; the audit
//! finds the rest.

use std::collections::HashMap;

use model::{CommentId, ProductId, RankEntry, Timestamp};
use process::now;
use table::Table;

use super::StoreClients;
use crate::telemetry::metrics::DriftSign;

/// How long a write may be on its way, in milliseconds: longer than the functions take unless they
/// are behind.
const LASTING_MS: i64 = 60_000;

/// How long a report is not repeated, in milliseconds. `recent` runs every five minutes.
const REMEMBERED_MS: i64 = 3_600_000;

/// Maximum number of reports a second. Writing one takes at most half a minute, so there are some
/// hundred at once.
const REPORTS_A_SECOND: u32 = 4;

/// Maximum number of remembered differences, some 3 MB: more than the reports of an hour. A full
/// memory forgets all.
const DIFFERENCES_MAX: usize = 16_384;

/// A difference between the ranks of a page and the table.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    pub(crate) sign: DriftSign,
    pub(crate) comment: CommentId,
    /// Where the comment was looked for.
    pub(crate) looked_for: RankEntry,
    /// When the comment was written that lacks a valid duplicate. `None` when the table does not
    /// have the comment under the filter, or not with the creation time of its rank.
    pub(crate) since: Option<Timestamp>,
}

impl StoreClients {
    /// Counts a difference that a page met. A lasting one is reported to repair in the background:
    /// no reader waits.
    pub(crate) fn report(&self, difference: Difference) {
        self.metrics.count_drift_sign(difference.sign);
        if !self.reports.lock().take_up(&difference, now()) {
            return;
        }
        let Difference {
            sign,
            comment: id,
            looked_for,
            ..
        } = difference;
        let table = Table::clone(&self.table);
        tokio::spawn(async move {
            let sign: &str = sign.into();
            match table.report(&id, &looked_for).await {
                Ok(()) => {
                    tracing::info!(comment = %id, sign, "a page met a difference that lasts; repair looks at it")
                }
                Err(error) => {
                    tracing::warn!(comment = %id, sign, %error, "a lasting difference cannot be reported")
                }
            }
        });
    }
}

/// The differences that were met lately.
#[derive(Default)]
pub(super) struct Reports {
    met: HashMap<(DriftSign, ProductId, CommentId), Met>,
    /// The second of the last report, and the number of reports in it.
    last: (i64, u32),
}

#[derive(Debug, Clone, Copy)]
enum Met {
    /// When it was first met.
    Once(Timestamp),
    Reported(Timestamp),
}

impl Reports {
    /// Whether a difference is to be reported now.
    pub(super) fn take_up(&mut self, difference: &Difference, now: Timestamp) -> bool {
        let Difference {
            sign,
            comment,
            looked_for,
            since,
        } = difference;
        let key = (*sign, looked_for.placement.product.clone(), comment.clone());
        let since = match (since, self.met.get(&key).copied()) {
            (_, Some(Met::Reported(at))) if now < at.plus_ms(REMEMBERED_MS) => return false,
            (Some(written), _) => *written,
            (None, Some(Met::Once(at))) => at,
            (None, Some(Met::Reported(_)) | None) => {
                self.remember(key, Met::Once(now));
                return false;
            }
        };
        let is_due = since.plus_ms(LASTING_MS) <= now && self.has_room_for_one(now);
        if is_due {
            self.remember(key, Met::Reported(now));
        }
        is_due
    }

    fn remember(&mut self, key: (DriftSign, ProductId, CommentId), met: Met) {
        if self.met.len() >= DIFFERENCES_MAX && !self.met.contains_key(&key) {
            self.met.clear();
        }
        self.met.insert(key, met);
    }

    fn has_room_for_one(&mut self, now: Timestamp) -> bool {
        let second = now.epoch_seconds();
        let count = if self.last.0 == second {
            self.last.1
        } else {
            0
        };
        if count < REPORTS_A_SECOND {
            self.last = (second, count + 1);
        }
        count < REPORTS_A_SECOND
    }
}

#[cfg(test)]
mod tests {
    use model::{Language, Placement, Rating};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_epoch_ms(1_000 * second).unwrap()
    }

    /// A comment of this number that was written at this second, or that the table does not have.
    fn difference(number: usize, written: Option<i64>) -> Difference {
        Difference {
            sign: if written.is_some() {
                DriftSign::MissingDuplicate
            } else {
                DriftSign::RankWithoutComment
            },
            comment: CommentId::parse(&format!("c{number}")).unwrap(),
            looked_for: RankEntry {
                placement: Placement {
                    product: ProductId::parse("a/b").unwrap(),
                    language: Language::parse("en").unwrap(),
                    rating: Rating::ALL[3],
                },
                created_at: at(0),
            },
            since: written.map(at),
        }
    }

    #[test]
    fn a_difference_is_reported_once_and_only_if_it_lasts() {
        let missing = &difference(1, Some(100));
        let rank = &difference(1, None);
        let other = &difference(2, None);
        let mut memory = Reports::default();
        for (second, difference, is_reported) in [
            (159, missing, false),
            (160, missing, true),
            (161, missing, false),
            (3_759, missing, false),
            (3_760, missing, true),
            // The moment in which a rank appeared is not known.
            (5_000, rank, false),
            (5_030, other, false),
            (5_059, rank, false),
            (5_060, rank, true),
            (5_061, rank, false),
            // A page may be read once a day.
            (91_430, other, true),
            (91_431, rank, false),
        ] {
            assert_eq!(
                memory.take_up(difference, at(second)),
                is_reported,
                "{second}: {difference:?}"
            );
        }
    }

    #[test]
    fn few_are_reported_a_second_and_a_bounded_number_is_remembered() {
        let mut memory = Reports::default();
        let mut met = |second| {
            (0..10)
                .filter(|number| memory.take_up(&difference(*number, Some(0)), at(second)))
                .count()
        };
        assert_eq!(
            [met(100), met(100), met(101), met(102), met(103)],
            [4, 0, 4, 2, 0]
        );

        for number in 0..2 * DIFFERENCES_MAX {
            assert!(
                !memory.take_up(&difference(number, None), at(200))
                    && memory.met.len() <= DIFFERENCES_MAX
            );
        }
    }
}
