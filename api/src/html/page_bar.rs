//! The bar of pages at the top and the foot of a page: the ends, the neighbours, and pages 10, 100 and 1,000 away. A
//! field leads to any other page.
//!
//! **Invariant:** the bar has at most [`ITEMS_MAX`] pages, however many the listing has
//! (`the_bar_shows_the_ends_and_leaps`).

use std::collections::BTreeSet;

use crate::texts::Interface;

/// How far the linked pages are from the current one, on both sides.
const LEAPS: [u64; 4] = [1, FAR, 100, 1_000];
const FAR: u64 = 10;

/// The most pages in a bar: the current one, those at the leaps, the ends, and one in each gap of a single page.
#[cfg(test)]
const ITEMS_MAX: usize = 13;

pub(super) struct BarItem {
    pub(super) label: String,
    pub(super) is_number: bool,
    pub(super) href: Option<String>,
    pub(super) current: bool,
    pub(super) after_gap: bool,
    /// Whether the bar of a small window leaves it out.
    pub(super) is_far: bool,
}

impl BarItem {
    pub(super) fn numbered(t: &Interface, number: u64, href: Option<String>) -> Self {
        Self { label: t.number(number), is_number: true, href, current: false, after_gap: false, is_far: false }
    }

    pub(super) fn named(label: String, href: String) -> Self {
        Self { label, is_number: false, href: Some(href), current: false, after_gap: false, is_far: false }
    }
}

/// The items of the pages, which have the places 1 to `pages`, in order. A listing of one page has none.
pub(super) fn page_bar(current: u64, pages: u64, item: impl Fn(u64) -> BarItem) -> Vec<BarItem> {
    let mut before = 0;
    let items = places(current, pages).into_iter().map(|place| {
        let after_gap = place > before + 1;
        before = place;
        let is_far = place.abs_diff(current) >= FAR && place != 1 && place != pages;
        BarItem { current: place == current, after_gap, is_far, ..item(place) }
    });
    items.collect()
}

fn places(current: u64, pages: u64) -> BTreeSet<u64> {
    if pages < 2 {
        return BTreeSet::new();
    }
    let back = LEAPS.into_iter().filter_map(|leap| current.checked_sub(leap));
    let forth = LEAPS.into_iter().map(|leap| current.saturating_add(leap));
    let near = back.chain(forth).filter(|place| (1..=pages).contains(place));
    let mut places: BTreeSet<u64> = near.chain([1, current, pages]).collect();
    // A gap of one page would take no less room than its number.
    let single = |place: &u64| !places.contains(&(place + 1)) && places.contains(&(place + 2));
    let gaps: Vec<u64> = places.iter().filter(|place| single(place)).map(|place| place + 1).collect();
    places.extend(gaps);
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::{InterfaceLanguage, Texts};

    fn bar(current: u64, pages: u64) -> String {
        let texts = Texts::built_in();
        let t = texts.in_language(InterfaceLanguage::En);
        let items = page_bar(current, pages, |place| BarItem::numbered(t, place, None));
        assert!(items.len() <= ITEMS_MAX, "{current} of {pages}");
        assert!(items.is_empty() || items.iter().filter(|item| item.current).count() == 1);
        let text = |item: BarItem| if item.after_gap { format!("… {}", item.label) } else { item.label };
        items.into_iter().map(text).collect::<Vec<_>>().join(" ")
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
            (5_000, 392_716, "1 … 4,000 … 4,900 … 4,990 … 4,999 5,000 5,001 … 5,010 … 5,100 … 6,000 … 392,716"),
            (392_716, 392_716, "1 … 391,716 … 392,616 … 392,706 … 392,715 392,716"),
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
