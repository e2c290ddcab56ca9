//! The most recent positive comment of a product beside its most recent critical one. The ranks
//! name them in the page's own call. The page often shows them; their texts are read only where it
//! does not.

use model::{Cd, Comment, Filter, ProductId, RatingSet};
use page_index::{Ranked, RankedQuery};

use crate::store::StoreClients;

/// The ratings of a positive comment, and of a critical one. Large shops draw the line here too.
const POSITIVE: &str = "4.5";
const CRITICAL: &str = "1.2.3";

#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) comment: Comment,
    pub(crate) filter: Filter,
}

#[derive(Debug)]
pub(crate) struct Contrast {
    pub(crate) positive: Side,
    pub(crate) critical: Side,
}

/// The filters of both sides, which the page index is asked for.
#[derive(Debug)]
pub(super) struct Sides {
    positive: Filter,
    critical: Filter,
}

impl Sides {
    pub(super) fn new() -> Self {
        Self {
            positive: of_ratings(POSITIVE),
            critical: of_ratings(CRITICAL),
        }
    }

    pub(super) fn queries<'asked>(
        &'asked self,
        product: &'asked ProductId,
    ) -> [RankedQuery<'asked>; 2] {
        [&self.positive, &self.critical].map(|filter| RankedQuery {
            count: 1,
            ..RankedQuery::new(product, filter)
        })
    }

    /// Both comments, from the answers to [`Sides::queries`]; `None` unless both exist. Comments
    /// that the page shows are taken from it. The rest of a page does not need the others, so an
    /// error is logged and leaves them out.
    pub(super) async fn read(
        self,
        stores: &StoreClients,
        product: &ProductId,
        [positive, critical]: [&Ranked; 2],
        page: &[Comment],
    ) -> Option<Contrast> {
        let named = [positive.comments.first()?, critical.comments.first()?];
        let mut missing: Vec<&Cd> = Vec::new();
        for cd in named {
            if !page.iter().any(|comment| comment.cd() == *cd) {
                missing.push(cd);
            }
        }
        let read = match stores.newest_comments(product, &missing).await {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%error, "a front page lacks its positive and its critical comment");
                return None;
            }
        };
        let known: Vec<&Comment> = page.iter().chain(&read).collect();
        let [positive, critical] = named.map(|cd| known.iter().find(|comment| comment.cd() == *cd));
        let positive = (**positive?).clone();
        let critical = (**critical?).clone();
        Some(Contrast {
            positive: side(positive, self.positive)?,
            critical: side(critical, self.critical)?,
        })
    }
}

impl Contrast {
    pub(crate) const COMMENTS: u16 = 2;
}

fn of_ratings(ratings: &str) -> Filter {
    Filter::new(None, RatingSet::parse(ratings).ok())
}

/// The comment, unless its rating was edited and its ranks do not know it yet.
fn side(comment: Comment, filter: Filter) -> Option<Side> {
    if filter.matches(&comment.placement()) {
        Some(Side { comment, filter })
    } else {
        None
    }
}
