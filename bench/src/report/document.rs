//! Parts that `report.md` and `report.html` share: the first paragraph, and the section of each measurement.

use itertools::Itertools;

use super::{
    kept::{Kept, Ratio},
    machine::Run,
    number::seconds,
    plot::Plot,
    table::Table,
};

/// A measurement's part of the report.
pub(super) struct Section<'kept> {
    pub(super) name: &'kept str,
    /// The measurement's time, duration, and the load of the machine.
    pub(super) taken: String,
    pub(super) tables: Vec<&'kept Table>,
    pub(super) plots: Vec<&'kept Plot>,
}

/// The first paragraph: where this design loses, and the limits that it misses.
pub(super) fn opening(kept: &Kept) -> String {
    let mut sentences: Vec<String> = Vec::new();
    if kept.losses.is_empty() {
        sentences.push("No comparison with another design in this report says where this one loses.".to_owned());
    } else {
        sentences.push("Where this design loses:".to_owned());
        sentences.extend(kept.losses.iter().map(|loss| sentence(&loss.sentence)));
    }
    let limits = kept.ratios.iter().filter(|ratio| ratio.holds.is_some()).count();
    let missed: Vec<&Ratio> = kept.ratios.iter().filter(|ratio| ratio.holds == Some(false)).collect();
    match missed.len() {
        0 if limits == 0 => {}
        0 => sentences.push(format!("Of {limits} limits none is missed.")),
        count => sentences.push(format!(
            "Missed limits, {count} of {limits}: {}.",
            missed.into_iter().map(text_of_missed).join(", ")
        )),
    }
    for (name, run) in &kept.runs {
        if let Some(failure) = &run.failure {
            sentences.push(format!("{name} failed, so its results are incomplete: {}", sentence(failure)));
        }
    }
    let quick = kept.runs.iter().filter(|(_, run)| run.is_quick).map(|(name, _)| name).join(", ");
    if !quick.is_empty() {
        sentences.push(format!("Measured in a quick run, so less exact: {quick}."));
    }
    sentences.join(" ")
}

fn text_of_missed(ratio: &Ratio) -> String {
    format!("{} ({} instead of {})", ratio.name, ratio.text(), ratio.limit)
}

/// Makes a text end as a sentence.
fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', '!', '?', ':']) { text.to_owned() } else { format!("{text}.") }
}

/// Names and values of the machine, versions and code behind the figures.
pub(super) fn facts(kept: &Kept) -> Vec<(&'static str, String)> {
    let machine = &kept.machine;
    let runs = || kept.runs.values();
    vec![
        ("Date", runs().filter_map(|run| run.began.split('T').next()).sorted().dedup().join(", ")),
        ("Processor", format!("{}, {} cores", machine.processor, machine.cores)),
        ("Memory", format!("{} GiB", machine.memory_gib)),
        ("System", format!("{}, kernel {}", machine.system, machine.kernel)),
        ("Versions", machine.versions.iter().map(|(name, version)| format!("{name} {version}")).join(", ")),
        ("Commit", runs().map(commit).sorted().dedup().join(", ")),
        ("Commands", runs().map(|run| &run.command).sorted().dedup().join("; ")),
    ]
}

/// The commit, and whether there were uncommitted changes.
fn commit(run: &Run) -> String {
    let short: String = run.commit.chars().take(12).collect();
    match (short.is_empty(), run.is_dirty) {
        (true, _) => "unknown".to_owned(),
        (false, true) => format!("{short} with changes that are not committed"),
        (false, false) => short,
    }
}

/// The measurements by name.
pub(super) fn sections(kept: &Kept) -> Vec<Section<'_>> {
    kept.runs
        .iter()
        .map(|(name, run)| Section {
            name,
            taken: taken(run),
            tables: kept.tables.iter().filter(|table| table.of == *name).map(|table| &table.it).collect(),
            plots: kept.plots.iter().filter(|plot| plot.of == *name).map(|plot| &plot.it).collect(),
        })
        .collect()
}

/// For example "2026-11-20 21:04 UTC, 42 s, load average 0.31 when it began and 1.87 when it ended".
fn taken(run: &Run) -> String {
    let minute: String = run.began.replacen('T', " ", 1).chars().take("2026-11-20 21:04".len()).collect();
    let load = |load: Option<f64>| load.map_or_else(|| "unknown".to_owned(), |load| format!("{load:.2}"));
    let quick = if run.is_quick { ", a quick run" } else { "" };
    format!(
        "{minute} UTC, {}{quick}; load average {} when it began and {} when it ended",
        seconds(run.took_s),
        load(run.load_before),
        load(run.load_after)
    )
}

/// A name as part of a URL.
pub(super) fn anchor(name: &str) -> String {
    let words = name.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).join("-")
}
