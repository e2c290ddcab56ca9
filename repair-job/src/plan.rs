//! Decides what a rebuild writes. No I/O, no clock, no randomness.

use std::collections::BTreeMap;

use model::{
    CommentId, Placement,
    item::{Image, attribute},
    journal::JournalEntry,
    plan::{IndexEdit, index_edits},
};
use serde_dynamo::{AttributeValue, Item};

/// What a scanned item means to a rebuild.
#[derive(Debug, PartialEq)]
pub(crate) enum Scanned {
    /// A primary item: the comment is to be a member of its base sets.
    Member(Vec<IndexEdit>),
    /// Anything else that the table holds.
    Other,
    /// A primary item that cannot be read; a person has to look. The text names it.
    Unresolved(String),
}

/// Reads a scanned item.
pub(crate) fn plan_item(item: Item) -> Scanned {
    let text = |name: &str| match item.get(name) {
        Some(AttributeValue::S(text)) => text.clone(),
        _ => String::new(),
    };
    let key = (text(attribute::PK), text(attribute::SK));
    if !key.1.ends_with(model::FilterKey::PRIMARY_SUFFIX) {
        return Scanned::Other;
    }
    match Image::of_primary(&item) {
        Ok(image) => Scanned::Member(index_edits(&image.id, Some((&image.placement, image.created_at)), &[])),
        Err(malformed) => Scanned::Unresolved(format!("{} {}: {malformed}", key.0, key.1)),
    }
}

/// The comments that journal entries name, with every placement that they name.
pub(crate) fn changed_comments(entries: Vec<JournalEntry>) -> BTreeMap<CommentId, Vec<Placement>> {
    let mut changed: BTreeMap<CommentId, Vec<Placement>> = BTreeMap::new();
    for entry in entries {
        let placements = changed.entry(entry.id.clone()).or_default();
        placements.extend(entry.placements().cloned());
        placements.sort();
        placements.dedup();
    }
    changed
}
