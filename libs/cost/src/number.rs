//! Numbers as people read them.

/// Beyond so many decimals a number is written with a power of ten.
const DECIMALS_MAX: usize = 6;
/// How a value is written that is not there.
pub const NOT_A_NUMBER: &str = "-";

/// A number with three significant digits. Whole numbers and large ones keep all digits and get
/// thousands separators: "0.0473", "12.5", "1,250".
pub fn text(value: f64) -> String {
    if !value.is_finite() {
        return NOT_A_NUMBER.to_owned();
    }
    if value == value.trunc() {
        return separated(&format!("{value:.0}"));
    }
    let scientific = format!("{value:.2e}");
    let power: i32 = scientific
        .split_once('e')
        .and_then(|(_, power)| power.parse().ok())
        .unwrap_or(0);
    let decimals = usize::try_from(2 - power).unwrap_or(0);
    if decimals > DECIMALS_MAX {
        scientific
    } else {
        separated(&format!("{value:.decimals$}"))
    }
}

pub fn count(value: impl Into<u64>) -> String {
    separated(&value.into().to_string())
}

/// Inserts a comma after each three digits before the point.
fn separated(number: &str) -> String {
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", number),
    };
    let (whole, fraction) = match digits.find('.') {
        Some(point) => digits.split_at(point),
        None => (digits, ""),
    };
    let mut text = sign.to_owned();
    for (position, digit) in whole.chars().enumerate() {
        if position > 0 && (whole.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + fraction
}

#[expect(clippy::cast_precision_loss, reason = "a figure")]
pub fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_separators() {
        for (value, expected) in [
            (0.0, "0"),
            (0.047_34, "0.0473"),
            (0.000_000_012_3, "1.23e-8"),
            (9.999, "10.0"),
            (999.6, "1,000"),
            (-12_345.678, "-12,346"),
            (1_000_000.0, "1,000,000"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(text(value), expected);
        }
        assert_eq!(count(42_943_u32), "42,943");
    }
}
