//! The results: tables, plots, figures, and the cases in which others are faster.

use anyhow::Context;

use super::{
    curve::{Crossing, Curve, crossing, depths},
    race::{Lane, Walk},
};
use crate::{
    report::{Axis, Cell, Figure, Plot, Report, Series, Table},
    statistics::as_f64,
};

/// The results for a listing.
pub(super) struct Measured {
    pub(super) name: &'static str,
    /// Which comments the listing has.
    pub(super) of: &'static str,
    pub(super) pages: u64,
    /// Pagemark's lane is the first.
    pub(super) lanes: Vec<Lane>,
    pub(super) walks: Vec<Walk>,
    pub(super) counts_s: [(&'static str, f64); 2],
}

impl Measured {
    pub(super) fn figures(&self, figures: &mut Vec<Figure<String>>) {
        for (who, count_s) in self.counts_s {
            figures.push((format!("{}: count by {who}", self.of), count_s * 1e3, "ms"));
        }
        for Walk { name, pages, pages_per_s, .. } in &self.walks {
            let what = format!("{}: {name}", self.of);
            figures.push((format!("{what}: pages walked of {}", self.pages), as_f64(*pages), ""));
            figures.push((format!("{what}: rate"), *pages_per_s, "pages/s"));
            if *pages < self.pages {
                let rest_s = as_f64(self.pages - pages) / pages_per_s;
                figures.push((format!("{what}: the rest, if the rate lasted"), rest_s, "s"));
            }
        }
    }

    /// All curves, Pagemark's first.
    fn curves(&self) -> Vec<(&'static str, Curve)> {
        let lanes = self.lanes.iter().map(|lane| (lane.name, lane.curve()));
        lanes.chain(self.walks.iter().map(|walk| (walk.name, walk.curve.clone()))).collect()
    }

    /// Adds tables and a plot to the report.
    pub(super) fn tell(&self, report: &mut Report) -> anyhow::Result<()> {
        let requests = self.lanes.iter().flat_map(|lane| &lane.latencies).map(|(_, latencies)| latencies.count());
        let (fewest, most) = (requests.clone().min().unwrap_or(0), requests.max().unwrap_or(0));
        let curves = self.curves();
        let pages = depths(self.pages);
        let row = |page: &u64, cell: &dyn Fn(usize) -> Cell, cells: usize| -> Vec<Cell> {
            std::iter::once(as_f64(*page).into()).chain((0..cells).map(cell)).collect()
        };
        let columns = |names: &mut dyn Iterator<Item = &'static str>| -> Vec<String> {
            std::iter::once("page".to_owned()).chain(names.map(|name| format!("{name}, us"))).collect()
        };
        let p50 = |page: &u64| {
            let cell = |of: usize| {
                let found = curves.get(of).and_then(|(_, curve)| curve.iter().find(|(at, _)| at == page));
                found.map_or(Cell::None, |(_, latency_us)| Cell::Figure(*latency_us))
            };
            row(page, &cell, curves.len())
        };
        report.table(Table {
            name: self.name.to_owned(),
            about: format!(
                "time to a page of {}, median of {fewest} to {most} requests; walks: all requests up to that page, once",
                self.of
            ),
            columns: columns(&mut curves.iter().map(|(name, _)| *name)),
            rows: pages.iter().map(p50).collect(),
        })?;
        let p99 = |page: &u64| {
            let cell = |of: usize| {
                let lane = self.lanes.get(of);
                let found = lane.and_then(|lane| lane.latencies.iter().find(|(at, _)| at == page));
                found.map_or(Cell::None, |(_, latencies)| Cell::Figure(latencies.p99_us()))
            };
            row(page, &cell, self.lanes.len())
        };
        report.table(Table {
            name: format!("{}, p99", self.name),
            about: format!(
                "time to a page of {}, 99th percentile; of fewer than 100 requests, the slowest ({fewest} to {most})",
                self.of
            ),
            columns: columns(&mut self.lanes.iter().map(|lane| lane.name)),
            rows: pages.iter().map(p99).collect(),
        })?;
        report.plot(Plot {
            name: self.name.to_owned(),
            title: format!("Time to page N of {}", self.of),
            x: Axis { label: "page number".to_owned(), is_log: true },
            y: Axis { label: "latency p50, us".to_owned(), is_log: true },
            series: curves
                .into_iter()
                .map(|(name, curve)| Series {
                    name: name.to_owned(),
                    points: curve.into_iter().map(|(page, latency_us)| (as_f64(page), latency_us)).collect(),
                })
                .collect(),
        })
    }
}

/// A sentence about where others show a page sooner; `None` if nowhere.
pub(super) fn losses(measured: &[&Measured]) -> anyhow::Result<Option<String>> {
    let mut parts = Vec::new();
    for result in measured {
        let curves = result.curves();
        let ((_, ours), others) = curves.split_first().context("Pagemark was measured")?;
        let first_us = |curve: &Curve| curve.first().map_or(0.0, |(_, latency_us)| *latency_us);
        let mut of_others = Vec::new();
        for (name, theirs) in others {
            let until = match crossing(ours, theirs)? {
                Crossing::From(1) => continue,
                Crossing::From(page) => format!("before page {page}"),
                Crossing::Never => "on the last page, too".to_owned(),
            };
            of_others.push(format!("{name} ({:.0} us) {until}", first_us(theirs)));
        }
        if !of_others.is_empty() {
            let (of, pages, others) = (result.of, result.pages, of_others.join(", "));
            let ours = first_us(ours);
            parts.push(format!("page 1 of {of} ({pages} pages) takes {ours:.0} us here; quicker are {others}"));
        }
    }
    Ok((!parts.is_empty()).then(|| format!("Any page by its number: {}.", parts.join("; "))))
}
