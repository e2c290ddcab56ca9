//! A server with full memory.

use model::{Filter, RatingSet, plan::index_edits};
use process::now;
use rand::{SeedableRng, rngs::StdRng};

use super::{TABLE_ID, check_positions, check_starts, check_stats, fill, shapes};
use crate::fixture::redis_server::OwnRedis;

#[tokio::test]
async fn a_server_that_is_full_goes_on_answering_and_takes_edits_when_it_has_room_again() {
    let mut random = StdRng::seed_from_u64(7);
    let redis = OwnRedis::start().await;
    let index = redis.index();
    let product = shapes::product(shapes::SHAPES[1], 200, &mut random);
    fill(&index, std::slice::from_ref(&product), &mut random).await;
    let mut raw = redis.connection().await;
    let mut run = async |command: &str| {
        let mut words = command.split(' ');
        redis::cmd(words.next().unwrap()).arg(words.collect::<Vec<_>>()).exec_async(&mut raw).await.unwrap();
    };

    run("CONFIG SET maxmemory 1").await;
    let filter = Filter::new(None, RatingSet::parse("1.3.5").ok());
    // Also with scripts that must be loaded first.
    run("SCRIPT FLUSH").await;
    check_starts(&index, &product, &filter, None, &[0, 10, 100, 1_000]).await;
    check_positions(&index, &product, &filter).await;
    check_stats(&index, &product, &Filter::ANY).await;
    let comment = &product.comments[0];
    let edits = index_edits(&comment.cd.id, None, std::slice::from_ref(&comment.placement));
    let error = index.apply(&edits).await.unwrap_err();
    assert!(error.is_unavailable(), "worth another try once there is room: {error:?}");
    check_stats(&index, &product, &Filter::ANY).await;

    run("CONFIG SET maxmemory 0").await;
    index.apply(&edits).await.unwrap();
    let stats = index.stats(&product.id, &Filter::ANY, TABLE_ID, now()).await.unwrap().unwrap();
    assert_eq!(stats.by_rating.iter().map(|(_, count)| count).sum::<u64>(), 199);
}
