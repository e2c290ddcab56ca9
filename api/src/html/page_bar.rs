//! The bar of pages at the top and the foot of a page: the ends, the neighbours, and pages 10, 100
//! and 1,000 away. A field leads to any other page.
//!
//! **Invariant:** the bar has at most [`ITEMS_MAX`] pages, however many the listing has
//! (`the_bar_shows_the_ends_and_leaps`).

use std::collections::BTreeSet;

/// How far the linked pages are from the current one, on both sides.
const LEAPS: [u64; 4] = [1, FAR, 100, 1_000];
const FAR: u64 = 10;

/// The most pages in a bar: the current one, those at the leaps, the ends, and one in each gap of a
/// single page.
#[cfg(test)]
const ITEMS_MAX: usize = 13;

pub(super) struct BarItem {
    /// The number of the page; `None` for the page without one.
    pub(super) number: Option<u64>,
    pub(super) href: String,
    pub(super) current: bool,
    pub(super) after_gap: bool,
    /// Whether the bar of a small window leaves it out.
    pub(super) is_far: bool,
}

/// The items of the pages, which have the positions 1 to `pages`, in order. A listing of one page
/// has none. `page` gives the number and the address of the page at a position; `None` where no
/// number can be so great.
pub(super) fn page_bar(
    current: u64,
    pages: u64,
    page: impl Fn(u64) -> Option<(Option<u64>, String)>,
) -> Vec<BarItem> {
    let mut items = Vec::new();
    let mut before = 0;
    for position in positions(current, pages) {
        let after_gap = position > before + 1;
        before = position;
        let is_end = position == 1 || position == pages;
        let Some((number, href)) = page(position) else {
            continue;
        };
        items.push(BarItem {
            number,
            href,
            current: position == current,
            after_gap,
            is_far: position.abs_diff(current) >= FAR && !is_end,
        });
    }
    items
}

fn positions(current: u64, pages: u64) -> BTreeSet<u64> {
    if pages < 2 {
        return BTreeSet::new();
    }
    let mut positions = BTreeSet::from([1, current, pages]);
    for leap in LEAPS {
        let back = current.checked_sub(leap);
        let forth = current.saturating_add(leap);
        positions.extend(back.filter(|position| (1..=pages).contains(position)));
        if forth <= pages {
            positions.insert(forth);
        }
    }
    // A gap of one page would take no less room than its number.
    let mut gaps = Vec::new();
    for position in &positions {
        let is_before_gap_of_one =
            !positions.contains(&(position + 1)) && positions.contains(&(position + 2));
        if is_before_gap_of_one {
            gaps.push(position + 1);
        }
    }
    positions.extend(gaps);
    positions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(current: u64, pages: u64) -> String {
        let items = page_bar(current, pages, |position| {
            Some((Some(position), String::new()))
        });
        assert!(items.len() <= ITEMS_MAX, "{current} of {pages}");
        assert!(items.is_empty() || items.iter().filter(|item| item.current).count() == 1);
        let mut texts = Vec::new();
        for item in items {
            let gap = if item.after_gap { "… " } else { "" };
            texts.push(format!("{gap}{}", item.number.unwrap()));
        }
        texts.join(" ")
    }

    #[test]
    fn the_bar_shows_the_ends_and_leaps() {
        for (current, pages, expected) in [
            (1, 1, ""),
            (1, 3, "1 2 3"),
            (1, 4, "1 2 3 4"),
            (1, 5, "1 2 … 5"),
            (4, 7, "1 2 3 4 5 6 7"),
            (6, 11, "1 … 5 6 7 … 11"),
            (14, 30, "1 … 4 … 13 14 15 … 24 … 30"),
            (
                5_000,
                392_716,
                "1 … 4000 … 4900 … 4990 … 4999 5000 5001 … 5010 … 5100 … 6000 … 392716",
            ),
            (
                392_716,
                392_716,
                "1 … 391716 … 392616 … 392706 … 392715 392716",
            ),
        ] {
            assert_eq!(bar(current, pages), expected);
        }
        for pages in 2..40 {
            for current in 1..=pages {
                bar(current, pages);
            }
        }
    }
}
