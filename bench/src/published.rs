//! Published figures: the medians of the runs that `bench/results` keeps. Blocks of the documents
//! are tables of them, between `<!-- bench ... -->` and `<!-- end -->`. `bench publish` writes the
//! blocks and the plots, and a test compares them.

use std::{collections::BTreeSet, fs, path::PathBuf};

use anyhow::{Context, ensure};
use cost::{Prices, needs, sizes};
use itertools::Itertools;

use crate::{
    measure::Spread,
    money,
    report::{
        Cells, Figure, MarkdownTable, NOT_MEASURED, Plot, PlotLine, QUICK, Results, Section,
        interval,
    },
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const RESULTS: &str = "bench/results";
const DOCUMENTS: [&str; 4] = [
    "docs/benchmarks.md",
    "docs/benchmarks-notes.md",
    "docs/choosing.md",
    "docs/deploy.md",
];
const PLOTS: &str = "docs/benchmarks";
/// At the beginning of a line.
const BEGINS: &str = "\n<!-- bench ";
const ENDS: &str = "<!-- end -->";
const COMPRESSION: i32 = 19;

/// Keeps the reports of several runs, and writes their figures into the documents and the plots.
pub(crate) fn publish(files: &[PathBuf]) -> anyhow::Result<()> {
    let mut runs = Vec::new();
    for file in files {
        runs.push(Results::read(file)?);
    }
    let now = process::now().to_string();
    Published { runs }.publish(now.split('T').next().unwrap_or_default())
}

struct Published {
    runs: Vec<Results>,
}

impl Published {
    /// Keeps the runs under a date, and writes their figures into the documents and the plots.
    fn publish(&self, date: &str) -> anyhow::Result<()> {
        for (name, section) in self.runs.iter().flat_map(|run| &run.measurements) {
            let is_whole = section.failure.is_none() && !section.run.contains(QUICK);
            ensure!(is_whole, "{name} has failed, or was quick: {}", section.run);
        }
        let files = self.files()?;
        let packed = zstd::encode_all(serde_json::to_vec(&self.runs)?.as_slice(), COMPRESSION)?;
        fs::write(format!("{ROOT}/{RESULTS}/{date}.json.zst"), packed)?;
        for (file, text) in files {
            fs::write(&file, text).context(file)?;
        }
        Ok(())
    }

    /// The documents and the plots, as they should be.
    fn files(&self) -> anyhow::Result<Vec<(String, String)>> {
        let mut files = Vec::new();
        for document in DOCUMENTS {
            let file = format!("{ROOT}/{document}");
            let filled = self
                .filled(&fs::read_to_string(&file)?)
                .with_context(|| file.clone())?;
            files.push((file, filled));
        }
        let first = self.runs.first().context("there is no run")?;
        for plot in plots_of(first) {
            // The prices may be newer than the runs.
            let plot = if plot.name == money::PLOT {
                &money::published_plot()?
            } else {
                &self.median_plot(plot)
            };
            let file = format!("{ROOT}/{PLOTS}/{}.svg", plot.name);
            if fs::exists(&file)? {
                files.push((file, plot.svg()?));
            }
        }
        Ok(files)
    }

    /// A plot of the first run, with the medians of all runs.
    fn median_plot(&self, first: &Plot) -> Plot {
        let mut series = Vec::new();
        for line in &first.series {
            let mut points = Vec::new();
            for (x, _) in &line.points {
                points.push((*x, self.median_at(&first.name, &line.name, *x)));
            }
            series.push(PlotLine {
                name: line.name.clone(),
                points,
            });
        }
        Plot {
            series,
            ..first.clone()
        }
    }

    fn median_at(&self, plot_name: &str, line_name: &str, x: f64) -> f64 {
        let mut values = Vec::new();
        let plots = self.runs.iter().flat_map(plots_of);
        for plot in plots.filter(|plot| plot.name == plot_name) {
            for line in plot.series.iter().filter(|line| line.name == line_name) {
                let points = line.points.iter();
                let at_x = points.filter(|point| point.0.total_cmp(&x).is_eq());
                values.extend(at_x.map(|point| point.1));
            }
        }
        Spread::of(&values).median
    }

    /// A document with its blocks filled.
    fn filled(&self, document: &str) -> anyhow::Result<String> {
        let mut parts = document.split(BEGINS);
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (title, rest) = part.split_once(" -->\n").context("a block has a name")?;
            let (table, after) = rest
                .split_once(ENDS)
                .with_context(|| format!("{title} has no end"))?;
            let table = BlockContent::parse(title, table)
                .and_then(|block| self.fill(block))
                .with_context(|| format!("the block {title}"))?
                .text();
            filled.push_str(&format!("{BEGINS}{title} -->\n{table}{ENDS}{after}"));
        }
        Ok(filled)
    }

    fn fill(&self, block: BlockContent<'_>) -> anyhow::Result<MarkdownTable> {
        match block {
            BlockContent::Bills => money::published(),
            BlockContent::Sizes => sizes(&Prices::published()?),
            BlockContent::Needs => Ok(needs(&Prices::published()?)),
            BlockContent::Limits => self.limits(),
            BlockContent::Runs => self.commits(),
            BlockContent::Figures(table) => self.fill_figures(table),
        }
    }

    fn fill_figures(&self, table: FigureTable<'_>) -> anyhow::Result<MarkdownTable> {
        let mut rows = Vec::new();
        for label in &table.labels {
            let mut row = vec![label.clone()];
            for column in table.head.iter().skip(1) {
                row.push(self.cell(&table, label, column)?);
            }
            rows.push(row);
        }
        let filled = MarkdownTable {
            head: table.head,
            rows,
        };
        refuse_empty(&filled)?;
        Ok(filled)
    }

    fn cell(&self, table: &FigureTable<'_>, label: &str, column: &str) -> anyhow::Result<String> {
        let Some((ours, other)) = column.split_once(" / ") else {
            let runs = self.figures_of_cell(table, label, column);
            return Ok(Figure::over_runs(&runs).value_and_unit());
        };
        let ours = self.figures_of_cell(table, label, ours);
        let other = self.figures_of_cell(table, label, other);
        if other.is_empty() {
            return Ok(NOT_MEASURED.to_owned());
        }
        // They are of the same runs.
        ensure!(
            ours.len() == other.len(),
            "a run lacks a figure of {column}"
        );
        let runs = ours.iter().zip(other);
        let ratios: Vec<f64> = runs.map(|(ours, other)| ours.value / other.value).collect();
        Ok(interval(Spread::of(&ratios)))
    }

    fn figures_of_cell(&self, table: &FigureTable<'_>, label: &str, column: &str) -> Vec<&Figure> {
        self.figures(table.measurement, &table.figure_name(label, column))
    }

    /// Every figure whose note has a limit.
    fn limits(&self) -> anyhow::Result<MarkdownTable> {
        let mut rows = Vec::new();
        for (measurement, section) in self.runs.first().iter().flat_map(|run| &run.measurements) {
            for figure in &section.figures {
                let Some(limit) = figure.limit()? else {
                    continue;
                };
                let runs = self.figures(measurement, &figure.name);
                let values: Vec<f64> = runs.iter().map(|figure| figure.value).collect();
                let spread = Spread::of(&values);
                let missed = if limit.is_met_by(spread.median) {
                    ""
                } else {
                    ", missed"
                };
                rows.push(vec![
                    format!("{measurement}: {}", figure.name),
                    interval(spread),
                    format!("{limit}{missed}"),
                ]);
            }
        }
        Ok(MarkdownTable::new(["figure", "value", "limit"], rows))
    }

    /// The commits of each measurement, and how long a run of it takes.
    fn commits(&self) -> anyhow::Result<MarkdownTable> {
        let first = self.runs.first().context("there is no run")?;
        let mut rows = Vec::new();
        let mut together_s = 0.0;
        for name in first.measurements.keys() {
            let mut commits = BTreeSet::new();
            let mut runs_took_s = Vec::new();
            for section in self.sections(name) {
                commits.extend(section.commit().map(|commit| format!("`{commit}`")));
                runs_took_s.push(section.took_s);
            }
            let took_s = Spread::of(&runs_took_s).median;
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
        let head = ["measurement", "commits", "one run takes"];
        Ok(MarkdownTable::new(head, rows))
    }

    /// A figure in each run that has it.
    fn figures(&self, measurement: &str, name: &str) -> Vec<&Figure> {
        let figures = self
            .sections(measurement)
            .flat_map(|section| &section.figures);
        figures.filter(|figure| figure.name == name).collect()
    }

    /// A measurement in each run that has it.
    fn sections(&self, measurement: &str) -> impl Iterator<Item = &Section> {
        self.runs
            .iter()
            .filter_map(move |run| run.measurements.get(measurement))
    }
}

fn plots_of(run: &Results) -> impl Iterator<Item = &Plot> {
    run.measurements.values().flat_map(|section| &section.plots)
}

/// What a block shows: the text after `<!-- bench ` names it.
enum BlockContent<'document> {
    Bills,
    Sizes,
    Needs,
    Limits,
    Runs,
    Figures(FigureTable<'document>),
}

impl<'document> BlockContent<'document> {
    fn parse(title: &'document str, table: &str) -> anyhow::Result<Self> {
        Ok(match title {
            "bills" => Self::Bills,
            "sizes" => Self::Sizes,
            "needs" => Self::Needs,
            "limits" => Self::Limits,
            "runs" => Self::Runs,
            _ => Self::Figures(FigureTable::parse(title, table)?),
        })
    }
}

/// A table of one measurement's figures. People write its head and the first cell of each row. A
/// column "A / B" has the ratios of two others.
struct FigureTable<'document> {
    measurement: &'document str,
    /// The name of a cell's figure, with `{row}` and `{column}`.
    name: &'document str,
    head: Cells,
    /// The first cell of each row.
    labels: Vec<String>,
}

impl<'document> FigureTable<'document> {
    fn parse(title: &'document str, table: &str) -> anyhow::Result<Self> {
        let (measurement, name) = title.split_once(": ").context("a measurement")?;
        let mut lines = table.lines();
        let head = cells(lines.next().context("a head")?);
        let mut labels = Vec::new();
        // The line below the head is the rule.
        for line in lines.skip(1) {
            labels.extend(cells(line).into_iter().next());
        }
        Ok(Self {
            measurement,
            name,
            head,
            labels,
        })
    }

    fn figure_name(&self, label: &str, column: &str) -> String {
        self.name
            .replace("{row}", label)
            .replace("{column}", column)
    }
}

fn cells(line: &str) -> Cells {
    let cells = line.trim_matches('|').split('|');
    cells.map(|cell| cell.trim().to_owned()).collect()
}

/// Refuses rows and columns without a figure: their names are misspelt.
fn refuse_empty(table: &MarkdownTable) -> anyhow::Result<()> {
    for row in &table.rows {
        ensure!(
            has_figure(row.iter().skip(1)),
            "no run has a figure of the row {row:?}: is its name right?"
        );
    }
    for (column, name) in table.head.iter().enumerate().skip(1) {
        let cells = table.rows.iter().filter_map(|row| row.get(column));
        ensure!(
            has_figure(cells),
            "no run has a figure of the column {name}: is its name right?"
        );
    }
    Ok(())
}

fn has_figure<'cell>(mut cells: impl Iterator<Item = &'cell String>) -> bool {
    cells.any(|cell| cell != NOT_MEASURED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Published {
        let files = fs::read_dir(format!("{ROOT}/{RESULTS}"))
            .unwrap()
            .map(|file| file.unwrap().path());
        let newest = fs::File::open(files.max().unwrap()).unwrap();
        Published {
            runs: serde_json::from_slice(&zstd::decode_all(newest).unwrap()).unwrap(),
        }
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
            .map(|word| word.trim_end_matches(['.', ',']))
            .filter(|word| !word.is_empty());
        let mut figures = BTreeSet::new();
        for (word, next) in words.tuple_windows() {
            let is_number = word.starts_with(|char: char| char.is_ascii_digit());
            if is_number && ["us", "ms", "s"].contains(&next) {
                figures.insert(format!("{word} {next}"));
            } else if word.starts_with('$') || is_number && word.contains(',') {
                figures.insert(word.to_owned());
            }
        }
        figures
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
        let named = figures_in(summary);
        let shown = figures_in(&blocks);
        assert!(
            named.len() > 8 && named.is_subset(&shown),
            "{:?}",
            named.difference(&shown)
        );
    }
}
