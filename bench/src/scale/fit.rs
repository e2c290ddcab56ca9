//! The growth of a quantity: a power law through measured points.

/// y in proportion to `x ^ exponent`, by least squares of log y on log x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PowerLaw {
    /// 0: y does not grow with x. 1: y grows in proportion to x.
    pub(super) exponent: f64,
    /// Factor by which the worst point lies above or below the law; 1 means on it. (The explained share of variance,
    /// R², says nothing about a quantity that does not grow.)
    pub(super) off_by: f64,
}

impl PowerLaw {
    /// Fits points with positive coordinates; `None` for fewer than two different x.
    pub(super) fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
        let count: f64 = logs.iter().map(|_| 1.0).sum();
        let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / count;
        let (mean_x, mean_y) = (mean(|(x, _)| *x), mean(|(_, y)| *y));
        let squares: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        let products: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        let exponent = products / squares;
        let residual = |(x, y): &(f64, f64)| (y - mean_y - exponent * (x - mean_x)).abs();
        let off_by = logs.iter().map(residual).fold(0.0, f64::max).exp();
        (exponent.is_finite() && mean_y.is_finite()).then_some(Self { exponent, off_by })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_laws_are_found_again() {
        // The exponent, and the worst point's distance; `None` where no law fits.
        for (points, expected) in [
            (vec![(1e3, 7.0), (1e4, 7.0), (1e6, 7.0)], Some([0.0, 1.0])),
            (vec![(1e3, 2e3), (1e4, 2e4), (1e5, 2e5)], Some([1.0, 1.0])),
            (vec![(1.0, 5.0), (100.0, 0.5)], Some([-0.5, 1.0])),
            (vec![(10.0, 300.0), (20.0, 1_200.0), (40.0, 4_800.0)], Some([2.0, 1.0])),
            // The logs of y are 0, 3 and 0 (to base 10). The fit is a level line through 1, at distances 1, 2 and 1.
            (vec![(1.0, 1.0), (10.0, 1e3), (100.0, 1.0)], Some([0.0, 100.0])),
            // Too little to fit.
            (vec![], None),
            (vec![(10.0, 3.0)], None),
            (vec![(10.0, 3.0), (10.0, 4.0)], None),
            (vec![(10.0, 0.0), (100.0, 4.0)], None),
        ] {
            let found = PowerLaw::fit(&points).map(|law| [law.exponent, law.off_by]);
            assert_eq!(found.is_some(), expected.is_some(), "{points:?}: {found:?}");
            for (found, expected) in found.into_iter().flatten().zip(expected.into_iter().flatten()) {
                assert!((found - expected).abs() < 1e-9, "{points:?}: {found} instead of {expected}");
            }
        }
    }

    #[test]
    fn the_unit_of_either_axis_does_not_change_the_exponent() {
        let law = PowerLaw::fit(&[(1.0, 3.0), (10.0, 5.0), (100.0, 6.0)]).unwrap();
        let in_other_units = PowerLaw::fit(&[(1e3, 0.3), (1e4, 0.5), (1e5, 0.6)]).unwrap();
        assert!((law.exponent - in_other_units.exponent).abs() < 1e-12);
        assert!((law.off_by - in_other_units.off_by).abs() < 1e-12);
    }
}
