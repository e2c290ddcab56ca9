//! The ratios of our code's overheads, measured in seconds; `--check` compares them with the baseline.
//!
//! Each comparison equals the one in the full measurement of its name, with fewer and smaller rounds. Ours and bare
//! alternate, and the median of the rounds' ratios counts. Each measurement of a ratio starts fresh stores.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::Context;
use strum::{EnumIter, IntoEnumIterator};

use crate::{
    api,
    baseline::{Baseline, Baselines, MEASUREMENTS_MAX, Verdict, compare, decided},
    fan_out, index,
    options::Options,
    repair,
    report::{Machine, Run},
    statistics::median,
};

/// Exit code: some ratio has regressed.
const REGRESSED: u8 = 1;

/// Ratios that are measured together, because they share the stores that must be filled first.
#[derive(Debug, Clone, Copy, strum::Display, EnumIter)]
enum Group {
    #[strum(to_string = "fan-out handler beside bare batch writes")]
    FanOut,
    #[strum(to_string = "indexer beside a bare pipeline")]
    Index,
    #[strum(to_string = "API beside bare queries")]
    Api,
    #[strum(to_string = "audit and rebuild beside bare scans")]
    Repair,
}

impl Group {
    /// Measures its ratios. Returns their names and values.
    async fn measure(self, options: &Options) -> anyhow::Result<Vec<(&'static str, f64)>> {
        match self {
            Self::FanOut => Ok(vec![(fan_out::RATIO, fan_out::rounds(fan_out::QUICK).await?.ratio())]),
            Self::Index => Ok(vec![(index::RATIO, index::rounds(index::QUICK).await?.ratio())]),
            Self::Api => api::overheads(options.api.as_deref()).await,
            Self::Repair => repair::overheads().await,
        }
    }
}

/// All measurements by ratio.
type Measured = BTreeMap<String, Vec<f64>>;

/// Measures every ratio once, then repeats it up to `MEASUREMENTS_MAX` times while `is_wanted` holds for its
/// measurements.
async fn measure(options: &Options, is_wanted: impl Fn(&str, &[f64]) -> bool) -> anyhow::Result<Measured> {
    let began = Instant::now();
    let mut of_groups: Vec<(Group, Measured)> = Group::iter().map(|group| (group, Measured::new())).collect();
    for number in 1..=MEASUREMENTS_MAX {
        for (group, measured) in &mut of_groups {
            let is_wanted = |name: &str, values: &[f64]| number == 1 || is_wanted(name, values);
            if number > 1 && !measured.iter().any(|(name, values)| is_wanted(name, values)) {
                continue;
            }
            eprintln!("{:.1} s: {group}", began.elapsed().as_secs_f64());
            for (name, ratio) in group.measure(options).await? {
                println!("  {name:<32} {ratio:.3}");
                let values = measured.entry(name.to_owned()).or_default();
                if is_wanted(name, values) {
                    values.push(ratio);
                }
            }
        }
    }
    println!("measured in {:.0} s", began.elapsed().as_secs_f64());
    Ok(of_groups.into_iter().flat_map(|(_, measured)| measured).collect())
}

/// Measures and compares with the baseline. The exit code is 1 when a ratio has regressed.
///
/// # Errors
/// When the comparison is impossible.
pub(crate) async fn check(options: &Options) -> anyhow::Result<ExitCode> {
    let baselines = Baselines::read(&path())?;
    let baseline = baselines.of(&Machine::this()).context("there is no baseline: bench --write-baseline writes one")?;
    if !baseline.machine.is_like(&Machine::this()) {
        let Machine { processor, cores, .. } = &baseline.machine;
        println!(
            "the newest baseline is of another machine ({processor}, {cores} cores): write one of this machine's own"
        );
    }
    let is_undecided =
        |name: &str, values: &[f64]| baseline.ratios.get(name).is_some_and(|was| decided(*was, values).is_none());
    let measured = measure(options, is_undecided).await?;
    let compared = compare(&baseline.ratios, &measured)?;
    println!("\nratios of our rates to bare ones, beside the baseline of {}; more is better:", baseline.date);
    compared.iter().for_each(|compared| println!("  {compared}"));
    let has_regressed = compared.iter().any(|compared| compared.verdict == Verdict::Regressed);
    Ok(if has_regressed { ExitCode::from(REGRESSED) } else { ExitCode::SUCCESS })
}

/// Measures every ratio `MEASUREMENTS_MAX` times and adds the medians as a baseline.
pub(crate) async fn write_baseline(options: &Options) -> anyhow::Result<()> {
    let run = Run::begin(true);
    let measured = measure(options, |_, _| true).await?;
    let baseline = Baseline {
        date: run.began,
        command: run.command,
        commit: run.commit,
        is_dirty: run.is_dirty,
        load_average: run.load_before,
        machine: Machine::this(),
        // Four decimals are meaningful.
        ratios: measured.iter().map(|(name, values)| (name.clone(), (median(values) * 1e4).round() / 1e4)).collect(),
    };
    let mut baselines = Baselines::read(&path())?;
    baselines.add(baseline);
    baselines.write(&path())?;
    println!("added to {}", path().display());
    Ok(())
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("baseline.json")
}
