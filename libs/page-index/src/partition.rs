//! The partitions of a page index.

use model::ProductId;
use serde::{Deserialize, Serialize};

/// One of the fixed number of parts that a page index is split into by a hash of the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct IndexPartition(u16);

impl IndexPartition {
    pub fn of(product: &ProductId, count: u16) -> Self {
        let hash = crc32fast::hash(product.as_str().as_bytes());
        Self(u16::try_from(hash % u32::from(count.max(1))).unwrap_or(0))
    }

    pub fn number(self) -> u16 {
        self.0
    }

    pub fn all(count: u16) -> impl Iterator<Item = Self> {
        (0..count.max(1)).map(Self)
    }

    pub fn numbered(number: u16, count: u16) -> Option<Self> {
        (number < count.max(1)).then_some(Self(number))
    }
}
