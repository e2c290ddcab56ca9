//! The local stack runs `recent` and audits on schedules.

use std::time::Duration;

use local_stack::{repair::AuditSchedule, stack::StackSettings};
use model::{BaseSet, plan::IndexEdit};
use table::NewComment;

use crate::fixture::{
    damage, data, pagemark,
    stack::{Running, settings},
    wait_for,
};

async fn damage_by_hand(running: &Running, comments: &[NewComment]) -> BaseSet {
    let key = data::stored(&comments[0]).placement().duplicate_keys().next().unwrap();
    damage::delete(running.stack.table(), &comments[0].id, &key).await;
    let [set, ..] = data::stored(&comments[1]).placement().base_sets();
    let (product, id, remove) = (comments[1].product.clone(), comments[1].id.clone(), vec![set.clone()]);
    let taken_out = IndexEdit { product, id, created_at: None, add: Vec::new(), remove };
    running.stack.index().apply(&[taken_out]).await.unwrap();
    set
}

/// Waits until the damage of [`damage_by_hand`] is repaired.
async fn wait_until_repaired(running: &Running, comments: &[NewComment], set: &BaseSet) {
    wait_for("the duplicate and the rank entry", async || {
        let items = running.stack.table().items_of(&comments[0].id).await.unwrap().len();
        let scores = running.stack.index().scores(&[(set, vec![comments[1].id.as_str()])]).await.unwrap();
        let is_member = scores[0][0].is_some();
        if items == 32 && is_member { Ok(()) } else { Err((items, is_member)) }
    })
    .await;
}

#[tokio::test]
async fn the_local_stack_repairs_damage_on_its_own_schedule() {
    let audit = Some(AuditSchedule { every: Duration::from_millis(100), rest_factor: 0 });
    let mut running = Running::start_with(StackSettings { audit, ..settings() }).await;
    let comments = data::generated_comments(20).collect::<Vec<_>>();
    running.import(&comments).await;
    let set = damage_by_hand(&running, &comments).await;
    wait_until_repaired(&running, &comments, &set).await;
    running.finish().await;
}

#[tokio::test]
async fn pagemark_repair_says_when_no_stack_is_running() {
    let running = Running::start().await;
    let (url, table) = (running.stack.dynamodb_url().to_owned(), "nobody's");
    let ended = pagemark::run(&["repair", "status", "--dynamodb-url", &url, "--table", table]).await.expect(1);
    assert!(ended.stderr.contains("is `pagemark up` running") && ended.stderr.contains(&url), "{ended:?}");
    running.finish().await;
}
