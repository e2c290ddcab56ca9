//! How far the ranks of a filter reach. Comments of the table beyond them are not ranked yet.

use model::{Cd, Order, Timestamp};
use process::StoreError;

use super::{IndexAnswer, PageIndex, PageStartQuery, Reach, StartAnswer};

/// The comments of a filter that the page index has ranked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Number of comments.
    pub total: u64,
    /// The newest and the oldest of them; `None` when the filter has none.
    pub ends: Option<Ends>,
}

/// The newest and the oldest of some comments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    /// Position of the newest.
    pub newest: Cd,
    /// Position of the oldest.
    pub oldest: Cd,
}

impl PageIndex {
    /// How far the ranks of a query's filter reach, in one round trip. The query's `skip` and order do not matter. Each
    /// end is looked up independently. The total is the larger of the two that come with the ends.
    ///
    /// # Errors
    /// The store's.
    pub async fn extent(
        &self,
        query: &PageStartQuery<'_>,
        table_id: &str,
        now: Timestamp,
    ) -> Result<IndexAnswer<Extent>, StoreError> {
        let first_in = |order| self.start_call(&PageStartQuery { skip: 0, order, ..query.clone() }, Reach::First);
        let answers: Vec<StartAnswer> = self.ask_all([Order::Newest, Order::Oldest].map(first_in)).await?;
        let (mut total, mut ends) = (0, Vec::with_capacity(answers.len()));
        for answer in answers {
            match self.read_start(answer, query, table_id, now)? {
                Ok(start) => {
                    total = start.total.max(total);
                    ends.extend(start.before);
                }
                Err(not_ready) => return Ok(Err(not_ready)),
            }
        }
        let ends = <[Cd; 2]>::try_from(ends).ok().map(|[newest, oldest]| Ends { newest, oldest });
        Ok(Ok(Extent { total, ends }))
    }
}
