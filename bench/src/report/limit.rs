//! Limits of ratios.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The limit of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    AtLeast(f64),
    AtMost(f64),
    /// The value is only reported.
    None,
}

impl Limit {
    /// The limit, if the run had the size to which it applies.
    pub(crate) fn only_if(self, applies: bool) -> Self {
        if applies { self } else { Self::None }
    }

    /// Whether the value respects the limit, if there is one. NaN respects no limit.
    pub(crate) fn holds(self, value: f64) -> Option<bool> {
        match self {
            Self::AtLeast(least) => Some(value >= least),
            Self::AtMost(most) => Some(value <= most),
            Self::None => None,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(formatter, "at least {least}"),
            Self::AtMost(most) => write!(formatter, "at most {most}"),
            Self::None => formatter.write_str("none"),
        }
    }
}

/// A value's relation to its limit, in one word.
pub(crate) fn verdict(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "holds",
        Some(false) => "missed",
        None => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_says_itself_whether_a_value_holds() {
        for (limit, value, said) in [
            (Limit::AtLeast(0.8), 0.8, "at least 0.8: holds"),
            (Limit::AtLeast(0.8), 0.799, "at least 0.8: missed"),
            (Limit::AtLeast(0.8), f64::NAN, "at least 0.8: missed"),
            (Limit::AtMost(1.15), 1.15, "at most 1.15: holds"),
            (Limit::AtMost(1.15), 1.16, "at most 1.15: missed"),
            (Limit::AtMost(1.15), f64::INFINITY, "at most 1.15: missed"),
            (Limit::AtMost(1.15).only_if(false), 9.0, "none: "),
            (Limit::AtMost(480.0).only_if(true), 9.0, "at most 480: holds"),
        ] {
            assert_eq!(format!("{limit}: {}", verdict(limit.holds(value))), said, "{value}");
        }
    }
}
