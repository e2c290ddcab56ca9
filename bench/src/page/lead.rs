//! The first lines of the page: when to choose Pagemark, when another design, and the three numbers that decide.

use itertools::Itertools;
use strum::VariantArray;

use super::{
    break_even,
    findings::{Finding, PRICE_OF_WRITES, Verdict, deep},
};
use crate::report::{FOUR_INDEXES, FOUR_INDEXES_CACHED, FOUR_INDEXES_COUNTERS, Quantity, Results, count, figure};

/// A line for each group of other designs, and one for each of the three numbers.
pub(super) fn lines(runs: &[Results], findings: &[Finding]) -> Vec<String> {
    let choices = Group::VARIANTS.iter().map(|group| choice(*group, findings));
    choices.chain([writes(findings), views(runs), deep_pages(&deep(runs))]).collect()
}

/// The other designs, as a reader asks about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, VariantArray)]
enum Group {
    #[strum(to_string = "four indexes")]
    FourIndexes,
    #[strum(to_string = "four indexes with a cache for the same money")]
    Cache,
    #[strum(to_string = "a relational database")]
    Relational,
}

impl Group {
    /// The group in the answer to its question.
    fn chosen(self) -> &'static str {
        match self {
            Self::FourIndexes => "four indexes",
            Self::Cache => "the cache",
            Self::Relational => "a database",
        }
    }

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

/// When to choose Pagemark, and when a design of the group, from the verdicts alone.
fn choice(group: Group, findings: &[Finding]) -> String {
    let findings: Vec<&Finding> = findings.iter().filter(|finding| Group::of(finding) == group).collect();
    let [better, worse, same, unknown] =
        [Verdict::Better, Verdict::Worse, Verdict::NoDifferenceFound, Verdict::NotMeasured]
            .map(|verdict| aspects(&findings, verdict));
    let chosen = group.chosen();
    let choice = match (better.is_empty(), worse.is_empty()) {
        (true, true) => "These results recommend no design".to_owned(),
        (true, false) => format!("Choose {chosen}. Pagemark is worse in {worse}, and better in nothing"),
        (false, true) => format!("Choose Pagemark. It is better in {better}, and worse in nothing"),
        (false, false) => format!("Choose Pagemark for {better}. Choose {chosen} for {worse}"),
    };
    let mut line = format!("- **Pagemark or {group}?** {choice}.");
    for (what, aspects) in [("No difference was found in", same), ("Not measured:", unknown)] {
        if !aspects.is_empty() {
            line.push_str(&format!(" {what} {aspects}."));
        }
    }
    line
}

/// The aspects with a verdict. An aspect with several verdicts is followed by the number of comparisons that have this
/// one.
fn aspects(findings: &[&Finding], verdict: Verdict) -> String {
    let text = |aspect: &'static str| {
        let of_aspect = || findings.iter().filter(|finding| finding.aspect == Some(aspect));
        let (count, all) = (of_aspect().filter(|finding| finding.verdict == verdict).count(), of_aspect().count());
        match count {
            0 => None,
            count if count == all => Some(aspect.to_owned()),
            count => Some(format!("{aspect} ({count} of {all} comparisons)")),
        }
    };
    findings.iter().filter_map(|finding| finding.aspect).unique().filter_map(text).join(", ")
}

fn writes(findings: &[Finding]) -> String {
    let of_writes = findings.iter().filter(|finding| finding.aspect == Some(PRICE_OF_WRITES)).collect_vec();
    let ours = of_writes.first().map_or_else(String::new, |finding| finding.text(finding.ours));
    let beside = of_writes.iter().map(|finding| format!("With {}: {}.", finding.other, judged(finding))).join(" ");
    format!("- **A million writes** with Pagemark: {ours}. {beside}")
}

/// The other design's value and the verdict.
fn judged(finding: &Finding) -> String {
    let theirs = finding.text(finding.theirs);
    match finding.verdict {
        Verdict::NotMeasured => "not compared".to_owned(),
        Verdict::NoDifferenceFound => format!("{theirs}, no difference found"),
        Verdict::Better | Verdict::Worse => {
            let times =
                finding.ratio.map_or_else(String::new, |ratio| format!(", at {} times that", figure(ratio.median)));
            format!("{theirs}; Pagemark is {}{times}", finding.verdict)
        }
    }
}

/// The break-even in page views for each write, beside both variants of the other design.
fn views(runs: &[Results]) -> String {
    let mix = runs.iter().find_map(|run| run.fact("mix")).unwrap_or("unknown");
    let month = runs.iter().find_map(|run| run.fact("month")).unwrap_or("unknown");
    let beside = [FOUR_INDEXES, FOUR_INDEXES_COUNTERS].map(|other| {
        let [mixed, three] =
            [Quantity::MixedViewsUsd, Quantity::ThreeRatingsViewsUsd].map(|view| break_even::text(runs, other, view));
        format!("Than {other}: {mixed}; if every view has three ratings, {three}.")
    });
    let beside = beside.iter().join(" ");
    format!("- **Page views per write at which Pagemark is cheaper.** {beside} The mix: {mix}. The month: {month}.")
}

fn deep_pages(deep: &[Finding]) -> String {
    let last = deep.iter().filter(|finding| finding.page.is_some()).max_by_key(|finding| finding.page);
    let ours =
        last.map_or_else(|| "not measured".to_owned(), |last| format!("{}: {}", last.what, last.text(last.ours)));
    // The verdicts are Pagemark's; the groups say what the others are.
    let groups = [
        (Verdict::Better, "Slower"),
        (Verdict::Worse, "Faster"),
        (Verdict::NoDifferenceFound, "No difference found"),
        (Verdict::NotMeasured, "Not compared"),
    ];
    let text = |finding: &Finding| {
        let at = finding.page.filter(|page| last.is_some_and(|last| last.page != Some(*page)));
        let at = at.map_or_else(String::new, |page| format!(" at page {}", count(page)));
        let theirs = finding.theirs.map(|theirs| format!(" ({}{at})", finding.text(Some(theirs))));
        format!("{}{}", finding.other, theirs.unwrap_or_default())
    };
    let beside = groups.into_iter().filter_map(|(verdict, group)| {
        let of_group = deep.iter().filter(|finding| finding.verdict == verdict).map(text).join(", ");
        (!of_group.is_empty()).then(|| format!("{group}: {of_group}."))
    });
    format!("- **A deep page** with Pagemark, {ours}. {}", beside.collect_vec().join(" "))
}
