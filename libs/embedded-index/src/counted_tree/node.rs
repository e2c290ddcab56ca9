//! The nodes of the tree: leaves, and inner nodes that count what lies under each of their children.

use std::ops::ControlFlow;

use model::Cd;

use super::{Code, counts::Counts, keys::Probe, leaf::Leaf};

/// A node and everything under it: a leaf of at most `ENTRIES`, or an inner node of at most `CHILDREN`.
#[derive(Debug, Clone)]
pub(crate) enum Node<const ENTRIES: usize, const CHILDREN: usize> {
    Leaf(Leaf),
    Inner(Box<Inner<ENTRIES, CHILDREN>>),
}

/// An inner node: at least one child, all of the same height.
#[derive(Debug, Clone)]
pub(crate) struct Inner<const ENTRIES: usize, const CHILDREN: usize> {
    children: Vec<Node<ENTRIES, CHILDREN>>,
    /// Between each child and the next one, a key that is greater than all keys before it, and not greater than any
    /// key after it. It need not be in the tree.
    separators: Vec<Cd>,
    counts: Counts<CHILDREN>,
}

pub(crate) struct Inserted<const ENTRIES: usize, const CHILDREN: usize> {
    pub(crate) old: Option<Code>,
    pub(crate) split: Option<(Cd, Node<ENTRIES, CHILDREN>)>,
}

impl<const ENTRIES: usize, const CHILDREN: usize> Node<ENTRIES, CHILDREN> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.len(),
            Self::Inner(inner) => inner.children.len(),
        }
    }

    pub(crate) fn get(&self, probe: &Probe<'_>) -> Option<Code> {
        match self {
            Self::Leaf(leaf) => leaf.code(leaf.search(probe).ok()?),
            Self::Inner(inner) => inner.children.get(inner.child_of(probe.cd()))?.get(probe),
        }
    }

    /// Inserts an entry, or changes the code of the entry with this key. `is_last` says whether no node of this height
    /// comes after this one.
    pub(crate) fn insert(&mut self, probe: &Probe<'_>, code: Code, is_last: bool) -> Inserted<ENTRIES, CHILDREN> {
        match self {
            Self::Leaf(leaf) => insert_into_leaf(leaf, probe, code, is_last),
            Self::Inner(inner) => inner.insert(probe, code, is_last),
        }
    }

    pub(crate) fn remove(&mut self, probe: &Probe<'_>) -> Option<Code> {
        match self {
            Self::Leaf(leaf) => {
                let index = leaf.search(probe).ok()?;
                let code = leaf.code(index);
                leaf.remove(index);
                code
            }
            Self::Inner(inner) => inner.remove(probe),
        }
    }

    pub(crate) fn totals(&self) -> Vec<(Code, u32)> {
        match self {
            Self::Leaf(leaf) => leaf.counts(),
            Self::Inner(inner) => inner.counts.totals(),
        }
    }

    pub(crate) fn count(&self, filter: impl Fn(Code) -> bool) -> u64 {
        match self {
            Self::Leaf(leaf) => leaf.count_before(leaf.len(), filter),
            Self::Inner(inner) => inner.counts.sums(filter).iter().map(|sum| u64::from(*sum)).sum(),
        }
    }

    pub(crate) fn count_before(&self, probe: &Probe<'_>, filter: impl Fn(Code) -> bool + Copy) -> u64 {
        match self {
            Self::Leaf(leaf) => leaf.count_before(leaf.search(probe).unwrap_or_else(|index| index), filter),
            Self::Inner(inner) => {
                let index = inner.child_of(probe.cd());
                let before: u64 = inner.counts.sums(filter).iter().take(index).map(|sum| u64::from(*sum)).sum();
                before + inner.children.get(index).map_or(0, |child| child.count_before(probe, filter))
            }
        }
    }

    /// Appends the keys of selected entries, without the first `skip` ones, until there are `max` keys.
    pub(crate) fn select(&self, skip: u64, max: usize, filter: impl Fn(Code) -> bool + Copy, keys: &mut Vec<Cd>) {
        match self {
            Self::Leaf(leaf) => keys.extend(leaf.select(skip, filter).take(max - keys.len())),
            Self::Inner(inner) => {
                let mut skip = skip;
                for (child, sum) in inner.children.iter().zip(inner.counts.sums(filter)) {
                    let sum = u64::from(sum);
                    if skip < sum && keys.len() < max {
                        child.select(skip, max, filter, keys);
                    }
                    skip = skip.saturating_sub(sum);
                }
            }
        }
    }

    pub(crate) fn last(&self, filter: impl Fn(Code) -> bool + Copy) -> Option<Cd> {
        match self {
            Self::Leaf(leaf) => leaf.get(leaf.last(filter)?).map(|(cd, _)| cd),
            Self::Inner(inner) => {
                let child = inner.counts.sums(filter).iter().rposition(|sum| *sum > 0)?;
                inner.children.get(child)?.last(filter)
            }
        }
    }

    /// Visits the entries in ascending order, beginning with the first one whose key is not less.
    pub(crate) fn visit<B>(
        &self,
        from: Option<&Probe<'_>>,
        visitor: &mut impl FnMut(Cd, Code) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match self {
            Self::Leaf(leaf) => {
                let start = from.map_or(0, |probe| leaf.search(probe).unwrap_or_else(|index| index));
                (start..leaf.len()).filter_map(|index| leaf.get(index)).try_for_each(|(cd, code)| visitor(cd, code))
            }
            Self::Inner(inner) => {
                let start = from.map_or(0, |probe| inner.child_of(probe.cd()));
                // Everything in the children after the first one is greater.
                let froms = std::iter::once(from).chain(std::iter::repeat(None));
                let mut children = inner.children.iter().skip(start).zip(froms);
                children.try_for_each(|(child, from)| child.visit(from, visitor))
            }
        }
    }

    /// Replaces an inner node that has only one child by that child.
    pub(crate) fn collapse(&mut self) {
        while let Self::Inner(inner) = self {
            if inner.children.len() > 1 {
                return;
            }
            *self = inner.children.pop().unwrap_or_else(|| Self::Leaf(Leaf::new()));
        }
    }

    pub(crate) fn grow(&mut self, separator: Cd, right: Self) {
        let left = std::mem::replace(self, Self::Leaf(Leaf::new()));
        *self = Self::Inner(Box::new(Inner::of(vec![left, right], vec![separator])));
    }

    /// The memory under the node, without the node itself, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.heap_bytes(),
            Self::Inner(inner) => {
                let separators: usize = inner.separators.iter().map(|cd| size_of::<Cd>() + cd.id.as_str().len()).sum();
                let children: usize = inner.children.iter().map(Self::heap_bytes).sum();
                let nodes = inner.children.capacity() * size_of::<Self>();
                size_of::<Inner<ENTRIES, CHILDREN>>() + separators + nodes + children + inner.counts.heap_bytes()
            }
        }
    }

    /// Whether both nodes together leave a quarter of one node free.
    fn fits_with(&self, other: &Self) -> bool {
        let max = match self {
            Self::Leaf(_) => ENTRIES,
            Self::Inner(_) => CHILDREN,
        };
        self.len() + other.len() <= max / 4 * 3
    }

    /// Appends a node of the same height whose keys are not less than the separator.
    fn append(&mut self, separator: Cd, right: Self) {
        match (self, right) {
            (Self::Leaf(left), Self::Leaf(right)) => left.append(right),
            (Self::Inner(left), Self::Inner(right)) => {
                let separators = std::iter::once(separator).chain(right.separators);
                for (separator, child) in separators.zip(right.children) {
                    left.insert_child(left.children.len(), separator, child);
                }
            }
            // All children of a node have the same height.
            (Self::Leaf(_), Self::Inner(_)) | (Self::Inner(_), Self::Leaf(_)) => {}
        }
    }
}

fn insert_into_leaf<const ENTRIES: usize, const CHILDREN: usize>(
    leaf: &mut Leaf,
    probe: &Probe<'_>,
    code: Code,
    is_last: bool,
) -> Inserted<ENTRIES, CHILDREN> {
    let index = match leaf.search(probe) {
        Ok(index) => {
            let old = leaf.code(index);
            leaf.set_code(index, code);
            return Inserted { old, split: None };
        }
        Err(index) => index,
    };
    if leaf.len() < ENTRIES {
        leaf.insert(index, probe, code);
        return Inserted { old: None, split: None };
    }
    let middle = middle_of(leaf.len(), index, is_last);
    let mut right = leaf.split_off(middle);
    if index < middle {
        leaf.insert(index, probe, code);
    } else {
        right.insert(index - middle, probe, code);
    }
    let separator = right.get(0).map_or_else(|| probe.cd().clone(), |(cd, _)| cd);
    Inserted { old: None, split: Some((separator, Node::Leaf(right))) }
}

/// Where a full node splits to make room at an index. Comments usually arrive in the order of their creation. So the
/// last node stays full, and its new entry begins the next one. Any other node splits in halves.
fn middle_of(len: usize, index: usize, is_last: bool) -> usize {
    if is_last && index == len { len } else { len / 2 }
}

impl<const ENTRIES: usize, const CHILDREN: usize> Inner<ENTRIES, CHILDREN> {
    fn of(mut children: Vec<Node<ENTRIES, CHILDREN>>, separators: Vec<Cd>) -> Self {
        children.shrink_to_fit();
        let is_above_leaves = children.iter().all(|child| matches!(child, Node::Leaf(_)));
        let mut counts = if is_above_leaves { Counts::of_leaves() } else { Counts::of_inner() };
        for (index, child) in children.iter().enumerate() {
            counts.set_child(index, &child.totals());
        }
        Self { children, separators, counts }
    }

    /// The index of the child that has the key, or would have it.
    fn child_of(&self, cd: &Cd) -> usize {
        self.separators.partition_point(|separator| separator <= cd)
    }

    fn insert(&mut self, probe: &Probe<'_>, code: Code, is_last: bool) -> Inserted<ENTRIES, CHILDREN> {
        let index = self.child_of(probe.cd());
        let is_last = is_last && index + 1 == self.children.len();
        let Some(child) = self.children.get_mut(index) else { return Inserted { old: None, split: None } };
        let Inserted { old, split } = child.insert(probe, code, is_last);
        let Some((separator, right)) = split else {
            if let Some(old) = old {
                self.counts.remove_one(index, old);
            }
            self.counts.add_one(index, code);
            return Inserted { old, split: None };
        };
        self.counts.set_child(index, &child.totals());
        if self.children.len() < CHILDREN {
            self.insert_child(index + 1, separator, right);
            return Inserted { old, split: None };
        }
        let split = self.split_with(index + 1, separator, right, is_last);
        Inserted { old, split: Some(split) }
    }

    /// Inserts a child into a full node, which splits. Returns the greater half and the separator of both halves.
    fn split_with(
        &mut self,
        index: usize,
        separator: Cd,
        child: Node<ENTRIES, CHILDREN>,
        is_last: bool,
    ) -> (Cd, Node<ENTRIES, CHILDREN>) {
        let middle = middle_of(self.children.len(), index, is_last);
        let left_children = if index < middle { middle + 1 } else { middle };
        self.children.insert(index, child);
        self.separators.insert(index - 1, separator);
        let right = Self::of(self.children.split_off(left_children), self.separators.split_off(left_children));
        let separator = self.separators.remove(left_children - 1);
        *self = Self::of(std::mem::take(&mut self.children), std::mem::take(&mut self.separators));
        (separator, Node::Inner(Box::new(right)))
    }

    /// Inserts a child after another one. The node has room.
    fn insert_child(&mut self, index: usize, separator: Cd, child: Node<ENTRIES, CHILDREN>) {
        self.counts.insert_child(index);
        self.counts.set_child(index, &child.totals());
        self.separators.insert(index - 1, separator);
        self.children.insert(index, child);
    }

    /// Removes a child without entries. A neighbour then has the keys that would be inserted there.
    fn remove_empty_child(&mut self, index: usize) {
        self.counts.remove_child(index);
        self.children.remove(index);
        if !self.separators.is_empty() {
            self.separators.remove(index.saturating_sub(1));
        }
    }

    fn remove(&mut self, probe: &Probe<'_>) -> Option<Code> {
        let index = self.child_of(probe.cd());
        let child = self.children.get_mut(index)?;
        let old = child.remove(probe)?;
        let is_empty = child.len() == 0;
        self.counts.remove_one(index, old);
        if is_empty {
            self.remove_empty_child(index);
        } else {
            self.merge_with_next(index);
            self.merge_with_next(index.saturating_sub(1));
        }
        Some(old)
    }

    /// Merges a child with the next one if they fit into one node.
    fn merge_with_next(&mut self, index: usize) {
        let fits = match (self.children.get(index), self.children.get(index + 1)) {
            (Some(child), Some(next)) => child.fits_with(next),
            (_, _) => false,
        };
        if fits {
            let next = self.children.remove(index + 1);
            let separator = self.separators.remove(index);
            self.counts.remove_child(index + 1);
            if let Some(child) = self.children.get_mut(index) {
                child.append(separator, next);
                self.counts.set_child(index, &child.totals());
            }
        }
    }
}

#[cfg(test)]
impl<const ENTRIES: usize, const CHILDREN: usize> Node<ENTRIES, CHILDREN> {
    fn leaves(&self) -> usize {
        match self {
            Self::Leaf(_) => 1,
            Self::Inner(inner) => inner.children.iter().map(Self::leaves).sum(),
        }
    }

    /// Checks everything that the crate's documentation says always holds of a node whose keys are not less than `from`
    /// and less than `to`. Returns its height.
    pub(crate) fn assert_invariants(&self, from: Option<&Cd>, to: Option<&Cd>, is_root: bool) -> usize {
        assert!(is_root || self.len() > 0);
        match self {
            Self::Leaf(leaf) => {
                assert!(leaf.len() <= ENTRIES);
                let cds: Vec<Cd> = (0..leaf.len()).map(|index| leaf.get(index).unwrap().0).collect();
                assert!(cds.is_sorted_by(|cd, next| cd < next));
                assert!(cds.first().is_none_or(|first| from.is_none_or(|from| from <= first)));
                assert!(cds.last().is_none_or(|last| to.is_none_or(|to| last < to)));
                0
            }
            Self::Inner(inner) => {
                assert!(!is_root || inner.children.len() > 1);
                assert!(inner.children.len() <= CHILDREN && inner.separators.len() + 1 == inner.children.len());
                let inside = inner.separators.iter().map(Some);
                let froms: Vec<_> = std::iter::once(from).chain(inside.clone()).collect();
                let tos: Vec<_> = inside.chain([to]).collect();
                let mut heights = Vec::new();
                for (index, child) in inner.children.iter().enumerate() {
                    let (from, to) = (froms[index], tos[index]);
                    assert!(from.is_none() || to.is_none() || from < to, "the child has no range");
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

#[cfg(test)]
impl<const ENTRIES: usize, const CHILDREN: usize> super::CountedTree<ENTRIES, CHILDREN> {
    pub(crate) fn assert_invariants(&self) {
        self.root.assert_invariants(None, None, true);
    }

    pub(crate) fn leaves(&self) -> usize {
        self.root.leaves()
    }
}
