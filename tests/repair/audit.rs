//! `audit`: after any damage to any comments, one run restores I1 and I2 and reports exactly the
//! damage.

use model::{BaseSet, ProductId, plan::reconcile::DriftKind};
use process::now;
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

fn shared_or_lonely(number: u64) -> ProductId {
    if number.is_multiple_of(10) {
        data::product(&format!("lonely {number}"))
    } else {
        product(number)
    }
}

#[tokio::test]
async fn segments_together_cover_the_whole_table() {
    const SEGMENTS: u32 = 5;
    let (stores, comments) = start_with(0..60, shared_or_lonely).await;
    assert_eq!(
        job(&stores, false)
            .status(SEGMENTS, None)
            .await
            .unwrap()
            .audited_share,
        0.0
    );
    let damages = comments
        .iter()
        .step_by(2)
        .zip(Damage::ALL.iter().copied().cycle());
    let expected = inflict_all(&stores, damages).await;
    let (mut drifted, mut items) = (Expected::new(), 0);
    for segment in 0..SEGMENTS {
        let options = AuditOptions {
            segments: SEGMENTS,
            segment: Some(segment),
            ..whole()
        };
        let report = job(&stores, true).audit(options).await;
        items += report.items;
        add(&mut drifted, report.drifted);
        let share = job(&stores, false)
            .status(SEGMENTS, None)
            .await
            .unwrap()
            .audited_share;
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
    assert_eq!(
        job(&stores, false)
            .status(SEGMENTS, None)
            .await
            .unwrap()
            .audited_share,
        0.8
    );
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

#[tokio::test]
async fn foreign_keys_and_members_in_redis_are_reported_as_unresolved() {
    let (stores, _) = start_with_redis(0..4, shared_or_lonely).await;
    let mut raw = redis_server::connection(&stores.redis().url).await;
    let prefix = &stores.redis().prefix;
    let some_set = stores
        .key_names()
        .await
        .into_iter()
        .find(|key| key.contains(":~/"))
        .unwrap();
    // Unknown keys, a set in another product's partition, and a member that is not an id.
    let keys = [
        format!("{prefix}:{{0}}:nonsense"),
        format!("{prefix}:{{9999}}:products"),
    ];
    for key in &keys {
        redis::cmd("SADD")
            .arg(&[key, "x"])
            .exec_async(&mut raw)
            .await
            .unwrap();
    }
    redis::cmd("ZADD")
        .arg(&[&some_set, "1", "no id"])
        .exec_async(&mut raw)
        .await
        .unwrap();
    // A name that is not a valid language, and a value of the wrong type in place of a product's
    // names.
    let keys = stores.key_names().await;
    let languages: Vec<&String> = keys
        .iter()
        .filter(|key| key.ends_with(":languages"))
        .collect();
    redis::cmd("SADD")
        .arg(&[languages[0], "no language"])
        .exec_async(&mut raw)
        .await
        .unwrap();
    redis::cmd("SET")
        .arg(&[languages[1], "text"])
        .exec_async(&mut raw)
        .await
        .unwrap();
    // Damage to other comments is still repaired: a language that no comment has.
    let damaged = stores.create_numbered(9, product(9)).await;
    stores.deliver_all().await;
    let [_, names] = name_keys(stores.redis(), &damaged.product);
    redis::cmd("SADD")
        .arg(&[&names, "x-unused"])
        .exec_async(&mut raw)
        .await
        .unwrap();
    let expected = Expected::from([(DriftKind::ExtraName, 1)]);
    for is_first in [true, false] {
        let report = job(&stores, true).audit(whole()).await;
        assert_eq!(
            report.drifted,
            if is_first {
                expected.clone()
            } else {
                Expected::new()
            },
            "{report}"
        );
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
async fn a_rank_in_a_language_that_the_audit_itself_names_is_removed() {
    let stores = Stores::start_ready_with_redis().await;
    let product = |number| data::product(&format!("product {number}"));
    let comment = |number, tag, stars| {
        data::new_comment(&format!("{tag}-{number}"), &product(number), tag, stars)
    };
    // Enough keys for several batches.
    let numbers = 0..120;
    let comments = numbers
        .clone()
        .flat_map(|number| [comment(number, "en", 3), comment(number, "ko", 5)]);
    stores.put_primary_items(comments.collect()).await;
    stores.deliver_all().await;
    let config = stores.redis();
    for number in numbers {
        let product = product(number);
        let [_, languages] = name_keys(config, &product);
        redis_server::send(&config.url, redis::cmd("SREM").arg(languages).arg("en")).await;
        // Half of them also fit the comment's rating, so that only its own language contradicts.
        let extra = BaseSet {
            language: Some(data::language("en")),
            ..data::rated(&product, 2 + number % 2 * 3)
        };
        let extra = config.key_name(&extra);
        redis_server::send(
            &config.url,
            redis::cmd("ZADD")
                .arg(extra)
                .arg(1)
                .arg(format!("ko-{number}")),
        )
        .await;
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
