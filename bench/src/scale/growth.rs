//! How measured quantities grow with the number of comments, and the promises about it.

use itertools::Itertools;

use super::fit::PowerLaw;
use crate::report::{Plot, Series, Table, row};

/// How far an exponent may exceed its promise. Measurements vary by some percent, and the search in a union takes steps
/// in proportion to the logarithm.
pub(super) const EXPONENT_TOLERANCE: f64 = 0.1;

/// The promised bound of a quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Promise {
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

/// A quantity of points: its column in their table, its name among all quantities, and its promise.
pub(super) struct Quantity<P> {
    column: &'static str,
    name: &'static str,
    promise: Promise,
    of: fn(&P) -> f64,
}

impl<P> Quantity<P> {
    pub(super) fn new(column: &'static str, name: &'static str, promise: Promise, of: fn(&P) -> f64) -> Self {
        Self { column, name, promise, of }
    }
}

/// A quantity at several numbers of comments.
struct Curve {
    name: &'static str,
    points: Vec<(f64, f64)>,
    promise: Promise,
}

impl Curve {
    fn law(&self) -> Option<PowerLaw> {
        PowerLaw::fit(&self.points)
    }
}

/// All quantities.
#[derive(Default)]
pub(super) struct Growth(Vec<Curve>);

impl Growth {
    /// Adds quantities. Returns their table, with one row per point.
    pub(super) fn part<P>(
        &mut self,
        table: &str,
        about: String,
        points: &[P],
        comments: fn(&P) -> f64,
        quantities: Vec<Quantity<P>>,
    ) -> Table {
        let columns = ["comments"].into_iter().chain(quantities.iter().map(|quantity| quantity.column)).collect_vec();
        let row = |point: &P| {
            let values = quantities.iter().map(|quantity| (quantity.of)(point));
            [comments(point)].into_iter().chain(values).map(Into::into).collect()
        };
        let table = Table::new(table, about, &columns, points.iter().map(row));
        for Quantity { name, promise, of, .. } in quantities {
            let points = points.iter().map(|point| (comments(point), of(point))).collect();
            self.0.push(Curve { name, points, promise });
        }
        table
    }

    /// The largest exponent of the quantities of these names.
    pub(super) fn largest_exponent(&self, names: [&str; 2]) -> Option<f64> {
        let of_names = self.0.iter().filter(|curve| names.contains(&curve.name));
        of_names.filter_map(|curve| Some(curve.law()?.exponent)).reduce(f64::max)
    }

    /// The growth of every quantity.
    pub(super) fn table(&self) -> Table {
        let row = |curve: &Curve| {
            let sizes = match curve.points[..] {
                [(least, _), .., (most, _)] => format!("{least:.0} to {most:.0}"),
                _ => String::new(),
            };
            let law = curve.law();
            let exponent = law.map_or("-".to_owned(), |law| format!("{:.2}", law.exponent));
            let kept = law.map_or("", |law| if curve.promise.is_broken_by(law) { "worse" } else { "holds" });
            row![curve.name, sizes, exponent, curve.promise.text(), kept, law.map(|law| law.off_by)]
        };
        let about = format!(
            "How each quantity grows with the number of comments n: as n to the power of the exponent, by least squares of \
             logarithms. An exponent may be {EXPONENT_TOLERANCE} worse than what is promised."
        );
        let columns = ["quantity", "comments", "exponent", "promised", "kept", "worst point is off by, times"];
        Table::new("scale", about, &columns, self.0.iter().map(row))
    }

    /// Plots of the quantities that should be level and of those that grow in proportion, each relative to its value at
    /// the smallest number of comments.
    pub(super) fn plots(&self) -> [Plot; 2] {
        let plot = |name: &str, title: &str, is_here: fn(Promise) -> bool| {
            let here = self.0.iter().filter(|curve| is_here(curve.promise));
            let series = here.filter_map(|curve| {
                let (_, first) = *curve.points.first()?;
                let points = curve.points.iter().map(|(comments, value)| (*comments, value / first)).collect();
                Some(Series { name: curve.name.to_owned(), points })
            });
            Plot {
                name: name.to_owned(),
                title: title.to_owned(),
                x: "comments".to_owned(),
                y: "times the value with the fewest comments".to_owned(),
                series: series.collect(),
            }
        };
        let is_level = |promise| matches!(promise, Promise::Level) || promise == Promise::AtMost(0.0);
        [
            plot("scale", "What should not change with the number of comments", is_level),
            plot("scale-total", "What grows with the number of comments", |promise| promise == Promise::AtMost(1.0)),
        ]
    }

    /// A sentence about broken promises; `None` if there are none.
    pub(super) fn losses(&self) -> Option<String> {
        let loss = |curve: &Curve| {
            let law = curve.law().filter(|law| curve.promise.is_broken_by(*law))?;
            Some(format!("{} (exponent {:.2}, promised {})", curve.name, law.exponent, curve.promise.text()))
        };
        let lost = self.0.iter().filter_map(loss).join("; ");
        (!lost.is_empty()).then(|| format!("Worse than promised as the number of comments grows: {lost}."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::{UpkeepPoint, upkeep_quantities};

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
        let mut add = |points: &[UpkeepPoint]| {
            let table = growth.part("upkeep", String::new(), points, |at| at.comments, upkeep_quantities());
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
            growth.losses()
        };
        assert_eq!(add(&[point(1e3, 1.0), point(1e4, 10.0), point(1e5, 100.0)]), None);
        let losses = add(&[point(1e3, 1.0), point(1e4, 100.0), point(1e5, 10_000.0)]).unwrap();
        assert!(losses.contains("rebuild, time (exponent 2.00, promised at most 1)"), "{losses}");
        assert!(growth.table().rows.iter().all(|row| row.len() == growth.table().columns.len()));
        assert_eq!(growth.plots().map(|plot| plot.series.len()), [2, 4]);
    }
}
