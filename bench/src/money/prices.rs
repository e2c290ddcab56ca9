//! The published prices.

use serde::Deserialize;

const PRICES: &str = include_str!("../../prices.json");
/// Hours in a month, by AWS's convention.
const HOURS_A_MONTH: f64 = 730.0;
/// The share of a node's memory that data may take: ElastiCache reserves a quarter.
const NODE_MEMORY_USABLE: f64 = 0.75;
/// A shard has a node and its replica.
const NODES_A_SHARD: f64 = 2.0;
const GIB: f64 = 1_073_741_824.0;

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Prices {
    pub(crate) region: String,
    pub(crate) looked_up: String,
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
    redis_node_hours: RedisNodes,
}

/// One price. The file also says where it was found, for people.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Price {
    pub(crate) usd: f64,
}

/// The nodes that Redis may run on.
#[derive(Debug, Clone, Deserialize)]
struct RedisNodes {
    /// Ordered by size, the smallest first.
    nodes: Vec<RedisNode>,
}

#[derive(Debug, Clone, Deserialize)]
struct RedisNode {
    memory_gib: f64,
    /// Price per hour.
    usd: f64,
}

impl Prices {
    /// The prices of `bench/prices.json` at build time.
    ///
    /// # Errors
    /// When the file is invalid.
    pub(crate) fn published() -> serde_json::Result<Self> {
        serde_json::from_str(PRICES)
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
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_published_price_says_where_and_when_it_was_found() {
        let file: Value = serde_json::from_str(PRICES).unwrap();
        let text = |of: &Value, name: &str| of[name].as_str().unwrap_or_default().to_owned();
        assert!(["region", "looked_up", "note"].iter().all(|name| !text(&file, name).is_empty()), "{file}");
        assert!(text(&file, "currency").starts_with("USD"), "{file}");
        let prices = file.as_object().unwrap().values().filter(|value| value.is_object());
        for price in prices {
            assert!(!text(price, "source").is_empty() && !text(price, "found").is_empty(), "{price}");
            let is_priced = price["usd"].as_f64().is_some_and(|usd| usd >= 0.0);
            assert!(price["nodes"].is_array() || is_priced && text(price, "source").starts_with("https://"), "{price}");
        }
        let nodes = Prices::published().unwrap().redis_node_hours.nodes;
        assert!(nodes.is_sorted_by(|a, b| a.memory_gib < b.memory_gib && a.usd < b.usd));
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
