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
        positions
            .iter()
            .any(|position| *position != PartitionPosition::End)
            .then_some(Self(positions))
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
        let place = |rating: Rating| {
            plan.partitions
                .iter()
                .position(|of| of.rating.is_none_or(|of| of == rating))
        };
        let last: HashMap<_, _> = shown
            .into_iter()
            .map(|(cd, rating)| (place(rating), cd))
            .collect();
        let continued: HashSet<_> = to_come.into_iter().map(place).collect();
        let positions = (0..plan.partitions.len())
            .map(Some)
            .map(|place| match last.get(&place) {
                _ if !continued.contains(&place) => PartitionPosition::End,
                Some(cd) => PartitionPosition::After((*cd).clone()),
                None => PartitionPosition::Beginning,
            });
        Self::after(positions.collect())
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

    #[test]
    fn a_cursor_can_be_made_from_the_comments_before_it() {
        let query = MergedQuery {
            product: ProductId::parse("42").unwrap(),
            filter: Filter::new(None, Some(RatingSet::parse("1.3.5").unwrap())),
            page_size: PageSize::new(20).unwrap(),
        };
        let rating = |stars| Rating::new(stars).unwrap();
        let shown = [
            (cd(9, "a"), rating(5)),
            (cd(8, "b"), rating(1)),
            (cd(7, "c"), rating(5)),
        ];
        let following = |to_come: &[u64]| {
            let to_come = to_come.iter().map(|stars| rating(*stars));
            MergedCursor::following(
                &query,
                shown.iter().map(|(cd, rating)| (cd, *rating)),
                to_come,
            )
        };
        let after = |ms, id| PartitionPosition::After(cd(ms, id));
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
