//! The comments of one large product, and stores that are filled with them.

use std::sync::Arc;

use anyhow::{Context, ensure};
use model::{Comment, Filter, ProductId, Rating, RatingSet};

use crate::{
    filled_stores::FilledStores,
    listing::{Listing, PAGE_SIZE},
    workload::Comments,
};

pub(crate) const PRODUCT: &str = "shop/item-00000";
/// The ratings of 20 consecutive comments, whose times are random. 15 of them match the union.
const RATINGS: [u64; PAGE_SIZE] = [5, 1, 5, 4, 5, 3, 5, 4, 5, 1, 5, 2, 5, 3, 5, 4, 5, 1, 5, 4];
const UNION: &str = "1.3.5";
/// With a multiple of this number of comments the last page is full, for the union too.
const FULL_PAGES: u32 = 80;

/// The product's comments: identical on every call, and at least `comments`, so that the last page is full.
pub(crate) fn drawn(comments: u32) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Comment>>> {
    let product = ProductId::parse(PRODUCT)?;
    let mut workload = Comments::new(8)?;
    let ratings = RATINGS.into_iter().cycle().take(comments.next_multiple_of(FULL_PAGES) as usize);
    Ok(ratings
        .map(move |rating| Ok(Comment { product: product.clone(), rating: Rating::new(rating)?, ..workload.draw()? })))
}

/// These comments in the order of time, the oldest first, as a shop receives them.
pub(crate) fn drawn_in_time(comments: u32) -> anyhow::Result<Vec<Comment>> {
    let mut drawn = drawn(comments)?.collect::<anyhow::Result<Vec<_>>>()?;
    drawn.sort_by_key(Comment::cd);
    Ok(drawn)
}

/// Filled stores and their listings. The last page of each listing is full.
pub(crate) struct Dataset {
    pub(crate) stores: FilledStores,
    pub(crate) all: Arc<Listing>,
    union: Option<Arc<Listing>>,
}

impl Dataset {
    /// Starts fresh stores and fills them with the product's comments.
    pub(crate) async fn fill(comments: u32, with_union: bool) -> anyhow::Result<Self> {
        let product = ProductId::parse(PRODUCT)?;
        let mut listings = vec![Listing::new(&product, Filter::ANY)];
        if with_union {
            listings.push(Listing::new(&product, Filter::new(None, Some(RatingSet::parse(UNION)?))));
        }
        let (stores, listings) = FilledStores::fill(drawn(comments)?, listings, false).await?;
        ensure!(listings.iter().all(|listing| listing.total().is_multiple_of(PAGE_SIZE as u64)), "full last pages");
        let mut listings = listings.into_iter();
        Ok(Self { stores, all: listings.next().context("a listing of all comments")?, union: listings.next() })
    }

    /// The listing of three ratings.
    ///
    /// # Errors
    /// When its items are not loaded.
    pub(crate) fn union(&self) -> anyhow::Result<&Arc<Listing>> {
        self.union.as_ref().context("the union is loaded")
    }

    pub(crate) fn listings(&self) -> Vec<Arc<Listing>> {
        [Some(&self.all), self.union.as_ref()].into_iter().flatten().cloned().collect()
    }
}
