//! The sparse index `primaries`: primary items only, in the order of products and, within a
//! product, of creation.
//!
//! A primary item has the index's two keys as attributes. Its duplicates leave them out, so the
//! index does not hold them. A rebuild of the page index reads nothing else.
//!
//! **Invariant:** every valid primary item is in the index, once, under the key that its product
//! and time imply. An item without the right key is invalid (ADR 40, ADR 47).

use crate::{comment::Cd, id::ProductId, item::attribute};

/// Number of partition keys of the index. A rebuild reads as many in parallel as its options say. A
/// partition of an index takes 1,000 write units a second, so 64 shards take any load that the
/// table's own keys take (AWS: "Best practices for designing and using partition keys
/// effectively").
pub const PRIMARIES_SHARDS: u32 = 64;

/// The attributes that key the index. Only primary items have them.
pub const PRIMARIES_KEYS: [&str; 2] = [attribute::SHARD, attribute::PCD];

/// The attributes that the index holds besides all keys: those that ranks need, and those that tell
/// an invalid item. The text is not among them, so the index cannot tell that a text is unreadable.
pub const PRIMARIES_PROJECTED: [&str; 5] = [
    attribute::CD,
    attribute::LANGUAGE,
    attribute::RATING,
    attribute::REVISION,
    attribute::AUTO,
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrimariesKey {
    pub shard: String,
    pub pcd: String,
}

impl PrimariesKey {
    pub fn of(product: &ProductId, cd: &Cd) -> Self {
        Self {
            shard: primaries_shard(Self::shard_of(product)),
            pcd: format!("{}#{cd}", product.escaped()),
        }
    }

    pub fn shard_of(product: &ProductId) -> u32 {
        crc32fast::hash(product.as_str().as_bytes()) % PRIMARIES_SHARDS
    }
}

pub fn primaries_shard(number: u32) -> String {
    format!("{number:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        id::CommentId,
        item::{
            CommentItem, NoBlob, placed_of_entry,
            tests::{comment, placed, primary_item},
        },
        timestamp::Timestamp,
    };

    fn key(product: &str, id: &str) -> PrimariesKey {
        let cd = Cd {
            created_at: Timestamp::MAX,
            id: CommentId::parse(id).unwrap(),
        };
        PrimariesKey::of(&ProductId::parse(product).unwrap(), &cd)
    }

    #[test]
    fn a_key_names_product_and_creation_within_the_limit_of_an_index_key() {
        let expected = PrimariesKey {
            shard: "28".to_owned(),
            pcd: format!("a%2Fb#{}#c1", Timestamp::MAX),
        };
        assert_eq!(key("a/b", "c1"), expected);
        for widest in ["😀", "/"] {
            let longest = key(
                &widest.repeat(ProductId::MAX_CHARS),
                &"c".repeat(CommentId::MAX_LEN),
            );
            assert!(longest.pcd.len() <= 1024, "{}", longest.pcd.len());
        }
    }

    #[test]
    fn products_use_every_shard() {
        let used: std::collections::BTreeSet<String> = (0..2_000)
            .map(|number: u32| key(&number.to_string(), "c").shard)
            .collect();
        assert!(
            used.into_iter()
                .eq((0..PRIMARIES_SHARDS).map(primaries_shard))
        );
    }

    #[test]
    fn an_entry_gives_the_comment_that_its_item_gives() {
        let comment = comment("c1", "a/b", "en", 4);
        let keys = PRIMARIES_KEYS
            .into_iter()
            .chain([attribute::PK, attribute::SK]);
        let held: Vec<&str> = keys.chain(PRIMARIES_PROJECTED).collect();
        let mut entry = primary_item(&comment).into_inner();
        entry.retain(|name, _| held.contains(&name.as_str()));
        let entry = serde_dynamo::Item::from(entry);
        let typed: CommentItem<NoBlob> = serde_dynamo::from_item(entry.clone()).unwrap();
        assert_eq!(typed.placed(), Ok(placed(&comment)));
        assert_eq!(placed_of_entry(&entry), Ok(placed(&comment)));
        assert!(
            serde_dynamo::from_item::<_, CommentItem>(entry).is_err(),
            "it has no text"
        );
    }
}
