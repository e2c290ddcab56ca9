//! `audit`: after any damage to any comments, one run restores I1 and I2 and reports exactly the
//! damage.

use model::{BaseSet, ProductId, plan::reconcile::DriftKind};
use process::now;
use redis::aio::MultiplexedConnection;
use repair_job::{AuditOptions, exit};
use serde_json::{Value, json};

use super::{assert_clean, job, product, settings, start_with, start_with_redis, whole};
use crate::fixture::{
    damage::{Damage, Expected, add, inflict_all},
    data,
    invariants::name_keys,
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
    let some_set = keys.find(|key| key.contains(":~/")).unwrap();
    // Unknown keys, a set in another product's partition, and a member that is not an id.
    let nonsense = format!("{prefix}:{{0}}:nonsense");
    let in_other_partition = format!("{prefix}:{{9999}}:products");
    send(&mut raw, "SADD", &[&nonsense, "x"]).await;
    send(&mut raw, "SADD", &[&in_other_partition, "x"]).await;
    send(&mut raw, "ZADD", &[&some_set, "1", "no id"]).await;
    // A name that is not a valid language, and a value of the wrong type instead of a product's
    // names.
    let mut languages = stores.key_names().await;
    languages.retain(|key| key.ends_with(":languages"));
    let languages: Vec<String> = languages.into_iter().collect();
    send(&mut raw, "SADD", &[&languages[0], "no language"]).await;
    send(&mut raw, "SET", &[&languages[1], "text"]).await;
    // Damage to other comments is still repaired: a language that no comment has.
    let damaged = stores.create_numbered(9, product(9)).await;
    stores.deliver_all().await;
    let [_, names] = name_keys(stores.redis(), &damaged.product);
    send(&mut raw, "SADD", &[&names, "x-unused"]).await;
    // Only the first audit finds the damage. Both report the rest.
    let extra_name = Expected::from([(DriftKind::ExtraName, 1)]);
    for expected in [extra_name, Expected::new()] {
        let report = job(&stores, true).audit(whole()).await;
        assert_eq!(report.drifted, expected, "{report}");
        assert_eq!(
            report.exit_code() & !exit::DRIFT_FOUND,
            exit::UNRESOLVED,
            "{report}"
        );
        assert_eq!(report.unresolved_count, 6, "{report}");
        assert!(
            report
                .unresolved
                .iter()
                .all(|what| what.contains("repair-job rebuild --apply removes")),
            "{report}"
        );
    }
    stores.rebuild().await;
    assert_clean(&job(&stores, true).audit(whole()).await);
    stores.finish().await;
}

/// The index scan compares a comment only in the languages that have names at that time. Then a
/// repair names another language. A later batch has a superfluous rank of the comment in that
/// language.
#[tokio::test]
#[ignore = "takes long"]
async fn a_rank_in_a_language_that_the_audit_itself_names_is_removed() {
    let stores = Stores::start_ready_with_redis().await;
    // Enough keys for several batches.
    let numbers = 0..120;
    let mut comments = Vec::new();
    for number in numbers.clone() {
        let product = data::product(&format!("product {number}"));
        for (tag, stars) in [("en", 3), ("ko", 5)] {
            let id = format!("{tag}-{number}");
            comments.push(data::new_comment(&id, &product, tag, stars));
        }
    }
    stores.put_primary_items(comments).await;
    stores.deliver_all().await;
    let config = stores.redis();
    for number in numbers {
        let product = data::product(&format!("product {number}"));
        let [_, languages] = name_keys(config, &product);
        redis_server::send(&config.url, redis::cmd("SREM").arg(languages).arg("en")).await;
        // Half of them also fit the comment's rating, so that only its own language contradicts.
        let extra = BaseSet {
            language: Some(data::language("en")),
            ..data::rated(&product, 2 + number % 2 * 3)
        };
        let mut add = redis::cmd("ZADD");
        add.arg(config.key_name(&extra)).arg(1);
        add.arg(format!("ko-{number}"));
        redis_server::send(&config.url, &add).await;
    }
    let report = job(&stores, true).audit(whole()).await;
    assert_eq!(
        (report.drifted[&DriftKind::MissingName], report.left),
        (120, 0),
        "{report}"
    );
    assert_eq!(report.drifted[&DriftKind::ExtraRank], 120, "{report}");
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
    let [[of_a, _], [of_b, _]] = ["a", "b"].map(|id| name_keys(config, &data::product(id)));
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
