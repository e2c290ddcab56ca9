//! A leaf: up to 255 entries in ascending order.
//!
//! Everything lies in one block of memory. In a large tree a search waits for memory, and this way
//! it waits only twice in a leaf: for the codes, and for the key.

use model::Cd;

use super::{
    Code,
    keys::{Probe, SlotLayout},
};

/// The entries of one leaf.
///
/// Codes are dictionary-encoded: an entry's code takes one byte, its index in the leaf's
/// dictionary. The dictionary has the codes that occur, and some that occurred.
#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    layout: SlotLayout,
    entries: u8,
    /// The keys of all entries, then the indexes of their codes, then the dictionary.
    pub(super) bytes: Vec<u8>,
}

type CodeBytes = [u8; size_of::<Code>()];

/// For each index that a dictionary can have, whether a filter selects the code there.
type Selected = [bool; 256];

/// Entries are skipped in groups of this many. Counting a group needs no branch for each entry.
const GROUP: usize = 16;

impl Leaf {
    /// The most entries: each count then fits into a byte, and so does each index into the
    /// dictionary.
    pub(crate) const MAX: usize = u8::MAX as usize;

    pub(crate) fn new() -> Self {
        Self {
            layout: SlotLayout::Ulid,
            entries: 0,
            bytes: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.into()
    }

    pub(crate) fn search(&self, probe: &Probe<'_>) -> Result<usize, usize> {
        self.layout.search(self.slots(), probe)
    }

    pub(crate) fn get(&self, index: usize) -> Option<(Cd, Code)> {
        let width = self.layout.width();
        let slot = self.slots().get(index * width..(index + 1) * width)?;
        Some((self.layout.read(slot)?, self.code(index)?))
    }

    pub(crate) fn code(&self, index: usize) -> Option<Code> {
        self.dictionary()
            .get(usize::from(*self.code_indexes().get(index)?))
            .map(code_of)
    }

    /// Inserts an entry. The leaf has room.
    pub(crate) fn insert(&mut self, index: usize, probe: &Probe<'_>, code: Code) {
        let layout = SlotLayout::of(probe);
        self.change_layout(if self.entries == 0 {
            layout
        } else {
            self.layout.or(layout)
        });
        self.insert_fitting(index, probe, code);
    }

    /// Changes the code of an entry, which is there.
    pub(crate) fn set_code(&mut self, index: usize, code: Code) {
        let code_index = self.code_index(code);
        let at = self.slots().len() + index;
        if let Some(present) = self.bytes.get_mut(at) {
            *present = code_index;
        }
    }

    /// Removes an entry, which is there.
    pub(crate) fn remove(&mut self, index: usize) {
        let width = self.layout.width();
        let slots_end = self.slots().len();
        self.bytes.remove(slots_end + index);
        self.bytes.drain(index * width..(index + 1) * width);
        self.entries -= 1;
        if self.bytes.capacity() > 2 * self.bytes.len() {
            self.bytes.shrink_to(block_for(self.bytes.len()));
        }
    }

    pub(crate) fn split_off(&mut self, index: usize) -> Self {
        let codes = self.codes();
        let (left_codes, right_codes) = codes.split_at(index);
        let (left_slots, right_slots) = self.slots().split_at(index * self.layout.width());
        let right = Self::of(self.layout, right_slots, right_codes);
        *self = Self::of(self.layout, left_slots, left_codes);
        right
    }

    /// Appends greater entries. Both together fit into a leaf.
    pub(crate) fn append(&mut self, mut other: Self) {
        let layout = self.layout.or(other.layout);
        self.change_layout(layout);
        other.change_layout(layout);
        let slots = [self.slots(), other.slots()].concat();
        *self = Self::of(layout, &slots, &[self.codes(), other.codes()].concat());
    }

    pub(crate) fn counts(&self) -> Vec<(Code, u32)> {
        let mut counts: Vec<(Code, u32)> = self
            .dictionary()
            .iter()
            .map(|bytes| (code_of(bytes), 0))
            .collect();
        for code_index in self.code_indexes() {
            if let Some((_, entries)) = counts.get_mut(usize::from(*code_index)) {
                *entries += 1;
            }
        }
        counts.retain(|(_, entries)| *entries > 0);
        counts
    }

    pub(crate) fn count_before(&self, end: usize, filter: impl Fn(Code) -> bool) -> u64 {
        let code_indexes = self.code_indexes();
        count(
            code_indexes.get(..end).unwrap_or(code_indexes),
            &self.selected(filter),
        )
    }

    /// The keys of the entries whose codes the filter selects, without the first `skip` ones.
    pub(crate) fn select(
        &self,
        skip: u64,
        filter: impl Fn(Code) -> bool,
    ) -> impl Iterator<Item = Cd> {
        let selected = self.selected(filter);
        let mut to_skip = skip;
        let mut start = 0;
        for group in self.code_indexes().chunks(GROUP) {
            let matching = count(group, &selected);
            if to_skip < matching {
                break;
            }
            to_skip -= matching;
            start += GROUP;
        }
        let indexes = self.code_indexes().iter().enumerate().skip(start);
        let matches = indexes.filter(move |(_, code_index)| is_selected(&selected, **code_index));
        matches
            .skip(usize::try_from(to_skip).unwrap_or(usize::MAX))
            .filter_map(|(index, _)| Some(self.get(index)?.0))
    }

    fn of(layout: SlotLayout, slots: &[u8], codes: &[Code]) -> Self {
        let mut dictionary: Vec<Code> = Vec::new();
        let mut code_indexes: Vec<u8> = Vec::with_capacity(codes.len());
        for code in codes {
            let known = dictionary.iter().position(|present| present == code);
            let index = known.unwrap_or(dictionary.len());
            if known.is_none() {
                dictionary.push(*code);
            }
            code_indexes.push(to_u8(index));
        }
        let mut bytes = Vec::new();
        make_room(
            &mut bytes,
            slots.len() + code_indexes.len() + size_of::<CodeBytes>() * dictionary.len(),
        );
        bytes.extend_from_slice(slots);
        bytes.extend_from_slice(&code_indexes);
        bytes.extend(dictionary.iter().flat_map(|Code(code)| code.to_le_bytes()));
        Self {
            layout,
            entries: to_u8(codes.len()),
            bytes,
        }
    }

    /// Writes all entries again if the layout is another one. The caller knows that their keys fit.
    fn change_layout(&mut self, layout: SlotLayout) {
        if layout != self.layout {
            let old = std::mem::replace(
                self,
                Self {
                    layout,
                    ..Self::new()
                },
            );
            for (cd, code) in (0..old.len()).filter_map(|index| old.get(index)) {
                self.insert_fitting(self.len(), &Probe::new(&cd), code);
            }
        }
    }

    fn insert_fitting(&mut self, index: usize, probe: &Probe<'_>, code: Code) {
        let code_index = self.code_index(code);
        let width = self.layout.width();
        let slots_end = self.slots().len();
        make_room(&mut self.bytes, 1 + width);
        self.bytes.insert(slots_end + index, code_index);
        let at = index * width;
        let end = self.bytes.len();
        self.bytes.resize(end + width, 0);
        self.bytes.copy_within(at..end, at + width);
        if let Some(slot) = self.bytes.get_mut(at..at + width) {
            self.layout.write(slot, probe);
        }
        self.entries += 1;
    }

    fn slots(&self) -> &[u8] {
        self.bytes
            .get(..self.len() * self.layout.width())
            .unwrap_or_default()
    }

    fn code_indexes(&self) -> &[u8] {
        let start = self.slots().len();
        self.bytes
            .get(start..start + self.len())
            .unwrap_or_default()
    }

    fn dictionary(&self) -> &[CodeBytes] {
        let start = self.slots().len() + self.len();
        self.bytes.get(start..).unwrap_or_default().as_chunks().0
    }

    fn codes(&self) -> Vec<Code> {
        let dictionary = self.dictionary();
        self.code_indexes()
            .iter()
            .filter_map(|index| dictionary.get(usize::from(*index)).map(code_of))
            .collect()
    }

    /// The index of a code in the dictionary. A new code gets one. A full dictionary first loses
    /// the codes that no entry has.
    fn code_index(&mut self, code: Code) -> u8 {
        if let Some(index) = self
            .dictionary()
            .iter()
            .position(|present| code_of(present) == code)
        {
            return to_u8(index);
        }
        if self.dictionary().len() > Self::MAX {
            *self = Self::of(self.layout, self.slots(), &self.codes());
        }
        let index = self.dictionary().len();
        make_room(&mut self.bytes, size_of::<CodeBytes>());
        self.bytes.extend_from_slice(&code.0.to_le_bytes());
        to_u8(index)
    }

    fn selected(&self, filter: impl Fn(Code) -> bool) -> Selected {
        let mut selected = [false; 256];
        for (selected, code) in selected.iter_mut().zip(self.dictionary()) {
            *selected = filter(code_of(code));
        }
        selected
    }
}

fn code_of(bytes: &CodeBytes) -> Code {
    Code(u32::from_le_bytes(*bytes))
}

/// A number of entries, or an index into the dictionary. Both are at most [`Leaf::MAX`].
fn to_u8(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn count(code_indexes: &[u8], selected: &Selected) -> u64 {
    code_indexes
        .iter()
        .map(|code_index| u64::from(is_selected(selected, *code_index)))
        .sum()
}

fn is_selected(selected: &Selected, code_index: u8) -> bool {
    selected
        .get(usize::from(code_index))
        .copied()
        .unwrap_or(false)
}

fn make_room(bytes: &mut Vec<u8>, more: usize) {
    let needed = bytes.len() + more;
    if bytes.capacity() < needed {
        bytes.reserve_exact(block_for(needed) - bytes.len());
    }
}

/// The size of the block that holds so many bytes. Doubling would leave a third of the memory
/// unused. Few sizes let the allocator reuse blocks that other leaves have freed.
fn block_for(bytes: usize) -> usize {
    bytes.next_multiple_of((bytes.next_power_of_two() / 16).max(16))
}
