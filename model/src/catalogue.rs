//! The product catalogue: how complete the list of products is that the table keeps beside the comments.
//!
//! The list itself only grows: a product without comments stays in it. A [`Catalogue`] states how complete the list is.
//! It is written after the products that it covers. "Written" comments come from one of the writers, with a journal
//! entry. A product is *listed* when it is in the list.
//!
//! **Invariant:** the product of every comment written in `from..to` is listed. When the catalogue is whole, the
//! product of every comment that was written before `to` and still exists is listed too. This module plans the only two
//! ways to extend a catalogue: a window of the journal whose products are all listed (`followed`), and a scan of the
//! whole table whose products are all listed (`scanned`). Windows join without gaps. Otherwise `from` starts anew and
//! the catalogue is no longer whole (`only_what_was_listed_is_vouched_for`).
//!
//! **Invariant:** a catalogue is valid only for the table for which it was written. A restored table holds state items
//! and comments of different moments.

use serde::{Deserialize, Serialize};

use crate::{id::ProductId, timestamp::Timestamp};

/// Number of partition keys that the list is spread over. A scan that lists a million products writes faster than the
/// 1,000 units per second of one key (AWS: "Best practices for designing and using partition keys effectively").
pub const CATALOGUE_SHARDS: u32 = 16;

/// The shard of the list that a product is in.
pub fn catalogue_shard(product: &ProductId) -> u32 {
    crc32fast::hash(product.as_str().as_bytes()) % CATALOGUE_SHARDS
}

/// How complete the list of products is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Catalogue {
    /// The id of the table for which it was written.
    pub table: String,
    /// The products of all comments written since this instant are listed.
    pub from: Timestamp,
    /// The end of the covered time, exclusive.
    pub to: Timestamp,
    /// Whether the products of all earlier comments are listed too.
    pub is_whole: bool,
}

/// Why the list cannot replace a scan of the table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotWhole {
    /// The table has no catalogue that was written for it.
    #[error("there is no product catalogue of this table yet")]
    None,
    /// The catalogue was started, but no scan of the table has completed since, or its coverage was interrupted.
    #[error("the product catalogue goes back to {from} only")]
    GoesBackTo {
        /// The start of its coverage.
        from: Timestamp,
    },
    /// The journal no longer reaches back to its end.
    #[error("the product catalogue ends at {to}, and the journal does not reach back to that")]
    TooOld {
        /// The end of its coverage.
        to: Timestamp,
    },
    /// A clock is or was wrong.
    #[error("the product catalogue is kept until {to}, which is later than the present: a clock is wrong, or was")]
    Later {
        /// The end of its coverage.
        to: Timestamp,
    },
}

impl Catalogue {
    /// The catalogue after all products in a window of the journal were listed.
    pub fn followed(before: Option<Self>, table: &str, from: Timestamp, to: Timestamp, present: Timestamp) -> Self {
        match before.filter(|before| before.is_believed(table, present) && from <= before.to) {
            Some(before) => Self { to: before.to.max(to), ..before },
            None => Self { table: table.to_owned(), from, to, is_whole: false },
        }
    }

    /// The catalogue after all products in a scan of the whole table were listed. The scan saw everything written
    /// before `began`.
    pub fn scanned(before: Option<Self>, table: &str, began: Timestamp, present: Timestamp) -> Self {
        match before.filter(|before| before.is_believed(table, present) && (before.is_whole || before.from <= began)) {
            Some(before) => Self { to: before.to.max(began), is_whole: true, ..before },
            None => Self { table: table.to_owned(), from: began, to: began, is_whole: true },
        }
    }

    /// The instant from which the journal must be read in addition to the list. The journal begins with `oldest`.
    ///
    /// # Errors
    /// Why the list is not sufficient.
    pub fn reaches(
        catalogue: Option<&Self>,
        table: &str,
        oldest: Timestamp,
        present: Timestamp,
    ) -> Result<Timestamp, NotWhole> {
        let Some(found) = catalogue.filter(|catalogue| catalogue.table == table) else { return Err(NotWhole::None) };
        match found {
            Self { to, .. } if *to > present => Err(NotWhole::Later { to: *to }),
            Self { is_whole: false, from, .. } => Err(NotWhole::GoesBackTo { from: *from }),
            Self { to, .. } if *to < oldest => Err(NotWhole::TooOld { to: *to }),
            Self { to, .. } => Ok(*to),
        }
    }

    fn is_believed(&self, table: &str, present: Timestamp) -> bool {
        self.table == table && self.to <= present
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_epoch_ms(ms).unwrap()
    }

    /// Runs a script with one step per line: `window FROM TO`, `scan BEGAN`, `table NAME`.
    fn check(script: &str, expected: Expect) {
        let (mut catalogue, mut table, mut told) = (None, "t".to_owned(), String::new());
        for line in script.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let instant = |place: usize| at(words[place].parse().unwrap());
            catalogue = match words[0] {
                "window" => Some(Catalogue::followed(catalogue, &table, instant(1), instant(2), at(1_000))),
                "scan" => Some(Catalogue::scanned(catalogue, &table, instant(1), at(1_000))),
                _ => {
                    table = words[1].to_owned();
                    catalogue
                }
            };
            let reaches = match Catalogue::reaches(catalogue.as_ref(), &table, at(100), at(1_000)) {
                Ok(reaches) => reaches.epoch_ms().to_string(),
                Err(why) => why.to_string(),
            };
            told.push_str(&format!("{line}: {reaches}\n"));
        }
        expected.assert_eq(&told);
    }

    #[test]
    fn a_catalogue_becomes_whole_by_a_scan_and_stays_so_by_windows_without_gaps() {
        check(
            "window 200 300\nwindow 250 400\nscan 350\nwindow 390 500\nwindow 100 200\nscan 300",
            expect![[r"
                window 200 300: the product catalogue goes back to 1970-01-01T00:00:00.200Z only
                window 250 400: the product catalogue goes back to 1970-01-01T00:00:00.200Z only
                scan 350: 400
                window 390 500: 500
                window 100 200: 500
                scan 300: 500
            "]],
        );
    }

    #[test]
    fn a_gap_another_table_and_a_clock_that_was_fast_make_it_begin_anew() {
        check(
            "scan 300\nwindow 301 400\nscan 300\nwindow 299 400\ntable u\nwindow 300 400\nscan 350\nwindow 400 2000\nwindow 900 950\nscan 950",
            expect![[r"
                scan 300: 300
                window 301 400: the product catalogue goes back to 1970-01-01T00:00:00.301Z only
                scan 300: 300
                window 299 400: 400
                table u: there is no product catalogue of this table yet
                window 300 400: the product catalogue goes back to 1970-01-01T00:00:00.300Z only
                scan 350: 400
                window 400 2000: the product catalogue is kept until 1970-01-01T00:00:02.000Z, which is later than the present: a clock is wrong, or was
                window 900 950: the product catalogue goes back to 1970-01-01T00:00:00.900Z only
                scan 950: 950
            "]],
        );
    }

    #[test]
    fn one_that_the_journal_does_not_reach_back_to_is_not_enough() {
        check(
            "scan 99\nwindow 100 200\nscan 300",
            expect![[r"
            scan 99: the product catalogue ends at 1970-01-01T00:00:00.099Z, and the journal does not reach back to that
            window 100 200: the product catalogue goes back to 1970-01-01T00:00:00.100Z only
            scan 300: 300
        "]],
        );
    }

    /// A sequence of events on a table; each takes a moment.
    #[derive(Debug, Clone)]
    enum Step {
        Write(u8),
        /// A window of the journal, between two numbers of moments ago.
        Window(i64, i64),
        /// A scan that missed only the changes of the last moments. The number says how many.
        Scan(i64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => any::<u8>().prop_map(Step::Write),
            3 => (0..12_i64, 0..4_i64).prop_map(|(from, to)| Step::Window(from, to)),
            1 => (0..4_i64).prop_map(Step::Scan),
        ];
        prop::collection::vec(step, 1..60)
    }

    proptest! {
        #[test]
        fn only_what_was_listed_is_vouched_for(steps in steps()) {
            let (mut written, mut listed): (Vec<(Timestamp, u8)>, BTreeSet<u8>) = Default::default();
            let mut catalogue: Option<Catalogue> = None;
            for (moment, step) in steps.iter().enumerate() {
                let present = at(100 + i64::try_from(moment).unwrap());
                match step {
                    Step::Write(product) => written.push((present, *product)),
                    Step::Window(from, to) => {
                        let (from, to) = (present.plus_ms(-from.max(to)), present.plus_ms(-to));
                        listed.extend(written.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, product)| product));
                        catalogue = Some(Catalogue::followed(catalogue, "t", from, to, present));
                    }
                    Step::Scan(ago) => {
                        let began = present.plus_ms(-ago);
                        listed.extend(written.iter().filter(|(at, _)| *at < began).map(|(_, product)| product));
                        catalogue = Some(Catalogue::scanned(catalogue, "t", began, present));
                    }
                }
                if let Ok(reaches) = Catalogue::reaches(catalogue.as_ref(), "t", at(0), present) {
                    let lacking = written.iter().find(|(at, product)| *at < reaches && !listed.contains(product));
                    prop_assert_eq!(lacking, None, "at {}: {:?}", moment, catalogue);
                }
            }
        }
    }
}
