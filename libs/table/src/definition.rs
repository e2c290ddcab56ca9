//! The definition of the table. The deployment template repeats it; `tests/deployment/template`
//! compares the two.
//!
//! The functions that build a part of it never fail in practice: everything is given.

use aws_sdk_dynamodb::{
    error::BuildError,
    types::{
        AttributeDefinition, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
        ProjectionType, ScalarAttributeType,
    },
};
use itertools::Itertools;
use model::{
    item::{UNPUBLISHED_KEYS, attribute},
    primaries::{PRIMARIES_KEYS, PRIMARIES_PROJECTED},
};

/// Name of the index. Its partition key is `sk`, its sort key is `cd`, and it projects every
/// attribute.
pub const GSI: &str = "gsi";

/// Name of the sparse index of primary items. Its partition key is `shard`, its sort key is `pcd`,
/// and it projects what ranks need ([`model::primaries`]).
pub const PRIMARIES: &str = "primaries";

/// Name of the sparse index of authors. Its partition key is `author_id`, its sort key is `pk`, and
/// it projects keys only. The sort key is neither the creation time nor anything else that a
/// primary item may lack.
pub const AUTHORS: &str = "authors";

/// Name of the sparse index of unpublished primary items. Its partition key is `unpublished`, the
/// status, and its sort key `unpublished_cd`. It projects every attribute, because moderators read
/// the comments there ([`model::item::UNPUBLISHED_KEYS`]).
pub const MODERATION: &str = "moderation";

/// The indexes with their partition and sort keys, the one that pages are read from first. An item
/// without both is not in the index.
pub(crate) const INDEX_KEYS: [(&str, [&str; 2]); 4] = [
    (GSI, [attribute::SK, attribute::CD]),
    (PRIMARIES, PRIMARIES_KEYS),
    (AUTHORS, [attribute::AUTHOR_ID, attribute::PK]),
    (MODERATION, UNPUBLISHED_KEYS),
];

pub fn attribute_definitions() -> Result<Vec<AttributeDefinition>, BuildError> {
    let of_indexes = INDEX_KEYS.into_iter().flat_map(|(_, keys)| keys);
    let mut definitions = Vec::new();
    for name in [attribute::PK].into_iter().chain(of_indexes).unique() {
        let definition = AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::S)
            .build()?;
        definitions.push(definition);
    }
    Ok(definitions)
}

pub fn key_schema(hash: &str, range: &str) -> Result<Vec<KeySchemaElement>, BuildError> {
    Ok(vec![
        key_element(hash, KeyType::Hash)?,
        key_element(range, KeyType::Range)?,
    ])
}

fn key_element(name: &str, kind: KeyType) -> Result<KeySchemaElement, BuildError> {
    KeySchemaElement::builder()
        .attribute_name(name)
        .key_type(kind)
        .build()
}

pub fn indexes() -> Result<Vec<GlobalSecondaryIndex>, BuildError> {
    let mut indexes = Vec::new();
    for (name, keys) in INDEX_KEYS {
        let projection = match name {
            PRIMARIES => Projection::builder()
                .projection_type(ProjectionType::Include)
                .set_non_key_attributes(Some(PRIMARIES_PROJECTED.map(str::to_owned).into()))
                .build(),
            AUTHORS => projection(ProjectionType::KeysOnly),
            _ => projection(ProjectionType::All),
        };
        indexes.push(index(name, keys, projection)?);
    }
    Ok(indexes)
}

fn index(
    name: &str,
    [hash, range]: [&str; 2],
    projection: Projection,
) -> Result<GlobalSecondaryIndex, BuildError> {
    GlobalSecondaryIndex::builder()
        .index_name(name)
        .set_key_schema(Some(key_schema(hash, range)?))
        .projection(projection)
        .build()
}

fn projection(kind: ProjectionType) -> Projection {
    Projection::builder().projection_type(kind).build()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDescription {
    /// The table's id from AWS: a restored or re-created table of the same name has another id. For
    /// an engine without ids: the name and the creation time.
    pub id: String,
    pub stream_arn: Option<String>,
    /// Approximate number of items. AWS updates it every six hours.
    pub items: u64,
    /// Whether the table and its indexes can be used.
    pub is_active: bool,
}
