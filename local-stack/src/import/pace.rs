//! How fast an import writes: at most so many write units per second.
//!
//! DynamoDB reports what a call consumed only in its answer, and the stream functions write most of a comment's items
//! later. So the units are computed from the comment's size, for all that follows from its write. A write starts when
//! those before it are paid for.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use model::{
    BlobFormat, Comment, Revision,
    item::CommentItem,
    size::{item_bytes, write_units},
};
use table::NewComment;
use tokio::{sync::watch, time::Instant};

/// Unused units that may accumulate while nothing is written.
const BURST: Duration = Duration::from_secs(1);

/// How many duplicates a published comment has.
const DUPLICATES: usize = 31;

/// The write units that creating a comment costs in the end, in the table and its indexes (AWS: "DynamoDB read and write
/// operations"): 68 for a comment of up to 1 KB.
///
/// - The primary item: twice in the table, because a transaction writes it. Once in each of `gsi`, `primaries`, and
///   `authors` if it has an author's id.
/// - Its journal entry: one unit, twice.
/// - Each duplicate: once in the table, and once in `gsi`. An unpublished comment has none.
///
/// An edit counts as many. It costs about 50 more when it changes rating or language.
fn units_of(comment: &NewComment, format: BlobFormat) -> usize {
    let revision = Revision::after(None, comment.created_at, 0);
    let NewComment { id, product, language, rating, created_at, text, site, status } = comment.clone();
    let status = status.unwrap_or_default();
    let comment = Comment { id, product, language, rating, created_at, revision, text, site, status };
    let in_authors = usize::from(comment.site.author_id.is_some());
    let item = CommentItem::primary(&comment, format);
    // An item that cannot be written costs nothing.
    let each = serde_dynamo::to_item(&item).map_or(0, |item| write_units(item_bytes(&item)));
    let duplicates = if status.is_published() { DUPLICATES } else { 0 };
    (2 * each + each + 1 + in_authors) + 2 + duplicates * 2 * each
}

/// Counts write units, and spreads them over time.
#[derive(Debug)]
pub struct Pace {
    format: BlobFormat,
    /// Write units per second.
    limit: f64,
    state: Mutex<PaceState>,
    released: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct PaceState {
    units: u64,
    /// When all units so far are paid for.
    paid_at: Option<Instant>,
}

impl Pace {
    /// A pace with a limit in write units per second, for comments whose texts are written in a format.
    pub fn new(format: BlobFormat, limit: u32) -> Self {
        Self { format, limit: f64::from(limit.max(1)), state: Mutex::default(), released: watch::Sender::default() }
    }

    /// The units of all writes so far.
    pub fn units(&self) -> u64 {
        self.lock().units
    }

    /// Ends all waiting, also what begins later. So an interrupt waits only for writes.
    pub(super) fn release(&self) {
        self.released.send_replace(true);
    }

    /// Waits until a comment may be written, and counts its units.
    pub(super) async fn admit(&self, comment: &NewComment) {
        let start = self.reserve(units_of(comment, self.format), Instant::now());
        let mut released = self.released.subscribe();
        // `self` owns the sender, so waiting for it cannot fail.
        tokio::time::timeout_at(start, released.wait_for(|released| *released)).await.ok();
    }

    /// When a write of so many units may start.
    fn reserve(&self, units: usize, now: Instant) -> Instant {
        let mut state = self.lock();
        state.units += u64::try_from(units).unwrap_or(u64::MAX);
        let saved = now.checked_sub(BURST).unwrap_or(now);
        let start = state.paid_at.map_or(saved, |paid_at| paid_at.max(saved));
        let units = u32::try_from(units).map_or(f64::MAX, f64::from);
        state.paid_at = Some(start + Duration::try_from_secs_f64(units / self.limit).unwrap_or(Duration::MAX / 2));
        start.max(now)
    }

    fn lock(&self) -> MutexGuard<'_, PaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use model::{CommentId, CommentText, Language, ProductId, Rating, SiteData, Timestamp};

    use super::*;

    fn comment(body: usize) -> NewComment {
        NewComment {
            id: CommentId::parse("c1").unwrap(),
            product: ProductId::parse("p").unwrap(),
            language: Language::parse("en").unwrap(),
            rating: Rating::new(4).unwrap(),
            created_at: Timestamp::parse("2024-02-29T12:00:00Z").unwrap(),
            text: CommentText::new(None, "x".repeat(body), None).unwrap(),
            site: SiteData::default(),
            status: None,
        }
    }

    #[test]
    fn a_comment_costs_units_for_each_kilobyte_of_all_its_items() {
        assert_eq!(units_of(&comment(10), BlobFormat::Map), 68);
        assert_eq!(units_of(&comment(1_500), BlobFormat::Map), 2 * 65 + 3);
        assert_eq!(units_of(&comment(1_500), BlobFormat::Zstd), 68);
    }

    #[test]
    fn writes_start_when_those_before_them_are_paid_for() {
        let pace = Pace::new(BlobFormat::Map, 100);
        let began = Instant::now();
        let starts: Vec<f64> = [0, 0, 0, 0, 10_000, 10_000, 10_000]
            .map(|ms| pace.reserve(68, began + Duration::from_millis(ms)).duration_since(began).as_secs_f64())
            .into();
        // A second's units had accumulated: 68 of them, and then half of the next write's.
        for (start, expected) in starts.iter().zip([0.0, 0.0, 0.36, 1.04, 10.0, 10.0, 10.36]) {
            assert!((start - expected).abs() < 1e-6, "{starts:?}");
        }
        assert_eq!(pace.units(), 7 * 68);
    }

    #[tokio::test]
    async fn a_release_ends_all_waiting() {
        let pace = Pace::new(BlobFormat::Map, 1);
        pace.admit(&comment(10)).await;
        pace.release();
        // Without the release this waits for over a minute.
        pace.admit(&comment(10)).await;
    }
}
