//! Each kind of damage alone: a dry run reports exactly the damage and changes nothing, a run
//! repairs it, and the next run finds nothing.

use model::{
    Comment,
    plan::reconcile::DriftKind,
    planted::{Bug, plant},
};
use repair_job::{Report, exit};

use super::{assert_clean, job, product, whole};
use crate::fixture::{
    damage::{Damage, inflict},
    data, redis_server,
    stores::Stores,
};

const _: crate::Engines = crate::Engines::Both;

async fn create(stores: &Stores, from: u64) -> Comment {
    stores.create_all(from..from + 3, |_| product(0)).await;
    stores
        .create_numbered(from + 3, data::product(&format!("lonely {from}")))
        .await
}

async fn create_for(stores: &Stores, damages: &[Damage]) -> Vec<Comment> {
    let mut comments = Vec::new();
    for (number, _) in (0..).zip(damages) {
        comments.push(create(stores, number * 10).await);
    }
    stores.deliver_all().await;
    comments
}

#[tokio::test]
async fn an_audit_finds_and_repairs_every_kind_of_damage() {
    let stores = Stores::start_ready().await;
    let comments = create_for(&stores, Damage::ALL).await;
    assert_clean(&job(&stores, false).audit(whole()).await);
    for (comment, damage) in comments.into_iter().zip(Damage::ALL.iter().copied()) {
        let expected = inflict(&stores, &comment, damage).await;
        let found: u64 = expected.values().sum();
        for _ in 0..2 {
            let looked = job(&stores, false).audit(whole()).await;
            // A dry run continues over the damage. A product that has lost all its rank entries
            // then also has extra names.
            let mut drifted = looked.drifted.clone();
            if damage == Damage::DropRanks {
                drifted.remove(&DriftKind::ExtraName);
            }
            assert_eq!(drifted, expected, "{damage:?} {looked}");
            assert_eq!(
                looked.exit_code(),
                exit::DRIFT_FOUND | exit::DRIFT_LEFT,
                "{damage:?} {looked}"
            );
        }
        let repaired = job(&stores, true).audit(whole()).await;
        let outcome = (
            &repaired.drifted,
            repaired.repaired,
            repaired.left,
            repaired.exit_code(),
        );
        assert_eq!(
            outcome,
            (&expected, found, 0, exit::DRIFT_FOUND),
            "{damage:?} {repaired}"
        );
        assert_clean(&job(&stores, true).audit(whole()).await);
        stores.assert_invariants().await;
    }
    stores.finish().await;
}

/// The entries that a check shows. Their cells: what, state, is, should be, key.
fn rows(report: &Report) -> Vec<Vec<&str>> {
    let mut rows = Vec::new();
    for entry in report.comment.iter().flat_map(|comment| &comment.entries) {
        let cells = [
            &entry.what,
            &entry.state,
            &entry.is,
            &entry.should_be,
            &entry.key,
        ];
        rows.push(cells.map(String::as_str).to_vec());
    }
    rows
}

fn is_right(row: &[&str]) -> bool {
    row[1] == "right"
}

fn count_right(report: &Report) -> usize {
    rows(report).iter().filter(|row| is_right(row)).count()
}

async fn check(stores: &Stores, comment: &Comment, apply: bool) -> Report {
    let job = job(stores, apply);
    job.check(&comment.id, Some(&comment.product)).await
}

#[tokio::test]
async fn check_finds_and_repairs_damage_to_a_comment() {
    let stores = Stores::start_ready().await;
    // Only a full check finds these, which are not where the comment's items and product are.
    let elsewhere = [
        Damage::GhostDuplicates,
        Damage::AddRanksElsewhere,
        Damage::GhostRanks,
    ];
    let mut damages = Damage::ALL.to_vec();
    damages.retain(|damage| !elsewhere.contains(damage));
    let comments = create_for(&stores, &damages).await;
    for (comment, damage) in comments.into_iter().zip(damages) {
        let before = check(&stores, &comment, false).await;
        assert_clean(&before);
        assert_eq!(count_right(&before), 31 + 2, "{before}");
        let expected = inflict(&stores, &comment, damage).await;
        let looked = check(&stores, &comment, false).await;
        assert_eq!(looked.drifted, expected, "{damage:?} {looked}");
        let mut wrong = rows(&looked);
        wrong.retain(|row| !is_right(row));
        assert_eq!(
            u64::try_from(wrong.len()).unwrap(),
            expected.values().sum::<u64>(),
            "{damage:?} {looked}"
        );
        assert!(
            wrong.iter().all(|row| row[2] != row[3]),
            "{damage:?} {wrong:?}"
        );
        let repaired = check(&stores, &comment, true).await;
        assert_eq!(repaired.drifted, expected, "{damage:?}");
        let after = check(&stores, &comment, true).await;
        assert_clean(&after);
        let is_gone = damage == Damage::DropPrimary;
        let right_rows = if is_gone { 0 } else { 31 + 2 };
        assert_eq!(count_right(&after), right_rows, "{after}");
        stores.assert_invariants().await;
    }
    stores.finish().await;
}

/// Only an index in Redis stores counts: those of the totals, of blocks and of groups.
#[tokio::test]
async fn wrong_counts_in_redis_are_found_and_repaired() {
    let stores = Stores::start_ready_with_redis().await;
    stores.create_all(0..300, |_| product(0)).await;
    stores.deliver_all().await;
    let key = |part: &str| stores.redis().key_name(&product(0), part);
    let url = &stores.redis().url;
    redis_server::ask::<()>(url, &format!("HINCRBY {} ~/1 1", key("totals"))).await;
    plant(Some(Bug::WrongCountsStay));
    job(&stores, true).audit(whole()).await;
    plant(None);
    for command in [
        "PING".to_owned(),
        format!("HINCRBY {} # 1", key("totals")),
        format!("DEL {}", key("counts")),
        format!("DEL {}", key("counts/,-inf")),
        format!("ZPOPMIN {}", key("block/,-inf")),
        format!("ZADD {} 5 nobody,en,3", key("block/,-inf")),
        format!("ZADD {} 5 nobody,en,3", key("open")),
        format!("ZADD {} 5 nobody,6,en,3", key("open")),
        format!("DEL {}", key("totals")),
        format!("DEL {}", key("open")),
        format!("DEL {}", key("block/,-inf")),
        format!("DEL {} {}", key("open"), key("totals")),
        format!("DEL {}", key("groups")),
    ] {
        redis_server::ask::<redis::Value>(url, &command).await;
        let looked = job(&stores, false).audit(whole()).await;
        assert_eq!(
            looked.drifted.get(&DriftKind::WrongCounts),
            Some(&1),
            "{command} {looked}"
        );
        // What the recount brings to light, such as a comment that is missing, the next audit repairs.
        for _ in 0..2 {
            job(&stores, true).audit(whole()).await;
        }
        assert_clean(&job(&stores, true).audit(whole()).await);
        stores.assert_invariants().await;
    }
    stores.finish().await;
}

#[tokio::test]
async fn recent_repairs_the_totals_of_the_products_that_it_checks() {
    let stores = Stores::start_ready_with_redis().await;
    let comment = create(&stores, 0).await;
    stores.deliver_all().await;
    let expected = inflict(&stores, &comment, Damage::Miscount).await;
    let report = job(&stores, true).recent().await;
    assert_eq!(report.drifted, expected, "{report}");
    assert_clean(&job(&stores, true).recent().await);
    stores.assert_invariants().await;
    stores.finish().await;
}
