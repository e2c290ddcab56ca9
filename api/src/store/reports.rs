//! Decides which differences that pages meet are reported to the next `recent`.
//!
//! A write on its way looks like a difference, so only one that lasts is reported. The memory is bounded, and so is the
//! rate. The next reader meets again what is not reported now; the audit finds the rest.

use std::collections::HashMap;

use model::{Comment, CommentId, Filter, Placement, ProductId, Timestamp};

use crate::ops::metrics::DriftSign;

/// How long a write may be on its way, in milliseconds: longer than the functions take unless they are behind.
const LASTING_MS: i64 = 60_000;

/// How long a report is not repeated, in milliseconds. `recent` runs every five minutes.
const REMEMBERED_MS: i64 = 3_600_000;

/// Maximum number of reports a second. Writing one takes at most half a minute, so there are some hundred at once.
const REPORTS_A_SECOND: u32 = 4;

/// Maximum number of remembered differences, some 3 MB: more than the reports of an hour. A full memory forgets all.
const DIFFERENCES_MAX: usize = 16_384;

/// A difference between the ranks of a page and the table.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Difference<'page> {
    /// A published comment that a rank names lacks a valid duplicate under the filter.
    MissingDuplicate(&'page Comment),
    /// A rank names a comment that the table does not have under the filter, or not with this creation time.
    RankWithoutComment { product: &'page ProductId, filter: &'page Filter, id: &'page CommentId },
}

impl Difference<'_> {
    pub(super) fn sign(&self) -> DriftSign {
        match self {
            Self::MissingDuplicate(_) => DriftSign::MissingDuplicate,
            Self::RankWithoutComment { .. } => DriftSign::RankWithoutComment,
        }
    }

    pub(super) fn comment(&self) -> &CommentId {
        match self {
            Self::MissingDuplicate(comment) => &comment.id,
            Self::RankWithoutComment { id, .. } => id,
        }
    }

    pub(super) fn looked_for(&self) -> Placement {
        match self {
            Self::MissingDuplicate(comment) => comment.placement(),
            Self::RankWithoutComment { product, filter, .. } => filter.placement_in(product),
        }
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
    pub(super) fn take_up(&mut self, difference: &Difference<'_>, now: Timestamp) -> bool {
        let key = (difference.sign(), difference.looked_for().product, difference.comment().clone());
        let since = match (difference, self.met.get(&key).copied()) {
            (_, Some(Met::Reported(at))) if now < at.plus_ms(REMEMBERED_MS) => return false,
            (Difference::MissingDuplicate(comment), _) => comment.revision.instant(),
            (Difference::RankWithoutComment { .. }, Some(Met::Once(at))) => at,
            (Difference::RankWithoutComment { .. }, Some(Met::Reported(_)) | None) => {
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
        let count = if self.last.0 == second { self.last.1 } else { 0 };
        if count < REPORTS_A_SECOND {
            self.last = (second, count + 1);
        }
        count < REPORTS_A_SECOND
    }
}

#[cfg(test)]
mod tests {
    use model::{CommentText, Language, Rating, Revision, SiteData, Status};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_epoch_ms(1_000 * second).unwrap()
    }

    fn product() -> ProductId {
        ProductId::parse("a/b").unwrap()
    }

    fn id(number: usize) -> CommentId {
        CommentId::parse(&format!("c{number}")).unwrap()
    }

    fn changed_at(second: i64, id: CommentId) -> Comment {
        Comment {
            id,
            product: product(),
            language: Language::parse("en").unwrap(),
            rating: Rating::ALL[3],
            created_at: at(0),
            revision: Revision::after(None, at(second), 1),
            status: Status::Published,
            text: CommentText::new(None, "Fine.".to_owned(), None).unwrap(),
            site: SiteData::default(),
        }
    }

    #[test]
    fn a_difference_is_reported_once_and_only_if_it_lasts() {
        let (product, filter, comment, other) = (product(), Filter::ANY, changed_at(100, id(1)), id(2));
        let missing = Difference::MissingDuplicate(&comment);
        let rank = |id| Difference::RankWithoutComment { product: &product, filter: &filter, id };
        let mut memory = Reports::default();
        for (second, difference, is_reported) in [
            (159, missing, false),
            (160, missing, true),
            (161, missing, false),
            (3_759, missing, false),
            (3_760, missing, true),
            // The moment in which a rank appeared is not known.
            (5_000, rank(&comment.id), false),
            (5_030, rank(&other), false),
            (5_059, rank(&comment.id), false),
            (5_060, rank(&comment.id), true),
            (5_061, rank(&comment.id), false),
            // A page may be read once a day.
            (91_430, rank(&other), true),
            (91_431, rank(&comment.id), false),
        ] {
            assert_eq!(memory.take_up(&difference, at(second)), is_reported, "{second}: {difference:?}");
        }
    }

    #[test]
    fn few_are_reported_a_second_and_a_bounded_number_is_remembered() {
        let mut memory = Reports::default();
        let comments: Vec<Comment> = (0..10).map(|number| changed_at(0, id(number))).collect();
        let mut met = |second| {
            let is_taken_up = |comment: &&Comment| memory.take_up(&Difference::MissingDuplicate(comment), at(second));
            comments.iter().filter(is_taken_up).count()
        };
        assert_eq!([met(100), met(100), met(101), met(102), met(103)], [4, 0, 4, 2, 0]);

        let (product, filter) = (product(), Filter::ANY);
        for number in 0..2 * DIFFERENCES_MAX {
            let rank = Difference::RankWithoutComment { product: &product, filter: &filter, id: &id(number) };
            assert!(!memory.take_up(&rank, at(200)) && memory.met.len() <= DIFFERENCES_MAX);
        }
    }
}
