//! The pipeline of every command that repairs: finder → suspects → repair → checkpoint.
//!
//! Finders (`find`) differ only in where they look and in what a position is. Whatever one finds, `repair` reads again,
//! strongly consistent, before it writes. A checkpoint records a position only after everything before it was repaired.

use process::StoreError;

use crate::{
    repair::{
        repair_all,
        suspect::{Outcome, Suspects},
    },
    run::{Run, error::index_is_away},
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

/// Records how far a finder's suspects have been repaired.
pub(crate) trait Checkpoint<P> {
    fn scope(&self) -> Scope<'_>;

    /// Records the position after some suspects. It stays where it is when some were skipped. Returns whether to
    /// continue.
    async fn record(&mut self, position: P, outcome: &Outcome) -> Result<bool, StoreError>;
}

/// Repairs what a finder finds. Returns `false` when the run had to end before the finder did.
///
/// # Errors
/// A store's. Other parts of the run then begin nothing new, unless only the page index is away.
pub(crate) async fn find_and_repair<F: Finder>(
    run: &Run<'_>,
    finder: &mut F,
    checkpoint: &mut impl Checkpoint<F::Position>,
) -> Result<bool, StoreError> {
    let ended = async {
        loop {
            let resumes = finder.resumes();
            if run.must_stop(&resumes) || run.has_failed() {
                return Ok(false);
            }
            let Some(found) = finder.find().await? else { return Ok(true) };
            let outcome = repair_all(run, found.suspects, &checkpoint.scope()).await?;
            run.add_checked(found.checked.saturating_sub(outcome.left_out()));
            if outcome.left_out() > 0 {
                run.must_stop(&resumes);
            }
            if !checkpoint.record(found.position, &outcome).await? {
                return Ok(false);
            }
            // A stop after the last suspects comes too late: the work is complete.
            if found.is_last {
                return Ok(true);
            }
        }
    };
    let ended = ended.await;
    if ended.as_ref().is_err_and(|error| !index_is_away(error)) {
        run.fail();
    }
    ended
}
