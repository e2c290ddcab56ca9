//! A server with full memory.

use model::{Filter, plan::index_edits};
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
    let comment = &product.comments[0];
    let edits = index_edits(
        &comment.cd.id,
        None,
        std::slice::from_ref(&comment.placement),
    );
    let error = index.apply(&edits).await.unwrap_err();
    assert!(
        error.is_unavailable(),
        "worth another try once there is room: {error:?}"
    );
    check_stats(&index, &product, &Filter::ANY).await;

    redis.ask::<()>("CONFIG SET maxmemory 0").await;
    index.apply(&edits).await.unwrap();
    let stats = stats(&index, &product.id, &Filter::ANY).await;
    assert_eq!(stats.by_rating.total(), 199);
}
