//! How far the ranks of a filter reach. What the table has beyond them is not ranked yet.

use model::{Cd, Instant, Order};

use super::{IndexAnswer, PageIndex, PageStartQuery, Reach, StartAnswer};
use crate::error::StoreError;

/// What the page index has ranked under a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// How many comments.
    pub total: u64,
    /// The newest and the oldest of them; `None` when there is none.
    pub ends: Option<Ends>,
}

/// The newest and the oldest of some comments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    /// Where the newest stands.
    pub newest: Cd,
    /// Where the oldest stands.
    pub oldest: Cd,
}

impl PageIndex {
    /// How far the ranks reach that a query is about, in one round trip; its `skip` and order do not matter. Each end is
    /// looked for by itself. The total is the greater of those that were found with them.
    ///
    /// # Errors
    /// The store's.
    pub async fn extent(
        &self,
        query: &PageStartQuery<'_>,
        table_id: &str,
        now: Instant,
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
