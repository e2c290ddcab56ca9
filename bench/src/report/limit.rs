//! Limits of ratios.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    #[strum(to_string = "at least {0}")]
    AtLeast(f64),
    #[strum(to_string = "at most {0}")]
    AtMost(f64),
    /// The value is only reported.
    #[strum(to_string = "none")]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_says_itself_whether_a_value_holds() {
        for (limit, value, text, holds) in [
            (Limit::AtLeast(0.8), 0.8, "at least 0.8", Some(true)),
            (Limit::AtLeast(0.8), 0.799, "at least 0.8", Some(false)),
            (Limit::AtLeast(0.8), f64::NAN, "at least 0.8", Some(false)),
            (Limit::AtMost(1.15), 1.15, "at most 1.15", Some(true)),
            (Limit::AtMost(1.15), 1.16, "at most 1.15", Some(false)),
            (Limit::AtMost(1.15), f64::INFINITY, "at most 1.15", Some(false)),
            (Limit::AtMost(1.15).only_if(false), 9.0, "none", None),
            (Limit::AtMost(480.0).only_if(true), 9.0, "at most 480", Some(true)),
        ] {
            assert_eq!((limit.to_string().as_str(), limit.holds(value)), (text, holds), "{value}");
        }
    }
}
