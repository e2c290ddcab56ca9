//! What became of comments that were checked.

use model::{CommentId, plan::reconcile::Drift};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommentOutcome {
    /// The comment was checked. After a run that repairs, it is right.
    Settled,
    Unresolved(String),
    KeepsChanging,
    /// The page index did not answer. The duplicates are settled.
    IndexAway(String),
    /// The comment is unfinished, because the run must stop or the comment took too long. It counts
    /// as unchecked.
    LeftOut(String),
}

#[derive(Debug, Default)]
pub(crate) struct Differences {
    pub(crate) repaired: Vec<Drift>,
    pub(crate) left: Vec<Drift>,
}

#[derive(Debug)]
pub(crate) struct RepairOutcome {
    pub(crate) states: Vec<(CommentId, CommentOutcome)>,
}

impl RepairOutcome {
    pub(crate) fn left_out(&self) -> usize {
        self.states
            .iter()
            .filter(|(_, state)| matches!(state, CommentOutcome::LeftOut(_)))
            .count()
    }

    /// Number of comments that were checked, with or without the page index.
    pub(crate) fn checked(&self) -> usize {
        self.states.len() - self.left_out()
    }

    /// Why the entries of some comment in the page index were not checked, if so.
    pub(crate) fn index_away(&self) -> Option<&str> {
        self.states.iter().find_map(|(_, state)| match state {
            CommentOutcome::IndexAway(why) => Some(why.as_str()),
            CommentOutcome::Settled
            | CommentOutcome::Unresolved(_)
            | CommentOutcome::KeepsChanging
            | CommentOutcome::LeftOut(_) => None,
        })
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.left_out() == 0 && self.index_away().is_none()
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.states
            .iter()
            .all(|(_, state)| *state == CommentOutcome::Settled)
    }
}
