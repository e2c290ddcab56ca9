//! What a finder hands over, and what became of it. A suspect says where to look, never what is wrong.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    CommentId, Language, ProductId,
    plan::reconcile::{Drift, Places},
};

/// A name in the page index: a product, or a language of it.
pub(crate) type Name = (ProductId, Option<Language>);

/// What may be wrong.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    /// Comments, with the places where traces of each were found.
    pub(crate) comments: BTreeMap<CommentId, Places>,
    /// Names in the page index that no comment seems to have.
    pub(crate) names: BTreeSet<Name>,
}

impl From<BTreeMap<CommentId, Places>> for Suspects {
    fn from(comments: BTreeMap<CommentId, Places>) -> Self {
        Self { comments, names: BTreeSet::new() }
    }
}

impl Suspects {
    pub(crate) fn join(&mut self, others: Self) {
        for (id, places) in others.comments {
            self.comments.entry(id).or_default().join(&places);
        }
        self.names.extend(others.names);
    }
}

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

/// The differences of a comment, including those repaired before a failure.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    pub(crate) repaired: Vec<Drift>,
    /// Differences that remain.
    pub(crate) left: Vec<Drift>,
}

/// The result for some suspects.
#[derive(Debug)]
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

    /// Whether every comment was checked, including its entries in the page index.
    pub(crate) fn is_complete(&self) -> bool {
        self.left_out() == 0 && self.index_away().is_none()
    }

    /// Whether every comment was checked and is right.
    pub(crate) fn is_settled(&self) -> bool {
        self.states.iter().all(|(_, state)| *state == State::Settled)
    }
}
