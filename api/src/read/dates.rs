//! Where the comments of a month or a day are, by ranks: the page index counts the comments up to an instant, so
//! nothing is scanned.
//!
//! | what | calls of the page index |
//! | --- | --- |
//! | [`place`]: the page for a date | 2 |
//! | [`calendar`]: the years, and the months of one | 3: the two ends, then at most [`YEARS_MAX`] + 11 counts in one |
//!
//! All counts of a calendar are of one moment.

use std::collections::BTreeMap;

use model::{CommentId, Order, Period, Timestamp};
use page_index::Ends;

use super::ListingQuery;
use crate::{error::ApiError, store::StoreClients};

/// The most years that a calendar lists. Older comments are counted in the oldest of them.
const YEARS_MAX: u16 = 50;

/// The number of months in a year.
const MONTHS: u8 = 12;

/// The place of the newest comment of a period, or before it.
#[derive(Debug)]
pub(crate) struct DatedPlace {
    /// Number of comments that the filter matches.
    pub(crate) total: u64,
    /// Number of older ones: the comment's rank, counted from the oldest. 0 when every comment is later.
    pub(crate) rank: u64,
    /// The comment, where its id is known at no further cost.
    pub(crate) id: Option<CommentId>,
}

/// Finds the newest comment of a period, or else the newest before it, or else the oldest of all.
///
/// # Errors
/// The page index is unavailable.
pub(crate) async fn place(stores: &StoreClients, query: &ListingQuery, period: Period) -> Result<DatedPlace, ApiError> {
    let newest_first = ListingQuery { order: Order::Newest, ..query.clone() };
    // The start key of the second place is the comment in the first.
    let (all, until) = (newest_first.page_start(0, None), newest_first.page_start(1, Some(period.end())));
    let (all, until) = tokio::join!(stores.page_start(&all), stores.page_start(&until));
    let (all, until) = all.zip(until).ok_or(ApiError::IndexUnavailable)?;
    Ok(DatedPlace {
        total: all.total.max(until.total),
        rank: until.total.saturating_sub(1),
        id: until.before.map(|newest| newest.id),
    })
}

/// How many comments a filter matches in each year, and in each month of one year.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// The newest year comes first.
    pub(crate) years: Vec<(u16, u64)>,
    /// The year whose months are counted.
    pub(crate) year: u16,
    /// The months of that year, the newest first.
    pub(crate) months: Vec<(Period, u64)>,
    /// Whether older comments are counted in the oldest year.
    pub(crate) is_cut: bool,
}

/// Counts the comments of a filter by years, and those of one year by months. Without a wanted year, or where the wanted
/// one is not listed, it is the newest. `None` without comments.
///
/// # Errors
/// The page index is unavailable.
pub(crate) async fn calendar(
    stores: &StoreClients,
    query: &ListingQuery,
    wanted: Option<u16>,
) -> Result<Option<Calendar>, ApiError> {
    let extent = stores.extent(&query.page_start(0, None)).await.ok_or(ApiError::IndexUnavailable)?;
    let Some(Ends { newest, oldest }) = extent.ends else { return Ok(None) };
    let (last, first) = (Period::year_of(newest.created_at), Period::year_of(oldest.created_at));
    let shown_from = first.max(last.saturating_sub(YEARS_MAX - 1));
    let year = wanted.filter(|year| (shown_from..=last).contains(year)).unwrap_or(last);
    let periods = boundaries(shown_from, last, year);
    let ends: Vec<Timestamp> = periods.iter().map(|period| period.end()).collect();
    let counts = stores.counts_until(&query.product, &query.filter, &ends).await.ok_or(ApiError::IndexUnavailable)?;
    let counted = periods.into_iter().zip(counts).collect();
    Ok(Some(Calendar { is_cut: first < shown_from, ..cut(&counted, shown_from, last, year) }))
}

/// The periods up to whose ends comments are counted: the years, and the months of one year.
fn boundaries(first: u16, last: u16, year: u16) -> Vec<Period> {
    let years = (first..=last).map(|year| Period::month(year, MONTHS));
    years.chain((1..MONTHS).map(|month| Period::month(year, month))).collect()
}

/// Makes the calendar from the numbers of comments up to the ends of periods.
fn cut(counted: &BTreeMap<Period, u64>, first: u16, last: u16, year: u16) -> Calendar {
    let until = |year: u16, month: u8| counted.get(&Period::month(year, month)).copied().unwrap_or(0);
    let before = |year: u16| if year > first { until(year - 1, MONTHS) } else { 0 };
    let of_year = |year: u16| (year, until(year, MONTHS).saturating_sub(before(year)));
    let of_month = |month: u8| {
        let before = if month > 1 { until(year, month - 1) } else { before(year) };
        (Period::month(year, month), until(year, month).saturating_sub(before))
    };
    Calendar {
        years: (first..=last).rev().map(of_year).collect(),
        year,
        months: (1..=MONTHS).rev().map(of_month).collect(),
        is_cut: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_and_months_are_counted_by_differences() {
        // 2 comments in 2021, none in 2022, 5 in 2023: 1 in January, 4 in December.
        let counted = boundaries(2021, 2023, 2023).into_iter();
        let until = |period: Period| match period.end() {
            end if end == Period::month(2023, MONTHS).end() => 7,
            end if end < Period::month(2023, 1).end() => 2,
            _ => 3,
        };
        let counted: BTreeMap<Period, u64> = counted.map(|period| (period, until(period))).collect();
        assert_eq!(counted.len(), 3 + 11);
        let calendar = cut(&counted, 2021, 2023, 2023);
        assert_eq!(calendar.years, [(2023, 5), (2022, 0), (2021, 2)]);
        let months: Vec<u64> = calendar.months.iter().map(|(_, count)| *count).collect();
        assert_eq!(months, [4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(calendar.months.first().unwrap().0.to_string(), "2023-12");
    }

    #[test]
    fn the_number_of_counts_is_bounded() {
        assert_eq!(boundaries(9_999 - YEARS_MAX + 1, 9_999, 9_999).len(), usize::from(YEARS_MAX) + 11);
        assert_eq!(boundaries(2024, 2024, 2024).len(), 12);
    }
}
