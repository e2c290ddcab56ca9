//! Comments that were read for the box of a front page, for the next views of that page.

use std::{collections::HashMap, time::Duration};

use model::{Cd, Comment, CommentId, ProductId};
use parking_lot::Mutex;
use process::StoreError;
use tokio::time::Instant;

use super::StoreClients;

/// How long a text is used. A hidden text may be shown anywhere for this long (ADR 17).
pub(super) const MAX_AGE: Duration = Duration::from_secs(30);

/// Maximum number of comments: those of 256 products, which take some 0.3 MB. A full cache forgets
/// all.
const COMMENTS_MAX: usize = 512;

impl StoreClients {
    /// The comments of a product at these positions, of which each is the newest of its kind. They
    /// may be half a minute old. A comment that does not exist any more is missing.
    pub(crate) async fn newest_comments(
        &self,
        product: &ProductId,
        positions: &[&Cd],
    ) -> Result<Vec<Comment>, StoreError> {
        let mut comments = Vec::new();
        let mut missing = Vec::new();
        for cd in positions {
            match self.newest_comments.get(cd) {
                Some(comment) => comments.push(comment),
                None => missing.push(cd.id.clone()),
            }
        }
        if !missing.is_empty() {
            let asked = Instant::now();
            for comment in self
                .comments_in(product, &missing)
                .await?
                .into_iter()
                .flatten()
            {
                self.newest_comments.keep(&comment, asked);
                comments.push(comment);
            }
        }
        Ok(comments)
    }
}

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

#[cfg(test)]
mod tests {
    use model::{CommentText, Language, ProductId, Rating, Revision, SiteData, Status, Timestamp};

    use super::*;

    fn comment(number: usize) -> Comment {
        let created_at = Timestamp::from_epoch_ms(1).unwrap();
        Comment {
            id: CommentId::parse(&format!("c{number}")).unwrap(),
            product: ProductId::parse("p").unwrap(),
            language: Language::parse("en").unwrap(),
            rating: Rating::new(5).unwrap(),
            created_at,
            revision: Revision::after(None, created_at, 0),
            status: Status::Published,
            text: CommentText::new(None, "b".to_owned(), None).unwrap(),
            site: SiteData::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_text_is_used_for_half_a_minute_while_the_ranks_name_its_comment() {
        let known = NewestComments::default();
        known.keep(&comment(1), Instant::now());
        let elsewhere = Cd {
            created_at: Timestamp::from_epoch_ms(2).unwrap(),
            ..comment(1).cd()
        };
        tokio::time::advance(MAX_AGE - Duration::from_millis(1)).await;
        assert_eq!(known.get(&comment(1).cd()), Some(comment(1)));
        assert_eq!(known.get(&elsewhere), None);
        assert_eq!(known.get(&comment(2).cd()), None);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(known.get(&comment(1).cd()), None);
    }

    #[test]
    fn the_number_of_texts_is_bounded() {
        let known = NewestComments::default();
        for number in 0..3 * COMMENTS_MAX {
            known.keep(&comment(number), Instant::now());
            assert!(known.0.lock().len() <= COMMENTS_MAX);
            assert!(known.get(&comment(number).cd()).is_some());
        }
    }
}
