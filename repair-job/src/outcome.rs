//! What became of suspects.

use model::{CommentId, plan::reconcile::Drift};
use process::StoreError;

/// The state of a comment after its repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// The comment was checked. After a run that repairs, it is right.
    Settled,
    /// A person has to look.
    Unresolved(String),
    /// The comment kept changing. Its last change is in the journal.
    KeepsChanging,
    /// The page index did not answer. The duplicates are settled.
    IndexAway(String),
    /// The comment is unfinished, because the run must stop or the comment took too long. It counts as unchecked.
    LeftOut(String),
}

/// The differences of a comment.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    /// Repaired differences.
    pub(crate) repaired: Vec<Drift>,
    /// Remaining differences.
    pub(crate) left: Vec<Drift>,
}

/// The result for a comment.
#[derive(Debug)]
pub(crate) struct Repaired {
    /// The state, or a store's failure that affects other comments too.
    pub(crate) state: Result<State, StoreError>,
    /// The comment's differences, including those repaired before a failure.
    pub(crate) differences: Differences,
}

/// The result for some suspects.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) states: Vec<(CommentId, State)>,
}

impl Outcome {
    /// Number of comments that were not checked.
    pub(crate) fn left_out(&self) -> usize {
        self.states.iter().filter(|(_, state)| matches!(state, State::LeftOut(_))).count()
    }

    /// Number of comments that were checked, with or without the page index.
    pub(crate) fn checked(&self) -> usize {
        self.states.len() - self.left_out()
    }

    /// Why the entries of some comment in the page index were not checked, if so.
    pub(crate) fn index_away(&self) -> Option<&str> {
        self.states.iter().find_map(|(_, state)| match state {
            State::IndexAway(why) => Some(why.as_str()),
            State::Settled | State::Unresolved(_) | State::KeepsChanging | State::LeftOut(_) => None,
        })
    }

    /// Whether every comment was checked and is right.
    pub(crate) fn is_settled(&self) -> bool {
        self.states.iter().all(|(_, state)| *state == State::Settled)
    }
}
