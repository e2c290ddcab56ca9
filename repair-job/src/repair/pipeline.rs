//! The pipeline of every command that repairs: finder → suspects → repair → position.
//!
//! `repair` reads each finding again before it writes. A command records a position
//! only after everything before it was repaired.

use std::collections::{BTreeMap, BTreeSet};

use model::{CommentId, ProductId, plan::reconcile::Places};
use page_index::{IndexPartition, Name};
use process::StoreError;

use crate::{
    repair::{index_snapshot::RepairScope, repair_all},
    run::{Run, outcome::RepairOutcome},
};

pub(crate) trait Finder {
    type ScanPosition;

    async fn find(&mut self) -> Result<Option<Finding<Self::ScanPosition>>, StoreError>;

    /// For a person: where the next run resumes if this one stops now.
    fn resumes(&self) -> String;
}

pub(crate) struct Finding<P> {
    pub(crate) suspects: Suspects,
    pub(crate) checked: usize,
    /// How far this brings the progress, in the steps that the command expects.
    pub(crate) steps: u64,
    pub(crate) position: P,
    pub(crate) is_last: bool,
}

/// Where a finder has seen a difference. The repair finds out what is wrong there.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    pub(crate) comments: BTreeMap<CommentId, Places>,
    pub(crate) names: BTreeSet<Name>,
    /// Names among a partition's products that are not of a product in it.
    pub(crate) strays: BTreeSet<(IndexPartition, String)>,
    /// Products whose counts in the page index are wrong.
    pub(crate) miscounted: BTreeSet<ProductId>,
}

impl From<BTreeMap<CommentId, Places>> for Suspects {
    fn from(comments: BTreeMap<CommentId, Places>) -> Self {
        Self {
            comments,
            ..Self::default()
        }
    }
}

impl Suspects {
    pub(crate) fn join(&mut self, others: Self) {
        for (id, places) in others.comments {
            self.comments.entry(id).or_default().join(&places);
        }
        self.names.extend(others.names);
        self.strays.extend(others.strays);
        self.miscounted.extend(others.miscounted);
    }
}

pub(crate) struct Pipeline<'run, F> {
    run: &'run Run<'run>,
    finder: F,
    is_complete: bool,
}

impl<'run, F: Finder> Pipeline<'run, F> {
    pub(crate) fn new(run: &'run Run<'run>, finder: F) -> Self {
        Self {
            run,
            finder,
            is_complete: false,
        }
    }

    /// Whether the finder has come to its end. If not, the run had to end before.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Repairs what the finder finds next. Returns the position after it, and what became of it.
    pub(crate) async fn next(
        &mut self,
        scope: RepairScope<'_>,
    ) -> Result<Option<(F::ScanPosition, RepairOutcome)>, StoreError> {
        let resumes = self.finder.resumes();
        // A stop after the last suspects comes too late: the work is complete.
        if self.is_complete || self.run.must_stop(&resumes) {
            return Ok(None);
        }
        let Some(found) = self.finder.find().await? else {
            self.is_complete = true;
            return Ok(None);
        };
        let outcome = repair_all(self.run, found.suspects, &scope, Some(&resumes)).await?;
        self.run
            .add_checked(found.checked.saturating_sub(outcome.unfinished()));
        self.run.job.progress.advance(found.steps);
        self.is_complete = found.is_last;
        Ok(Some((found.position, outcome)))
    }
}
