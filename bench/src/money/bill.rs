//! The cost of a month.

use serde::Serialize;

use super::{
    design::{Design, WRITE_SHARES, WriteUsage},
    month::Month,
    prices::Prices,
};

const MILLION: f64 = 1e6;
const GB: f64 = 1e9;

/// A month's cost by part, in the prices' currency.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(super) struct Bill {
    pub(super) page_views: f64,
    /// The read and write units of all writes.
    pub(super) writes: f64,
    /// The functions that follow the stream.
    pub(super) functions: f64,
    pub(super) storage: f64,
    pub(super) backup: f64,
    pub(super) upkeep: f64,
    pub(super) redis: f64,
}

/// The parts of a bill that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The cost of page views and writes.
    Requests,
    /// Also the cost of the stored comments, without Redis.
    AndStorage,
    /// Also Redis, which costs the same at any load.
    AndRedis,
}

impl Bill {
    pub(super) fn of(design: &Design, month: &Month, prices: &Prices) -> Self {
        let mut bill = Self {
            page_views: month.views * page_view_usd(design, &month.mix, prices),
            storage: month.comments * (design.table_bytes + design.index_bytes) / GB * prices.storage_gb_month.usd,
            backup: month.comments * design.table_bytes / GB * prices.backup_gb_month.usd,
            upkeep: month.comments * design.upkeep_read_units / MILLION * prices.million_read_units.usd,
            ..Self::default()
        };
        if design.redis_bytes > 0.0 {
            bill.redis = prices.redis_month_usd(month.comments * design.redis_bytes);
        }
        for (share, write) in WRITE_SHARES.into_iter().zip(design.write) {
            bill.writes += share * month.writes * write_usd(write, prices);
            bill.functions += share * month.writes * functions_usd(write, design.function_memory_gb, prices);
        }
        bill
    }

    /// The cost of writes with their functions.
    pub(super) fn of_writes(&self) -> f64 {
        self.writes + self.functions
    }

    pub(super) fn total(&self, scope: Scope) -> f64 {
        let requests = self.page_views + self.of_writes();
        let storage = self.storage + self.backup + self.upkeep;
        match scope {
            Scope::Requests => requests,
            Scope::AndStorage => requests + storage,
            Scope::AndRedis => requests + storage + self.redis,
        }
    }

    pub(super) fn parts(&self) -> [(&'static str, f64); 8] {
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

/// The cost of the mean page view of a mix.
pub(super) fn page_view_usd(design: &Design, mix: &[f64], prices: &Prices) -> f64 {
    design.view_read_units(mix) / MILLION * prices.million_read_units.usd
}

pub(super) fn write_usd(write: WriteUsage, prices: &Prices) -> f64 {
    let units = write.write_units * prices.million_write_units.usd + write.read_units * prices.million_read_units.usd;
    units / MILLION
}

/// The functions' cost of one write. A stream read feeds each invocation.
fn functions_usd(write: WriteUsage, memory_gb: f64, prices: &Prices) -> f64 {
    let an_invocation = (prices.million_function_requests.usd + prices.million_stream_reads.usd) / MILLION;
    let gb_seconds = write.function_ms / 1_000.0 * memory_gb;
    write.function_invocations * an_invocation + gb_seconds * prices.function_gb_second.usd
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Round figures: 12 units per write, half a unit for any page.
    pub(in crate::money) fn one_query() -> Design {
        let write = WriteUsage { write_units: 12.0, read_units: 0.0, function_invocations: 0.5, function_ms: 8.0 };
        Design {
            name: "one query".to_owned(),
            page_read_units: vec![0.5; 5],
            write: [write; 4],
            function_memory_gb: 0.25,
            table_bytes: 10_000.0,
            index_bytes: 10_000.0,
            redis_bytes: 500.0,
            upkeep_read_units: 4.0,
            ..Design::default()
        }
    }

    /// 2 units per write, half a unit for each rating of a page; no Redis.
    pub(in crate::money) fn a_query_a_rating() -> Design {
        Design {
            name: "a query a rating".to_owned(),
            page_read_units: vec![0.5, 0.5, 1.0, 1.5, 2.0],
            write: [WriteUsage { write_units: 2.0, ..WriteUsage::default() }; 4],
            table_bytes: 400.0,
            index_bytes: 1_600.0,
            ..Design::default()
        }
    }

    /// A month whose page views all have three ratings.
    pub(in crate::money) fn month(views: f64, writes: f64, comments: f64) -> Month {
        Month { views, writes, comments, ..Month::parse("--mix 0,0,0,100").unwrap() }
    }

    fn check(design: &Design, month: &Month, expected: Bill) {
        let bill = Bill::of(design, month, &Prices::published().unwrap());
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
            &month(1e6, 1e6, 1e6),
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
            &month(1e6, 1e6, 1e6),
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
                &month(1e6, 1e6, 1e6),
                Bill { page_views, writes: 1.25, storage: 0.5, backup: 0.08, redis, ..Bill::default() },
            );
        }
    }

    #[test]
    fn a_mixed_view_costs_the_mean_of_its_parts() {
        let mixed = Month { mix: vec![0.0, 0.5, 0.0, 0.5, 0.0], ..month(1e6, 0.0, 0.0) };
        check(&a_query_a_rating(), &mixed, Bill { page_views: 0.125, ..Bill::default() });
    }

    #[test]
    fn reading_in_order_to_write_is_part_of_the_writes_in_their_shares() {
        let mut design = a_query_a_rating();
        design.write[0].read_units = 1.0;
        check(&design, &month(0.0, 1e6, 0.0), Bill { writes: 1.25 + 0.9 * 0.125, ..Bill::default() });
    }

    #[test]
    fn an_idle_month_of_nothing_costs_redis_or_nothing() {
        let redis = 2.0 * 0.0256 * 730.0;
        check(&one_query(), &month(0.0, 0.0, 0.0), Bill { redis, ..Bill::default() });
        check(&a_query_a_rating(), &month(0.0, 0.0, 0.0), Bill::default());
    }
}
