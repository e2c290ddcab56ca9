//! A leaf: up to 255 entries in ascending order.

use model::Cd;

use crate::{
    Code,
    keys::{Keys, Probe, reserve_little},
};

/// The entries of one leaf. Codes are dictionary-encoded: an entry's code takes one byte, its place in `dictionary`.
#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    keys: Keys,
    codes: Vec<u8>,
    /// The codes that occur, and some that occurred. A code without entries gives its place to the next new code.
    dictionary: Vec<Code>,
}

/// For each place that a dictionary can have, whether a filter selects the code there.
type Selected = [bool; 256];

/// Entries are skipped in groups of this many. Counting a group needs no branch for each entry.
const GROUP: usize = 16;

impl Leaf {
    /// The most entries: each count then fits into a byte, and so does each place in the dictionary.
    pub(crate) const MAX: usize = u8::MAX as usize;

    pub(crate) fn new() -> Self {
        Self { keys: Keys::new(), codes: Vec::new(), dictionary: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.codes.len()
    }

    pub(crate) fn search(&self, probe: &Probe<'_>) -> Result<usize, usize> {
        self.keys.search(probe)
    }

    /// The key and the code of an entry.
    pub(crate) fn get(&self, index: usize) -> Option<(Cd, Code)> {
        Some((self.keys.get(index)?, self.code(index)?))
    }

    pub(crate) fn code(&self, index: usize) -> Option<Code> {
        self.dictionary.get(usize::from(*self.codes.get(index)?)).copied()
    }

    /// Inserts an entry. The leaf has room.
    pub(crate) fn insert(&mut self, index: usize, probe: &Probe<'_>, code: Code) {
        self.keys.insert(index, probe);
        self.insert_code(index, code);
    }

    /// Changes the code of an entry.
    pub(crate) fn set_code(&mut self, index: usize, code: Code) {
        if index < self.codes.len() {
            // The old code may give its place to the new one.
            self.codes.remove(index);
            self.insert_code(index, code);
        }
    }

    pub(crate) fn remove(&mut self, index: usize) {
        self.codes.remove(index);
        self.keys.remove(index);
        if self.codes.capacity() > 2 * self.codes.len() {
            self.codes.shrink_to_fit();
        }
    }

    /// Moves the entries from an index on into a new leaf.
    pub(crate) fn split_off(&mut self, index: usize) -> Self {
        let old = std::mem::replace(self, Self::new());
        let mut keys = old.keys;
        let right_keys = keys.split_off(index);
        let codes = old.codes.iter().filter_map(|place| old.dictionary.get(usize::from(*place)));
        let codes: Vec<Code> = codes.copied().collect();
        let (left_codes, right_codes) = codes.split_at(index);
        *self = Self::of(keys, left_codes);
        Self::of(right_keys, right_codes)
    }

    /// Appends greater entries. Both together fit into a leaf.
    pub(crate) fn append(&mut self, other: Self) {
        for index in 0..other.len() {
            if let Some(code) = other.code(index) {
                self.insert_code(self.codes.len(), code);
            }
        }
        self.keys.append(other.keys);
    }

    /// How many entries have each code that occurs.
    pub(crate) fn counts(&self) -> Vec<(Code, u32)> {
        let mut counts: Vec<(Code, u32)> = self.dictionary.iter().map(|code| (*code, 0)).collect();
        for place in &self.codes {
            if let Some((_, entries)) = counts.get_mut(usize::from(*place)) {
                *entries += 1;
            }
        }
        counts.retain(|(_, entries)| *entries > 0);
        counts
    }

    /// How many of the first `end` entries have a code that the filter selects.
    pub(crate) fn count_before(&self, end: usize, filter: impl Fn(Code) -> bool) -> u64 {
        count(self.codes.get(..end).unwrap_or(&self.codes), &self.selected(filter))
    }

    /// The index of the `n`-th entry whose code the filter selects, counted from 0.
    pub(crate) fn select(&self, n: u64, filter: impl Fn(Code) -> bool) -> Option<usize> {
        let selected = self.selected(filter);
        let (mut left, mut start) = (n, 0);
        for group in self.codes.chunks(GROUP) {
            let matching = count(group, &selected);
            if left < matching {
                let mut matches = (start..).zip(group).filter(|(_, place)| is_selected(&selected, **place));
                return matches.nth(usize::try_from(left).ok()?).map(|(index, _)| index);
            }
            left -= matching;
            start += GROUP;
        }
        None
    }

    /// The index of the last entry whose code the filter selects.
    pub(crate) fn last(&self, filter: impl Fn(Code) -> bool) -> Option<usize> {
        let is_selected = |place: &u8| self.dictionary.get(usize::from(*place)).is_some_and(|code| filter(*code));
        self.codes.iter().rposition(is_selected)
    }

    /// The memory that the leaf occupies outside of this value, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.keys.heap_bytes() + self.codes.capacity() + self.dictionary.capacity() * size_of::<Code>()
    }

    fn of(keys: Keys, codes: &[Code]) -> Self {
        let mut leaf = Self { keys, codes: Vec::with_capacity(codes.len()), dictionary: Vec::new() };
        for code in codes {
            leaf.insert_code(leaf.codes.len(), *code);
        }
        leaf
    }

    fn insert_code(&mut self, index: usize, code: Code) {
        let known = self.dictionary.iter().position(|present| *present == code);
        let place = known.unwrap_or_else(|| self.add_to_dictionary(code));
        reserve_little(&mut self.codes, 1);
        self.codes.insert(index, u8::try_from(place).unwrap_or(u8::MAX));
    }

    /// Gives a new code a place. Fewer entries than a leaf can have are there, so some place is free.
    fn add_to_dictionary(&mut self, code: Code) -> usize {
        let mut is_used = [false; 256];
        for place in &self.codes {
            if let Some(is_used) = is_used.get_mut(usize::from(*place)) {
                *is_used = true;
            }
        }
        let mut free = self.dictionary.iter_mut().enumerate().zip(is_used).filter(|(_, is_used)| !is_used);
        if let Some(((place, present), _)) = free.next() {
            *present = code;
            return place;
        }
        self.dictionary.reserve_exact(1);
        self.dictionary.push(code);
        self.dictionary.len() - 1
    }

    fn selected(&self, filter: impl Fn(Code) -> bool) -> Selected {
        let mut selected = [false; 256];
        for (selected, code) in selected.iter_mut().zip(&self.dictionary) {
            *selected = filter(*code);
        }
        selected
    }
}

/// How many of these entries are selected.
fn count(places: &[u8], selected: &Selected) -> u64 {
    places.iter().map(|place| u64::from(is_selected(selected, *place))).sum()
}

fn is_selected(selected: &Selected, place: u8) -> bool {
    selected.get(usize::from(place)).copied().unwrap_or(false)
}
