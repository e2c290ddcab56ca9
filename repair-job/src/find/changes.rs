//! What changed while the whole table is read: for a rebuild, and for an export (`local-stack`).
//!
//! The indexes of a table lag behind it, and a long read sees each comment at another moment. So its reader then looks
//! again at every comment that the journal names since [`journal_from`].

use std::{collections::BTreeMap, time::Duration};

use model::{CommentId, Timestamp, plan::reconcile::Places};
use process::{StoreError, now};
use table::Table;

use crate::{
    find::journal::{JournalFinder, Window, oldest_entry},
    repair::pipeline::Finder,
    run::settings::{JobSettings, ms},
    state::unresolved,
};

/// How far the table's index may lag behind the table. AWS names no bound ("eventually consistent"). The lag is usually
/// moments, and DynamoDB throttles a table whose index does not keep up.
const INDEX_LAG: Duration = Duration::from_secs(600);

/// Maximum number of passes over the journal.
pub(crate) const PASSES_MAX: u32 = 10;
/// A pass over the journal that takes no longer is the last, in milliseconds.
pub(crate) const PASS_MS_SHORT: i64 = 60_000;

/// Where to begin in the journal after a read of the table's indexes, which lag. From there, the journal names every
/// comment that the read may have missed. `began` is when the read began.
pub fn journal_from(began: Timestamp, settings: &JobSettings) -> Timestamp {
    journal_again_from(began.plus_ms(-ms(INDEX_LAG)), settings)
}

/// Where to begin in the journal after a pass over it that began at `began`. Entries arrive late, and clocks are wrong.
fn journal_again_from(began: Timestamp, settings: &JobSettings) -> Timestamp {
    began.plus_ms(-ms(settings.settle)).plus_ms(-ms(settings.overlap))
}

/// The end of the journal for a pass that begins at `began`: clocks of writers may be ahead.
pub fn journal_to(began: Timestamp, settings: &JobSettings) -> Timestamp {
    began.plus_ms(ms(settings.settle))
}

pub fn reaches_back_to(from: Timestamp) -> bool {
    from >= oldest_entry(now())
}

/// The comments that the job could not repair, with the places where traces of each were found: at most 1,000.
pub async fn unresolved_comments(table: &Table) -> Result<BTreeMap<CommentId, Places>, StoreError> {
    unresolved::remembered(table).await
}

#[derive(Debug)]
pub struct Changed {
    pub comments: BTreeMap<CommentId, Places>,
    pub unreadable: Vec<String>,
}

/// Reads the journal between two instants, a few hundred comments at a time.
pub struct Changes<'table>(JournalFinder<'table>);

impl<'table> Changes<'table> {
    /// The changes from an instant to another one, which is excluded.
    pub fn between(table: &'table Table, from: Timestamp, to: Timestamp) -> Self {
        Self(JournalFinder::new(table, Window { from, to }, ""))
    }

    /// The next of them; `None` at the end. A comment that changed again may come again.
    pub async fn next(&mut self) -> Result<Option<Changed>, StoreError> {
        let found = self.0.find().await?;
        Ok(found.map(|part| Changed { comments: part.suspects.comments, unreadable: part.position.unreadable }))
    }
}
