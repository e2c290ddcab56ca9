//! The results: tables, plots, figures.

use itertools::Itertools;

use super::{
    curve::{Curve, depths},
    race::{ContestantLatencies, Walk},
};
use crate::{
    report::{Figure, Plot, Report, Series, Table, row},
    statistics::{Latencies, as_f64},
};

pub(super) struct Measured {
    pub(super) name: &'static str,
    /// Which comments the listing has.
    pub(super) of: &'static str,
    pub(super) pages: u64,
    /// The contestants that jump to a page, Pagemark first.
    pub(super) jumps: Vec<ContestantLatencies>,
    pub(super) walks: Vec<Walk>,
    pub(super) counts_s: Vec<(&'static str, f64)>,
}

impl Measured {
    pub(super) fn figures(&self, figures: &mut Vec<Figure<String>>) {
        for (who, count_s) in &self.counts_s {
            figures.push((format!("{}: count by {who}", self.of), *count_s * 1e3, "ms"));
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
    fn curves(&self) -> Vec<(&str, Curve)> {
        let jumps = self.jumps.iter().map(|jump| (jump.name.as_str(), jump.curve_of(Latencies::p50_us)));
        jumps.chain(self.walks.iter().map(|walk| (walk.name, walk.curve.clone()))).collect()
    }

    pub(super) fn add_to(&self, report: &mut Report) {
        let requests = self.jumps.iter().flat_map(|jump| &jump.by_page).map(|(_, latencies)| latencies.count());
        let (fewest, most) = requests.minmax().into_option().unwrap_or_default();
        let (name, of) = (self.name, self.of);
        let curves = self.curves();
        let about = format!(
            "time to a page of {of}, median of {fewest} to {most} requests; walks: all requests up to that page, once"
        );
        report.table(self.table(name, about, &curves));
        let series = curves.into_iter().map(|(name, curve)| Series {
            name: name.to_owned(),
            points: curve.into_iter().map(|(page, latency_us)| (as_f64(page), latency_us)).collect(),
        });
        let axes = ["page number", "latency p50, us"];
        report.plot(Plot::new(name, format!("Time to page N of {of}"), axes, series));
    }

    /// A table with one row per curve and one column per page.
    fn table(&self, name: &str, about: String, curves: &[(&str, Curve)]) -> Table {
        let pages = depths(self.pages);
        let rows = curves.iter().map(|(name, curve)| {
            let latency = |page: &u64| curve.iter().find(|(at, _)| at == page).map(|(_, latency_us)| *latency_us);
            let cells = pages.iter().map(|page| (format!("page {page}"), latency(page).into()));
            row![("us", *name)].into_iter().chain(cells).collect()
        });
        Table::new(name, about, rows)
    }
}
