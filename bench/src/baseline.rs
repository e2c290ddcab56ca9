//! Baselines: earlier ratios of our code's overheads, by machine, and the comparison with the newest.
//!
//! All ratios divide the rate of our code by the rate of the bare calls, so higher is better. On a busy or throttled
//! machine, a measurement differs from the previous one. So a single result beyond the limit is not trusted: the ratio
//! is measured up to twice more, and **two of three** decide. One disturbed measurement then raises no alarm, and one
//! lucky measurement hides no regression. A ratio within the limit at first is not measured again. So a regression of
//! about the limit's size is found about every other time, and one of twice its size practically always.

use std::{collections::BTreeMap, fmt, path::Path};

use anyhow::{Context, ensure};
use itertools::Itertools;
use serde::{Deserialize, Serialize};

use crate::{report::Machine, statistics::median};

const LOSS_MAX: f64 = 0.15;
pub(crate) const MEASUREMENTS_MAX: usize = 3;

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

/// All baselines so far, the newest last.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Baselines(Vec<Baseline>);

impl Baselines {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let how = || format!("{}: it holds no list of baselines", path.display());
        serde_json::from_slice(&std::fs::read(path).with_context(how)?).with_context(how)
    }

    /// The newest baseline of a machine like this one; if there is none, the newest of all.
    pub(crate) fn of(&self, machine: &Machine) -> Option<&Baseline> {
        let of_machine = self.0.iter().rfind(|baseline| baseline.machine.is_like(machine));
        of_machine.or(self.0.last())
    }

    pub(crate) fn add(&mut self, baseline: Baseline) {
        self.0.push(baseline);
    }

    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = format!("{}\n", serde_json::to_string_pretty(self)?);
        std::fs::write(path, text).with_context(|| path.display().to_string())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub(crate) enum Verdict {
    #[strum(to_string = "")]
    Unchanged,
    #[strum(to_string = ", REGRESSION")]
    Regressed,
    #[strum(to_string = ", improved")]
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
            Self::Unchanged
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

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Compared {
    pub(crate) name: String,
    pub(crate) baseline: f64,
    pub(crate) measured: f64,
    pub(crate) measurements: usize,
    pub(crate) verdict: Verdict,
}

/// As one line, such as "api_json_vs_sdk: baseline 0.890, measured 0.700 (-21.3 %) in 3 measurements, REGRESSION".
impl fmt::Display for Compared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, baseline, measured, measurements, verdict } = self;
        let change = 100.0 * (measured / baseline - 1.0);
        let times = if *measurements == 1 { "1 measurement" } else { &format!("{measurements} measurements") };
        write!(formatter, "{name}: baseline {baseline:.3}, measured {measured:.3} ({change:+.1} %) in {times}{verdict}")
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
            Ok(compared) => compared.iter().map(|compared| format!("{compared}\n")).collect(),
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
                disturbed_once: baseline 0.800, measured 0.790 (-1.2 %) in 3 measurements
                exactly_15_percent_less: baseline 1.000, measured 0.850 (-15.0 %) in 1 measurement
                improved: baseline 0.800, measured 0.930 (+16.3 %) in 1 measurement, improved
                less: baseline 0.800, measured 0.690 (-13.8 %) in 1 measurement
                lucky_once: baseline 0.800, measured 0.670 (-16.2 %) in 3 measurements, REGRESSION
                no_number: baseline 0.800, measured NaN (NaN %) in 2 measurements, REGRESSION
                regressed: baseline 0.800, measured 0.670 (-16.2 %) in 2 measurements, REGRESSION
                same: baseline 0.800, measured 0.800 (+0.0 %) in 1 measurement
            "#]],
        );
    }

    #[test]
    fn the_newest_baseline_of_the_same_kind_of_machine_counts() {
        let baseline = |date: &str, processor: &str| Baseline {
            date: date.to_owned(),
            machine: Machine { processor: processor.to_owned(), ..Machine::default() },
            ..Baseline::default()
        };
        let mut baselines = Baselines::default();
        assert_eq!(baselines.of(&Machine::default()), None);
        for (date, processor) in [("1", "one"), ("2", "one"), ("3", "other")] {
            baselines.add(baseline(date, processor));
        }
        for (processor, date) in [("one", "2"), ("other", "3"), ("unknown", "3")] {
            assert_eq!(baselines.of(&baseline("", processor).machine).unwrap().date, date, "{processor}");
        }
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
