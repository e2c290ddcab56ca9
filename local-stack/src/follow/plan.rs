//! What a change of an item of the other table means for the comments. No I/O, no clock.

use std::time::Duration;

use model::{Status, Timestamp};
use table::NewComment;

/// How long a stream keeps its records (Amazon DynamoDB Developer Guide, "Change data capture for DynamoDB Streams").
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// What to do with a comment.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Delete the comment that the item was, if it is there.
    Delete(NewComment),
    /// Create the comment that the item is, or make it so.
    Put(NewComment),
}

impl Step {
    /// The id of the comment. Steps of one id keep their order.
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Delete(comment) | Self::Put(comment) => comment.id.as_str(),
        }
    }
}

/// The steps of a change, by the comments that the item was and is. `None` means no item, or one that is no comment. An
/// old item that cannot be read never became a comment, so it is `None` too.
///
/// - The product and the time of a comment never change here. So a comment with another is deleted and created.
/// - A comment whose item no longer says a status is published, as a new one is.
pub(super) fn steps(old: Option<NewComment>, new: Option<NewComment>) -> Vec<Step> {
    let place = |comment: &NewComment| (comment.id.clone(), comment.product.clone(), comment.created_at);
    let is_gone = old.as_ref().map(place) != new.as_ref().map(place);
    let had_status = old.as_ref().is_some_and(|old| old.status.is_some());
    let new = new.map(|new| NewComment { status: new.status.or(had_status.then_some(Status::Published)), ..new });
    let delete = old.filter(|_| is_gone).map(Step::Delete);
    delete.into_iter().chain(new.map(Step::Put)).collect()
}

/// Checks that the stream still has all records since an instant: those of the last 24 hours.
///
/// # Errors
/// How long ago it was, and what to do.
pub(super) fn check_retention(since: Timestamp, now: Timestamp) -> Result<(), String> {
    let age = Duration::from_millis(u64::try_from(now.epoch_ms() - since.epoch_ms()).unwrap_or(0));
    if age < RETENTION {
        return Ok(());
    }
    Err(format!(
        "the stream keeps records for 24 hours, and those since {since} were needed: {} hours. Import the table again with \
         --update, and compare (docs/moving.md)",
        age.as_secs() / 3_600
    ))
}

#[cfg(test)]
mod tests {
    use model::{CommentId, CommentText, Language, ProductId, Rating, SiteData};

    use super::*;

    fn comment(id: &str, body: &str) -> NewComment {
        NewComment {
            id: CommentId::parse(id).unwrap(),
            product: ProductId::parse("p").unwrap(),
            language: Language::parse("en").unwrap(),
            rating: Rating::new(4).unwrap(),
            created_at: Timestamp::parse("2024-02-29T12:00:00Z").unwrap(),
            text: CommentText::new(None, body.to_owned(), None).unwrap(),
            site: SiteData::default(),
            status: None,
        }
    }

    #[test]
    fn a_change_deletes_what_the_item_was_and_puts_what_it_is() {
        let (a, edited, b) = (comment("a", "x"), comment("a", "y"), comment("b", "x"));
        let moved = NewComment { product: ProductId::parse("q").unwrap(), ..a.clone() };
        let of = |status| NewComment { status: Some(status), ..a.clone() };
        let (hidden, published) = (of(Status::Hidden), of(Status::Published));
        for (old, new, expected) in [
            (None, None, vec![]),
            (None, Some(&a), vec![Step::Put(a.clone())]),
            (Some(&a), Some(&edited), vec![Step::Put(edited.clone())]),
            // A change that only another tool can see, and one that is delivered again.
            (Some(&a), Some(&a), vec![Step::Put(a.clone())]),
            (Some(&a), Some(&b), vec![Step::Delete(a.clone()), Step::Put(b.clone())]),
            (Some(&a), Some(&moved), vec![Step::Delete(a.clone()), Step::Put(moved.clone())]),
            (Some(&a), None, vec![Step::Delete(a.clone())]),
            (Some(&a), Some(&hidden), vec![Step::Put(hidden.clone())]),
            (Some(&hidden), Some(&a), vec![Step::Put(published)]),
        ] {
            assert_eq!(steps(old.cloned(), new.cloned()), expected);
        }
    }

    #[test]
    fn records_that_the_stream_may_have_forgotten_are_an_error() {
        let at = |hours: i64| Timestamp::from_epoch_ms(hours * 3_600_000).unwrap();
        assert_eq!(check_retention(at(1), at(24)), Ok(()));
        assert!(check_retention(at(1), at(26)).unwrap_err().contains("25 hours"));
        assert_eq!(check_retention(at(2), at(1)), Ok(()), "the clocks differ");
    }
}
