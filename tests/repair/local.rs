//! The local stack runs `recent` by itself, and keeps its page index ready all the while.

use std::time::Duration;

use local_stack::{repair::RepairSchedule, stack::StackSettings};
use model::{CommentId, Placement};
use stores::table::NewComment;

use crate::fixture::{
    damage,
    reviews::reviews,
    stack::{Running, settings},
    wait_for,
};

#[tokio::test]
async fn the_local_stack_mends_what_its_handlers_were_kept_from() {
    let repair = RepairSchedule { every: Duration::from_millis(100), settle: Duration::ZERO };
    let mut running = Running::start_with(StackSettings { repair: Some(repair), ..settings() }).await;
    let comments = reviews(30);
    running.import(&comments).await;
    for lost_redis in [false, true] {
        for NewComment { id, product, language, rating, .. } in &comments {
            let placement = Placement { product: product.clone(), language: language.clone(), rating: *rating };
            for key in placement.duplicate_keys().take(3) {
                damage::delete_from(running.stack.table(), id, &key).await;
            }
        }
        if lost_redis {
            // The keeper rebuilds it, while `recent` goes on with duplicates.
            running.stack.redis().unwrap().restart().await.unwrap();
        }
        wait_for("31 duplicates of every comment", async || {
            let mut missing: Vec<&CommentId> = Vec::new();
            for comment in &comments {
                let items = running.stack.table().items_of(&comment.id).await.unwrap();
                if items.len() != 32 {
                    missing.push(&comment.id);
                }
            }
            if missing.is_empty() { Ok(()) } else { Err(missing.len()) }
        })
        .await;
        // Redis itself is asked: what the keeper knows may be from before it was lost.
        let table_id = running.stack.table().describe().await.unwrap().id;
        wait_for("a page index that is ready", async || {
            let readiness = running.stack.index().readiness(&table_id, stores::now()).await;
            let unready =
                readiness.map(|partitions| partitions.into_iter().filter(|(_, ready)| ready.is_err()).count());
            match unready {
                Ok(0) => Ok(()),
                unready => Err(unready),
            }
        })
        .await;
        running.assert_invariants().await;
    }
    running.finish().await;
}
