//! The number of page views at which one design becomes cheaper than another.
//!
//! With the rest of a month fixed, a design's bill is a line over the number of its page views of k ratings: the
//! month's cost without them, plus the cost of each. Two such lines meet once or not at all.
//!
//! **Faster at equal money.** Where the lines meet, both designs cost the same, and the design whose page has the lower
//! latency is faster for the same money. Beyond that point it is faster and cheaper. Before that point its speed has a
//! price: its additional cost per page view, for the microseconds that it saves. A design that is not faster is never
//! the faster one at equal money.

use super::{
    bill::{Bill, Scope, page_view_usd},
    prices::Prices,
    usage::{PerRatings, Usage, Workload},
};

/// The numbers of page views per month at which one design is cheaper than another.
#[derive(Debug, Clone, Copy, PartialEq)]
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
    /// The lines for a month. The month's own number of such page views does not matter.
    pub(super) fn of(
        (ours, theirs): (&Usage, &Usage),
        workload: &Workload,
        ratings: usize,
        scope: Scope,
        prices: &Prices,
    ) -> Self {
        let mut workload = workload.clone();
        if let Some(views) = workload.page_views.get_mut(ratings - 1) {
            *views = 0.0;
        }
        let month = |usage: &Usage| Bill::of(usage, &workload, prices).total(scope);
        let view = |usage: &Usage| page_view_usd(of_ratings(usage.page_read_units, ratings), prices);
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

    /// The additional cost of ours for each of `views` page views: below 0 where ours is cheaper, `None` without any
    /// view.
    pub(super) fn more_a_view_usd(&self, views: f64) -> Option<f64> {
        let more = self.without_usd.0 - self.without_usd.1 + views * (self.view_usd.0 - self.view_usd.1);
        (views > 0.0).then(|| more / views)
    }
}

/// The value for a number of ratings, from 1 to 5.
pub(super) fn of_ratings<T: Copy + Default>(values: PerRatings<T>, ratings: usize) -> T {
    values.get(ratings - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::bill::tests::{a_query_a_rating, one_query, workload};

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

    #[test]
    fn the_price_of_being_faster_falls_to_nothing_at_the_break_even() {
        let (ours, theirs, prices) = (one_query(), a_query_a_rating(), Prices::published().unwrap());
        let lines = Lines::of((&ours, &theirs), &workload(0.0, 1e6, 0.0), 3, Scope::Requests, &prices);
        // Two page views per write: 6.3766668 / 2 - 0.125 per million.
        let price = lines.more_a_view_usd(2e6).unwrap() * 1e6;
        assert!((price - 3.0633334).abs() < 1e-9, "{price}");
        let BreakEven::From(views) = lines.break_even() else { panic!("they meet") };
        assert!(lines.more_a_view_usd(views).unwrap().abs() < 1e-12);
        assert!(lines.more_a_view_usd(2.0 * views).unwrap() < 0.0);
        assert_eq!(lines.more_a_view_usd(0.0), None);
    }
}
