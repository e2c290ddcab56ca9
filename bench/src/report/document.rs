//! The report for people. `report.md` and `report.html` (one self-contained file without scripts) have the same parts.

use std::collections::BTreeMap;

use askama::Template;
use itertools::Itertools;

use super::{
    results::{Ratio, Results, Section},
    row,
    table::Table,
};

/// A report; its template is the HTML.
#[derive(Template)]
#[template(path = "report.html")]
pub(super) struct Document<'results> {
    /// Where this design loses, and the limits that it misses.
    opening: String,
    /// Names and values of the machine, versions and code behind the figures.
    facts: Vec<(&'static str, String)>,
    ratios: Table,
    measurements: &'results BTreeMap<String, Section>,
}

impl<'results> Document<'results> {
    pub(super) fn of(results: &'results Results) -> Self {
        let (opening, facts, ratios) = (opening(results), facts(results), ratios(results));
        Self { opening, facts, ratios, measurements: &results.measurements }
    }

    pub(super) fn markdown(&self) -> String {
        let mut blocks = vec!["# Measurements".to_owned(), escaped(&self.opening)];
        blocks.push(self.facts.iter().map(|(name, value)| format!("- {name}: {}", escaped(value))).join("\n"));
        blocks.extend(["## ratios".to_owned(), markdown_of(&self.ratios)]);
        for (name, Section { run, plots, tables, .. }) in self.measurements {
            blocks.extend([format!("## {}", escaped(name)), format!("{}.", run.text())]);
            blocks.extend(plots.iter().map(|plot| format!("![{}]({})", escaped(&plot.title), plot.file())));
            blocks.extend(tables.iter().map(markdown_of));
        }
        blocks.join("\n\n") + "\n"
    }
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
    let all = results.measurements.values().flat_map(|section| &section.ratios);
    let row = |ratio: &Ratio| {
        let (name, limit, verdict) = (ratio.name.as_str(), ratio.limit_and_note(), ratio.verdict());
        row![("ratio", name), ("figure", ratio.value), ("limit", limit), ("verdict", verdict)]
    };
    Table::new("limits", "Figures that have a limit, or could have one.", all.map(row))
}

fn opening(results: &Results) -> String {
    let sections = || results.measurements.values();
    let mut sentences: Vec<String> = Vec::new();
    let losses = sections().flat_map(|section| &section.losses).map(|loss| sentence(loss)).collect_vec();
    if losses.is_empty() {
        sentences.push("No comparison with another design in this report says where this one loses.".to_owned());
    } else {
        sentences.push("Where this design loses:".to_owned());
        sentences.extend(losses);
    }
    let limited = sections().flat_map(|section| &section.ratios).filter(|ratio| ratio.holds().is_some()).collect_vec();
    let missed = limited.iter().filter(|ratio| ratio.holds() == Some(false)).collect_vec();
    match (missed.len(), limited.len()) {
        (_, 0) => {}
        (0, limits) => sentences.push(format!("Of {limits} limits none is missed.")),
        (count, limits) => {
            let text = |ratio: &&&Ratio| format!("{} ({} instead of {})", ratio.name, ratio.text(), ratio.limit);
            sentences.push(format!("Missed limits, {count} of {limits}: {}.", missed.iter().map(text).join(", ")));
        }
    }
    for (name, section) in &results.measurements {
        if let Some(failure) = &section.run.failure {
            sentences.push(format!("{name} failed, so its results are incomplete: {}", sentence(failure)));
        }
    }
    let quick =
        results.measurements.iter().filter(|(_, section)| section.run.is_quick).map(|(name, _)| name).join(", ");
    if !quick.is_empty() {
        sentences.push(format!("Measured in a quick run, so less exact: {quick}."));
    }
    sentences.join(" ")
}

/// Makes a text end as a sentence.
fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', '!', '?', ':']) { text.to_owned() } else { format!("{text}.") }
}

fn facts(results: &Results) -> Vec<(&'static str, String)> {
    let machine = &results.machine;
    let runs = || results.measurements.values().map(|section| &section.run);
    vec![
        ("Date", runs().filter_map(|run| run.began.split('T').next()).sorted().dedup().join(", ")),
        ("Processor", format!("{}, {} cores", machine.processor, machine.cores)),
        ("Memory", format!("{} GiB", machine.memory_gib)),
        ("System", format!("{}, kernel {}", machine.system, machine.kernel)),
        ("Versions", machine.versions.iter().map(|(name, version)| format!("{name} {version}")).join(", ")),
        ("Commit", runs().map(super::Run::commit_text).sorted().dedup().join(", ")),
        ("Commands", runs().map(|run| &run.command).sorted().dedup().join("; ")),
    ]
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::report::{Limit, Machine, Plot, Report, Run, Series};

    fn sample() -> Results {
        let mut report = Report::in_folder("no such folder".into()).unwrap();
        report.section.run = Run {
            began: "2026-11-20T21:04:05.123Z".to_owned(),
            took_s: 42.3,
            load_before: Some(0.31),
            command: "bench --only depth".to_owned(),
            commit: "0123456789abcdef".to_owned(),
            is_dirty: true,
            ..Run::default()
        };
        report.ratio_noted("last_page_vs_page_2_p50", 1.004, Limit::AtMost(1.15), "at each size");
        report.ratio("index_vs_pipeline", 0.56, Limit::AtLeast(0.7));
        report.ratio_noted("bytes_vs_32_sets", 0.136, Limit::None, "the less the better");
        let row = |design: &str, p50_us: Option<f64>| row![("design", design), ("p50, us", p50_us)];
        let rows = [row("Pagemark", Some(1_240.4)), row("one | other", None)];
        report.table(Table::new("read", "Pages of 20.", rows));
        let figures = [("items", 320.0, ""), ("table", 12_345.6, "bytes"), ("nothing", f64::NAN, "s")];
        report.add("storage", "10 comments", &figures);
        let series = Series { name: "walk by <cursor>".to_owned(), points: vec![(1.0, 900.0), (100.0, 90_000.0)] };
        report.plot(Plot::new("latency by depth", "Latency by depth", ["page", "p50, us"], [series]));
        report.loses("An insert costs 16 times as many write units");
        report.results.machine = Machine {
            processor: "A processor".to_owned(),
            cores: 2,
            memory_gib: 7.8,
            kernel: "6.1".to_owned(),
            system: "Debian".to_owned(),
            versions: vec![("bench".to_owned(), "0.1.0".to_owned())],
        };
        report.results.measurements.insert("depth".to_owned(), std::mem::take(&mut report.section));
        // Everything survives report.json.
        let json = serde_json::to_string(&report.results).unwrap();
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn a_small_report_in_full() {
        expect![[r#"
            # Measurements

            Where this design loses: An insert costs 16 times as many write units. Missed limits, 1 of 2: index_vs_pipeline (0.560 instead of at least 0.7).

            - Date: 2026-11-20
            - Processor: A processor, 2 cores
            - Memory: 7.8 GiB
            - System: Debian, kernel 6.1
            - Versions: bench 0.1.0
            - Commit: 0123456789ab with changes that are not committed
            - Commands: bench --only depth

            ## ratios

            ### limits

            Figures that have a limit, or could have one.

            | ratio | figure | limit | verdict |
            | --- | ---: | --- | --- |
            | last_page_vs_page_2_p50 | 1.00 | at most 1.15; at each size | holds |
            | index_vs_pipeline | 0.560 | at least 0.7 | MISSED |
            | bytes_vs_32_sets | 0.136 | none; the less the better |  |

            ## depth

            2026-11-20 21:04 UTC, 42 s; load average 0.31 when it began and unknown when it ended.

            ![Latency by depth](plots/latency-by-depth.svg)

            ### read

            Pages of 20.

            | design | p50, us |
            | --- | ---: |
            | Pagemark | 1,240 |
            | one \| other | - |

            ### storage

            10 comments

            |  | figure | unit |
            | --- | ---: | --- |
            | items | 320 |  |
            | table | 12,346 | bytes |
            | nothing | - | s |
        "#]].assert_eq(&Document::of(&sample()).markdown());
    }

    #[test]
    fn the_html_is_well_formed_complete_and_needs_nothing_else() {
        let results = sample();
        let text = Document::of(&results).render().unwrap();
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&text, options).unwrap();
        let all = |name: &'static str| document.descendants().filter(move |node| node.tag_name().name() == name);
        let ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
        for link in all("a") {
            let target = link.attribute("href").unwrap().strip_prefix('#').unwrap();
            assert!(ids.contains(&target), "{target} is nowhere");
        }
        assert_eq!(all("svg").count(), 1);
        assert!(all("th").all(|head| head.attribute("scope").is_some()));
        assert_eq!(all("script").count() + all("link").count() + all("img").count(), 0);
        let first = all("p").next().unwrap();
        assert_eq!(first.text().unwrap(), opening(&results));
        // A measurement's text is escaped, not markup.
        assert!(text.contains("walk by &lt;cursor&gt;"), "{text}");
    }
}
