//! The number of page views at which one design becomes cheaper than another.
//!
//! Only the number of page views varies. So a design's bill is a line: the month's cost without page views, plus the cost
//! of each. Two such lines meet once or not at all.

use serde::Serialize;

use super::{
    bill::{Bill, Scope, page_view_usd},
    design::Design,
    month::Month,
    prices::Prices,
};
use crate::report::figure;

/// The numbers of page views at which one design is cheaper than another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BreakEven {
    /// At any number; at zero page views both may cost the same.
    Always,
    From(f64),
    /// Below this number: its writes or its storage are cheaper, and its page views dearer.
    Below(f64),
    Never,
}

impl BreakEven {
    /// The numbers at which our design is cheaper. `without_usd` is the cost without page views, `view_usd` that of each:
    /// ours, theirs.
    pub(crate) fn of(without_usd: (f64, f64), view_usd: (f64, f64)) -> Self {
        let more_without = without_usd.0 - without_usd.1;
        let more_a_view = view_usd.0 - view_usd.1;
        if more_a_view < 0.0 {
            if more_without <= 0.0 { Self::Always } else { Self::From(more_without / -more_a_view) }
        } else if more_without < 0.0 {
            if more_a_view > 0.0 { Self::Below(-more_without / more_a_view) } else { Self::Always }
        } else {
            Self::Never
        }
    }

    /// The page views for each write of a month; `None` if they depend on the number of writes, and there are none.
    pub(super) fn per_write(
        (ours, theirs): (&Design, &Design),
        month: &Month,
        scope: Scope,
        prices: &Prices,
    ) -> Option<Self> {
        let unread = Month { views: 0.0, ..month.clone() };
        let without = |design| Bill::of(design, &unread, prices).total(scope);
        let view = |design| page_view_usd(design, &month.mix, prices);
        match Self::of((without(ours), without(theirs)), (view(ours), view(theirs))) {
            Self::From(views) if month.writes > 0.0 => Some(Self::From(views / month.writes)),
            Self::Below(views) if month.writes > 0.0 => Some(Self::Below(views / month.writes)),
            Self::From(_) | Self::Below(_) => None,
            same @ (Self::Always | Self::Never) => Some(same),
        }
    }

    /// As text for a table, such as "from 21.3".
    pub(super) fn text(self) -> String {
        match self {
            Self::Always => "always".to_owned(),
            Self::From(views) => format!("from {}", figure(views)),
            Self::Below(views) => format!("below {}", figure(views)),
            Self::Never => "never".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::money::{
        bill::tests::{a_query_a_rating, month, one_query},
        design::WriteUsage,
    };

    #[test]
    fn two_lines_meet_once_or_not_at_all() {
        for (without_usd, view_usd, expected) in [
            // Dearer writes, cheaper page views.
            ((10.0, 4.0), (1.0, 3.0), BreakEven::From(3.0)),
            // Better in both, or in one and the same in the other.
            ((4.0, 10.0), (1.0, 3.0), BreakEven::Always),
            ((4.0, 4.0), (1.0, 3.0), BreakEven::Always),
            ((4.0, 10.0), (3.0, 3.0), BreakEven::Always),
            // Cheaper writes, dearer page views.
            ((4.0, 10.0), (3.0, 1.0), BreakEven::Below(3.0)),
            // Worse in both, in one, or the same altogether.
            ((10.0, 4.0), (3.0, 1.0), BreakEven::Never),
            ((10.0, 4.0), (3.0, 3.0), BreakEven::Never),
            ((4.0, 4.0), (3.0, 1.0), BreakEven::Never),
            ((4.0, 4.0), (3.0, 3.0), BreakEven::Never),
        ] {
            assert_eq!(BreakEven::of(without_usd, view_usd), expected, "{without_usd:?} {view_usd:?}");
        }
    }

    #[test]
    fn break_evens_by_hand() {
        let (ours, theirs, prices) = (one_query(), a_query_a_rating(), Prices::published().unwrap());
        for (ratings, scope, writes, expected) in [
            // A million writes cost 7.5 + 0.1266668 and 1.25, so 6.3766668 more. A million views of three ratings cost
            // 0.0625 and 0.1875, so 0.125 less. 6.3766668 / 0.125 = 51.01.
            (3, Scope::Requests, 1e6, "from 51.0"),
            // 0.1875 less.
            (4, Scope::Requests, 1e6, "from 34.0"),
            // One rating costs the same in both designs, so the dearer writes never pay off.
            (1, Scope::Requests, 1e6, "never"),
            // Storage 5.0 and 0.5, recovery 2.0 and 0.08, audits 0.5 and 0: 6.92 more. 13.2966668 / 0.125.
            (3, Scope::AndStorage, 1e6, "from 106"),
            // Two small nodes: 37.376 more. 50.6726668 / 0.125.
            (3, Scope::AndRedis, 1e6, "from 405"),
            // With a hundred times the writes, fixed costs hardly matter: (637.66668 + 44.296) / 0.125 / 100.
            (3, Scope::AndRedis, 1e8, "from 54.6"),
            // Without writes, only what is fixed decides.
            (3, Scope::Requests, 0.0, "always"),
            (1, Scope::Requests, 0.0, "never"),
            // The result is a number of page views, but not per write.
            (3, Scope::AndRedis, 0.0, "no writes"),
        ] {
            let month = month(5e6, writes, 1e6).with_all_views_of(ratings);
            let found = BreakEven::per_write((&ours, &theirs), &month, scope, &prices);
            let text = found.map_or("no writes".to_owned(), BreakEven::text);
            assert_eq!(text, expected, "{ratings} ratings, {scope:?}, {writes} writes");
        }
    }

    #[test]
    fn the_designs_of_an_earlier_report_meet_at_ten_thousand_views_of_all_kinds_for_each_write() {
        let writes = |units: [f64; 4], reads: [f64; 4], invocations: f64, ms: [f64; 4]| {
            let places = [0, 1, 2, 3];
            places.map(|place| WriteUsage {
                write_units: units[place],
                read_units: reads[place],
                function_invocations: invocations,
                function_ms: ms[place],
            })
        };
        let ours = Design {
            page_read_units: vec![1.0; 5],
            write: writes([67.0, 67.0, 99.0, 67.0], [3.0, 4.0, 4.0, 4.0], 2.0, [5.446, 6.13, 7.09, 3.758]),
            function_memory_gb: 0.25,
            table_bytes: 11_692.0,
            index_bytes: 11_692.0,
            redis_bytes: 518.0,
            upkeep_read_units: 6.68,
            ..Design::default()
        };
        let theirs = Design {
            page_read_units: vec![1.0, 1.0, 2.0, 3.0, 4.0],
            write: writes([5.0, 5.0, 7.0, 5.0], [0.0, 1.0, 1.0, 1.0], 0.0, [0.0; 4]),
            table_bytes: 498.0,
            index_bytes: 1_591.0,
            ..Design::default()
        };
        let prices = Prices::published().unwrap();
        let month = Month::parse("--comments 10M --writes 1M --mix 75,10,5,5,5").unwrap();
        for (month, expected) in [(month.with_all_views_of(3), "from 1,519"), (month, "from 10,125")] {
            let found = BreakEven::per_write((&ours, &theirs), &month, Scope::AndRedis, &prices).unwrap();
            assert_eq!(found.text(), expected);
        }
    }

    #[test]
    fn with_as_many_views_as_the_break_even_both_bills_are_equal() {
        let prices = Prices::published().unwrap();
        let mut rng = StdRng::seed_from_u64(19);
        let mut met = 0;
        for _ in 0..500 {
            let mut design = || {
                let units = rng.random_range(1.0..80.0);
                Design {
                    page_read_units: (0..5).map(|_| rng.random_range(0.5..8.0)).collect(),
                    write: [WriteUsage { write_units: units, ..WriteUsage::default() }; 4],
                    table_bytes: rng.random_range(0.0..2e4),
                    redis_bytes: rng.random_range(-400.0_f64..400.0).max(0.0),
                    ..Design::default()
                }
            };
            let (ours, theirs) = (design(), design());
            let weights: Vec<f64> = (0..5).map(|_| rng.random_range(0.0..1.0)).collect();
            let mix: Vec<f64> = weights.iter().map(|weight| weight / weights.iter().sum::<f64>()).collect();
            let month = |views: f64| Month { mix: mix.clone(), ..month(views, 4e5, 1e6) };
            // The month's own views do not matter.
            let (few, many) = (month(0.0), month(rng.random_range(1.0..1e9)));
            for scope in [Scope::Requests, Scope::AndStorage, Scope::AndRedis] {
                let break_even = BreakEven::per_write((&ours, &theirs), &many, scope, &prices).unwrap();
                assert_eq!(Some(break_even), BreakEven::per_write((&ours, &theirs), &few, scope, &prices));
                let more_at = |views: f64| {
                    let [ours, theirs] = [&ours, &theirs].map(|of| Bill::of(of, &month(views), &prices).total(scope));
                    (ours - theirs) / ours.max(theirs)
                };
                match break_even {
                    BreakEven::From(views) | BreakEven::Below(views) => {
                        assert!(more_at(4e5 * views).abs() < 1e-9, "{break_even:?}");
                        met += 1;
                    }
                    BreakEven::Always => assert!(more_at(1.0) <= 0.0 && more_at(1e9) <= 0.0),
                    BreakEven::Never => assert!(more_at(1.0) >= 0.0 && more_at(1e9) >= 0.0),
                }
            }
        }
        assert!(met > 300, "they met {met} times only");
    }
}
