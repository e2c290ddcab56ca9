//! The repair job on a Redis Cluster: an index scan covers every master.

use rand::{SeedableRng, rngs::StdRng};
use repair_job::exit;

use super::{assert_clean, job, product, whole};
use crate::fixture::{
    damage::{Damage, Expected, inflict},
    redis_cluster::RedisCluster,
    stores::Stores,
};

#[tokio::test]
async fn every_kind_of_damage_is_repaired_on_the_masters_of_a_cluster() {
    let cluster = RedisCluster::start().await;
    let mut random = StdRng::seed_from_u64(91);
    let stores = Stores::start_with(cluster.config()).await;
    stores.rebuild().await;
    // `DropName` fits only a product with a single comment.
    let kinds: Vec<Damage> = Damage::ALL.iter().copied().filter(|damage| *damage != Damage::DropName).collect();
    let mut comments = Vec::new();
    for (number, _) in (0..).zip(kinds.iter().cycle().take(3 * kinds.len())) {
        comments.push(stores.create_numbered(number, product(number)).await);
    }
    stores.deliver_all().await;
    let mut expected = Expected::new();
    for (comment, damage) in comments.iter().zip(kinds.into_iter().cycle()) {
        for (kind, count) in inflict(&stores, &mut random, comment, damage).await {
            *expected.entry(kind).or_default() += count;
        }
    }
    let report = job(&stores, true).audit(whole()).await;
    assert_eq!((report.drifted.clone(), report.exit_code()), (expected, exit::DRIFT_FOUND), "{report}");
    stores.assert_invariants().await;
    assert_clean(&job(&stores, true).audit(whole()).await);
    assert_clean(&job(&stores, true).recent().await);
    stores.finish().await;
}
