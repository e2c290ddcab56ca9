//! What became of comments that were checked.

use model::{CommentId, plan::reconcile::Drift};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommentOutcome {
    /// The comment was checked. After a run that repairs, it is right.
    Repaired,
    Unresolved(String),
    KeepsChanging,
    /// The page index did not answer. The duplicates are repaired.
    IndexAway(String),
    /// The run must stop, or the comment took too long. It counts as unchecked.
    Unfinished(String),
}

/// The drift of a comment.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    pub(crate) repaired: Vec<Drift>,
    pub(crate) remaining: Vec<Drift>,
}

#[derive(Debug)]
pub(crate) struct RepairOutcome {
    pub(crate) comments: Vec<(CommentId, CommentOutcome)>,
}

impl RepairOutcome {
    pub(crate) fn unfinished(&self) -> usize {
        self.comments
            .iter()
            .filter(|(_, outcome)| matches!(outcome, CommentOutcome::Unfinished(_)))
            .count()
    }

    /// Number of comments that were checked, with or without the page index.
    pub(crate) fn checked(&self) -> usize {
        self.comments.len() - self.unfinished()
    }

    /// Why the entries of some comment in the page index were not checked, if so.
    pub(crate) fn index_away(&self) -> Option<&str> {
        self.comments.iter().find_map(|(_, outcome)| match outcome {
            CommentOutcome::IndexAway(why) => Some(why.as_str()),
            CommentOutcome::Repaired
            | CommentOutcome::Unresolved(_)
            | CommentOutcome::KeepsChanging
            | CommentOutcome::Unfinished(_) => None,
        })
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.unfinished() == 0 && self.index_away().is_none()
    }

    pub(crate) fn are_all_repaired(&self) -> bool {
        self.comments
            .iter()
            .all(|(_, outcome)| *outcome == CommentOutcome::Repaired)
    }
}
