//! The answer: each design's bill, where they meet, and what changes with the question. No I/O.

use std::collections::BTreeMap;

use serde::Serialize;
use strum::VariantArray;

use super::{
    model::{Design, Shape, designs},
    question::{LEFT_OUT, ONE_KIND, Question},
};
use crate::money::{Bill, BreakEven, Prices, Scope, Usage, Workload, Write, break_even_by_mix, write_cost_times};

const TEXT_BYTES: [u32; 3] = [100, 1_000, 4_000];
const DEPTHS: [u32; 2] = [10, 100];
const RATING_VALUES: [u32; 3] = [3, 8, 10];
const MANY_LANGUAGES: u32 = 100;

/// Everything that is printed.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    pub(super) question: Question,
    pub(super) region: String,
    pub(super) prices_looked_up: String,
    /// Pagemark first.
    pub(super) designs: Vec<Billed>,
    /// Pagemark against each of the others.
    pub(super) break_evens: Vec<Meeting>,
    pub(super) sensitivity: Vec<Variation>,
    left_out: Vec<&'static str>,
}

/// A design's bill, and the usage behind it.
#[derive(Debug, Serialize)]
pub(super) struct Billed {
    pub(super) design: String,
    pub(super) month_usd: Bill,
    pub(super) together_usd: f64,
    /// Writing all comments for the first time, without functions.
    pub(super) first_load_usd: f64,
    /// By the name of the write.
    pub(super) write_units: BTreeMap<String, f64>,
    /// Without a filter by rating, then with 1, 2, and more ratings.
    pub(super) page_read_units: Vec<f64>,
    pub(super) items: f64,
    pub(super) dynamodb_bytes: f64,
    pub(super) redis_bytes: f64,
}

/// From how many page views for each write Pagemark is cheaper than another design.
#[derive(Debug, Serialize)]
pub(super) struct Meeting {
    pub(super) than: String,
    /// The cost of Pagemark's writes as a multiple; `None` if nothing is written.
    pub(super) writes_times: Option<f64>,
    /// By the mix: page views and writes only.
    pub(super) requests: Option<BreakEven>,
    /// Also storage, recovery and audits.
    pub(super) and_storage: Option<BreakEven>,
    /// Also Redis: all that is billed.
    pub(super) all: Option<BreakEven>,
    /// All that is billed, if every view has this many ratings: 2 and more, up to all but one.
    pub(super) all_by_ratings: BTreeMap<usize, Option<BreakEven>>,
}

/// The answer to a slightly different question.
#[derive(Debug, Serialize)]
pub(super) struct Variation {
    pub(super) what: String,
    /// In the order of the designs.
    pub(super) month_usd: Vec<f64>,
    /// Page views for each write from which on Pagemark is cheaper than each of the others.
    pub(super) break_evens: Vec<Option<BreakEven>>,
}

/// A question's designs and load.
struct Compared<'compared> {
    question: &'compared Question,
    designs: [Design; 3],
    workload: Workload,
    prices: &'compared Prices,
}

impl<'compared> Compared<'compared> {
    fn new(question: &'compared Question, prices: &'compared Prices) -> anyhow::Result<Self> {
        Ok(Self { question, designs: designs(&question.shape)?, workload: question.workload(), prices })
    }

    fn bill(&self, usage: &Usage) -> Bill {
        Bill::of(usage, &self.workload, self.prices)
    }

    /// The break-even with views in this mix, per write; `None` if nothing is written and it depends on the views.
    fn break_even(&self, theirs: &Design, mix: &[f64], scope: Scope) -> Option<BreakEven> {
        let [ours, ..] = &self.designs;
        let designs = (&ours.usage(mix), &theirs.usage(mix));
        break_even_by_mix(designs, &self.workload, ONE_KIND, scope, self.prices).per_write(self.question.writes)
    }

    fn meeting(&self, theirs: &Design) -> Meeting {
        let [ours, ..] = &self.designs;
        let mix = &self.question.mix;
        let by_mix = |scope| self.break_even(theirs, mix, scope);
        let by_ratings = |ratings| {
            let mix = self.question.with_all_views_of(ratings).mix;
            (ratings, self.break_even(theirs, &mix, Scope::AndRedis))
        };
        Meeting {
            than: theirs.name().to_owned(),
            writes_times: write_cost_times((&ours.usage(mix), &theirs.usage(mix)), &self.workload, self.prices),
            requests: by_mix(Scope::Requests),
            and_storage: by_mix(Scope::AndStorage),
            all: by_mix(Scope::AndRedis),
            all_by_ratings: (2..mix.len()).map(by_ratings).collect(),
        }
    }

    fn billed(&self, design: &Design) -> Billed {
        let usage = design.usage(&self.question.mix);
        let month_usd = self.bill(&usage);
        let load = Workload { writes: [self.question.comments, 0.0, 0.0, 0.0], ..Workload::default() };
        Billed {
            design: design.name().to_owned(),
            month_usd,
            together_usd: month_usd.total(Scope::AndRedis),
            first_load_usd: Bill::of(&usage, &load, self.prices).writes,
            write_units: write_names().zip(usage.write.map(|write| write.write_units)).collect(),
            page_read_units: design.page_read_units.clone(),
            items: design.items,
            dynamodb_bytes: usage.table_bytes + usage.index_bytes,
            redis_bytes: usage.redis_bytes,
        }
    }

    fn variation(&self, what: String) -> Variation {
        let [_, others @ ..] = &self.designs;
        let mix = &self.question.mix;
        let month = |design: &Design| self.bill(&design.usage(mix)).total(Scope::AndRedis);
        Variation {
            what,
            month_usd: self.designs.iter().map(month).collect(),
            break_evens: others.iter().map(|theirs| self.break_even(theirs, mix, Scope::AndRedis)).collect(),
        }
    }
}

impl Answer {
    /// # Errors
    /// When an item cannot be made, which is a bug.
    pub(super) fn to(question: Question, prices: &Prices) -> anyhow::Result<Self> {
        let compared = Compared::new(&question, prices)?;
        let [_, others @ ..] = &compared.designs;
        let variations = [("as asked".to_owned(), question.clone())].into_iter().chain(variations(&question));
        Ok(Self {
            region: prices.region.clone(),
            prices_looked_up: prices.looked_up.clone(),
            designs: compared.designs.iter().map(|design| compared.billed(design)).collect(),
            break_evens: others.iter().map(|theirs| compared.meeting(theirs)).collect(),
            sensitivity: variations
                .map(|(what, question)| Ok(Compared::new(&question, prices)?.variation(what)))
                .collect::<anyhow::Result<_>>()?,
            left_out: LEFT_OUT.lines().collect(),
            question,
        })
    }
}

/// Questions that differ from this one in one thing.
fn variations(base: &Question) -> Vec<(String, Question)> {
    let shaped = |what: String, shape: Shape| (what, Question { shape, ..base.clone() });
    let shape = || base.shape.clone();
    let texts =
        TEXT_BYTES.map(|text_bytes| shaped(format!("text: {text_bytes} bytes"), Shape { text_bytes, ..shape() }));
    let half = base.mix.len().div_ceil(2);
    let mixes = [
        ("mix: no filter by rating".to_owned(), base.with_all_views_of(0)),
        (format!("mix: all by {half} rating{}", if half == 1 { "" } else { "s" }), base.with_all_views_of(half)),
    ];
    let depths = DEPTHS.map(|depth| shaped(format!("depth: every view page {depth}"), Shape { depth, ..shape() }));
    let values = RATING_VALUES
        .map(|values| (format!("ratings: {values} values, 2^{values} items"), base.with_rating_values(values)));
    let languages = shaped(format!("languages: {MANY_LANGUAGES}"), Shape { languages: MANY_LANGUAGES, ..shape() });
    let all = texts.into_iter().chain(mixes).chain(depths).chain(values).chain([languages]);
    all.filter(|(_, question)| question != base).collect()
}

/// The names of [`Billed::write_units`], in the order of a comment's life.
pub(super) fn write_names() -> impl Iterator<Item = String> {
    Write::VARIANTS.iter().map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::cost::question::tests::asked;

    fn answer(line: &str) -> Answer {
        Answer::to(asked(line).unwrap(), &Prices::published().unwrap()).unwrap()
    }

    /// The rows of a kind, in their order, after the question itself.
    fn varied<'a>(answer: &'a Answer, kind: &str) -> Vec<&'a Variation> {
        let rows = answer.sensitivity.iter();
        rows.filter(|row| row.what == "as asked" || row.what.starts_with(kind)).collect()
    }

    #[test]
    fn the_example() {
        expect![[r#"
            A month with 10,000,000 comments of 400 bytes, 1,000,000 writes and 100,000,000 page views.
            Page views: 75, 10, 5, 5, 5 % without filter by rating, by 1, by 2, ... ratings.
            Prices: us-east-1, looked up on 2026-11-20.
            "Counters" has Pagemark's features except page numbers: pages show totals and counts.

            | US dollars a month                      | Pagemark | four indexes | four indexes, counters |
            |-----------------------------------------|----------|--------------|------------------------|
            | page views                              |    25.00 |        32.50 |                  38.75 |
            | writes                                  |    43.54 |         3.16 |                   6.13 |
            | functions                               |     0.42 |         0.00 |                   0.00 |
            | storage in table and indexes            |   113.41 |         9.41 |                   9.41 |
            | point-in-time recovery                  |    45.01 |         1.67 |                   1.67 |
            | audits                                  |    15.52 |         0.00 |                   0.00 |
            | Redis                                   |   184.54 |         0.00 |                   0.00 |
            | together                                |   427.44 |        46.74 |                  55.96 |
            | once: the first load of all comments    |   431.25 |        31.25 |                  62.50 |
            | write units: insert                     |       68 |            5 |                     10 |
            | write units: text edit                  |       68 |            5 |                      5 |
            | write units: rating change              |      100 |            7 |                     12 |
            | write units: delete                     |       68 |            5 |                     10 |
            | read units: page without filter         |        2 |            2 |                    2.5 |
            | read units: page of 1 rating            |        2 |            2 |                    2.5 |
            | read units: page of 2 ratings           |        2 |            4 |                    4.5 |
            | read units: page of 3 ratings           |        2 |            6 |                    6.5 |
            | read units: page of 4 ratings           |        2 |            8 |                    8.5 |
            | items of a comment in the table         |       32 |            1 |                      1 |
            | bytes of a comment in table and indexes |   45,363 |        3,766 |                  3,766 |
            | bytes of a comment in Redis             |      454 |            0 |                      0 |

            From how many page views for each write Pagemark is cheaper:
            | billed                              | than four indexes | than four indexes, counters |
            |-------------------------------------|-------------------|-----------------------------|
            | page views and writes only          |          from 544 |                    from 275 |
            | and storage, recovery, audits       |        from 2,715 |                  from 1,459 |
            | and Redis: all                      |        from 5,176 |                  from 2,802 |
            | all, every view by 2 ratings        |        from 1,553 |                  from 1,233 |
            | all, every view by 3 ratings        |          from 776 |                    from 685 |
            | all, every view by 4 ratings        |          from 518 |                    from 474 |
            | cost of a write, functions included |        13.9 times |                   7.2 times |

            The same month with one thing changed, all that is billed:
            | changed                        | Pagemark | four indexes | four indexes, counters | cheaper than four indexes | cheaper than four indexes, counters |
            |--------------------------------|----------|--------------|------------------------|---------------------------|-------------------------------------|
            | as asked                       |   427.44 |        46.74 |                  55.96 |                from 5,176 |                          from 2,802 |
            | text: 100 bytes                |   341.12 |        26.14 |                  35.36 |                from 8,499 |                          from 3,158 |
            | text: 1000 bytes               |   634.97 |        82.97 |                  92.78 |                from 4,306 |                          from 2,898 |
            | text: 4000 bytes               | 1,590.33 |       249.68 |                 261.27 |                from 4,147 |                          from 3,475 |
            | mix: no filter by rating       |   427.44 |        39.24 |                  48.46 |                     never |                          from 6,164 |
            | mix: all by 3 ratings          |   427.44 |        89.24 |                  98.46 |                  from 776 |                            from 685 |
            | depth: every view page 10      |   427.44 |       339.24 |                 348.46 |                  from 129 |                            from 126 |
            | depth: every view page 100     |   427.44 |     3,264.24 |               3,273.46 |                 from 12.0 |                           from 11.9 |
            | ratings: 3 values, 2^3 items   |   269.26 |        40.49 |                  49.71 |               from 18,401 |                          from 3,027 |
            | ratings: 8 values, 2^8 items   | 1,909.57 |        46.74 |                  55.96 |               from 24,938 |                         from 13,581 |
            | ratings: 10 values, 2^10 items | 7,004.72 |        46.74 |                  55.96 |               from 92,873 |                         from 50,636 |
            | languages: 100                 |   427.44 |        46.74 |                  68.46 |                from 5,176 |                          from 1,468 |

            Left out, because it is equal in all designs: API, load balancer, logs, data to readers, records of products.
            Left out of Pagemark: alarms, secrets, the repair job's function and the journal, some dollars (docs/deploy.md).
            Left out of all: free tiers, reserved capacity, taxes, and caches in front (DAX, a CDN).
            Assumed: all comments have the same length, all pages are full. Function time and Redis bytes are measured.
        "#]].assert_eq(&answer("").to_string());
    }

    #[test]
    fn twice_the_views_cost_twice_as_much_and_change_nothing_else() {
        let (once, twice) = (answer("--views 50M"), answer("--views 100M"));
        for (once, twice) in once.designs.iter().zip(&twice.designs) {
            assert!(once.month_usd.page_views > 0.0);
            let doubled = Bill { page_views: 2.0 * once.month_usd.page_views, ..once.month_usd };
            assert_eq!(doubled, twice.month_usd);
        }
    }

    #[test]
    fn with_as_many_views_as_the_break_even_both_bills_are_equal() {
        for line in ["", "--text 1500 --mix 20,20,20,20,20", "--ratings 3 --mix 0,0,100", "--depth 7 --writes 3M"] {
            let found = answer(line);
            for (place, meeting) in found.break_evens.iter().enumerate() {
                let Some(BreakEven::From(views)) = meeting.all else { panic!("{line}: {meeting:?}") };
                let views = views * found.question.writes;
                let at =
                    Answer::to(Question { views, ..found.question.clone() }, &Prices::published().unwrap()).unwrap();
                let (ours, theirs) = (at.designs[0].together_usd, at.designs[place + 1].together_usd);
                assert!((ours / theirs - 1.0).abs() < 1e-9, "{line}: {ours} and {theirs}");
                assert_eq!(at.break_evens[place].all, meeting.all);
            }
        }
    }

    #[test]
    fn longer_texts_more_values_and_deeper_pages_never_cost_less() {
        let found = answer("--text 50 --ratings 2 --mix 100 --depth 1");
        for kind in ["text:", "ratings:", "depth:"] {
            let rows = varied(&found, kind);
            assert!(rows.len() > 2, "{kind}");
            for (less, more) in rows.iter().zip(rows.iter().skip(1)) {
                let pairs = || less.month_usd.iter().zip(&more.month_usd);
                assert!(pairs().all(|(less, more)| less <= more), "{less:?} {more:?}");
                assert!(pairs().any(|(less, more)| less < more), "{less:?} {more:?}");
            }
        }
    }

    #[test]
    fn filters_by_more_ratings_and_deeper_pages_favour_pagemark() {
        let found = answer("");
        let rows = varied(&found, "depth:");
        assert!(rows.iter().all(|row| row.month_usd[0] == rows[0].month_usd[0]), "{rows:?}");
        let views = |break_even: Option<BreakEven>| match break_even {
            Some(BreakEven::From(views)) => views,
            other => panic!("{other:?}"),
        };
        for meeting in &found.break_evens {
            let by_ratings: Vec<f64> = meeting.all_by_ratings.values().map(|all| views(*all)).collect();
            assert!(by_ratings.len() == 3 && by_ratings.is_sorted_by(|few, many| few > many), "{by_ratings:?}");
            // What is counted can only raise the number of views that it takes.
            let [requests, storage, all] = [meeting.requests, meeting.and_storage, meeting.all].map(views);
            assert!(requests < storage && storage < all, "{meeting:?}");
        }
    }

    #[test]
    fn a_month_without_anything_has_neither_nan_nor_infinity() {
        for line in ["--comments 0", "--writes 0", "--views 0", "--comments 0 --writes 0 --views 0 --redis-bytes 0"] {
            let found = answer(line);
            let text = found.to_string();
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            // JSON has null in place of what is not a number.
            let nulls = serde_json::to_string(&found).unwrap().matches("null").count();
            assert!(nulls == 0 || found.question.writes == 0.0, "{line}: {nulls}");
            assert!(found.designs.iter().all(|billed| billed.together_usd.is_finite()), "{line}");
        }
    }
}
