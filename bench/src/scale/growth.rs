//! How measured quantities grow with the number of comments, and the bounds of that.

use super::fit::PowerLaw;
use crate::report::{Limit, Plot, Series, Table, row};

/// Bounds of exponents. Measurements vary by some percent, and the search in a union takes steps in proportion to the
/// logarithm. So an exponent may exceed the ideal one by a tenth.
pub(super) const CONSTANT: Limit = Limit::AtMost(0.1);
pub(super) const PROPORTIONAL: Limit = Limit::AtMost(1.1);
/// For a rate that does not fall.
pub(super) const LEVEL: Limit = Limit::AtLeast(-0.1);

/// A quantity: its column in the table of its part, its name among all quantities, and the bound of its exponent.
pub(super) type Quantity = (&'static str, &'static str, Limit);

/// A number of comments, and the values of a part's quantities there.
pub(super) type Point<const QUANTITIES: usize> = (f64, [f64; QUANTITIES]);

struct Curve {
    name: &'static str,
    points: Vec<(f64, f64)>,
    bound: Limit,
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
        for (place, (_, name, bound)) in quantities.into_iter().enumerate() {
            let value = |(comments, values): &Point<N>| Some((*comments, *values.get(place)?));
            self.0.push(Curve { name, points: points.iter().filter_map(value).collect(), bound });
        }
        table
    }

    /// The exponent that comes closest to this bound, or exceeds it most, and its quantity.
    pub(super) fn worst(&self, bound: Limit) -> Option<(&'static str, f64)> {
        let of_bound = self.0.iter().filter(|curve| curve.bound == bound);
        let exponents = of_bound.filter_map(|curve| Some((curve.name, PowerLaw::fit(&curve.points)?.exponent)));
        // A rate is worse the more it falls.
        let badness = |exponent: f64| if bound == LEVEL { -exponent } else { exponent };
        exponents.max_by(|(_, one), (_, other)| badness(*one).total_cmp(&badness(*other)))
    }

    pub(super) fn table(&self) -> Table {
        let row = |curve: &Curve| {
            let sizes = match curve.points[..] {
                [(least, _), .., (most, _)] => format!("{least:.0} to {most:.0}"),
                _ => String::new(),
            };
            let law = PowerLaw::fit(&curve.points);
            let exponent = law.map_or("-".to_owned(), |law| format!("{:.2}", law.exponent));
            row![
                ("quantity", curve.name),
                ("comments", sizes),
                ("exponent", exponent),
                ("bound", curve.bound.to_string()),
                ("worst point is off by, times", law.map(|law| law.off_by)),
            ]
        };
        let about = "How each quantity grows with the number of comments n: as n to the power of the exponent, by least squares \
                     of logarithms.";
        Table::new("scale", about, self.0.iter().map(row))
    }

    /// Plots of the quantities that should be level and of those that grow in proportion, each relative to its value at
    /// the smallest number of comments.
    pub(super) fn plots(&self) -> [Plot; 2] {
        let plot = |name: &str, title: &str, is_here: fn(Limit) -> bool| {
            let here = self.0.iter().filter(|curve| is_here(curve.bound));
            let series = here.filter_map(|curve| {
                let (_, first) = *curve.points.first()?;
                let points = curve.points.iter().map(|(comments, value)| (*comments, value / first)).collect();
                Some(Series { name: curve.name.to_owned(), points })
            });
            Plot::new(name, title, ["comments", "times the value with the fewest comments"], series)
        };
        [
            plot("scale", "What should not change with the number of comments", |bound| bound != PROPORTIONAL),
            plot("scale-total", "What grows with the number of comments", |bound| bound == PROPORTIONAL),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::upkeep::QUANTITIES;

    #[test]
    fn the_worst_exponent_of_each_bound_is_found() {
        let point = |comments: f64| (comments, [comments / 1e3, 24.0, comments.powi(2)]);
        let mut growth = Growth::default();
        let table = growth.part("upkeep", String::new(), QUANTITIES, &[point(1e3), point(1e4), point(1e5)]);
        let expected = [(CONSTANT, "audit, memory", 0.0), (PROPORTIONAL, "rebuild, time", 2.0)];
        for (bound, expected_name, expected) in expected {
            let (name, exponent) = growth.worst(bound).unwrap();
            assert!(name == expected_name && (exponent - expected).abs() < 1e-9, "{name}: {exponent}");
        }
        for table in [table, growth.table()] {
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
        }
        assert_eq!(growth.plots().map(|plot| plot.series.len()), [1, 2]);
        let rates = [("", "rises", LEVEL), ("", "falls", LEVEL)];
        growth.part("rates", String::new(), rates, &[(1.0, [1.0, 9.0]), (10.0, [9.0, 1.0])]);
        assert_eq!(growth.worst(LEVEL).unwrap().0, "falls");
    }
}
