//! The published prices.

use serde::Deserialize;

/// Hours in a month, by AWS's convention.
pub(super) const HOURS_A_MONTH: f64 = 730.0;
/// The share of a node's memory that data may take: ElastiCache reserves a quarter.
const NODE_MEMORY_USABLE: f64 = 0.75;
/// A shard has a node and its replica.
const NODES_A_SHARD: f64 = 2.0;
const GIB: f64 = 1_073_741_824.0;

/// The prices of one region.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prices {
    pub(crate) region: String,
    pub(crate) currency: String,
    /// The day of the look-up.
    pub(crate) looked_up: String,
    /// A note that applies to all prices.
    pub(crate) note: String,
    pub(crate) million_read_units: Price,
    pub(crate) million_write_units: Price,
    /// Storage of table and indexes. A GB has 1,000,000,000 bytes.
    pub(crate) storage_gb_month: Price,
    /// Point-in-time recovery of the table.
    pub(crate) backup_gb_month: Price,
    /// Stream reads by Lambda.
    pub(crate) million_stream_reads: Price,
    pub(crate) million_function_requests: Price,
    pub(crate) function_gb_second: Price,
    pub(crate) redis_node_hours: RedisNodes,
}

/// One price, and where it was found.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Price {
    pub(crate) usd: f64,
    /// The URL of the source.
    pub(crate) source: String,
    /// The text found there, and its age.
    pub(crate) found: String,
}

/// The nodes that Redis may run on.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedisNodes {
    pub(crate) source: String,
    pub(crate) found: String,
    /// Ordered by size, the smallest first.
    pub(crate) nodes: Vec<RedisNode>,
}

/// A kind of node.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedisNode {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) memory_gib: f64,
    /// Price per hour.
    pub(crate) usd: f64,
}

impl Prices {
    /// The prices of `bench/prices.json` at build time.
    ///
    /// # Errors
    /// When the file is invalid.
    pub(crate) fn published() -> serde_json::Result<Self> {
        serde_json::from_str(include_str!("../../prices.json"))
    }

    /// The monthly cost of Redis for this amount of data. It takes the smallest node that holds the data, with its
    /// replica. If no node does, it takes several shards of the largest node. Without data the cost is zero, because
    /// such a design has no Redis.
    pub(super) fn redis_month_usd(&self, bytes: f64) -> f64 {
        if bytes <= 0.0 {
            return 0.0;
        }
        let shards = |node: &RedisNode| (bytes / NODE_MEMORY_USABLE / (node.memory_gib * GIB)).ceil();
        let nodes = &self.redis_node_hours.nodes;
        let node = nodes.iter().find(|node| shards(node) <= 1.0).or(nodes.last());
        node.map_or(f64::NAN, |node| shards(node) * NODES_A_SHARD * node.usd * HOURS_A_MONTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_price_says_where_and_when_it_was_found() {
        let prices = Prices::published().unwrap();
        let all = [
            &prices.million_read_units,
            &prices.million_write_units,
            &prices.storage_gb_month,
            &prices.backup_gb_month,
            &prices.million_stream_reads,
            &prices.million_function_requests,
            &prices.function_gb_second,
        ];
        for price in all {
            assert!(price.source.starts_with("https://") && !price.found.is_empty(), "{price:?}");
            assert!(price.usd >= 0.0, "{price:?}");
        }
        assert!(!prices.redis_node_hours.source.is_empty() && !prices.redis_node_hours.found.is_empty());
        assert!(prices.redis_node_hours.nodes.is_sorted_by(|a, b| a.memory_gib < b.memory_gib && a.usd < b.usd));
        assert!(!prices.region.is_empty() && !prices.looked_up.is_empty());
        assert!(prices.currency.starts_with("USD") && !prices.note.is_empty());
    }

    #[test]
    fn redis_takes_the_smallest_nodes_that_hold_the_data_and_shards_beyond() {
        let prices = Prices::published().unwrap();
        for (bytes, hourly_usd) in [
            (0.0, 0.0),
            (1.0, 2.0 * 0.0256),
            // A million comments: 0.6 GB of 1.37 GiB.
            (454e6, 2.0 * 0.0256),
            // Just above three quarters of 1.37 GiB.
            (1.104e9, 2.0 * 0.1264),
            (4.54e9, 2.0 * 0.1264),
            (227e9, 2.0 * 5.5848),
            (454e9, 2.0 * 2.0 * 5.5848),
        ] {
            let month_usd = prices.redis_month_usd(bytes);
            assert!((month_usd - hourly_usd * 730.0).abs() < 1e-9, "{bytes}: {month_usd}");
        }
    }
}
