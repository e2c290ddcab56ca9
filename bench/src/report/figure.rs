//! A figure, and numbers as people read them.

use std::fmt;

use cost::text;
use serde::{Deserialize, Serialize};

use crate::measure::Spread;

/// Units of what a call or a comment takes, and of what should not be there at all.
const LOWER_IS_BETTER: [&str; 10] = [
    "us",
    "ms",
    "bytes",
    "bytes/comment",
    "bytes in table and indexes",
    "read units",
    "write units",
    "US dollars",
    // That were discarded.
    "items",
    // That were wrong.
    "pages",
];
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
    lowest: f64,
    highest: f64,
    pub(crate) note: String,
}

impl Figure {
    pub(crate) fn new(name: String, value: Spread, unit: &str, note: &str) -> Self {
        let Spread {
            median,
            lowest,
            highest,
        } = value;
        Self {
            name,
            value: median,
            unit: unit.to_owned(),
            lowest,
            highest,
            note: note.to_owned(),
        }
    }

    /// A figure, of several runs. One run keeps the spread of its rounds.
    pub(crate) fn over_runs(runs: &[&Self]) -> Self {
        let values: Vec<f64> = runs.iter().map(|figure| figure.value).collect();
        match runs {
            [one] => (*one).clone(),
            [.., last] => Self::new(
                last.name.clone(),
                Spread::of(&values),
                &last.unit,
                &last.note,
            ),
            [] => Self::new(String::new(), f64::NAN.into(), "", ""),
        }
    }

    /// Such as "5.18 ms".
    pub(crate) fn value_and_unit(&self) -> String {
        match (self.unit.as_str(), self.value) {
            ("us", ..1e3) => format!("{} us", text(self.value)),
            ("us", ..1e6) => format!("{} ms", text(self.value / 1e3)),
            ("us", _) => format!("{} s", text(self.value / 1e6)),
            ("ms", _) => format!("{} ms", text(self.value)),
            _ => text(self.value),
        }
    }

    /// The limit that the note names.
    pub(crate) fn limit(&self) -> anyhow::Result<Option<Limit>> {
        if let Some((_, number)) = self.note.split_once(Limit::AT_LEAST) {
            return Ok(Some(Limit::AtLeast(leading_number(number)?)));
        }
        if let Some((_, number)) = self.note.split_once(Limit::AT_MOST) {
            return Ok(Some(Limit::AtMost(leading_number(number)?)));
        }
        Ok(None)
    }

    /// By the limit in its note, or by its unit. `None` if neither says so.
    pub(crate) fn better(&self) -> anyhow::Result<Option<Better>> {
        Ok(match self.limit()? {
            Some(Limit::AtLeast(_)) => Some(Better::Higher),
            Some(Limit::AtMost(_)) => Some(Better::Lower),
            None if self.unit.ends_with("/s") => Some(Better::Higher),
            None if LOWER_IS_BETTER.contains(&self.unit.as_str()) => Some(Better::Lower),
            None => None,
        })
    }

    fn range(&self) -> String {
        let lowest = text(self.lowest);
        let highest = text(self.highest);
        if lowest == highest {
            String::new()
        } else {
            format!("{lowest} to {highest}")
        }
    }

    pub(crate) fn cells(&self) -> String {
        let Self {
            name,
            value,
            unit,
            note,
            ..
        } = self;
        format!(
            "{name} | {} | {unit} | {} | {note}",
            text(*value),
            self.range()
        )
    }
}

/// Which values of a figure are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// What a figure should reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Limit {
    const AT_LEAST: &str = "at least ";
    const AT_MOST: &str = "at most ";

    pub(crate) fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtLeast(limit) => value >= limit,
            Self::AtMost(limit) => value <= limit,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(limit) => write!(formatter, "{}{}", Self::AT_LEAST, text(*limit)),
            Self::AtMost(limit) => write!(formatter, "{}{}", Self::AT_MOST, text(*limit)),
        }
    }
}

/// The number at the beginning of a text such as "40 at 1,000,000 comments".
fn leading_number(text: &str) -> anyhow::Result<f64> {
    let number = text.split([' ', ';']).next().unwrap_or_default();
    Ok(number.parse()?)
}

/// A median, and in brackets the lowest and the highest value.
pub(crate) fn interval(spread: Spread) -> String {
    let median = text(spread.median);
    let lowest = text(spread.lowest);
    let highest = text(spread.highest);
    if lowest == highest {
        median
    } else {
        format!("{median} ({lowest} to {highest})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_of_several_runs_is_their_median_in_a_unit_for_people() {
        let runs =
            [5_180.0, 900.0, 2e6].map(|us| Figure::new("p50".to_owned(), us.into(), "us", ""));
        assert_eq!(
            Figure::over_runs(&runs.each_ref()).value_and_unit(),
            "5.18 ms"
        );
    }
}
