//! The shop's reply below a comment, as a page shows it.

use model::{Reply, Timestamp};

use super::{
    fold::fold,
    language_name::text_direction,
    words::{displayed, minute},
};

/// A reply. It is taken to be in the comment's language.
pub(super) struct ReplyView {
    pub(super) author: Option<String>,
    pub(super) direction: &'static str,
    pub(super) beginning: String,
    /// The part below the beginning of a long reply, folded.
    pub(super) rest: Option<String>,
    pub(super) time: Option<(Timestamp, String)>,
}

impl ReplyView {
    /// The reply to a comment with this direction of writing.
    pub(super) fn new(Reply { text, author, at }: Reply, direction: &'static str) -> Self {
        let text = displayed(&text);
        let (beginning, rest) = fold(text);
        let time = at.map(|at| (at, minute(at)));
        Self { author, direction: text_direction(direction, text), beginning, rest, time }
    }
}
