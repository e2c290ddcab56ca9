//! Pages of made-up results: Pagemark better in all, worse in all, and with measurements missing.

use expect_test::{Expect, expect, expect_file};

use super::*;
use crate::report::{
    FOUR_INDEXES, FOUR_INDEXES_CACHED, FOUR_INDEXES_COUNTERS, Limit, Machine, ONE_SET_A_FILTER, PAGEMARK, Plot,
    Quantity, Ratio, Series, Table, row,
};

/// Every quantity, in the order of their declaration.
const QUANTITIES: [Quantity; 23] = [
    Quantity::InsertWriteUnits,
    Quantity::InsertRoundTrips,
    Quantity::WritesUsd,
    Quantity::FixedUsd,
    Quantity::MixedViewsUsd,
    Quantity::ThreeRatingsViewsUsd,
    Quantity::MonthUsd,
    Quantity::StoredBytes,
    Quantity::OneRatingPageDelayedUs,
    Quantity::TwoRatingsPageDelayedUs,
    Quantity::ThreeRatingsPageDelayedUs,
    Quantity::FourRatingsPageDelayedUs,
    Quantity::AnyRatingPageDelayedUs,
    Quantity::TwoRatingsPageEqualDelaysUs,
    Quantity::ThreeRatingsPageEqualDelaysUs,
    Quantity::FourRatingsPageEqualDelaysUs,
    Quantity::OneRatingPageDelayedMeanUs,
    Quantity::AnyRatingPageDelayedMeanUs,
    Quantity::SiteAnyRatingUs,
    Quantity::SiteThreeRatingsUs,
    Quantity::SiteAnyRatingTotalsUs,
    Quantity::SiteThreeRatingsTotalsUs,
    Quantity::PageStartServerUs,
];

/// A run in which every figure of Pagemark is `ours` and that of all others `theirs`.
fn results(ours: f64, theirs: f64) -> Results {
    let mut section = Section { run: quiet_run(), ..Section::default() };
    for quantity in QUANTITIES {
        let others = [FOUR_INDEXES, FOUR_INDEXES_COUNTERS, ONE_SET_A_FILTER].into_iter().chain(FOUR_INDEXES_CACHED);
        let designs = [(PAGEMARK, ours)].into_iter().chain(others.map(|other| (other, theirs)));
        section.numbers.insert(quantity, designs.map(|(design, value)| (design.to_owned(), value)).collect());
    }
    section.facts.insert("month".to_owned(), "1 million writes".to_owned());
    let series = |name: &str, latency_us: f64, last: f64| Series {
        name: name.to_owned(),
        points: vec![(1.0, latency_us), (50.0, latency_us), (last, latency_us)],
    };
    let lines = [
        series(PAGEMARK, ours, 5_000.0),
        series("OFFSET", theirs, 5_000.0),
        series("four indexes, walk by cursor", theirs, 731.0),
    ];
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

/// The page of runs, after they were written to report.json and read again.
fn page_of(runs: &[Results]) -> String {
    let json = serde_json::to_string(runs).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Results>>(&json).unwrap(), runs);
    text(runs)
}

/// Compares the lead of a page.
fn check(runs: &[Results], expected: Expect) {
    let page = page_of(runs);
    let (lead, _) = page.split_once("\n\n## Plots").unwrap();
    expected.assert_eq(lead);
}

#[test]
fn a_page_says_that_pagemark_is_worse_in_everything() {
    let page = page_of(&[results(3.0, 1.0), results(3.2, 1.1), results(2.4, 1.2)]);
    expect_file!["worse_in_everything.md"].assert_eq(&page);
}

#[test]
fn a_page_says_that_pagemark_is_better_in_everything() {
    check(
        &[results(1.0, 3.0)],
        expect![[r#"
            # Which design to choose

            - **Cheap writes, little storage: Pagemark.** A million writes: Pagemark $1, four indexes $3, four indexes with counters $3. A stored comment: Pagemark 1 bytes, four indexes 3 bytes.
            - **A low bill: Pagemark.** The bill of the month: Pagemark $1, four indexes $3, four indexes with counters $3. Pagemark is cheaper than four indexes at any number of page views, and than four indexes with counters at any number of page views. If all views have three ratings: at any number of page views, and at any number of page views.
            - **Deep pages, in DynamoDB: Pagemark.** Page 50, p50: Pagemark 1 us. Slower: four indexes, walk by cursor (3 us).
            - **Deep pages, if a relational database will do: Pagemark.** Page 5,000, p50: Pagemark 1 us. Slower: OFFSET (3 us).
            - **Fast pages: Pagemark.** Middle page, any rating, varying delays, p50: Pagemark 1 us, four indexes 3 us. Middle page, three ratings, varying delays, p50: Pagemark 1 us, four indexes 3 us. Middle page, three ratings, equal delays, p50: Pagemark 1 us, four indexes 3 us.
            - **Four indexes with a cache for the price of Pagemark's Redis: Pagemark.** The bill of the month: Pagemark $1, 0 % hits $3, 50 % hits $3, 90 % hits $3. Middle page, any rating, varying delays, mean: Pagemark 1 us, 0 % hits 3 us, 50 % hits 3 us, 90 % hits 3 us."#]],
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
        expect![[r#"
            **Not publishable:** the machine was loaded when these began: depth.

            # Which design to choose

            - **Cheap writes, little storage: four indexes in 1 of 2 comparisons (not measured in 1) for writes; not measured for storage.** A million writes: Pagemark $3, four indexes $1.
            - **A low bill: not measured.**
            - **Deep pages, in DynamoDB: not measured.**
            - **Deep pages, if a relational database will do: not measured.**
            - **Fast pages: not measured.**
            - **Four indexes with a cache for the price of Pagemark's Redis: not measured.**"#]],
    );
    check(
        &[Results::default()],
        expect![[r#"
            # Which design to choose

            - **Cheap writes, little storage: not measured.**
            - **A low bill: not measured.**
            - **Deep pages, in DynamoDB: not measured.**
            - **Deep pages, if a relational database will do: not measured.**
            - **Fast pages: not measured.**
            - **Four indexes with a cache for the price of Pagemark's Redis: not measured.**"#]],
    );
}

#[test]
fn of_several_systems_the_fastest_and_the_slowest_are_named() {
    let mut run = results(2.0, 3.0);
    let section = run.measurements.get_mut("depth").unwrap();
    let ours = section.plots[1].series[0].clone();
    let others = [("B", 5.0), ("A", 3.0), ("C", 9.0), ("D", 1.0)];
    let others = others.map(|(name, us)| Series { name: name.to_owned(), points: vec![(5_000.0, us)] });
    section.plots[1] = Plot::new(findings::DEPTH, "", ["", ""], [ours].into_iter().chain(others));
    let page = text(&[run]);
    let expected = "Pagemark in 3 of 4 comparisons (a relational database in 1).** Page 5,000, p50: Pagemark 2 us. \
                    Slower: from A (3 us) to C (9 us). Faster: D (1 us).";
    assert!(page.contains(expected), "{page}");
}

#[test]
fn nothing_is_better_or_worse_where_runs_overlap() {
    let page = text(&[results(1.0, 3.0), results(3.0, 1.0)]);
    assert_eq!(page.matches(": no difference found.**").count(), 6, "{page}");
    assert!(
        page.contains(
            "than four indexes at any number of page views or at no number of page views (the runs disagree)"
        ),
        "{page}"
    );
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
    assert!(
        page.contains("Pagemark is cheaper than four indexes from 150 page views per write on (100 to 200)"),
        "{page}"
    );
}

#[test]
fn a_long_report_makes_a_page_of_at_most_150_lines_that_decides_in_ten() {
    let mut run = results(1.0, 3.0);
    let section = run.measurements.get_mut("depth").unwrap();
    let ratio = |number: u32| Ratio { name: format!("ratio {number}"), ..section.ratios[0].clone() };
    section.ratios = (0..40).map(ratio).collect();
    let contestants = (0..18).map(|number| Series { name: format!("system {number}"), points: vec![(1.0, 1.0)] });
    let ours = section.plots[1].series[0].clone();
    section.plots[1] = Plot::new(findings::DEPTH, "", ["", ""], [ours].into_iter().chain(contestants));
    section.run.load_before = None;
    let page = text(&[run]);
    assert!(page.lines().count() <= 150, "{}", page.lines().count());
    assert!(page.lines().take(10).any(|line| line.starts_with("- **Four indexes with a cache")), "{page}");
    assert!(page.starts_with("**Not publishable:** nobody knows how loaded"), "{page}");
}

#[test]
fn a_page_with_every_verdict_decides_in_ten_lines() {
    let mut run = results(1.0, 3.0);
    let section = run.measurements.get_mut("depth").unwrap();
    section.run.load_before = None;
    for (quantity, ours) in
        [(Quantity::WritesUsd, Some(9.0)), (Quantity::StoredBytes, Some(3.0)), (Quantity::MonthUsd, None)]
    {
        let designs = section.numbers.get_mut(&quantity).unwrap();
        designs.remove(PAGEMARK);
        designs.extend(ours.map(|ours| (PAGEMARK.to_owned(), ours)));
    }
    let page = text(&[run]);
    for part in [
        "- **Cheap writes, little storage: four indexes for writes; no difference found for storage.**",
        "- **A low bill: not measured.**",
        "- **Fast pages: Pagemark.**",
        "- **Deep pages, if a relational database will do: Pagemark.**",
        "- **Four indexes with a cache",
    ] {
        assert!(page.lines().take(10).any(|line| line.contains(part)), "{part} is missing:\n{page}");
    }
}

#[test]
fn an_appendix_has_every_table() {
    expect![[r#"
        # Measurements: all tables of one run

        - Date: 2026-11-20
        - Machine: A processor, 2 cores, 7.8 GiB, Debian, kernel 6.1
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

#[test]
fn a_page_has_the_bills_of_the_default_month_beside_what_was_compared() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = results(1.0, 3.0);
    let measured = run.measurements.remove("depth").unwrap();
    run.measurements.insert(COMPARISON.to_owned(), Section { plots: Vec::new(), ..measured });
    write(folder.path(), &[run]).unwrap();
    let page = fs::read_to_string(folder.path().join(PAGE)).unwrap();
    // The figures of `the_example` in `money`.
    for part in [
        "A million writes: Pagemark $44.0, four indexes $3.16, four indexes with counters $6.13.",
        "The bill of the month: Pagemark $427, four indexes $46.7, four indexes with counters $56.0.",
        "Pagemark is cheaper than four indexes from 5,176 page views per write on, and than four indexes with counters from 2,802",
        "The month: 10,000,000 comments of 400 bytes, 1,000,000 writes, 100,000,000 page views",
        "(benchmarks/money.svg)",
    ] {
        assert!(page.contains(part), "{part} is missing:\n{page}");
    }
}
