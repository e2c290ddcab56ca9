use std::ops::Range;

use model::Cd;
use proptest::prelude::*;

mod steps;

use steps::{Compared, Large, Small, key};

impl<const ENTRIES: usize, const CHILDREN: usize> Compared<ENTRIES, CHILDREN> {
    fn assert_holds(&self, keys: impl IntoIterator<Item = Cd>) {
        self.tree.assert_invariants();
        self.assert_equal(&keys.into_iter().collect::<Vec<_>>());
    }
}

/// Entries of a full leaf.
const LEAF: u32 = 255;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_tree_answers_as_a_sorted_map(
        steps in prop::collection::vec(any::<u8>(), 0..4_000),
        keys in prop::collection::vec((0..1_500_u32, 0..4_u32, 0..8_u8), 20),
    ) {
        let keys = keys.into_iter().map(|(ms, id, kind)| key(ms, id, kind));
        let mut large = Large::default();
        let mut small = Small::default();
        large.run(&steps);
        large.assert_holds(keys.clone());
        small.run(&steps);
        small.assert_holds(keys);
    }
}

/// More levels than random steps reach: 60,000 entries, in an order that fills leaves and in one
/// that does not.
#[test]
fn a_tree_of_three_levels_grows_and_shrinks_exactly() {
    for stride in [1, 25_013] {
        let mut compared = Large::default();
        let keys: Vec<_> = (0..60_000)
            .map(|i| key((i * stride) % 60_000, i % 3, 0))
            .collect();
        for (i, cd) in (0..).zip(&keys) {
            compared.insert(cd, i % 40);
        }
        compared.assert_holds(keys[..50].iter().cloned());
        let full = compared.tree.heap_bytes();
        keys.iter().step_by(3).for_each(|cd| compared.remove(cd));
        compared.assert_holds(keys[..50].iter().cloned());
        keys[100..].iter().for_each(|cd| compared.remove(cd));
        compared.assert_holds(keys[..200].iter().cloned());
        let remaining = compared.tree.heap_bytes();
        assert!(remaining < full / 50, "{remaining} of {full} bytes remain");
    }
}

/// Ascending keys fill every leaf. Then the first two of each three leaves keep ten entries, so
/// only they can merge.
#[test]
fn small_neighbours_merge_whatever_ids_they_have() {
    for order in [[0, 1], [1, 0]] {
        let mut compared = Large::default();
        let all: Vec<Cd> = (0..60).flat_map(of_leaf).collect();
        // The second time, a full leaf counts 255 entries of the one code.
        for _ in 0..2 {
            all.iter().for_each(|cd| compared.insert(cd, 1));
        }
        assert_eq!(compared.tree.leaves(), 60);
        for first in order {
            for leaf in (first..60).step_by(3) {
                of_leaf(leaf).skip(10).for_each(|cd| compared.remove(&cd));
            }
        }
        assert_eq!(compared.tree.leaves(), 40, "{order:?}");
        compared.assert_holds(all);
    }
}

/// The keys of a leaf; each leaf has ids of one kind.
fn of_leaf(leaf: u32) -> impl Iterator<Item = Cd> {
    (leaf * LEAF..(leaf + 1) * LEAF).map(move |ms| key(ms, 7, (leaf * 5 % 8) as u8))
}

/// The keys of several leaves, with our own ids.
fn of_leaves(leaves: Range<u32>) -> impl Iterator<Item = Cd> {
    (leaves.start * LEAF..leaves.end * LEAF).map(|ms| key(ms, 7, 0))
}

/// The second inner node loses its first leaf and then gets a key from that leaf's range. Then the
/// first inner node gets so small that both merge.
#[test]
fn a_merge_of_inner_nodes_keeps_keys_before_a_removed_leaf() {
    let mut compared = Large::default();
    of_leaves(0..70).for_each(|cd| compared.insert(&cd, 1));
    of_leaves(64..65).for_each(|cd| compared.remove(&cd));
    let early = key(64 * LEAF + 5, 7, 0);
    compared.insert(&early, 2);
    of_leaves(10..32).for_each(|cd| compared.remove(&cd));
    compared.assert_holds([early]);
}

const ENTRIES: u32 = 100_000;

fn bytes_each(stride: u32, kind_of: fn(u32) -> u8) -> usize {
    let mut compared = Large::default();
    for ms in (0..ENTRIES).map(|i| i.wrapping_mul(stride) % ENTRIES) {
        compared.insert(&key(ms, 7, kind_of(ms)), ms % 40);
    }
    compared.tree.heap_bytes() / ENTRIES as usize
}

#[test]
fn an_entry_takes_twenty_bytes_or_little_more_than_its_id() {
    assert!(bytes_each(1, |_| 0) < 20, "our own comments, in order");
    assert!(
        bytes_each(25_013, |_| 0) < 24,
        "our own comments, in no order"
    );
    assert!(bytes_each(1, |_| 1) < 40, "other ids");
    assert!(
        bytes_each(1, |ms| u8::from(ms < 300)) < 20,
        "our own comments after an import"
    );
}

#[test]
fn a_code_that_has_left_takes_no_memory() {
    let mut compared = Large::default();
    let keys: Vec<_> = (0..1_000).map(|i| key(i, 0, 0)).collect();
    keys.iter().for_each(|cd| compared.insert(cd, 1));
    let before = compared.tree.heap_bytes();
    for code in 0..5_000 {
        compared.insert(&keys[500], code);
    }
    compared.insert(&keys[500], 1);
    compared.assert_holds(keys);
    let after = compared.tree.heap_bytes();
    assert!(after < before * 2, "{before} bytes became {after}");
}

#[test]
fn a_leaf_whose_entries_all_have_different_codes_answers_exactly() {
    let mut compared = Large::default();
    let keys: Vec<_> = (0..3_000).map(|i| key(i, 0, 0)).collect();
    for round in 0..3 {
        for (i, cd) in (0..).zip(&keys) {
            compared.insert(cd, i * 7 + round);
        }
        compared.assert_holds(keys[..20].iter().cloned());
    }
}
