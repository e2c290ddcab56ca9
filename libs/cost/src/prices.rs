//! The published prices.

use anyhow::Context;
use serde::Deserialize;

use crate::MILLION;

const PRICES: &str = include_str!("../prices.json");
/// Hours in a month, by AWS's convention.
const HOURS_A_MONTH: f64 = 730.0;
const SECONDS_AN_HOUR: f64 = 3_600.0;
/// A shard has a node and its replica.
const NODES_A_SHARD: f64 = 2.0;
/// The alarm comes when this share of a node's usable memory is full.
const MEMORY_FULL_AT: f64 = 0.75;
const GIB: f64 = 1_073_741_824.0;
const GB: f64 = 1e9;

#[derive(Debug, Clone, Deserialize)]
pub struct Prices {
    pub region: String,
    pub looked_up: String,
    table_classes: TableClasses,
    provisioned_capacity: ProvisionedCapacity,
    pub(crate) backup_gb_month: Price,
    pub(crate) million_function_requests: Price,
    pub(crate) function_gb_second: Price,
    redis_node_hours: RedisNodes,
    pub(crate) redis_serverless: RedisServerless,
    pub(crate) deployment: Deployment,
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
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TableClass {
    pub name: String,
    pub million_read_units: f64,
    pub million_write_units: f64,
    pub(crate) storage_gb_month: f64,
}

/// Units that are paid by the hour, used or not.
#[derive(Debug, Clone, Deserialize)]
struct ProvisionedCapacity {
    /// The class of table for which these prices are known.
    class: String,
    read_unit_hour: f64,
    write_unit_hour: f64,
    share_if_reserved_for_a_year: f64,
    reserved_block_units: f64,
}

#[derive(Debug, Clone, Deserialize)]
struct RedisNodes {
    nodes: Vec<RedisNode>,
}

#[derive(Debug, Clone, Deserialize)]
struct RedisNode {
    #[serde(rename = "type")]
    name: String,
    memory_gib: f64,
    /// The share of the memory that data may take.
    usable: f64,
    usd: f64,
}

/// So many shards of nodes of a type.
#[derive(Debug, Clone, PartialEq)]
pub struct RedisCluster {
    pub node: String,
    pub shards: f64,
    pub month_usd: f64,
}

/// Valkey without nodes: paid by its data, and by ECPUs, the units of what its commands take.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RedisServerless {
    gb_hour: f64,
    gb_min: f64,
    million_ecpus: f64,
}

/// What a deployment needs beside the data.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Deployment {
    pub(crate) needs: Vec<Need>,
    pub(crate) needs_of_a_million_comments: Vec<Need>,
    pub(crate) needs_of_a_million_views: Vec<Need>,
}

/// US dollars a month for each kind of stack.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Need {
    pub(crate) what: String,
    pub(crate) price: String,
    pagemark: f64,
    page_index: f64,
    table_alone: f64,
}

/// What a design consists of beside the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stack {
    #[default]
    TableAlone,
    /// The table, Redis, and one function between them; a repair job.
    PageIndex,
    /// The function that writes duplicates as well.
    Pagemark,
}

impl Prices {
    pub fn published() -> anyhow::Result<Self> {
        serde_json::from_str(PRICES).context("libs/cost/prices.json")
    }

    /// Those of tables on demand.
    pub fn table_classes(&self) -> &[TableClass] {
        &self.table_classes.classes
    }

    /// The class of table whose provisioned capacity has known prices.
    pub(crate) fn class_of_provisioned(&self) -> Option<&TableClass> {
        let mut classes = self.table_classes().iter();
        classes.find(|class| class.name == self.provisioned_capacity.class)
    }

    /// Provisioned capacity of so many times the mean use, for a table of a class.
    pub(crate) fn provisioned(&self, class: &TableClass, times_the_mean: f64) -> TableClass {
        let capacity = &self.provisioned_capacity;
        // A unit that is there for an hour is one a second.
        let units = MILLION / SECONDS_AN_HOUR * times_the_mean;
        TableClass {
            name: "provisioned".to_owned(),
            million_read_units: units * capacity.read_unit_hour,
            million_write_units: units * capacity.write_unit_hour,
            storage_gb_month: class.storage_gb_month,
        }
    }

    /// The same, with reads, writes or both reserved for a year: whichever are enough to be reserved.
    /// `None` if neither are. Units are those of a month.
    pub(crate) fn reserved(
        &self,
        provisioned: &TableClass,
        [reads, writes]: [f64; 2],
        times_the_mean: f64,
    ) -> Option<TableClass> {
        let read_share = self.share_if_reserved(reads, times_the_mean);
        let write_share = self.share_if_reserved(writes, times_the_mean);
        let name = match (read_share, write_share) {
            (None, None) => return None,
            (Some(_), None) => "reads reserved",
            (None, Some(_)) => "writes reserved",
            (Some(_), Some(_)) => "reserved",
        };
        Some(TableClass {
            name: name.to_owned(),
            million_read_units: provisioned.million_read_units * read_share.unwrap_or(1.0),
            million_write_units: provisioned.million_write_units * write_share.unwrap_or(1.0),
            storage_gb_month: provisioned.storage_gb_month,
        })
    }

    /// What part of the price is left if so many units of a month are reserved; `None` if they are
    /// less than a block.
    fn share_if_reserved(&self, units: f64, times_the_mean: f64) -> Option<f64> {
        let capacity = &self.provisioned_capacity;
        let a_second = units / HOURS_A_MONTH / SECONDS_AN_HOUR * times_the_mean;
        (a_second >= capacity.reserved_block_units).then_some(capacity.share_if_reserved_for_a_year)
    }

    /// The cheapest nodes of one type that hold this amount of data, each with its replica.
    pub(crate) fn redis_cluster(&self, bytes: f64) -> anyhow::Result<RedisCluster> {
        let mut cheapest: Option<RedisCluster> = None;
        for node in &self.redis_node_hours.nodes {
            let shards = node.shards(bytes);
            let cluster = RedisCluster {
                node: node.name.clone(),
                shards,
                month_usd: shards * NODES_A_SHARD * node.usd * HOURS_A_MONTH,
            };
            if cheapest
                .as_ref()
                .is_none_or(|other| cluster.month_usd < other.month_usd)
            {
                cheapest = Some(cluster);
            }
        }
        cheapest.context("a node of Redis")
    }
}

impl RedisNode {
    /// How many shards of such nodes hold the data.
    fn shards(&self, bytes: f64) -> f64 {
        let nodes = bytes / self.usable / MEMORY_FULL_AT / (self.memory_gib * GIB);
        nodes.ceil().max(1.0)
    }
}

impl RedisServerless {
    pub(crate) fn month_usd(&self, bytes: f64, ecpus: f64) -> f64 {
        let gb = (bytes / GB).max(self.gb_min);
        gb * self.gb_hour * HOURS_A_MONTH + ecpus / MILLION * self.million_ecpus
    }
}

impl Deployment {
    pub(crate) fn month_usd(&self, stack: Stack, comments: f64, views: f64) -> f64 {
        let mut usd = 0.0;
        for (needs, times) in [
            (&self.needs, 1.0),
            (&self.needs_of_a_million_comments, comments / MILLION),
            (&self.needs_of_a_million_views, views / MILLION),
        ] {
            usd += times * needs.iter().map(|need| need.usd(stack)).sum::<f64>();
        }
        usd
    }
}

impl Need {
    pub(crate) fn usd(&self, stack: Stack) -> f64 {
        match stack {
            Stack::Pagemark => self.pagemark,
            Stack::PageIndex => self.page_index,
            Stack::TableAlone => self.table_alone,
        }
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
    }

    #[test]
    fn redis_takes_the_cheapest_nodes_that_hold_the_data_below_their_alarm() {
        let prices = Prices::published().unwrap();
        // 70 % of 1.37 GiB, of which three quarters may be full, are 772 MB. Two shards of these nodes
        // cost less than one of the next size, and four of 7.89 GB less than one of 63.9 GB.
        for (bytes, node, shards, hourly_usd) in [
            (1.0, "cache.t4g.small", 1.0, 2.0 * 0.0256),
            (772e6, "cache.t4g.small", 1.0, 2.0 * 0.0256),
            (773e6, "cache.t4g.small", 2.0, 4.0 * 0.0256),
            (26.5e9, "cache.r7g.large", 4.0, 8.0 * 0.1752),
        ] {
            let cluster = prices.redis_cluster(bytes).unwrap();
            assert_eq!((cluster.node.as_str(), cluster.shards), (node, shards));
            assert!((cluster.month_usd - hourly_usd * 730.0).abs() < 1e-9);
        }
    }

    #[test]
    fn serverless_redis_costs_its_data_and_its_commands() {
        let prices = Prices::published().unwrap().redis_serverless;
        for (bytes, ecpus, expected) in [
            (2e9, 0.0, 2.0 * 0.084 * 730.0),
            // The least is 100 MB.
            (1.0, 0.0, 0.1 * 0.084 * 730.0),
            (1e9, 10e6, 0.084 * 730.0 + 0.023),
        ] {
            assert!((prices.month_usd(bytes, ecpus) - expected).abs() < 1e-9);
        }
    }

    #[test]
    fn capacity_is_provisioned_for_peaks_and_reserved_in_blocks() {
        let prices = Prices::published().unwrap();
        // A million units are 277.8 unit hours at the mean, and a thousand with 3.6 times as many.
        let class = prices.class_of_provisioned().unwrap();
        let provisioned = prices.provisioned(class, 3.6);
        assert!((provisioned.million_write_units - 0.65).abs() < 1e-9);
        assert!((provisioned.million_read_units - 0.13).abs() < 1e-9);
        // A hundred units a second are 262.8 million a month; 3.6 times the mean are reserved.
        let enough = 73.1e6;
        let less = 72.9e6;
        for (units, read_share, write_share) in [
            ([enough, enough], 0.46, 0.46),
            ([enough, less], 0.46, 1.0),
            ([less, enough], 1.0, 0.46),
        ] {
            let reserved = prices.reserved(&provisioned, units, 3.6).unwrap();
            assert!((reserved.million_read_units - 0.13 * read_share).abs() < 1e-9);
            assert!((reserved.million_write_units - 0.65 * write_share).abs() < 1e-9);
        }
        assert_eq!(prices.reserved(&provisioned, [less, less], 3.6), None);
    }

    #[test]
    fn what_a_deployment_needs_is_added_up() {
        let deployment = Prices::published().unwrap().deployment;
        let [alone, with_comments, with_views] = [(0.0, 0.0), (2e6, 0.0), (0.0, 3e6)]
            .map(|(comments, views)| deployment.month_usd(Stack::Pagemark, comments, views));
        // Tasks, load balancer, addresses, metrics, alarms, dashboard and secret, repair, keys.
        let by_hand = 28.84 + 22.27 + 14.6 + 18.0 + 6.1 + 3.4 + 5.0 + 1.0 + 2.63;
        assert!((alone - by_hand).abs() < 1e-9, "{alone}");
        for (more, needs, times) in [
            (with_comments, &deployment.needs_of_a_million_comments, 2.0),
            (with_views, &deployment.needs_of_a_million_views, 3.0),
        ] {
            let each: f64 = needs.iter().map(|need| need.pagemark).sum();
            assert!(each > 0.0 && (more - alone - times * each).abs() < 1e-9);
        }
    }
}
