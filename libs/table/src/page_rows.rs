//! The rows of a page, as the answers to its queries are read.

use std::cmp::Ordering;

use model::{Cd, item::CommentItem};

use crate::{
    page_answer::StoredItem,
    parts::{MalformedItem, Page, PageQuery},
};

/// How many more items a call reads when the calls before met items that the page does not show:
/// invalid primary items, or rows without a rank. So a run of them is passed quickly.
const BEYOND: usize = 100;

#[derive(Debug)]
pub(super) struct PageRows<'query> {
    query: &'query PageQuery,
    page: Page,
    /// Number of rows read. An invalid primary item is none.
    read: usize,
    cut_at: Option<MalformedItem>,
    /// The ranks whose rows are still to come, in the order of the query; `None` when each row is
    /// wanted.
    awaited: Option<&'query [Cd]>,
}

impl<'query> PageRows<'query> {
    pub(super) fn all(query: &'query PageQuery) -> Self {
        Self {
            query,
            page: Page::default(),
            read: 0,
            cut_at: None,
            awaited: None,
        }
    }

    pub(super) fn with(query: &'query PageQuery, ranks: &'query [Cd]) -> Self {
        Self {
            awaited: Some(ranks),
            ..Self::all(query)
        }
    }

    fn limit(&self) -> usize {
        self.query.limit.into()
    }

    /// How many items the next call reads.
    pub(super) fn next_limit(&self) -> usize {
        let remaining = if self.read < self.limit() {
            self.limit() - self.read
        } else {
            self.limit()
        };
        let are_passed = !self.page.omitted.is_empty() || self.page.others.len() >= self.limit();
        if are_passed {
            remaining + BEYOND
        } else {
            remaining
        }
    }

    fn is_complete(&self) -> bool {
        self.read >= self.limit() && self.awaited.is_none_or(<[Cd]>::is_empty)
    }

    /// Whether nothing more is read: the page is complete, or too many rows without a rank lie
    /// between its ranks.
    pub(super) fn is_full(&self) -> bool {
        self.is_complete() || self.page.others.len() >= self.limit() + BEYOND
    }

    pub(super) fn add(&mut self, items: Vec<StoredItem<CommentItem>>) {
        for item in items {
            if self.is_full() {
                self.page.has_more = true;
                return;
            }
            self.cut_at = None;
            let invalid = match item.into_comment() {
                Ok(comment) => {
                    if self.is_wanted(&comment.cd()) {
                        self.page.comments.push(comment);
                    }
                    self.read += 1;
                    continue;
                }
                Err(invalid) => invalid,
            };
            let malformed = MalformedItem {
                index: self.read,
                cd: invalid.cd,
                problem: invalid.problem,
            };
            if self.query.key.is_primary() {
                self.cut_at = Some(malformed.clone());
                self.page.omitted.push(malformed);
                continue;
            }
            if let Some(cd) = &malformed.cd {
                self.is_wanted(cd);
            }
            self.page.malformed.push(malformed);
            self.read += 1;
        }
    }

    /// Whether the row with this key is wanted. Otherwise it is only named. Ranks and rows have one
    /// order, so no row follows for the ranks before this one.
    fn is_wanted(&mut self, cd: &Cd) -> bool {
        let Some(awaited) = &mut self.awaited else {
            return true;
        };
        while let [rank, rest @ ..] = *awaited {
            match self.query.order.compare(rank, cd) {
                Ordering::Less => *awaited = rest,
                Ordering::Equal => {
                    *awaited = rest;
                    return true;
                }
                Ordering::Greater => break,
            }
        }
        self.page.others.push(cd.clone());
        false
    }

    /// The page. `has_more`: more items follow those that were read.
    pub(super) fn into_page(mut self, has_more: bool) -> Page {
        self.page.has_more |= has_more;
        self.page.cut_short = self.page.has_more && !self.is_complete();
        if self.page.cut_short {
            self.page.malformed.extend(self.cut_at);
        }
        self.page
    }
}
