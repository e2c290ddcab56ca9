//! The number of page views for each write at which Pagemark is cheaper.

use itertools::Itertools;

use super::findings::Spread;
use crate::{
    money::BreakEven,
    report::{PAGEMARK, Quantity, Results, figure},
};

/// The break-even beside another design in words, if every page view costs what `view` says; `None` if not measured.
pub(super) fn text(runs: &[Results], other: &str, view: Quantity) -> Option<String> {
    let found: Vec<BreakEven> = runs.iter().filter_map(|run| of_run(run, other, view)).collect();
    let views = |of: fn(&BreakEven) -> Option<f64>| Spread::of(found.iter().filter_map(of));
    let from = views(|found| if let BreakEven::From(views) = found { Some(*views) } else { None });
    let below = views(|found| if let BreakEven::Below(views) = found { Some(*views) } else { None });
    let mut parts = Vec::new();
    if let Some(from) = from {
        parts.push(format!("from {} page views per write on{}", figure(from.median.round()), from.in_brackets()));
    }
    if let Some(below) = below {
        parts.push(format!("below {} page views per write{}", figure(below.median.round()), below.in_brackets()));
    }
    for (found_by_some, text) in
        [(BreakEven::Always, "at any number of page views"), (BreakEven::Never, "at no number of page views")]
    {
        if found.contains(&found_by_some) {
            parts.push(text.to_owned());
        }
    }
    match parts.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("{} (the runs disagree)", several.iter().join(" or "))),
    }
}

fn of_run(run: &Results, other: &str, view: Quantity) -> Option<BreakEven> {
    let of_both = |quantity| Some((run.number(quantity, PAGEMARK)?, run.number(quantity, other)?));
    Some(BreakEven::of(of_both(Quantity::FixedUsd)?, of_both(view)?))
}
