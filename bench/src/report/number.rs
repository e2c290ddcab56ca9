//! Formats numbers for people.

/// Significant digits of a fraction.
const DIGITS: i32 = 3;

/// A figure with three significant digits. Whole numbers and large ones keep all digits and get thousands separators:
/// "0.0473", "12.5", "1,250".
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    if value == value.trunc() {
        return separated(&format!("{value:.0}"));
    }
    let decimals = decimals_of(value);
    // Rounding may add a digit before the point, as for 9.999.
    let rounded = format!("{value:.decimals$}").parse().map_or(decimals, decimals_of);
    let text = format!("{value:.rounded$}");
    // A value below a millionth would lose all digits.
    if rounded > DECIMALS_MAX { format!("{value:.2e}") } else { separated(&text) }
}

/// Maximum number of decimals; beyond it a figure is written with a power of ten.
const DECIMALS_MAX: usize = 6;

/// The number of decimals that gives `DIGITS` significant digits.
fn decimals_of(value: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "the power of ten of a finite number")]
    let power = value.abs().log10().floor() as i32;
    usize::try_from(DIGITS - 1 - power).unwrap_or(0)
}

/// The figures of a column, with the same number of decimals. The largest gets three significant digits, and the
/// smallest two, unless they are too far apart.
pub(crate) fn column(values: &[f64]) -> Vec<String> {
    let sizes = || values.iter().filter(|value| value.is_finite() && **value != 0.0).map(|value| value.abs());
    let (largest, smallest) = (sizes().fold(0.0, f64::max), sizes().fold(f64::INFINITY, f64::min));
    let is_whole = values.iter().all(|value| !value.is_finite() || *value == value.trunc());
    if is_whole {
        return values.iter().copied().map(figure).collect();
    }
    let decimals = decimals_of(largest).max(decimals_of(smallest * 10.0));
    if decimals > decimals_of(largest) + 2 || decimals > DECIMALS_MAX {
        return values.iter().copied().map(figure).collect();
    }
    let text = |value: &f64| if value.is_finite() { separated(&format!("{value:.decimals$}")) } else { figure(*value) };
    values.iter().map(text).collect()
}

/// A count, such as "1,000,000".
pub(crate) fn count(value: u64) -> String {
    separated(&value.to_string())
}

/// Inserts a comma after each three digits before the point.
fn separated(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("-", digits));
    let (whole, fraction) = digits.find('.').map_or((digits, ""), |point| digits.split_at(point));
    let mut text = sign.to_owned();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}

/// A duration for people, such as "0.8 s", "42 s", "7 min 5 s".
pub(crate) fn seconds(value: f64) -> String {
    let whole = value.round();
    if value < 10.0 {
        format!("{value:.1} s")
    } else if whole < 60.0 {
        format!("{whole:.0} s")
    } else {
        format!("{:.0} min {:.0} s", (whole / 60.0).floor(), whole % 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_separators() {
        for (value, text) in [
            (0.0, "0"),
            (-0.5, "-0.500"),
            (0.8, "0.800"),
            (0.047_34, "0.0473"),
            (0.000_123_4, "0.000123"),
            (0.000_000_012_3, "1.23e-8"),
            (1.0, "1"),
            (1.005_1, "1.01"),
            (9.999, "10.0"),
            (12.55, "12.6"),
            (99.96, "100"),
            (123.4, "123"),
            (999.6, "1,000"),
            (1_000.0, "1,000"),
            (-12_345.678, "-12,346"),
            (1_000_000.0, "1,000,000"),
            (f64::NAN, "-"),
            (f64::INFINITY, "-"),
        ] {
            assert_eq!(figure(value), text);
        }
        assert_eq!(count(42_943), "42,943");
        assert_eq!(count(0), "0");
    }

    #[test]
    fn a_column_has_as_many_decimals_as_its_figures_need() {
        for (values, texts) in [
            (vec![1.0, 20.0, 1_000.0], vec!["1", "20", "1,000"]),
            (vec![0.5, 1.0, 2.5, 0.0], vec!["0.50", "1.00", "2.50", "0.00"]),
            (vec![56.7, 1_675.2, f64::NAN], vec!["57", "1,675", "-"]),
            (vec![0.89, 1.0, 0.136], vec!["0.89", "1.00", "0.14"]),
            (vec![0.012, 12_345.6], vec!["0.0120", "12,346"]),
            (vec![], vec![]),
        ] {
            assert_eq!(column(&values), texts, "{values:?}");
        }
    }

    #[test]
    fn durations_are_seconds_or_minutes() {
        for (value, text) in
            [(0.84, "0.8 s"), (9.94, "9.9 s"), (42.4, "42 s"), (59.6, "1 min 0 s"), (425.0, "7 min 5 s")]
        {
            assert_eq!(seconds(value), text);
        }
    }
}
