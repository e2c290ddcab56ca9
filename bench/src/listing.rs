//! The comments of one large product, and those that a filter shows, page by page, as every design
//! must show them.

use std::sync::Arc;

use anyhow::ensure;
use model::{Cd, Comment, Filter, FilterKey, PageSize, ProductId, Rating, RatingSet};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

use crate::workload::Comments;

/// Everything but unreserved characters. Any other spelling of a page's address redirects to this
/// one.
const RESERVED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

pub(crate) const PAGE_SIZE: usize = 20;
pub(crate) const PRODUCT: &str = "shop/item-00000";
/// The ratings of 20 consecutive comments, whose times are random. 15 of them match the union.
const RATINGS: [u64; PAGE_SIZE] = [5, 1, 5, 4, 5, 3, 5, 4, 5, 1, 5, 2, 5, 3, 5, 4, 5, 1, 5, 4];
const UNION: &str = "1.3.5";
/// With a multiple of this number of comments the last page is full, for the union too.
const FULL_PAGES: u32 = 80;

type Listed = (Cd, Rating);

/// The product's comments: identical on every call, and at least `comments`, so that the last page
/// is full.
pub(crate) fn drawn(
    comments: u32,
) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Comment>>> {
    let product = ProductId::parse(PRODUCT)?;
    let mut workload = Comments::new(8)?;
    let ratings = RATINGS
        .into_iter()
        .cycle()
        .take(comments.next_multiple_of(FULL_PAGES) as usize);
    Ok(ratings.map(move |rating| {
        Ok(Comment {
            product: product.clone(),
            rating: Rating::new(rating)?,
            ..workload.draw()?
        })
    }))
}

pub(crate) fn all_and_union() -> anyhow::Result<Vec<ExpectedListing>> {
    let product = ProductId::parse(PRODUCT)?;
    let union = Some(RatingSet::parse(UNION)?);
    Ok(vec![
        ExpectedListing::new(&product, Filter::ANY),
        ExpectedListing::new(&product, Filter::new(None, union)),
    ])
}

#[derive(Debug)]
pub(crate) struct ExpectedListing {
    pub(crate) key: FilterKey,
    comments: Vec<Listed>,
}

impl ExpectedListing {
    pub(crate) fn new(product: &ProductId, filter: Filter) -> Self {
        Self {
            key: FilterKey {
                product: product.clone(),
                filter,
            },
            comments: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, comment: &Comment) -> bool {
        let is_shown =
            self.key.product == comment.product && self.key.filter.matches(&comment.placement());
        if is_shown {
            self.comments.push((comment.cd(), comment.rating));
        }
        is_shown
    }

    pub(crate) fn sorted(mut self) -> anyhow::Result<Arc<Self>> {
        ensure!(!self.comments.is_empty(), "{} has no comments", self.key);
        self.comments.sort_by(|a, b| b.cmp(a));
        Ok(Arc::new(self))
    }

    /// How many ratings the filter names; 0 for any rating.
    pub(crate) fn named_ratings(&self) -> usize {
        match self.key.filter.ratings() {
            Some(ratings) => ratings.iter().count(),
            None => 0,
        }
    }

    pub(crate) fn four_index_query(&self) -> anyhow::Result<four_index::MergedQuery> {
        let FilterKey { product, filter } = self.key.clone();
        Ok(four_index::MergedQuery {
            product,
            filter,
            page_size: PageSize::new(PAGE_SIZE as u64)?,
        })
    }

    pub(crate) fn total(&self) -> u64 {
        self.comments.len() as u64
    }

    pub(crate) fn pages(&self) -> u64 {
        self.total().div_ceil(PAGE_SIZE as u64)
    }

    /// The comments before a page, and the comments from the page on.
    pub(crate) fn around(&self, page: u64) -> (&[Listed], &[Listed]) {
        let first = usize::try_from(page - 1)
            .unwrap_or(usize::MAX)
            .saturating_mul(PAGE_SIZE);
        self.split_at(first)
    }

    /// The first `skip` comments, and those after them.
    pub(crate) fn split_at(&self, skip: usize) -> (&[Listed], &[Listed]) {
        self.comments.split_at(skip.min(self.comments.len()))
    }

    pub(crate) fn before(&self, page: u64) -> Option<&Cd> {
        self.around(page).0.last().map(|(cd, _)| cd)
    }

    pub(crate) fn expect_page<'id>(
        &self,
        page: u64,
        shown: impl IntoIterator<Item = &'id str>,
    ) -> anyhow::Result<()> {
        let shown: Vec<&str> = shown.into_iter().collect();
        let (_, from_page) = self.around(page);
        let expected: Vec<&str> = from_page
            .iter()
            .take(PAGE_SIZE)
            .map(|(cd, _)| cd.id.as_str())
            .collect();
        ensure!(
            shown == expected,
            "{}, page {page}: {shown:?} instead of {expected:?}",
            self.key
        );
        Ok(())
    }

    pub(crate) fn expect_comments(&self, page: u64, shown: &[Comment]) -> anyhow::Result<()> {
        self.expect_page(page, shown.iter().map(|comment| comment.id.as_str()))
    }

    pub(crate) fn json_path(&self, page: u64) -> String {
        let mut path = format!("/api/v1/products/{}/comments?page={page}", self.product());
        if let Some(ratings) = self.key.filter.ratings() {
            for rating in ratings.iter() {
                path.push_str(&format!("&rating={rating}"));
            }
        }
        path
    }

    /// The address of a page for people. Its number counts from the oldest comment. All pages must
    /// be full: the front page then has no number and begins with the newest comment.
    pub(crate) fn html_path(&self, page: u64) -> String {
        let mut path = format!("/product/{}/comments", self.product());
        if let Some(ratings) = self.key.filter.ratings() {
            path.push_str(&format!("/~/{ratings}"));
        }
        if page > 1 {
            let number = (self.pages() + 1).saturating_sub(page);
            path.push_str(&format!("?page={number}"));
        }
        path
    }

    fn product(&self) -> PercentEncode<'_> {
        utf8_percent_encode(self.key.product.as_str(), &RESERVED)
    }
}
