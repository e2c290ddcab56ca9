//! The pages that are compared, and how each design reads them: by number, by a cursor, and with
//! the highest rating first.
//!
//! **With the highest rating first**, each rating is one partition in all designs: a filter key of
//! Pagemark, and `byRating` of the four indexes. So a page is a part of one rating, or one more
//! part for each further rating that it reaches. The page index first counts the ratings, then
//! names the comments. Four indexes alone learn from their cursor where a part begins.
//!
//! **By a cursor**, Pagemark asks the page index and the table in parallel, as its API does. Four
//! indexes need no page index for it, unless one BatchGetItem reads the page.

use std::sync::Arc;

use anyhow::Context;
use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
use four_index::ReadCost;
use futures_util::future::try_join_all;
use model::{Cd, Comment};

use super::contestants::{ANY_RATING, Ask, Contestants, Reader};
use crate::{
    listing::{ExpectedListing, PAGE_SIZE},
    report::{FOUR_INDEXES, FOUR_INDEXES_BATCH, FOUR_INDEXES_PAGE_INDEX, PAGEMARK},
    stores::bare_query,
};

/// The designs whose pages are compared.
pub(super) const DESIGNS: [&str; 4] = [
    PAGEMARK,
    FOUR_INDEXES,
    FOUR_INDEXES_PAGE_INDEX,
    FOUR_INDEXES_BATCH,
];

/// How a page is asked for.
#[derive(Clone)]
enum FoundBy {
    Number,
    Cursor,
    /// By number in the order of these ratings.
    Ratings(Vec<Arc<ExpectedListing>>),
}

#[derive(Clone)]
pub(super) struct ComparedPage {
    /// Such as "middle page, rating 1.4.5".
    pub(super) name: String,
    /// How many ratings its filter names, 0 for any, if it is one of the pages by filter.
    pub(super) ratings: Option<usize>,
    found_by: FoundBy,
    /// One, or one for each rating that the page reaches.
    asks: Vec<Ask>,
}

/// What a page took, and its comments.
pub(super) struct ReadPage {
    pub(super) comments: Vec<Comment>,
    /// Pagemark's is that of [`ComparedPage::pagemark_cost`].
    pub(super) cost: ReadCost,
}

impl ComparedPage {
    pub(super) fn of_number(
        name: impl Into<String>,
        listing: &Arc<ExpectedListing>,
        number: u64,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            name: name.into(),
            ratings: None,
            found_by: FoundBy::Number,
            asks: vec![Ask::page(listing, number)?],
        })
    }

    /// The middle page of a filter.
    fn of_filter(listing: &Arc<ExpectedListing>) -> anyhow::Result<Self> {
        let name = match listing.key.filter.ratings() {
            Some(ratings) => format!("middle page, rating {ratings}"),
            None => "middle page, rating any".to_owned(),
        };
        Ok(Self {
            ratings: Some(listing.named_ratings()),
            ..Self::of_number(name, listing, middle(listing))?
        })
    }

    /// The page with so many comments before it, in the order of ratings.
    fn of_ratings(
        name: &str,
        ratings: &[Arc<ExpectedListing>],
        skip: usize,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            name: format!("{name}, highest rating first"),
            ratings: None,
            found_by: FoundBy::Ratings(ratings.to_vec()),
            asks: parts(ratings, skip)?,
        })
    }

    /// The units and calls of Pagemark, as the service counts them.
    pub(super) async fn pagemark_cost(&self, reader: &Reader) -> anyhow::Result<ReadCost> {
        let mut cost = ReadCost::default();
        for ask in &self.asks {
            let start = reader.named(ask).await?.first().and_then(Cd::just_after);
            let query = bare_query(&reader.pages.table, &ask.listing.key, start.as_ref())?;
            let answer = query
                .limit(i32::try_from(ask.count)?)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .send()
                .await?;
            let consumed = answer.consumed_capacity().context("units")?;
            cost.requests += 1;
            cost.read_units += consumed.capacity_units().context("units")?;
        }
        Ok(cost)
    }

    /// Refuses other comments than those of the page.
    pub(super) fn expect(&self, mut shown: &[Comment]) -> anyhow::Result<()> {
        for ask in &self.asks {
            let (of_part, others) = shown.split_at(ask.count.min(shown.len()));
            ask.expect(of_part)?;
            shown = others;
        }
        Ok(())
    }
}

/// The pages whose figures are reported.
pub(super) fn reported(contestants: &Contestants) -> anyhow::Result<Vec<ComparedPage>> {
    let ratings = &contestants.ratings;
    let any = contestants.stores.listing(ANY_RATING)?;
    let mut pages = vec![
        ComparedPage::of_number("front page", any, 1)?,
        ComparedPage::of_number("page 2", any, 2)?,
        ComparedPage {
            found_by: FoundBy::Cursor,
            ..ComparedPage::of_number("middle page, by cursor", any, middle(any))?
        },
    ];
    for listing in &contestants.stores.listings {
        pages.push(ComparedPage::of_filter(listing)?);
    }
    let skip = contestants.comments.len() / 2 / PAGE_SIZE * PAGE_SIZE;
    pages.push(ComparedPage::of_ratings("middle page", ratings, skip)?);
    Ok(pages)
}

/// The page on which the highest rating ends and the next one begins.
pub(super) fn of_two_ratings(contestants: &Contestants) -> anyhow::Result<ComparedPage> {
    let ratings = &contestants.ratings;
    let highest = usize::try_from(ratings.first().context("a rating")?.total())?;
    // With a page that ends with the rating, no page has two ratings: then half of each is read.
    let border = match highest % PAGE_SIZE {
        0 => highest - PAGE_SIZE / 2,
        shown => highest - shown,
    };
    ComparedPage::of_ratings("page of two ratings", ratings, border)
}

pub(super) fn middle(listing: &ExpectedListing) -> u64 {
    listing.pages().div_ceil(2)
}

/// The parts of the page with so many comments before it.
fn parts(ratings: &[Arc<ExpectedListing>], mut skip: usize) -> anyhow::Result<Vec<Ask>> {
    let mut parts = Vec::new();
    let mut remaining = PAGE_SIZE;
    for listing in ratings {
        let total = usize::try_from(listing.total()).unwrap_or(usize::MAX);
        let count = total.saturating_sub(skip).min(remaining);
        if count > 0 {
            parts.push(Ask::new(listing, skip, count)?);
            remaining -= count;
        }
        skip = skip.saturating_sub(total);
    }
    Ok(parts)
}

impl Reader {
    /// Reads a page as a design does. Its parts are read in parallel.
    pub(super) async fn page(&self, page: &ComparedPage, design: &str) -> anyhow::Result<ReadPage> {
        if let FoundBy::Ratings(ratings) = &page.found_by
            && design != FOUR_INDEXES
        {
            self.totals(ratings).await?;
        }
        let by_cursor = matches!(page.found_by, FoundBy::Cursor);
        let parts = page
            .asks
            .iter()
            .map(|ask| self.part(ask, by_cursor, design));
        let mut read = ReadPage {
            comments: Vec::new(),
            cost: ReadCost::default(),
        };
        for part in try_join_all(parts).await? {
            read.comments.extend(part.comments);
            read.cost.requests += part.cost.requests;
            read.cost.read_units += part.cost.read_units;
            read.cost.items_discarded += part.cost.items_discarded;
        }
        Ok(read)
    }

    async fn part(&self, ask: &Ask, by_cursor: bool, design: &str) -> anyhow::Result<ReadPage> {
        let page = match (design, by_cursor) {
            (PAGEMARK, _) => {
                let comments = if by_cursor {
                    self.pagemark_by_cursor(ask).await?
                } else {
                    self.pagemark(ask).await?
                };
                let cost = ReadCost::default();
                return Ok(ReadPage { comments, cost });
            }
            (FOUR_INDEXES, _) | (FOUR_INDEXES_PAGE_INDEX, true) => self.four_index(ask).await?,
            (_, true) => self.batch_by_cursor(ask).await?,
            (_, false) => {
                let in_batch = design == FOUR_INDEXES_BATCH;
                self.four_index_by_number(ask, in_batch).await?
            }
        };
        Ok(ReadPage {
            comments: page.comments,
            cost: page.cost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stores::TableStore;

    #[tokio::test]
    async fn every_design_reads_every_compared_page() {
        let store = TableStore::start().await.unwrap();
        let contestants = Contestants::load(store, 150).await.unwrap();
        let reader = contestants.reader();
        let mut pages = reported(&contestants).unwrap();
        pages.push(of_two_ratings(&contestants).unwrap());
        for page in pages {
            for design in DESIGNS {
                let read = reader.page(&page, design).await.unwrap();
                page.expect(&read.comments).unwrap();
            }
        }
        contestants.stores.store.stop().await;
    }

    #[tokio::test]
    async fn both_designs_read_a_page_by_one_query_for_each_rating() {
        let store = TableStore::start().await.unwrap();
        let contestants = Contestants::load(store, 150).await.unwrap();
        let reader = contestants.reader();
        let of_one = reported(&contestants).unwrap().pop().unwrap();
        let of_two = of_two_ratings(&contestants).unwrap();
        for (queries, page) in [(1, of_one), (2, of_two)] {
            let ours = page.pagemark_cost(&reader).await.unwrap();
            let theirs = reader.page(&page, FOUR_INDEXES).await.unwrap().cost;
            assert_eq!([ours, theirs].map(|cost| cost.requests), [queries; 2]);
        }
        contestants.stores.store.stop().await;
    }
}
