//! The cost of a month, and the number of page views at which one design becomes cheaper than
//! another.

use anyhow::Context;

use crate::{
    MILLION,
    design::{Design, PerWrite, WriteUsage},
    month::Month,
    number::text,
    prices::{Prices, RedisCluster, TableClass},
};

const GB: f64 = 1e9;
/// Between these numbers of page views for each write, designs are compared. Beyond them, a design
/// that is dearer counts as dearer for ever.
const VIEWS_MIN: f64 = 1e-3;
const VIEWS_MAX: f64 = 1e6;
/// An assumption: how writes divide into inserts, text edits, rating changes and deletions.
const WRITE_SHARES: PerWrite<f64> = [0.9, 0.05, 0.02, 0.03];
const FUNCTION_MEMORY_GB: f64 = 0.25;
/// Every design's page names the product. A process keeps the record for a minute, so this is the
/// most that it costs.
const RECORD_READ_UNITS: f64 = 0.5;
/// An assumption: on Valkey Serverless each command of a script is an ECPU. A page takes at most so
/// many (`tests/reading/selection/cost.rs`), and a write as many as the dearest page.
const COMMANDS_WITHOUT_A_FILTER: f64 = 12.0;
const COMMANDS_OF_A_FILTER: f64 = 130.0;
pub const PARTS: [&str; 7] = [
    "page views",
    "writes",
    "functions",
    "storage in table and indexes",
    "point-in-time recovery",
    "audits",
    "Redis",
];

/// A design in a month, with a class of table and a kind of Redis.
#[derive(Debug, Clone)]
pub struct Billed<'month> {
    pub design: &'month Design,
    pub class: TableClass,
    pub(crate) redis: RedisKind,
    month: &'month Month,
    prices: &'month Prices,
}

/// What holds the page index of a design that has one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RedisKind {
    None,
    Nodes(RedisCluster),
    Serverless,
}

/// Units of a month.
struct Units {
    page_views: f64,
    /// Of writes, and of what repair reads after them.
    reads_of_writes: f64,
    audits: f64,
    writes: f64,
}

impl<'month> Billed<'month> {
    /// As the template makes it: on demand, with nodes of Redis. The class of table is the one that
    /// costs less, or the one that the month names.
    pub fn new(
        design: &'month Design,
        month: &'month Month,
        prices: &'month Prices,
    ) -> anyhow::Result<Self> {
        let redis = if design.redis_bytes > 0.0 {
            RedisKind::Nodes(prices.redis_cluster(month.comments * design.redis_bytes)?)
        } else {
            RedisKind::None
        };
        let mut cheapest: Option<Self> = None;
        for class in prices.table_classes() {
            let billed = Self {
                design,
                class: class.clone(),
                redis: redis.clone(),
                month,
                prices,
            };
            let is_cheaper = cheapest
                .as_ref()
                .is_none_or(|other| billed.total() < other.total());
            if month.takes(class) && is_cheaper {
                cheapest = Some(billed);
            }
        }
        cheapest.context("--table-class: Standard or Standard-IA")
    }

    /// The same with Valkey Serverless; `None` without Redis.
    pub(crate) fn serverless(&self) -> Option<Self> {
        if self.redis == RedisKind::None {
            return None;
        }
        Some(Self {
            redis: RedisKind::Serverless,
            ..self.clone()
        })
    }

    /// The same with provisioned capacity. `None` if the month names another class than that with
    /// known prices.
    pub(crate) fn provisioned(&self) -> Option<Self> {
        let class = self.prices.class_of_provisioned()?;
        self.month.takes(class).then(|| Self {
            class: self.prices.provisioned(class, self.month.peak),
            ..self.clone()
        })
    }

    /// The same with capacity that is reserved for a year. `None` if that is too little.
    pub(crate) fn reserved(&self) -> Option<Self> {
        let provisioned = self.provisioned()?;
        let units = self.units();
        let reads = units.page_views + units.reads_of_writes + units.audits;
        let reserved =
            self.prices
                .reserved(&provisioned.class, [reads, units.writes], self.month.peak);
        reserved.map(|class| Self {
            class,
            ..provisioned
        })
    }

    /// The cheapest of all ways to pay for it.
    pub(crate) fn cheapest(&self) -> anyhow::Result<Self> {
        let mut ways = vec![self.clone()];
        ways.extend(self.provisioned());
        ways.extend(self.reserved());
        for way in ways.clone() {
            ways.extend(way.serverless());
        }
        let cheapest = ways
            .into_iter()
            .min_by(|one, other| one.total().total_cmp(&other.total()));
        cheapest.context("a way to pay")
    }

    /// A month's cost by part, in US dollars. The first one is that of page views.
    pub fn parts(&self) -> [f64; PARTS.len()] {
        let Self {
            design,
            class,
            month,
            prices,
            ..
        } = self;
        let units = self.units();
        [
            units.page_views / MILLION * class.million_read_units,
            units.writes / MILLION * class.million_write_units
                + units.reads_of_writes / MILLION * class.million_read_units,
            month.writes * mean_of_writes(design, |write| self.functions_usd(write)),
            month.comments * (design.table_bytes + design.index_bytes) / GB
                * class.storage_gb_month,
            month.comments * design.table_bytes / GB * prices.backup_gb_month.usd,
            units.audits / MILLION * class.million_read_units,
            self.redis_usd(),
        ]
    }

    pub fn total(&self) -> f64 {
        self.parts().iter().sum()
    }

    /// What the deployment costs beside the data.
    pub(crate) fn beside_usd(&self) -> f64 {
        let Month {
            comments, views, ..
        } = self.month;
        let deployment = &self.prices.deployment;
        deployment.month_usd(self.design.stack, *comments, *views)
    }

    /// The month's cost with so many page views of a mix for each write, by the class that then costs
    /// less.
    pub fn at(&self, views_a_write: f64, mix: &[f64]) -> f64 {
        let mut least = f64::INFINITY;
        for class in self.prices.table_classes() {
            if self.month.takes(class) {
                let billed = Self {
                    class: class.clone(),
                    ..self.clone()
                };
                let of_views = self.month.writes * views_a_write * billed.page_view_usd(mix);
                least = least.min(billed.without_views_usd() + of_views);
            }
        }
        least
    }

    /// A month's cost without page views.
    fn without_views_usd(&self) -> f64 {
        self.parts().into_iter().skip(1).sum()
    }

    /// The cost of the mean page view of a mix by ratings, in percent.
    pub(crate) fn page_view_usd(&self, mix: &[f64]) -> f64 {
        self.page_view_units(mix) / MILLION * self.class.million_read_units
    }

    fn page_view_units(&self, mix: &[f64]) -> f64 {
        let front = self.month.front / 100.0;
        let mut units = RECORD_READ_UNITS;
        for (percent, page) in mix.iter().zip(&self.design.page_read_units) {
            let mean = front * page.front + (1.0 - front) * page.numbered;
            units += percent / 100.0 * mean;
        }
        units
    }

    fn units(&self) -> Units {
        let Self { design, month, .. } = self;
        Units {
            page_views: month.views * self.page_view_units(&month.mix),
            reads_of_writes: month.writes * mean_of_writes(design, |write| write.read_units),
            audits: month.comments * design.upkeep_read_units,
            writes: month.writes * mean_of_writes(design, |write| write.write_units),
        }
    }

    fn redis_usd(&self) -> f64 {
        let month = self.month;
        match &self.redis {
            RedisKind::None => 0.0,
            RedisKind::Nodes(cluster) => cluster.month_usd,
            RedisKind::Serverless => {
                let bytes = month.comments * self.design.redis_bytes;
                let ecpus =
                    month.views * ecpus_of_page(&month.mix) + month.writes * COMMANDS_OF_A_FILTER;
                self.prices.redis_serverless.month_usd(bytes, ecpus)
            }
        }
    }

    /// The functions' cost of one write.
    fn functions_usd(&self, write: WriteUsage) -> f64 {
        let prices = self.prices;
        let an_invocation = prices.million_function_requests.usd / MILLION;
        let gb_seconds = write.function_ms / 1_000.0 * FUNCTION_MEMORY_GB;
        write.function_invocations * an_invocation + gb_seconds * prices.function_gb_second.usd
    }
}

/// The mean of the writes, by their shares. A new comment comes with an `Idempotency-Key` where the
/// design keeps such records.
fn mean_of_writes(design: &Design, of: impl Fn(WriteUsage) -> f64) -> f64 {
    let mut writes = design.write;
    let [insert, ..] = &mut writes;
    insert.write_units += design.idempotency_write_units;
    let writes = WRITE_SHARES.into_iter().zip(writes);
    writes.map(|(share, write)| share * of(write)).sum()
}

/// ECPUs of the mean page of a mix by ratings, in percent.
fn ecpus_of_page(mix: &[f64]) -> f64 {
    let mut ecpus = 0.0;
    for (ratings, percent) in mix.iter().enumerate() {
        let commands = if ratings == 0 {
            COMMANDS_WITHOUT_A_FILTER
        } else {
            COMMANDS_OF_A_FILTER
        };
        ecpus += percent / 100.0 * commands;
    }
    ecpus
}

/// From how many page views for each write on our design is cheaper.
pub(crate) fn cheaper(designs: (&Billed<'_>, &Billed<'_>), mix: &[f64]) -> String {
    let [without_views, with_most] =
        [VIEWS_MIN, VIEWS_MAX].map(|views| is_cheaper(designs, mix, views));
    let meeting = meeting(designs, mix);
    match (without_views, with_most) {
        (false, true) => format!("from {}", text(meeting)),
        (false, false) => "never".to_owned(),
        (true, true) => "always".to_owned(),
        (true, false) => format!("below {}", text(meeting)),
    }
}

/// At how many page views for each write both designs cost the same; a million if at none. Only
/// the number of page views varies, and with it the class of each table.
pub fn meeting(designs: (&Billed<'_>, &Billed<'_>), mix: &[f64]) -> f64 {
    let (mut low, mut high) = (VIEWS_MIN, VIEWS_MAX);
    let at_first = is_cheaper(designs, mix, low);
    // Halved until two numbers of views print alike.
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if is_cheaper(designs, mix, middle) == at_first {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

fn is_cheaper((ours, theirs): (&Billed<'_>, &Billed<'_>), mix: &[f64], views: f64) -> bool {
    ours.at(views, mix) < theirs.at(views, mix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{design::PageUnits, statement::all_of};

    fn one_query() -> Design {
        let write = WriteUsage {
            write_units: 12.0,
            read_units: 0.0,
            function_invocations: 0.5,
            function_ms: 8.0,
        };
        Design {
            page_read_units: vec![PageUnits::alike(0.5); 5],
            write: [write; 4],
            table_bytes: 10_000.0,
            index_bytes: 10_000.0,
            redis_bytes: 500.0,
            upkeep_read_units: 4.0,
            ..Design::default()
        }
    }

    /// 2 units per write, half a unit for each rating of a page; no Redis.
    fn a_query_a_rating() -> Design {
        Design {
            page_read_units: [0.5, 0.5, 1.0, 1.5, 2.0].map(PageUnits::alike).to_vec(),
            write: [WriteUsage {
                write_units: 2.0,
                ..WriteUsage::default()
            }; 4],
            table_bytes: 400.0,
            index_bytes: 1_600.0,
            ..Design::default()
        }
    }

    fn month(views: f64, writes: f64, comments: f64) -> Month {
        Month {
            views,
            writes,
            comments,
            ..Month::parse("--mix 0,0,0,100 --table-class Standard").unwrap()
        }
    }

    fn check(design: &Design, month: &Month, expected: [f64; 7]) {
        let prices = Prices::published().unwrap();
        let found = Billed::new(design, month, &prices).unwrap().parts();
        for (part, (found, expected)) in PARTS.into_iter().zip(found.into_iter().zip(expected)) {
            assert!(
                (found - expected).abs() < 1e-9,
                "{part}: {found} instead of {expected}"
            );
        }
    }

    #[test]
    fn a_bill_by_hand() {
        // A million page views take half a unit, and half a unit for the record. A million writes take
        // 12 units, half an invocation and 0.002 GB-seconds each. A million comments have 20 KB, half of
        // it in the table, and take 4 units of upkeep. Together they have 0.5 GB in Redis, on two small
        // nodes.
        let redis = 2.0 * 0.0256 * 730.0;
        let ours = [
            0.125,
            7.5,
            0.1 + 2_000.0 * 0.0000133334,
            5.0,
            2.0,
            0.5,
            redis,
        ];
        check(&one_query(), &month(1e6, 1e6, 1e6), ours);
        check(
            &a_query_a_rating(),
            &month(1e6, 1e6, 1e6),
            [0.25, 1.25, 0.0, 0.5, 0.08, 0.0, 0.0],
        );
        let mixed = Month {
            mix: vec![0.0, 50.0, 0.0, 50.0],
            ..month(1e6, 0.0, 0.0)
        };
        check(
            &a_query_a_rating(),
            &mixed,
            [0.1875, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        );
        let mut reading = a_query_a_rating();
        reading.write[0].read_units = 1.0;
        check(
            &reading,
            &month(0.0, 1e6, 0.0),
            [0.0, 1.25 + 0.9 * 0.125, 0.0, 0.0, 0.0, 0.0, 0.0],
        );
    }

    #[test]
    fn break_evens_by_hand() {
        let one = one_query();
        let each = a_query_a_rating();
        let prices = Prices::published().unwrap();
        for (ours, theirs, ratings, writes, expected) in [
            // A million writes cost 6.3766668 more, storage, recovery and audits 6.92, and two
            // small nodes 37.376. A million views of three ratings cost 0.125 less. 50.6726668 /
            // 0.125 = 405.4.
            (&one, &each, 3, 1e6, "from 405"),
            (&one, &each, 4, 1e6, "from 270"),
            // One rating costs the same in both designs, so the dearer writes never pay off.
            (&one, &each, 1, 1e6, "never"),
            // With a hundred times the writes, fixed costs hardly matter: (637.66668 + 44.296) /
            // 0.125 / 100.
            (&one, &each, 3, 1e8, "from 54.6"),
            (&each, &one, 3, 1e6, "below 405"),
        ] {
            let month = month(5e6, writes, 1e6);
            let [ours, theirs] =
                [ours, theirs].map(|design| Billed::new(design, &month, &prices).unwrap());
            assert_eq!(
                cheaper((&ours, &theirs), &all_of(ratings)),
                expected,
                "{ratings}, {writes}"
            );
        }
        let cheap = Design {
            page_read_units: vec![PageUnits::alike(0.4); 5],
            ..each.clone()
        };
        let month = month(1.0, 1e6, 1e6);
        let [cheap, each] =
            [&cheap, &each].map(|design| Billed::new(design, &month, &prices).unwrap());
        assert_eq!(cheaper((&cheap, &each), &month.mix), "always");
    }

    #[test]
    fn front_pages_and_idempotency_records_are_billed_by_their_share() {
        let mut design = Design {
            idempotency_write_units: 2.0,
            ..a_query_a_rating()
        };
        design.page_read_units[3].front = 3.5;
        let month = Month {
            front: 25.0,
            ..month(1e6, 1e6, 0.0)
        };
        // A view takes 0.5 units for the record, and 2 on average: a quarter of the views take 3.5, the
        // others 1.5. A write takes 2 units, and nine in ten take 2 more.
        check(&design, &month, [0.3125, 2.375, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_table_has_the_class_that_costs_less() {
        let prices = Prices::published().unwrap();
        let design = a_query_a_rating();
        // Requests cost a quarter more, storage three fifths less.
        for (writes, class) in [(9e5, "Standard-IA"), (1e6, "Standard")] {
            let month = Month {
                class: None,
                ..month(0.0, writes, 1e6)
            };
            let billed = Billed::new(&design, &month, &prices).unwrap();
            assert_eq!(billed.class.name, class, "{writes}");
        }
    }
}
