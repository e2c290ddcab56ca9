//! Pages in the order of ratings: the highest or the lowest first, and the newest first within a
//! rating.
//!
//! Each rating is one filter key. So a page is one Query, or one more for each further rating that
//! it reaches.
//!
//! | page | is |
//! | --- | --- |
//! | of a number | the ranks of its number. The counts of the ratings say which rating it begins in, and at which rank there |
//! | page 1, and those of cursors | a [stretch](Stretch) of each rating, one after the other, until the page is full |

use model::{Cd, Comment, Order, PageNumber, Rating};
use page_index::{CommentPosition, Ranked, RankedQuery};

use super::{
    ListingPage, PageAt, PageRead, PageRequest, WantedBesides,
    by_cursor::Walked,
    join::{self, After, Ranks},
    stretch::Stretch,
};
use crate::{
    error::ApiError,
    read::{
        ListingQuery,
        cursor::{Cursor, Direction},
    },
    store::StoreClients,
};

/// The ranks of one rating that are on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// The rating, by its place in the order of the listing.
    rating: usize,
    /// Number of its comments on earlier pages.
    skip: u64,
    count: u16,
}

/// The ranks on a page of `size` comments with `skip` comments before it, where the ratings have so
/// many comments each.
fn runs(counts: &[u64], mut skip: u64, size: u16) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut remaining = size;
    for (rating, count) in counts.iter().enumerate() {
        let on_page = u16::try_from(count.saturating_sub(skip)).unwrap_or(u16::MAX);
        let count_on_page = on_page.min(remaining);
        if count_on_page > 0 {
            runs.push(Run {
                rating,
                skip,
                count: count_on_page,
            });
            remaining -= count_on_page;
        }
        skip = skip.saturating_sub(*count);
    }
    runs
}

impl PageRequest<'_> {
    /// Reads a page of a listing that is ordered by rating.
    pub(super) async fn read_by_rating(
        &self,
        stores: &StoreClients,
        wanted: WantedBesides,
    ) -> PageRead {
        let ratings = self.query.by_rating();
        let beginning = self.beginning();
        let whole = RankedQuery {
            as_of: self.as_of(),
            stats: wanted.stats,
            ..self.query.ranked_query()
        };
        let mut asked = vec![whole];
        let mut stretches = Vec::new();
        let later_number = self.later_number();
        if later_number.is_some() {
            asked.extend(ratings.iter().map(|rating| RankedQuery {
                as_of: self.as_of(),
                ..rating.ranked_query()
            }));
        } else {
            stretches = self.stretches(&ratings, beginning.as_ref());
            asked.extend(stretches.iter().map(Stretch::ranked_query));
        }
        let mut ranked = stores.ranked("ranks", &asked).await;
        let stats = ranked
            .as_mut()
            .and_then(|ranked| ranked.first_mut()?.stats.take());
        let ranked = ranked.as_deref().and_then(<[Ranked]>::split_first);
        let listing = match (later_number, ranked) {
            (Some(number), Some((whole, counted))) => {
                self.read_number(&ratings, number, whole, counted, stores)
                    .await
            }
            (Some(_), None) => Err(ApiError::IndexUnavailable),
            (None, ranked) => match self.walk(&stretches, ranked, stores).await {
                Ok(walked) => self.cut_walked(walked, ranked.map(|(whole, _)| whole)),
                Err(error) => Err(error),
            },
        };
        PageRead {
            listing: listing.map(Some),
            stats,
            contrast: None,
        }
    }

    /// The number of the page, unless it is page 1 or a page by cursor.
    fn later_number(&self) -> Option<PageNumber> {
        match self.at {
            PageAt::Number(number, _) if number != PageNumber::FIRST => Some(number),
            PageAt::Number(..) | PageAt::Archive(_) | PageAt::Front | PageAt::Cursor(_) => None,
        }
    }

    fn cursor(&self) -> Option<&Cursor> {
        if let PageAt::Cursor(cursor) = &self.at {
            Some(cursor)
        } else {
            None
        }
    }

    /// The stretches that a page is made of: of each rating from the cursor on, or of all.
    fn stretches<'asked>(
        &'asked self,
        ratings: &'asked [ListingQuery],
        beginning: Option<&'asked Cd>,
    ) -> Vec<Stretch<'asked>> {
        let mut stretches = Vec::new();
        let Some(cursor) = self.cursor() else {
            for listing in ratings {
                stretches.push(Stretch {
                    listing,
                    ..self.first_stretch(beginning)
                });
            }
            return stretches;
        };
        let mut begins_here = ratings
            .iter()
            .position(|listing| rating_of(listing) == cursor.rating)
            .unwrap_or_default();
        let mut ratings: Vec<&ListingQuery> = ratings.iter().collect();
        if cursor.direction == Direction::Backward {
            ratings.reverse();
            begins_here = ratings.len() - 1 - begins_here;
        }
        for (place, listing) in ratings.into_iter().enumerate().skip(begins_here) {
            let from_cursor = self.stretch_from(cursor);
            let after = from_cursor.after.filter(|_| place == begins_here);
            stretches.push(Stretch {
                listing,
                after,
                ..from_cursor
            });
        }
        stretches
    }

    /// Reads one stretch after the other, until the page is full.
    async fn walk(
        &self,
        stretches: &[Stretch<'_>],
        ranked: Option<(&Ranked, &[Ranked])>,
        stores: &StoreClients,
    ) -> Result<Walked, ApiError> {
        let size = usize::from(self.query.page_size.get());
        let direction = match self.cursor() {
            Some(cursor) => cursor.direction,
            None => Direction::Forward,
        };
        let mut walked = Walked::default();
        for (place, stretch) in stretches.iter().enumerate() {
            let ranks = ranked.and_then(|(_, ranked)| ranked.get(place));
            let remaining = size.saturating_sub(walked.comments.len());
            if remaining == 0 && ranks.is_some_and(|ranks| !ranks.comments.is_empty()) {
                walked.leads_on = true;
                break;
            }
            // Once the page is full, this sees whether the table has rows without a rank.
            let stretch = Stretch {
                max: u16::try_from(remaining).unwrap_or(u16::MAX),
                ..*stretch
            };
            let rows = stores.page(&stretch.table_query()).await?;
            let joined = stretch.read(stores, ranks, rows).await?;
            let leads_on = joined.after != After::Nothing;
            if remaining > 0 {
                walked.add(direction, rating_of(stretch.listing), joined);
            }
            if leads_on {
                walked.leads_on = true;
                break;
            }
        }
        Ok(walked)
    }

    fn cut_walked(&self, walked: Walked, whole: Option<&Ranked>) -> Result<ListingPage, ApiError> {
        if let Some(cursor) = self.cursor() {
            return Ok(ListingPage {
                total: whole.map(|whole| whole.all),
                ..walked.into_page(Order::Newest, cursor)
            });
        }
        let Walked {
            comments,
            onwards,
            leads_on,
            has_empty_places,
            ..
        } = walked;
        let next = onwards.filter(|_| leads_on);
        let Some(whole) = whole else {
            return self.cut_first(comments, next);
        };
        if comments.is_empty() && (leads_on || has_empty_places) {
            return Err(ApiError::NotYetListed);
        }
        let shown = comments.len() as u64;
        Ok(ListingPage {
            as_of: Some(self.reached(whole, &comments)),
            comments,
            total: Some(whole.total.max(shown)),
            settled: Some(whole.settled),
            next,
            has_empty_places,
            ..ListingPage::default()
        })
    }

    /// Reads a page of a number. `counted` is what the page index counts of each rating.
    async fn read_number(
        &self,
        ratings: &[ListingQuery],
        number: PageNumber,
        whole: &Ranked,
        counted: &[Ranked],
        stores: &StoreClients,
    ) -> Result<ListingPage, ApiError> {
        let size = self.query.page_size;
        let page = number.get();
        let counts: Vec<u64> = counted.iter().map(|rating| rating.total).collect();
        let total: u64 = counts.iter().sum();
        let total_pages = size.total_pages(total);
        if page > total_pages {
            let checked = self.query.check_ranked(stores, self.as_of(), total).await;
            return Err(checked
                .err()
                .unwrap_or(ApiError::PastTheEnd { page, total_pages }));
        }
        let skip = number.skip(size);
        let runs = runs(&counts, skip, size.get().into());
        let mut asked = Vec::new();
        for run in &runs {
            if let Some(rating) = ratings.get(run.rating) {
                asked.push(RankedQuery {
                    skip: run.skip,
                    count: run.count,
                    as_of: self.as_of(),
                    ..rating.ranked_query()
                });
            }
        }
        let ranked = stores.ranked("ranks", &asked).await;
        let ranked = ranked.ok_or(ApiError::IndexUnavailable)?;
        let mut walked = Walked::default();
        for (run, ranked) in runs.iter().zip(&ranked) {
            let Some(listing) = ratings.get(run.rating) else {
                continue;
            };
            let ranks = Ranks {
                max: ranked.comments.len(),
                ..Ranks::of_page(Order::Newest, size, &ranked.comments)
            };
            let rows = stores
                .page_of_ranks(&ranks.first_query(listing), ranks.comments)
                .await?;
            let joined = join::read(listing, stores, ranks, rows).await?;
            walked.leads_on = joined.after != After::Nothing;
            walked.add(Direction::Forward, rating_of(listing), joined);
        }
        if walked.comments.is_empty() {
            return Err(ApiError::NotYetListed);
        }
        let leads_on = walked.leads_on || page < total_pages;
        Ok(ListingPage {
            as_of: Some(self.reached(whole, &walked.comments)),
            total: Some(total.max(skip + walked.comments.len() as u64)),
            comments: walked.comments,
            settled: Some(whole.settled),
            next: walked.onwards.filter(|_| leads_on),
            prev: walked.back,
            has_empty_places: walked.has_empty_places,
            ..ListingPage::default()
        })
    }
}

/// The rating of a listing of one rating.
fn rating_of(listing: &ListingQuery) -> Option<Rating> {
    listing.filter.ratings()?.iter().next()
}

/// The position of a comment in a listing that is ordered by rating. `older` counts the comments
/// that follow it. `None` without the page index.
pub(crate) async fn position_by_rating(
    stores: &StoreClients,
    query: &ListingQuery,
    comment: &Comment,
) -> Option<CommentPosition> {
    let ratings = query.by_rating();
    let counts: Vec<RankedQuery<'_>> = ratings.iter().map(ListingQuery::ranked_query).collect();
    let counts = stores.ranked("ranks", &counts).await?;
    let place = ratings
        .iter()
        .position(|listing| rating_of(listing) == Some(comment.rating))?;
    let within = stores
        .position(comment, &ratings.get(place)?.filter)
        .await?;
    let mut position = within;
    for (rating, counted) in counts.iter().enumerate() {
        if rating != place {
            position.total += counted.all;
        }
        if rating > place {
            position.older += counted.all;
        }
    }
    Some(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rating: usize, skip: u64, count: u16) -> Run {
        Run {
            rating,
            skip,
            count,
        }
    }

    #[test]
    fn a_page_has_the_ranks_of_its_number_rating_by_rating() {
        for (counts, skip, expected) in [
            (vec![5, 5], 0, vec![run(0, 0, 4)]),
            (vec![5, 5], 4, vec![run(0, 4, 1), run(1, 0, 3)]),
            (vec![5, 5], 8, vec![run(1, 3, 2)]),
            (vec![5, 5], 12, vec![]),
            (
                vec![1, 0, 1, 1, 9],
                0,
                vec![run(0, 0, 1), run(2, 0, 1), run(3, 0, 1), run(4, 0, 1)],
            ),
            (vec![4, 4], 4, vec![run(1, 0, 4)]),
            (vec![0, 70_000], 69_998, vec![run(1, 69_998, 2)]),
            (vec![], 0, vec![]),
        ] {
            assert_eq!(runs(&counts, skip, 4), expected, "{counts:?} from {skip}");
        }
    }
}
