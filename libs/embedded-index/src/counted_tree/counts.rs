//! How many entries of each code lie under each child of an inner node.
//!
//! A row holds a number for each child. Adding the rows of a filter's codes gives the number of
//! matching entries under every child at once; the compiler turns that into vector instructions.
//! One more row is the sum of all rows. A filter that selects more than half of the codes subtracts
//! the others from it. So a filter reads at most half of the rows, and this one.
//!
//! Most inner nodes have leaves as children, and a leaf has at most 255 entries. So one byte holds
//! each number of such a node, and also each sum of its rows. That is a quarter of the memory that
//! a descent reads with four bytes.

use std::ops::{AddAssign, SubAssign};

use super::{Code, leaf::Leaf};

#[derive(Debug, Clone)]
pub(crate) enum Counts<const CHILDREN: usize> {
    OfLeaves(CountRows<u8, CHILDREN>),
    OfInner(CountRows<u32, CHILDREN>),
}

impl<const CHILDREN: usize> Counts<CHILDREN> {
    pub(crate) fn new(is_above_leaves: bool) -> Self {
        const { assert!(Leaf::MAX <= u8::MAX as usize) };
        if is_above_leaves {
            Self::OfLeaves(CountRows::new())
        } else {
            Self::OfInner(CountRows::new())
        }
    }

    pub(crate) fn sums(&self, filter: impl Fn(Code) -> bool) -> [u32; CHILDREN] {
        match self {
            Self::OfLeaves(rows) => rows.sums(filter).map(u32::from),
            Self::OfInner(rows) => rows.sums(filter),
        }
    }

    pub(crate) fn totals(&self) -> Vec<(Code, u32)> {
        match self {
            Self::OfLeaves(rows) => rows.totals().collect(),
            Self::OfInner(rows) => rows.totals().collect(),
        }
    }

    pub(crate) fn add_one(&mut self, child: usize, code: Code) {
        match self {
            Self::OfLeaves(rows) => rows.add(child, code, 1),
            Self::OfInner(rows) => rows.add(child, code, 1),
        }
    }

    pub(crate) fn remove_one(&mut self, child: usize, code: Code) {
        match self {
            Self::OfLeaves(rows) => rows.subtract(child, code, 1),
            Self::OfInner(rows) => rows.subtract(child, code, 1),
        }
    }

    /// Replaces some children from an index on by others with these totals. The node has room for
    /// them.
    pub(crate) fn replace(&mut self, child: usize, old: usize, new: &[Vec<(Code, u32)>]) {
        match self {
            // A leaf has no more entries than fit.
            Self::OfLeaves(rows) => rows.replace(child, old, new, |entries| {
                u8::try_from(entries).unwrap_or(u8::MAX)
            }),
            Self::OfInner(rows) => rows.replace(child, old, new, |entries| entries),
        }
    }
}

/// A row for each code that occurs under the node. Codes have their own vector, so that a
/// search for one reads little memory.
#[derive(Debug, Clone)]
pub(crate) struct CountRows<N, const CHILDREN: usize> {
    pub(super) codes: Vec<Code>,
    pub(super) rows: Vec<CountRow<N, CHILDREN>>,
    all: CountRow<N, CHILDREN>,
}

/// A number for each child. A row of bytes is one cache line. Without the alignment, it would lie
/// in two.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct CountRow<N, const CHILDREN: usize>([N; CHILDREN]);

impl<N, const CHILDREN: usize> CountRow<N, CHILDREN>
where
    N: Copy,
    u32: From<N>,
{
    fn total(&self) -> u32 {
        self.0.iter().map(|entries| u32::from(*entries)).sum()
    }
}

impl<N, const CHILDREN: usize> CountRows<N, CHILDREN>
where
    N: Copy + Default + PartialEq + AddAssign + SubAssign,
    u32: From<N>,
{
    fn new() -> Self {
        Self {
            codes: Vec::new(),
            rows: Vec::new(),
            all: CountRow([N::default(); CHILDREN]),
        }
    }

    fn sums(&self, filter: impl Fn(Code) -> bool) -> [N; CHILDREN] {
        let selected = self.codes.iter().filter(|code| filter(**code)).count();
        let are_most = selected > self.codes.len() / 2;
        let mut sums = if are_most {
            self.all.0
        } else {
            [N::default(); CHILDREN]
        };
        for (code, row) in self.codes.iter().zip(&self.rows) {
            if filter(*code) == are_most {
                continue;
            }
            for (sum, entries) in sums.iter_mut().zip(&row.0) {
                if are_most {
                    *sum -= *entries;
                } else {
                    *sum += *entries;
                }
            }
        }
        sums
    }

    fn totals(&self) -> impl Iterator<Item = (Code, u32)> {
        let totals = self.codes.iter().zip(&self.rows);
        let totals = totals.map(|(code, row)| (*code, row.total()));
        totals.filter(|(_, total)| *total > 0)
    }

    fn replace(
        &mut self,
        child: usize,
        old: usize,
        new: &[Vec<(Code, u32)>],
        narrow: impl Fn(u32) -> N,
    ) {
        for row in self.rows.iter_mut().chain([&mut self.all]) {
            let from = row.0.get_mut(child..).unwrap_or_default();
            from.iter_mut()
                .take(old)
                .for_each(|entries| *entries = N::default());
            // The last children are free, and now also the first ones.
            from.rotate_left(old.saturating_sub(new.len()));
            from.rotate_right(new.len().saturating_sub(old));
        }
        for (child, totals) in (child..).zip(new) {
            for (code, total) in totals {
                self.add(child, *code, narrow(*total));
            }
        }
        if new.len() < old {
            self.forget_absent_codes();
        }
    }

    fn add(&mut self, child: usize, code: Code, more: N) {
        let index = self.row_of(code).unwrap_or_else(|| self.add_row(code));
        for row in self.rows.get_mut(index).into_iter().chain([&mut self.all]) {
            if let Some(entries) = row.0.get_mut(child) {
                *entries += more;
            }
        }
    }

    fn add_row(&mut self, code: Code) -> usize {
        // Most nodes see few codes, and a row is large. Many codes must not be moved for each new
        // one.
        let more = (self.codes.len() / 8).max(1);
        if self.codes.len() == self.codes.capacity() {
            self.codes.reserve_exact(more);
            self.rows.reserve_exact(more);
        }
        self.codes.push(code);
        self.rows.push(CountRow([N::default(); CHILDREN]));
        self.rows.len() - 1
    }

    fn subtract(&mut self, child: usize, code: Code, less: N) {
        let Some(index) = self.row_of(code) else {
            return;
        };
        let Some(row) = self.rows.get_mut(index) else {
            return;
        };
        for row in [&mut *row, &mut self.all] {
            if let Some(entries) = row.0.get_mut(child) {
                *entries -= less;
            }
        }
        if !Self::occurs(row) {
            self.codes.swap_remove(index);
            self.rows.swap_remove(index);
        }
    }

    fn occurs(row: &CountRow<N, CHILDREN>) -> bool {
        row.0.iter().any(|entries| *entries != N::default())
    }

    fn row_of(&self, code: Code) -> Option<usize> {
        self.codes.iter().position(|present| *present == code)
    }

    fn forget_absent_codes(&mut self) {
        let mut rows = self.rows.iter();
        self.codes.retain(|_| rows.next().is_some_and(Self::occurs));
        self.rows.retain(Self::occurs);
    }
}
