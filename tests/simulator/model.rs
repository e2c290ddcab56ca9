//! What the writers know of the comments: what is certain, and what may be.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use model::{Comment, CommentId, Filter, Timestamp};

use super::world::PRODUCT;

/// The fields that matter, of a comment that readers see or do not see.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) product: String,
    pub(crate) language: String,
    pub(crate) rating: u8,
    pub(crate) created_at: Timestamp,
    pub(crate) body: String,
    pub(crate) is_published: bool,
}

impl From<&Comment> for Seen {
    fn from(comment: &Comment) -> Self {
        Self {
            product: comment.product.to_string(),
            language: comment.language.to_string(),
            rating: comment.rating.get(),
            created_at: comment.created_at,
            body: comment.text.body.clone().unwrap_or_default(),
            is_published: comment.status.is_published(),
        }
    }
}

/// What a comment is at some time; `None` while the comment does not exist.
pub(crate) type State = Option<Comment>;

#[derive(Debug, Default)]
struct Known {
    /// The last state that a writer knows, unless it may have changed since.
    certain: Option<State>,
    /// States that may be the present one too. The outcome of their writes is not known, or others
    /// were under way.
    maybe: Vec<State>,
    writes_under_way: usize,
    /// The order of the writes under way is unknown.
    overlaps: bool,
    /// Writes without an answer may be done until then.
    unknown_until: Option<Timestamp>,
    certain_since: Option<Timestamp>,
    /// How often it was created.
    times_created: usize,
    was_edited: bool,
}

impl Known {
    /// The states that the comment may be in.
    fn possible(&self) -> impl Iterator<Item = &State> {
        self.certain.iter().chain(&self.maybe)
    }

    /// No write is under way, and each had an answer.
    fn is_quiet(&self) -> bool {
        self.writes_under_way == 0 && self.maybe.is_empty()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    comments: BTreeMap<CommentId, Known>,
    bodies: BTreeMap<String, BTreeSet<CommentId>>,
    /// Bodies of posts whose outcome is not known. The ids of their comments are unknown.
    pub(crate) unanswered: BTreeSet<String>,
}

impl Model {
    pub(crate) fn ids(&self) -> Vec<CommentId> {
        self.comments.keys().cloned().collect()
    }

    pub(crate) fn begin(&mut self, id: &CommentId, now: Timestamp) {
        let known = self.comments.entry(id.clone()).or_default();
        let is_unknown = known.unknown_until.is_some_and(|until| until >= now);
        known.overlaps = is_unknown || known.writes_under_way > 0;
        known.writes_under_way += 1;
    }

    /// A write was answered: the comment is so now, unless another write is under way.
    pub(crate) fn answered(&mut self, id: &CommentId, after: State, now: Timestamp) {
        self.note_body(id, after.as_ref());
        let known = self.comments.entry(id.clone()).or_default();
        known.writes_under_way -= 1;
        if !known.overlaps && known.writes_under_way == 0 {
            *known = Known {
                certain: Some(after),
                certain_since: Some(now),
                times_created: known.times_created,
                was_edited: known.was_edited,
                ..Known::default()
            };
        } else {
            known.maybe.push(after);
        }
    }

    /// A write has no answer: it may be done, until an instant. `after` is what it would make of
    /// the comment.
    pub(crate) fn unanswered(&mut self, id: &CommentId, after: Vec<State>, until: Timestamp) {
        for after in after.iter().flatten() {
            self.note_body(id, Some(after));
        }
        let known = self.comments.entry(id.clone()).or_default();
        known.writes_under_way -= 1;
        known.unknown_until = known.unknown_until.max(Some(until));
        known.maybe.extend(after);
    }

    /// The comment before the only write that is under way, if it is certain.
    pub(crate) fn alone(&self, id: &CommentId) -> Option<Comment> {
        let known = self.comments.get(id)?;
        if known.overlaps || !known.maybe.is_empty() {
            return None;
        }
        known.certain.clone().flatten()
    }

    /// Whether a comment certainly does not exist.
    pub(crate) fn is_gone(&self, id: &CommentId) -> bool {
        let Some(known) = self.comments.get(id) else {
            return false;
        };
        known.is_quiet() && known.certain == Some(None)
    }

    /// The states that a comment may be in, as far as a writer knows.
    pub(crate) fn possible(&self, id: &CommentId) -> Vec<State> {
        match self.comments.get(id) {
            Some(known) => known.possible().cloned().collect(),
            None => Vec::new(),
        }
    }

    pub(crate) fn note_edited(&mut self, id: &CommentId) {
        self.comments.entry(id.clone()).or_default().was_edited = true;
    }

    /// Whether a comment was posted, and never changed since.
    pub(crate) fn is_as_posted(&self, id: &CommentId) -> bool {
        let Some(known) = self.comments.get(id) else {
            return false;
        };
        known.times_created == 1 && !known.was_edited
    }

    pub(crate) fn note_created(&mut self, id: &CommentId) {
        self.comments.entry(id.clone()).or_default().times_created += 1;
    }

    fn note_body(&mut self, id: &CommentId, comment: Option<&Comment>) {
        if let Some(comment) = comment {
            self.note_sent(id, comment.text.body.as_deref().unwrap_or_default());
        }
    }

    /// A text is on its way. Readers may see it before its writer has an answer.
    pub(crate) fn note_sent(&mut self, id: &CommentId, body: &str) {
        self.bodies
            .entry(body.to_owned())
            .or_default()
            .insert(id.clone());
    }

    /// Whether a comment ever had this text, as far as anybody can know.
    pub(crate) fn had(&self, id: &str, body: &str) -> bool {
        if self.unanswered.contains(body) {
            return true;
        }
        match self.bodies.get(body) {
            Some(ids) => ids.iter().any(|known| known.as_str() == id),
            None => false,
        }
    }

    /// The comments that have certainly been as they are since an instant, newest first.
    pub(crate) fn stable_since(&self, since: Timestamp) -> Vec<&Comment> {
        let mut comments = Vec::new();
        for known in self.comments.values() {
            let is_older = known.certain_since.is_some_and(|at| at < since);
            if !is_older || !known.is_quiet() {
                continue;
            }
            if let Some(Some(comment)) = &known.certain
                && comment.status.is_published()
            {
                comments.push(comment);
            }
        }
        comments.sort_by_key(|comment| Reverse(comment.cd()));
        comments
    }

    pub(crate) fn was_recreated(&self, id: &str) -> bool {
        self.comments
            .iter()
            .any(|(known, comment)| known.as_str() == id && comment.times_created > 1)
    }

    /// In a quiet system these are the comments, whatever became of the writes without an answer.
    pub(crate) fn learn(&mut self, truth: &[Comment], now: Timestamp) {
        let mut before = std::mem::take(&mut self.comments);
        self.unanswered.clear();
        for comment in truth {
            self.note_body(&comment.id, Some(comment));
            let known = before.remove(&comment.id).unwrap_or_default();
            let learned = Known {
                certain: Some(Some(comment.clone())),
                certain_since: Some(now),
                times_created: known.times_created.max(1),
                was_edited: known.was_edited,
                ..Known::default()
            };
            self.comments.insert(comment.id.clone(), learned);
        }
    }

    /// The errors in the comments that the table has at the end.
    pub(crate) fn differences(&self, truth: &[Comment]) -> Vec<String> {
        let mut problems = Vec::new();
        let truth: BTreeMap<&CommentId, Seen> = truth
            .iter()
            .map(|comment| (&comment.id, comment.into()))
            .collect();
        for (id, known) in &self.comments {
            let found = truth.get(id);
            let mut possible: Vec<Option<Seen>> = Vec::new();
            for state in known.possible() {
                possible.push(state.as_ref().map(Seen::from));
            }
            let is_possible = possible.iter().any(|state| state.as_ref() == found);
            if !possible.is_empty() && !is_possible {
                problems.push(format!(
                    "an acknowledged write is lost: {id} is {found:?}, and not one of {possible:?}"
                ));
            }
        }
        for (id, comment) in truth {
            let may_be_of_a_post = self.unanswered.contains(&comment.body);
            if !self.comments.contains_key(id) && !may_be_of_a_post {
                problems.push(format!("nobody has created {id}: {comment:?}"));
            }
        }
        problems
    }
}

/// Whether a comment of the product that readers ask for matches a filter.
pub(crate) fn matches(filter: &Filter, comment: &Comment) -> bool {
    comment.product.as_str() == PRODUCT && filter.matches(&comment.placement())
}
