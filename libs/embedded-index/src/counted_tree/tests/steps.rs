//! Runs random steps on a tree and on a sorted map, and compares all answers.

use std::collections::BTreeMap;

use crate::counted_tree::{Code, CountedTree};
use model::{Cd, CommentId, Timestamp};
use ulid::Ulid;

pub(crate) type Large = Compared<255, 64>;

/// A tree whose nodes are so small that random steps split and merge inner nodes of every height.
pub(crate) type Small = Compared<4, 4>;

#[derive(Debug, Default)]
pub(crate) struct Compared<const ENTRIES: usize, const CHILDREN: usize> {
    pub(crate) tree: CountedTree<ENTRIES, CHILDREN>,
    map: BTreeMap<Cd, Code>,
}

impl<const ENTRIES: usize, const CHILDREN: usize> Compared<ENTRIES, CHILDREN> {
    pub(crate) fn run(&mut self, bytes: &[u8]) {
        let mut last_ms = 400;
        for step in bytes.as_chunks::<4>().0 {
            let [kind, a, b, c] = step.map(u32::from);
            let cd = key(
                a + (b & 1) * 150,
                b >> 6,
                if c < 220 { 0 } else { step[3] % 8 },
            );
            match kind {
                0..4 => {
                    let end = last_ms + 4 * a;
                    (last_ms..end).for_each(|ms| self.insert(&key(ms, 0, 0), ms % 5));
                    last_ms = end;
                }
                4..8 => self.remove_range(6 * a, 6 * (a + b)),
                8..90 => self.remove(&cd),
                _ => self.insert(&cd, c % 12),
            }
        }
    }

    pub(crate) fn insert(&mut self, cd: &Cd, code: u32) {
        let code = Code(code);
        assert_eq!(
            self.tree.insert(cd, code),
            self.map.insert(cd.clone(), code)
        );
    }

    pub(crate) fn remove(&mut self, cd: &Cd) {
        assert_eq!(self.tree.remove(cd), self.map.remove(cd));
    }

    fn remove_range(&mut self, from_ms: u32, to_ms: u32) {
        let range = key(from_ms, 0, 0)..key(to_ms.max(from_ms), 0, 0);
        let cds: Vec<Cd> = self.map.range(range).map(|(cd, _)| cd.clone()).collect();
        cds.iter().for_each(|cd| self.remove(cd));
    }

    /// Compares everything that can be asked. `keys` need not be in the tree.
    pub(crate) fn assert_equal(&self, keys: &[Cd]) {
        let entries: Vec<(Cd, Code)> = self.tree.entries_from(None).collect();
        assert!(entries.iter().map(|(cd, code)| (cd, code)).eq(&self.map));
        assert_eq!(self.tree.is_empty(), self.map.is_empty());
        for mask in [0b1111_1111, 0b1, 0b1010_1010, 0b0110_0000, 0] {
            self.assert_filter(|Code(code)| mask & (1 << (code % 8)) != 0, keys);
        }
        for key in keys {
            assert_eq!(self.tree.get(key), self.map.get(key).copied());
            let following: Vec<(Cd, Code)> = self.tree.entries_from(Some(key)).take(3).collect();
            assert!(
                following
                    .iter()
                    .map(|(cd, code)| (cd, code))
                    .eq(self.map.range(key..).take(3)),
                "from {key}"
            );
        }
    }

    fn assert_filter(&self, filter: impl Fn(Code) -> bool + Copy, keys: &[Cd]) {
        let selected: Vec<&Cd> = self
            .map
            .iter()
            .filter(|(_, code)| filter(**code))
            .map(|(cd, _)| cd)
            .collect();
        assert_eq!(self.tree.count(filter), selected.len() as u64);
        for n in [
            0,
            1,
            selected.len() / 2,
            selected.len().saturating_sub(1),
            selected.len(),
        ] {
            // More than two full leaves, so that it walks over some.
            for max in [0, 1, 600] {
                let expected = selected.iter().skip(n).take(max).copied();
                assert!(
                    self.tree.select(n as u64, max, filter).iter().eq(expected),
                    "{max} from number {n} on"
                );
            }
        }
        for key in keys {
            let before = selected.partition_point(|cd| *cd < key);
            assert_eq!(
                self.tree.count_before(key, filter),
                before as u64,
                "before {key}"
            );
        }
    }
}

/// A key that carries its time (`kind` 0), a ULID with a different time (1) or spelling (2), or a
/// different id.
pub(crate) fn key(ms: u32, id: u32, kind: u8) -> Cd {
    let id = match kind {
        0 => Ulid::from_parts(ms.into(), id.into()).to_string(),
        1 => Ulid::from_parts((ms + 1).into(), id.into()).to_string(),
        2 => Ulid::from_parts(ms.into(), id.into())
            .to_string()
            .to_lowercase(),
        _ => format!("{id:x}").repeat(usize::from(kind - 2)),
    };
    Cd {
        created_at: Timestamp::from_epoch_ms(ms.into()).unwrap(),
        id: CommentId::parse(&id).unwrap(),
    }
}
