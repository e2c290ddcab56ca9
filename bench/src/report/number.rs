//! Formats numbers for people.

/// Maximum number of decimals; beyond it a figure is written with a power of ten.
const DECIMALS_MAX: usize = 6;

/// A figure with three significant digits. Whole numbers and large ones keep all digits and get thousands separators:
/// "0.0473", "12.5", "1,250".
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    if value == value.trunc() {
        return separated(&format!("{value:.0}"));
    }
    let scientific = format!("{value:.2e}");
    let power: i32 = scientific.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
    let decimals = usize::try_from(2 - power).unwrap_or(0);
    if decimals > DECIMALS_MAX { scientific } else { separated(&format!("{value:.decimals$}")) }
}

/// A count, such as "1,000,000".
pub(crate) fn count(value: impl Into<u64>) -> String {
    separated(&value.into().to_string())
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
        assert_eq!(count(42_943_u32), "42,943");
        assert_eq!(count(0_u32), "0");
    }
}
