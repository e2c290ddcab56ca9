//! The comments that a filter shows, page by page, as every design must show them.

use std::sync::Arc;

use anyhow::ensure;
use model::{Cd, Comment, Filter, FilterKey, ProductId, Rating};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but unreserved characters. Any other spelling of a page's address redirects to this one.
const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub(crate) const PAGE_SIZE: usize = 20;

type Listed = (Cd, Rating);

/// Comments of one filter, newest first. Pages count from 1.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) key: FilterKey,
    comments: Vec<Listed>,
}

impl Listing {
    pub(crate) fn new(product: &ProductId, filter: Filter) -> Self {
        Self { key: FilterKey { product: product.clone(), filter }, comments: Vec::new() }
    }

    /// Adds a comment if the filter matches it. Returns whether it does.
    pub(crate) fn add(&mut self, comment: &Comment) -> bool {
        let is_shown = self.key.product == comment.product && self.key.filter.matches(&comment.placement());
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

    /// Number of ratings in the filter. A filter without ratings counts as all five.
    pub(crate) fn ratings(&self) -> usize {
        self.key.filter.ratings().map_or(Rating::ALL.len(), |ratings| ratings.iter().count())
    }

    pub(crate) fn total(&self) -> u64 {
        self.comments.len() as u64
    }

    pub(crate) fn pages(&self) -> u64 {
        self.total().div_ceil(PAGE_SIZE as u64)
    }

    /// The comments before a page, and the comments from the page on.
    pub(crate) fn around(&self, page: u64) -> (&[Listed], &[Listed]) {
        let first = usize::try_from(page - 1).unwrap_or(usize::MAX).saturating_mul(PAGE_SIZE);
        self.comments.split_at(first.min(self.comments.len()))
    }

    /// The sort positions of a page's comments.
    pub(crate) fn page(&self, page: u64) -> impl Iterator<Item = &Cd> {
        self.around(page).1.iter().take(PAGE_SIZE).map(|(cd, _)| cd)
    }

    pub(crate) fn ids(&self, page: u64) -> Vec<&str> {
        self.page(page).map(|cd| cd.id.as_str()).collect()
    }

    /// The comment before a page; `None` for page 1.
    pub(crate) fn before(&self, page: u64) -> Option<&Cd> {
        self.around(page).0.last().map(|(cd, _)| cd)
    }

    pub(crate) fn json_path(&self, page: u64) -> String {
        let product = utf8_percent_encode(self.key.product.as_str(), &RESERVED);
        let mut path = format!("/api/v1/products/{product}/comments?page={page}");
        for rating in self.key.filter.ratings().iter().flat_map(|ratings| ratings.iter()) {
            path.push_str(&format!("&rating={rating}"));
        }
        path
    }

    /// The same page by the number that it has when pages are counted from the oldest comment. All pages must be full, so
    /// that the first one is the front page.
    pub(crate) fn stable_json_path(&self, page: u64) -> String {
        let number = (self.pages() + 1).saturating_sub(page);
        let path = if page > 1 { self.json_path(number) } else { self.json_path(1).replace("page=1", "") };
        path + "&numbering=stable"
    }

    /// Whether all pages are full.
    pub(crate) fn is_even(&self) -> bool {
        self.total().is_multiple_of(PAGE_SIZE as u64)
    }

    pub(crate) fn html_path(&self, page: u64) -> String {
        let product = utf8_percent_encode(self.key.product.as_str(), &RESERVED);
        let filter = self.key.filter.ratings().map_or(String::new(), |ratings| format!("/~/{ratings}"));
        let page = if page > 1 { format!("?page={page}") } else { String::new() };
        format!("/product/{product}/comments{filter}{page}")
    }
}
