//! What the results say about two designs: the numbers of both, and a verdict. The rules are data.

use std::collections::BTreeSet;

use itertools::Itertools;

use crate::{
    report::{
        FOUR_INDEXES, FOUR_INDEXES_CACHED, FOUR_INDEXES_COUNTERS, ONE_SET_A_FILTER, PAGEMARK, Plot, Quantity, Results,
        count, figure,
    },
    statistics::as_f64,
};

/// Medians that differ by a smaller factor are not told apart.
const APART_MIN: f64 = 1.05;
/// The plot with the latency of each contestant by page number.
pub(super) const DEPTH: &str = "depth";

/// What a reader would choose a design for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aspect {
    PriceOfWrites,
    Bill,
    Storage,
    /// Latency of pages that both designs get by one query.
    OneQuery,
    /// Latency of pages that four indexes get by several queries, from a table with varying delays.
    VaryingDelays,
    /// The same from a table with equal delays.
    EqualDelays,
    DeepPages,
}

/// A quantity that is compared with other designs.
struct Rule {
    quantity: Quantity,
    /// `None` for what only the table has.
    aspect: Option<Aspect>,
    /// The quantity in words.
    what: &'static str,
    unit: Unit,
    others: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Unit {
    Usd,
    /// Written in larger units where it is long.
    Microseconds,
    /// Written after the figure.
    Named(&'static str),
}

const BOTH: &[&str] = &[FOUR_INDEXES, FOUR_INDEXES_COUNTERS];
const PLAIN: &[&str] = &[FOUR_INDEXES];
const COUNTING: &[&str] = &[FOUR_INDEXES_COUNTERS];
const CACHED: &[&str] = &FOUR_INDEXES_CACHED;
const COUNT: Unit = Unit::Named("");
const TIME: Unit = Unit::Microseconds;

/// All rules, in the order of the page's table. Deep pages follow them ([`deep`]).
const RULES: [Rule; 25] = [
    rule(Quantity::WritesUsd, Some(Aspect::PriceOfWrites), "a million writes", Unit::Usd, BOTH),
    rule(Quantity::MixedViewsUsd, None, "a million page views of the mix", Unit::Usd, BOTH),
    rule(Quantity::MixedViewsUsd, None, "a million page views of the mix", Unit::Usd, CACHED),
    rule(Quantity::ThreeRatingsViewsUsd, None, "a million page views with three ratings", Unit::Usd, BOTH),
    rule(Quantity::FixedUsd, None, "all but page views, for a million writes", Unit::Usd, BOTH),
    rule(Quantity::MonthUsd, Some(Aspect::Bill), "the bill of the month", Unit::Usd, BOTH),
    rule(Quantity::MonthUsd, Some(Aspect::Bill), "the bill of the month", Unit::Usd, CACHED),
    rule(Quantity::InsertWriteUnits, None, "write units of an insert", COUNT, BOTH),
    rule(Quantity::InsertRoundTrips, None, "round trips until an insert is acknowledged", COUNT, BOTH),
    rule(Quantity::StoredBytes, Some(Aspect::Storage), "a stored comment", Unit::Named("bytes"), PLAIN),
    page(Quantity::OneRatingPageDelayedUs, Aspect::OneQuery, "middle page, one rating, varying delays, p50"),
    page(Quantity::TwoRatingsPageDelayedUs, Aspect::VaryingDelays, "middle page, two ratings, varying delays, p50"),
    page(Quantity::TwoRatingsPageEqualDelaysUs, Aspect::EqualDelays, "middle page, two ratings, equal delays, p50"),
    page(Quantity::ThreeRatingsPageDelayedUs, Aspect::VaryingDelays, "middle page, three ratings, varying delays, p50"),
    page(Quantity::ThreeRatingsPageEqualDelaysUs, Aspect::EqualDelays, "middle page, three ratings, equal delays, p50"),
    page(Quantity::FourRatingsPageDelayedUs, Aspect::VaryingDelays, "middle page, four ratings, varying delays, p50"),
    page(Quantity::FourRatingsPageEqualDelaysUs, Aspect::EqualDelays, "middle page, four ratings, equal delays, p50"),
    page(Quantity::AnyRatingPageDelayedUs, Aspect::OneQuery, "middle page, any rating, varying delays, p50"),
    rule(
        Quantity::OneRatingPageDelayedMeanUs,
        Some(Aspect::OneQuery),
        "middle page, one rating, varying delays, mean",
        TIME,
        CACHED,
    ),
    rule(
        Quantity::AnyRatingPageDelayedMeanUs,
        Some(Aspect::OneQuery),
        "middle page, any rating, varying delays, mean",
        TIME,
        CACHED,
    ),
    rule(Quantity::SiteAnyRatingUs, None, "site: between two answers, any rating", TIME, PLAIN),
    rule(Quantity::SiteThreeRatingsUs, None, "site: between two answers, three ratings", TIME, PLAIN),
    rule(Quantity::SiteAnyRatingTotalsUs, None, "site with totals: between two answers, any rating", TIME, COUNTING),
    rule(
        Quantity::SiteThreeRatingsTotalsUs,
        None,
        "site with totals: between two answers, three ratings",
        TIME,
        COUNTING,
    ),
    rule(Quantity::PageStartServerUs, None, "start of a page, three ratings, server p50", TIME, &[ONE_SET_A_FILTER]),
];

/// A rule about a page's latency.
const fn page(quantity: Quantity, aspect: Aspect, what: &'static str) -> Rule {
    rule(quantity, Some(aspect), what, TIME, PLAIN)
}

const fn rule(
    quantity: Quantity,
    aspect: Option<Aspect>,
    what: &'static str,
    unit: Unit,
    others: &'static [&'static str],
) -> Rule {
    Rule { quantity, aspect, what, unit, others }
}

/// The values of several runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) lowest: f64,
    pub(super) median: f64,
    pub(super) highest: f64,
    runs: usize,
}

impl Spread {
    /// `None` without values.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).sorted_by(f64::total_cmp).collect();
        let median = *sorted.get(sorted.len() / 2)?;
        Some(Self { lowest: *sorted.first()?, median, highest: *sorted.last()?, runs: sorted.len() })
    }

    /// "one run", or the lowest and the highest value.
    pub(super) fn interval(&self) -> String {
        match self.runs {
            1 => "one run".to_owned(),
            runs if figure(self.lowest) == figure(self.highest) => format!("the same in {runs} runs"),
            _ => format!("{} to {}", figure(self.lowest), figure(self.highest)),
        }
    }

    /// " (100 to 200)"; nothing if all runs have the same value.
    pub(super) fn in_brackets(&self) -> String {
        let (lowest, highest) = (figure(self.lowest), figure(self.highest));
        if lowest == highest { String::new() } else { format!(" ({lowest} to {highest})") }
    }
}

/// How Pagemark compares with another design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display)]
pub(super) enum Verdict {
    #[strum(to_string = "better")]
    Better,
    #[strum(to_string = "worse")]
    Worse,
    /// The intervals overlap, or the medians are less than 5 % apart.
    #[strum(to_string = "no difference found")]
    NoDifferenceFound,
    #[strum(to_string = "not measured")]
    NotMeasured,
}

impl Verdict {
    /// The verdict on a quantity of which less is better.
    fn of(ours: Option<&Spread>, theirs: Option<&Spread>) -> Self {
        let Some((ours, theirs)) = ours.zip(theirs) else { return Self::NotMeasured };
        let overlap = ours.lowest <= theirs.highest && theirs.lowest <= ours.highest;
        let (less, more) = (ours.median.min(theirs.median), ours.median.max(theirs.median));
        if overlap || more < less * APART_MIN {
            Self::NoDifferenceFound
        } else if ours.median < theirs.median {
            Self::Better
        } else {
            Self::Worse
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Finding {
    /// `None` for a deep page.
    pub(super) quantity: Option<Quantity>,
    pub(super) aspect: Option<Aspect>,
    pub(super) what: String,
    pub(super) other: String,
    /// The number of the page, if it is about a deep one.
    pub(super) page: Option<u64>,
    unit: Unit,
    pub(super) ours: Option<Spread>,
    pub(super) theirs: Option<Spread>,
    /// Ours by theirs, run by run.
    pub(super) ratio: Option<Spread>,
    pub(super) verdict: Verdict,
}

impl Finding {
    /// From the values of both designs, run by run.
    fn new(aspect: Option<Aspect>, what: String, other: &str, unit: Unit, runs: &[(Option<f64>, Option<f64>)]) -> Self {
        let ours = Spread::of(runs.iter().filter_map(|(ours, _)| *ours));
        let theirs = Spread::of(runs.iter().filter_map(|(_, theirs)| *theirs));
        let ratio = Spread::of(runs.iter().filter_map(|(ours, theirs)| Some((*ours)? / (*theirs)?)));
        let verdict = Verdict::of(ours.as_ref(), theirs.as_ref());
        Self { quantity: None, aspect, what, other: other.to_owned(), page: None, unit, ours, theirs, ratio, verdict }
    }

    pub(super) fn is_measured(&self) -> bool {
        self.verdict != Verdict::NotMeasured
    }

    /// The other design's median; not a number if it was not measured.
    pub(super) fn theirs_median(&self) -> f64 {
        self.theirs.map_or(f64::NAN, |theirs| theirs.median)
    }

    /// A value with its unit: "$9.33", "560 us", "1.20 s".
    pub(super) fn text(&self, value: Option<Spread>) -> String {
        let Some(Spread { median, .. }) = value else { return "not measured".to_owned() };
        match self.unit {
            Unit::Usd => format!("${}", figure(median)),
            Unit::Microseconds if median >= 1e6 => format!("{} s", figure(median / 1e6)),
            Unit::Microseconds if median >= 1e3 => format!("{} ms", figure(median / 1e3)),
            Unit::Microseconds => format!("{} us", figure(median)),
            Unit::Named(unit) => format!("{} {unit}", figure(median)).trim_end().to_owned(),
        }
    }
}

/// All findings: those of the rules, then those about deep pages.
pub(super) fn findings(runs: &[Results]) -> Vec<Finding> {
    let of_rules = RULES.iter().flat_map(|rule| {
        let values = |other: &str| {
            let values = runs.iter().map(|run| (run.number(rule.quantity, PAGEMARK), run.number(rule.quantity, other)));
            values.collect_vec()
        };
        rule.others.iter().map(move |other| Finding {
            quantity: Some(rule.quantity),
            ..Finding::new(rule.aspect, rule.what.to_owned(), other, rule.unit, &values(other))
        })
    });
    of_rules.chain(deep(runs)).collect()
}

/// The deepest page that Pagemark and each contestant have shown in every run. A walk ends when its time is up, so its
/// deepest page is not the last.
fn deep(runs: &[Results]) -> Vec<Finding> {
    let plots: Vec<&Plot> = runs.iter().filter_map(|run| run.plot(DEPTH)).collect();
    let others = plots.iter().flat_map(|plot| &plot.series).map(|series| series.name.as_str()).unique();
    // Pagemark with another page index is no other design.
    let others: Vec<&str> = others.filter(|name| !name.starts_with(PAGEMARK)).collect();
    let of_other = |other: &&str| {
        let common = plots.iter().map(|plot| &pages(plot, PAGEMARK) & &pages(plot, other));
        let page = common.reduce(|one, other| &one & &other).and_then(|common| common.last().copied());
        let values = plots.iter().map(|plot| {
            let at = |name| page.and_then(|page| latency_us(plot, name, page));
            (at(PAGEMARK), at(other))
        });
        let what = page.map_or_else(|| "a deep page".to_owned(), |page| format!("page {}, p50", count(page)));
        Finding { page, ..Finding::new(Some(Aspect::DeepPages), what, other, TIME, &values.collect_vec()) }
    };
    let found = others.iter().map(of_other).collect_vec();
    if found.is_empty() {
        return vec![Finding::new(Some(Aspect::DeepPages), "a deep page".to_owned(), "any other system", TIME, &[])];
    }
    found
}

/// The pages with a latency.
fn pages(plot: &Plot, name: &str) -> BTreeSet<u64> {
    let points = plot.series.iter().filter(|series| series.name == name).flat_map(|series| &series.points);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a page number")]
    let page = |page: f64| page as u64;
    points.filter(|(_, latency_us)| latency_us.is_finite()).map(|(at, _)| page(*at)).collect()
}

fn latency_us(plot: &Plot, name: &str, page: u64) -> Option<f64> {
    let page = as_f64(page);
    let points = plot.series.iter().find(|series| series.name == name)?.points.iter();
    points.copied().find(|(at, _)| (at - page).abs() < 0.5).map(|(_, latency_us)| latency_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_needs_intervals_apart_and_five_percent() {
        for (ours, theirs, verdict) in [
            (&[100.0][..], &[106.0][..], Verdict::Better),
            (&[106.0], &[100.0], Verdict::Worse),
            (&[100.0], &[104.0], Verdict::NoDifferenceFound),
            (&[104.0], &[100.0], Verdict::NoDifferenceFound),
            (&[1.0], &[1.0], Verdict::NoDifferenceFound),
            // The medians are far apart, and the intervals overlap.
            (&[90.0, 100.0, 160.0], &[150.0, 200.0, 210.0], Verdict::NoDifferenceFound),
            (&[90.0, 100.0, 140.0], &[150.0, 200.0, 210.0], Verdict::Better),
            (&[150.0, 200.0, 210.0], &[90.0, 100.0, 140.0], Verdict::Worse),
            (&[0.0], &[1.0], Verdict::Better),
            (&[], &[100.0], Verdict::NotMeasured),
            (&[100.0], &[], Verdict::NotMeasured),
            (&[f64::NAN], &[100.0], Verdict::NotMeasured),
        ] {
            let spread = |values: &[f64]| Spread::of(values.iter().copied());
            assert_eq!(Verdict::of(spread(ours).as_ref(), spread(theirs).as_ref()), verdict, "{ours:?} {theirs:?}");
        }
    }

    #[test]
    fn an_interval_is_that_of_the_runs() {
        let spread = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!((spread.median, spread.interval()), (2.0, "1 to 3".to_owned()));
        assert_eq!(Spread::of([3.0]).unwrap().interval(), "one run");
        assert_eq!(Spread::of([2.0 / 3.0; 3]).unwrap().interval(), "the same in 3 runs");
    }
}
