//! What always holds of a node, and the memory that it takes.

use crate::counted_tree::{
    CountedTree,
    counts::{CountRow, CountRows},
};

use super::*;

impl<const ENTRIES: usize, const CHILDREN: usize> TreeNode<ENTRIES, CHILDREN> {
    fn leaves(&self) -> usize {
        match self {
            Self::Leaf(_) => 1,
            Self::Inner(inner) => inner.children.iter().map(Self::leaves).sum(),
        }
    }

    /// The memory under the node, without the node itself, in bytes. Leaves out what the allocator
    /// adds.
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.bytes.capacity(),
            Self::Inner(inner) => {
                let separators: usize = inner
                    .separators
                    .iter()
                    .map(|cd| size_of::<Cd>() + cd.id.as_str().len())
                    .sum();
                let children: usize = inner.children.iter().map(Self::heap_bytes).sum();
                let nodes = inner.children.capacity() * size_of::<Self>();
                size_of::<Inner<ENTRIES, CHILDREN>>()
                    + separators
                    + nodes
                    + children
                    + inner.counts.heap_bytes()
            }
        }
    }

    /// Checks everything that the crate's documentation says always holds of a node whose keys are
    /// not less than `from` and less than `to`. Returns its height.
    pub(crate) fn assert_invariants(
        &self,
        from: Option<&Cd>,
        to: Option<&Cd>,
        is_root: bool,
    ) -> usize {
        assert!(is_root || self.len() > 0);
        match self {
            Self::Leaf(leaf) => {
                assert!(leaf.len() <= ENTRIES);
                let cds: Vec<Cd> = (0..leaf.len())
                    .map(|index| leaf.get(index).unwrap().0)
                    .collect();
                assert!(cds.is_sorted_by(|cd, next| cd < next));
                assert!(
                    cds.first()
                        .is_none_or(|first| from.is_none_or(|from| from <= first))
                );
                assert!(cds.last().is_none_or(|last| to.is_none_or(|to| last < to)));
                0
            }
            Self::Inner(inner) => {
                assert!(!is_root || inner.children.len() > 1);
                assert!(
                    inner.children.len() <= CHILDREN
                        && inner.separators.len() + 1 == inner.children.len()
                );
                let inside = inner.separators.iter().map(Some);
                let froms: Vec<_> = std::iter::once(from).chain(inside.clone()).collect();
                let tos: Vec<_> = inside.chain([to]).collect();
                let mut heights = Vec::new();
                for (index, child) in inner.children.iter().enumerate() {
                    let from = froms[index];
                    let to = tos[index];
                    assert!(
                        from.is_none() || to.is_none() || from < to,
                        "the child has no range"
                    );
                    heights.push(child.assert_invariants(from, to, false));
                    for (code, entries) in child.totals() {
                        assert_eq!(inner.counts.sums(|other| other == code)[index], entries);
                    }
                    let all: u32 = child.totals().iter().map(|(_, entries)| entries).sum();
                    assert_eq!(inner.counts.sums(|_| true)[index], all);
                }
                assert!(heights.iter().all(|height| *height == heights[0]));
                heights[0] + 1
            }
        }
    }
}

impl<const ENTRIES: usize, const CHILDREN: usize> CountedTree<ENTRIES, CHILDREN> {
    pub(crate) fn assert_invariants(&self) {
        self.root.assert_invariants(None, None, true);
    }

    pub(crate) fn leaves(&self) -> usize {
        self.root.leaves()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.root.heap_bytes()
    }
}

impl<const CHILDREN: usize> Counts<CHILDREN> {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::OfLeaves(rows) => rows.heap_bytes(),
            Self::OfInner(rows) => rows.heap_bytes(),
        }
    }
}

impl<N, const CHILDREN: usize> CountRows<N, CHILDREN> {
    fn heap_bytes(&self) -> usize {
        self.codes.capacity() * size_of::<Code>()
            + self.rows.capacity() * size_of::<CountRow<N, CHILDREN>>()
    }
}
