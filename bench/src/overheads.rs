//! The ratios of our code's overheads, measured in seconds; `--check` compares them with the baseline.
//!
//! Each comparison equals the one in the full measurement of its name, with fewer and smaller rounds. Ours and bare
//! alternate, and the median of the rounds' ratios counts. Each measurement of a ratio starts fresh stores.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::{
    api,
    baseline::{self, Baseline, MEASUREMENTS_MAX, Verdict, compare, decided},
    fan_out, index,
    options::Options,
    progress::Progress,
    repair,
    report::{Machine, beginning, seconds},
    statistics::median,
};

/// Exit code: some ratio has regressed.
const REGRESSED: u8 = 1;
/// Exit code: the baseline is missing, or lacks a ratio.
pub(crate) const NOT_COMPARED: u8 = 2;

/// Ratios that are measured together, because they share the stores that must be filled first.
#[derive(Debug, Clone, Copy)]
enum Group {
    FanOut,
    Index,
    Api,
    Repair,
}

impl Group {
    const ALL: [Self; 4] = [Self::FanOut, Self::Index, Self::Api, Self::Repair];

    fn name(self) -> &'static str {
        match self {
            Self::FanOut => "fan-out handler beside bare batch writes",
            Self::Index => "indexer beside a bare pipeline",
            Self::Api => "API beside bare queries",
            Self::Repair => "audit and rebuild beside bare reads",
        }
    }

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
async fn measure(options: &Options, name: &str, is_wanted: impl Fn(&str, &[f64]) -> bool) -> anyhow::Result<Measured> {
    let progress = Progress::begin(name, 1, 1);
    let mut of_groups: Vec<(Group, Measured)> = Group::ALL.map(|group| (group, Measured::new())).into();
    for number in 1..=MEASUREMENTS_MAX {
        for (group, measured) in &mut of_groups {
            let wanted = |name: &str, measured: &Measured| {
                number == 1 || measured.get(name).is_some_and(|values| is_wanted(name, values))
            };
            if number > 1 && !measured.keys().any(|name| wanted(name, measured)) {
                continue;
            }
            let again = if number == 1 { "" } else { ", again" };
            progress.step(&format!("{}{again}", group.name()));
            for (name, ratio) in group.measure(options).await? {
                progress.print(&format!("  {name:<32} {ratio:.3}{again}"));
                if wanted(name, measured) {
                    measured.entry(name.to_owned()).or_default().push(ratio);
                }
            }
        }
    }
    progress.finish();
    println!("measured in {}", seconds(progress.elapsed().as_secs_f64()));
    Ok(of_groups.into_iter().flat_map(|(_, measured)| measured).collect())
}

/// Measures and compares with the baseline. The exit code is 1 when a ratio has regressed, and 2 when the comparison is
/// impossible.
pub(crate) async fn check(options: &Options) -> anyhow::Result<ExitCode> {
    let baseline = match Baseline::read(&path()) {
        Ok(baseline) => baseline,
        Err(error) => {
            eprintln!("there is no baseline to compare with: {error:#}");
            return Ok(ExitCode::from(NOT_COMPARED));
        }
    };
    if !baseline.machine.is_like(&Machine::this()) {
        let Machine { processor, cores, .. } = &baseline.machine;
        println!("the baseline is of another machine ({processor}, {cores} cores): write one of this machine's own");
    }
    let is_undecided =
        |name: &str, values: &[f64]| baseline.ratios.get(name).is_some_and(|was| decided(*was, values).is_none());
    let measured = measure(options, "check", is_undecided).await?;
    let compared = match compare(&baseline.ratios, &measured) {
        Ok(compared) => compared,
        Err(mismatch) => {
            eprintln!("{mismatch}");
            return Ok(ExitCode::from(NOT_COMPARED));
        }
    };
    println!("\n{}\n", baseline::table(&compared, &baseline));
    let of = |verdict| compared.iter().filter(move |compared| compared.verdict == verdict);
    of(Verdict::Improved).for_each(|improved| println!("improved: {}", improved.line()));
    of(Verdict::Regressed).for_each(|regressed| eprintln!("regression: {}", regressed.line()));
    let has_regressed = of(Verdict::Regressed).next().is_some();
    Ok(if has_regressed { ExitCode::from(REGRESSED) } else { ExitCode::SUCCESS })
}

/// Measures every ratio `MEASUREMENTS_MAX` times and writes the medians as the baseline.
pub(crate) async fn write_baseline(options: &Options) -> anyhow::Result<()> {
    let run = beginning(true);
    let measured = measure(options, "baseline", |_, _| true).await?;
    let baseline = Baseline {
        date: run.began,
        command: run.command,
        commit: run.commit,
        is_dirty: run.is_dirty,
        load_average: run.load_before,
        machine: Machine::this(),
        ratios: measured.iter().map(|(name, values)| (name.clone(), rounded(median(values)))).collect(),
    };
    for (name, values) in &measured {
        let values: Vec<String> = values.iter().map(|value| format!("{value:.3}")).collect();
        println!("  {name:<32} {}", values.join("  "));
    }
    baseline.write(&path())?;
    println!("wrote {}", path().display());
    Ok(())
}

/// Rounds to the digits that are meaningful.
fn rounded(ratio: f64) -> f64 {
    (ratio * 1e4).round() / 1e4
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("baseline.json")
}
