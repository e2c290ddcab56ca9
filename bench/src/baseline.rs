//! The baseline: earlier ratios of our code's overheads, and the comparison with them.
//!
//! All ratios divide the rate of our code by the rate of the bare calls, so higher is better. On a busy or throttled
//! machine, a measurement differs from the previous one. So a single result beyond the limit is not trusted: the ratio
//! is measured up to twice more, and **two of three** decide. One disturbed measurement then raises no alarm, and one
//! lucky measurement hides no regression. A ratio within the limit at first is not measured again. So a regression of
//! about the limit's size is found about every other time, and one of twice its size practically always.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, ensure};
use itertools::Itertools;
use serde::{Deserialize, Serialize};

use crate::{
    report::{Machine, Table, row},
    statistics::median,
};

/// The fraction of a ratio that may be lost.
const LOSS_MAX: f64 = 0.15;
/// Maximum number of measurements of a ratio.
pub(crate) const MEASUREMENTS_MAX: usize = 3;

/// `bench/baseline.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Baseline {
    /// RFC 3339, UTC.
    pub(crate) date: String,
    pub(crate) command: String,
    pub(crate) commit: String,
    pub(crate) is_dirty: bool,
    /// Load average at the start of the measurement.
    pub(crate) load_average: Option<f64>,
    pub(crate) machine: Machine,
    pub(crate) ratios: BTreeMap<String, f64>,
}

impl Baseline {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let how = || format!("{}: bench --write-baseline writes it", path.display());
        serde_json::from_slice(&std::fs::read(path).with_context(how)?).with_context(how)
    }

    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = format!("{}\n", serde_json::to_string_pretty(self)?);
        std::fs::write(path, text).with_context(|| path.display().to_string())
    }
}

/// How a ratio compares with its baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Kept,
    Regressed,
    Improved,
}

impl Verdict {
    fn of(baseline: f64, measured: f64) -> Self {
        // NaN counts as a regression.
        if measured.is_nan() || measured < baseline * (1.0 - LOSS_MAX) {
            Self::Regressed
        } else if measured > baseline * (1.0 + LOSS_MAX) {
            Self::Improved
        } else {
            Self::Kept
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Kept => "",
            Self::Regressed => "REGRESSION",
            Self::Improved => "improved",
        }
    }
}

/// The ratio that counts, once the measurements suffice for a decision.
pub(crate) fn decided(baseline: f64, measured: &[f64]) -> Option<f64> {
    let is_regression = |value: &f64| Verdict::of(baseline, *value) == Verdict::Regressed;
    match measured {
        [] => None,
        [one] => (!is_regression(one)).then_some(*one),
        // The third measurement could not change the result. Report the better of the two.
        [one, other] => (is_regression(one) && is_regression(other)).then(|| one.max(*other)),
        more => Some(median(more)),
    }
}

/// A ratio beside its baseline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Compared {
    pub(crate) name: String,
    pub(crate) baseline: f64,
    pub(crate) measured: f64,
    pub(crate) measurements: usize,
    pub(crate) verdict: Verdict,
}

impl Compared {
    /// The change in percent.
    fn change(&self) -> f64 {
        100.0 * (self.measured / self.baseline - 1.0)
    }

    /// As one line, such as "api_json_vs_sdk: baseline 0.890, measured 0.700 (-21.3 %), in 3 measurements".
    pub(crate) fn line(&self) -> String {
        let Self { name, baseline, measured, measurements, .. } = self;
        let times =
            if *measurements == 1 { "1 measurement".to_owned() } else { format!("{measurements} measurements") };
        format!("{name}: baseline {baseline:.3}, measured {measured:.3} ({:+.1} %), in {times}", self.change())
    }
}

/// Compares. For an undecided ratio, the last measurement counts.
///
/// # Errors
/// Names the ratios that only one side has.
pub(crate) fn compare(
    baseline: &BTreeMap<String, f64>,
    measured: &BTreeMap<String, Vec<f64>>,
) -> anyhow::Result<Vec<Compared>> {
    let new = measured.keys().filter(|name| !baseline.contains_key(*name)).join(", ");
    let missing = baseline.keys().filter(|name| measured.get(*name).is_none_or(Vec::is_empty)).join(", ");
    ensure!(
        new.is_empty() && missing.is_empty(),
        "measured, and not in the baseline: {new}\nin the baseline, and not measured: {missing}\n\
         run bench --write-baseline on a quiet machine and commit bench/baseline.json"
    );
    let compared = baseline.iter().filter_map(|(name, baseline)| {
        let all = measured.get(name)?;
        let value = decided(*baseline, all).or_else(|| all.last().copied())?;
        let verdict = Verdict::of(*baseline, value);
        Some(Compared { name: name.clone(), baseline: *baseline, measured: value, measurements: all.len(), verdict })
    });
    Ok(compared.collect())
}

/// A table of all ratios and their baselines.
pub(crate) fn table(compared: &[Compared], baseline: &Baseline) -> Table {
    let row = |compared: &Compared| {
        let Compared { name, baseline, measured, measurements, verdict } = compared;
        row![name.as_str(), *baseline, *measured, format!("{:+.1} %", compared.change()), *measurements, verdict.word()]
    };
    let of = baseline.date.split('T').next().unwrap_or_default();
    let about = format!("ratios of our rates to bare ones, beside the baseline of {of}; more is better.");
    let columns = ["ratio", "baseline", "measured", "change", "measurements", ""];
    Table::new("check", about, &columns, compared.iter().map(row))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// Parses "name baseline measured measured ...", with "-" for a missing value.
    fn check(script: &str, expected: Expect) {
        let (mut baseline, mut measured) = (BTreeMap::new(), BTreeMap::new());
        for line in script.lines().filter(|line| !line.trim().is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let Ok(value) = words[1].parse() {
                baseline.insert(words[0].to_owned(), value);
            }
            let values: Vec<f64> = words[2..].iter().filter_map(|word| word.parse().ok()).collect();
            if words.get(2) != Some(&"-") {
                measured.insert(words[0].to_owned(), values);
            }
        }
        let said = match compare(&baseline, &measured) {
            Ok(compared) => {
                let line = |compared: &Compared| format!("{} {}", compared.line(), compared.verdict.word());
                compared.iter().map(|compared| line(compared).trim_end().to_owned() + "\n").collect()
            }
            Err(mismatch) => mismatch.to_string(),
        };
        expected.assert_eq(&said);
    }

    #[test]
    fn two_of_three_measurements_decide() {
        check(
            "same 0.8 0.8
             less 0.8 0.69
             regressed 0.8 0.67 0.66
             lucky_once 0.8 0.67 0.8 0.66
             disturbed_once 0.8 0.4 0.79 0.81
             improved 0.8 0.93
             exactly_15_percent_less 1.0 0.85
             no_number 0.8 NaN NaN",
            expect![[r#"
                disturbed_once: baseline 0.800, measured 0.790 (-1.2 %), in 3 measurements
                exactly_15_percent_less: baseline 1.000, measured 0.850 (-15.0 %), in 1 measurement
                improved: baseline 0.800, measured 0.930 (+16.3 %), in 1 measurement improved
                less: baseline 0.800, measured 0.690 (-13.8 %), in 1 measurement
                lucky_once: baseline 0.800, measured 0.670 (-16.2 %), in 3 measurements REGRESSION
                no_number: baseline 0.800, measured NaN (NaN %), in 2 measurements REGRESSION
                regressed: baseline 0.800, measured 0.670 (-16.2 %), in 2 measurements REGRESSION
                same: baseline 0.800, measured 0.800 (+0.0 %), in 1 measurement
            "#]],
        );
    }

    #[test]
    fn a_ratio_that_one_side_lacks_is_an_error() {
        check(
            "both 0.8 0.8\nnew - 0.7\ngone 0.9 -",
            expect![[r#"
            measured, and not in the baseline: new
            in the baseline, and not measured: gone
            run bench --write-baseline on a quiet machine and commit bench/baseline.json"#]],
        );
    }

    #[test]
    fn only_what_seems_to_have_regressed_is_measured_again() {
        for (measured, expected) in [
            (vec![], None),
            (vec![0.7], Some(0.7)),
            (vec![0.6], None),
            (vec![0.6, 0.65], Some(0.65)),
            (vec![0.6, 0.8], None),
            (vec![0.6, 0.8, 0.5], Some(0.6)),
            (vec![0.6, 0.8, 0.9], Some(0.8)),
        ] {
            assert_eq!(decided(0.8, &measured), expected, "{measured:?}");
        }
    }
}
