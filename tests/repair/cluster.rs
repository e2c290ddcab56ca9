//! The repair job on a Redis Cluster: an index scan covers every master. Server.

use rand::{SeedableRng, rngs::StdRng};
use repair_job::exit;

use super::{assert_clean, job, product, whole};
use crate::fixture::{
    damage::{Damage, inflict_all},
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
    let mut kinds = Damage::all(&stores);
    kinds.retain(|damage| *damage != Damage::DropName);
    let count = u64::try_from(3 * kinds.len()).unwrap();
    let comments = stores.create_all(0..count, product).await;
    stores.deliver_all().await;
    let damages = comments.iter().zip(kinds.into_iter().cycle());
    let expected = inflict_all(&stores, &mut random, damages).await;
    let report = job(&stores, true).audit(whole()).await;
    assert_eq!((report.drifted.clone(), report.exit_code()), (expected, exit::DRIFT_FOUND), "{report}");
    stores.assert_invariants().await;
    assert_clean(&job(&stores, true).audit(whole()).await);
    assert_clean(&job(&stores, true).recent().await);
    stores.finish().await;
}
