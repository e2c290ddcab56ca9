//! `report.md`.

use std::fmt::Write;

use super::{
    anchor,
    document::{Section, facts, opening, sections},
    kept::{Kept, Ratio},
    limit::verdict,
};

/// The folder of the plot files, beside the report.
pub(super) const PLOTS: &str = "plots";

/// The whole report.
pub(super) fn markdown(kept: &Kept) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    writeln!(text, "# Measurements\n\n{}\n", escaped(&opening(kept)))?;
    for (name, value) in facts(kept) {
        writeln!(text, "- {name}: {}", escaped(&value))?;
    }
    if !kept.ratios.is_empty() {
        writeln!(text, "\n## Ratios\n")?;
        let rows = kept.ratios.iter().map(ratio_row).collect::<Vec<_>>();
        table(&mut text, &["ratio", "figure", "limit", ""], &[false, true, false, false], &rows)?;
    }
    for section in sections(kept) {
        self::section(&mut text, &section)?;
    }
    Ok(text)
}

fn section(text: &mut String, section: &Section<'_>) -> std::fmt::Result {
    writeln!(text, "\n## {}\n\n{}.", escaped(section.name), section.taken)?;
    for plot in &section.plots {
        writeln!(text, "\n![{}]({PLOTS}/{}.svg)", escaped(&plot.title), anchor(&plot.name))?;
    }
    for shown in section.tables.iter().copied() {
        writeln!(text, "\n### {}\n\n{}\n", escaped(&shown.name), escaped(&shown.about))?;
        let is_of_figures: Vec<bool> = (0..shown.columns.len()).map(|column| shown.is_of_figures(column)).collect();
        table(text, &shown.columns, &is_of_figures, &shown.texts())?;
    }
    Ok(())
}

fn ratio_row(ratio: &Ratio) -> Vec<String> {
    let verdict = match ratio.holds {
        Some(false) => format!("**{}**", verdict(ratio.holds)),
        holds => verdict(holds).to_owned(),
    };
    let limit = [ratio.limit.to_string(), ratio.note.clone()].into_iter().filter(|text| !text.is_empty());
    let limit: Vec<String> = limit.collect();
    vec![format!("`{}`", ratio.name), ratio.text(), limit.join("; "), verdict]
}

fn table(
    text: &mut String,
    columns: &[impl AsRef<str>],
    is_of_figures: &[bool],
    rows: &[Vec<String>],
) -> std::fmt::Result {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    writeln!(text, "{}", line(columns.iter().map(|column| escaped(column.as_ref())).collect()))?;
    let rule = is_of_figures.iter().map(|is_of_figures| if *is_of_figures { "---:" } else { "---" }.to_owned());
    writeln!(text, "{}", line(rule.collect()))?;
    for row in rows {
        writeln!(text, "{}", line(row.iter().map(|cell| escaped(cell)).collect()))?;
    }
    Ok(())
}

/// Escapes text so that it cannot end a cell or start a tag.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::report::sample::sample;

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

            ## Ratios

            | ratio | figure | limit |  |
            | --- | ---: | --- | --- |
            | `last_page_vs_page_2_p50` | 1.00 | at most 1.15; at each size | holds |
            | `index_vs_pipeline` | 0.560 | at least 0.7 | **missed** |
            | `bytes_vs_32_sets` | 0.136 | none; the less the better |  |

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
        "#]].assert_eq(&markdown(&sample()).unwrap());
    }
}
