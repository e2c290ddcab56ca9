//! The definition of the table. The deployment template repeats it; `tests/template` compares the two.
//!
//! The functions that build a part of it never fail in practice: everything is given.

use aws_sdk_dynamodb::{
    error::BuildError,
    types::{
        AttributeDefinition, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection, ProjectionType,
        ScalarAttributeType,
    },
};
use model::{
    item::{UNPUBLISHED_KEYS, attribute},
    primaries::{PRIMARIES_KEYS, PRIMARIES_PROJECTED},
};

/// Name of the index. Its partition key is `sk`, its sort key is `cd`, and it projects every attribute.
pub const GSI: &str = "gsi";

/// Name of the sparse index of primary items. Its partition key is `shard`, its sort key is `pcd`, and it projects what
/// ranks need ([`model::primaries`]).
pub const PRIMARIES: &str = "primaries";

/// Name of the sparse index of authors. Its partition key is `author_id`, its sort key is `pk`, and it projects keys only.
/// The sort key is neither the creation time nor anything else that a primary item may lack.
pub const AUTHORS: &str = "authors";

/// Name of the sparse index of unpublished primary items. Its partition key is `unpublished`, the status, and its sort key
/// `unpublished_cd`. It projects every attribute, because moderators read the comments there
/// ([`model::item::UNPUBLISHED_KEYS`]).
pub const MODERATION: &str = "moderation";

pub fn attribute_definitions() -> Result<Vec<AttributeDefinition>, BuildError> {
    let text =
        |name: &str| AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S).build();
    let of_table_and_gsi = [attribute::PK, attribute::SK, attribute::CD];
    of_table_and_gsi
        .into_iter()
        .chain(PRIMARIES_KEYS)
        .chain([attribute::AUTHOR_ID])
        .chain(UNPUBLISHED_KEYS)
        .map(text)
        .collect()
}

pub fn key_schema(hash: &str, range: &str) -> Result<Vec<KeySchemaElement>, BuildError> {
    let key = |name: &str, kind: KeyType| KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
    Ok(vec![key(hash, KeyType::Hash)?, key(range, KeyType::Range)?])
}

pub fn gsi() -> Result<GlobalSecondaryIndex, BuildError> {
    GlobalSecondaryIndex::builder()
        .index_name(GSI)
        .set_key_schema(Some(key_schema(attribute::SK, attribute::CD)?))
        .projection(Projection::builder().projection_type(ProjectionType::All).build())
        .build()
}

pub fn primaries() -> Result<GlobalSecondaryIndex, BuildError> {
    let projection = Projection::builder()
        .projection_type(ProjectionType::Include)
        .set_non_key_attributes(Some(PRIMARIES_PROJECTED.map(str::to_owned).into()))
        .build();
    GlobalSecondaryIndex::builder()
        .index_name(PRIMARIES)
        .set_key_schema(Some(key_schema(attribute::SHARD, attribute::PCD)?))
        .projection(projection)
        .build()
}

pub fn authors() -> Result<GlobalSecondaryIndex, BuildError> {
    GlobalSecondaryIndex::builder()
        .index_name(AUTHORS)
        .set_key_schema(Some(key_schema(attribute::AUTHOR_ID, attribute::PK)?))
        .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
        .build()
}

pub fn moderation() -> Result<GlobalSecondaryIndex, BuildError> {
    GlobalSecondaryIndex::builder()
        .index_name(MODERATION)
        .set_key_schema(Some(key_schema(attribute::UNPUBLISHED, attribute::UNPUBLISHED_CD)?))
        .projection(Projection::builder().projection_type(ProjectionType::All).build())
        .build()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDescription {
    /// The table's id from AWS: a restored or re-created table of the same name has another id. For an engine without
    /// ids: the name and the creation time.
    pub id: String,
    pub stream_arn: Option<String>,
    /// Approximate number of items. AWS updates it every six hours.
    pub items: u64,
}
