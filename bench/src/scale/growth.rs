//! How measured quantities grow with the number of comments, and the promises about it.

use itertools::Itertools;

use super::fit::PowerLaw;
use crate::report::{Plot, Series, Table, row};

/// How far an exponent may exceed its promise. Measurements vary by some percent, and the search in a union takes steps
/// in proportion to the logarithm.
pub(super) const EXPONENT_TOLERANCE: f64 = 0.1;

#[derive(Debug, Clone, Copy, PartialEq, strum::Display)]
pub(super) enum Promise {
    /// It grows at most with this exponent; 0 means no growth.
    #[strum(to_string = "at most {0}")]
    AtMost(f64),
    /// A rate that does not fall.
    #[strum(to_string = "at least 0")]
    Level,
}

impl Promise {
    pub(super) const CONSTANT: Self = Self::AtMost(0.0);
    pub(super) const PROPORTIONAL: Self = Self::AtMost(1.0);

    fn is_broken_by(self, law: PowerLaw) -> bool {
        match self {
            Self::AtMost(most) => law.exponent > most + EXPONENT_TOLERANCE,
            Self::Level => law.exponent < -EXPONENT_TOLERANCE,
        }
    }
}

/// A quantity: its column in the table of its part, its name among all quantities, and its promise.
pub(super) type Quantity = (&'static str, &'static str, Promise);

/// A number of comments, and the values of a part's quantities there.
pub(super) type Point<const QUANTITIES: usize> = (f64, [f64; QUANTITIES]);

struct Curve {
    name: &'static str,
    points: Vec<(f64, f64)>,
    promise: Promise,
}

#[derive(Default)]
pub(super) struct Growth(Vec<Curve>);

impl Growth {
    /// Adds quantities. Returns their table, with one row per point.
    pub(super) fn part<const N: usize>(
        &mut self,
        table: &str,
        about: String,
        quantities: [Quantity; N],
        points: &[Point<N>],
    ) -> Table {
        let row = |(comments, values): &Point<N>| {
            let values =
                quantities.iter().zip(values).map(|((column, ..), value)| ((*column).to_owned(), (*value).into()));
            row![("comments", *comments)].into_iter().chain(values).collect()
        };
        let table = Table::new(table, about, points.iter().map(row));
        for (place, (_, name, promise)) in quantities.into_iter().enumerate() {
            let value = |(comments, values): &Point<N>| Some((*comments, *values.get(place)?));
            self.0.push(Curve { name, points: points.iter().filter_map(value).collect(), promise });
        }
        table
    }

    /// The largest exponent of the quantities of these names.
    pub(super) fn largest_exponent(&self, names: [&str; 2]) -> Option<f64> {
        let of_names = self.0.iter().filter(|curve| names.contains(&curve.name));
        of_names.filter_map(|curve| Some(PowerLaw::fit(&curve.points)?.exponent)).reduce(f64::max)
    }

    pub(super) fn table(&self) -> Table {
        let row = |curve: &Curve| {
            let sizes = match curve.points[..] {
                [(least, _), .., (most, _)] => format!("{least:.0} to {most:.0}"),
                _ => String::new(),
            };
            let law = PowerLaw::fit(&curve.points);
            let exponent = law.map_or("-".to_owned(), |law| format!("{:.2}", law.exponent));
            let verdict = law.map_or("", |law| if curve.promise.is_broken_by(law) { "worse" } else { "holds" });
            row![
                ("quantity", curve.name),
                ("comments", sizes),
                ("exponent", exponent),
                ("promised", curve.promise.to_string()),
                ("verdict", verdict),
                ("worst point is off by, times", law.map(|law| law.off_by)),
            ]
        };
        let about = format!(
            "How each quantity grows with the number of comments n: as n to the power of the exponent, by least squares of \
             logarithms. An exponent may be {EXPONENT_TOLERANCE} worse than what is promised."
        );
        Table::new("scale", about, self.0.iter().map(row))
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
            Plot::new(name, title, ["comments", "times the value with the fewest comments"], series)
        };
        let is_level = |promise| matches!(promise, Promise::Level) || promise == Promise::CONSTANT;
        [
            plot("scale", "What should not change with the number of comments", is_level),
            plot("scale-total", "What grows with the number of comments", |promise| promise == Promise::PROPORTIONAL),
        ]
    }

    /// A sentence about broken promises; `None` if there are none.
    pub(super) fn losses(&self) -> Option<String> {
        let loss = |curve: &Curve| {
            let law = PowerLaw::fit(&curve.points).filter(|law| curve.promise.is_broken_by(*law))?;
            Some(format!("{} (exponent {:.2}, promised {})", curve.name, law.exponent, curve.promise))
        };
        let lost = self.0.iter().filter_map(loss).join("; ");
        (!lost.is_empty()).then(|| format!("Worse than promised as the number of comments grows: {lost}."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::upkeep::QUANTITIES;

    #[test]
    fn a_promise_is_broken_beyond_the_tolerance_only() {
        for (promise, exponent, is_broken) in [
            (Promise::AtMost(0.0), 0.09, false),
            (Promise::AtMost(0.0), 0.11, true),
            (Promise::AtMost(0.0), -0.5, false),
            (Promise::AtMost(1.0), 1.09, false),
            (Promise::AtMost(1.0), 1.11, true),
            (Promise::Level, -0.09, false),
            (Promise::Level, -0.11, true),
            (Promise::Level, 0.5, false),
        ] {
            let law = PowerLaw { exponent, off_by: 1.0 };
            assert_eq!(promise.is_broken_by(law), is_broken, "{promise:?}, exponent {exponent}");
        }
    }

    #[test]
    fn a_loss_names_what_grows_too_fast() {
        let point = |comments, rebuild_s| (comments, [comments / 1e3, 24.0, rebuild_s]);
        let mut growth = Growth::default();
        let mut add = |points: &[Point<3>]| {
            let table = growth.part("upkeep", String::new(), QUANTITIES, points);
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
