//! Comments that were read for the box of a front page, for the next views of that page.

use std::{collections::HashMap, time::Duration};

use model::{Cd, Comment, CommentId};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a text is used. A hidden text may be shown anywhere for this long (ADR 17).
pub(super) const MAX_AGE: Duration = Duration::from_secs(30);

/// Maximum number of comments: those of 256 products, which take some 0.3 MB. A full cache forgets
/// all.
const COMMENTS_MAX: usize = 512;

#[derive(Default)]
pub(super) struct NewestComments(Mutex<HashMap<CommentId, (Instant, Comment)>>);

impl NewestComments {
    /// The comment at this position, if it was read a moment ago.
    pub(super) fn get(&self, cd: &Cd) -> Option<Comment> {
        let known = self.0.lock();
        let (read, comment) = known.get(&cd.id)?;
        if comment.cd() == *cd && read.elapsed() < MAX_AGE {
            Some(comment.clone())
        } else {
            None
        }
    }

    /// Keeps a comment that was asked for at an instant.
    pub(super) fn keep(&self, comment: &Comment, at: Instant) {
        let mut known = self.0.lock();
        if known.len() >= COMMENTS_MAX {
            known.clear();
        }
        known.insert(comment.id.clone(), (at, comment.clone()));
    }
}
