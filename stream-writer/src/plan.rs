//! Packs the writes of a batch's comments into calls. No I/O, no clock, no randomness.
//!
//! Batches are filled across comments; a transaction holds the writes of one comment.
//!
//! **Invariant:** no key occurs twice in the calls for one batch of records, because `model::plan` gives each key once
//! a primary item, and an item's changes are joined first. So the calls may run concurrently and in any order.

use model::{
    plan::{DuplicateWrite, plan_fan_out},
    record::CommentChange,
};
use table::Table;

use crate::config::FanOut;

/// One call to the table.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Writes that happen one by one, at most [`Table::BATCH_MAX`].
    Batch(Vec<DuplicateWrite>),
    /// Writes of one comment that happen together, at most [`Table::TRANSACTION_MAX`].
    Transaction(Vec<DuplicateWrite>),
}

impl Call {
    /// The writes.
    pub fn writes(&self) -> &[DuplicateWrite] {
        match self {
            Self::Batch(writes) | Self::Transaction(writes) => writes,
        }
    }
}

/// The calls that update the duplicates of all changed comments.
///
/// A comment has 31 puts, and a delete for every other key that the batch's images imply. A comment has more writes
/// than one transaction may hold only if it had five or more languages and ratings within one batch. Then the rest of
/// its deletes are further transactions, after which its duplicates match as well.
pub fn plan_calls(changes: &[CommentChange<'_>], fan_out: FanOut) -> Vec<Call> {
    match fan_out {
        FanOut::Batch => chunks(changes.iter().flat_map(plan_fan_out), Table::BATCH_MAX).map(Call::Batch).collect(),
        FanOut::Transaction => changes
            .iter()
            .flat_map(|change| chunks(plan_fan_out(change).into_iter(), Table::TRANSACTION_MAX))
            .map(Call::Transaction)
            .collect(),
    }
}

fn chunks<T>(mut items: impl Iterator<Item = T>, size: usize) -> impl Iterator<Item = Vec<T>> {
    std::iter::from_fn(move || Some(items.by_ref().take(size).collect()).filter(|chunk: &Vec<T>| !chunk.is_empty()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use expect_test::{Expect, expect};
    use model::{
        BlobFormat, Comment, CommentId, CommentText, Language, ProductId, Rating, Revision, SiteData, Timestamp,
        item::{CommentItem, Image},
        record::{RecordChange, group_by_primary_item},
    };

    use serde_dynamo::Item;

    use super::*;

    fn item(id: &str, rating: u64) -> Item {
        let now = Timestamp::from_epoch_ms(0).unwrap();
        let comment = Comment {
            id: CommentId::parse(id).unwrap(),
            product: ProductId::parse("p").unwrap(),
            language: Language::parse("en").unwrap(),
            rating: Rating::new(rating).unwrap(),
            created_at: now,
            revision: Revision::after(None, now, u128::from(rating)),
            status: model::Status::Published,
            text: CommentText::new(None, "Fine.".to_owned(), None).unwrap(),
            site: SiteData::default(),
        };
        serde_dynamo::to_item(CommentItem::primary(&comment, BlobFormat::Map)).unwrap()
    }

    fn image(item: Option<&Item>) -> Option<Image<'_>> {
        item.map(|item| Image::of_primary(item).unwrap())
    }

    /// Each record: the comment, its rating before and after, 0 for none.
    fn check(fan_out: FanOut, records: &[(&str, u64, u64)], expected: Expect) {
        let of = |id: &str, rating: u64| (rating > 0).then(|| item(id, rating));
        let items: Vec<_> = records.iter().map(|(id, old, new)| (*id, of(id, *old), of(id, *new))).collect();
        let changes = items.iter().enumerate().map(|(place, (id, old, new))| RecordChange {
            place,
            sequence_number: place.to_string(),
            id: CommentId::parse(id).unwrap(),
            product: ProductId::parse("p").unwrap(),
            old: image(old.as_ref()),
            new: image(new.as_ref()),
            invalid: None,
        });
        let calls = plan_calls(&group_by_primary_item(changes.collect()), fan_out);
        let keys: Vec<_> = calls.iter().flat_map(Call::writes).map(DuplicateWrite::key).collect();
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "a key stands twice");
        let lines = calls.iter().map(|call| {
            let puts = call.writes().iter().filter(|write| matches!(write, DuplicateWrite::Put { .. })).count();
            let comments: BTreeSet<_> = call.writes().iter().map(|write| write.key().id.as_str()).collect();
            let kind = if matches!(call, Call::Batch(_)) { "batch" } else { "transaction" };
            format!("{kind}: {puts} puts, {} deletes of {comments:?}\n", call.writes().len() - puts)
        });
        expected.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn calls_are_filled_across_comments() {
        check(
            FanOut::Batch,
            &[("a", 0, 4), ("b", 0, 1)],
            expect![[r#"
                batch: 25 puts, 0 deletes of {"a"}
                batch: 25 puts, 0 deletes of {"a", "b"}
                batch: 12 puts, 0 deletes of {"b"}
            "#]],
        );
    }

    #[test]
    fn several_records_of_one_comment_become_one_set_of_writes() {
        check(
            FanOut::Batch,
            &[("a", 0, 4), ("a", 4, 5), ("a", 5, 0)],
            expect![[r#"
                batch: 0 puts, 25 deletes of {"a"}
                batch: 0 puts, 22 deletes of {"a"}
            "#]],
        );
    }

    #[test]
    fn nothing_changed_needs_no_call() {
        check(FanOut::Batch, &[], expect![[""]]);
        check(FanOut::Transaction, &[], expect![[""]]);
    }

    #[test]
    fn a_transaction_holds_the_writes_of_one_comment() {
        check(
            FanOut::Transaction,
            &[("a", 0, 4), ("b", 4, 1), ("c", 3, 0)],
            expect![[r#"
            transaction: 31 puts, 0 deletes of {"a"}
            transaction: 31 puts, 16 deletes of {"b"}
            transaction: 0 puts, 31 deletes of {"c"}
        "#]],
        );
    }
}
