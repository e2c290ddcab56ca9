//! Numbers for people.

/// Digits that are shown of what is no whole number.
const DIGITS: i32 = 3;

/// A figure with three digits that count, whole numbers and large ones with all of theirs and separators of thousands, as
/// in "0.0473", "12.5", "1,250".
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    if value == value.trunc() {
        return separated(&format!("{value:.0}"));
    }
    let decimals = decimals_of(value);
    // Rounding may bring another digit before the point, as of 9.999.
    let rounded = format!("{value:.decimals$}").parse().map_or(decimals, decimals_of);
    let text = format!("{value:.rounded$}");
    // Of values below a millionth no digit is left.
    if rounded > DECIMALS_MAX { format!("{value:.2e}") } else { separated(&text) }
}

/// Decimals beyond which a figure is written with a power of ten.
const DECIMALS_MAX: usize = 6;

/// How many decimals leave `DIGITS` digits that count.
fn decimals_of(value: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "the power of ten of a finite number")]
    let power = value.abs().log10().floor() as i32;
    usize::try_from(DIGITS - 1 - power).unwrap_or(0)
}

/// A count, as in "1,000,000".
pub(crate) fn count(value: u64) -> String {
    separated(&value.to_string())
}

/// A decimal number with a comma after each three digits before the point.
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

/// A duration as people say it, as in "0.8 s", "42 s", "7 min 5 s".
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
    fn durations_are_seconds_or_minutes() {
        for (value, text) in
            [(0.84, "0.8 s"), (9.94, "9.9 s"), (42.4, "42 s"), (59.6, "1 min 0 s"), (425.0, "7 min 5 s")]
        {
            assert_eq!(seconds(value), text);
        }
    }
}
