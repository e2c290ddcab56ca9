//! A counted tree: an ordered map from a comment's [`Cd`] to a code, which also answers
//! *which is the n-th entry whose code a filter selects?* and *how many such entries precede this
//! one?*
//!
//! It is a B+-tree. An inner node counts, for each code and each child, the entries under that
//! child. So one descent answers either question for **any** set of codes. The caller chooses what
//! a code means; the page index uses one code for each pair of language and rating.
//!
//! # Complexity
//!
//! Every operation takes O(log n) for *n* entries, a node of which has at most 64 children or 255
//! entries. In each node it also takes O(c) for *c* codes that occur in the tree: the filter is
//! asked for each. Each code that it selects takes 64 additions, or, if these are fewer, each other
//! code 64 subtractions. Then each entry that is returned takes O(1). Only `count` and `totals`
//! read the root alone. A split or a merge counts its children anew.
//!
//! # Memory
//!
//! An entry takes 17 bytes while all ids of its leaf are ULIDs that hold their creation times, and
//! otherwise 9 bytes plus the longest id of its leaf. A leaf is one block of memory. Up to an
//! eighth of it is free, after removals up to half, and each code that occurs in the leaf takes 4
//! bytes. An inner node above leaves takes 68 bytes for each code that occurs under it, a higher
//! one 260 bytes. That is less than a byte for each entry if nodes are full and a product has some
//! dozens of codes. It is as much as these bytes for each entry and level if no two entries have
//! the same code.
//!
//! # Invariants
//!
//! - All leaves have the same depth. Keys ascend over all leaves, and no key occurs twice.
//! - No node is empty, unless the tree is. After a removal, neighbours merge that together fill
//!   less than three quarters of a node.
//! - A separator between two children of an inner node is greater than all keys before it, and not
//!   greater than any after.
//! - The counts of an inner node equal those of its children. Its row of sums equals the sum of its
//!   rows.

mod counts;
mod keys;
mod leaf;
mod node;
#[cfg(test)]
mod tests;

use model::Cd;

use keys::Probe;
pub(crate) use keys::{cd_of_ulid, ulid_with_time};
use leaf::Leaf;
use node::{Inserted, TreeNode};

/// A property of an entry that filters select by. The caller gives it its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Code(pub(crate) u32);

/// An ordered map from [`Cd`] to [`Code`] that counts entries by code. See the module's
/// documentation.
///
/// Callers leave out the limits of a node. Tests choose small ones, so that few entries make a tree
/// of many levels.
#[derive(Debug, Clone)]
pub(crate) struct CountedTree<const ENTRIES: usize = 255, const CHILDREN: usize = 64> {
    root: TreeNode<ENTRIES, CHILDREN>,
}

impl<const ENTRIES: usize, const CHILDREN: usize> CountedTree<ENTRIES, CHILDREN> {
    pub(crate) fn get(&self, cd: &Cd) -> Option<Code> {
        self.root.get(&Probe::new(cd))
    }

    /// Inserts an entry, or changes the code of the entry with this key. Returns the code that it
    /// had before.
    pub(crate) fn insert(&mut self, cd: &Cd, code: Code) -> Option<Code> {
        let Inserted { old, split } = self.root.insert(&Probe::new(cd), code, true);
        if let Some((separator, right)) = split {
            self.root.grow(separator, right);
        }
        old
    }

    pub(crate) fn remove(&mut self, cd: &Cd) -> Option<Code> {
        let old = self.root.remove(&Probe::new(cd));
        self.root.collapse();
        old
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.root.len() == 0
    }

    pub(crate) fn count(&self, filter: impl Fn(Code) -> bool) -> u64 {
        self.root.count(filter)
    }

    /// Each code that occurs, and the number of its entries, in any order.
    pub(crate) fn totals(&self) -> impl Iterator<Item = (Code, u64)> {
        self.root
            .totals()
            .into_iter()
            .map(|(code, entries)| (code, u64::from(entries)))
    }

    /// The number of entries whose code the filter selects, and whose key is less than this one.
    /// The key need not be in the tree.
    pub(crate) fn count_before(&self, cd: &Cd, filter: impl Fn(Code) -> bool + Copy) -> u64 {
        self.root.count_before(&Probe::new(cd), filter)
    }

    /// The keys of up to `max` entries whose codes the filter selects, from the `n`-th on, in
    /// ascending order, counted from 0.
    pub(crate) fn select(
        &self,
        n: u64,
        max: usize,
        filter: impl Fn(Code) -> bool + Copy,
    ) -> Vec<Cd> {
        let mut keys = Vec::with_capacity(max);
        self.root.select(n, max, filter, &mut keys);
        keys
    }

    /// The entries in ascending order, beginning with the first one whose key is not less than
    /// `from`.
    pub(crate) fn entries_from(&self, from: Option<&Cd>) -> impl Iterator<Item = (Cd, Code)> {
        self.root.entries_from(from.map(Probe::new).as_ref())
    }
}

impl<const ENTRIES: usize, const CHILDREN: usize> Default for CountedTree<ENTRIES, CHILDREN> {
    fn default() -> Self {
        // Below four, no neighbours would merge.
        const { assert!(4 <= ENTRIES && ENTRIES <= Leaf::MAX && 4 <= CHILDREN) };
        Self {
            root: TreeNode::Leaf(Leaf::new()),
        }
    }
}
