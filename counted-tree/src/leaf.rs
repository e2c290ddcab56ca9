//! A leaf: up to 255 entries in ascending order.

use model::Cd;

use crate::{
    Code,
    keys::{Keys, Probe, reserve_little},
};

/// The entries of one leaf. Codes are dictionary-encoded: an entry's code takes one byte, its index in `dictionary`.
#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    keys: Keys,
    codes: Vec<u8>,
    dictionary: Vec<Counted>,
}

/// A code, and how many entries of the leaf have it. A code without entries gives its place to the next new code.
#[derive(Debug, Clone, Copy)]
struct Counted {
    code: Code,
    entries: u8,
}

impl Leaf {
    /// The most entries: each count then fits into a byte, and so does each index in the dictionary.
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
        let local = usize::from(*self.codes.get(index)?);
        self.dictionary.get(local).map(|counted| counted.code)
    }

    /// Inserts an entry. The leaf has room.
    pub(crate) fn insert(&mut self, index: usize, probe: &Probe<'_>, code: Code) {
        let local = self.count_one(code);
        self.keys.insert(index, probe);
        reserve_little(&mut self.codes, 1);
        self.codes.insert(index, local);
    }

    /// Changes the code of an entry.
    pub(crate) fn set_code(&mut self, index: usize, code: Code) {
        let Some(old) = self.codes.get(index).copied() else { return };
        self.discount_one(old);
        let local = self.count_one(code);
        if let Some(place) = self.codes.get_mut(index) {
            *place = local;
        }
    }

    pub(crate) fn remove(&mut self, index: usize) {
        let old = self.codes.remove(index);
        self.discount_one(old);
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
        let codes: Vec<Code> = old
            .codes
            .iter()
            .filter_map(|local| old.dictionary.get(usize::from(*local)))
            .map(|counted| counted.code)
            .collect();
        let (left_codes, right_codes) = codes.split_at(index);
        *self = Self::of(keys, left_codes);
        Self::of(right_keys, right_codes)
    }

    /// Appends greater entries. Both together fit into a leaf.
    pub(crate) fn append(&mut self, other: Self) {
        for index in 0..other.len() {
            if let Some(code) = other.code(index) {
                let local = self.count_one(code);
                self.codes.push(local);
            }
        }
        self.keys.append(other.keys);
    }

    /// How many entries have each code.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (Code, u32)> {
        let occurring = self.dictionary.iter().filter(|counted| counted.entries > 0);
        occurring.map(|counted| (counted.code, u32::from(counted.entries)))
    }

    /// How many of the first `end` entries have a code that the filter selects.
    pub(crate) fn count_before(&self, end: usize, filter: impl Fn(Code) -> bool) -> u64 {
        let selected = self.selected(filter);
        self.codes.iter().take(end).map(|local| u64::from(is_selected(&selected, *local))).sum()
    }

    /// The index of the `n`-th entry whose code the filter selects, counted from 0.
    pub(crate) fn select(&self, n: u64, filter: impl Fn(Code) -> bool) -> Option<usize> {
        let selected = self.selected(filter);
        let mut left = n;
        self.codes.iter().position(|local| {
            let is_selected = is_selected(&selected, *local);
            let is_wanted = is_selected && left == 0;
            left -= u64::from(is_selected && left > 0);
            is_wanted
        })
    }

    /// The memory that the leaf occupies outside of this value, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.keys.heap_bytes() + self.codes.capacity() + self.dictionary.capacity() * size_of::<Counted>()
    }

    fn of(keys: Keys, codes: &[Code]) -> Self {
        let mut leaf = Self { keys, codes: Vec::with_capacity(codes.len()), dictionary: Vec::new() };
        for code in codes {
            let local = leaf.count_one(*code);
            leaf.codes.push(local);
        }
        leaf
    }

    /// The place of a code in the dictionary, after counting one more entry there.
    fn count_one(&mut self, code: Code) -> u8 {
        let known = self.dictionary.iter().position(|counted| counted.code == code);
        let place = known.or_else(|| self.dictionary.iter().position(|counted| counted.entries == 0));
        let place = place.unwrap_or(self.dictionary.len());
        match self.dictionary.get_mut(place) {
            Some(counted) => *counted = Counted { code, entries: counted.entries + 1 },
            None => {
                self.dictionary.reserve_exact(1);
                self.dictionary.push(Counted { code, entries: 1 });
            }
        }
        u8::try_from(place).unwrap_or(u8::MAX)
    }

    fn discount_one(&mut self, local: u8) {
        if let Some(counted) = self.dictionary.get_mut(usize::from(local)) {
            counted.entries -= 1;
        }
    }

    /// For each place in the dictionary, whether the filter selects its code.
    fn selected(&self, filter: impl Fn(Code) -> bool) -> [bool; Self::MAX] {
        let mut selected = [false; Self::MAX];
        for (selected, counted) in selected.iter_mut().zip(&self.dictionary) {
            *selected = filter(counted.code);
        }
        selected
    }
}

fn is_selected(selected: &[bool], local: u8) -> bool {
    selected.get(usize::from(local)).copied().unwrap_or(false)
}
