//! Published figures: the medians of the runs that `bench/results` keeps. Blocks of the documents
//! are tables of them, between `<!-- bench ... -->` and `<!-- end -->`. `bench publish` writes the
//! blocks and the plots, and a test compares them.

use std::{collections::BTreeSet, fs, path::PathBuf};

use anyhow::{Context, ensure};
use itertools::Itertools;

use crate::{
    measure::Spread,
    money,
    report::{Figure, Plot, QUICK, Results, Row, Series, markdown_table, read, text},
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const RESULTS: &str = "bench/results";
const DOCUMENTS: [&str; 2] = ["docs/benchmarks.md", "docs/benchmarks-notes.md"];
const PLOTS: &str = "docs/benchmarks";
/// At the beginning of a line.
const BEGINS: &str = "\n<!-- bench ";
const ENDS: &str = "<!-- end -->";
const COMPRESSION: i32 = 19;

/// Keeps the reports of several runs, and writes their figures into the documents and the plots.
pub(crate) fn publish(files: &[PathBuf]) -> anyhow::Result<()> {
    let runs = files
        .iter()
        .map(|file| read(file))
        .collect::<anyhow::Result<_>>()?;
    let now = process::now().to_string();
    Published::new(runs).publish(now.split('T').next().unwrap_or_default())
}

struct Published {
    runs: Vec<Results>,
}

impl Published {
    fn new(runs: Vec<Results>) -> Self {
        Self { runs }
    }

    /// Keeps the runs under a date, and writes their figures into the documents and the plots.
    fn publish(&self, date: &str) -> anyhow::Result<()> {
        for (name, section) in self.runs.iter().flat_map(|run| &run.measurements) {
            let is_whole = section.failure.is_none() && !section.run.contains(QUICK);
            ensure!(is_whole, "{name} has failed, or was quick: {}", section.run);
        }
        let files = self.files()?;
        let packed = zstd::encode_all(serde_json::to_vec(&self.runs)?.as_slice(), COMPRESSION)?;
        fs::write(format!("{ROOT}/{RESULTS}/{date}.json.zst"), packed)?;
        files
            .into_iter()
            .try_for_each(|(file, text)| fs::write(&file, text).context(file))
    }

    /// The documents and the plots, as they should be.
    fn files(&self) -> anyhow::Result<Vec<(String, String)>> {
        let mut files = Vec::new();
        for file in DOCUMENTS.map(|document| format!("{ROOT}/{document}")) {
            let filled = self
                .filled(&fs::read_to_string(&file)?)
                .with_context(|| file.clone())?;
            files.push((file, filled));
        }
        let first = self.runs.first().context("there is no run")?;
        for plot in first.measurements.values().flat_map(|of| &of.plots) {
            // The prices may be newer than the runs.
            let plot = if plot.name == money::PLOT {
                &money::published_plot()?
            } else {
                &self.median(plot)
            };
            let file = format!("{ROOT}/{PLOTS}/{}.svg", plot.name);
            if fs::exists(&file)? {
                files.push((file, plot.svg()?));
            }
        }
        Ok(files)
    }

    fn median(&self, first: &Plot) -> Plot {
        let plots = || {
            self.runs
                .iter()
                .flat_map(|run| run.measurements.values())
                .flat_map(|of| &of.plots)
        };
        let lines = || {
            plots()
                .filter(|plot| plot.name == first.name)
                .flat_map(|plot| &plot.series)
        };
        let point = |name: &str, x: f64| {
            let points = lines()
                .filter(|line| line.name == name)
                .flat_map(|line| &line.points);
            let values: Vec<f64> = points
                .filter(|point| point.0.total_cmp(&x).is_eq())
                .map(|point| point.1)
                .collect();
            (x, Spread::of(&values).median)
        };
        let median = |Series { name, points }: &Series| Series {
            name: name.clone(),
            points: points.iter().map(|(x, _)| point(name, *x)).collect(),
        };
        Plot {
            series: first.series.iter().map(median).collect(),
            ..first.clone()
        }
    }

    fn filled(&self, document: &str) -> anyhow::Result<String> {
        let mut parts = document.split(BEGINS);
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (block, rest) = part.split_once(" -->\n").context("a block has a name")?;
            let (table, after) = rest
                .split_once(ENDS)
                .with_context(|| format!("{block} has no end"))?;
            let table = match block {
                "bills" => money::published(),
                "limits" => self.limits(),
                "runs" => self.runs(),
                block => self.table(block, table),
            };
            let table = markdown_table(&table.with_context(|| format!("the block {block}"))?);
            filled.push_str(&format!("{BEGINS}{block} -->\n{table}{ENDS}{after}"));
        }
        Ok(filled)
    }

    /// Fills the cells of a table. Its head and the first cell of each row are written by people.
    /// The block is the name of a measurement and that of its figures, with `{row}` and `{column}`.
    /// A column "A / B" has the ratios of two others.
    fn table(&self, block: &str, table: &str) -> anyhow::Result<(Row, Vec<Row>)> {
        let (measurement, name) = block.split_once(": ").context("a measurement")?;
        let cells = |line: &str| {
            line.trim_matches('|')
                .split('|')
                .map(|cell| cell.trim().to_owned())
                .collect::<Row>()
        };
        let mut lines = table.lines().map(cells);
        let head = lines.next().context("a head")?;
        let fill = |row: Row| {
            let label = row.into_iter().next().unwrap_or_default();
            let figures = |column: &str| {
                self.figures(
                    measurement,
                    &name.replace("{row}", &label).replace("{column}", column),
                )
            };
            let cell = |column: &String| match column.split_once(" / ") {
                Some((ours, other)) => {
                    let (ours, other) = (figures(ours), figures(other));
                    // They are of the same runs.
                    ensure!(
                        other.is_empty() || ours.len() == other.len(),
                        "a run lacks a figure of {column}"
                    );
                    let ratios: Vec<f64> = ours
                        .iter()
                        .zip(other)
                        .map(|(ours, other)| ours.value / other.value)
                        .collect();
                    Ok(interval(if ratios.is_empty() {
                        f64::NAN.into()
                    } else {
                        Spread::of(&ratios)
                    }))
                }
                None => Ok(Figure::over_runs(&figures(column)).value_and_unit()),
            };
            [Ok(label.clone())]
                .into_iter()
                .chain(head.iter().skip(1).map(cell))
                .collect::<anyhow::Result<Row>>()
        };
        let rows: Vec<Row> = lines.skip(1).map(fill).collect::<anyhow::Result<_>>()?;
        let is_none = |cell: Option<&String>| cell.is_some_and(|cell| cell == "-");
        let empty = (1..head.len()).find(|column| rows.iter().all(|row| is_none(row.get(*column))));
        ensure!(empty.is_none(), "a column has no figure: {empty:?}");
        let empty = rows
            .iter()
            .find(|row| (1..head.len()).all(|column| is_none(row.get(column))));
        ensure!(empty.is_none(), "a row has no figure: {empty:?}");
        Ok((head, rows))
    }

    /// Every figure whose note has a limit.
    fn limits(&self) -> anyhow::Result<(Row, Vec<Row>)> {
        let mut rows = Vec::new();
        for (measurement, section) in self.runs.first().iter().flat_map(|run| &run.measurements) {
            for Figure { name, note, .. } in &section.figures {
                let sides = ["at least ", "at most "];
                let of = sides
                    .into_iter()
                    .find_map(|side| Some((side, note.split_once(side)?.1)));
                let Some((side, limit)) = of else { continue };
                let limit: f64 = limit.split([' ', ';']).next().unwrap_or_default().parse()?;
                let values: Vec<f64> = self
                    .figures(measurement, name)
                    .iter()
                    .map(|figure| figure.value)
                    .collect();
                let spread = Spread::of(&values);
                let is_met = if side == sides[0] {
                    spread.median >= limit
                } else {
                    spread.median <= limit
                };
                let limit = format!(
                    "{side}{}{}",
                    text(limit),
                    if is_met { "" } else { ", missed" }
                );
                rows.push(vec![
                    format!("{measurement}: {name}"),
                    interval(spread),
                    limit,
                ]);
            }
        }
        Ok((["figure", "value", "limit"].map(str::to_owned).into(), rows))
    }

    /// The commits of each measurement, and how long a run of it takes.
    fn runs(&self) -> anyhow::Result<(Row, Vec<Row>)> {
        let (mut rows, mut together_s) = (Vec::new(), 0.0);
        for name in self
            .runs
            .first()
            .context("there is no run")?
            .measurements
            .keys()
        {
            let sections = || {
                self.runs
                    .iter()
                    .filter_map(|run| run.measurements.get(name))
            };
            let commits =
                sections().filter_map(|of| of.run.split_once("commit ")?.1.split(',').next());
            let took_s = Spread::of(&sections().map(|of| of.took_s).collect::<Vec<_>>()).median;
            let commits: BTreeSet<_> = commits.map(|commit| format!("`{commit}`")).collect();
            rows.push(vec![
                name.clone(),
                commits.into_iter().join(", "),
                format!("{took_s:.0} s"),
            ]);
            together_s += took_s;
        }
        rows.push(vec![
            "together".into(),
            String::new(),
            format!("{:.1} minutes", together_s / 60.0),
        ]);
        Ok((
            ["measurement", "commits", "one run takes"]
                .map(str::to_owned)
                .into(),
            rows,
        ))
    }

    /// A figure in each run that has it.
    fn figures(&self, measurement: &str, name: &str) -> Vec<&Figure> {
        let sections = self
            .runs
            .iter()
            .filter_map(|run| run.measurements.get(measurement));
        sections
            .flat_map(|section| &section.figures)
            .filter(|figure| figure.name == name)
            .collect()
    }
}

fn interval(
    Spread {
        median,
        lowest,
        highest,
    }: Spread,
) -> String {
    let [median, lowest, highest] = [median, lowest, highest].map(text);
    if lowest == highest {
        median
    } else {
        format!("{median} ({lowest} to {highest})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Published {
        let files = fs::read_dir(format!("{ROOT}/{RESULTS}"))
            .unwrap()
            .map(|file| file.unwrap().path());
        let newest = fs::File::open(files.max().unwrap()).unwrap();
        Published::new(serde_json::from_slice(&zstd::decode_all(newest).unwrap()).unwrap())
    }

    #[test]
    fn documents_and_plots_have_the_figures_of_the_kept_runs() {
        for (file, text) in kept().files().unwrap() {
            assert!(
                fs::read_to_string(&file).unwrap() == text,
                "{file}: run `make bench-publish`"
            );
        }
    }

    /// Dollars, durations, and numbers of a thousand or more.
    fn figures_in(text: &str) -> BTreeSet<String> {
        let words = text
            .split([' ', '\n', '|', '(', ')', ';', '?'])
            .map(|word| word.trim_end_matches(['.', ',']));
        let is_number = |word: &str| word.starts_with(|char: char| char.is_ascii_digit());
        let figures = words
            .filter(|word| !word.is_empty())
            .tuple_windows()
            .filter_map(|(word, unit)| {
                let is_duration = is_number(word) && ["us", "ms", "s"].contains(&unit);
                let is_alone = word.starts_with('$') || is_number(word) && word.contains(',');
                is_duration
                    .then(|| format!("{word} {unit}"))
                    .or(is_alone.then(|| word.to_owned()))
            });
        figures.collect()
    }

    #[test]
    fn the_summary_that_people_write_has_the_figures_of_the_blocks() {
        let page = fs::read_to_string(format!("{ROOT}/{}", DOCUMENTS[0])).unwrap();
        let (summary, below) = page.split_once("\n## ").unwrap();
        let (_, summary) = summary.split_once("| --- |").unwrap();
        let blocks = below
            .split(BEGINS)
            .skip(1)
            .map(|part| part.split_once(ENDS).unwrap().0)
            .collect::<String>();
        let (named, shown) = (figures_in(summary), figures_in(&blocks));
        assert!(
            named.len() > 8 && named.is_subset(&shown),
            "{:?}",
            named.difference(&shown)
        );
    }
}
