//! The pipeline of every command that repairs: finder → suspects → repair → position.
//!
//! Finders (`find`) differ only in where they look and in what a position is. Whatever one finds, `repair` reads again,
//! strongly consistent, before it writes. A command records a position only after everything before it was repaired.

use process::StoreError;

use crate::{
    repair::{
        repair_all,
        suspect::{Outcome, Suspects},
    },
    run::Run,
    state::index_snapshot::Scope,
};

pub(crate) trait Finder {
    type Position;

    async fn find(&mut self) -> Result<Option<Found<Self::Position>>, StoreError>;

    /// For a person: where the next run resumes if this one stops now.
    fn resumes(&self) -> String;
}

pub(crate) struct Found<P> {
    pub(crate) suspects: Suspects,
    pub(crate) checked: usize,
    pub(crate) position: P,
    pub(crate) is_last: bool,
}

pub(crate) struct Pipeline<'run, F> {
    run: &'run Run<'run>,
    finder: F,
    is_complete: bool,
}

impl<'run, F: Finder> Pipeline<'run, F> {
    pub(crate) fn new(run: &'run Run<'run>, finder: F) -> Self {
        Self { run, finder, is_complete: false }
    }

    /// Whether the finder has come to its end. If not, the run had to end before.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Repairs what the finder finds next. Returns the position after it, and what became of it.
    ///
    /// # Errors
    /// A store's. Other parts of the run then begin nothing new, unless only the page index is away.
    pub(crate) async fn next(&mut self, scope: Scope<'_>) -> Result<Option<(F::Position, Outcome)>, StoreError> {
        let next = self.find_and_repair(scope).await;
        next.inspect_err(|error| self.run.fail_unless_index_is_away(error))
    }

    async fn find_and_repair(&mut self, scope: Scope<'_>) -> Result<Option<(F::Position, Outcome)>, StoreError> {
        let resumes = self.finder.resumes();
        // A stop after the last suspects comes too late: the work is complete.
        if self.is_complete || self.run.must_stop(&resumes) || self.run.has_failed() {
            return Ok(None);
        }
        let Some(found) = self.finder.find().await? else {
            self.is_complete = true;
            return Ok(None);
        };
        let outcome = repair_all(self.run, found.suspects, &scope).await?;
        self.run.add_checked(found.checked.saturating_sub(outcome.left_out()));
        if outcome.left_out() > 0 {
            self.run.must_stop(&resumes);
        }
        self.is_complete = found.is_last;
        Ok(Some((found.position, outcome)))
    }
}
