//! Pages with the highest rating first, in both designs.
//!
//! Each rating is one partition in both: a filter key of Pagemark, and `byRating` of the four
//! indexes. So a page is a part of one rating, or one more part for each further rating that it
//! reaches. Pagemark learns from the page index where a part begins, the other design from its
//! cursor.

use std::sync::Arc;

use anyhow::{Context, ensure};
use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use four_index::{MergedCursor, MergedQuery, ReadCost};
use model::{Cd, Comment, PageSize};

use super::{Contestants, contestants::Reader};
use crate::{
    listing::{ExpectedListing, PAGE_SIZE},
    report::{BenchReport, FOUR_INDEXES, PAGEMARK},
    stores::bare_query,
};

/// Consecutive comments of one rating.
struct Part {
    listing: Arc<ExpectedListing>,
    skip: usize,
    count: usize,
}

const PAGES: [&str; 2] = ["middle page", "page of two ratings"];

/// Reports units and calls of [`read`].
pub(super) async fn consume(
    report: &mut BenchReport,
    contestants: &Contestants,
) -> anyhow::Result<()> {
    let costs = read(contestants).await?;
    for (page, costs) in PAGES.into_iter().zip(costs) {
        let page = format!("{page}, highest rating first");
        for (design, cost) in [PAGEMARK, FOUR_INDEXES].into_iter().zip(costs) {
            let units = cost.read_units;
            report.add(format!("{page}, read: {design}"), units, "read units");
            let calls = f64::from(cost.requests);
            report.add(format!("{page}, calls to DynamoDB: {design}"), calls, "");
        }
    }
    Ok(())
}

/// Reads the [`PAGES`] in Pagemark, then in four indexes. Refuses pages that differ in their
/// comments or in the order.
async fn read(contestants: &Contestants) -> anyhow::Result<Vec<[ReadCost; 2]>> {
    let reader = contestants.reader();
    let ratings = &contestants.ratings;
    let highest = usize::try_from(ratings.first().context("a rating")?.total())?;
    let middle = contestants.comments.len() / 2 / PAGE_SIZE * PAGE_SIZE;
    // With a page that ends with the rating, no page has two ratings: then half of each is read.
    let border = match highest % PAGE_SIZE {
        0 => highest - PAGE_SIZE / 2,
        shown => highest - shown,
    };
    let mut costs = Vec::new();
    for skip in [middle, border] {
        let mut pagemark = ReadCost::default();
        let mut four_indexes = ReadCost::default();
        for part in parts(ratings, skip) {
            add(&mut pagemark, part.pagemark(&reader).await?);
            add(&mut four_indexes, part.four_index(&reader).await?);
        }
        costs.push([pagemark, four_indexes]);
    }
    Ok(costs)
}

fn add(sum: &mut ReadCost, cost: ReadCost) {
    sum.requests += cost.requests;
    sum.read_units += cost.read_units;
}

/// The parts of the page with so many comments before it.
fn parts(ratings: &[Arc<ExpectedListing>], mut skip: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut remaining = PAGE_SIZE;
    for listing in ratings {
        let total = usize::try_from(listing.total()).unwrap_or(usize::MAX);
        let count = total.saturating_sub(skip).min(remaining);
        if count > 0 {
            parts.push(Part {
                listing: Arc::clone(listing),
                skip,
                count,
            });
            remaining -= count;
        }
        skip = skip.saturating_sub(total);
    }
    parts
}

impl Part {
    async fn pagemark(&self, reader: &Reader) -> anyhow::Result<ReadCost> {
        let listing = &self.listing;
        let named = reader
            .pages
            .named_from(listing, self.skip as u64, self.count)
            .await?;
        let start = named.first().and_then(Cd::just_after);
        let query = bare_query(&reader.pages.table, &listing.key, start.as_ref())?;
        let answer = query
            .limit(i32::try_from(self.count)?)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await?;
        let consumed = answer.consumed_capacity().context("units")?;
        let cost = ReadCost {
            requests: 1,
            read_units: consumed.capacity_units().context("units")?,
            ..ReadCost::default()
        };
        self.expect(&reader.pages.page_after(listing, start, self.count).await?)?;
        Ok(cost)
    }

    async fn four_index(&self, reader: &Reader) -> anyhow::Result<ReadCost> {
        let query = MergedQuery {
            page_size: PageSize::new(self.count as u64)?,
            ..self.listing.four_index_query()?
        };
        let (shown, to_come) = self.listing.split_at(self.skip);
        let cursor = if shown.is_empty() {
            None
        } else {
            let shown = shown.iter().map(|(cd, rating)| (cd, *rating));
            MergedCursor::following(&query, shown, to_come.iter().map(|(_, rating)| *rating))
        };
        let page = reader.four.page(&query, cursor.as_ref()).await?;
        self.expect(&page.comments)?;
        Ok(page.cost)
    }

    fn expect(&self, shown: &[Comment]) -> anyhow::Result<()> {
        let (_, expected) = self.listing.split_at(self.skip);
        let expected = expected.iter().take(self.count).map(|(cd, _)| &cd.id);
        ensure!(
            shown.iter().map(|comment| &comment.id).eq(expected),
            "{}: other comments than {} from {} on",
            self.listing.key,
            self.count,
            self.skip
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::TableStore;

    #[tokio::test]
    async fn both_designs_read_a_page_by_one_query_for_each_rating() {
        let store = TableStore::start().await.unwrap();
        let contestants = Contestants::load(store, 150).await.unwrap();
        let costs = read(&contestants).await.unwrap();
        for (queries, costs) in [1, 2].into_iter().zip(costs) {
            assert_eq!(costs.map(|cost| cost.requests), [queries, queries]);
        }
        contestants.stores.store.stop().await;
    }
}
