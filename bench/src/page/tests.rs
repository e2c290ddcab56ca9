//! Pages of made-up results: Pagemark better in all, worse in all, and with measurements missing.

use expect_test::{Expect, expect};

use super::*;
use crate::report::{
    FOUR_INDEXES, FOUR_INDEXES_COUNTERS, Limit, Machine, PAGEMARK, Plot, Quantity, Ratio, Series, Table, row,
};

/// Every quantity, in the order of their declaration.
const QUANTITIES: [Quantity; 12] = [
    Quantity::InsertWriteUnits,
    Quantity::InsertRoundTrips,
    Quantity::WritesUsd,
    Quantity::FixedUsd,
    Quantity::MixedViewsUsd,
    Quantity::ThreeRatingsViewsUsd,
    Quantity::MonthUsd,
    Quantity::StoredBytes,
    Quantity::OneRatingPageUs,
    Quantity::AnyRatingPageUs,
    Quantity::OneRatingPageDelayedUs,
    Quantity::AnyRatingPageDelayedUs,
];

/// A run in which every figure of Pagemark is `ours` and that of all others `theirs`.
fn results(ours: f64, theirs: f64) -> Results {
    let mut section = Section { run: quiet_run(), ..Section::default() };
    for quantity in QUANTITIES {
        let designs = [(PAGEMARK, ours), (FOUR_INDEXES, theirs), (FOUR_INDEXES_COUNTERS, theirs)];
        section.numbers.insert(quantity, designs.map(|(design, value)| (design.to_owned(), value)).into());
    }
    section.facts.insert("mix".to_owned(), "75 % any rating, 25 % one".to_owned());
    section.facts.insert("month".to_owned(), "1 million writes".to_owned());
    let series = |name: &str, latency_us: f64, last: f64| Series {
        name: name.to_owned(),
        points: vec![(1.0, latency_us), (50.0, latency_us), (last, latency_us)],
    };
    let lines = [series(PAGEMARK, ours, 5_000.0), series("OFFSET", theirs, 5_000.0), series("a walk", theirs, 731.0)];
    let axes = ["page number", "latency p50, us"];
    section.plots = PLOTS.map(|(name, about)| Plot::new(name, about, axes, lines.clone())).to_vec();
    let limit = Limit::AtMost(2.5);
    section.ratios =
        vec![Ratio { name: "last_page".to_owned(), value: Some(ours), limit, note: "at each size".to_owned() }];
    section.tables = vec![Table::new("read", "Pages of 20.", [row![("design", "one | other"), ("p50, us", ours)]])];
    let machine = Machine {
        processor: "A processor".to_owned(),
        cores: 2,
        memory_gib: 7.8,
        kernel: "6.1".to_owned(),
        system: "Debian".to_owned(),
        versions: vec![("bench".to_owned(), "0.1.0".to_owned())],
    };
    Results { machine, measurements: [("depth".to_owned(), section)].into() }
}

fn quiet_run() -> Run {
    Run {
        began: "2026-11-20T21:04:05.123Z".to_owned(),
        took_s: 42.3,
        load_before: Some(0.31),
        command: "bench --only depth".to_owned(),
        commit: "0123456789abcdef".to_owned(),
        ..Run::default()
    }
}

/// Compares the lead of a page, or all of it.
fn check(runs: &[Results], is_whole: bool, expected: Expect) {
    // Everything survives report.json.
    let json = serde_json::to_string(runs).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Results>>(&json).unwrap(), runs);
    let page = text(runs);
    let (lead, _) = page.split_once("\n\n## Plots").unwrap();
    expected.assert_eq(if is_whole { &page } else { lead });
}

#[test]
fn a_page_says_that_pagemark_is_worse_in_everything() {
    check(
        &[results(3.0, 1.0), results(3.2, 1.1), results(2.4, 1.2)],
        true,
        expect![[r##"
            # Which design to choose

            **Choose another design.** Pagemark is better in nothing that was measured. Measured: the price of writes (worse than 2 of 2), the price of page views (worse than 2 of 2), the bill of a month (worse than 2 of 2), storage (worse than 1 of 1), pages under one rating (worse than 1 of 1), pages under any rating (worse than 1 of 1), deep pages (worse than 2 of 2).

            - **A million writes** with Pagemark: $3. With four indexes: $1.10; Pagemark is worse, at 2.91 times that. With four indexes with counters: $1.10; Pagemark is worse, at 2.91 times that.
            - **Page views per write at which Pagemark is cheaper.** Than four indexes: at no number; if every view has three ratings, at no number. Than four indexes with counters: at no number; if every view has three ratings, at no number. The mix: 75 % any rating, 25 % one. The month: 1 million writes.
            - **A deep page** with Pagemark, page 5,000, p50: 3 us. Faster: OFFSET (1.10 us), a walk (1.10 us at page 50).

            ## Plots

            ![money by page views per write](benchmarks/money.svg)

            ![latency by depth](benchmarks/depth.svg)

            ![latency by number of ratings](benchmarks/ratings.svg)

            ![growth with the number of comments](benchmarks/scale.svg)

            ![bytes of a comment](benchmarks/bytes.svg)

            ## Ratios

            Pagemark's figure by the other design's, and figures that have a limit.

            | figure | ratio | lowest to highest | limit | verdict |
            | --- | ---: | --- | --- | --- |
            | a million writes: $3 beside $1.10 (four indexes) | 2.91 | 2 to 3 |  | worse |
            | a million writes: $3 beside $1.10 (four indexes with counters) | 2.91 | 2 to 3 |  | worse |
            | a million page views of the mix: $3 beside $1.10 (four indexes) | 2.91 | 2 to 3 |  | worse |
            | a million page views of the mix: $3 beside $1.10 (four indexes with counters) | 2.91 | 2 to 3 |  | worse |
            | a million page views with three ratings: $3 beside $1.10 (four indexes) | 2.91 | 2 to 3 |  | worse |
            | a million page views with three ratings: $3 beside $1.10 (four indexes with counters) | 2.91 | 2 to 3 |  | worse |
            | all but page views, for a million writes: $3 beside $1.10 (four indexes) | 2.91 | 2 to 3 |  | worse |
            | all but page views, for a million writes: $3 beside $1.10 (four indexes with counters) | 2.91 | 2 to 3 |  | worse |
            | the bill of the month: $3 beside $1.10 (four indexes) | 2.91 | 2 to 3 |  | worse |
            | the bill of the month: $3 beside $1.10 (four indexes with counters) | 2.91 | 2 to 3 |  | worse |
            | write units of an insert: 3 beside 1.10 (four indexes) | 2.91 | 2 to 3 |  | worse |
            | write units of an insert: 3 beside 1.10 (four indexes with counters) | 2.91 | 2 to 3 |  | worse |
            | round trips until an insert is acknowledged: 3 beside 1.10 (four indexes) | 2.91 | 2 to 3 |  | worse |
            | round trips until an insert is acknowledged: 3 beside 1.10 (four indexes with counters) | 2.91 | 2 to 3 |  | worse |
            | a stored comment: 3 bytes beside 1.10 bytes (four indexes) | 2.91 | 2 to 3 |  | worse |
            | middle page, one rating, p50: 3 us beside 1.10 us (four indexes) | 2.91 | 2 to 3 |  | worse |
            | middle page, any rating, p50: 3 us beside 1.10 us (four indexes) | 2.91 | 2 to 3 |  | worse |
            | the same with delays, one rating: 3 us beside 1.10 us (four indexes) | 2.91 | 2 to 3 |  | worse |
            | the same with delays, any rating: 3 us beside 1.10 us (four indexes) | 2.91 | 2 to 3 |  | worse |
            | page 5,000, p50: 3 us beside 1.10 us (OFFSET) | 2.91 | 2 to 3 |  | worse |
            | page 50, p50: 3 us beside 1.10 us (a walk) | 2.91 | 2 to 3 |  | worse |
            | last_page | 3 | 2.40 to 3.20 | at most 2.5; at each size | missed in 2 of 3 runs |

            ## How it was measured

            - 3 runs; the highest load when a measurement began was 0.31, allowed is 0.5.
            - Date: 2026-11-20
            - Processor: A processor, 2 cores
            - Memory: 7.8 GiB
            - System: Debian, kernel 6.1
            - Versions: bench 0.1.0
            - Commit: 0123456789ab
            - Commands: bench --only depth
            - Better or worse means Pagemark's median, the less the better. "No difference found": the runs' intervals overlap, or the medians are less than 5 % apart.
            - An interval is the lowest and the highest of the runs. The plots are of the last run.
            - Growth: the exponent of a power law through the measured sizes. 0 means that nothing changes with the number of comments.
            - All tables of the last run are in the [appendix](benchmarks-appendix.md), explained by the [notes](benchmarks-notes.md).

            ## What was not measured

            - Real DynamoDB. An engine on this machine stands in for it and counts units as AWS documents them.
            - The latency of an acknowledged write. The engine charges nothing for a transaction, so write units and round trips are stated instead.
            - Parallel queries against a store that answers in parallel. The engine answers one call at a time, so pages of two to four ratings are not timed with four indexes.
            - The articles' site test, with the same features on both sides. An earlier one made the other design query statistics for each page.
            - Reading the counters of four indexes for the totals of each page: about half a read unit, left out in their favour.
            - A cache in front of the other design, for the money that Pagemark costs more.
            - 99th percentiles of fewer than 1,000 samples. They are not printed.
        "##]],
    );
}

#[test]
fn a_page_says_that_pagemark_is_better_in_everything() {
    check(
        &[results(1.0, 3.0)],
        false,
        expect![[r#"
            # Which design to choose

            **Choose Pagemark.** No other design is better in anything that was measured. Measured: the price of writes (better than 2 of 2), the price of page views (better than 2 of 2), the bill of a month (better than 2 of 2), storage (better than 1 of 1), pages under one rating (better than 1 of 1), pages under any rating (better than 1 of 1), deep pages (better than 2 of 2).

            - **A million writes** with Pagemark: $1. With four indexes: $3; Pagemark is better, at 0.333 times that. With four indexes with counters: $3; Pagemark is better, at 0.333 times that.
            - **Page views per write at which Pagemark is cheaper.** Than four indexes: at any number; if every view has three ratings, at any number. Than four indexes with counters: at any number; if every view has three ratings, at any number. The mix: 75 % any rating, 25 % one. The month: 1 million writes.
            - **A deep page** with Pagemark, page 5,000, p50: 1 us. Slower: OFFSET (3 us), a walk (3 us at page 50)."#]],
    );
}

#[test]
fn a_page_says_what_was_not_measured() {
    let mut half = results(3.0, 1.0);
    let section = half.measurements.get_mut("depth").unwrap();
    section.numbers.retain(|quantity, _| *quantity == Quantity::WritesUsd);
    section.numbers.values_mut().for_each(|designs| designs.retain(|design, _| design != FOUR_INDEXES_COUNTERS));
    section.plots.clear();
    section.ratios[0].value = None;
    section.run.failure = Some("no server\nanswered".to_owned());
    section.run.load_before = Some(1.87);
    let page = text(std::slice::from_ref(&half));
    for line in [
        "No plot: latency by depth was not measured.",
        "| last_page | - | - | at most 2.5; at each size | not measured |",
        "- In these results, beside any other system: a deep page.",
        "- `depth` failed, so its results are incomplete: no server answered",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is missing:\n{page}");
    }
    check(
        &[half],
        false,
        expect![[r#"
            **Not publishable:** the machine was loaded when these began: depth.

            # Which design to choose

            **Choose another design.** Pagemark is better in nothing that was measured. Measured: the price of writes (worse than 1 of 2). Not measured: the price of writes (1 of 2), the price of page views (2 of 2), the bill of a month (2 of 2), storage (1 of 1), pages under one rating (1 of 1), pages under any rating (1 of 1), deep pages (1 of 1).

            - **A million writes** with Pagemark: $3. With four indexes: $1; Pagemark is worse, at 3 times that. With four indexes with counters: not compared.
            - **Page views per write at which Pagemark is cheaper.** Than four indexes: not measured; if every view has three ratings, not measured. Than four indexes with counters: not measured; if every view has three ratings, not measured. The mix: 75 % any rating, 25 % one. The month: 1 million writes.
            - **A deep page** with Pagemark, not measured. Not compared: any other system."#]],
    );
    check(
        &[Results::default()],
        false,
        expect![[r#"
        # Which design to choose

        **These results recommend no design.** Not measured: the price of writes (2 of 2), the price of page views (2 of 2), the bill of a month (2 of 2), storage (1 of 1), pages under one rating (1 of 1), pages under any rating (1 of 1), deep pages (1 of 1).

        - **A million writes** with Pagemark: not measured. With four indexes: not compared. With four indexes with counters: not compared.
        - **Page views per write at which Pagemark is cheaper.** Than four indexes: not measured; if every view has three ratings, not measured. Than four indexes with counters: not measured; if every view has three ratings, not measured. The mix: unknown. The month: unknown.
        - **A deep page** with Pagemark, not measured. Not compared: any other system."#]],
    );
}

#[test]
fn nothing_is_better_or_worse_where_runs_overlap() {
    let page = text(&[results(1.0, 3.0), results(3.0, 1.0)]);
    assert!(page.contains("These results recommend no design"), "{page}");
    assert!(page.contains("the runs disagree: at any number; at no number"), "{page}");
    assert!(page.contains("missed in 1 of 2 runs"), "{page}");
}

#[test]
fn dearer_writes_and_cheaper_page_views_meet_at_a_number_of_views() {
    let run = |fixed_usd: f64| {
        let mut run = results(1.0, 3.0);
        let section = run.measurements.get_mut("depth").unwrap();
        section.numbers.get_mut(&Quantity::FixedUsd).unwrap().insert(PAGEMARK.to_owned(), fixed_usd);
        run
    };
    // 200 more for each million writes, and 2 less for each million views.
    let page = text(&[run(203.0), run(403.0), run(303.0)]);
    assert!(page.contains("Than four indexes: from 150 on (100 to 200);"), "{page}");
}

#[test]
fn a_long_report_makes_a_page_of_at_most_150_lines_that_decides_in_ten() {
    let mut run = results(1.0, 3.0);
    let section = run.measurements.get_mut("depth").unwrap();
    let ratio = |number: u32| Ratio { name: format!("ratio {number}"), ..section.ratios[0].clone() };
    section.ratios = (0..45).map(ratio).collect();
    let contestants = (0..18).map(|number| Series { name: format!("system {number}"), points: vec![(1.0, 1.0)] });
    let ours = section.plots[1].series[0].clone();
    section.plots[1] = Plot::new(findings::DEPTH, "", ["", ""], [ours].into_iter().chain(contestants));
    section.run.load_before = None;
    let page = text(&[run]);
    assert!(page.lines().count() <= 150, "{}", page.lines().count());
    assert!(page.lines().take(10).any(|line| line.starts_with("- **A deep page**")), "{page}");
    assert!(page.starts_with("**Not publishable:** nobody knows how loaded"), "{page}");
}

#[test]
fn an_appendix_has_every_table() {
    expect![[r#"
        # Measurements: all tables of one run

        - Date: 2026-11-20
        - Processor: A processor, 2 cores
        - Memory: 7.8 GiB
        - System: Debian, kernel 6.1
        - Versions: bench 0.1.0
        - Commit: 0123456789ab
        - Commands: bench --only depth

        ## ratios

        ### limits

        Figures that have a limit, or could have one.

        | ratio | figure | limit | verdict |
        | --- | ---: | --- | --- |
        | last_page | 1 | at most 2.5; at each size | holds |

        ## depth

        2026-11-20 21:04 UTC, 42 s; load 0.31 when it began and unknown when it ended.

        ![money by page views per write](benchmarks/money.svg)

        ![latency by depth](benchmarks/depth.svg)

        ![latency by number of ratings](benchmarks/ratings.svg)

        ![growth with the number of comments](benchmarks/scale.svg)

        ![bytes of a comment](benchmarks/bytes.svg)

        ### read

        Pages of 20.

        | design | p50, us |
        | --- | ---: |
        | one \| other | 1 |
    "#]]
    .assert_eq(&appendix::text(&results(1.0, 3.0)));
}

#[test]
fn pages_are_written_with_their_plots() {
    let folder = tempfile::tempdir().unwrap();
    let stale = folder.path().join(FOLDER).join("stale.svg");
    fs::create_dir_all(stale.parent().unwrap()).unwrap();
    fs::write(&stale, "").unwrap();
    let runs = [results(1.0, 3.0)];
    write(folder.path(), &runs).unwrap();
    let page = fs::read_to_string(folder.path().join(PAGE)).unwrap();
    for plot in &runs[0].measurements["depth"].plots {
        assert!(page.contains(&format!("({FOLDER}/{})", plot.file())), "{page}");
        assert!(folder.path().join(FOLDER).join(plot.file()).exists(), "{}", plot.file());
    }
    assert!(!stale.exists());
}
