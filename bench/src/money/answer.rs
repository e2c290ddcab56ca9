//! The answer: each design's bill, where they meet, and what changes with the question. No I/O.

use std::{collections::BTreeMap, fmt};

use itertools::Itertools;
use serde::Serialize;
use strum::VariantArray;

use super::{
    bill::{Bill, Scope, page_view_usd, write_usd},
    break_even::BreakEven,
    design::{Design, Write},
    model::{Shape, designs},
    month::{LEFT_OUT, Month},
    prices::Prices,
};
use crate::report::{Cell, Plot, Quantity, Row, Series, Table, row};

const MILLION: f64 = 1e6;
/// The number of ratings in the plot and in the numbers, beside the mix.
const SHOWN_RATINGS: usize = 3;
/// Numbers of page views per write.
const VIEWS_A_WRITE: [f64; 6] = [1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0];
const TEXT_BYTES: [u32; 3] = [100, 1_000, 4_000];
const DEPTHS: [u32; 2] = [10, 100];
const RATING_VALUES: [u32; 3] = [3, 8, 10];
const MANY_LANGUAGES: u32 = 100;

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    pub(super) month: Month,
    region: String,
    prices_looked_up: String,
    /// Pagemark first.
    pub(super) designs: Vec<Billed>,
    /// Pagemark against each of the others.
    pub(super) break_evens: Vec<Meeting>,
    pub(super) sensitivity: Vec<Variation>,
    left_out: Vec<&'static str>,
}

/// A design's bill, and the usage behind it.
#[derive(Debug, Serialize)]
pub(super) struct Billed {
    design: String,
    pub(super) month_usd: Bill,
    pub(super) together_usd: f64,
    /// Writing all comments for the first time, without functions.
    first_load_usd: f64,
    /// By the name of the write.
    write_units: BTreeMap<String, f64>,
    /// Without a filter by rating, then with 1, 2, and more ratings.
    page_read_units: Vec<f64>,
    items: f64,
    dynamodb_bytes: f64,
    redis_bytes: f64,
}

/// From how many page views for each write Pagemark is cheaper than another design.
#[derive(Debug, Serialize)]
pub(super) struct Meeting {
    than: String,
    /// The cost of Pagemark's writes as a multiple; `None` if nothing is written.
    writes_times: Option<f64>,
    /// By the mix: page views and writes only.
    requests: Option<BreakEven>,
    /// Also storage, recovery and audits.
    and_storage: Option<BreakEven>,
    /// Also Redis: all that is billed.
    pub(super) all: Option<BreakEven>,
    /// All that is billed, if every view has this many ratings: 2 and more, up to all but one.
    all_by_ratings: BTreeMap<usize, Option<BreakEven>>,
}

/// The answer to a slightly different question.
#[derive(Debug, Serialize)]
pub(super) struct Variation {
    what: String,
    /// In the order of the designs.
    month_usd: Vec<f64>,
    /// Page views for each write from which on Pagemark is cheaper than each of the others.
    break_evens: Vec<Option<BreakEven>>,
}

/// A month in several designs, Pagemark first.
pub(super) struct Compared<'compared> {
    pub(super) month: &'compared Month,
    pub(super) designs: Vec<Design>,
    pub(super) prices: &'compared Prices,
}

impl Compared<'_> {
    /// Pagemark and each of the other designs.
    fn pairs(&self) -> impl Iterator<Item = (&Design, &Design)> {
        let ours_and_others = self.designs.split_first().into_iter();
        ours_and_others.flat_map(|(ours, others)| others.iter().map(move |theirs| (ours, theirs)))
    }

    fn bill(&self, design: &Design) -> Bill {
        Bill::of(design, self.month, self.prices)
    }

    fn meeting(&self, (ours, theirs): (&Design, &Design)) -> Meeting {
        let meet = |month: &Month, scope| BreakEven::per_write((ours, theirs), month, scope, self.prices);
        let by_ratings = |ratings| (ratings, meet(&self.month.with_all_views_of(ratings), Scope::AndRedis));
        let [our_writes, their_writes] = [ours, theirs].map(|design| self.bill(design).of_writes());
        Meeting {
            than: theirs.name.clone(),
            writes_times: (their_writes > 0.0).then(|| our_writes / their_writes),
            requests: meet(self.month, Scope::Requests),
            and_storage: meet(self.month, Scope::AndStorage),
            all: meet(self.month, Scope::AndRedis),
            all_by_ratings: (2..self.month.mix.len()).map(by_ratings).collect(),
        }
    }

    fn billed(&self, design: &Design) -> Billed {
        let month_usd = self.bill(design);
        let [insert, ..] = design.write;
        let Design { name, items, page_read_units, redis_bytes, .. } = design.clone();
        Billed {
            design: name,
            month_usd,
            together_usd: month_usd.total(Scope::AndRedis),
            first_load_usd: self.month.comments * write_usd(insert, self.prices),
            write_units: write_names().zip(design.write.map(|write| write.write_units)).collect(),
            page_read_units,
            items,
            dynamodb_bytes: design.table_bytes + design.index_bytes,
            redis_bytes,
        }
    }

    fn variation(&self, what: String) -> Variation {
        let all = |pair| BreakEven::per_write(pair, self.month, Scope::AndRedis, self.prices);
        Variation {
            what,
            month_usd: self.designs.iter().map(|design| self.bill(design).total(Scope::AndRedis)).collect(),
            break_evens: self.pairs().map(all).collect(),
        }
    }

    /// The cost of a million page views, by the mix and with three ratings.
    fn views_usd(&self, design: &Design) -> [f64; 2] {
        let views = |month: &Month| MILLION * page_view_usd(design, &month.mix, self.prices);
        [views(self.month), views(&self.month.with_all_views_of(SHOWN_RATINGS))]
    }

    /// The cost of a million writes, and that of all but page views for a million writes.
    fn writes_usd(&self, design: &Design) -> [f64; 2] {
        let (bill, a_million_writes) = (self.bill(design), MILLION / self.month.writes);
        [bill.of_writes(), bill.total(Scope::AndRedis) - bill.page_views].map(|usd| usd * a_million_writes)
    }

    /// The numbers by which designs are compared, with the design's name.
    pub(super) fn numbers(&self) -> Vec<(Quantity, &str, f64)> {
        let of_design = |design: &Design| {
            let [writes, fixed] = self.writes_usd(design);
            let [mixed, of_three] = self.views_usd(design);
            [
                (Quantity::WritesUsd, writes),
                (Quantity::FixedUsd, fixed),
                (Quantity::MixedViewsUsd, mixed),
                (Quantity::ThreeRatingsViewsUsd, of_three),
                (Quantity::MonthUsd, self.bill(design).total(Scope::AndRedis)),
            ]
        };
        let numbers = self.designs.iter().map(|design| (design.name.as_str(), of_design(design)));
        numbers.flat_map(|(name, of_design)| of_design.map(|(quantity, usd)| (quantity, name, usd))).collect()
    }

    /// Dollars for a million writes and their page views, in each design, by page views per write.
    pub(super) fn plot(&self) -> Plot {
        let series = self.designs.iter().flat_map(|design| {
            let [_, fixed] = self.writes_usd(design);
            let names = ["the mix".to_owned(), format!("{SHOWN_RATINGS} ratings only")];
            names.into_iter().zip(self.views_usd(design)).map(move |(views, view_usd)| Series {
                name: format!("{}: {views}", design.name),
                points: VIEWS_A_WRITE.map(|views| (views, fixed + views * view_usd)).to_vec(),
            })
        });
        let title = "What a million writes and their page views cost";
        Plot::new("money", title, ["page views for each write", "US dollars for a million writes"], series)
    }
}

impl Answer {
    /// # Errors
    /// When an item cannot be made, which is a bug.
    pub(super) fn of(compared: &Compared<'_>) -> anyhow::Result<Self> {
        let Compared { month, designs: all, prices } = compared;
        let months = [("as asked".to_owned(), (*month).clone())].into_iter().chain(variations(month));
        let variation = |(what, month): (String, Month)| {
            let varied = Compared { month: &month, designs: designs(&month.shape)?, prices };
            anyhow::Ok(varied.variation(what))
        };
        Ok(Self {
            month: (*month).clone(),
            region: prices.region.clone(),
            prices_looked_up: prices.looked_up.clone(),
            designs: all.iter().map(|design| compared.billed(design)).collect(),
            break_evens: compared.pairs().map(|pair| compared.meeting(pair)).collect(),
            sensitivity: months.map(variation).try_collect()?,
            left_out: LEFT_OUT.lines().collect(),
        })
    }

    /// "bill", "break-even", "sensitivity".
    pub(super) fn tables(&self) -> [Table; 3] {
        [self.bills(), self.meetings(), self.variations()]
    }

    /// What is billed, and why: parts in dollars, then units and bytes.
    fn bills(&self) -> Table {
        let mut rows = Vec::new();
        let mut row = |what: String, of: &dyn Fn(&Billed) -> Option<f64>| {
            let mut row: Row = row![("of a month", what)];
            row.extend(self.designs.iter().map(|billed| (billed.design.clone(), of(billed).into())));
            rows.push(row);
        };
        for (place, (part, _)) in Bill::default().parts().into_iter().enumerate() {
            let of = |billed: &Billed| billed.month_usd.parts().get(place).map(|(_, usd)| *usd);
            row(format!("US dollars: {part}"), &of);
        }
        row("US dollars, once: the first load of all comments".to_owned(), &|billed| Some(billed.first_load_usd));
        for write in write_names() {
            row(format!("write units: {write}"), &|billed| billed.write_units.get(&write).copied());
        }
        for ratings in 0..self.month.mix.len() {
            let of = |billed: &Billed| billed.page_read_units.get(ratings).copied();
            let filter = if ratings == 0 { "no rating".to_owned() } else { ratings.to_string() };
            row(format!("read units: page, filter by {filter}"), &of);
        }
        row("items of a comment in the table".to_owned(), &|billed| Some(billed.items));
        row("bytes of a comment in table and indexes".to_owned(), &|billed| Some(billed.dynamodb_bytes));
        row("bytes of a comment in Redis".to_owned(), &|billed| Some(billed.redis_bytes));
        let about = format!(
            "{}. Prices: {}, looked up on {}. \"With counters\" has Pagemark's features except page numbers: pages show \
             totals and counts.",
            self.month.text(),
            self.region,
            self.prices_looked_up
        );
        Table::new("bill", about, rows)
    }

    fn meetings(&self) -> Table {
        let mut rows = Vec::new();
        let mut row = |what: String, of: &dyn Fn(&Meeting) -> Cell| {
            let mut row: Row = row![("billed", what)];
            row.extend(self.break_evens.iter().map(|meeting| (format!("than {}", meeting.than), of(meeting))));
            rows.push(row);
        };
        row("page views and writes only".to_owned(), &|meeting| cell(meeting.requests));
        row("and storage, recovery, audits".to_owned(), &|meeting| cell(meeting.and_storage));
        row("and Redis: all".to_owned(), &|meeting| cell(meeting.all));
        for ratings in 2..self.month.mix.len() {
            let of = |meeting: &Meeting| cell(meeting.all_by_ratings.get(&ratings).copied().flatten());
            row(format!("all, every view by {ratings} ratings"), &of);
        }
        row("cost of a write, functions included, times".to_owned(), &|meeting| meeting.writes_times.into());
        Table::new("break-even", "From how many page views for each write Pagemark is cheaper.", rows)
    }

    fn variations(&self) -> Table {
        let (bills, others) = (self.designs.iter().map(|billed| &billed.design), self.break_evens.iter());
        let rows = self.sensitivity.iter().map(|variation| {
            let mut row: Row = row![("changed", variation.what.as_str())];
            let dollars = variation.month_usd.iter().map(|usd| Cell::from(*usd));
            row.extend(bills.clone().cloned().zip(dollars));
            let cheaper = others.clone().map(|meeting| format!("cheaper than {}", meeting.than));
            row.extend(cheaper.zip(variation.break_evens.iter().map(|break_even| cell(*break_even))));
            row
        });
        Table::new("sensitivity", "The same month with one thing changed: all that is billed, in US dollars.", rows)
    }
}

fn cell(break_even: Option<BreakEven>) -> Cell {
    break_even.map_or(Cell::None, |break_even| Cell::Text(break_even.text()))
}

/// The answer on a terminal.
impl fmt::Display for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tables().iter().try_for_each(|table| writeln!(formatter, "{table}\n"))?;
        writeln!(formatter, "{LEFT_OUT}")
    }
}

/// Months that differ from this one in one thing.
fn variations(base: &Month) -> Vec<(String, Month)> {
    let shaped = |what: String, shape: Shape| (what, Month { shape, ..base.clone() });
    let shape = || base.shape.clone();
    let texts =
        TEXT_BYTES.map(|text_bytes| shaped(format!("text: {text_bytes} bytes"), Shape { text_bytes, ..shape() }));
    let half = base.mix.len().div_ceil(2);
    let mixes = [
        ("mix: no filter by rating".to_owned(), base.with_all_views_of(0)),
        (format!("mix: all by {half} rating{}", if half == 1 { "" } else { "s" }), base.with_all_views_of(half)),
    ];
    let depths = DEPTHS.map(|depth| shaped(format!("depth: every view page {depth}"), Shape { depth, ..shape() }));
    let values = RATING_VALUES
        .map(|values| (format!("ratings: {values} values, 2^{values} items"), base.with_rating_values(values)));
    let languages = shaped(format!("languages: {MANY_LANGUAGES}"), Shape { languages: MANY_LANGUAGES, ..shape() });
    let all = texts.into_iter().chain(mixes).chain(depths).chain(values).chain([languages]);
    all.filter(|(_, month)| month != base).collect()
}

/// The names of [`Billed::write_units`], in the order of a comment's life.
fn write_names() -> impl Iterator<Item = String> {
    Write::VARIANTS.iter().map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::money::bill::tests::{a_query_a_rating, month, one_query};

    fn answer_to(month: &Month) -> Answer {
        let prices = &Prices::published().unwrap();
        Answer::of(&Compared { month, designs: designs(&month.shape).unwrap(), prices }).unwrap()
    }

    fn answer(line: &str) -> Answer {
        answer_to(&Month::parse(line).unwrap())
    }

    /// The rows of a kind, in their order, after the question itself.
    fn varied<'a>(answer: &'a Answer, kind: &str) -> Vec<&'a Variation> {
        let rows = answer.sensitivity.iter();
        rows.filter(|row| row.what == "as asked" || row.what.starts_with(kind)).collect()
    }

    #[test]
    fn the_example() {
        expect![[r#"
            bill: 10,000,000 comments of 400 bytes, 1,000,000 writes, 100,000,000 page views. Views by the number of ratings in the filter, from none on: 75, 10, 5, 5, 5 %. Prices: us-east-1, looked up on 2026-11-20. "With counters" has Pagemark's features except page numbers: pages show totals and counts.
            | of a month                                       | Pagemark | four indexes | four indexes with counters |
            |--------------------------------------------------|----------|--------------|----------------------------|
            | US dollars: page views                           |       25 |         32.5 |                       38.8 |
            | US dollars: writes                               |     43.5 |         3.16 |                       6.13 |
            | US dollars: functions                            |    0.418 |            0 |                          0 |
            | US dollars: storage in table and indexes         |      113 |         9.41 |                       9.41 |
            | US dollars: point-in-time recovery               |     45.0 |         1.67 |                       1.67 |
            | US dollars: audits                               |     15.5 |            0 |                          0 |
            | US dollars: Redis                                |      185 |            0 |                          0 |
            | US dollars: together                             |      427 |         46.7 |                       56.0 |
            | US dollars, once: the first load of all comments |      431 |         31.2 |                       62.5 |
            | write units: insert                              |       68 |            5 |                         10 |
            | write units: text edit                           |       68 |            5 |                          5 |
            | write units: rating change                       |      100 |            7 |                         12 |
            | write units: delete                              |       68 |            5 |                         10 |
            | read units: page, filter by no rating            |        2 |            2 |                       2.50 |
            | read units: page, filter by 1                    |        2 |            2 |                       2.50 |
            | read units: page, filter by 2                    |        2 |            4 |                       4.50 |
            | read units: page, filter by 3                    |        2 |            6 |                       6.50 |
            | read units: page, filter by 4                    |        2 |            8 |                       8.50 |
            | items of a comment in the table                  |       32 |            1 |                          1 |
            | bytes of a comment in table and indexes          |   45,363 |        3,766 |                      3,766 |
            | bytes of a comment in Redis                      |      454 |            0 |                          0 |

            break-even: From how many page views for each write Pagemark is cheaper.
            | billed                                     | than four indexes | than four indexes with counters |
            |--------------------------------------------|-------------------|---------------------------------|
            | page views and writes only                 | from 544          | from 275                        |
            | and storage, recovery, audits              | from 2,715        | from 1,459                      |
            | and Redis: all                             | from 5,176        | from 2,802                      |
            | all, every view by 2 ratings               | from 1,553        | from 1,233                      |
            | all, every view by 3 ratings               | from 776          | from 685                        |
            | all, every view by 4 ratings               | from 518          | from 474                        |
            | cost of a write, functions included, times | 13.9              | 7.17                            |

            sensitivity: The same month with one thing changed: all that is billed, in US dollars.
            | changed                        | Pagemark | four indexes | four indexes with | cheaper than four indexes | cheaper than four indexes |
            |                                |          |              |          counters |                           | with counters             |
            |--------------------------------|----------|--------------|-------------------|---------------------------|---------------------------|
            | as asked                       |      427 |         46.7 |              56.0 | from 5,176                | from 2,802                |
            | text: 100 bytes                |      341 |         26.1 |              35.4 | from 8,499                | from 3,158                |
            | text: 1000 bytes               |      635 |         83.0 |              92.8 | from 4,306                | from 2,898                |
            | text: 4000 bytes               |    1,590 |          250 |               261 | from 4,147                | from 3,475                |
            | mix: no filter by rating       |      427 |         39.2 |              48.5 | never                     | from 6,164                |
            | mix: all by 3 ratings          |      427 |         89.2 |              98.5 | from 776                  | from 685                  |
            | depth: every view page 10      |      427 |          339 |               348 | from 129                  | from 126                  |
            | depth: every view page 100     |      427 |        3,264 |             3,273 | from 12.0                 | from 11.9                 |
            | ratings: 3 values, 2^3 items   |      269 |         40.5 |              49.7 | from 18,401               | from 3,027                |
            | ratings: 8 values, 2^8 items   |    1,910 |         46.7 |              56.0 | from 24,938               | from 13,581               |
            | ratings: 10 values, 2^10 items |    7,005 |         46.7 |              56.0 | from 92,873               | from 50,636               |
            | languages: 100                 |      427 |         46.7 |              68.5 | from 5,176                | from 1,468                |

            Left out, because it is equal in all designs: API, load balancer, logs, data to readers, records of products.
            Left out of Pagemark: alarms, secrets, the repair job's function and the journal, some dollars (docs/deploy.md).
            Left out of all: free tiers, reserved capacity, taxes, and caches in front (DAX, a CDN).
            Assumed: all comments have the same length, all pages are full. Function time and Redis bytes are measured.
        "#]].assert_eq(&answer("").to_string());
    }

    #[test]
    fn twice_the_views_cost_twice_as_much_and_change_nothing_else() {
        let (once, twice) = (answer("--views 50M"), answer("--views 100M"));
        for (once, twice) in once.designs.iter().zip(&twice.designs) {
            assert!(once.month_usd.page_views > 0.0);
            let doubled = Bill { page_views: 2.0 * once.month_usd.page_views, ..once.month_usd };
            assert_eq!(doubled, twice.month_usd);
        }
    }

    #[test]
    fn with_as_many_views_as_the_break_even_both_bills_are_equal() {
        for line in ["", "--text 1500 --mix 20,20,20,20,20", "--ratings 3 --mix 0,0,100", "--depth 7 --writes 3M"] {
            let found = answer(line);
            for (place, meeting) in found.break_evens.iter().enumerate() {
                let Some(BreakEven::From(views)) = meeting.all else { panic!("{line}: {meeting:?}") };
                let at = answer_to(&Month { views: views * found.month.writes, ..found.month.clone() });
                let (ours, theirs) = (at.designs[0].together_usd, at.designs[place + 1].together_usd);
                assert!((ours / theirs - 1.0).abs() < 1e-9, "{line}: {ours} and {theirs}");
                assert_eq!(at.break_evens[place].all, meeting.all);
            }
        }
    }

    #[test]
    fn longer_texts_more_values_and_deeper_pages_never_cost_less() {
        let found = answer("--text 50 --ratings 2 --mix 100 --depth 1");
        for kind in ["text:", "ratings:", "depth:"] {
            let rows = varied(&found, kind);
            assert!(rows.len() > 2, "{kind}");
            for (less, more) in rows.iter().zip(rows.iter().skip(1)) {
                let pairs = || less.month_usd.iter().zip(&more.month_usd);
                assert!(pairs().all(|(less, more)| less <= more), "{less:?} {more:?}");
                assert!(pairs().any(|(less, more)| less < more), "{less:?} {more:?}");
            }
        }
    }

    #[test]
    fn filters_by_more_ratings_and_deeper_pages_favour_pagemark() {
        let found = answer("");
        let rows = varied(&found, "depth:");
        assert!(rows.iter().all(|row| row.month_usd[0] == rows[0].month_usd[0]), "{rows:?}");
        let views = |break_even: Option<BreakEven>| match break_even {
            Some(BreakEven::From(views)) => views,
            other => panic!("{other:?}"),
        };
        for meeting in &found.break_evens {
            let by_ratings: Vec<f64> = meeting.all_by_ratings.values().map(|all| views(*all)).collect();
            assert!(by_ratings.len() == 3 && by_ratings.is_sorted_by(|few, many| few > many), "{by_ratings:?}");
            // What is counted can only raise the number of views that it takes.
            let [requests, storage, all] = [meeting.requests, meeting.and_storage, meeting.all].map(views);
            assert!(requests < storage && storage < all, "{meeting:?}");
        }
    }

    #[test]
    fn a_month_without_anything_has_neither_nan_nor_infinity() {
        for line in ["--comments 0", "--writes 0", "--views 0", "--comments 0 --writes 0 --views 0 --redis-bytes 0"] {
            let found = answer(line);
            let text = found.to_string();
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            // JSON has null in place of what is not a number.
            let nulls = serde_json::to_string(&found).unwrap().matches("null").count();
            assert!(nulls == 0 || found.month.writes == 0.0, "{line}: {nulls}");
            assert!(found.designs.iter().all(|billed| billed.together_usd.is_finite()), "{line}");
        }
    }

    #[test]
    fn the_plotted_lines_cross_at_the_break_even_of_the_numbers() {
        let (month, prices) = (&month(1e6, 1e6, 1e6), &Prices::published().unwrap());
        let compared = Compared { month, designs: vec![one_query(), a_query_a_rating()], prices };
        let numbers = compared.numbers();
        let of = |quantity| {
            let of_design =
                |design| numbers.iter().find(|number| (number.0, number.1) == (quantity, design)).unwrap().2;
            (of_design("one query"), of_design("a query a rating"))
        };
        let found = BreakEven::of(of(Quantity::FixedUsd), of(Quantity::ThreeRatingsViewsUsd));
        assert_eq!((found.text().as_str(), numbers.len()), ("from 405", 2 * 5));
        let plot = compared.plot();
        let [_, ours, _, theirs] = &plot.series[..] else { panic!("two lines for each design") };
        // 405 views per write lie between the third and the fourth point.
        for (place, is_ours_dearer) in [(2, true), (3, false)] {
            assert_eq!(ours.points[place].1 > theirs.points[place].1, is_ours_dearer, "{plot:?}");
        }
        assert!(plot.series.iter().flat_map(|series| &series.points).all(|(x, y)| *x > 0.0 && *y > 0.0));
    }

    #[test]
    fn a_plot_of_a_month_without_writes_has_no_points() {
        let (month, prices) = (&month(1e6, 0.0, 1e6), &Prices::published().unwrap());
        let plot = Compared { month, designs: vec![one_query(), a_query_a_rating()], prices }.plot();
        assert!(plot.series.iter().all(|series| series.points.is_empty()), "{plot:?}");
    }
}
