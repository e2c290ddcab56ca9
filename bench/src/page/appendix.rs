//! The appendix: every table of a run.

use itertools::Itertools;

use super::{FOLDER, sections};
use crate::report::{Machine, Ratio, Results, Run, Section, Table, row};

pub(super) fn text(results: &Results) -> String {
    let mut blocks = vec!["# Measurements: all tables of one run".to_owned()];
    let facts = facts(std::slice::from_ref(results));
    blocks.push(facts.into_iter().map(|(name, value)| format!("- {name}: {}", escaped(&value))).join("\n"));
    blocks.extend(["## ratios".to_owned(), markdown_of(&ratios(results))]);
    for (name, Section { run, plots, tables, .. }) in &results.measurements {
        blocks.extend([format!("## {}", escaped(name)), format!("{}.", run.text())]);
        blocks.extend(plots.iter().map(|plot| format!("![{}]({FOLDER}/{})", escaped(&plot.title), plot.file())));
        blocks.extend(tables.iter().map(markdown_of));
    }
    blocks.join("\n\n") + "\n"
}

fn markdown_of(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let head = table.columns.iter().map(|column| escaped(column)).collect();
    let rule = (0..table.columns.len()).map(|column| if table.is_of_figures(column) { "---:" } else { "---" });
    let rows = table.rows.iter().map(|row| line(row.iter().map(|cell| escaped(&cell.to_string())).collect()));
    let lines = [line(head), line(rule.map(str::to_owned).collect())].into_iter().chain(rows).join("\n");
    format!("### {}\n\n{}\n\n{lines}", escaped(&table.name), escaped(&table.about))
}

/// Escapes text so that it cannot end a cell or start a tag.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

fn ratios(results: &Results) -> Table {
    let row = |ratio: &Ratio| {
        let (name, limit, verdict) = (ratio.name.as_str(), ratio.limit_and_note(), ratio.verdict());
        row![("ratio", name), ("figure", ratio.value), ("limit", limit), ("verdict", verdict)]
    };
    Table::new("limits", "Figures that have a limit, or could have one.", results.ratios().map(row))
}

/// Names and values of the machine, versions and code behind the figures of all runs.
pub(super) fn facts(runs: &[Results]) -> Vec<(&'static str, String)> {
    let all = || sections(runs).map(|(_, section)| &section.run);
    let machines = |text: fn(&Results) -> String| runs.iter().map(text).sorted().dedup().join("; ");
    vec![
        ("Date", all().filter_map(|run| run.began.split('T').next()).sorted().dedup().join(", ")),
        ("Machine", machines(machine)),
        ("Versions", machines(|run| run.machine.versions.iter().map(|(name, is)| format!("{name} {is}")).join(", "))),
        ("Commit", all().map(Run::commit_text).sorted().dedup().join(", ")),
        ("Commands", all().map(|run| &run.command).sorted().dedup().join("; ")),
    ]
}

fn machine(Results { machine, .. }: &Results) -> String {
    let Machine { processor, cores, memory_gib, kernel, system, .. } = machine;
    format!("{processor}, {cores} cores, {memory_gib} GiB, {system}, kernel {kernel}")
}
