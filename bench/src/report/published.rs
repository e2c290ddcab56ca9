//! Published figures: the medians of the runs that `bench/results` keeps. Blocks of the documents hold them, between
//! `<!-- bench NAME -->` and `<!-- end -->`. `bench report --publish` writes the blocks and the plots, and a test compares them.

use std::fs;

use anyhow::{Context, bail};
use itertools::Itertools;

use super::{
    FOUR_INDEXES, FOUR_INDEXES_BATCH, FOUR_INDEXES_COUNTERS, FOUR_INDEXES_PAGE_INDEX, Figure, PAGEMARK, Plot, Results,
    Series, text,
};
use crate::{
    measure::{Spread, percentile},
    money,
};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const RESULTS: &str = "bench/results";
const DOCUMENTS: [&str; 2] = ["docs/benchmarks.md", "docs/benchmarks-notes.md"];
const PLOTS: &str = "docs/benchmarks";
const BEGINS: &str = "<!-- bench ";
const ENDS: &str = "<!-- end -->";
const COMPRESSION: i32 = 19;

pub(crate) type Row = Vec<String>;

pub(super) struct Published {
    runs: Vec<Results>,
}

impl Published {
    pub(super) fn new(runs: Vec<Results>) -> Self {
        Self { runs }
    }

    /// Keeps the runs under a date, and writes their figures into the documents and the plots.
    pub(super) fn publish(&self, date: &str) -> anyhow::Result<()> {
        let packed = zstd::encode_all(serde_json::to_vec(&self.runs)?.as_slice(), COMPRESSION)?;
        fs::write(format!("{ROOT}/{RESULTS}/{date}.json.zst"), packed)?;
        for (file, text) in self.files()? {
            fs::write(&file, text).with_context(|| file.clone())?;
        }
        Ok(())
    }

    /// The documents and the plots, as they should be.
    pub(super) fn files(&self) -> anyhow::Result<Vec<(String, String)>> {
        let mut files = Vec::new();
        for file in DOCUMENTS.map(|document| format!("{ROOT}/{document}")) {
            let filled = self.filled(&fs::read_to_string(&file)?).with_context(|| file.clone())?;
            files.push((file, filled));
        }
        for plot in self.runs.first().into_iter().flat_map(|run| run.measurements.values()).flat_map(|of| &of.plots) {
            let file = format!("{ROOT}/{PLOTS}/{}.svg", plot.name);
            if fs::exists(&file)? {
                files.push((file, self.median(plot).svg()?));
            }
        }
        Ok(files)
    }

    fn median(&self, first: &Plot) -> Plot {
        let plots = || self.runs.iter().flat_map(|run| run.measurements.values()).flat_map(|of| &of.plots);
        let lines = || plots().filter(|plot| plot.name == first.name).flat_map(|plot| &plot.series);
        let point = |name: &str, x: f64| {
            let points = lines().filter(|line| line.name == name).flat_map(|line| &line.points);
            let values: Vec<f64> = points.filter(|point| point.0.total_cmp(&x).is_eq()).map(|point| point.1).collect();
            (x, percentile(&values, 0.5))
        };
        let median = |Series { name, points }: &Series| Series {
            name: name.clone(),
            points: points.iter().map(|(x, _)| point(name, *x)).collect(),
        };
        Plot { series: first.series.iter().map(median).collect(), ..first.clone() }
    }

    fn filled(&self, document: &str) -> anyhow::Result<String> {
        let mut parts = document.split(BEGINS);
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once(" -->").context("a block has a name")?;
            let (_, after) = rest.split_once(ENDS).with_context(|| format!("the block {name} has no end"))?;
            let table = markdown_table(&self.block(name).with_context(|| format!("the block {name}"))?);
            filled.push_str(&format!("{BEGINS}{name} -->\n{table}{ENDS}{after}"));
        }
        Ok(filled)
    }

    fn block(&self, name: &str) -> anyhow::Result<(Row, Vec<Row>)> {
        match name {
            "bills" => money::published(),
            "limits" => self.limits(),
            "depth" => {
                let at = |page: &str, design: &str| format!("all comments, page {page}: {design}, p50");
                let others = ["PostgreSQL", "SQLite"].into_iter().cartesian_product(["OFFSET", "counted blocks"]);
                let others = others.map(|(database, way)| ("20,000", format!("{database} {way}")));
                let of_four = [("20,000", FOUR_INDEXES_PAGE_INDEX), ("5,000", "four indexes, walk by cursor")];
                let others = of_four.map(|(page, design)| (page, design.to_owned())).into_iter().chain(others);
                let row = |(page, other): (&str, String)| {
                    (format!("page {page}: {other}"), vec![at(page, PAGEMARK), at(page, &other)])
                };
                self.compared("depth", ["p50", PAGEMARK, "the other", "ratio"], others.map(row))
            }
            "ratings" => {
                let filters = [("any", "any"), ("one", "5"), ("two", "1.5"), ("three", "1.4.5"), ("four", "1.2.4.5")];
                let row = |((words, ratings), delays): ((&str, &str), &str)| {
                    let designs = [PAGEMARK, FOUR_INDEXES, FOUR_INDEXES_PAGE_INDEX, FOUR_INDEXES_BATCH];
                    let at = |design| format!("middle page, rating {ratings}, {delays} delays, p50: {design}");
                    (format!("{words}, {delays}"), designs.map(at).to_vec())
                };
                let designs = [PAGEMARK, FOUR_INDEXES, "with the page index", "and BatchGetItem"];
                let head = ["ratings, delays"].into_iter().chain(designs).chain(["ratio", "ratio", "ratio"]);
                self.compared("compare", head, filters.into_iter().cartesian_product(["varying", "equal"]).map(row))
            }
            "bytes" => {
                let designs = [PAGEMARK, FOUR_INDEXES, FOUR_INDEXES_COUNTERS];
                let row = |(label, figure): (&str, &str)| {
                    (label.to_owned(), designs.map(|design| format!("{figure}: {design}")).to_vec())
                };
                let rows = [("a new comment", "insert, written"), ("a changed rating", "rating change, written")];
                let head = ["write units"].into_iter().chain(designs).chain(["ratio", "ratio"]);
                self.compared("compare", head, rows.into_iter().map(row))
            }
            "lag" => {
                let wrong = "half the maximum: wrong pages of a thousand: ";
                let unchecked = "by ranks and duplicates, without a check";
                let rows = [
                    ("visible under every filter, idle", "idle: both, p50".to_owned()),
                    ("at half the maximum rate", "half the maximum: both, p50".to_owned()),
                    ("the slowest of a hundred then", "half the maximum: both, most".to_owned()),
                    ("wrong pages of a thousand then", format!("{wrong}{PAGEMARK}")),
                    ("the same without its check", format!("{wrong}{unchecked}")),
                ];
                let rows = rows.into_iter().map(|(label, figure)| (label.to_owned(), vec![figure]));
                self.compared("lag", ["after the 201", PAGEMARK], rows)
            }
            "site" => {
                let totals = [("comments alone", FOUR_INDEXES), ("with totals", FOUR_INDEXES_COUNTERS)];
                let row = |(ratings, (totals, other)): (&str, (&str, &str))| {
                    let page = format!("{ratings}, {totals}");
                    (page.clone(), [PAGEMARK, other].map(|design| format!("{page}: {design}")).to_vec())
                };
                let pages = ["any rating", "three ratings"].into_iter().cartesian_product(totals);
                self.compared("site", ["requests a second", PAGEMARK, FOUR_INDEXES, "ratio"], pages.map(row))
            }
            name => bail!("there is no block {name}"),
        }
    }

    /// Rows of a label and the names of figures: the figures, then the first one as a multiple of each other.
    fn compared<'cell>(
        &self,
        measurement: &str,
        head: impl IntoIterator<Item = &'cell str>,
        rows: impl IntoIterator<Item = (String, Vec<String>)>,
    ) -> anyhow::Result<(Row, Vec<Row>)> {
        let row = |(label, names): (String, Vec<String>)| {
            let mut cells = vec![label];
            let figures =
                names.iter().map(|name| self.figures(measurement, name)).collect::<anyhow::Result<Vec<_>>>()?;
            for figures in &figures {
                cells.push(Figure::over_runs(figures).value_and_unit());
            }
            if let [ours, others @ ..] = figures.as_slice() {
                let ratio = |others: &Vec<&Figure>| {
                    let of_runs = ours.iter().zip(others).map(|(ours, other)| ours.value / other.value);
                    interval(Spread::of(&of_runs.collect::<Vec<_>>()))
                };
                cells.extend(others.iter().map(ratio));
            }
            Ok(cells)
        };
        let rows = rows.into_iter().map(row).collect::<anyhow::Result<_>>()?;
        Ok((head.into_iter().map(str::to_owned).collect(), rows))
    }

    /// Every figure whose note has a limit.
    fn limits(&self) -> anyhow::Result<(Row, Vec<Row>)> {
        let mut rows = Vec::new();
        for (measurement, section) in self.runs.first().iter().flat_map(|run| &run.measurements) {
            for Figure { name, note, .. } in &section.figures {
                let (is_least, limit) = match (note.split_once("at least "), note.split_once("at most ")) {
                    (Some((_, limit)), _) => (true, limit),
                    (None, Some((_, limit))) => (false, limit),
                    (None, None) => continue,
                };
                let limit: f64 = limit.split([' ', ';']).next().unwrap_or_default().parse()?;
                let values: Vec<f64> = self.figures(measurement, name)?.iter().map(|figure| figure.value).collect();
                let spread = Spread::of(&values);
                let is_missed = if is_least { spread.median < limit } else { spread.median > limit };
                let (side, verdict) =
                    (if is_least { "at least" } else { "at most" }, if is_missed { ", missed" } else { "" });
                let limit = format!("{side} {}{verdict}", text(limit));
                rows.push(vec![format!("{measurement}: {name}"), interval(spread), limit]);
            }
        }
        Ok((["figure", "value", "limit"].map(str::to_owned).into(), rows))
    }

    /// A figure in each run.
    fn figures(&self, measurement: &str, name: &str) -> anyhow::Result<Vec<&Figure>> {
        let of_run = |run| figure_of(run, measurement, name).with_context(|| format!("{measurement} has no {name:?}"));
        self.runs.iter().map(of_run).collect()
    }
}

fn figure_of<'run>(run: &'run Results, measurement: &str, name: &str) -> Option<&'run Figure> {
    run.measurements.get(measurement)?.figures.iter().find(|figure| figure.name == name)
}

fn interval(Spread { median, lowest, highest }: Spread) -> String {
    let [median, lowest, highest] = [median, lowest, highest].map(text);
    if lowest == highest { median } else { format!("{median} ({lowest} to {highest})") }
}

pub(crate) fn markdown_table((head, rows): &(Row, Vec<Row>)) -> String {
    let rule = vec!["---".to_owned(); head.len()];
    let line = |cells: &Row| format!("| {} |\n", cells.join(" | "));
    [head, &rule].into_iter().chain(rows).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Published {
        let files = fs::read_dir(format!("{ROOT}/{RESULTS}")).unwrap().map(|file| file.unwrap().path());
        let newest = fs::File::open(files.max().unwrap()).unwrap();
        Published::new(serde_json::from_slice(&zstd::decode_all(newest).unwrap()).unwrap())
    }

    #[test]
    fn documents_and_plots_have_the_figures_of_the_kept_runs() {
        for (file, text) in kept().files().unwrap() {
            assert!(fs::read_to_string(&file).unwrap() == text, "{file}: run `make bench-publish`");
        }
    }

    /// The summary is written by people. So each figure in it must be in a block below it.
    #[test]
    fn the_summary_names_only_figures_of_the_blocks() {
        let page = fs::read_to_string(format!("{ROOT}/{}", DOCUMENTS[0])).unwrap();
        let (summary, below) = page.split_once("\n## ").unwrap();
        let (_, summary) = summary.split_once("| --- |").unwrap();
        let blocks = below.split(BEGINS).skip(1).map(|part| part.split_once(ENDS).unwrap().0).collect::<String>();
        let words: Vec<&str> = summary.split([' ', '\n', ';', '?']).collect();
        let figures = words.iter().tuple_windows().filter_map(|(number, unit)| {
            let unit = unit.trim_end_matches(['.', ',']);
            let is_duration =
                ["us", "ms", "s"].contains(&unit) && number.starts_with(|char: char| char.is_ascii_digit());
            let is_money = number.starts_with('$');
            let number = number.trim_end_matches(['.', ',']);
            is_duration.then(|| format!("{number} {unit}")).or(is_money.then(|| number.to_owned()))
        });
        let figures: Vec<String> = figures.collect();
        assert!(figures.len() > 5, "{figures:?}");
        figures.iter().for_each(|figure| assert!(blocks.contains(figure.as_str()), "{figure} is in no block"));
    }
}
