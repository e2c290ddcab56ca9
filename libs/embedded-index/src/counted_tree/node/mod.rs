//! The nodes of the tree: leaves, and inner nodes that count what lies under each of their
//! children.

#[cfg(test)]
mod tests;

use model::Cd;

use super::{Code, counts::Counts, keys::Probe, leaf::Leaf};

/// A node and everything under it: a leaf of at most `ENTRIES`, or an inner node of at most
/// `CHILDREN`.
#[derive(Debug, Clone)]
pub(crate) enum TreeNode<const ENTRIES: usize, const CHILDREN: usize> {
    Leaf(Leaf),
    Inner(Box<Inner<ENTRIES, CHILDREN>>),
}

/// An inner node: at least one child, all of the same height.
#[derive(Debug, Clone)]
pub(crate) struct Inner<const ENTRIES: usize, const CHILDREN: usize> {
    children: Vec<TreeNode<ENTRIES, CHILDREN>>,
    /// Between each child and the next one, a key that is greater than all keys before it, and not
    /// greater than any key after it. It need not be in the tree.
    separators: Vec<Cd>,
    counts: Counts<CHILDREN>,
}

pub(crate) struct Inserted<const ENTRIES: usize, const CHILDREN: usize> {
    pub(crate) old: Option<Code>,
    pub(crate) split: Option<(Cd, TreeNode<ENTRIES, CHILDREN>)>,
}

impl<const ENTRIES: usize, const CHILDREN: usize> TreeNode<ENTRIES, CHILDREN> {
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

    /// Inserts an entry, or changes the code of the entry with this key. `is_last` says whether no
    /// node of this height comes after this one.
    pub(crate) fn insert(
        &mut self,
        probe: &Probe<'_>,
        code: Code,
        is_last: bool,
    ) -> Inserted<ENTRIES, CHILDREN> {
        let leaf = match self {
            Self::Leaf(leaf) => leaf,
            Self::Inner(inner) => return inner.insert(probe, code, is_last),
        };
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
            return Inserted {
                old: None,
                split: None,
            };
        }
        let middle = middle_of(leaf.len(), index, is_last);
        let mut right = leaf.split_off(middle);
        if index < middle {
            leaf.insert(index, probe, code);
        } else {
            right.insert(index - middle, probe, code);
        }
        let separator = match right.get(0) {
            Some((cd, _)) => cd,
            None => probe.cd().clone(),
        };
        Inserted {
            old: None,
            split: Some((separator, Self::Leaf(right))),
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
            Self::Inner(inner) => inner
                .counts
                .sums(filter)
                .iter()
                .map(|sum| u64::from(*sum))
                .sum(),
        }
    }

    pub(crate) fn count_before(
        &self,
        probe: &Probe<'_>,
        filter: impl Fn(Code) -> bool + Copy,
    ) -> u64 {
        match self {
            Self::Leaf(leaf) => {
                leaf.count_before(leaf.search(probe).unwrap_or_else(|index| index), filter)
            }
            Self::Inner(inner) => {
                let index = inner.child_of(probe.cd());
                let before: u64 = inner
                    .counts
                    .sums(filter)
                    .iter()
                    .take(index)
                    .map(|sum| u64::from(*sum))
                    .sum();
                match inner.children.get(index) {
                    Some(child) => before + child.count_before(probe, filter),
                    None => before,
                }
            }
        }
    }

    /// Appends the keys of selected entries, without the first `skip` ones, until there are `max`
    /// keys.
    pub(crate) fn select(
        &self,
        skip: u64,
        max: usize,
        filter: impl Fn(Code) -> bool + Copy,
        keys: &mut Vec<Cd>,
    ) {
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

    pub(crate) fn entries_from(
        &self,
        from: Option<&Probe<'_>>,
    ) -> Box<dyn Iterator<Item = (Cd, Code)> + '_> {
        match self {
            Self::Leaf(leaf) => {
                let start = match from {
                    Some(probe) => leaf.search(probe).unwrap_or_else(|index| index),
                    None => 0,
                };
                Box::new((start..leaf.len()).filter_map(|index| leaf.get(index)))
            }
            Self::Inner(inner) => {
                let start = match from {
                    Some(probe) => inner.child_of(probe.cd()),
                    None => 0,
                };
                let mut children = inner.children.iter().skip(start);
                let Some(first) = children.next() else {
                    return Box::new(std::iter::empty());
                };
                // Everything in the children after the first one is greater.
                let others = children.flat_map(|child| child.entries_from(None));
                Box::new(first.entries_from(from).chain(others))
            }
        }
    }

    /// Replaces an inner node that has only one child by that child.
    pub(crate) fn collapse(&mut self) {
        while let Self::Inner(inner) = self {
            if inner.children.len() > 1 {
                return;
            }
            *self = inner
                .children
                .pop()
                .unwrap_or_else(|| Self::Leaf(Leaf::new()));
        }
    }

    pub(crate) fn grow(&mut self, separator: Cd, right: Self) {
        let left = std::mem::replace(self, Self::Leaf(Leaf::new()));
        *self = Self::Inner(Box::new(Inner::of(vec![left, right], vec![separator])));
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
                left.separators.push(separator);
                left.separators.extend(right.separators);
                left.children.extend(right.children);
                left.recount();
            }
            // All children of a node have the same height.
            (Self::Leaf(_), Self::Inner(_)) | (Self::Inner(_), Self::Leaf(_)) => {}
        }
    }
}

/// Where a full node splits to make room at an index. Comments usually arrive in the order of their
/// creation. So the last node stays full, and its new entry begins the next one. Any other node
/// splits in halves.
fn middle_of(len: usize, index: usize, is_last: bool) -> usize {
    if is_last && index == len {
        len
    } else {
        len / 2
    }
}

impl<const ENTRIES: usize, const CHILDREN: usize> Inner<ENTRIES, CHILDREN> {
    fn of(children: Vec<TreeNode<ENTRIES, CHILDREN>>, separators: Vec<Cd>) -> Self {
        let mut inner = Self {
            children,
            separators,
            counts: Counts::new(true),
        };
        inner.recount();
        inner
    }

    /// Counts all children anew.
    fn recount(&mut self) {
        self.children.shrink_to_fit();
        self.counts = Counts::new(
            self.children
                .iter()
                .all(|child| matches!(child, TreeNode::Leaf(_))),
        );
        let totals: Vec<_> = self.children.iter().map(TreeNode::totals).collect();
        self.counts.replace(0, 0, &totals);
    }

    /// The index of the child that has the key, or would have it.
    fn child_of(&self, cd: &Cd) -> usize {
        self.separators.partition_point(|separator| separator <= cd)
    }

    fn insert(
        &mut self,
        probe: &Probe<'_>,
        code: Code,
        is_last: bool,
    ) -> Inserted<ENTRIES, CHILDREN> {
        let index = self.child_of(probe.cd());
        let is_last = is_last && index + 1 == self.children.len();
        let Some(child) = self.children.get_mut(index) else {
            return Inserted {
                old: None,
                split: None,
            };
        };
        let Inserted { old, split } = child.insert(probe, code, is_last);
        let Some((separator, right)) = split else {
            if let Some(old) = old {
                self.counts.remove_one(index, old);
            }
            self.counts.add_one(index, code);
            return Inserted { old, split: None };
        };
        let new = index + 1;
        let totals = [child.totals(), right.totals()];
        let middle = middle_of(self.children.len(), new, is_last);
        self.children.insert(new, right);
        self.separators.insert(index, separator);
        if self.children.len() <= CHILDREN {
            self.counts.replace(index, 1, &totals);
            return Inserted { old, split: None };
        }
        // The node is too full. Its greater half becomes a new node.
        let left_children = if new < middle { middle + 1 } else { middle };
        let right = Self::of(
            self.children.split_off(left_children),
            self.separators.split_off(left_children),
        );
        let separator = self.separators.remove(left_children - 1);
        self.recount();
        Inserted {
            old,
            split: Some((separator, TreeNode::Inner(Box::new(right)))),
        }
    }

    /// Removes a child without entries. A neighbour then has the keys that would be inserted there.
    fn remove_empty_child(&mut self, index: usize) {
        self.counts.replace(index, 1, &[]);
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
            if let Some(child) = self.children.get_mut(index) {
                child.append(separator, next);
                self.counts.replace(index, 2, &[child.totals()]);
            }
        }
    }
}
