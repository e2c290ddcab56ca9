//! Turns the records of a stream event into changes of comments.

use std::collections::HashMap;

use aws_lambda_events::dynamodb::EventRecord;
use serde_dynamo::Item;

use crate::{
    comment::RankEntry,
    error::Malformed,
    filter::FilterKey,
    id::{CommentId, ProductId},
    item::{Image, attribute, comment_id_of_pk, text},
    planted::{self, Bug},
};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecordChange<'record> {
    sequence_number: String,
    id: CommentId,
    product: ProductId,
    /// The primary item before; `None` when it was absent, unpublished or invalid.
    old: Option<Image<'record>>,
    /// The primary item after; `None` when it is absent, unpublished or invalid.
    new: Option<Image<'record>>,
    /// Why the item after is invalid, if so. Such an item implies no keys, as if it had been
    /// deleted.
    pub(crate) invalid: Option<Malformed>,
}

/// Reads a record.
///
/// `None` for a record that changes nothing for readers: its images are equal or both unpublished,
/// or it belongs to a duplicate, the journal or the repair job's state. (Those reach a handler when
/// a mapping lacks the filter.)
///
/// An item that is unpublished now is a change like a deletion, and its publication one like a
/// creation.
///
/// An item that became invalid is a change like a deletion, with the reason in `invalid`. An item
/// that was already invalid implied nothing before either.
///
/// # Errors
/// The record of a primary item lacks a part that a stream of `NEW_AND_OLD_IMAGES` has, or has an
/// image of a different item than its keys.
pub(crate) fn decode_record(record: &EventRecord) -> Result<Option<RecordChange<'_>>, Malformed> {
    let (Some(pk), Some(sk)) = (
        text(&record.change.keys, attribute::PK),
        text(&record.change.keys, attribute::SK),
    ) else {
        return Err(Malformed::new("record", "it has no keys"));
    };
    if !sk.ends_with(FilterKey::PRIMARY_SUFFIX) {
        return Ok(None);
    }
    let id = comment_id_of_pk(pk)
        .ok_or_else(|| malformed_record(pk, sk, "its pk is not a comment's"))?;
    let Some(sequence_number) = record.change.sequence_number.clone() else {
        return Err(malformed_record(pk, sk, "it has no sequence number"));
    };
    check_images(record, pk, sk)?;
    let old = image(&record.change.old_image).ok().flatten();
    let (new, invalid) = match image(&record.change.new_image) {
        Ok(new) => (new, None),
        Err(invalid) => (None, Some(invalid)),
    };
    if old == new && invalid.is_none() {
        return Ok(None);
    }
    let product = match (old.as_ref().or(new.as_ref()), FilterKey::parse(sk)) {
        (Some(image), _) => image.placement.product.clone(),
        (None, Ok(key)) => key.product,
        (None, Err(error)) => {
            return Err(invalid.unwrap_or_else(|| malformed_record(pk, sk, &error.problem)));
        }
    };
    Ok(Some(RecordChange {
        sequence_number,
        id,
        product,
        old,
        new,
        invalid,
    }))
}

/// Checks that the record has the images of its event, and that they are of the item with this key.
fn check_images(record: &EventRecord, pk: &str, sk: &str) -> Result<(), Malformed> {
    let before = &record.change.old_image;
    let after = &record.change.new_image;
    for item in [before, after] {
        let is_of_key =
            text(item, attribute::PK) == Some(pk) && text(item, attribute::SK) == Some(sk);
        if !item.is_empty() && !is_of_key {
            let problem = "an image is of another item than its keys";
            return Err(malformed_record(pk, sk, problem));
        }
    }
    let are_whole = match record.event_name.as_str() {
        "INSERT" => !after.is_empty(),
        "MODIFY" => !before.is_empty() && !after.is_empty(),
        // A deletion by TTL differs only in its userIdentity.
        "REMOVE" => !before.is_empty() && after.is_empty(),
        _ => {
            let problem = "its event name is not INSERT, MODIFY or REMOVE";
            return Err(malformed_record(pk, sk, problem));
        }
    };
    if !are_whole {
        let problem = "an image is missing: the stream must hold NEW_AND_OLD_IMAGES";
        return Err(malformed_record(pk, sk, problem));
    }
    Ok(())
}

fn malformed_record(pk: &str, sk: &str, problem: &str) -> Malformed {
    Malformed::new("record", format!("pk {pk:?}, sk {sk:?}: {problem}"))
}

/// What readers see of an image of a record; an absent image is an empty item there.
fn image(item: &Item) -> Result<Option<Image<'_>>, Malformed> {
    if item.is_empty() {
        return Ok(None);
    }
    Ok(Some(Image::read(item)?).filter(|image| image.status.is_published()))
}

/// Everything that a batch says about one primary item.
///
/// A comment that was deleted and created again in another product has had two primary items.
/// DynamoDB Streams orders only the records of each item, so the two are handled separately; they
/// have no key in common.
#[derive(Debug, Clone, PartialEq)]
pub struct CommentChange<'record> {
    pub id: CommentId,
    pub product: ProductId,
    /// The sequence number of its first record in the batch: what to report when applying the
    /// change fails.
    pub first_sequence_number: String,
    /// The indexes of its records in the batch, ascending.
    pub record_indexes: Vec<usize>,
    /// The primary item after the last record, `None` when that deleted it, unpublished it or made
    /// it invalid.
    pub last: Option<Image<'record>>,
    /// Every rank entry that any old or new image in the batch implied, each once, ascending.
    pub seen: Vec<RankEntry>,
}

#[derive(Debug, Default)]
pub struct DecodedBatch<'records> {
    /// In the order of the items' first records.
    pub changes: Vec<CommentChange<'records>>,
    /// The records for quarantine: their indexes in the batch, and the reasons. They cannot be
    /// read, or they made an item invalid. The keys that such an item implied before are among the
    /// changes.
    pub malformed: Vec<(usize, Malformed)>,
}

/// The images of every record of an item count as seen, not only those of the first.
fn counts_as_seen(is_first: bool) -> bool {
    is_first || !planted::has(Bug::ForgottenImage)
}

/// A later record of an item overrides an earlier one.
fn decides(is_first: bool) -> bool {
    is_first || !planted::has(Bug::FirstImageWins)
}

/// Reads the records of a batch, and joins them by primary item.
///
/// The records of each item must be in the order of the stream. Records of different items may be
/// in any order.
pub fn decode_batch(records: &[EventRecord]) -> DecodedBatch<'_> {
    let mut malformed = Vec::new();
    let mut by_item: HashMap<(CommentId, ProductId), CommentChange<'_>> =
        HashMap::with_capacity(records.len());
    for (index, record) in records.iter().enumerate() {
        let RecordChange {
            sequence_number,
            id,
            product,
            old,
            new,
            invalid,
        } = match decode_record(record) {
            Ok(Some(change)) => change,
            Ok(None) => continue,
            Err(error) => {
                malformed.push((index, error));
                continue;
            }
        };
        malformed.extend(invalid.map(|invalid| (index, invalid)));
        let images = [&old, &new].into_iter().flatten();
        let seen: Vec<RankEntry> = images.map(Image::entry).collect();
        let change = by_item
            .entry((id.clone(), product.clone()))
            .or_insert_with(|| CommentChange {
                id,
                product,
                first_sequence_number: sequence_number,
                record_indexes: Vec::new(),
                last: None,
                seen: Vec::new(),
            });
        let is_first = change.record_indexes.is_empty();
        change.record_indexes.push(index);
        if counts_as_seen(is_first) {
            change.seen.extend(seen);
        }
        if decides(is_first) {
            change.last = new;
        }
    }
    let mut changes: Vec<CommentChange<'_>> = by_item.into_values().collect();
    changes.sort_by(|one, other| one.record_indexes.cmp(&other.record_indexes));
    for change in &mut changes {
        change.seen.sort();
        change.seen.dedup();
    }
    DecodedBatch { changes, malformed }
}
