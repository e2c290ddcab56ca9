//! `bench compare-revisions`: the figures of two revisions, which `scripts/bench-revisions.sh` ran
//! in alternating rounds on one machine.
//!
//! A round runs both revisions, one right after the other, so other load on the machine affects
//! both. So each round gives one ratio of each figure, and their spread shows the noise.

use std::{collections::BTreeSet, fmt::Write, path::Path};

use anyhow::{Context, bail, ensure};
use itertools::Itertools;

use crate::{
    measure::Spread,
    report::{Figure, JSON, MarkdownTable, NOT_MEASURED, Results, Section, interval, text},
};

/// Prints the comparison of the reports in two folders.
pub(crate) fn print(base: &Path, new: &Path) -> anyhow::Result<()> {
    print!("{}", comparison(&rounds_in(base)?, &rounds_in(new)?)?);
    Ok(())
}

/// The reports of a revision: `1/report.json`, `2/report.json` and so on.
fn rounds_in(folder: &Path) -> anyhow::Result<Vec<Results>> {
    let mut rounds = Vec::new();
    for round in 1_u32.. {
        let file = folder.join(round.to_string()).join(JSON);
        if !file.exists() {
            ensure!(round > 1, "there is no {}", file.display());
            break;
        }
        rounds.push(Results::read(&file)?);
    }
    Ok(rounds)
}

/// Compares the reports of both revisions, round by round.
fn comparison(base: &[Results], new: &[Results]) -> anyhow::Result<String> {
    ensure!(
        base.len() == new.len(),
        "the base has {} rounds, and the new revision {}: run both again",
        base.len(),
        new.len()
    );
    refuse_failures("the base", base)?;
    refuse_failures("the new revision", new)?;
    let mut rows = Vec::new();
    let mut omitted = Vec::new();
    for (measurement, name) in names(base, new) {
        let of_base = figures(base, measurement, name);
        let of_new = figures(new, measurement, name);
        match reason_to_omit(&of_base, &of_new, base.len()) {
            Some(reason) => omitted.push(format!("{measurement}: {name}: {reason}")),
            None => rows.push(row(measurement, &of_base, &of_new)?),
        }
    }
    ensure!(
        !rows.is_empty(),
        "there is no figure that both revisions have in every round:\n{}",
        omitted.join("\n")
    );
    let head = ["figure", "unit", "base", "new", "new / base", "better is"];
    let mut text = MarkdownTable::new(head, rows).aligned().text();
    writeln!(
        text,
        "\nBase is {}, new is {}. Rounds: {}, in turns. The machine's load was {} before a run.",
        commits(base),
        commits(new),
        base.len(),
        loads(base.iter().chain(new)),
    )?;
    writeln!(
        text,
        "Base and new are medians. new / base is the median of the rounds' ratios (lowest to highest).\n\
         If 1 lies between the lowest and the highest, the rounds show no difference. If not, that may be chance:\n\
         of {} equal figures, one has all its ratios on one side of 1.",
        figures_for_one_by_chance(base.len()),
    )?;
    if !omitted.is_empty() {
        writeln!(text, "\nNot compared:")?;
    }
    for figure in omitted {
        writeln!(text, "- {figure}")?;
    }
    Ok(text)
}

fn refuse_failures(revision: &str, rounds: &[Results]) -> anyhow::Result<()> {
    for (number, results) in (1..).zip(rounds) {
        for (measurement, section) in &results.measurements {
            if let Some(failure) = &section.failure {
                bail!("{measurement} of {revision} failed in round {number}: {failure}");
            }
        }
    }
    Ok(())
}

/// The measurement and the name of each figure. Figures that only the base has are the last.
fn names<'report>(
    base: &'report [Results],
    new: &'report [Results],
) -> Vec<(&'report str, &'report str)> {
    let mut names = Vec::new();
    for results in new.iter().chain(base) {
        for (measurement, section) in &results.measurements {
            let figures = section.figures.iter();
            names.extend(figures.map(|figure| (measurement.as_str(), figure.name.as_str())));
        }
    }
    names.into_iter().unique().collect()
}

/// A figure in each round that has it.
fn figures<'report>(
    rounds: &'report [Results],
    measurement: &str,
    name: &str,
) -> Vec<&'report Figure> {
    let mut figures = Vec::new();
    for results in rounds {
        if let Some(section) = results.measurements.get(measurement) {
            figures.extend(section.figures.iter().find(|figure| figure.name == name));
        }
    }
    figures
}

fn reason_to_omit(base: &[&Figure], new: &[&Figure], rounds: usize) -> Option<String> {
    if base.len() < rounds || new.len() < rounds {
        return Some(match (base.len(), new.len()) {
            (0, _) => "only the new revision has it".to_owned(),
            (_, 0) => "only the base has it".to_owned(),
            (base, new) => {
                format!("of {rounds} rounds, {base} of the base and {new} of the new have it")
            }
        });
    }
    let units: Vec<&str> = base
        .iter()
        .chain(new)
        .map(|figure| figure.unit.as_str())
        .unique()
        .collect();
    if units.len() > 1 {
        return Some(format!("its unit changed: {}", units.join(", ")));
    }
    None
}

fn row(measurement: &str, base: &[&Figure], new: &[&Figure]) -> anyhow::Result<Vec<String>> {
    let of_base = Figure::over_runs(base);
    let of_new = Figure::over_runs(new);
    let rounds = base.iter().zip(new);
    let ratios: Vec<f64> = rounds
        .map(|(base, new)| ratio(base.value, new.value))
        .collect();
    let ratio = if ratios.iter().all(|ratio| ratio.is_finite()) {
        interval(Spread::of(&ratios))
    } else {
        NOT_MEASURED.to_owned()
    };
    let better = of_new
        .better()
        .with_context(|| format!("{measurement}: {}", of_new.name))?;
    let better = match better {
        Some(better) => better.to_string(),
        None => NOT_MEASURED.to_owned(),
    };
    Ok(vec![
        format!("{measurement}: {}", of_new.name),
        of_new.unit,
        text(of_base.value),
        text(of_new.value),
        ratio,
        better,
    ])
}

/// Not finite if only the base is 0.
fn ratio(base: f64, new: f64) -> f64 {
    if base == new { 1.0 } else { new / base }
}

/// Of so many equal figures, one has the ratios of all rounds on one side of 1.
fn figures_for_one_by_chance(rounds: usize) -> f64 {
    // Each round after the first agrees with it in one of two cases.
    (1..rounds).map(|_| 2.0).product()
}

fn commits(rounds: &[Results]) -> String {
    let commits: BTreeSet<&str> = rounds
        .iter()
        .flat_map(|results| results.measurements.values())
        .filter_map(Section::commit)
        .collect();
    commits.into_iter().join(", ")
}

/// The lowest and the highest load of the machine when a measurement began.
fn loads<'report>(rounds: impl Iterator<Item = &'report Results>) -> String {
    let loads: Vec<f64> = rounds
        .flat_map(|results| results.measurements.values())
        .filter_map(Section::load)
        .collect();
    let spread = Spread::of(&loads);
    format!("{} to {}", text(spread.lowest), text(spread.highest))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// A round's report of `fan-out`: the name, the value, the unit and the note of each figure.
    fn round(commit: &str, figures: &[(&str, f64, &str, &str)]) -> Results {
        let figures = figures
            .iter()
            .map(|(name, value, unit, note)| {
                Figure::new((*name).to_owned(), (*value).into(), unit, note)
            })
            .collect();
        let section = Section {
            run: format!("2026-11-29T02:00:00.000Z, load 0.5, commit {commit}, `bench`"),
            figures,
            ..Section::default()
        };
        Results {
            machine: "one machine".to_owned(),
            measurements: [("fan-out".to_owned(), section)].into(),
        }
    }

    fn check(base: &[Results], new: &[Results], expected: Expect) {
        let printed = match comparison(base, new) {
            Ok(printed) => printed,
            Err(error) => format!("{error:#}\n"),
        };
        expected.assert_eq(&printed);
    }

    fn full_round(commit: &str, handler: f64, vs_bare: f64, p50_us: f64) -> Results {
        round(
            commit,
            &[
                ("handler", handler, "comments/s", ""),
                (
                    "handler_vs_bare",
                    vs_bare,
                    "",
                    "ratio of rates, at least 0.9",
                ),
                ("p50", p50_us, "us", ""),
                ("calls to DynamoDB", 1.0, "", ""),
                ("discarded", 0.0, "items", ""),
            ],
        )
    }

    #[test]
    fn a_figure_is_compared_within_its_round_and_says_which_direction_is_better() {
        // The machine is half as fast in the second round, for both.
        let base = [
            full_round("b", 1_000.0, 0.9, 100.0),
            full_round("b", 500.0, 0.8, 200.0),
        ];
        let new = [
            full_round("n", 1_100.0, 0.9, 120.0),
            full_round("n", 550.0, 0.9, 180.0),
        ];
        check(
            &base,
            &new,
            expect![[r#"
                | figure                     |       unit |  base |   new |           new / base | better is |
                | --- | ---: | ---: | ---: | ---: | ---: |
                | fan-out: handler           | comments/s |   750 |   825 |                 1.10 |    higher |
                | fan-out: handler_vs_bare   |            | 0.850 | 0.900 |     1.06 (1 to 1.12) |    higher |
                | fan-out: p50               |         us |   150 |   150 | 1.05 (0.900 to 1.20) |     lower |
                | fan-out: calls to DynamoDB |            |     1 |     1 |                    1 |         - |
                | fan-out: discarded         |      items |     0 |     0 |                    1 |     lower |

                Base is b, new is n. Rounds: 2, in turns. The machine's load was 0.500 to 0.500 before a run.
                Base and new are medians. new / base is the median of the rounds' ratios (lowest to highest).
                If 1 lies between the lowest and the highest, the rounds show no difference. If not, that may be chance:
                of 2 equal figures, one has all its ratios on one side of 1.
            "#]],
        );
    }

    #[test]
    fn a_figure_that_one_side_lacks_is_named_and_the_others_are_compared() {
        let handler = ("handler", 1.0, "comments/s", "");
        let old = ("old", 1.0, "us", "");
        let young = ("young", 1.0, "us", "");
        let seldom = ("seldom", 1.0, "us", "");
        let base = [
            round("b", &[handler, old, seldom]),
            round("b", &[handler, old, seldom]),
        ];
        let new = [
            round("n", &[handler, young, seldom]),
            round("n", &[handler, young]),
        ];
        check(
            &base,
            &new,
            expect![[r#"
                | figure           |       unit | base | new | new / base | better is |
                | --- | ---: | ---: | ---: | ---: | ---: |
                | fan-out: handler | comments/s |    1 |   1 |          1 |    higher |

                Base is b, new is n. Rounds: 2, in turns. The machine's load was 0.500 to 0.500 before a run.
                Base and new are medians. new / base is the median of the rounds' ratios (lowest to highest).
                If 1 lies between the lowest and the highest, the rounds show no difference. If not, that may be chance:
                of 2 equal figures, one has all its ratios on one side of 1.

                Not compared:
                - fan-out: young: only the new revision has it
                - fan-out: seldom: of 2 rounds, 2 of the base and 1 of the new have it
                - fan-out: old: only the base has it
            "#]],
        );
        let in_ms = [round("n", &[("handler", 1.0, "comments/ms", "")])];
        check(
            &base[..1],
            &in_ms,
            expect![[r#"
            there is no figure that both revisions have in every round:
            fan-out: handler: its unit changed: comments/s, comments/ms
            fan-out: old: only the base has it
            fan-out: seldom: only the base has it
        "#]],
        );
    }

    #[test]
    fn rounds_that_failed_or_are_missing_are_refused() {
        let good = round("a", &[("handler", 1.0, "comments/s", "")]);
        let mut failed = good.clone();
        for section in failed.measurements.values_mut() {
            section.failure = Some("no free port".to_owned());
        }
        check(
            &[good.clone(), good.clone()],
            &[good.clone(), failed],
            expect![[r#"
            fan-out of the new revision failed in round 2: no free port
        "#]],
        );
        check(
            &[good.clone(), good.clone()],
            std::slice::from_ref(&good),
            expect![[r#"
            the base has 2 rounds, and the new revision 1: run both again
        "#]],
        );
    }
}
