//! The number of page views at which one design becomes cheaper than another.
//!
//! Only the number of page views of k ratings varies in a month. So a design's bill is a line: the month's cost without
//! these views, plus the cost of each. Two such lines meet once or not at all.

use serde::Serialize;

use super::{
    bill::{Bill, Scope, page_view_usd},
    prices::Prices,
    usage::{PerRatings, Usage, Workload},
};

/// The numbers of page views per month at which one design is cheaper than another.
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
    /// The break-even in page views per write. `None` if it depends on their number and nothing is written.
    pub(crate) fn per_write(self, writes: f64) -> Option<Self> {
        match self {
            Self::Always | Self::Never => Some(self),
            Self::From(views) if writes > 0.0 => Some(Self::From(views / writes)),
            Self::Below(views) if writes > 0.0 => Some(Self::Below(views / writes)),
            Self::From(_) | Self::Below(_) => None,
        }
    }

    /// As text for a table, such as "from 21.3".
    pub(crate) fn text(self) -> String {
        match self {
            Self::Always => "always".to_owned(),
            Self::From(views) => format!("from {views:.1}"),
            Self::Below(views) => format!("below {views:.1}"),
            Self::Never => "never".to_owned(),
        }
    }
}

/// Two designs' bills as a function of the page views with one number of ratings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lines {
    /// Cost of the month without these page views: ours, theirs.
    pub(super) without_usd: (f64, f64),
    /// Cost of each of these page views: ours, theirs.
    pub(super) view_usd: (f64, f64),
}

impl Lines {
    /// The lines for a month over the page views of this many ratings. The month's own number of them does not matter.
    pub(super) fn of(
        designs: (&Usage, &Usage),
        workload: &Workload,
        ratings: usize,
        scope: Scope,
        prices: &Prices,
    ) -> Self {
        let mut mix = PerRatings::default();
        if let Some(share) = mix.get_mut(ratings - 1) {
            *share = 1.0;
        }
        Self::of_mix(designs, workload, mix, scope, prices)
    }

    /// The lines for a month over page views in these shares, which add up to 1. The month's own number of views of
    /// these kinds does not matter; its views of other kinds stay.
    fn of_mix(
        (ours, theirs): (&Usage, &Usage),
        workload: &Workload,
        mix: PerRatings<f64>,
        scope: Scope,
        prices: &Prices,
    ) -> Self {
        let mut without = workload.clone();
        for (views, share) in without.page_views.iter_mut().zip(mix) {
            if share > 0.0 {
                *views = 0.0;
            }
        }
        let month = |usage: &Usage| Bill::of(usage, &without, prices).total(scope);
        let view = |usage: &Usage| {
            let units = mix.iter().zip(usage.page_read_units).map(|(share, units)| share * units).sum();
            page_view_usd(units, prices)
        };
        Self { without_usd: (month(ours), month(theirs)), view_usd: (view(ours), view(theirs)) }
    }

    /// The numbers of these page views at which ours is cheaper.
    pub(super) fn break_even(&self) -> BreakEven {
        let more_without = self.without_usd.0 - self.without_usd.1;
        let more_a_view = self.view_usd.0 - self.view_usd.1;
        if more_a_view < 0.0 {
            if more_without <= 0.0 { BreakEven::Always } else { BreakEven::From(more_without / -more_a_view) }
        } else if more_without < 0.0 {
            if more_a_view > 0.0 { BreakEven::Below(-more_without / more_a_view) } else { BreakEven::Always }
        } else {
            BreakEven::Never
        }
    }
}

/// The numbers of page views of all kinds, in these shares, at which ours is cheaper. The shares add up to 1.
pub(crate) fn break_even_by_mix(
    designs: (&Usage, &Usage),
    workload: &Workload,
    mix: PerRatings<f64>,
    scope: Scope,
    prices: &Prices,
) -> BreakEven {
    Lines::of_mix(designs, workload, mix, scope, prices).break_even()
}

/// The cost of our writes in a month, functions included, as a multiple of theirs. `None` if theirs cost nothing.
pub(crate) fn write_cost_times((ours, theirs): (&Usage, &Usage), workload: &Workload, prices: &Prices) -> Option<f64> {
    let [ours, theirs] = [ours, theirs].map(|usage| {
        let bill = Bill::of(usage, workload, prices);
        bill.writes + bill.functions
    });
    (theirs > 0.0).then(|| ours / theirs)
}

/// The value for a number of ratings, from 1 to 5.
pub(super) fn of_ratings<T: Copy + Default>(values: PerRatings<T>, ratings: usize) -> T {
    values.get(ratings - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::money::{
        VIEW_SHARES, WRITE_SHARES, WriteUsage,
        bill::tests::{a_query_a_rating, one_query, workload},
    };

    fn lines(without_usd: (f64, f64), view_usd: (f64, f64)) -> BreakEven {
        Lines { without_usd, view_usd }.break_even()
    }

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
            assert_eq!(lines(without_usd, view_usd), expected, "{without_usd:?} {view_usd:?}");
        }
    }

    #[test]
    fn break_evens_by_hand() {
        let (ours, theirs, prices) = (one_query(), a_query_a_rating(), Prices::published().unwrap());
        for (ratings, scope, views_of_three, inserts, expected) in [
            // A million writes cost 7.5 + 0.1266668 and 1.25, so 6.3766668 more; a million views of three ratings cost
            // 0.0625 and 0.1875, so 0.125 less. 6.3766668 / 0.125 = 51.01. How many the month has of them does not
            // matter.
            (3, Scope::Requests, 0.0, 1e6, "from 51.0"),
            (3, Scope::Requests, 5e6, 1e6, "from 51.0"),
            // 0.1875 less. Five million views of three ratings have saved 0.625 by then.
            (4, Scope::Requests, 0.0, 1e6, "from 34.0"),
            (4, Scope::Requests, 5e6, 1e6, "from 30.7"),
            // One rating costs the same in both designs, so the dearer writes never pay off.
            (1, Scope::Requests, 0.0, 1e6, "never"),
            // Storage 5.0 and 0.5, recovery 2.0 and 0.08, audits 0.5 and 0: 6.92 more. 13.2966668 / 0.125.
            (3, Scope::AndStorage, 0.0, 1e6, "from 106.4"),
            // Two small nodes: 37.376 more. 50.6726668 / 0.125.
            (3, Scope::AndRedis, 0.0, 1e6, "from 405.4"),
            // With a hundred times the writes, fixed costs hardly matter: (637.66668 + 44.296) / 0.125 / 100.
            (3, Scope::AndRedis, 0.0, 1e8, "from 54.6"),
            // Without writes, only what is fixed decides.
            (3, Scope::Requests, 0.0, 0.0, "always"),
            (1, Scope::Requests, 0.0, 0.0, "never"),
            // The result is a number of page views, but not per write.
            (3, Scope::AndRedis, 0.0, 0.0, "no writes"),
        ] {
            let workload = workload(views_of_three, inserts, 1e6);
            let found = Lines::of((&ours, &theirs), &workload, ratings, scope, &prices).break_even();
            let per_write = found.per_write(inserts).map_or("no writes".to_owned(), BreakEven::text);
            assert_eq!(per_write, expected, "{ratings} ratings, {scope:?}, {inserts} inserts");
        }
    }

    /// Both designs as the report of 2026-11-20 has them, with and without the other design's counters.
    fn measured() -> [Usage; 3] {
        let writes = |units: [f64; 4], reads: [f64; 4], invocations: f64, ms: [f64; 4]| {
            let places = [0, 1, 2, 3];
            places.map(|place| WriteUsage {
                write_units: units[place],
                read_units: reads[place],
                function_invocations: invocations,
                function_ms: ms[place],
            })
        };
        let pagemark = Usage {
            page_read_units: [1.0; 5],
            write: writes([67.0, 67.0, 99.0, 67.0], [3.0, 4.0, 4.0, 4.0], 2.0, [5.446, 6.13, 7.09, 3.758]),
            function_memory_gb: 0.25,
            table_bytes: 11_692.0,
            index_bytes: 11_692.0,
            redis_bytes: 518.0,
            upkeep_read_units: 6.68,
            ..Usage::default()
        };
        let four = Usage {
            page_read_units: [1.0, 2.0, 3.0, 4.0, 1.0],
            write: writes([5.0, 5.0, 7.0, 5.0], [0.0, 1.0, 1.0, 1.0], 0.0, [0.0; 4]),
            table_bytes: 498.0,
            index_bytes: 1_591.0,
            ..Usage::default()
        };
        let write = writes([10.0, 5.0, 12.0, 10.0], [0.0, 1.0, 1.0, 1.0], 0.0, [0.0; 4]);
        [pagemark, four.clone(), Usage { write, ..four }]
    }

    #[test]
    fn the_measured_designs_meet_at_ten_thousand_views_of_all_kinds_for_each_write() {
        let ([ours, theirs, counted], prices) = (measured(), Prices::published().unwrap());
        let month = Workload {
            page_views: VIEW_SHARES.map(|share| share * 1e8),
            writes: WRITE_SHARES.map(|share| share * 1e6),
            comments: 1e7,
            ..Workload::default()
        };
        let lines = |ratings| Lines::of((&ours, &theirs), &month, ratings, Scope::AndRedis, &prices);
        assert_eq!(lines(3).break_even().per_write(1e6).unwrap().text(), "from 1508.7");
        let by_mix = break_even_by_mix((&ours, &theirs), &month, VIEW_SHARES, Scope::AndRedis, &prices);
        assert_eq!(by_mix.per_write(1e6).unwrap().text(), "from 10125.0");
        let times = [&theirs, &counted].map(|other| write_cost_times((&ours, other), &month, &prices).unwrap());
        assert_eq!(times.map(|times| format!("{times:.1}")), ["13.6", "7.0"]);
        let none = Workload { writes: [0.0; 4], ..month };
        assert_eq!(write_cost_times((&ours, &theirs), &none, &prices), None);
    }

    #[test]
    fn at_the_break_even_by_mix_both_bills_are_equal() {
        let prices = Prices::published().unwrap();
        let mut rng = StdRng::seed_from_u64(19);
        let mut met = 0;
        for _ in 0..500 {
            let mut usage = || {
                let units = rng.random_range(1.0..80.0);
                Usage {
                    page_read_units: [(); 5].map(|()| rng.random_range(0.5..8.0)),
                    write: [WriteUsage { write_units: units, ..WriteUsage::default() }; 4],
                    table_bytes: rng.random_range(0.0..2e4),
                    redis_bytes: rng.random_range(-400.0_f64..400.0).max(0.0),
                    ..Usage::default()
                }
            };
            let (ours, theirs) = (usage(), usage());
            let weights: PerRatings<f64> = [(); 5].map(|()| rng.random_range(0.0..1.0));
            let mix = weights.map(|weight| weight / weights.iter().sum::<f64>());
            let month = |views: f64| Workload {
                page_views: mix.map(|share| share * views),
                writes: [1e5; 4],
                comments: 1e6,
                ..Workload::default()
            };
            // The month's own views do not matter.
            let (few, many) = (month(0.0), month(rng.random_range(1.0..1e9)));
            for scope in [Scope::Requests, Scope::AndStorage, Scope::AndRedis] {
                let break_even = break_even_by_mix((&ours, &theirs), &many, mix, scope, &prices);
                assert_eq!(break_even, break_even_by_mix((&ours, &theirs), &few, mix, scope, &prices));
                let more_at = |views: f64| {
                    let [ours, theirs] = [&ours, &theirs].map(|of| Bill::of(of, &month(views), &prices).total(scope));
                    (ours - theirs) / ours.max(theirs)
                };
                match break_even {
                    BreakEven::From(views) | BreakEven::Below(views) => {
                        assert!(more_at(views).abs() < 1e-9, "{break_even:?}");
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
