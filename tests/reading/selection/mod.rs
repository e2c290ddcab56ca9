//! For any spread of creation times, the page index gives the ranks, totals, positions and stats of
//! a brute-force filter and sort, and needs few commands.

mod cost;
mod full_memory;
mod shapes;

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use itertools::{Itertools, iproduct};
use model::{
    Cd, Filter, Language, Order, ProductId, RatingCounts, RatingSet, Timestamp, plan::index_edits,
};
use page_index::{
    CommentPosition, IndexPart, PageIndex, PositionQuery, Ranked, RankedQuery, Stats, StatsWanted,
};
use process::now;
use rand::{
    RngExt, SeedableRng,
    rngs::StdRng,
    seq::{IndexedRandom, SliceRandom},
};

use self::shapes::{Product, SHAPES};
use crate::{
    fixture::{
        data,
        page_indexes::for_each_index,
        redis_server::{OwnRedis, TABLE_ID, make_ready},
    },
    reading::ordering::Listed,
};

const _: crate::Engines = crate::Engines::Both;

/// Requests in parallel. They share one connection, so this hides the round trips.
const CONCURRENCY: usize = 64;

/// Puts products into an index and marks it ready. A third of the comments had another rating or
/// language before, and the same number of further comments was deleted.
pub(crate) async fn fill(index: &PageIndex, products: &[Product], random: &mut StdRng) {
    let rebuild = index.begin_rebuild().await.unwrap();
    let mut first = Vec::new();
    let mut then = Vec::new();
    for comment in products.iter().flat_map(|product| &product.comments) {
        let id = &comment.cd.id;
        let created_at = comment.cd.created_at;
        let last = &comment.placement;
        if random.random_range(0..3) > 0 {
            first.extend(data::index_comment(id, last, created_at));
            continue;
        }
        let language = ["en", "pt-BR", "zh-Hant"].choose(random).unwrap();
        let before = data::placement(&last.product, language, random.random_range(1..=5));
        let last = data::entry(last, created_at);
        // A third of those had another creation time before.
        let moved_ms = [0, 0, -1][random.random_range(0..3)];
        let all = [
            data::entry(&before, created_at.plus_ms(moved_ms)),
            last.clone(),
        ];
        first.extend(index_edits(id, Some(&all[0]), &[]));
        then.extend(index_edits(id, Some(&last), &all));
        let deleted = data::comment_id(&format!("deleted.{id}"));
        first.extend(index_edits(&deleted, Some(&all[0]), &[]));
        then.extend(index_edits(&deleted, None, &all));
    }
    first.shuffle(random);
    then.shuffle(random);
    // An edit applied again changes nothing.
    for edits in [&first, &then, &then] {
        index.apply(edits).await.unwrap();
    }
    index
        .finish_rebuild(&rebuild, TABLE_ID, now())
        .await
        .unwrap();
}

/// The comments of a listing that are not created later than an instant.
fn up_to<'listing>(listing: &[&'listing Cd], instant: Option<Timestamp>) -> Vec<&'listing Cd> {
    let mut found = listing.to_vec();
    if let Some(instant) = instant {
        found.retain(|cd| cd.created_at <= instant);
    }
    found
}

/// Asks for the page that begins with each rank in `skips`, and compares with brute force. The
/// settled comments are those up to an instant before or after `as_of`.
pub(crate) async fn check_ranks(
    index: &PageIndex,
    product: &Product,
    filter: &Filter,
    as_of: Option<Timestamp>,
    skips: &[u64],
) {
    for (order, count) in iproduct!([Order::Newest, Order::Oldest], [1, 20]) {
        let listing = product.listing(filter, order);
        let ranked = up_to(&listing, as_of);
        let settled_at = product
            .comments
            .get(usize::from(count))
            .map(|comment| comment.cd.created_at);
        let settled = up_to(&listing, settled_at).len() as u64;
        let newest = listing.iter().map(|cd| cd.created_at).max();
        // The newest comment may be from the future. Then the answer says another instant.
        let reached = as_of.or(newest.filter(|instant| *instant < now()));
        stream::iter(skips)
            .for_each_concurrent(CONCURRENCY, async |skip| {
                let of_filter = RankedQuery::new(&product.id, filter);
                let query = RankedQuery {
                    order,
                    skip: *skip,
                    count,
                    as_of,
                    settled_at,
                    ..of_filter
                };
                let found = ask(index, query).await;
                let from_skip = ranked.iter().skip(usize::try_from(*skip).unwrap());
                let page = from_skip.take(count.into()).copied();
                let shape = product.shape;
                assert!(
                    found.comments.iter().eq(page),
                    "{shape}: {query:?}: {found:?}"
                );
                if let Some(reached) = reached {
                    assert_eq!(found.reached, reached, "{query:?}: {found:?}");
                }
                assert_eq!(found.total, ranked.len() as u64, "{shape}: {query:?}");
                assert_eq!(found.settled, settled, "{shape}: {query:?}");
                assert_eq!(found.all, listing.len() as u64, "{shape}: {query:?}");
            })
            .await;
    }
}

/// Asks for what follows some positions: those of comments, and those just beside them. Compares
/// with brute force.
pub(crate) async fn check_after(
    index: &PageIndex,
    product: &Product,
    filter: &Filter,
    random: &mut StdRng,
) {
    let mut positions = Vec::new();
    for comment in product.comments.sample(random, 30) {
        positions.push(comment.cd.clone());
        positions.extend(comment.cd.just_before());
        positions.extend(comment.cd.just_after());
    }
    for (order, skip, position) in iproduct!([Order::Newest, Order::Oldest], [0, 3], &positions) {
        let mut expected = product.listing(filter, order);
        expected.retain(|cd| order.compare(cd, position).is_gt());
        let query = RankedQuery {
            order,
            after: Some(position),
            skip,
            count: 20,
            ..RankedQuery::new(&product.id, filter)
        };
        let found = ask(index, query).await;
        let from_skip = expected.into_iter().skip(usize::try_from(skip).unwrap());
        let shape = product.shape;
        assert!(
            found.comments.iter().eq(from_skip.take(20)),
            "{shape}: {query:?}: {found:?}"
        );
    }
}

async fn ask(index: &PageIndex, query: RankedQuery<'_>) -> Ranked {
    index
        .ranked(&[query], TABLE_ID, now())
        .await
        .unwrap()
        .remove(0)
        .unwrap()
}

async fn stats(index: &PageIndex, product: &ProductId, filter: &Filter) -> Stats {
    let query = RankedQuery {
        stats: StatsWanted::WithLanguages,
        ..RankedQuery::new(product, filter)
    };
    ask(index, query).await.stats.unwrap()
}

/// The 31 sets of ratings, including all five, each with both languages, an unused language, and
/// any language.
fn filters() -> Vec<Filter> {
    let languages = [None, Some("en"), Some("pt-BR"), Some("fr")];
    iproduct!(languages, RatingSet::every().collect_vec())
        .map(|(language, ratings)| Filter::new(language.map(data::language), Some(ratings)))
        .collect()
}

/// Checks every rank from the first to past the end, for some filters of each kind and at some
/// instants.
pub(crate) async fn check_product(index: &PageIndex, product: &Product, random: &mut StdRng) {
    for filter in filters().sample(random, 8) {
        let total = product.listing(filter, Order::Newest).len() as u64;
        let mut skips: Vec<u64> = (0..=total + 1).collect();
        skips.extend([total + 1000, 100_000_000_000_000]);
        check_ranks(index, product, filter, None, &skips).await;
        check_after(index, product, filter, random).await;
        let instant = product.comments.choose(random).unwrap().cd.created_at;
        for as_of in [instant, instant.plus_ms(-1), Timestamp::MIN] {
            let mut some: Vec<u64> = skips.sample(random, 60).copied().collect();
            some.extend([0, total]);
            check_ranks(index, product, filter, Some(as_of), &some).await;
        }
    }
}

pub(crate) fn products(n: i64, random: &mut StdRng) -> Vec<Product> {
    SHAPES
        .into_iter()
        .map(|shape| shapes::product(shape, n, random))
        .collect()
}

#[tokio::test]
async fn every_rank_of_every_filter_is_that_of_a_brute_force_sort() {
    for_each_index(async |index| {
        let mut random = StdRng::seed_from_u64(1);
        for n in [60, 240] {
            let products = products(n, &mut random);
            fill(&index, &products, &mut random).await;
            for product in &products {
                check_product(&index, product, &mut random).await;
            }
        }
    })
    .await;
}

/// The parts of an index that a scan finds wrong, and the number of members that it finds.
async fn scan(index: &PageIndex) -> (Vec<IndexPart>, usize) {
    let mut position = index.begin_index_scan().await.unwrap();
    let mut wrong = Vec::new();
    let mut members = 0;
    while let Some(part) = index.next_index_part(&mut position).await.unwrap() {
        match part {
            IndexPart::Entries(entries) => members += entries.len(),
            IndexPart::Products(..) | IndexPart::Nothing => {}
            IndexPart::Miscounted(_) | IndexPart::Unknown(_) | IndexPart::Unreadable(..) => {
                wrong.push(part);
            }
        }
    }
    (wrong, members)
}

/// In Redis, its blocks and groups are cut, emptied and removed.
#[tokio::test]
async fn a_large_product_that_grows_and_shrinks_at_random_keeps_its_ranks() {
    for_each_index(async |index| {
        let mut random = StdRng::seed_from_u64(21);
        for shape in [SHAPES[0], SHAPES[4], SHAPES[12]] {
            let mut product = shapes::product(shape, 18_000, &mut random);
            fill(&index, std::slice::from_ref(&product), &mut random).await;
            product.comments.shuffle(&mut random);
            while !product.comments.is_empty() {
                let number = product.comments.len();
                assert_eq!(
                    scan(&index).await,
                    (Vec::new(), number),
                    "{}",
                    product.shape
                );
                let filters = filters();
                for filter in [&Filter::ANY, filters.choose(&mut random).unwrap()] {
                    let total = product.listing(filter, Order::Newest).len() as u64;
                    let skips: Vec<u64> = (0..10).map(|_| random.random_range(0..=total)).collect();
                    let as_of = product.comments.choose(&mut random).unwrap().cd.created_at;
                    check_ranks(&index, &product, filter, None, &skips).await;
                    check_ranks(&index, &product, filter, Some(as_of), &skips).await;
                }
                let removed = product.comments.split_off(number / 3);
                let mut edits = Vec::new();
                for comment in &removed {
                    let entry = data::entry(&comment.placement, comment.cd.created_at);
                    edits.extend(index_edits(&comment.cd.id, None, &[entry]));
                }
                index.apply(&edits).await.unwrap();
            }
            assert_eq!(scan(&index).await, (Vec::new(), 0));
        }
    })
    .await;
}

async fn forget_scripts(redis: &OwnRedis) {
    redis.ask::<()>("SCRIPT FLUSH").await;
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_loaded_again() {
    let mut random = StdRng::seed_from_u64(3);
    // Use a separate server. On the shared one, a call of a different test could lose its scripts
    // twice.
    let redis = OwnRedis::start().await;
    let index = redis.index();
    let product = shapes::product(SHAPES[2], 100, &mut random);

    forget_scripts(&redis).await;
    fill(&index, std::slice::from_ref(&product), &mut random).await;
    let filter = data::filter(None, Some("1.3.5"));
    forget_scripts(&redis).await;
    check_ranks(&index, &product, &filter, None, &[40]).await;
    forget_scripts(&redis).await;
    check_positions(&index, &product, &filter).await;
    forget_scripts(&redis).await;
    check_stats(&index, &product, &Filter::ANY).await;
    forget_scripts(&redis).await;
    // More edits than one pipeline holds. The server forgets the scripts between two pipelines.
    let mut edits = Vec::new();
    for number in 0..600 {
        let id = data::comment_id(&format!("new{number}"));
        let comment = &product.comments[number % 100];
        let created_at = comment.cd.created_at;
        edits.extend(data::index_comment(&id, &comment.placement, created_at));
    }
    let (applied, ()) = tokio::join!(index.apply(&edits), forget_scripts(&redis));
    applied.unwrap();
    let stats = stats(&index, &product.id, &Filter::ANY).await;
    assert_eq!(stats.by_rating.total(), 700);
}

/// The position of a comment by brute force. The listing may lack it.
fn expected_position(listing: &[&Cd], cd: &Cd, settled_at: Option<Timestamp>) -> CommentPosition {
    let mut all = listing.to_vec();
    all.retain(|other| other.id != cd.id);
    let older = all.iter().filter(|other| **other < cd).count();
    all.push(cd);
    CommentPosition {
        older: older as u64,
        total: all.len() as u64,
        settled: up_to(&all, settled_at).len() as u64,
    }
}

pub(crate) async fn check_positions(index: &PageIndex, product: &Product, filter: &Filter) {
    let listing = product.listing(filter, Order::Oldest);
    let mut cds = listing.iter().copied().cloned().collect_vec();
    // Also comments that are not indexed yet, at an instant that other comments share.
    let middle = listing.get(listing.len() / 2);
    for cd in [listing.first(), middle, listing.last()]
        .into_iter()
        .flatten()
    {
        cds.push(Cd {
            id: data::comment_id(&format!("{}-new", cd.id)),
            created_at: cd.created_at,
        });
    }
    let some = product
        .comments
        .first()
        .map(|comment| comment.cd.created_at);
    let asked = iproduct!(cds, [None, some]).collect_vec();
    stream::iter(&asked)
        .for_each_concurrent(CONCURRENCY, async |(cd, settled_at)| {
            let query = PositionQuery {
                product: &product.id,
                filter,
                cd,
                settled_at: *settled_at,
            };
            let found = index
                .position(&query, TABLE_ID, now())
                .await
                .unwrap()
                .unwrap();
            let expected = expected_position(&listing, cd, *settled_at);
            assert_eq!(found, expected, "{}: {cd}", product.shape);
        })
        .await;
}

#[tokio::test]
async fn every_position_is_that_of_a_brute_force_sort() {
    for_each_index(async |index| {
        let mut random = StdRng::seed_from_u64(4);
        let products = products(300, &mut random);
        fill(&index, &products, &mut random).await;
        for product in &products {
            for filter in filters().sample(&mut random, 5) {
                check_positions(&index, product, filter).await;
            }
        }
    })
    .await;
}

pub(crate) async fn check_stats(index: &PageIndex, product: &Product, filter: &Filter) {
    let found = stats(index, &product.id, filter).await;
    check_ratings(product, filter, &found);
    check_languages(product, filter, &found);
    check_summary(index, product, filter, &found).await;
}

/// Ratings are counted among the comments in the filter's language, with any rating.
fn check_ratings(product: &Product, filter: &Filter, found: &Stats) {
    let mut by_rating = RatingCounts::default();
    let mut by_rating_in_any_language = RatingCounts::default();
    let mut last_commented_at = None;
    for Listed { cd, placement } in &product.comments {
        by_rating_in_any_language.add(placement.rating, 1);
        let is_in_language = filter
            .language()
            .is_none_or(|language| placement.language == *language);
        if is_in_language {
            by_rating.add(placement.rating, 1);
            last_commented_at = last_commented_at.max(Some(cd.created_at));
        }
    }
    assert_eq!(found.by_rating, by_rating);
    assert_eq!(found.by_rating_in_any_language, by_rating_in_any_language);
    assert_eq!(found.last_commented_at, last_commented_at);
}

/// Languages are counted among the comments with the filter's ratings, in any language.
fn check_languages(product: &Product, filter: &Filter, found: &Stats) {
    let mut by_language: BTreeMap<Language, u64> = BTreeMap::new();
    for Listed { placement, .. } in &product.comments {
        let count = by_language.entry(placement.language.clone()).or_default();
        let is_wanted = filter
            .ratings()
            .is_none_or(|ratings| ratings.contains(placement.rating));
        if is_wanted {
            *count += 1;
        }
    }
    assert_eq!(found.languages, by_language.len() as u64);
    let counted = by_language.into_iter().take(Stats::LANGUAGES_MAX);
    assert_eq!(found.by_language, counted.collect_vec());
}

/// A question for the ratings alone gets the same ratings. One call may ask about several products.
async fn check_summary(index: &PageIndex, product: &Product, filter: &Filter, found: &Stats) {
    let nobody = data::product("nobody has commented on this");
    let queries = [&nobody, &product.id].map(|id| RankedQuery {
        stats: StatsWanted::ByRating,
        ..RankedQuery::new(id, filter)
    });
    let answers = index.ranked(&queries, TABLE_ID, now()).await.unwrap();
    let [of_nobody, of_product] = answers.try_into().unwrap();
    let of_nobody = of_nobody.unwrap().stats.unwrap();
    assert_eq!(of_nobody.by_rating, RatingCounts::default());
    assert_eq!(of_nobody.last_commented_at, None);
    let summary = Stats {
        by_language: Vec::new(),
        languages: 0,
        ..found.clone()
    };
    assert_eq!(of_product.unwrap().stats, Some(summary));
}

#[tokio::test]
async fn stats_are_exact_and_forget_a_language_without_comments() {
    for_each_index(async |index| {
        let mut random = StdRng::seed_from_u64(5);
        // Filling added comments of a third language and removed them again.
        let products = products(200, &mut random);
        fill(&index, &products, &mut random).await;
        for product in &products {
            for language in [None, Some("en"), Some("pt-BR"), Some("fr")] {
                for ratings in [None, Some("2"), Some("1.3.5")] {
                    check_stats(&index, product, &data::filter(language, ratings)).await;
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn stats_of_a_product_in_very_many_languages_count_only_some() {
    for_each_index(async |index| {
        make_ready(&index, now()).await;
        let mut product = Product {
            shape: "one a language",
            id: data::product("every/tag"),
            comments: Vec::new(),
        };
        let mut edits = Vec::new();
        for number in 0..3 * Stats::LANGUAGES_MAX {
            let id = data::comment_id(&format!("c{number}"));
            let created_at = now();
            let language = format!("x-{number:04}");
            let placement = data::placement(&product.id, &language, 1 + number as u64 % 5);
            edits.extend(data::index_comment(&id, &placement, created_at));
            let cd = Cd { created_at, id };
            product.comments.push(Listed { cd, placement });
        }
        index.apply(&edits).await.unwrap();
        for ratings in [None, Some("2"), Some("1.3.5")] {
            for language in [None, Some("x-0001"), Some("x-0599")] {
                check_stats(&index, &product, &data::filter(language, ratings)).await;
            }
        }
    })
    .await;
}
