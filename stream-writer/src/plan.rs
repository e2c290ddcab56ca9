//! Packs the writes of a batch's comments into calls, each filled across comments. No I/O, no clock, no randomness.
//!
//! **Invariant:** no key occurs twice in the calls for one batch of records, because `model::plan` gives each key once
//! a primary item, and an item's changes are joined first. So the calls may run concurrently and in any order.

use model::{
    plan::{DuplicateWrite, plan_fan_out},
    record::CommentChange,
};
use table::Table;

/// The calls that update the duplicates of all changed comments, each of at most [`Table::BATCH_MAX`] writes. A comment
/// has 31 puts, and a delete for every other key that the batch's images imply.
pub fn plan_calls(changes: &[CommentChange<'_>]) -> Vec<Vec<DuplicateWrite>> {
    let writes: Vec<DuplicateWrite> = changes.iter().flat_map(plan_fan_out).collect();
    writes.chunks(Table::BATCH_MAX).map(<[_]>::to_vec).collect()
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
    fn check(records: &[(&str, u64, u64)], expected: Expect) {
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
        let calls = plan_calls(&group_by_primary_item(changes.collect()));
        let keys: Vec<_> = calls.iter().flatten().map(DuplicateWrite::key).collect();
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "a key stands twice");
        let lines = calls.iter().map(|call| {
            let puts = call.iter().filter(|write| matches!(write, DuplicateWrite::Put { .. })).count();
            let comments: BTreeSet<_> = call.iter().map(|write| write.key().id.as_str()).collect();
            format!("{puts} puts, {} deletes of {comments:?}\n", call.len() - puts)
        });
        expected.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn calls_are_filled_across_comments() {
        check(
            &[("a", 0, 4), ("b", 0, 1)],
            expect![[r#"
                25 puts, 0 deletes of {"a"}
                25 puts, 0 deletes of {"a", "b"}
                12 puts, 0 deletes of {"b"}
            "#]],
        );
    }

    #[test]
    fn nothing_changed_needs_no_call() {
        check(&[], expect![[""]]);
    }
}
