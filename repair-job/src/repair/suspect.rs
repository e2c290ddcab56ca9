//! What a finder hands over, and what became of it. A suspect says where to look, never what is wrong.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    CommentId,
    plan::reconcile::{Drift, Places},
};
use page_index::{IndexPartition, Name};

#[derive(Debug, Default)]
pub(crate) struct Suspects {
    pub(crate) comments: BTreeMap<CommentId, Places>,
    pub(crate) names: BTreeSet<Name>,
    /// Names among a partition's products that are not of a product in it.
    pub(crate) strays: BTreeSet<(IndexPartition, String)>,
}

impl From<BTreeMap<CommentId, Places>> for Suspects {
    fn from(comments: BTreeMap<CommentId, Places>) -> Self {
        Self { comments, ..Self::default() }
    }
}

impl Suspects {
    pub(crate) fn join(&mut self, others: Self) {
        for (id, places) in others.comments {
            self.comments.entry(id).or_default().join(&places);
        }
        self.names.extend(others.names);
        self.strays.extend(others.strays);
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// The comment was checked. After a run that repairs, it is right.
    Settled,
    Unresolved(String),
    KeepsChanging,
    /// The page index did not answer. The duplicates are settled.
    IndexAway(String),
    /// The comment is unfinished, because the run must stop or the comment took too long. It counts as unchecked.
    LeftOut(String),
}

#[derive(Debug, Default)]
pub(crate) struct Differences {
    pub(crate) repaired: Vec<Drift>,
    pub(crate) left: Vec<Drift>,
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) states: Vec<(CommentId, State)>,
}

impl Outcome {
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

    pub(crate) fn is_complete(&self) -> bool {
        self.left_out() == 0 && self.index_away().is_none()
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.states.iter().all(|(_, state)| *state == State::Settled)
    }
}
