//! The first lines of the page. Each says which design to choose if one thing matters most, and the numbers behind it.

use std::cmp::Reverse;

use itertools::Itertools;

use super::{
    break_even,
    findings::{Aspect, Finding, Verdict},
};
use crate::report::{FOUR_INDEXES, FOUR_INDEXES_CACHED, FOUR_INDEXES_COUNTERS, PAGEMARK, Quantity, Results, count};

/// The other designs, as a reader asks about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
enum Group {
    #[strum(to_string = "four indexes")]
    FourIndexes,
    #[strum(to_string = "the cache")]
    Cache,
    #[strum(to_string = "a relational database")]
    Relational,
}

impl Group {
    fn of(finding: &Finding) -> Self {
        if FOUR_INDEXES_CACHED.contains(&finding.other.as_str()) {
            Self::Cache
        } else if finding.other.starts_with(FOUR_INDEXES) {
            Self::FourIndexes
        } else {
            Self::Relational
        }
    }
}

/// A line of the lead.
struct Topic {
    title: &'static str,
    /// Pagemark is compared with these.
    group: Group,
    /// The verdicts on these aspects choose the design, each under its condition. The conditions are left out if the
    /// choice is always the same.
    choice: &'static [(Aspect, &'static str)],
    /// The numbers of these quantities follow.
    numbers: &'static [Quantity],
}

const TOPICS: [Topic; 6] = [
    Topic {
        title: "Cheap writes, little storage",
        group: Group::FourIndexes,
        choice: &[(Aspect::PriceOfWrites, "for writes"), (Aspect::Storage, "for storage")],
        numbers: &[Quantity::WritesUsd, Quantity::StoredBytes],
    },
    Topic {
        title: "A low bill",
        group: Group::FourIndexes,
        choice: &[(Aspect::Bill, "")],
        numbers: &[Quantity::MonthUsd],
    },
    Topic {
        title: "Deep pages, in DynamoDB",
        group: Group::FourIndexes,
        choice: &[(Aspect::DeepPages, "")],
        numbers: &[],
    },
    Topic {
        title: "Deep pages, if a relational database will do",
        group: Group::Relational,
        choice: &[(Aspect::DeepPages, "")],
        numbers: &[],
    },
    Topic {
        title: "Fast pages",
        group: Group::FourIndexes,
        choice: &[
            (Aspect::OneQuery, "under one rating or any"),
            (Aspect::VaryingDelays, "under two to four if delays vary"),
            (Aspect::EqualDelays, "under two to four if delays are equal"),
        ],
        numbers: &[
            Quantity::AnyRatingPageDelayedUs,
            Quantity::ThreeRatingsPageDelayedUs,
            Quantity::ThreeRatingsPageEqualDelaysUs,
        ],
    },
    Topic {
        title: "Four indexes with a cache for the price of Pagemark's Redis",
        group: Group::Cache,
        choice: &[(Aspect::Bill, "for a low bill"), (Aspect::OneQuery, "for fast pages")],
        numbers: &[Quantity::MonthUsd, Quantity::AnyRatingPageDelayedMeanUs],
    },
];

/// One line for each topic.
pub(super) fn lines(runs: &[Results], findings: &[Finding]) -> Vec<String> {
    let line = |topic: &Topic| {
        let of_group = findings.iter().filter(|finding| Group::of(finding) == topic.group).collect_vec();
        let mut sentences = vec![format!("- **{}: {}.**", topic.title, choice(topic, &of_group))];
        sentences.extend(topic.numbers.iter().filter_map(|quantity| numbers(*quantity, &of_group)));
        if topic.choice.iter().any(|(aspect, _)| *aspect == Aspect::DeepPages) {
            sentences.extend(deep_pages(&of_group));
        }
        if topic.group == Group::FourIndexes && topic.numbers.contains(&Quantity::MonthUsd) {
            sentences.extend(break_evens(runs));
        }
        sentences.join(" ")
    };
    TOPICS.iter().map(line).collect()
}

/// The design to choose, under each condition: "Pagemark if delays vary; four indexes if all are equal".
fn choice(topic: &Topic, findings: &[&Finding]) -> String {
    let of_aspect = |(aspect, condition): &(Aspect, &'static str)| {
        let verdicts = findings.iter().filter(|finding| finding.aspect == Some(*aspect)).map(|finding| finding.verdict);
        (winner(topic.group, &verdicts.collect_vec()), *condition)
    };
    let winners = topic.choice.iter().map(of_aspect).collect_vec();
    match winners.first() {
        Some((winner, _)) if winners.iter().map(|(winner, _)| winner).all_equal() => winner.clone(),
        _ => winners.iter().map(|(winner, condition)| format!("{winner} {condition}")).join("; "),
    }
}

/// The design that most verdicts are for: "Pagemark in 2 of 3 comparisons (no difference found in 1)".
fn winner(group: Group, verdicts: &[Verdict]) -> String {
    let name = |verdict: &Verdict| match verdict {
        Verdict::Better => PAGEMARK.to_owned(),
        Verdict::Worse => group.to_string(),
        Verdict::NoDifferenceFound | Verdict::NotMeasured => verdict.to_string(),
    };
    let counts = verdicts.iter().counts().into_iter();
    let counts = counts.sorted_by_key(|(verdict, count)| (Reverse(*count), **verdict)).collect_vec();
    match counts.as_slice() {
        [] => Verdict::NotMeasured.to_string(),
        [(verdict, _)] => name(verdict),
        [(first, count), rest @ ..] => {
            let rest = rest.iter().map(|(verdict, count)| format!("{} in {count}", name(verdict))).join(", ");
            format!("{} in {count} of {} comparisons ({rest})", name(first), verdicts.len())
        }
    }
}

/// A quantity of all designs in one sentence: "A million writes: Pagemark $43.7, four indexes $3.16."
fn numbers(quantity: Quantity, findings: &[&Finding]) -> Option<String> {
    let measured = findings.iter().filter(|finding| finding.quantity == Some(quantity) && finding.is_measured());
    let measured = measured.collect_vec();
    let first = measured.first()?;
    let short = |other: &str| match other.strip_prefix(FOUR_INDEXES_COUNTERS) {
        Some(variant) if !variant.is_empty() => variant.trim_start_matches(" and a cache, ").to_owned(),
        _ => other.to_owned(),
    };
    let mut others =
        measured.iter().map(|finding| format!("{} {}", short(&finding.other), finding.text(finding.theirs)));
    let what = capitalised(&first.what);
    Some(format!("{what}: {PAGEMARK} {}, {}.", first.text(first.ours), others.join(", ")))
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// The page views per write from which Pagemark is cheaper, beside both variants of the other design. The views are those
/// of the month, then all of them have three ratings.
fn break_evens(runs: &[Results]) -> Vec<String> {
    let beside = |view| {
        let designs = [FOUR_INDEXES, FOUR_INDEXES_COUNTERS].into_iter();
        designs.filter_map(move |other| Some((other, break_even::text(runs, other, view)?)))
    };
    let mixed = beside(Quantity::MixedViewsUsd).map(|(other, text)| format!("than {other} {text}")).join(", and ");
    let three = beside(Quantity::ThreeRatingsViewsUsd).map(|(_, text)| text).join(", and ");
    let sentences = [("Pagemark is cheaper", mixed), ("If all views have three ratings:", three)].into_iter();
    sentences.filter(|(_, text)| !text.is_empty()).map(|(begin, text)| format!("{begin} {text}.")).collect()
}

/// The latency of the deepest page, and the other designs by their verdict.
fn deep_pages(findings: &[&Finding]) -> Option<String> {
    let deep = || findings.iter().copied().filter(|finding| finding.aspect == Some(Aspect::DeepPages));
    let last = deep().filter(|finding| finding.page.is_some()).max_by_key(|finding| finding.page)?;
    let text = |finding: &Finding| {
        let at = finding.page.filter(|page| last.page != Some(*page));
        let at = at.map_or_else(String::new, |page| format!(" at page {}", count(page)));
        format!("{} ({}{at})", finding.other, finding.text(finding.theirs))
    };
    // The verdicts are Pagemark's; the groups say what the others are.
    let groups =
        [(Verdict::Better, "Slower"), (Verdict::Worse, "Faster"), (Verdict::NoDifferenceFound, "No difference found")];
    let beside = groups.into_iter().filter_map(|(verdict, group)| {
        let of_group = deep().filter(|finding| finding.verdict == verdict);
        let of_group = of_group.sorted_by(|one, other| one.theirs_median().total_cmp(&other.theirs_median()));
        match of_group.collect_vec().as_slice() {
            [] => None,
            [one] => Some(format!("{group}: {}.", text(one))),
            [fastest, .., slowest] => Some(format!("{group}: from {} to {}.", text(fastest), text(slowest))),
        }
    });
    let beside = beside.collect_vec().join(" ");
    Some(format!("{}: {PAGEMARK} {}. {beside}", capitalised(&last.what), last.text(last.ours)))
}
