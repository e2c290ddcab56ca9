//! The repair job on a Redis Cluster: an index scan covers every master. Server.

use process::now;
use repair_job::exit;

use super::{assert_clean, is_ready, job, product, whole};
use crate::fixture::{
    damage::{Damage, inflict_all},
    redis_cluster::RedisCluster,
    stores::Stores,
};

const _: crate::Engines = crate::Engines::Both;

#[tokio::test]
#[ignore = "takes long"]
async fn a_rebuild_fills_a_cluster_and_every_kind_of_damage_is_repaired_on_its_masters() {
    let cluster = RedisCluster::start().await;
    let stores = Stores::start_with(cluster.config()).await;
    let count = u64::try_from(3 * Damage::ALL.len()).unwrap();
    let comments = stores.create_all(0..count, product).await;
    stores.rebuild().await;
    stores.assert_index().await;
    stores.deliver_all().await;
    let damages = comments.iter().zip(Damage::ALL.iter().copied().cycle());
    let expected = inflict_all(&stores, damages).await;
    let report = job(&stores, true).audit(whole()).await;
    assert_eq!(
        (report.drifted.clone(), report.exit_code()),
        (expected, exit::DRIFT_FOUND),
        "{report}"
    );
    stores.assert_invariants().await;
    assert_clean(&job(&stores, true).audit(whole()).await);
    assert_clean(&job(&stores, true).recent().await);
    // A rebuild removes what the table does not imply.
    let comments = stores.assert_index().await.comments();
    inflict_all(&stores, comments.iter().zip(Damage::OF_INDEX)).await;
    stores.rebuild().await;
    assert!(is_ready(&stores, now()).await);
    stores.finish().await;
}
