//! The published prices.

use anyhow::{Context, ensure};
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
    currency: String,
    pub(crate) looked_up: String,
    pub(crate) million_read_units: Price,
    pub(crate) million_write_units: Price,
    pub(crate) storage_gb_month: Price,
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
struct RedisNodes {
    /// Ordered by size, the smallest first.
    nodes: Vec<RedisNode>,
}

#[derive(Debug, Clone, Deserialize)]
struct RedisNode {
    memory_gib: f64,
    usd: f64,
}

impl Prices {
    pub(crate) fn published() -> anyhow::Result<Self> {
        Self::parse(PRICES).context("bench/prices.json")
    }

    /// An error names the price that is missing, no number, or below zero.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut prices: Self = serde_json::from_str(text)?;
        ensure!(prices.currency.starts_with("USD"), "currency: {:?} does not begin with USD", prices.currency);
        for (name, usd) in prices.each() {
            ensure!(usd >= 0.0, "{name}: the price is {usd}, below zero");
        }
        let nodes = &mut prices.redis_node_hours.nodes;
        ensure!(!nodes.is_empty(), "redis_node_hours.nodes: there is no node");
        ensure!(nodes.iter().all(|node| node.memory_gib > 0.0), "redis_node_hours.nodes: a node has no memory_gib");
        nodes.sort_by(|a, b| a.memory_gib.total_cmp(&b.memory_gib));
        Ok(prices)
    }

    fn each(&self) -> impl Iterator<Item = (String, f64)> {
        let prices = [
            ("million_read_units", &self.million_read_units),
            ("million_write_units", &self.million_write_units),
            ("storage_gb_month", &self.storage_gb_month),
            ("backup_gb_month", &self.backup_gb_month),
            ("million_stream_reads", &self.million_stream_reads),
            ("million_function_requests", &self.million_function_requests),
            ("function_gb_second", &self.function_gb_second),
        ];
        let nodes = self.redis_node_hours.nodes.iter().enumerate();
        let nodes = nodes.map(|(place, node)| (format!("redis_node_hours.nodes[{place}]"), node.usd));
        prices.into_iter().map(|(name, price)| (name.to_owned(), price.usd)).chain(nodes)
    }

    /// The monthly cost of Redis for this amount of data. It takes the smallest node that holds the data, with its
    /// replica. If no node does, it takes several shards of the largest node.
    pub(super) fn redis_month_usd(&self, bytes: f64) -> f64 {
        let shards = |node: &RedisNode| (bytes / NODE_MEMORY_USABLE / (node.memory_gib * GIB)).ceil().max(1.0);
        let nodes = &self.redis_node_hours.nodes;
        let node = nodes.iter().find(|node| shards(node) <= 1.0).or(nodes.last());
        node.map_or(f64::NAN, |node| shards(node) * NODES_A_SHARD * node.usd * HOURS_A_MONTH)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_published_price_says_where_it_was_found() {
        let file: Value = serde_json::from_str(PRICES).unwrap();
        for price in file.as_object().unwrap().values().filter(|value| value.is_object()) {
            assert!(["source", "found"].iter().all(|name| price[name].as_str().is_some()), "{price}");
        }
    }

    #[test]
    fn redis_takes_the_smallest_nodes_that_hold_the_data_and_shards_beyond() {
        let prices = Prices::published().unwrap();
        for (bytes, hourly_usd) in [
            (1.0, 2.0 * 0.0256),
            // Just above three quarters of 1.37 GiB.
            (1.104e9, 2.0 * 0.1264),
            (454e9, 2.0 * 2.0 * 5.5848),
        ] {
            let month_usd = prices.redis_month_usd(bytes);
            assert!((month_usd - hourly_usd * 730.0).abs() < 1e-9, "{bytes}: {month_usd}");
        }
    }

    #[test]
    fn a_file_without_a_price_or_with_a_negative_one_names_the_price() {
        let refused = |change: &dyn Fn(&mut Value)| {
            let mut file: Value = serde_json::from_str(PRICES).unwrap();
            change(&mut file);
            Prices::parse(&file.to_string()).unwrap_err().to_string()
        };
        let published = Prices::published().unwrap();
        for name in published.each().map(|(name, _)| name).filter(|name| !name.contains('[')) {
            let missing = refused(&|file| drop(file.as_object_mut().unwrap().remove(&name)));
            assert!(missing.contains(&name), "{missing}");
            let negative = refused(&|file| file[&name] = json!({ "usd": -0.01 }));
            assert!(negative.contains(&name), "{negative}");
        }
        let negative = refused(&|file| file["redis_node_hours"]["nodes"][1]["usd"] = json!(-1));
        assert_eq!(negative, "redis_node_hours.nodes[1]: the price is -1, below zero");
        let none = refused(&|file| file["redis_node_hours"]["nodes"] = json!([]));
        assert_eq!(none, "redis_node_hours.nodes: there is no node");
        assert!(refused(&|file| file["currency"] = json!("EUR")).contains("EUR"));
    }
}
