//! The cursor: the combined position in all partitions.
//!
//! The articles write it into the page's address: the keys of all partitions, compressed. No
//! measurement needs that text, so cursors stay in memory here, in favour of this design.

use std::collections::{HashMap, HashSet};

use model::{Cd, Rating};

use crate::{
    key::{MergedQuery, Plan},
    merge::PartitionPosition,
};

/// The position in each partition of a query, in the order of its plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedCursor(pub(crate) Vec<PartitionPosition>);

impl MergedCursor {
    pub(crate) fn after(positions: Vec<PartitionPosition>) -> Option<Self> {
        let has_more = positions
            .iter()
            .any(|position| *position != PartitionPosition::End);
        if has_more {
            Some(Self(positions))
        } else {
            None
        }
    }

    /// The cursor after the comments `shown`, for callers that know the listing without walking it.
    /// `to_come` are the comments that follow; both are newest first. `None` when no comments
    /// follow.
    ///
    /// A walk whose last answers were full learns one call later that a partition has ended.
    pub fn following<'comment>(
        query: &MergedQuery,
        shown: impl IntoIterator<Item = (&'comment Cd, Rating)>,
        to_come: impl IntoIterator<Item = Rating>,
    ) -> Option<Self> {
        let plan = Plan::of(&query.product, &query.filter);
        let mut last_shown = HashMap::new();
        for (cd, rating) in shown {
            last_shown.insert(plan.partition_of(rating), cd);
        }
        let mut continued = HashSet::new();
        for rating in to_come {
            continued.insert(plan.partition_of(rating));
        }
        let mut positions = Vec::new();
        for partition in &plan.partitions {
            let partition = Some(partition);
            positions.push(if !continued.contains(&partition) {
                PartitionPosition::End
            } else if let Some(cd) = last_shown.get(&partition) {
                PartitionPosition::After((*cd).clone())
            } else {
                PartitionPosition::Beginning
            });
        }
        Self::after(positions)
    }
}

#[cfg(test)]
mod tests {
    use model::{CommentId, Filter, PageSize, ProductId, RatingSet, Timestamp};

    use super::*;

    fn cd(ms: i64, id: &str) -> Cd {
        Cd {
            created_at: Timestamp::from_epoch_ms(ms).unwrap(),
            id: CommentId::parse(id).unwrap(),
        }
    }

    fn rating(stars: u64) -> Rating {
        Rating::new(stars).unwrap()
    }

    fn after(ms: i64, id: &str) -> PartitionPosition {
        PartitionPosition::After(cd(ms, id))
    }

    /// The cursor after three comments of two of the filter's ratings.
    fn following(to_come: &[u64]) -> Option<MergedCursor> {
        let query = MergedQuery {
            product: ProductId::parse("42").unwrap(),
            filter: Filter::new(None, Some(RatingSet::parse("1.3.5").unwrap())),
            page_size: PageSize::new(20).unwrap(),
        };
        let shown = [
            (cd(9, "a"), rating(5)),
            (cd(8, "b"), rating(1)),
            (cd(7, "c"), rating(5)),
        ];
        MergedCursor::following(
            &query,
            shown.iter().map(|(cd, rating)| (cd, *rating)),
            to_come.iter().map(|stars| rating(*stars)),
        )
    }

    #[test]
    fn a_cursor_can_be_made_from_the_comments_before_it() {
        let all_continue = vec![after(8, "b"), PartitionPosition::Beginning, after(7, "c")];
        assert_eq!(following(&[5, 3, 1]), MergedCursor::after(all_continue));
        assert_eq!(
            following(&[5]),
            MergedCursor::after(vec![
                PartitionPosition::End,
                PartitionPosition::End,
                after(7, "c")
            ])
        );
        assert_eq!(following(&[]), None);
    }
}
