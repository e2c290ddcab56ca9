//! The published prices.

use anyhow::Context;
use serde::Deserialize;

const PRICES: &str = include_str!("../../prices.json");
/// Hours in a month, by AWS's convention.
const HOURS_A_MONTH: f64 = 730.0;
/// A shard has a node and its replica.
const NODES_A_SHARD: f64 = 2.0;
const GIB: f64 = 1_073_741_824.0;

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Prices {
    pub(crate) region: String,
    pub(crate) looked_up: String,
    table_classes: TableClasses,
    pub(crate) backup_gb_month: Price,
    pub(crate) million_stream_reads: Price,
    pub(crate) million_function_requests: Price,
    pub(crate) function_gb_second: Price,
    redis_node_hours: RedisNodes,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Price {
    pub(crate) usd: f64,
}

#[derive(Debug, Clone, Deserialize)]
struct TableClasses {
    classes: Vec<TableClass>,
}

/// What a table of a class costs, in US dollars.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TableClass {
    pub(crate) name: String,
    pub(crate) million_read_units: f64,
    pub(crate) million_write_units: f64,
    pub(crate) storage_gb_month: f64,
}

#[derive(Debug, Clone, Deserialize)]
struct RedisNodes {
    /// The smallest first.
    nodes: Vec<RedisNode>,
}

#[derive(Debug, Clone, Deserialize)]
struct RedisNode {
    memory_gib: f64,
    /// The share of the memory that data may take.
    usable: f64,
    usd: f64,
}

impl Prices {
    pub(crate) fn published() -> anyhow::Result<Self> {
        serde_json::from_str(PRICES).context("bench/prices.json")
    }

    pub(crate) fn table_classes(&self) -> &[TableClass] {
        &self.table_classes.classes
    }

    /// The monthly cost of Redis for this amount of data. It takes the smallest node that holds the
    /// data, with its replica. If no node does, it takes several shards of the largest node.
    pub(super) fn redis_month_usd(&self, bytes: f64) -> f64 {
        let nodes = &self.redis_node_hours.nodes;
        let smallest = nodes.iter().find(|node| node.shards(bytes) <= 1.0);
        match smallest.or(nodes.last()) {
            Some(node) => node.shards(bytes) * NODES_A_SHARD * node.usd * HOURS_A_MONTH,
            None => f64::NAN,
        }
    }
}

impl RedisNode {
    /// How many shards of such nodes hold the data.
    fn shards(&self, bytes: f64) -> f64 {
        let nodes = bytes / self.usable / (self.memory_gib * GIB);
        nodes.ceil().max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_published_price_says_where_it_was_found() {
        let file: Value = serde_json::from_str(PRICES).unwrap();
        for price in file
            .as_object()
            .unwrap()
            .values()
            .filter(|value| value.is_object())
        {
            assert!(
                ["source", "found"]
                    .iter()
                    .all(|name| price[name].as_str().is_some()),
                "{price}"
            );
        }
        let nodes = Prices::published().unwrap().redis_node_hours.nodes;
        assert!(nodes.is_sorted_by(|a, b| 0.0 < a.memory_gib && a.memory_gib < b.memory_gib));
    }

    #[test]
    fn redis_takes_the_smallest_nodes_that_hold_the_data_and_shards_beyond() {
        let prices = Prices::published().unwrap();
        // Just above 70 % of 1.37 GiB, above three quarters of 3.09, then beyond the largest node.
        for (bytes, hourly_usd) in [
            (1.0, 2.0 * 0.0256),
            (1.030e9, 2.0 * 0.052),
            (2.489e9, 2.0 * 0.1264),
            (454e9, 2.0 * 2.0 * 5.5848),
        ] {
            let month_usd = prices.redis_month_usd(bytes);
            assert!(
                (month_usd - hourly_usd * 730.0).abs() < 1e-9,
                "{bytes}: {month_usd}"
            );
        }
    }
}
