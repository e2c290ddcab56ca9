//! The checkpoint of `recent`: the watermarks of the duplicates and of the page index.
//!
//! **Invariant:** a watermark advances to the end of a part of the journal only when every comment that the part names
//! is repaired, is reported as unresolved, or keeps changing. In the last case a later part names the comment again.
//! Every part is complete, because it ended at least a settle delay ago.

use std::time::Duration;

use model::Timestamp;
use process::StoreError;
use tokio::time::Instant;

use crate::{
    find::journal::Part,
    repair::{pipeline::Checkpoint, suspect::Outcome},
    run::Run,
    state::{
        confirm::Confirmer,
        index_snapshot::{IndexSnapshot, Scope},
    },
};

/// How often the watermarks advance through empty parts of the journal.
const ADVANCE_EVERY: Duration = Duration::from_secs(5);

/// The watermarks, and the confirmations that are due while they advance.
pub(crate) struct Watermarks<'run> {
    pub(crate) run: &'run Run<'run>,
    pub(crate) snapshot: IndexSnapshot,
    pub(crate) confirmer: Confirmer<'run>,
    pub(crate) to: Timestamp,
    pub(crate) moves_duplicates: bool,
    pub(crate) advanced_at: Instant,
}

impl Checkpoint<Part> for Watermarks<'_> {
    fn scope(&self) -> Scope<'_> {
        Scope { duplicates: true, index: self.snapshot.scope() }
    }

    async fn record(&mut self, part: Part, outcome: &Outcome) -> Result<bool, StoreError> {
        let run = self.run;
        part.unreadable.into_iter().for_each(|what| run.ledger.add_unresolved(what));
        if outcome.index_away().is_some() {
            self.snapshot.give_up();
        }
        if outcome.left_out() > 0 {
            return Ok(false);
        }
        run.job.progress.advance(part.window.span_ms());
        let is_last = part.window.to >= self.to;
        let is_due = outcome.checked() > 0 || is_last || self.advanced_at.elapsed() > ADVANCE_EVERY;
        if run.may_remember() && is_due {
            self.advanced_at = Instant::now();
            if self.moves_duplicates {
                run.job.table.advance_watermark(part.window.to).await?;
            }
            self.snapshot.advance(&run.job.index, part.window.to, is_last, &run.ledger).await?;
        }
        if !is_last && self.confirmer.is_due() {
            return self.confirmer.confirm(&self.snapshot).await;
        }
        Ok(true)
    }
}
