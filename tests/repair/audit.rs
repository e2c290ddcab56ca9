//! `audit`: after any damage to any comments, one run restores I1 and I2 and reports exactly the
//! damage.

use model::{ProductId, plan::reconcile::DriftKind};
use process::now;
use redis::aio::MultiplexedConnection;
use repair_job::{AuditOptions, exit};
use serde_json::{Value, json};

use super::{assert_clean, job, product, settings, start_with, start_with_redis, whole};
use crate::fixture::{
    damage::{Damage, Expected, add, inflict_all},
    data,
    invariants::key_of_names,
    redis_server,
    stores::Stores,
};

const _: crate::Engines = crate::Engines::Both;

fn shared_or_lonely(number: u64) -> ProductId {
    if number.is_multiple_of(10) {
        data::product(&format!("lonely {number}"))
    } else {
        product(number)
    }
}

async fn audited_share(stores: &Stores, segments: u32) -> f64 {
    let status = job(stores, false).status(segments, None).await;
    status.unwrap().audited_share
}

#[tokio::test]
#[ignore = "takes long"]
async fn segments_together_cover_the_whole_table() {
    const SEGMENTS: u32 = 5;
    let (stores, comments) = start_with(0..60, shared_or_lonely).await;
    assert_eq!(audited_share(&stores, SEGMENTS).await, 0.0);
    let all_kinds = Damage::ALL.iter().copied().cycle();
    let damages = comments.iter().step_by(2).zip(all_kinds);
    let expected = inflict_all(&stores, damages).await;
    let mut drifted = Expected::new();
    let mut items = 0;
    for segment in 0..SEGMENTS {
        let options = AuditOptions {
            segments: SEGMENTS,
            segment: Some(segment),
            ..whole()
        };
        let report = job(&stores, true).audit(options).await;
        items += report.items;
        add(&mut drifted, report.drifted);
        let share = audited_share(&stores, SEGMENTS).await;
        assert_eq!(share, f64::from(segment + 1) / f64::from(SEGMENTS));
    }
    // The watermark excludes the time by which writers' clocks may differ.
    let watermark = stores.table.watermark().await.unwrap().unwrap();
    let overlap_ms = i64::try_from(settings(true).overlap.as_millis()).unwrap();
    assert!(watermark <= now().plus_ms(-overlap_ms), "{watermark}");
    // A pass that began too long ago covers nothing, whenever it ended.
    let name = format!("{SEGMENTS}/000000");
    let done: Value = stores.table.state("audit", &name).await.unwrap().unwrap();
    let mut old = done.clone();
    old["last_began"] = json!(now().plus_ms(-8 * 24 * 3_600_000));
    stores.table.put_state("audit", &name, &old).await.unwrap();
    assert_eq!(audited_share(&stores, SEGMENTS).await, 0.8);
    stores.table.put_state("audit", &name, &done).await.unwrap();
    // No segment is due, so a rolling run only scans the page index. It finds what the table scan
    // cannot find.
    let rolling = AuditOptions {
        segments: SEGMENTS,
        rolling: true,
        ..whole()
    };
    let report = job(&stores, true).audit(rolling).await;
    assert_eq!(report.items, 0, "{report}");
    add(&mut drifted, report.drifted);
    assert_eq!(drifted, expected);
    let contents = stores.assert_invariants().await;
    assert!(items >= u64::try_from(contents.primary.len() * 32).unwrap());
    let again = job(&stores, true).audit(rolling).await;
    assert_eq!(
        (again.items, again.members),
        (0, 0),
        "neither the table nor the page index is due: {again}"
    );
    stores.finish().await;
}

async fn send(connection: &mut MultiplexedConnection, command: &str, arguments: &[&str]) {
    let mut command = redis::cmd(command);
    command.arg(arguments);
    command.exec_async(connection).await.unwrap();
}

#[tokio::test]
#[ignore = "takes long"]
async fn foreign_keys_and_members_in_redis_are_reported_as_unresolved() {
    let (stores, _) = start_with_redis(0..4, shared_or_lonely).await;
    let mut raw = redis_server::connection(&stores.redis().url).await;
    let prefix = &stores.redis().prefix;
    let mut keys = stores.key_names().await.into_iter();
    let some_block = keys.find(|key| key.ends_with("/open")).unwrap();
    // Unknown keys, a set in another partition, and a member that is not a comment's.
    let nonsense = format!("{prefix}:{{0}}:nonsense");
    let in_other_partition = format!("{prefix}:{{9999}}:products");
    send(&mut raw, "SADD", &[&nonsense, "x"]).await;
    send(&mut raw, "SADD", &[&in_other_partition, "x"]).await;
    send(&mut raw, "ZADD", &[&some_block, "1", "no id"]).await;
    // A value of the wrong type instead of another product's totals.
    let totals = keys
        .find(|key| key.ends_with("/totals") && !key.starts_with(&some_block.replace("open", "")));
    let totals = totals.unwrap();
    send(&mut raw, "SET", &[&totals, "text"]).await;
    // Damage to other products is still repaired: a language that no comment has.
    let damaged = stores.create_numbered(9, product(9)).await;
    stores.deliver_all().await;
    let counts = stores.redis().key_name(&damaged.product, "totals");
    send(&mut raw, "HSET", &[&counts, "x-unused/1", "1"]).await;
    // Only the first audit finds the damage, and the member. Both report the rest.
    let wrong_counts = Expected::from([(DriftKind::WrongCounts, 2)]);
    for expected in [wrong_counts, Expected::new()] {
        let report = job(&stores, true).audit(whole()).await;
        assert_eq!(report.drifted, expected, "{report}");
        assert_eq!(
            report.exit_code() & !exit::DRIFT_FOUND,
            exit::UNRESOLVED,
            "{report}"
        );
        assert_eq!(report.unresolved_count, 6, "{report}");
        for what in &report.unresolved {
            let is_of_comment = what.starts_with("comment c");
            let names_remedy = what.contains("repair-job rebuild --apply removes");
            assert!(is_of_comment || names_remedy, "{report}");
        }
    }
    stores.rebuild().await;
    assert_clean(&job(&stores, true).audit(whole()).await);
    stores.finish().await;
}

#[tokio::test]
#[ignore = "takes long"]
async fn a_name_that_is_not_of_a_product_in_its_partition_is_removed() {
    let (stores, _) = start_with_redis(0..2, |number| {
        data::product(["a", "b"][usize::try_from(number).unwrap()])
    })
    .await;
    let config = stores.redis();
    let [of_a, of_b] = ["a", "b"].map(|id| key_of_names(config, &data::product(id)));
    assert_ne!(of_a, of_b, "the products are in two partitions");
    redis_server::send(
        &config.url,
        redis::cmd("SADD").arg(of_a).arg("b").arg("no/product"),
    )
    .await;
    for (apply, code) in [
        (false, exit::DRIFT_FOUND | exit::DRIFT_LEFT),
        (true, exit::DRIFT_FOUND),
        (true, 0),
    ] {
        let report = job(&stores, apply).audit(whole()).await;
        assert_eq!(report.exit_code(), code, "{report}");
    }
    stores.finish().await;
}
