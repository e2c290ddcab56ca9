//! The shop's reply below a comment, as a page shows it.

use model::{Reply, Timestamp};

use super::{fold::Folded, language_name::text_direction, words::displayed};
use crate::texts::Interface;

/// A reply. It is taken to be in the comment's language.
pub(super) struct ReplyView {
    pub(super) author: Option<String>,
    pub(super) direction: &'static str,
    pub(super) text: Folded,
    pub(super) time: Option<(Timestamp, String)>,
}

impl ReplyView {
    pub(super) fn new(t: &Interface, Reply { text, author, at }: Reply, direction: &'static str) -> Self {
        let text = displayed(&text);
        let time = at.map(|at| (at, t.day(at)));
        Self { author, direction: text_direction(direction, text), text: Folded::new(text), time }
    }
}
