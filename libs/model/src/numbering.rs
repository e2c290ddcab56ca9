//! Stable numbering: pages are counted from the oldest comment, so later posts never change a
//! numbered page.
//!
//! `total` comments make `q = total / size` full pages (rounded down). Comments that are not
//! settled yet do not count, and are on the front page too (ADR 57).
//!
//! | page | ranks, counted from the oldest comment | how many comments |
//! | --- | --- | --- |
//! | archive page `k`, for `1 <= k < q` | `(k - 1) * size` to `k * size - 1` | `size` |
//! | front page, without a number | all others | `size` to `2 * size - 1`; all while `total < 2 * size` |
//!
//! **Invariant:** every comment is on exactly one page (`every_comment_is_on_exactly_one_page`).
//!
//! **Invariant:** appending comments changes no archive page; one new page appears for `size`
//! comments (`appending_comments_changes_the_front_page_only`).
//!
//! An archive page exists only when at least `size` comments are newer than all on it.

use crate::page::{PageNumber, PageSize};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StablePages {
    total: u64,
    size: PageSize,
}

impl StablePages {
    pub fn new(total: u64, size: PageSize) -> Self {
        Self { total, size }
    }

    pub fn archived(self) -> u64 {
        self.full().saturating_sub(1)
    }

    /// Number of pages. As a number, it leads to the front page, because that archive page comes
    /// next.
    pub fn count(self) -> u64 {
        self.full().max(1)
    }

    /// The most comments that the front page shows.
    pub fn front_max(size: PageSize) -> u16 {
        2 * u16::from(size.get()) - 1
    }

    /// The archive page of the comment with this rank, counted from 0 for the oldest comment;
    /// `None` for the front page.
    pub fn of_rank(self, rank: u64) -> Option<PageNumber> {
        Some(PageNumber::of_rank(rank, self.size)).filter(|number| number.get() <= self.archived())
    }

    fn full(self) -> u64 {
        self.total / u64::from(self.size.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The ranks on each page that answers at an address: those of the archive pages in order, then
    /// those of the front page.
    fn contents(total: u64, size: u64) -> Vec<Vec<u64>> {
        let pages = StablePages::new(total, PageSize::new(size).unwrap());
        let mut contents = vec![Vec::new(); usize::try_from(pages.count()).unwrap()];
        for rank in 0..total {
            let page = match pages.of_rank(rank) {
                Some(number) => number.get() - 1,
                None => pages.archived(),
            };
            contents[usize::try_from(page).unwrap()].push(rank);
        }
        contents
    }

    #[test]
    fn a_page_is_archived_when_as_many_comments_are_newer() {
        for (total, archived, count) in [(0, 0, 1), (39, 0, 1), (40, 1, 2), (59, 1, 2), (60, 2, 3)]
        {
            let pages = StablePages::new(total, PageSize::new(20).unwrap());
            assert_eq!(
                (pages.archived(), pages.count()),
                (archived, count),
                "{total}"
            );
        }
    }

    proptest! {
        #[test]
        fn every_comment_is_on_exactly_one_page(total in 0..1_500_u64, size in 1..=100_u64) {
            let contents = contents(total, size);
            prop_assert_eq!(contents.concat(), (0..total).collect::<Vec<_>>());
            let (front, archive) = contents.split_last().unwrap();
            for (page, ranks) in (0..).zip(archive) {
                prop_assert_eq!(ranks, &(page * size..(page + 1) * size).collect::<Vec<_>>());
            }
            let on_front = front.len() as u64;
            let expected = if total < 2 * size { total..total + 1 } else { size..2 * size };
            prop_assert!(expected.contains(&on_front));
        }

        #[test]
        fn appending_comments_changes_the_front_page_only(
            total in 0..1_500_u64,
            posts in 1..300_u64,
            size in 1..=100_u64,
        ) {
            let before = contents(total, size);
            let after = contents(total + posts, size);
            let archived = before.len() - 1;
            prop_assert_eq!(&before[..archived], &after[..archived]);
            prop_assert_ne!(before.last(), after.last(), "the front page changes");
            // A page that is numbered now was on the front page, or is new.
            let new = (after.len() - before.len()) as u64;
            prop_assert!(new <= posts.div_ceil(size));
            if total >= size {
                prop_assert_eq!(contents(total + size, size).len(), before.len() + 1);
            }
        }

        #[test]
        fn a_number_once_in_use_never_leads_past_the_end_again(
            total in 0..1_500_u64,
            posts in 0..300_u64,
            size in 1..=100_u64,
        ) {
            let size = PageSize::new(size).unwrap();
            let [before, after] = [total, total + posts].map(|total| StablePages::new(total, size));
            prop_assert!(before.archived() <= after.archived());
            prop_assert!(before.count() <= after.count());
        }
    }
}
