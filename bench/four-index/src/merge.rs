//! Merges the answers of partitions into a page, with the position at which each partition resumes.
//! No I/O.
//!
//! **Invariant:** the next position of a partition leads to exactly what follows the page. No
//! comment is lost that was read and discarded, or not read (a test of `bench` walks through all
//! pages).

use model::Cd;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PartitionPosition {
    /// At its newest comment: no page had a comment of this partition yet.
    Beginning,
    /// After this comment, which is the partition's last one on a page.
    After(Cd),
    /// At its end: pages had all its comments.
    End,
}

#[derive(Debug)]
pub(crate) struct PartitionAnswer<T> {
    pub(crate) from: PartitionPosition,
    pub(crate) entries: Vec<(Cd, T)>,
    pub(crate) more: bool,
}

impl<T> PartitionAnswer<T> {
    pub(crate) fn ended() -> Self {
        Self {
            from: PartitionPosition::End,
            entries: Vec::new(),
            more: false,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Merged<T> {
    pub(crate) visible: Vec<T>,
    pub(crate) discarded: Vec<T>,
    pub(crate) positions: Vec<PartitionPosition>,
}

/// The state of a partition while its comments are merged.
struct PartitionState {
    position: PartitionPosition,
    /// How many comments of its answer are not on the page.
    unseen: usize,
    more: bool,
}

impl PartitionState {
    fn into_position(self) -> PartitionPosition {
        if self.unseen == 0 && !self.more {
            PartitionPosition::End
        } else {
            self.position
        }
    }
}

pub(crate) fn merge<T>(answers: Vec<PartitionAnswer<T>>, page_size: usize) -> Merged<T> {
    let mut states = Vec::with_capacity(answers.len());
    let mut gathered: Vec<(Cd, usize, T)> = Vec::new();
    for (partition, answer) in answers.into_iter().enumerate() {
        states.push(PartitionState {
            position: answer.from,
            unseen: answer.entries.len(),
            more: answer.more,
        });
        let entries = answer.entries.into_iter();
        gathered.extend(entries.map(|(cd, entry)| (cd, partition, entry)));
    }
    gathered.sort_by(|(a, ..), (b, ..)| b.cmp(a));
    let discarded = gathered.split_off(page_size.min(gathered.len()));
    let mut visible = Vec::with_capacity(gathered.len());
    for (cd, partition, entry) in gathered {
        visible.push(entry);
        if let Some(state) = states.get_mut(partition) {
            state.position = PartitionPosition::After(cd);
            state.unseen -= 1;
        }
    }
    Merged {
        visible,
        discarded: discarded.into_iter().map(|(_, _, entry)| entry).collect(),
        positions: states
            .into_iter()
            .map(PartitionState::into_position)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use model::{CommentId, Timestamp};

    use super::*;

    fn cd(at: i64, id: &str) -> Cd {
        Cd {
            created_at: Timestamp::from_epoch_ms(at).unwrap(),
            id: CommentId::parse(id).unwrap(),
        }
    }

    fn part(comments: &[(i64, &str)], more: bool) -> PartitionAnswer<Cd> {
        let entries = comments.iter().map(|(at, id)| (cd(*at, id), cd(*at, id)));
        PartitionAnswer {
            from: PartitionPosition::Beginning,
            entries: entries.collect(),
            more,
        }
    }

    #[test]
    fn positions_tell_beginnings_middles_and_ends_apart() {
        let merged = merge(
            vec![
                part(&[(9, "a9"), (8, "a8")], true),
                part(&[(6, "b6")], false),
                part(&[], false),
            ],
            2,
        );
        assert_eq!(merged.visible, [cd(9, "a9"), cd(8, "a8")]);
        assert_eq!(merged.discarded, [cd(6, "b6")]);
        assert_eq!(
            merged.positions,
            [
                PartitionPosition::After(cd(8, "a8")),
                PartitionPosition::Beginning,
                PartitionPosition::End
            ]
        );
    }
}
