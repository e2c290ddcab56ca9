//! The page's table: Pagemark's figures by those of other designs, and figures that have a limit.

use itertools::Itertools;

use super::findings::{Finding, Spread, Verdict};
use crate::report::{Limit, Ratio, Results, figure};

pub(super) fn lines(runs: &[Results], findings: &[Finding]) -> Vec<String> {
    let head = ["| figure | ratio | lowest to highest | limit | verdict |", "| --- | ---: | --- | --- | --- |"];
    let compared = findings.iter().filter(|finding| finding.is_measured()).map(|finding| {
        let Finding { what, other, ours, theirs, ratio, verdict, .. } = finding;
        let what = format!("{what}: {} beside {} ({other})", finding.text(*ours), finding.text(*theirs));
        line(&what, *ratio, "", &verdict.to_string())
    });
    head.map(str::to_owned).into_iter().chain(compared).chain(limited(runs)).collect()
}

/// The figures that have a limit, in the order of the first run that has them.
fn limited(runs: &[Results]) -> Vec<String> {
    let of_name = |name: &str| {
        let all = runs.iter().flat_map(Results::ratios).filter(|ratio| ratio.name == name).collect_vec();
        let last = all.last().filter(|ratio| ratio.limit != Limit::None)?;
        let spread = Spread::of(all.iter().filter_map(|ratio| ratio.value));
        Some(line(name, spread, &last.limit_and_note(), &verdict(&all)))
    };
    runs.iter().flat_map(Results::ratios).map(|ratio| ratio.name.as_str()).unique().filter_map(of_name).collect()
}

/// Whether a figure kept its limit in every run.
fn verdict(ratios: &[&Ratio]) -> String {
    let known = ratios.iter().filter(|ratio| ratio.value.is_some()).map(|ratio| ratio.verdict()).collect_vec();
    let missed = known.iter().filter(|verdict| **verdict == "MISSED").count();
    match (missed, known.len()) {
        (_, 0) => Verdict::NotMeasured.to_string(),
        (0, _) => "holds".to_owned(),
        (missed, all) if missed == all => "MISSED".to_owned(),
        (missed, all) => format!("missed in {missed} of {all} runs"),
    }
}

fn line(what: &str, ratio: Option<Spread>, limit: &str, verdict: &str) -> String {
    let median = ratio.map_or_else(|| "-".to_owned(), |ratio| figure(ratio.median));
    let interval = ratio.map_or_else(|| "-".to_owned(), |ratio| ratio.interval());
    format!("| {} | {median} | {interval} | {limit} | {verdict} |", what.replace('|', "\\|"))
}
