//! Merges the answers of partitions into a page, with the position at which each partition resumes. No I/O.
//!
//! **Invariant:** the next position of a partition leads to exactly what follows the page. No comment is lost that was
//! read and discarded, or not read (`walks_give_everything_once_in_order`).

use model::Cd;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Position {
    /// At its newest comment: no page had a comment of this partition yet.
    Beginning,
    /// After this comment, which is the partition's last one on a page.
    After(Cd),
    /// At its end: pages had all its comments.
    End,
}

#[derive(Debug)]
pub(crate) struct Part<T> {
    pub(crate) from: Position,
    pub(crate) entries: Vec<(Cd, T)>,
    pub(crate) more: bool,
}

impl<T> Part<T> {
    pub(crate) fn ended() -> Self {
        Self { from: Position::End, entries: Vec::new(), more: false }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Merged<T> {
    pub(crate) visible: Vec<T>,
    pub(crate) discarded: Vec<T>,
    pub(crate) positions: Vec<Position>,
}

pub(crate) fn merge<T>(parts: Vec<Part<T>>, page_size: usize) -> Merged<T> {
    struct State {
        position: Position,
        unseen: usize,
        more: bool,
    }
    let mut states = Vec::with_capacity(parts.len());
    let mut gathered: Vec<(Cd, usize, T)> = Vec::new();
    for (place, Part { from, entries, more }) in parts.into_iter().enumerate() {
        states.push(State { position: from, unseen: entries.len(), more });
        gathered.extend(entries.into_iter().map(|(cd, entry)| (cd, place, entry)));
    }
    gathered.sort_by(|(a, ..), (b, ..)| b.cmp(a));
    let discarded = gathered.split_off(page_size.min(gathered.len()));
    let mut visible = Vec::with_capacity(gathered.len());
    for (cd, place, entry) in gathered {
        visible.push(entry);
        if let Some(state) = states.get_mut(place) {
            state.position = Position::After(cd);
            state.unseen -= 1;
        }
    }
    let position = |state: State| if state.unseen == 0 && !state.more { Position::End } else { state.position };
    Merged {
        visible,
        discarded: discarded.into_iter().map(|(_, _, entry)| entry).collect(),
        positions: states.into_iter().map(position).collect(),
    }
}

#[cfg(test)]
mod tests {
    use itertools::Itertools;
    use model::{CommentId, Timestamp};
    use proptest::prelude::*;

    use super::*;

    /// A comment: its name is its id, and `at` is its time.
    fn cd(at: i64, id: &str) -> Cd {
        Cd { created_at: Timestamp::from_epoch_ms(at).unwrap(), id: CommentId::parse(id).unwrap() }
    }

    type Partition = Vec<Cd>;

    /// The answer to a query of a partition. Like in DynamoDB, a full answer does not show that it is the last one.
    fn read(partition: &Partition, from: &Position, page_size: usize) -> Part<Cd> {
        let later: Vec<&Cd> = match from {
            Position::Beginning => partition.iter().collect(),
            Position::After(last) => partition.iter().filter(|cd| *cd < last).collect(),
            Position::End => return Part::ended(),
        };
        let entries: Vec<_> = later.into_iter().take(page_size).map(|cd| (cd.clone(), cd.clone())).collect();
        let more = entries.len() == page_size;
        Part { from: from.clone(), entries, more }
    }

    fn walk(partitions: &[Partition], page_size: usize) -> Vec<Vec<Cd>> {
        let mut positions = vec![Position::Beginning; partitions.len()];
        let mut pages = Vec::new();
        // Enough steps for any walk that makes progress.
        for _ in 0..=partitions.concat().len() + 1 {
            if positions.iter().all(|position| *position == Position::End) {
                break;
            }
            let parts = partitions.iter().zip(&positions).map(|(partition, from)| read(partition, from, page_size));
            let merged = merge(parts.collect(), page_size);
            positions = merged.positions;
            pages.push(merged.visible);
        }
        pages
    }

    fn newest_first(comments: &[(i64, &str)]) -> Partition {
        comments.iter().map(|(at, id)| cd(*at, id)).sorted().rev().collect()
    }

    #[test]
    fn positions_tell_beginnings_middles_and_ends_apart() {
        let fives = newest_first(&[(9, "a9"), (8, "a8"), (7, "a7")]);
        let ones = newest_first(&[(6, "b6")]);
        let parts = [&fives, &ones, &Vec::new()].map(|partition| read(partition, &Position::Beginning, 2));
        let merged = merge(parts.into(), 2);
        assert_eq!(merged.visible, [cd(9, "a9"), cd(8, "a8")]);
        assert_eq!(merged.discarded, [cd(6, "b6")]);
        assert_eq!(merged.positions, [Position::After(cd(8, "a8")), Position::Beginning, Position::End]);
    }

    proptest! {
        #[test]
        fn walks_give_everything_once_in_order(
            // Few instants, so that many ties occur.
            comments in prop::collection::btree_set((0..6_i64, 0..40_u32), 0..60),
            partitions in 1..=5_usize,
            page_size in 1..=7_usize,
        ) {
            let cds: Vec<Cd> = comments.into_iter().map(|(at, id)| cd(at, &format!("c{id}"))).collect();
            let mut parts = vec![Vec::new(); partitions];
            for cd in cds.iter().rev() {
                // Choose the partition by id, so that each instant is in several partitions.
                let place = cd.id.as_str().bytes().map(usize::from).sum::<usize>() % partitions;
                parts[place].push(cd.clone());
            }
            for part in &mut parts {
                part.sort_by(|a, b| b.cmp(a));
            }
            let all: Vec<Cd> = cds.into_iter().sorted().rev().collect();
            let mut pages = walk(&parts, page_size);
            // The last page may be empty, because a full answer does not show that it is the last.
            if pages.last().is_some_and(|page| page.is_empty() && pages.len() > 1) {
                prop_assert!(all.len().is_multiple_of(page_size));
                pages.pop();
            }
            let expected: Vec<Vec<Cd>> = all.chunks(page_size).map(<[Cd]>::to_vec).collect();
            prop_assert_eq!(pages.concat(), all);
            prop_assert_eq!(pages.iter().filter(|page| !page.is_empty()).count(), expected.len());
        }
    }
}
