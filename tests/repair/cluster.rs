//! The repair job on a Redis Cluster: an index scan covers every master. Server.

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
    let stores = Stores::start_with(cluster.config()).await;
    stores.rebuild().await;
    let count = u64::try_from(3 * Damage::ALL.len()).unwrap();
    let comments = stores.create_all(0..count, product).await;
    stores.deliver_all().await;
    let damages = comments.iter().zip(Damage::ALL.iter().copied().cycle());
    let expected = inflict_all(&stores, damages).await;
    let report = job(&stores, true).audit(whole()).await;
    assert_eq!((report.drifted.clone(), report.exit_code()), (expected, exit::DRIFT_FOUND), "{report}");
    stores.assert_invariants().await;
    assert_clean(&job(&stores, true).audit(whole()).await);
    assert_clean(&job(&stores, true).recent().await);
    stores.finish().await;
}
