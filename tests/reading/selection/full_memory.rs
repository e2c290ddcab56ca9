//! A server with full memory.

use model::{Filter, ProductId, plan::index_edits};
use page_index::PageIndex;
use rand::{SeedableRng, rngs::StdRng};

use super::{check_positions, check_ranks, check_stats, fill, shapes, stats};
use crate::fixture::{data, redis_server::OwnRedis};

#[tokio::test]
async fn a_full_server_still_answers_and_accepts_edits_when_it_has_room_again() {
    let mut random = StdRng::seed_from_u64(7);
    let redis = OwnRedis::start().await;
    let index = redis.index();
    let product = shapes::product(shapes::SHAPES[1], 200, &mut random);
    fill(&index, std::slice::from_ref(&product), &mut random).await;

    redis.ask::<()>("CONFIG SET maxmemory 1").await;
    let filter = data::filter(None, Some("1.3.5"));
    // Also with scripts that must be loaded first.
    redis.ask::<()>("SCRIPT FLUSH").await;
    check_ranks(&index, &product, &filter, None, &[0, 10, 100, 1_000]).await;
    check_positions(&index, &product, &filter).await;
    check_stats(&index, &product, &Filter::ANY).await;
    let last = &product.comments[0];
    let entry = data::entry(&last.placement, last.cd.created_at);
    let addition = index_edits(&data::comment_id("added"), Some(&entry), &[]);
    let error = index.apply(&addition).await.unwrap_err();
    assert!(
        error.is_unavailable(),
        "worth another try once there is room: {error:?}"
    );
    check_stats(&index, &product, &Filter::ANY).await;
    // Nobody has to read a deleted comment's rank until there is room.
    let deletion = index_edits(&last.cd.id, None, std::slice::from_ref(&entry));
    index.apply(&deletion).await.unwrap();
    assert_eq!(comments(&index, &product.id).await, 199);

    redis.ask::<()>("CONFIG SET maxmemory 0").await;
    index.apply(&addition).await.unwrap();
    assert_eq!(comments(&index, &product.id).await, 200);
}

async fn comments(index: &PageIndex, product: &ProductId) -> u64 {
    let stats = stats(index, product, &Filter::ANY).await;
    stats.by_rating.total()
}

#[tokio::test]
async fn a_server_that_may_evict_only_keys_with_an_expiry_keeps_the_index() {
    let mut random = StdRng::seed_from_u64(8);
    let redis = OwnRedis::start().await;
    redis
        .ask::<()>("CONFIG SET maxmemory-policy volatile-lru")
        .await;
    let index = redis.index();
    let product = shapes::product(shapes::SHAPES[1], 200, &mut random);
    fill(&index, std::slice::from_ref(&product), &mut random).await;
    redis.ask::<()>("SETEX of-another-program 1000 text").await;
    redis.ask::<()>("CONFIG SET maxmemory 1").await;
    check_stats(&index, &product, &Filter::ANY).await;
    assert_eq!(comments(&index, &product.id).await, 200);
}
