//! For any spread of creation times, the page index gives the ranks, totals, positions and stats of
//! a brute-force filter and sort, and needs few commands.

mod cost;
mod full_memory;
mod shapes;

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use itertools::{Itertools, iproduct};
use model::{
    Cd, Filter, Language, Order, Placement, ProductId, RatingCounts, RatingSet, Timestamp,
    plan::{IndexEdit, index_edits},
};
use page_index::{
    CommentPosition, PageIndex, PositionQuery, Ranked, RankedQuery, Stats, StatsWanted,
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

/// Requests in parallel. They share one connection, so this hides the round trips.
const CONCURRENCY: usize = 64;

/// Puts products into an index and marks it ready. A third of the comments had another rating or
/// language before, and the same number of further comments was deleted.
pub(crate) async fn fill(index: &PageIndex, products: &[Product], random: &mut StdRng) {
    let rebuild = index.begin_rebuild().await.unwrap();
    let (mut first, mut then) = (Vec::new(), Vec::new());
    for comment in products.iter().flat_map(|product| &product.comments) {
        let (product, id) = (&comment.placement.product, &comment.cd.id);
        let last = Some((&comment.placement, comment.cd.created_at));
        if random.random_range(0..3) > 0 {
            first.extend(index_edits(id, last, &[]));
            continue;
        }
        let language = ["en", "pt-BR", "zh-Hant-TW"].choose(random).unwrap();
        let before = data::placement(product, language, random.random_range(1..=5));
        let other = data::comment_id(&format!("deleted.{id}"));
        for (id, after) in [(id, last), (&other, None)] {
            first.extend(data::index_comment(id, &before, comment.cd.created_at));
            then.extend(index_edits(
                id,
                after,
                &[before.clone(), comment.placement.clone()],
            ));
        }
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
        let up_to =
            |at: Option<Timestamp>| move |cd: &&&Cd| at.is_none_or(|at| cd.created_at <= at);
        let ranked: Vec<&Cd> = listing.iter().filter(up_to(as_of)).copied().collect();
        let settled_at = product
            .comments
            .get(usize::from(count))
            .map(|comment| comment.cd.created_at);
        let (all, settled) = (
            listing.len() as u64,
            listing.iter().filter(up_to(settled_at)).count() as u64,
        );
        let newest = listing
            .iter()
            .map(|cd| cd.created_at)
            .max()
            .filter(|at| *at < now());
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
                let page = ranked
                    .iter()
                    .skip(usize::try_from(*skip).unwrap())
                    .take(count.into())
                    .copied();
                assert!(
                    found.comments.iter().eq(page),
                    "{}: {query:?}: {found:?}",
                    product.shape
                );
                assert!(
                    as_of
                        .or(newest)
                        .is_none_or(|reached| found.reached == reached),
                    "{query:?}: {found:?}"
                );
                let totals = (found.total, found.settled, found.all);
                assert_eq!(
                    totals,
                    (ranked.len() as u64, settled, all),
                    "{}: {query:?}",
                    product.shape
                );
            })
            .await;
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
        let skips: Vec<u64> = (0..=total + 1)
            .chain([total + 1000, 100_000_000_000_000])
            .collect();
        check_ranks(index, product, filter, None, &skips).await;
        let instant = product.comments.choose(random).unwrap().cd.created_at;
        for as_of in [instant, instant.plus_ms(-1), Timestamp::MIN] {
            let some: Vec<u64> = skips
                .sample(random, 60)
                .copied()
                .chain([0, total])
                .collect();
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

#[tokio::test]
async fn scripts_that_the_server_forgot_are_loaded_again() {
    let mut random = StdRng::seed_from_u64(3);
    // Use a separate server. On the shared one, a call of a different test could lose its scripts
    // twice.
    let redis = OwnRedis::start().await;
    let index = redis.index();
    let product = shapes::product(SHAPES[2], 100, &mut random);
    let forget = async || redis.ask::<()>("SCRIPT FLUSH").await;

    forget().await;
    fill(&index, std::slice::from_ref(&product), &mut random).await;
    let filter = data::filter(None, Some("1.3.5"));
    forget().await;
    check_ranks(&index, &product, &filter, None, &[40]).await;
    forget().await;
    check_positions(&index, &product, &filter).await;
    forget().await;
    check_stats(&index, &product, &Filter::ANY).await;
    forget().await;
    // More edits than one pipeline holds. The server forgets the scripts between two pipelines.
    let edits: Vec<IndexEdit> = (0..600)
        .flat_map(|number| {
            let id = data::comment_id(&format!("new{number}"));
            let comment = &product.comments[number % 100];
            data::index_comment(&id, &comment.placement, comment.cd.created_at)
        })
        .collect();
    let applied = index.apply(&edits);
    let (applied, ()) = tokio::join!(applied, forget());
    applied.unwrap();
    assert_eq!(
        stats(&index, &product.id, &Filter::ANY)
            .await
            .by_rating
            .total(),
        700
    );
}

pub(crate) async fn check_positions(index: &PageIndex, product: &Product, filter: &Filter) {
    let listing = product.listing(filter, Order::Oldest);
    let some = product
        .comments
        .first()
        .map(|comment| comment.cd.created_at);
    // Also comments that are not indexed yet, at an instant that other comments share.
    let indexed = [
        listing.first(),
        listing.get(listing.len() / 2),
        listing.last(),
    ]
    .into_iter()
    .flatten();
    let new = indexed.map(|cd| Cd {
        id: data::comment_id(&format!("{}-new", cd.id)),
        created_at: cd.created_at,
    });
    let asked = listing
        .iter()
        .copied()
        .cloned()
        .chain(new)
        .cartesian_product([None, some])
        .collect_vec();
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
            let others = || listing.iter().filter(|other| other.id != cd.id);
            let older = others().filter(|other| **other < cd).count() as u64;
            let all = || others().copied().chain([cd]);
            let settled = all()
                .filter(|cd| settled_at.is_none_or(|instant| cd.created_at <= instant))
                .count() as u64;
            let expected = CommentPosition {
                older,
                total: all().count() as u64,
                settled,
            };
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
    let counted = |by: &dyn Fn(&Placement) -> bool| {
        product
            .comments
            .iter()
            .filter(|comment| by(&comment.placement))
            .count() as u64
    };
    let in_language = |placement: &Placement| {
        filter
            .language()
            .is_none_or(|language| placement.language == *language)
    };
    let found = stats(index, &product.id, filter).await;
    for (rating, count) in found.by_rating.iter() {
        assert_eq!(
            count,
            counted(&|placement| placement.rating == rating && in_language(placement)),
            "{rating}"
        );
    }
    for (rating, count) in found.by_rating_in_any_language.iter() {
        assert_eq!(
            count,
            counted(&|placement| placement.rating == rating),
            "{rating}"
        );
    }
    let nobody = data::product("nobody has commented on this");
    let by_rating = |product| RankedQuery {
        stats: StatsWanted::ByRating,
        ..RankedQuery::new(product, filter)
    };
    let counted = index
        .ranked(
            &[by_rating(&nobody), by_rating(&product.id)],
            TABLE_ID,
            now(),
        )
        .await
        .unwrap();
    let [of_nobody, summary] = counted
        .into_iter()
        .map(|answer| answer.unwrap().stats.unwrap())
        .collect_array()
        .unwrap();
    assert_eq!(
        summary,
        Stats {
            by_language: Vec::new(),
            languages: 0,
            ..found.clone()
        }
    );
    assert_eq!(
        (of_nobody.by_rating, of_nobody.last_commented_at),
        (RatingCounts::default(), None)
    );
    let mut by_language: BTreeMap<&Language, u64> = BTreeMap::new();
    for Listed { placement, .. } in &product.comments {
        let is_wanted = filter
            .ratings()
            .is_none_or(|ratings| ratings.contains(placement.rating));
        *by_language.entry(&placement.language).or_default() += u64::from(is_wanted);
    }
    assert_eq!(found.languages, by_language.len() as u64);
    let counted = by_language.into_iter().take(Stats::LANGUAGES_MAX);
    assert!(
        found
            .by_language
            .iter()
            .map(|(language, count)| (language, *count))
            .eq(counted)
    );
    let times = product
        .comments
        .iter()
        .filter(|comment| in_language(&comment.placement));
    assert_eq!(
        found.last_commented_at,
        times.map(|comment| comment.cd.created_at).max()
    );
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
        let id = data::product("every/tag");
        let comments = (0..3 * Stats::LANGUAGES_MAX).map(|number| {
            let cd = Cd {
                created_at: now(),
                id: data::comment_id(&format!("c{number}")),
            };
            let placement = data::placement(&id, &format!("x-{number:04}"), 1 + number as u64 % 5);
            Listed { cd, placement }
        });
        let product = Product {
            shape: "one a language",
            id: id.clone(),
            comments: comments.collect(),
        };
        let edit = |comment: &Listed| {
            data::index_comment(&comment.cd.id, &comment.placement, comment.cd.created_at)
        };
        index
            .apply(&product.comments.iter().flat_map(edit).collect::<Vec<_>>())
            .await
            .unwrap();
        for ratings in [None, Some("2"), Some("1.3.5")] {
            for language in [None, Some("x-0001"), Some("x-0599")] {
                check_stats(&index, &product, &data::filter(language, ratings)).await;
            }
        }
    })
    .await;
}
