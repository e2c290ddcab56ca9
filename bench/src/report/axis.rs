//! The range of an axis, and its ticks.

/// Maximum number of labelled ticks on a linear axis, then on a logarithmic one.
const TICKS_MAX: f64 = 7.0;
const DECADES_MAX: f64 = 9.0;

/// The layout of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    is_log: bool,
    /// The values with labels, and their texts.
    pub(super) ticks: Vec<(f64, String)>,
    /// Unlabelled lines between them.
    pub(super) minor: Vec<f64>,
}

impl Scale {
    /// An axis that contains all values: whole decades if it is logarithmic, otherwise from zero.
    pub(super) fn of(values: impl Iterator<Item = f64>, is_log: bool) -> Self {
        let shown = values.filter(|value| value.is_finite() && (!is_log || *value > 0.0));
        let (low, high) =
            shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        // Without values, use a default axis.
        let (low, high) = if low > high { (1.0, 1.0) } else { (low, high) };
        if is_log { Self::log(low, high) } else { Self::linear(low.min(0.0), high.max(0.0)) }
    }

    fn log(low: f64, high: f64) -> Self {
        let first = power_of(low);
        // Cover at least one decade. If the value is a power of ten within rounding, it ends the axis.
        #[expect(clippy::cast_possible_truncation, reason = "the power of ten of a finite number")]
        let last = ((high.log10() - 1e-9).ceil() as i32).max(first + 1);
        let every = (f64::from(last - first) / (DECADES_MAX - 1.0)).ceil().max(1.0);
        let decade = |power: i32| 10_f64.powi(power);
        let is_labelled = |power: &i32| f64::from(power - first) % every == 0.0;
        let mut ticks: Vec<f64> = (first..=last).filter(is_labelled).map(decade).collect();
        let between = (first..last).flat_map(|power| (2..10).map(move |digit| f64::from(digit) * decade(power)));
        let mut minor: Vec<f64> = between.collect();
        // One or two decades have room for labels in between.
        if last - first <= 2 {
            let is_labelled =
                |value: &f64| [2.0, 5.0].iter().any(|digit| (value / decade(power_of(*value)) - digit).abs() < 1e-6);
            ticks.extend(minor.iter().copied().filter(is_labelled));
            minor.retain(|value| !is_labelled(value));
            ticks.sort_by(f64::total_cmp);
        } else {
            minor.extend((first..=last).filter(|power| !is_labelled(power)).map(decade));
            minor.sort_by(f64::total_cmp);
        }
        Self { from: decade(first), to: decade(last), is_log: true, ticks: labelled(ticks), minor }
    }

    fn linear(low: f64, high: f64) -> Self {
        let span = if high > low { high - low } else { 1.0 };
        let rough = span / (TICKS_MAX - 2.0);
        let decade = 10_f64.powi(power_of(rough));
        let step =
            [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * decade).find(|step| *step >= rough * (1.0 - 1e-9));
        let step = step.unwrap_or(rough);
        #[expect(clippy::cast_possible_truncation, reason = "a handful of steps")]
        let steps = ((low / step).floor() as i32)..=(((high.max(low + span)) / step - 1e-9).ceil() as i32);
        let (from, to) = (f64::from(*steps.start()) * step, f64::from(*steps.end()) * step);
        let ticks = steps.map(|number| f64::from(number) * step).collect();
        Self { from, to, is_log: false, ticks: labelled(ticks), minor: Vec::new() }
    }

    /// The position of a value, from 0 at the start of the axis to 1 at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        if self.is_log {
            (value / self.from).log10() / (self.to / self.from).log10()
        } else {
            (value - self.from) / (self.to - self.from)
        }
    }

    /// Whether the axis can show a value.
    pub(super) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.is_log || value > 0.0)
    }
}

/// The power of ten of a positive value's first digit.
fn power_of(value: f64) -> i32 {
    // A value that is a power of ten within rounding gives that power.
    #[expect(clippy::cast_possible_truncation, reason = "the power of ten of a finite number")]
    let power = (value.log10() + 1e-9).floor() as i32;
    power
}

fn labelled(ticks: Vec<f64>) -> Vec<(f64, String)> {
    ticks.into_iter().map(|value| (value, label(value))).collect()
}

/// The label of a tick, such as "0.05", "20,000", "10 M".
fn label(value: f64) -> String {
    let (scaled, suffix) = if value.abs() >= 999_999.5 { (value / 1e6, " M") } else { (value, "") };
    // A tick has one or two significant digits. Rounding removes the error of summed tenths.
    let decimals = usize::try_from(1 - power_of(scaled.abs().max(1e-12))).unwrap_or(0).min(9);
    let text = format!("{scaled:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    let text = text.parse().map_or_else(
        |_| text.to_owned(),
        |whole: i64| {
            let count = super::count(whole.unsigned_abs());
            if whole < 0 { format!("-{count}") } else { count }
        },
    );
    text + suffix
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(values: &[f64], is_log: bool, expected: Expect) {
        let scale = Scale::of(values.iter().copied(), is_log);
        let ticks: Vec<&str> = scale.ticks.iter().map(|(_, label)| label.as_str()).collect();
        let places: Vec<String> = values.iter().map(|value| format!("{:.2}", scale.place(*value))).collect();
        expected.assert_eq(&format!("{}; {} minor; at {}", ticks.join(" | "), scale.minor.len(), places.join(" ")));
    }

    #[test]
    fn a_linear_axis_begins_at_zero_and_has_round_ticks() {
        check(&[0.0, 87.0], false, expect!["0 | 20 | 40 | 60 | 80 | 100; 0 minor; at 0.00 0.87"]);
        check(&[3.0, 1_240.0], false, expect!["0 | 500 | 1,000 | 1,500; 0 minor; at 0.00 0.83"]);
        check(&[0.02, 0.034], false, expect!["0 | 0.01 | 0.02 | 0.03 | 0.04; 0 minor; at 0.50 0.85"]);
        check(&[-3.0, 4.0], false, expect!["-4 | -2 | 0 | 2 | 4; 0 minor; at 0.12 1.00"]);
        check(&[100.0], false, expect!["0 | 20 | 40 | 60 | 80 | 100; 0 minor; at 1.00"]);
        check(&[0.0], false, expect!["0 | 0.2 | 0.4 | 0.6 | 0.8 | 1; 0 minor; at 0.00"]);
        check(&[2.5e6], false, expect!["0 | 500,000 | 1 M | 1.5 M | 2 M | 2.5 M; 0 minor; at 1.00"]);
    }

    #[test]
    fn a_logarithmic_axis_has_whole_decades() {
        check(&[1.0, 50_000.0], true, expect!["1 | 10 | 100 | 1,000 | 10,000 | 100,000; 40 minor; at 0.00 0.94"]);
        check(&[0.004, 0.9], true, expect!["0.001 | 0.01 | 0.1 | 1; 24 minor; at 0.20 0.98"]);
        check(&[10.0, 1_000.0], true, expect!["10 | 20 | 50 | 100 | 200 | 500 | 1,000; 12 minor; at 0.00 1.00"]);
        check(&[300.0, 400.0], true, expect!["100 | 200 | 500 | 1,000; 6 minor; at 0.48 0.60"]);
        check(&[1.0], true, expect!["1 | 2 | 5 | 10; 6 minor; at 0.00"]);
        check(
            &[1.0, 1e12],
            true,
            expect!["1 | 100 | 10,000 | 1 M | 100 M | 10,000 M | 1,000,000 M; 102 minor; at 0.00 1.00"],
        );
    }

    #[test]
    fn what_has_no_place_is_not_shown() {
        let scale = Scale::of([0.0, -1.0, f64::NAN, 10.0, 100.0].into_iter(), true);
        assert_eq!([0.0, f64::NAN, f64::INFINITY, 10.0].map(|value| scale.shows(value)), [false, false, false, true]);
        assert_eq!(Scale::of(std::iter::empty(), true).ticks.len(), 4);
    }
}
