//! The page that decides, `docs/benchmarks.md`, made from the results of one or several runs.
//!
//! - `findings`: two designs' numbers and a verdict. Every sentence is made from a verdict.
//! - `break_even`, `lead`: the first lines of the page.
//! - `ratios`: the table. `appendix`: all tables of the last run.

mod appendix;
mod break_even;
mod findings;
mod lead;
mod ratios;
#[cfg(test)]
mod tests;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, ensure};
use itertools::Itertools;

use crate::{
    money::add_bills,
    report::{LOAD_MAX, Results, Run, Section},
};
use findings::{Finding, findings};

/// Exit code: the results are not publishable, and nothing was written.
const NOT_PUBLISHABLE: u8 = 3;
const PAGE: &str = "benchmarks.md";
const APPENDIX: &str = "benchmarks-appendix.md";
/// The measurement that the bills belong to.
const COMPARISON: &str = "compare";
/// The folder of plots, beside the page.
const FOLDER: &str = "benchmarks";
/// The plots of the page, by name, and what is missing without them.
const PLOTS: [(&str, &str); 5] = [
    ("money", "money by page views per write"),
    (findings::DEPTH, "latency by depth"),
    ("ratings", "latency by number of ratings"),
    ("scale", "growth with the number of comments"),
    ("bytes", "bytes of a comment"),
];
/// What no measurement of this program covers.
const NEVER_MEASURED: [&str; 6] = [
    "Real DynamoDB. An engine on this machine stands in for it and counts units as AWS documents them.",
    "The latency of DynamoDB and Redis. Delays are assumptions. The table takes 4 ms at the median and 10 ms at the 99th \
     percentile, or always 4 ms, and parallel calls do not influence each other. Redis always takes 0.5 ms. More spread \
     favours Pagemark, less favours four indexes.",
    "The latency of an acknowledged write. The engine charges nothing for a transaction, so write units and round trips \
     are stated instead.",
    "The time to read the counters of four indexes for the totals of each page, except in `site`. The money counts them.",
    "How often a cache in front of four indexes would answer. Hit rates of 0, 50 and 90 % are assumptions, and removing \
     cached pages after a write is not counted.",
    "99th percentiles of fewer than 1,000 samples. They are not printed.",
];
const HOW: [&str; 3] = [
    "Better or worse means Pagemark's median, the less the better. A page is one of 20 comments; the middle one is as far \
     from the first as from the last. \"No difference found\": the runs' intervals overlap, or \
     the medians are less than 5 % apart.",
    "An interval is the lowest and the highest of the runs. The plots are of the last run.",
    "Growth: the exponent of a power law through the measured sizes. 0 means that nothing changes with the number of \
     comments.",
];

/// Writes the page that decides from one or several reports.
#[derive(Debug, clap::Args)]
pub(crate) struct PageArgs {
    /// The `report.json` of each run, the last one last.
    #[arg(required = true, value_name = "REPORT.json")]
    reports: Vec<PathBuf>,
    /// The folder for benchmarks.md, its appendix, and the folder benchmarks with plots and reports.
    #[arg(long, value_name = "FOLDER", default_value = "target/bench/page")]
    into: PathBuf,
    /// Exits 3 without writing anything if the results are not publishable.
    #[arg(long)]
    publishable: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// When a report cannot be read, or a file not written.
pub(crate) fn run(args: &PageArgs) -> anyhow::Result<ExitCode> {
    let mut runs = Vec::new();
    for path in &args.reports {
        runs.push(Results::read(path)?.with_context(|| format!("there is no {}", path.display()))?);
    }
    if args.publishable
        && let Some(notice) = notice(&runs)
    {
        eprintln!("{notice}");
        return Ok(ExitCode::from(NOT_PUBLISHABLE));
    }
    write(&args.into, &runs)?;
    for (number, path) in (1..).zip(&args.reports) {
        let copy = args.into.join(FOLDER).join(format!("report-{number}.json"));
        fs::copy(path, &copy).with_context(|| copy.display().to_string())?;
    }
    println!("wrote {}", args.into.join(PAGE).display());
    Ok(ExitCode::SUCCESS)
}

/// Writes the page, its appendix and the plots of the last run. Adds the bills to the comparison of both designs: they are
/// computed, and no part of a report. Removes plots and reports of earlier pages.
///
/// # Errors
/// When a file cannot be written, or a plot not be drawn.
pub(crate) fn write(into: &Path, runs: &[Results]) -> anyhow::Result<()> {
    ensure!(!runs.is_empty(), "a page needs the results of a run");
    let mut runs = runs.to_vec();
    runs.iter_mut().filter_map(|run| run.measurements.get_mut(COMPARISON)).try_for_each(add_bills)?;
    let folder = into.join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut files = vec![(into.join(PAGE), text(&runs))];
    if let Some(last) = runs.last() {
        files.push((into.join(APPENDIX), appendix::text(last)));
        for plot in last.measurements.values().flat_map(|section| &section.plots) {
            files.push((folder.join(plot.file()), plot.svg()?));
        }
    }
    for (path, text) in files {
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// The page.
fn text(runs: &[Results]) -> String {
    let findings = findings(runs);
    let mut lines: Vec<String> = notice(runs).into_iter().flat_map(|notice| [notice, String::new()]).collect();
    lines.extend(["# Which design to choose".to_owned(), String::new()]);
    lines.extend(lead::lines(runs, &findings));
    lines.extend(["", "## Plots", ""].map(str::to_owned));
    lines.extend(plots(runs));
    lines.extend(
        ["## Ratios", "", "Pagemark's figure by the other design's, and figures that have a limit.", ""]
            .map(str::to_owned),
    );
    lines.extend(ratios::lines(runs, &findings));
    lines.extend(["", "## How it was measured", ""].map(str::to_owned));
    lines.extend(how(runs));
    lines.extend(["", "## What was not measured", ""].map(str::to_owned));
    lines.extend(not_measured(runs, &findings));
    lines.join("\n") + "\n"
}

fn sections(runs: &[Results]) -> impl Iterator<Item = (&String, &Section)> {
    runs.iter().flat_map(|run| &run.measurements)
}

/// Why the results must not be published; `None` if they may.
fn notice(runs: &[Results]) -> Option<String> {
    let names = |is_bad: fn(&Run) -> bool| {
        sections(runs).filter(|(_, section)| is_bad(&section.run)).map(|(name, _)| name).unique().join(", ")
    };
    let reasons = [
        ("the machine was loaded when these began", names(|run| run.load_before.is_some_and(|load| load > LOAD_MAX))),
        ("nobody knows how loaded the machine was when these began", names(|run| run.load_before.is_none())),
        ("quick and therefore inexact", names(|run| run.is_quick)),
    ];
    let reasons = reasons.into_iter().filter(|(_, names)| !names.is_empty());
    let reasons = reasons.map(|(reason, names)| format!("{reason}: {names}")).join("; ");
    (!reasons.is_empty()).then(|| format!("**Not publishable:** {reasons}."))
}

fn plots(runs: &[Results]) -> Vec<String> {
    let lines = PLOTS.map(|(name, about)| match runs.last().and_then(|run| run.plot(name)) {
        Some(plot) => format!("![{}]({FOLDER}/{})", plot.title, plot.file()),
        None => format!("No plot: {about} was not measured."),
    });
    lines.into_iter().flat_map(|line| [line, String::new()]).collect()
}

fn how(runs: &[Results]) -> Vec<String> {
    let count = if runs.len() == 1 { "One run".to_owned() } else { format!("{} runs", runs.len()) };
    let highest = sections(runs).filter_map(|(_, section)| section.run.load_before).reduce(f64::max);
    let highest = highest.map_or_else(|| "unknown".to_owned(), |load| format!("{load:.2}"));
    let load = format!("{count}; the highest load when a measurement began was {highest}, allowed is {LOAD_MAX}.");
    let facts = appendix::facts(runs).into_iter().map(|(name, value)| format!("{name}: {value}"));
    let month = runs.iter().find_map(|run| run.fact("month")).unwrap_or("unknown");
    let money = format!(
        "Money is computed, not measured: `bench cost` prints the same month, or yours. The month: {month}. The comments \
         that were measured have 57 bytes on average."
    );
    let all = [load].into_iter().chain(facts).chain([money]).chain(HOW.map(str::to_owned));
    let appendix = format!(
        "All tables of the last run are in the [appendix]({APPENDIX}), explained by the [notes](benchmarks-notes.md)."
    );
    all.chain([appendix]).map(|line| format!("- {line}")).collect()
}

fn not_measured(runs: &[Results], findings: &[Finding]) -> Vec<String> {
    let missing = findings.iter().filter(|finding| !finding.is_measured());
    let missing =
        missing.into_group_map_by(|finding| finding.other.as_str()).into_iter().sorted_by_key(|group| group.0);
    let missing = missing.map(|(other, missing)| {
        format!("In these results, beside {other}: {}.", missing.iter().map(|finding| &finding.what).join("; "))
    });
    let failed = sections(runs).filter_map(|(name, section)| {
        Some(format!(
            "`{name}` failed, so its results are incomplete: {}",
            section.run.failure.as_ref()?.replace('\n', " ")
        ))
    });
    let all = missing.chain(failed.unique()).chain(NEVER_MEASURED.map(str::to_owned));
    all.map(|line| format!("- {line}")).collect()
}
