//! The cost of a month.

use serde::Serialize;

use super::{
    prices::Prices,
    usage::{Usage, Workload, WriteUsage},
};

const MILLION: f64 = 1e6;
const GB: f64 = 1e9;

/// A month's cost by part, in the prices' currency.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(crate) struct Bill {
    pub(crate) page_views: f64,
    /// The read and write units of all writes.
    pub(crate) writes: f64,
    /// The functions that follow the stream.
    pub(crate) functions: f64,
    pub(crate) storage: f64,
    pub(crate) backup: f64,
    pub(crate) upkeep: f64,
    pub(crate) redis: f64,
}

/// The parts of a bill that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The cost of page views and writes.
    Requests,
    /// Also the cost of the stored comments, without Redis.
    AndStorage,
    /// Also Redis, which costs the same at any load.
    AndRedis,
}

impl Bill {
    pub(crate) fn of(usage: &Usage, workload: &Workload, prices: &Prices) -> Self {
        let mut bill = Self {
            storage: workload.comments * (usage.table_bytes + usage.index_bytes) / GB * prices.storage_gb_month.usd,
            backup: workload.comments * usage.table_bytes / GB * prices.backup_gb_month.usd,
            upkeep: workload.comments * usage.upkeep_read_units / MILLION * prices.million_read_units.usd,
            ..Self::default()
        };
        if usage.redis_bytes > 0.0 {
            bill.redis = prices.redis_month_usd(workload.comments * usage.redis_bytes);
        }
        for (views, units) in workload.page_views.iter().zip(usage.page_read_units) {
            bill.page_views += views * page_view_usd(units, prices);
        }
        for (count, write) in workload.writes.iter().zip(usage.write) {
            bill.writes += count * write_usd(write, prices);
            bill.functions += count * functions_usd(write, usage.function_memory_gb, prices);
        }
        bill
    }

    pub(crate) fn total(&self, scope: Scope) -> f64 {
        let requests = self.page_views + self.writes + self.functions;
        let storage = self.storage + self.backup + self.upkeep;
        match scope {
            Scope::Requests => requests,
            Scope::AndStorage => requests + storage,
            Scope::AndRedis => requests + storage + self.redis,
        }
    }

    pub(crate) fn parts(&self) -> [(&'static str, f64); 8] {
        [
            ("page views", self.page_views),
            ("writes", self.writes),
            ("functions", self.functions),
            ("storage in table and indexes", self.storage),
            ("point-in-time recovery", self.backup),
            ("audits", self.upkeep),
            ("Redis", self.redis),
            ("together", self.total(Scope::AndRedis)),
        ]
    }
}

pub(super) fn page_view_usd(read_units: f64, prices: &Prices) -> f64 {
    read_units / MILLION * prices.million_read_units.usd
}

pub(super) fn write_usd(write: WriteUsage, prices: &Prices) -> f64 {
    let units = write.write_units * prices.million_write_units.usd + write.read_units * prices.million_read_units.usd;
    units / MILLION
}

/// The functions' cost of one write. A stream read feeds each invocation.
pub(super) fn functions_usd(write: WriteUsage, memory_gb: f64, prices: &Prices) -> f64 {
    let an_invocation = (prices.million_function_requests.usd + prices.million_stream_reads.usd) / MILLION;
    let gb_seconds = write.function_ms / 1_000.0 * memory_gb;
    write.function_invocations * an_invocation + gb_seconds * prices.function_gb_second.usd
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Round figures: 12 units per write, half a unit for any page.
    pub(in crate::money) fn one_query() -> Usage {
        let write = WriteUsage { write_units: 12.0, read_units: 0.0, function_invocations: 0.5, function_ms: 8.0 };
        Usage {
            design: "one query".to_owned(),
            page_read_units: [0.5; 5],
            write: [write, WriteUsage::default(), WriteUsage::default(), WriteUsage::default()],
            function_memory_gb: 0.25,
            table_bytes: 10_000.0,
            index_bytes: 10_000.0,
            redis_bytes: 500.0,
            upkeep_read_units: 4.0,
        }
    }

    /// 2 units per write, half a unit for each rating of a page; no Redis.
    pub(in crate::money) fn a_query_a_rating() -> Usage {
        let write = WriteUsage { write_units: 2.0, ..WriteUsage::default() };
        Usage {
            design: "a query a rating".to_owned(),
            page_read_units: [0.5, 1.0, 1.5, 2.0, 0.5],
            write: [write, WriteUsage::default(), WriteUsage::default(), WriteUsage::default()],
            table_bytes: 400.0,
            index_bytes: 1_600.0,
            ..Usage::default()
        }
    }

    pub(in crate::money) fn workload(three: f64, inserts: f64, comments: f64) -> Workload {
        Workload {
            name: "a month".to_owned(),
            page_views: [0.0, 0.0, three, 0.0, 0.0],
            writes: [inserts, 0.0, 0.0, 0.0],
            comments,
            comment_bytes: 250.0,
        }
    }

    fn check(usage: &Usage, workload: &Workload, expected: Bill) {
        let bill = Bill::of(usage, workload, &Prices::published().unwrap());
        for ((part, found), (_, expected)) in bill.parts().into_iter().zip(expected.parts()) {
            assert!((found - expected).abs() < 1e-9, "{part}: {found} instead of {expected}");
        }
    }

    #[test]
    fn a_bill_by_hand() {
        // A million views of half a unit; a million writes of 12 units, half an invocation and 0.002 GB-seconds; a
        // million comments of 20 KB, half of it in the table, 4 units of upkeep and 0.5 GB in Redis, on two small
        // nodes.
        check(
            &one_query(),
            &workload(1e6, 1e6, 1e6),
            Bill {
                page_views: 0.0625,
                writes: 7.5,
                functions: 0.1 + 2_000.0 * 0.0000133334,
                storage: 5.0,
                backup: 2.0,
                upkeep: 0.5,
                redis: 2.0 * 0.0256 * 730.0,
            },
        );
        check(
            &a_query_a_rating(),
            &workload(1e6, 1e6, 1e6),
            Bill { page_views: 0.1875, writes: 1.25, storage: 0.5, backup: 0.08, ..Bill::default() },
        );
    }

    #[test]
    fn a_cache_saves_read_units_of_its_hits_and_costs_the_same_redis() {
        let redis = 2.0 * 0.0256 * 730.0;
        for (hits_of_ten, page_views) in [(0, 0.1875), (5, 0.09375), (9, 0.01875)] {
            let cached = a_query_a_rating().behind_cache("cached", hits_of_ten, one_query().redis_bytes);
            check(
                &cached,
                &workload(1e6, 1e6, 1e6),
                Bill { page_views, writes: 1.25, storage: 0.5, backup: 0.08, redis, ..Bill::default() },
            );
        }
    }

    #[test]
    fn reading_in_order_to_write_is_part_of_the_writes() {
        let mut usage = a_query_a_rating();
        usage.write[0].read_units = 1.0;
        check(&usage, &workload(0.0, 1e6, 0.0), Bill { writes: 1.25 + 0.125, ..Bill::default() });
    }

    #[test]
    fn an_idle_month_of_nothing_costs_redis_or_nothing() {
        let redis = 2.0 * 0.0256 * 730.0;
        check(&one_query(), &workload(0.0, 0.0, 0.0), Bill { redis, ..Bill::default() });
        check(&a_query_a_rating(), &workload(0.0, 0.0, 0.0), Bill::default());
    }
}
