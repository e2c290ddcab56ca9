//! The measurements, one after the other, and their tables.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::ensure;
use four_index::{Index, SORT_KEY};
use futures_util::future::try_join_all;
use model::{Comment, item::attribute};
use table::{GSI, capacity::Units};

use super::{
    budget::Budget,
    plan::{CHECKS_MAX, Kind, LOOKS_MAX, Page, Plan, Sample, usd},
    stores::{Place, Stores},
};
use crate::{
    compare::{Depth, filter_name},
    filled_stores::TIMEOUT,
    lag::{has_ranks, is_in_index},
    money::Prices,
    report::{FOUR_INDEXES, PAGEMARK, Table, row},
    statistics::{Latencies, as_f64, timed},
    workload::filter_keys,
};

/// The shortest pause between two look-ups of a comment.
const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// Pause after the first check that finds another page; one more of it after each further check.
const CHECK_PAUSE: Duration = Duration::from_millis(200);

/// The measurements of one design.
struct OfDesign {
    design: &'static str,
    table: String,
    inserts: Latencies,
    lags: Latencies,
    looks: u32,
}

impl OfDesign {
    fn new(design: &'static str, table: &str) -> anyhow::Result<Self> {
        let (table, inserts, lags) = (table.to_owned(), Latencies::new()?, Latencies::new()?);
        Ok(Self { design, table, inserts, lags, looks: 0 })
    }
}

/// The latencies of a page.
struct PageTimes {
    filter: String,
    depth: Depth,
    queries: usize,
    pagemark: Latencies,
    four: Latencies,
}

/// What was measured so far. It stays when a run ends early.
pub(super) struct Measured {
    pagemark: OfDesign,
    four: OfDesign,
    pages: Vec<PageTimes>,
    /// What had been consumed when the measurement of pages began.
    before_pages: Option<BTreeMap<String, Units>>,
}

impl Measured {
    pub(super) fn new(place: &Place) -> anyhow::Result<Self> {
        let (pagemark, four) = (OfDesign::new(PAGEMARK, &place.pagemark)?, OfDesign::new(FOUR_INDEXES, &place.four)?);
        Ok(Self { pagemark, four, pages: Vec::new(), before_pages: None })
    }

    /// Measures everything.
    pub(super) async fn run(&mut self, stores: &Stores, sample: &Sample, budget: &Budget) -> anyhow::Result<()> {
        self.inserts(stores, sample).await?;
        stores.settle().await?;
        self.before_pages = Some(budget.consumed());
        for page in &sample.pages {
            check(stores, page).await?;
            self.page(stores, page, sample.views).await?;
        }
        Ok(())
    }

    /// Inserts every comment into both designs, in turn. The first comments are watched before the next insert.
    async fn inserts(&mut self, stores: &Stores, sample: &Sample) -> anyhow::Result<()> {
        for (number, comment) in sample.comments.iter().enumerate() {
            for is_ours in in_turn(number) {
                let ((), took) = timed(stores.insert(is_ours, comment)).await?;
                let acknowledged = Instant::now();
                let measured = if is_ours { &mut self.pagemark } else { &mut self.four };
                measured.inserts.record(took);
                if number < sample.watched() {
                    measured.looks += until_seen(stores, is_ours, comment, acknowledged).await?;
                    measured.lags.record(acknowledged.elapsed());
                }
            }
        }
        Ok(())
    }

    async fn page(&mut self, stores: &Stores, page: &Page, views: u32) -> anyhow::Result<()> {
        let (mut pagemark, mut four) = (Latencies::new()?, Latencies::new()?);
        for view in 0..views as usize {
            for is_ours in in_turn(view) {
                let (_, took) = timed(read(stores, is_ours, page)).await?;
                if is_ours { pagemark.record(took) } else { four.record(took) }
            }
        }
        let (filter, depth, queries) = (filter_name(page.listing()), page.depth, page.queries());
        self.pages.push(PageTimes { filter, depth, queries, pagemark, four });
        Ok(())
    }

    fn designs(&self) -> [&OfDesign; 2] {
        [&self.pagemark, &self.four]
    }

    /// The tables of what was measured.
    pub(super) fn tables(&self) -> Vec<Table> {
        let (ms, counted) = (|us: f64| us / 1e3, |latencies: &Latencies| latencies.count() > 0);
        let inserts = self.designs().into_iter().filter(|of| counted(&of.inserts)).map(|of| {
            let (p50, p99) = (ms(of.inserts.p50_us()), ms(of.inserts.p99_us()));
            row![("design", of.design), ("inserts", of.inserts.count()), ("p50, ms", p50), ("p99, ms", p99)]
        });
        let lags = self.designs().into_iter().filter(|of| counted(&of.lags)).map(|of| {
            row![
                ("design", of.design),
                ("comments", of.lags.count()),
                ("p50, ms", ms(of.lags.p50_us())),
                ("most, ms", ms(of.lags.max_us())),
                ("look-ups each", f64::from(of.looks) / as_f64(of.lags.count())),
            ]
        });
        let pages = self.pages.iter().map(|times| {
            row![
                ("filter", times.filter.as_str()),
                ("page", times.depth.to_string()),
                ("views each", times.four.count()),
                ("Pagemark p50, ms", ms(times.pagemark.p50_us())),
                ("p99, ms", ms(times.pagemark.p99_us())),
                ("four indexes, queries", times.queries),
                ("four indexes p50, ms", ms(times.four.p50_us())),
                ("p99, ms", ms(times.four.p99_us())),
                ("p50 of Pagemark / four indexes", times.pagemark.p50_us() / times.four.p50_us()),
            ]
        });
        vec![
            Table::new(
                "endpoint: inserts",
                "Until the write is acknowledged. One client, the designs in turn.",
                inserts,
            ),
            Table::new(
                "endpoint: lag",
                "From the acknowledgement until seen: of Pagemark under all 32 filter keys and in \
                 the page index, with the functions polling the stream four times a second; of four indexes in each of \
                 them. Too high by at most one look-up and the pause before it: 5 ms, or a tenth of the lag.",
                lags,
            ),
            Table::new(
                "endpoint: pages",
                "Pages of 20, by one client, the designs in turn, and the one that goes first \
                 alternates. Pagemark asks a Redis beside this process, then sends one query. Four indexes send their \
                 queries in parallel, and a remote service answers them in parallel, so these are timed too. p99 from \
                 1,000 views on.",
                pages,
            ),
        ]
    }

    /// What was consumed of the plan.
    pub(super) fn units(&self, plan: &Plan, budget: &Budget, prices: &Prices) -> Table {
        let (after, mut together) = (budget.consumed(), Units::default());
        let before_pages = self.before_pages.as_ref().unwrap_or(&after);
        let of = |units: &BTreeMap<String, Units>, table: &str| units.get(table).copied().unwrap_or_default();
        let row = |what: String, design: &str, planned: Units, consumed: Units| {
            row![
                ("step", what),
                ("design", design),
                ("read units planned", planned.read),
                ("consumed", consumed.read),
                ("write units planned", planned.write),
                ("consumed", consumed.write),
                ("US dollars", usd(consumed, prices)),
            ]
        };
        let mut rows = Vec::new();
        for step in &plan.steps {
            let table = if step.design == PAGEMARK { &self.pagemark.table } else { &self.four.table };
            let (before, after) = (of(before_pages, table), of(&after, table));
            let consumed = match step.kind {
                Kind::Inserts => Units { read: 0.0, write: after.write },
                Kind::Lag => Units { read: before.read, write: 0.0 },
                Kind::Pages => Units { read: after.read - before.read, write: 0.0 },
            };
            together = Units { read: together.read + consumed.read, write: together.write + consumed.write };
            rows.push(row(step.kind.to_string(), step.design, step.units, consumed));
        }
        rows.push(row("together".to_owned(), "both", plan.total(), together));
        Table::new(
            "endpoint: units",
            "As the service reported them. An answer without a report counts with its bound.",
            rows,
        )
    }
}

/// The designs of a turn, ours as `true`. The one that goes first alternates.
fn in_turn(turn: usize) -> [bool; 2] {
    let is_even = turn.is_multiple_of(2);
    [is_even, !is_even]
}

/// Waits until a comment is visible under all its keys, and for ours until it has its ranks. Returns the number of
/// look-ups in the table.
///
/// The first look is at all keys. While none of the missing ones appears, only one of them is looked up.
async fn until_seen(stores: &Stores, is_ours: bool, comment: &Comment, acknowledged: Instant) -> anyhow::Result<u32> {
    let (pages, four) = (&stores.reader.pages, &stores.reader.four);
    let (client, cd, placement) = (pages.table.client(), comment.cd().to_string(), comment.placement());
    // Index, its partition key, the value there, its sort key.
    let mut missing: Vec<(&str, &str, String, &str)> = if is_ours {
        filter_keys(comment).iter().map(|key| (GSI, attribute::SK, key.to_string(), attribute::CD)).collect()
    } else {
        let key = |index: &Index| (index.name(), index.partition_attribute(), index.partition_of(&placement), SORT_KEY);
        Index::EVERY.iter().map(key).collect()
    };
    let table = if is_ours { pages.table.name() } else { four.name() };
    let pause = || LOOK_PAUSE.max(acknowledged.elapsed() / 10);
    let (mut looks, mut round) = (0, missing.len());
    while !missing.is_empty() {
        looks += u32::try_from(round)?;
        ensure!(
            looks <= LOOKS_MAX,
            "{} is not visible after {:?} under {missing:?}",
            comment.id,
            acknowledged.elapsed()
        );
        let asked = missing.iter().take(round).map(|(index, partition, value, sort)| {
            is_in_index(client, table, index, [(*partition, value.as_str()), (*sort, cd.as_str())])
        });
        let mut seen = try_join_all(asked).await?.into_iter();
        let before = missing.len();
        missing.retain(|_| !seen.next().unwrap_or(false));
        round = if missing.len() < before { missing.len() } else { 1 };
        if missing.len() == before {
            tokio::time::sleep(pause()).await;
        }
    }
    while is_ours && !has_ranks(&pages.index, &comment.id, &placement.base_sets()).await? {
        ensure!(acknowledged.elapsed() < TIMEOUT, "{} has no ranks after {TIMEOUT:?}", comment.id);
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    Ok(looks)
}

/// Reads a page until both designs show the right comments. Indexes may still follow the tables.
async fn check(stores: &Stores, page: &Page) -> anyhow::Result<()> {
    let expected = page.listing().ids(page.ask.number);
    let mut found = String::new();
    for check in 0..CHECKS_MAX {
        tokio::time::sleep(CHECK_PAUSE * check).await;
        let mut wrong = false;
        for is_ours in [true, false] {
            match read(stores, is_ours, page).await {
                Ok(comments) if comments.iter().map(|comment| comment.id.as_str()).eq(expected.iter().copied()) => {}
                Ok(comments) => (wrong, found) = (true, format!("{} comments", comments.len())),
                // The page index may lack comments.
                Err(error) => (wrong, found) = (true, format!("{error:#}")),
            }
        }
        if !wrong {
            return Ok(());
        }
    }
    let (key, number) = (&page.listing().key, page.ask.number);
    anyhow::bail!("{key}, page {number} has other comments than expected after {CHECKS_MAX} checks: {found}")
}

async fn read(stores: &Stores, is_ours: bool, page: &Page) -> anyhow::Result<Vec<Comment>> {
    if is_ours {
        return stores.reader.pagemark(&page.ask).await;
    }
    Ok(stores.reader.four_index(&page.ask, false).await?.comments)
}
