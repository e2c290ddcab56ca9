//! What a finder hands over: comments and names that may be wrong. A suspect says where to look, never what is wrong.

use std::collections::{BTreeMap, BTreeSet};

use model::{CommentId, Language, ProductId, plan::reconcile::Places};

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
    /// Adds other suspects.
    pub(crate) fn join(&mut self, others: Self) {
        for (id, places) in others.comments {
            self.comments.entry(id).or_default().join(&places);
        }
        self.names.extend(others.names);
    }
}
