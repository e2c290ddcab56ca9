//! How many entries of each code lie under each child of an inner node.

use crate::Code;

/// A row of numbers for each code that occurs under the node. Adding the rows of a filter's codes gives the number of
/// matching entries under every child at once; the compiler turns that into vector instructions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts<const CHILDREN: usize> {
    /// One number for each child.
    rows: Vec<(Code, [u32; CHILDREN])>,
}

impl<const CHILDREN: usize> Counts<CHILDREN> {
    /// How many entries under each child have a code that the filter selects.
    pub(crate) fn sums(&self, filter: impl Fn(Code) -> bool) -> [u32; CHILDREN] {
        let mut sums = [0; CHILDREN];
        for (_, row) in self.rows.iter().filter(|(code, _)| filter(*code)) {
            for (sum, entries) in sums.iter_mut().zip(row) {
                *sum += entries;
            }
        }
        sums
    }

    /// How many entries of each code lie under the node.
    pub(crate) fn totals(&self) -> impl Iterator<Item = (Code, u32)> {
        self.rows.iter().map(|(code, row)| (*code, row.iter().sum())).filter(|(_, total)| *total > 0)
    }

    pub(crate) fn add_one(&mut self, child: usize, code: Code) {
        self.add(child, code, 1);
    }

    pub(crate) fn remove_one(&mut self, child: usize, code: Code) {
        let row = self.rows.iter_mut().find(|(present, _)| *present == code);
        if let Some(entries) = row.and_then(|(_, row)| row.get_mut(child)) {
            *entries -= 1;
        }
    }

    /// Makes room for a child without entries at an index. The last place is free.
    pub(crate) fn insert_child(&mut self, child: usize) {
        for (_, row) in &mut self.rows {
            if let Some(from) = row.get_mut(child..) {
                from.rotate_right(1);
            }
        }
    }

    /// Removes a child.
    pub(crate) fn remove_child(&mut self, child: usize) {
        for (_, row) in &mut self.rows {
            if let Some(from) = row.get_mut(child..) {
                from.rotate_left(1);
                from.last_mut().into_iter().for_each(|entries| *entries = 0);
            }
        }
        self.forget_absent_codes();
    }

    /// Counts a child anew.
    pub(crate) fn set_child(&mut self, child: usize, totals: impl Iterator<Item = (Code, u32)>) {
        for (_, row) in &mut self.rows {
            if let Some(entries) = row.get_mut(child) {
                *entries = 0;
            }
        }
        for (code, entries) in totals {
            self.add(child, code, entries);
        }
    }

    /// The memory that the rows occupy, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<(Code, [u32; CHILDREN])>()
    }

    fn forget_absent_codes(&mut self) {
        self.rows.retain(|(_, row)| row.iter().any(|entries| *entries > 0));
    }

    fn add(&mut self, child: usize, code: Code, more: u32) {
        let known = self.rows.iter().position(|(present, _)| *present == code);
        let place = known.unwrap_or_else(|| {
            self.rows.reserve_exact(1);
            self.rows.push((code, [0; CHILDREN]));
            self.rows.len() - 1
        });
        if let Some(entries) = self.rows.get_mut(place).and_then(|(_, row)| row.get_mut(child)) {
            *entries += more;
        }
    }
}
