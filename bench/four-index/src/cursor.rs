//! The cursor: the combined position in all partitions.
//!
//! The articles write it into the page's address: the keys of all partitions, compressed. No measurement needs that text, so
//! cursors stay in memory here, in favour of this design. A cursor belongs to a product and a filter, because no two of them
//! query the same partitions.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    iter::zip,
};

use model::{Cd, Rating};

use crate::{
    error::Error,
    key::{PageQuery, Plan},
    merge::Position,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(BTreeMap<String, Position>);

impl Cursor {
    pub(crate) fn after(plan: &Plan, positions: Vec<Position>) -> Option<Self> {
        let more = positions.iter().any(|position| *position != Position::End);
        more.then(|| Self(zip(plan.partitions.iter().map(|partition| partition.key.clone()), positions).collect()))
    }

    /// The cursor after the comments `shown`, for callers that know the listing without walking it. `to_come` are the
    /// comments that follow; both are newest first. `None` when no comments follow.
    ///
    /// A walk whose last answers were full learns one call later that a partition has ended.
    pub fn following<'comment>(
        query: &PageQuery,
        shown: impl IntoIterator<Item = (&'comment Cd, Rating)>,
        to_come: impl IntoIterator<Item = Rating>,
    ) -> Option<Self> {
        let plan = Plan::of(&query.product, &query.filter);
        let place = |rating: Rating| plan.partitions.iter().position(|of| of.rating.is_none_or(|of| of == rating));
        let last: HashMap<_, _> = shown.into_iter().map(|(cd, rating)| (place(rating), cd)).collect();
        let continued: HashSet<_> = to_come.into_iter().map(place).collect();
        let positions = (0..plan.partitions.len()).map(Some).map(|place| match last.get(&place) {
            _ if !continued.contains(&place) => Position::End,
            Some(cd) => Position::After((*cd).clone()),
            None => Position::Beginning,
        });
        Self::after(&plan, positions.collect())
    }

    pub(crate) fn positions(&self, plan: &Plan) -> Result<Vec<Position>, Error> {
        if self.0.len() != plan.partitions.len() {
            return Err(Error::OtherCursor);
        }
        let position = |key: &String| self.0.get(key).cloned().ok_or(Error::OtherCursor);
        plan.partitions.iter().map(|partition| position(&partition.key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use model::{CommentId, Filter, PageSize, ProductId, RatingSet, Timestamp};

    use super::*;

    fn query(product: &str, ratings: &str) -> PageQuery {
        PageQuery {
            product: ProductId::parse(product).unwrap(),
            filter: Filter::new(None, Some(RatingSet::parse(ratings).unwrap())),
            page_size: PageSize::new(20).unwrap(),
            skip_empty: false,
        }
    }

    fn plan(query: &PageQuery) -> Plan {
        Plan::of(&query.product, &query.filter)
    }

    fn cd(ms: i64, id: &str) -> Cd {
        Cd { created_at: Timestamp::from_epoch_ms(ms).unwrap(), id: CommentId::parse(id).unwrap() }
    }

    #[test]
    fn a_cursor_belongs_to_a_product_and_a_filter() {
        let own = query("42", "1.5");
        let positions = vec![Position::Beginning, Position::After(cd(5, "c1"))];
        let cursor = Cursor::after(&plan(&own), positions.clone()).unwrap();
        assert_eq!(cursor.positions(&plan(&own)).unwrap(), positions);
        for other in [query("43", "1.5"), query("42", "1.4"), query("42", "1"), query("42", "1.4.5")] {
            assert!(matches!(cursor.positions(&plan(&other)), Err(Error::OtherCursor)), "{other:?}");
        }
    }

    #[test]
    fn a_cursor_can_be_made_from_the_comments_before_it() {
        let query = query("42", "1.3.5");
        let rating = |stars| Rating::new(stars).unwrap();
        let shown = [(cd(9, "a"), rating(5)), (cd(8, "b"), rating(1)), (cd(7, "c"), rating(5))];
        let following = |to_come: &[u64]| {
            let to_come = to_come.iter().map(|stars| rating(*stars));
            Cursor::following(&query, shown.iter().map(|(cd, rating)| (cd, *rating)), to_come)
        };
        let (cursor, after) = (|of| Cursor::after(&plan(&query), of), |ms, id| Position::After(cd(ms, id)));
        let all_continue = vec![after(8, "b"), Position::Beginning, after(7, "c")];
        assert_eq!(following(&[5, 3, 1]), cursor(all_continue));
        assert_eq!(following(&[5]), cursor(vec![Position::End, Position::End, after(7, "c")]));
        assert_eq!(following(&[]), None);
    }
}
