//! The report on designs' costs: tables, the numbers that decide, a plot.

use itertools::Itertools;
use strum::VariantArray;

use crate::report::{Cell, Plot, Quantity, Row, Series, Table, row};

use super::{
    bill::{Bill, Scope, functions_usd, page_view_usd, write_usd},
    break_even::{BreakEven, Lines, of_ratings},
    prices::Prices,
    usage::{Usage, Workload, Write},
};

const MILLION: f64 = 1e6;
const GB: f64 = 1e9;
/// The number of ratings in the plot and in the numbers, beside the mix.
const SHOWN_RATINGS: usize = 3;
/// Numbers of page views per write.
const VIEWS_A_WRITE: [f64; 6] = [1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0];

/// Designs, common prices, and the months to compare.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Compared<'compared> {
    pub(crate) ours: &'compared Usage,
    pub(crate) others: &'compared [Usage],
    pub(crate) prices: &'compared Prices,
    /// The first one is plotted, and gives the numbers.
    pub(crate) workloads: &'compared [Workload],
}

/// The page views of a month whose number varies.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Views {
    /// In the month's own shares of each number of ratings.
    Mixed,
    Ratings(usize),
}

impl Views {
    const SHOWN: [Self; 2] = [Self::Mixed, Self::Ratings(SHOWN_RATINGS)];

    fn name(self) -> String {
        match self {
            Self::Mixed => "the mix".to_owned(),
            Self::Ratings(ratings) => format!("{ratings} ratings only"),
        }
    }
}

/// Where the cost of everything but page views, and of each view, meet another design's: ours, theirs.
pub(crate) fn break_even(without_usd: (f64, f64), view_usd: (f64, f64)) -> BreakEven {
    Lines { without_usd, view_usd }.break_even()
}

/// The shares of page views by number of ratings, such as "75 % any rating, 10 % one".
pub(crate) fn mix(workload: &Workload) -> String {
    let all: f64 = workload.page_views.iter().sum();
    let names = ["one rating", "two", "three", "four", "any rating"];
    let shares = names.into_iter().zip(workload.page_views).filter(|(_, views)| *views > 0.0);
    shares.rev().map(|(name, views)| format!("{:.0} % {name}", 100.0 * views / all)).join(", ")
}

impl Compared<'_> {
    /// "money", "money-month", "break-even".
    pub(crate) fn tables(&self) -> [Table; 3] {
        [self.each(), self.months(), self.break_evens()]
    }

    fn designs(&self) -> impl Iterator<Item = &Usage> {
        std::iter::once(self.ours).chain(self.others)
    }

    /// Per million page views, per million writes, per comment.
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
            let what = format!("{:.1} million comments of {comment_bytes:.0} bytes, a month", idle.comments / MILLION);
            rows.push(self.row(format!("{what}: storage"), |usage| stored(usage).storage));
            rows.push(self.row(format!("{what}: point-in-time recovery"), |usage| stored(usage).backup));
            rows.push(self.row(format!("{what}: audits"), |usage| stored(usage).upkeep));
        }
        Table::new("money", about, rows)
    }

    /// One row: the cost in every design, and ours as a multiple of each other one.
    fn row(&self, what: String, usd: impl Fn(&Usage) -> f64) -> Row {
        let ours = usd(self.ours);
        let mut row = row![("what", what)];
        row.extend(self.designs().map(|usage| (usage.design.clone(), usd(usage).into())));
        row.extend(self.others.iter().map(|other| {
            let theirs = usd(other);
            (format!("by {}", other.design), (theirs > 0.0).then(|| ours / theirs).into())
        }));
        row
    }

    /// The bill of each month by part.
    fn months(&self) -> Table {
        let mut rows = Vec::new();
        for workload in self.workloads {
            let bills = self.designs().map(|usage| (usage, Bill::of(usage, workload, self.prices))).collect_vec();
            for (place, (part, _)) in Bill::default().parts().into_iter().enumerate() {
                let mut row = row![("month and part", format!("{}: {part}", workload.name))];
                row.extend(bills.iter().map(|(usage, bill)| {
                    let usd = bill.parts().get(place).map(|(_, usd)| *usd);
                    (usage.design.clone(), usd.into())
                }));
                rows.push(row);
            }
        }
        let about = "A month's bill in US dollars by part, without what costs the same in all designs (API, load balancer, \
                     logs, data to readers). Redis is the smallest pair of nodes that holds the page index.";
        Table::new("money-month", about, rows)
    }

    /// Cost of a page view.
    fn view_usd(&self, usage: &Usage, workload: &Workload, views: Views) -> f64 {
        match views {
            Views::Mixed => Bill::of(usage, workload, self.prices).page_views / workload.page_views.iter().sum::<f64>(),
            Views::Ratings(ratings) => page_view_usd(of_ratings(usage.page_read_units, ratings), self.prices),
        }
    }

    /// Both designs' bills for a month that has no other page views than these.
    fn lines(&self, other: &Usage, workload: &Workload, views: Views, scope: Scope) -> Lines {
        let idle = Workload { page_views: Default::default(), ..workload.clone() };
        let lines = Lines::of((self.ours, other), &idle, SHOWN_RATINGS, scope, self.prices);
        let view_usd = |usage| self.view_usd(usage, workload, views);
        Lines { view_usd: (view_usd(self.ours), view_usd(other)), ..lines }
    }

    /// The page views per write from which ours is cheaper.
    fn cheaper(&self, other: &Usage, workload: &Workload, views: Views, scope: Scope) -> Cell {
        let at = self.lines(other, workload, views, scope).break_even();
        at.per_write(workload.writes()).map_or(Cell::None, |views| Cell::Text(views.text()))
    }

    /// "money-cache", if the other designs are behind a cache.
    pub(crate) fn cache_table(&self) -> Table {
        let rows = self.workloads.iter().cartesian_product(self.others).map(|(workload, other)| {
            let [ours, theirs] = [self.ours, other].map(|usage| Bill::of(usage, workload, self.prices));
            let (our_usd, their_usd) = (ours.total(Scope::AndRedis), theirs.total(Scope::AndRedis));
            let cheaper = |views| self.cheaper(other, workload, views, Scope::AndRedis);
            row![
                ("month", workload.name.as_str()),
                ("beside", other.design.as_str()),
                ("its page views", theirs.page_views),
                ("its Redis", theirs.redis),
                ("its bill", their_usd),
                ("our page views", ours.page_views),
                ("our Redis", ours.redis),
                ("our bill", our_usd),
                ("our bill by its", our_usd / their_usd),
                ("we are cheaper: page views per write, the mix", cheaper(Views::Mixed)),
                ("3 ratings only", cheaper(Views::Ratings(SHOWN_RATINGS))),
            ]
        });
        let about = "The same money spent on a cache: the design with four indexes and counters pays for the same Redis and \
                     keeps pages in it. A month's bill in US dollars, all included. **The hit rate is an assumption.** A hit \
                     takes no read units. Removing cached pages after a write is not counted.";
        Table::new("money-cache", about, rows)
    }

    fn break_evens(&self) -> Table {
        let all_views = [Views::Mixed, Views::Ratings(2), Views::Ratings(3), Views::Ratings(4)];
        let mut rows = Vec::new();
        for ((workload, other), views) in
            self.workloads.iter().cartesian_product(self.others).cartesian_product(all_views)
        {
            let text = |scope| self.cheaper(other, workload, views, scope);
            rows.push(row![
                ("month", workload.name.as_str()),
                ("beside", other.design.as_str()),
                ("page views", views.name()),
                ("cheaper: page views and writes only", text(Scope::Requests)),
                ("and storage, recovery, audits", text(Scope::AndStorage)),
                ("and Redis", text(Scope::AndRedis)),
            ]);
        }
        let mixes = self.workloads.iter().map(mix).unique().join("; ");
        let about = format!(
            "Number of page views per write from which {} is cheaper, if a month has no other page views than these. The mix: \
             {mixes}. A cache is in money-cache.",
            self.ours.design
        );
        Table::new("break-even", about, rows)
    }

    /// The numbers of the first month by which designs are compared, with the design's name.
    pub(crate) fn numbers(&self) -> Vec<(Quantity, &str, f64)> {
        let Some(workload) = self.workloads.first() else { return Vec::new() };
        let a_million_writes = MILLION / workload.writes();
        let of_design = |usage| {
            let bill = Bill::of(usage, workload, self.prices);
            let views = |views| MILLION * self.view_usd(usage, workload, views);
            let month_usd = bill.total(Scope::AndRedis);
            [
                (Quantity::WritesUsd, (bill.writes + bill.functions) * a_million_writes),
                (Quantity::FixedUsd, (month_usd - bill.page_views) * a_million_writes),
                (Quantity::MixedViewsUsd, views(Views::Mixed)),
                (Quantity::ThreeRatingsViewsUsd, views(Views::Ratings(SHOWN_RATINGS))),
                (Quantity::MonthUsd, month_usd),
            ]
        };
        let all = self.designs().flat_map(|usage| of_design(usage).map(|(of, usd)| (of, usage.design.as_str(), usd)));
        all.collect()
    }

    /// Dollars for a million writes and their page views, in each design, by page views per write.
    pub(crate) fn plot(&self) -> Plot {
        let mut series = Vec::new();
        if let Some(workload) = self.workloads.first().filter(|workload| workload.writes() > 0.0) {
            for (usage, views) in self.designs().cartesian_product(Views::SHOWN) {
                // Two lines of one design.
                let lines = self.lines(usage, workload, views, Scope::AndRedis);
                let (without_usd, view_usd) = (lines.without_usd.1 / workload.writes(), lines.view_usd.1);
                let points = VIEWS_A_WRITE.map(|views| (views, MILLION * (without_usd + views * view_usd))).to_vec();
                series.push(Series { name: format!("{}: {}", usage.design, views.name()), points });
            }
        }
        let month = self.workloads.first().map_or("", |workload| workload.name.as_str());
        let title = format!("What a million writes and their page views cost ({month})");
        Plot::new("money", title, ["page views for each write", "US dollars for a million writes"], series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::bill::tests::{a_query_a_rating, one_query, workload};

    fn compared<R>(ours: &Usage, theirs: Usage, month: Workload, check: impl Fn(&Compared<'_>) -> R) -> R {
        let prices = Prices::published().unwrap();
        check(&Compared { ours, others: &[theirs], prices: &prices, workloads: &[month] })
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
        compared(&one_query(), a_query_a_rating(), workload(1e6, 1e6, 1e6), |compared| {
            let tables = compared.tables();
            for (table, row, expected) in [
                (0, 2, "a million page views, 3 ratings | 0.06 | 0.19 | 0.33"),
                (0, 5, "a million writes: insert, functions included | 7.63 | 1.25 | 6.10"),
                (0, 9, "4.0 million comments of 250 bytes, a month: storage | 20.00 | 2.00 | 10.00"),
                (1, 7, "a month: together | 52.57 | 2.02"),
                (2, 0, "a month | a query a rating | the mix | from 51.0 | from 106.4 | from 405.4"),
                (2, 2, "a month | a query a rating | 3 ratings only | from 51.0 | from 106.4 | from 405.4"),
            ] {
                assert_eq!(line(&tables[table], row), expected);
            }
            for table in &tables {
                assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.name);
            }
        });
    }

    #[test]
    fn a_mixed_view_costs_the_mean_of_its_parts() {
        let mut month = workload(5e5, 1e6, 1e6);
        month.page_views[0] = 5e5;
        assert_eq!(mix(&month), "50 % three, 50 % one rating");
        compared(&one_query(), a_query_a_rating(), month, |compared| {
            // Half of the views save 1 unit, half nothing. So it takes twice as many.
            let break_evens = &compared.tables()[2];
            assert!(line(break_evens, 0).contains("the mix | from 102.0 |"), "{}", line(break_evens, 0));
            assert!(line(break_evens, 2).contains("3 ratings only | from 51.0 |"), "{}", line(break_evens, 2));
        });
    }

    #[test]
    fn the_numbers_give_the_break_even_of_the_table() {
        compared(&one_query(), a_query_a_rating(), workload(1e6, 1e6, 1e6), |compared| {
            let numbers = compared.numbers();
            let of = |quantity| {
                let of_design =
                    |design| numbers.iter().find(|number| (number.0, number.1) == (quantity, design)).unwrap().2;
                (of_design("one query"), of_design("a query a rating"))
            };
            let found = break_even(of(Quantity::FixedUsd), of(Quantity::ThreeRatingsViewsUsd));
            assert_eq!(found.text(), "from 405.4");
            assert_eq!(numbers.len(), 2 * 5);
        });
    }

    #[test]
    fn the_plotted_lines_cross_at_the_break_even() {
        let plot = compared(&one_query(), a_query_a_rating(), workload(1e6, 1e6, 1e6), |compared| compared.plot());
        let [ours, _, theirs, _] = &plot.series[..] else { panic!("two lines for each design") };
        // 405 views per write lie between the third and the fourth point.
        for (place, is_ours_dearer) in [(2, true), (3, false)] {
            assert_eq!(ours.points[place].1 > theirs.points[place].1, is_ours_dearer, "{plot:?}");
        }
        assert!(plot.series.iter().flat_map(|series| &series.points).all(|(x, y)| *x > 0.0 && *y > 0.0));
    }

    #[test]
    fn without_writes_there_are_no_page_views_a_write() {
        compared(&one_query(), a_query_a_rating(), workload(1e6, 0.0, 1e6), |compared| {
            let [.., break_evens] = compared.tables();
            assert_eq!(line(&break_evens, 2), "a month | a query a rating | 3 ratings only | always | - | -");
            assert!(compared.plot().series.is_empty());
        });
    }
}
