//! The report on two designs' costs: tables, a plot, and the cases in which ours loses.

use strum::VariantArray;

use crate::report::{Cell, Plot, Row, Series, Table, row};

use super::{
    bill::{Bill, Scope, functions_usd, page_view_usd, write_usd},
    break_even::{BreakEven, Lines, of_ratings},
    prices::Prices,
    usage::{Usage, Workload, Write},
};

const MILLION: f64 = 1e6;
const GB: f64 = 1e9;
/// The numbers of ratings that need several queries if each rating has a separate partition.
const SEVERAL_RATINGS: [usize; 3] = [2, 3, 4];
/// The number of ratings in the plot and in the price of being faster.
const SHOWN_RATINGS: usize = 3;
/// Numbers of page views per write.
const VIEWS_A_WRITE: [f64; 6] = [1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0];

/// Two designs, common prices, and the months to compare.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Compared<'compared> {
    pub(crate) ours: &'compared Usage,
    pub(crate) theirs: &'compared Usage,
    pub(crate) prices: &'compared Prices,
    /// The first one is plotted.
    pub(crate) workloads: &'compared [Workload],
}

impl Compared<'_> {
    /// "money", "money-month", "break-even", "faster-for-money".
    pub(crate) fn tables(&self) -> [Table; 4] {
        [self.each(), self.months(), self.break_evens(), self.faster()]
    }

    /// Per million page views, per million writes, per GB-month.
    fn each(&self) -> Table {
        let Prices { region, looked_up, million_read_units, million_write_units, storage_gb_month, .. } = self.prices;
        let about = format!(
            "In US dollars, by prices of {region} as found on {looked_up} (bench/prices.json says where, and how old): a million read units \
             {}, a million write units {}, a GB-month {}. Without what is fixed: see money-month.",
            million_read_units.usd, million_write_units.usd, storage_gb_month.usd
        );
        let mut rows = Vec::new();
        for ratings in [1, 2, 3, 4, 5] {
            let what = match ratings {
                1 => "a million page views, one rating".to_owned(),
                5 => "a million page views, any rating".to_owned(),
                several => format!("a million page views, {several} ratings"),
            };
            let views_usd = |usage: &Usage| page_view_usd(of_ratings(usage.page_read_units, ratings), self.prices);
            rows.push(self.row(what, |usage| MILLION * views_usd(usage)));
        }
        for kind in Write::VARIANTS {
            rows.push(self.row(format!("a million writes: {kind}, functions included"), |usage| {
                let write = usage.write.get(*kind as usize).copied().unwrap_or_default();
                MILLION * (write_usd(write, self.prices) + functions_usd(write, usage.function_memory_gb, self.prices))
            }));
        }
        let comment_bytes = self.workloads.first().map_or(0.0, |workload| workload.comment_bytes);
        if comment_bytes > 0.0 {
            let idle = Workload { comments: GB / comment_bytes, ..Workload::default() };
            let stored = |usage: &Usage| Bill::of(usage, &idle, self.prices);
            let what = format!("a GB-month of comments of {comment_bytes:.0} bytes");
            rows.push(self.row(format!("{what}: storage"), |usage| stored(usage).storage));
            rows.push(self.row(format!("{what}: point-in-time recovery"), |usage| stored(usage).backup));
            rows.push(self.row(format!("{what}: audits"), |usage| stored(usage).upkeep));
        }
        Table::new("money", about, rows)
    }

    /// One row: the cost in both designs, and ours as a multiple of theirs.
    fn row(&self, what: String, usd: impl Fn(&Usage) -> f64) -> Row {
        let (theirs, ours) = (usd(self.theirs), usd(self.ours));
        let times = (theirs > 0.0).then(|| ours / theirs);
        row![("what", what), (self.theirs.design, theirs), (self.ours.design, ours), ("ours by theirs", times)]
    }

    /// The bill of each month by part.
    fn months(&self) -> Table {
        let mut rows = Vec::new();
        for workload in self.workloads {
            let [ours, theirs] = [self.ours, self.theirs].map(|usage| Bill::of(usage, workload, self.prices));
            for ((part, ours), (_, theirs)) in ours.parts().into_iter().zip(theirs.parts()) {
                rows.push(row![
                    ("month and part", format!("{}: {part}", workload.name)),
                    (self.theirs.design, theirs),
                    (self.ours.design, ours),
                    ("ours less theirs", ours - theirs),
                ]);
            }
        }
        let about = "A month's bill in US dollars by part, without what costs the same in both designs (API, load balancer, \
                     logs, data to readers). Redis is the smallest pair of nodes that holds the page index.";
        Table::new("money-month", about, rows)
    }

    fn lines(&self, workload: &Workload, ratings: usize, scope: Scope) -> Lines {
        Lines::of((self.ours, self.theirs), workload, ratings, scope, self.prices)
    }

    /// The latencies of a page, ours and theirs, if both were measured.
    fn latencies_us(&self, ratings: usize) -> Option<(f64, f64)> {
        let of = |usage: &Usage| of_ratings(usage.page_latency_us, ratings);
        of(self.ours).zip(of(self.theirs))
    }

    fn break_evens(&self) -> Table {
        let mut rows = Vec::new();
        for workload in self.workloads {
            for ratings in SEVERAL_RATINGS {
                let at = |scope| self.lines(workload, ratings, scope).break_even();
                let text = |views: BreakEven| {
                    views.per_write(workload.writes()).map_or(Cell::None, |views| Cell::Text(views.text()))
                };
                let latencies_us = self.latencies_us(ratings);
                let faster = latencies_us
                    .map(|(ours, theirs)| if ours < theirs { at(Scope::AndRedis) } else { BreakEven::Never });
                let (ours, theirs) = latencies_us.unzip();
                rows.push(row![
                    ("month", workload.name.as_str()),
                    ("ratings", ratings.to_string()),
                    ("cheaper: page views and writes only", text(at(Scope::Requests))),
                    ("and storage, recovery, audits", text(at(Scope::AndStorage))),
                    ("and Redis", text(at(Scope::AndRedis))),
                    (format!("{}: p50, us", self.theirs.design), theirs),
                    (format!("{}: p50, us", self.ours.design), ours),
                    ("faster at equal money", faster.map_or(Cell::None, text)),
                ]);
            }
        }
        let about = format!(
            "Number of page views with this many ratings per write from which {} is cheaper than {}, with everything else of \
             the month unchanged. And the number from which it is faster at equal money: from there on it costs no more, if \
             its page takes less time over connections with a delay. Spending the difference on a cache is not considered.",
            self.ours.design, self.theirs.design
        );
        Table::new("break-even", about, rows)
    }

    /// The price of being faster, by page views per write.
    fn faster(&self) -> Table {
        let mut rows = Vec::new();
        for workload in self.workloads.iter().filter(|workload| workload.writes() > 0.0) {
            for views_a_write in VIEWS_A_WRITE {
                let views = views_a_write * workload.writes();
                let more = |scope| Some(self.lines(workload, SHOWN_RATINGS, scope).more_a_view_usd(views)? * MILLION);
                let saved = self.latencies_us(SHOWN_RATINGS).map(|(ours, theirs)| theirs - ours);
                rows.push(row![
                    ("month", workload.name.as_str()),
                    (format!("page views of {SHOWN_RATINGS} ratings a write"), views_a_write),
                    ("dollars more a million of them: page views and writes only", more(Scope::Requests)),
                    ("all that is billed", more(Scope::AndRedis)),
                    ("saved by each, p50, us", saved),
                ]);
            }
        }
        let about = format!(
            "The additional cost of {} over {} for each page view, and the microseconds that each saves; below 0 it is \
             cheaper, or slower.",
            self.ours.design, self.theirs.design
        );
        Table::new("faster-for-money", about, rows)
    }

    /// Dollars for a million writes and their page views of three ratings.
    pub(crate) fn plot(&self) -> Plot {
        let mut series = Vec::new();
        if let Some(workload) = self.workloads.first().filter(|workload| workload.writes() > 0.0) {
            for (scope, about) in [(Scope::Requests, "page views and writes only"), (Scope::AndRedis, "all")] {
                let lines = self.lines(workload, SHOWN_RATINGS, scope);
                for (design, without_usd, view_usd) in [
                    (&self.theirs.design, lines.without_usd.1, lines.view_usd.1),
                    (&self.ours.design, lines.without_usd.0, lines.view_usd.0),
                ] {
                    let usd =
                        |views_a_write: f64| (without_usd / workload.writes() + views_a_write * view_usd) * MILLION;
                    let points = VIEWS_A_WRITE.map(|views_a_write| (views_a_write, usd(views_a_write)));
                    series.push(Series { name: format!("{design}: {about}"), points: points.to_vec() });
                }
            }
        }
        let month = self.workloads.first().map_or("", |workload| workload.name.as_str());
        let title = format!("What a million writes and their page views of {SHOWN_RATINGS} ratings cost ({month})");
        Plot::new("break-even", title, ["page views for each write", "US dollars for a million writes"], series)
    }

    /// A sentence about where ours is dearer in the first month; `None` if nowhere.
    pub(crate) fn losses(&self) -> Option<String> {
        let workload = self.workloads.first()?;
        let [ours, theirs] = [self.ours, self.theirs].map(|usage| Bill::of(usage, workload, self.prices));
        let times = |ours: f64, theirs: f64| (ours > theirs && theirs > 0.0).then(|| ours / theirs);
        let mut lost = Vec::new();
        if let Some(times) = times(ours.writes + ours.functions, theirs.writes + theirs.functions) {
            lost.push(format!("its writes cost {times:.1} times as much as those of {}", self.theirs.design));
        }
        if let Some(times) = times(ours.storage + ours.backup, theirs.storage + theirs.backup) {
            lost.push(format!("storing a comment {times:.1} times as much"));
        }
        if ours.redis > theirs.redis {
            lost.push(format!("its Redis costs ${:.0} a month whether it is asked or not", ours.redis - theirs.redis));
        }
        for ratings in SEVERAL_RATINGS {
            let views = self.lines(workload, ratings, Scope::AndRedis).break_even().per_write(workload.writes());
            match views {
                Some(BreakEven::From(views)) => lost.push(format!(
                    "with {ratings} ratings it is cheaper only from {views:.0} page views for each write on"
                )),
                Some(BreakEven::Never) => lost.push(format!("with {ratings} ratings it is never cheaper")),
                Some(BreakEven::Always | BreakEven::Below(_)) | None => {}
            }
        }
        let month = &workload.name;
        (!lost.is_empty()).then(|| format!("Money ({month}): {}.", lost.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::bill::tests::{a_query_a_rating, one_query, workload};

    fn compared<R>(ours: &Usage, theirs: &Usage, month: Workload, check: impl Fn(&Compared<'_>) -> R) -> R {
        check(&Compared { ours, theirs, prices: &Prices::published().unwrap(), workloads: &[month] })
    }

    fn line(table: &Table, row: usize) -> String {
        let text = |cell: &Cell| match cell {
            Cell::Figure(figure) => format!("{figure:.2}"),
            Cell::Text(_) | Cell::None => cell.to_string(),
        };
        table.rows[row].iter().map(text).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn the_tables_of_the_examples_by_hand() {
        compared(&one_query(), &a_query_a_rating(), workload(1e6, 1e6, 1e6), |compared| {
            let tables = compared.tables();
            for (table, row, expected) in [
                (0, 2, "a million page views, 3 ratings | 0.19 | 0.06 | 0.33"),
                (0, 5, "a million writes: insert, functions included | 1.25 | 7.63 | 6.10"),
                // 4 million comments of 250 bytes.
                (0, 9, "a GB-month of comments of 250 bytes: storage | 2.00 | 20.00 | 10.00"),
                (1, 7, "a month: together | 2.02 | 52.57 | 50.55"),
                (2, 1, "a month | 3 | from 51.0 | from 106.4 | from 405.4 | 1400.00 | 700.00 | from 405.4"),
                // 6.3766668 per write for one view each, and 50.6726668, each minus 0.125.
                (3, 0, "a month | 1.00 | 6.25 | 50.55 | 700.00"),
            ] {
                assert_eq!(line(&tables[table], row), expected);
            }
            for table in &tables {
                assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.name);
            }
            let losses = compared.losses().unwrap();
            assert!(losses.contains("6.1 times as much as those of a query a rating"), "{losses}");
            assert!(losses.contains("with 3 ratings it is cheaper only from 405 page views"), "{losses}");
        });
    }

    #[test]
    fn the_plotted_lines_cross_at_the_break_even() {
        let plot = compared(&one_query(), &a_query_a_rating(), workload(1e6, 1e6, 1e6), |compared| compared.plot());
        let [theirs, ours, ..] = &plot.series[..] else { panic!("two lines for each scope") };
        // 51 views per write lie between the second and the third point.
        for (place, is_ours_dearer) in [(1, true), (2, false)] {
            assert_eq!(ours.points[place].1 > theirs.points[place].1, is_ours_dearer, "{plot:?}");
        }
        assert!(plot.series.iter().flat_map(|series| &series.points).all(|(x, y)| *x > 0.0 && *y > 0.0));
    }

    #[test]
    fn a_design_that_is_better_in_all_loses_nowhere_and_has_no_break_even() {
        let worse = one_query();
        let better = Usage { page_read_units: worse.page_read_units, redis_bytes: 0.0, ..a_query_a_rating() };
        compared(&better, &worse, workload(1e6, 1e6, 1e6), |compared| {
            assert_eq!(compared.losses(), None);
            // Always cheaper, but its page takes twice as long, so it is never the faster one.
            let break_even = line(&compared.tables()[2], 1);
            assert!(break_even.starts_with("a month | 3 | always | always | always"), "{break_even}");
            assert!(break_even.ends_with("never"), "{break_even}");
        });
    }

    #[test]
    fn without_writes_there_are_no_page_views_a_write() {
        compared(&one_query(), &a_query_a_rating(), workload(1e6, 0.0, 1e6), |compared| {
            let [.., break_evens, faster] = compared.tables();
            assert_eq!(line(&break_evens, 1), "a month | 3 | always | - | - | 1400.00 | 700.00 | -");
            assert!(faster.rows.is_empty());
            assert!(compared.plot().series.is_empty());
        });
    }
}
