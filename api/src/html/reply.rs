//! The shop's reply below a comment, as a page shows it.

use model::{Reply, Timestamp};

use super::{fold::fold, language_name::text_direction, words::displayed};
use crate::texts::Interface;

/// A reply. It is taken to be in the comment's language.
pub(super) struct ReplyView {
    pub(super) author: Option<String>,
    pub(super) direction: &'static str,
    pub(super) beginning: String,
    /// The part below the beginning of a long reply, folded, behind words about its length.
    pub(super) rest: Option<(String, String)>,
    pub(super) time: Option<(Timestamp, String)>,
}

impl ReplyView {
    /// The reply to a comment with this direction of writing.
    pub(super) fn new(t: &Interface, Reply { text, author, at }: Reply, direction: &'static str) -> Self {
        let text = displayed(&text);
        let (beginning, rest) = fold(text);
        let time = at.map(|at| (at, t.minute(at)));
        let rest = rest.map(|rest| (t.more_characters(&rest), rest));
        Self { author, direction: text_direction(direction, text), beginning, rest, time }
    }
}
