//! `scale`: the growth of all costs with the number of comments, and their absolute values.
//!
//! - **Reads** (10,000, 100,000, 1,000,000 comments of one product): random pages of 20, of all comments and of three
//!   ratings. They are read like in the API, without HTTP: the page's start from the page index, its comments by one
//!   Query. The figures are the latency of single reads, and how many pages 16 callers read per second. Sample pages
//!   are compared before.
//! - **Page index** (and 10,000,000, if the machine has the memory): the server's time for a random page of one and of
//!   three ratings (measured like in `selection`), the memory of the data, and the rate at which one pipeline fills it.
//! - **Upkeep** (3,000, 10,000, 30,000 comments with all their items): the binary of the repair job audits table and
//!   page index; the figures are its total time and its largest resident set. Also a rebuild of the page index.
//!
//! Each quantity gets an exponent (`fit`): 0 if it does not grow with the number of comments, 1 if it grows in
//! proportion. The promises: a page costs the same for any number of comments (I6); the memory of the page index, the
//! audit and the rebuild grow at most in proportion; an audit's memory does not grow.

mod fit;
mod page_index;
mod reads;
mod upkeep;

use std::fmt::Write as _;

use crate::{
    binaries::binary,
    options::Options,
    report::{Axis, Cell, Limit, Plot, Report, Series, Table, count},
};
use fit::PowerLaw;
use page_index::IndexPoint;
use reads::{CALLERS, ReadPoint};
use upkeep::UpkeepPoint;

const READ_SIZES: [u32; 3] = [10_000, 100_000, 1_000_000];
const INDEX_SIZES: [u32; 4] = [10_000, 100_000, 1_000_000, 10_000_000];
/// 100,000 comments have 3.2 million items. Loading them alone takes longer than everything else here.
const UPKEEP_SIZES: [u32; 3] = [3_000, 10_000, 30_000];
const QUICK_SIZES: [u32; 3] = [1_000, 3_000, 10_000];
/// Loading 32 items per comment is slow.
const QUICK_UPKEEP_SIZES: [u32; 3] = [300, 1_000, 3_000];
/// Free memory that the machine must have for each comment of the page index. The index takes about 450 bytes, and the
/// server also holds data that it has not added yet.
const INDEX_BYTES_A_COMMENT: f64 = 600.0;
/// Free memory for any number of comments: for the benchmark and the rest of the machine.
const INDEX_BYTES_AT_LEAST: f64 = 1e9;
/// How far an exponent may exceed its promise. Measurements vary by some percent, and the search in a union takes steps
/// in proportion to the logarithm.
const EXPONENT_TOLERANCE: f64 = 0.1;
const MIB: f64 = 1_048_576.0;
/// The quantities with a limit.
const PAGES_P50: [&str; 2] = ["page of all: p50", "page of 3 ratings: p50"];

/// Measures at all sizes up to the requested number of comments.
pub(crate) async fn measure(report: &mut Report, options: &Options) -> anyhow::Result<()> {
    let most = options.comments_or(10_000, 10_000_000);
    let up_to = |sizes: &[u32], quick_sizes: &[u32]| -> Vec<u32> {
        let sizes = if options.quick { quick_sizes } else { sizes };
        sizes.iter().copied().filter(|size| *size <= most).collect()
    };
    let available = page_index::available_memory_bytes()?;
    let fits = |size: &u32| f64::from(*size) * INDEX_BYTES_A_COMMENT + INDEX_BYTES_AT_LEAST <= available;
    let (index_sizes, too_large): (Vec<u32>, Vec<u32>) = up_to(&INDEX_SIZES, &QUICK_SIZES).into_iter().partition(fits);
    let left_out = too_large.iter().fold(String::new(), |mut text, size| {
        let gb = (f64::from(*size) * INDEX_BYTES_A_COMMENT + INDEX_BYTES_AT_LEAST) / 1e9;
        _ = write!(
            text,
            " Left out: {size} comments, for which {gb:.1} GB of memory must be available; {:.1} are.",
            available / 1e9
        );
        text
    });
    let mut growth = Growth::default();

    let points = page_index::measure(report, &index_sizes, options.quick).await?;
    report.table(index_table(&points, &left_out))?;
    growth.of_index(&points);

    let mut points = Vec::new();
    for size in up_to(&READ_SIZES, &QUICK_SIZES) {
        report.step(&format!("reads, {} comments", count(size.into())));
        points.push(reads::measure(size, options.quick).await?);
    }
    report.table(reads_table(&points))?;
    growth.of_reads(&points);

    let repair_job = binary("repair-job")?;
    let mut points = Vec::new();
    for size in up_to(&UPKEEP_SIZES, &QUICK_UPKEEP_SIZES) {
        report.step(&format!("audit and rebuild, {} comments", count(size.into())));
        points.push(upkeep::measure(size, &repair_job).await?);
    }
    report.table(upkeep_table(&points))?;
    growth.of_upkeep(&points);

    report.table(growth.table())?;
    for plot in growth.plots() {
        report.plot(plot)?;
    }
    // Between the sizes of a quick run, little changes except that caches become too small.
    let of_pages = growth.exponent_of_pages().filter(|_| !options.quick);
    if let Some(exponent) = of_pages {
        report.ratio("scale_page_exponent", exponent, Limit::AtMost(EXPONENT_TOLERANCE));
    }
    if let Some(losses) = growth.losses().filter(|_| !options.quick) {
        report.loses("scale", &losses);
    }
    Ok(())
}

fn index_table(points: &[IndexPoint], left_out: &str) -> Table {
    let columns = [
        "comments",
        "1 rating: p50, us",
        "1 rating: p99, us",
        "3 ratings: p50, us",
        "3 ratings: p99, us",
        "bytes/comment",
        "memory, MiB",
        "filled, comments/s",
    ];
    let row = |point: &IndexPoint| {
        vec![
            point.comments,
            point.one_rating_us.0,
            point.one_rating_us.1,
            point.three_ratings_us.0,
            point.three_ratings_us.1,
            point.memory_bytes / point.comments,
            point.memory_bytes / MIB,
            point.comments_per_s,
        ]
    };
    let about = format!(
        "The page index of one product: the server's time for a random page of 20, its memory (four sets a comment), how fast it \
         was filled since the size before by one pipeline, in the order of time.{left_out}"
    );
    table("scale-index", about, &columns, points.iter().map(row))
}

fn reads_table(points: &[ReadPoint]) -> Table {
    let columns = [
        "comments",
        "all: p50, us",
        "all: p99, us",
        &format!("all: {CALLERS} callers, pages/s"),
        "3 ratings: p50, us",
        "3 ratings: p99, us",
        &format!("3 ratings: {CALLERS} callers, pages/s"),
    ];
    let row = |point: &ReadPoint| {
        let (all, union) = (point.all, point.union);
        vec![point.comments, all.p50_us, all.p99_us, all.pages_per_s, union.p50_us, union.p99_us, union.pages_per_s]
    };
    let about = "Random pages of 20 of one product, as the API reads them, without HTTP: latency of one after the other, throughput of \
                 callers at the same time.";
    table("scale-reads", about.to_owned(), &columns, points.iter().map(row))
}

fn upkeep_table(points: &[UpkeepPoint]) -> Table {
    let columns = ["comments", "audit, s", "audit's memory, MiB", "rebuild, s"];
    let row = |point: &UpkeepPoint| vec![point.comments, point.audit_s, point.audit_mib, point.rebuild_s];
    let about = "All 32 items a comment, one segment: the repair job's binary auditing table and page index, and a rebuild of the page index.";
    table("scale-upkeep", about.to_owned(), &columns, points.iter().map(row))
}

fn table(name: &str, about: String, columns: &[&str], rows: impl Iterator<Item = Vec<f64>>) -> Table {
    let columns = columns.iter().map(|column| (*column).to_owned()).collect();
    let rows = rows.map(|row| row.into_iter().map(Cell::Figure).collect()).collect();
    Table { name: name.to_owned(), about, columns, rows }
}

/// The promised bound of a quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Promise {
    /// It grows at most with this exponent; 0 means no growth.
    AtMost(f64),
    /// A rate that does not fall.
    Level,
}

impl Promise {
    /// Whether the law breaks the promise.
    fn is_broken_by(self, law: PowerLaw) -> bool {
        match self {
            Self::AtMost(most) => law.exponent > most + EXPONENT_TOLERANCE,
            Self::Level => law.exponent < -EXPONENT_TOLERANCE,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(most) => format!("at most {most}"),
            Self::Level => "at least 0".to_owned(),
        }
    }
}

/// One quantity at several numbers of comments.
struct Quantity {
    name: &'static str,
    points: Vec<(f64, f64)>,
    promise: Promise,
}

/// All quantities.
#[derive(Default)]
struct Growth {
    quantities: Vec<Quantity>,
}

impl Growth {
    fn add<P>(&mut self, points: &[P], name: &'static str, promise: Promise, of: fn(&P) -> (f64, f64)) {
        self.quantities.push(Quantity { name, points: points.iter().map(of).collect(), promise });
    }

    fn of_index(&mut self, points: &[IndexPoint]) {
        let level = Promise::AtMost(0.0);
        self.add(points, "page index, 1 rating: p50", level, |at| (at.comments, at.one_rating_us.0));
        self.add(points, "page index, 1 rating: p99", level, |at| (at.comments, at.one_rating_us.1));
        self.add(points, "page index, 3 ratings: p50", level, |at| (at.comments, at.three_ratings_us.0));
        self.add(points, "page index, 3 ratings: p99", level, |at| (at.comments, at.three_ratings_us.1));
        self.add(points, "page index, memory", Promise::AtMost(1.0), |at| (at.comments, at.memory_bytes));
        self.add(points, "page index, rate of filling", Promise::Level, |at| (at.comments, at.comments_per_s));
    }

    fn of_reads(&mut self, points: &[ReadPoint]) {
        let level = Promise::AtMost(0.0);
        self.add(points, PAGES_P50[0], level, |at| (at.comments, at.all.p50_us));
        self.add(points, "page of all: p99", level, |at| (at.comments, at.all.p99_us));
        self.add(points, "page of all: throughput", Promise::Level, |at| (at.comments, at.all.pages_per_s));
        self.add(points, PAGES_P50[1], level, |at| (at.comments, at.union.p50_us));
        self.add(points, "page of 3 ratings: p99", level, |at| (at.comments, at.union.p99_us));
        self.add(points, "page of 3 ratings: throughput", Promise::Level, |at| (at.comments, at.union.pages_per_s));
    }

    fn of_upkeep(&mut self, points: &[UpkeepPoint]) {
        self.add(points, "audit, time", Promise::AtMost(1.0), |at| (at.comments, at.audit_s));
        self.add(points, "audit, memory", Promise::AtMost(0.0), |at| (at.comments, at.audit_mib));
        self.add(points, "rebuild, time", Promise::AtMost(1.0), |at| (at.comments, at.rebuild_s));
    }

    /// The larger of the two median exponents, over both kinds of pages.
    fn exponent_of_pages(&self) -> Option<f64> {
        let of_pages = self.quantities.iter().filter(|quantity| PAGES_P50.contains(&quantity.name));
        of_pages.filter_map(|quantity| Some(PowerLaw::fit(&quantity.points)?.exponent)).reduce(f64::max)
    }

    fn table(&self) -> Table {
        let columns = ["quantity", "comments", "exponent", "promised", "kept", "worst point is off by, times"];
        let mut rows = Vec::new();
        for quantity in &self.quantities {
            let sizes = match quantity.points[..] {
                [(least, _), .., (most, _)] => format!("{least:.0} to {most:.0}"),
                _ => String::new(),
            };
            let law = PowerLaw::fit(&quantity.points);
            let figure = |of: fn(PowerLaw) -> f64| law.map_or(Cell::None, |law| Cell::Figure(of(law)));
            let verdict = match (quantity.promise, law) {
                (_, None) => "",
                (promise, Some(law)) if promise.is_broken_by(law) => "worse",
                (_, Some(_)) => "holds",
            };
            rows.push(vec![
                quantity.name.into(),
                sizes.into(),
                law.map_or(Cell::None, |law| format!("{:.2}", law.exponent).into()),
                quantity.promise.text().into(),
                verdict.into(),
                figure(|law| law.off_by),
            ]);
        }
        Table {
            name: "scale".to_owned(),
            about: format!(
                "How each quantity grows with the number of comments n: as n to the power of the exponent, by least squares of \
                 logarithms. An exponent may be {EXPONENT_TOLERANCE} worse than what is promised."
            ),
            columns: columns.map(str::to_owned).to_vec(),
            rows,
        }
    }

    /// Plots of the quantities that should be level and of those that grow in proportion, each relative to its value at
    /// the smallest number of comments.
    fn plots(&self) -> [Plot; 2] {
        let plot = |name: &str, title: &str, is_here: fn(Promise) -> bool| {
            let here = self.quantities.iter().filter(|quantity| is_here(quantity.promise));
            let series = here.filter_map(|quantity| {
                let (_, first) = *quantity.points.first()?;
                let points = quantity.points.iter().map(|(comments, value)| (*comments, value / first)).collect();
                Some(Series { name: quantity.name.to_owned(), points })
            });
            Plot {
                name: name.to_owned(),
                title: title.to_owned(),
                x: Axis { label: "comments".to_owned(), is_log: true },
                y: Axis { label: "times the value with the fewest comments".to_owned(), is_log: true },
                series: series.collect(),
            }
        };
        let is_level = |promise| matches!(promise, Promise::Level) || promise == Promise::AtMost(0.0);
        [
            plot("scale", "What should not change with the number of comments", is_level),
            plot("scale-total", "What grows with the number of comments", |promise| promise == Promise::AtMost(1.0)),
        ]
    }

    fn losses(&self) -> Option<String> {
        let lost: Vec<String> = self
            .quantities
            .iter()
            .filter_map(|quantity| {
                let law = PowerLaw::fit(&quantity.points).filter(|law| quantity.promise.is_broken_by(*law))?;
                Some(format!("{} (exponent {:.2}, promised {})", quantity.name, law.exponent, quantity.promise.text()))
            })
            .collect();
        let lost = lost.join("; ");
        (!lost.is_empty()).then(|| format!("Worse than promised as the number of comments grows: {lost}."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(promise: Promise, exponent: f64, is_broken: bool) {
        let law = PowerLaw { exponent, factor: 1.0, off_by: 1.0 };
        assert_eq!(promise.is_broken_by(law), is_broken, "{promise:?}, exponent {exponent}");
    }

    #[test]
    fn a_promise_is_broken_beyond_the_tolerance_only() {
        check(Promise::AtMost(0.0), 0.09, false);
        check(Promise::AtMost(0.0), 0.11, true);
        check(Promise::AtMost(0.0), -0.5, false);
        check(Promise::AtMost(1.0), 1.09, false);
        check(Promise::AtMost(1.0), 1.11, true);
        check(Promise::Level, -0.09, false);
        check(Promise::Level, -0.11, true);
        check(Promise::Level, 0.5, false);
    }

    #[test]
    fn a_loss_names_what_grows_too_fast() {
        let point = |comments, rebuild_s| UpkeepPoint { comments, audit_s: comments / 1e3, audit_mib: 24.0, rebuild_s };
        let mut growth = Growth::default();
        growth.of_upkeep(&[point(1e3, 1.0), point(1e4, 10.0), point(1e5, 100.0)]);
        assert_eq!(growth.losses(), None);
        growth.of_upkeep(&[point(1e3, 1.0), point(1e4, 100.0), point(1e5, 10_000.0)]);
        let losses = growth.losses().unwrap();
        assert!(losses.contains("rebuild, time (exponent 2.00, promised at most 1)"), "{losses}");
        assert!(growth.table().rows.iter().all(|row| row.len() == growth.table().columns.len()));
        assert_eq!(growth.plots().map(|plot| plot.series.len()), [2, 4]);
    }
}
