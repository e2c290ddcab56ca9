//! Repair on a page index inside the process. It holds one entry for each comment, so fewer kinds of damage exist than
//! in Redis. Each is found and repaired by the same commands.

use model::{Comment, Placement, Timestamp, plan::index_edits};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use repair_job::exit;
use strum::VariantArray;

use super::{assert_clean, expect, is_ready, job, product, whole};
use crate::fixture::{data, stores::Stores};

/// A kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, VariantArray)]
enum Damage {
    /// Removes the comment.
    Lost,
    /// Gives it another language and rating.
    Recoded,
    /// Gives it another creation time.
    Moved,
    /// Adds it to another product, too.
    Elsewhere,
    /// Adds a comment that never existed.
    Ghost,
}

/// Stores with comments on five products, which both functions have processed.
async fn start(count: u64) -> (Stores, Vec<Comment>) {
    let stores = Stores::start_ready_embedded().await;
    let comments = stores.create_all(0..count, product).await;
    stores.deliver_all().await;
    (stores, comments)
}

async fn inflict(stores: &Stores, comment: &Comment, damage: Damage) {
    let (right, created_at) = (comment.placement(), comment.created_at);
    let other = Placement {
        language: data::language("de"),
        rating: data::rating(1 + u64::from(comment.rating.get()) % 5),
        ..right.clone()
    };
    let elsewhere = Placement { product: data::product("elsewhere"), ..right.clone() };
    let ghost = data::comment_id(&format!("ghost-of-{}", comment.id));
    let later = created_at.plus_ms(7);
    let (id, last, seen): (_, Option<(&Placement, Timestamp)>, &[Placement]) = match damage {
        Damage::Lost => (&comment.id, None, &[right]),
        Damage::Recoded => (&comment.id, Some((&other, created_at)), &[right]),
        Damage::Moved => (&comment.id, Some((&right, later)), &[]),
        Damage::Elsewhere => (&comment.id, Some((&elsewhere, created_at)), &[]),
        Damage::Ghost => (&ghost, Some((&right, created_at)), &[]),
    };
    stores.index.apply(&index_edits(id, last, seen)).await.unwrap();
}

#[tokio::test]
async fn an_audit_of_an_index_inside_the_process_repairs_every_kind_of_damage() {
    let (stores, comments) = start(20).await;
    for (comment, damage) in comments.iter().zip(Damage::VARIANTS) {
        assert_clean(&job(&stores, false).audit(whole()).await);
        inflict(&stores, comment, *damage).await;
        let looked = expect(exit::DRIFT_FOUND | exit::DRIFT_LEFT, job(&stores, false).audit(whole()).await);
        let again = job(&stores, false).audit(whole()).await;
        assert_eq!((&looked.drifted, looked.drifted_comments), (&again.drifted, 1), "{damage:?} {again}");
        let repaired = expect(exit::DRIFT_FOUND, job(&stores, true).audit(whole()).await);
        assert_eq!(repaired.drifted, looked.drifted, "{damage:?} {repaired}");
        stores.assert_invariants().await;
    }
    stores.finish().await;
}

#[tokio::test]
async fn a_check_of_a_comment_repairs_its_entry_inside_the_process() {
    let (stores, comments) = start(10).await;
    for (comment, damage) in comments.iter().zip([Damage::Lost, Damage::Recoded, Damage::Moved]) {
        inflict(&stores, comment, damage).await;
        let check = async |apply| job(&stores, apply).check(&comment.id, Some(&comment.product)).await.report;
        expect(exit::DRIFT_FOUND | exit::DRIFT_LEFT, check(false).await);
        expect(exit::DRIFT_FOUND, check(true).await);
        assert_clean(&check(true).await);
        stores.assert_invariants().await;
    }
    stores.finish().await;
}

#[tokio::test]
async fn recent_repairs_what_an_index_inside_the_process_has_missed() {
    let (stores, _) = start(20).await;
    // The handlers never see these.
    stores.create_all(20..40, product).await;
    let report = expect(exit::DRIFT_FOUND, job(&stores, true).recent().await);
    assert!(report.repaired >= 20 * 35, "{report}");
    stores.assert_invariants().await;
    assert!(is_ready(&stores, process::now()).await);
    assert_clean(&job(&stores, true).recent().await);
    stores.finish().await;
}

#[tokio::test]
async fn a_rebuild_replaces_whatever_an_index_inside_the_process_holds() {
    let (stores, comments) = start(100).await;
    let mut random = StdRng::seed_from_u64(1);
    for comment in &comments {
        let damage = Damage::VARIANTS[random.random_range(0..Damage::VARIANTS.len())];
        inflict(&stores, comment, damage).await;
    }
    let report = job(&stores, true).rebuild(4).await;
    assert_eq!(report.exit_code(), 0, "{report}");
    stores.assert_invariants().await;
    assert!(is_ready(&stores, process::now()).await);
    stores.finish().await;
}

#[tokio::test]
async fn random_damage_inside_the_process_is_repaired_by_one_audit() {
    let (stores, comments) = start(200).await;
    for seed in 0..5 {
        let mut random = StdRng::seed_from_u64(seed);
        for _ in 0..60 {
            let comment = &comments[random.random_range(0..comments.len())];
            let damage = Damage::VARIANTS[random.random_range(0..Damage::VARIANTS.len())];
            inflict(&stores, comment, damage).await;
        }
        expect(exit::DRIFT_FOUND, job(&stores, true).audit(whole()).await);
        stores.assert_invariants().await;
        assert_clean(&job(&stores, true).audit(whole()).await);
    }
    stores.finish().await;
}
