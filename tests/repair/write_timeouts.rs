//! The time-outs of writes bound how late an entry of the journal arrives, and the settle delay is longer. So no
//! watermark passes an entry that arrives late, even without an overlap. The handlers do not run: `recent` alone writes
//! all derived data.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use model::Comment;
use process::now;
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use repair_job::{JobSettings, Stop, exit};
use table::{Created, NewComment, Table, TableConfig};

use super::{assert_clean, job, job_with, product, settings, whole};
use crate::fixture::{
    data,
    faults::{TableFault, chosen_faults_table},
    stores::Stores,
    wait_for,
};

/// Number of writers in parallel, then changes per writer.
const WRITERS: u64 = 12;
const CHANGES: u64 = 60;

/// Maximum delay until a transaction starts, then until it arrives after its start.
const STARTED_WITHIN: Duration = Duration::from_millis(200);
const LATE_MS_MAX: u64 = 400;

/// Longer than both together, with a margin for a busy machine.
const SETTLE: Duration = Duration::from_secs(3);

async fn late_table(table: &Table, url: String) -> Table {
    let config = TableConfig { started_within: STARTED_WITHIN, ..TableConfig::new(table.name(), Some(url)) };
    let random = Mutex::new(StdRng::seed_from_u64(101));
    chosen_faults_table(&config, move |body| {
        let late = random.lock().unwrap().random_range(0..LATE_MS_MAX);
        body.contains("TransactItems").then_some(TableFault::Late(late))
    })
    .await
}

async fn write(table: &Table, writer: u64) {
    let mut random = StdRng::seed_from_u64(writer);
    let mut present: Vec<Comment> = Vec::new();
    for change in 0..CHANGES {
        let stars = random.random_range(1..=5);
        match present.choose(&mut random).cloned() {
            Some(comment) if random.random_range(0..3) == 0 => {
                table.delete_comment(&comment.id, None).await.unwrap();
                present.retain(|other| other.id != comment.id);
            }
            Some(comment) if random.random_range(0..2) == 0 => {
                table.patch_comment(&comment.id, None, &data::rate(stars)).await.unwrap();
            }
            _ => {
                let new = data::new_comment(&format!("w{writer}-{change}"), &product(change), "en", stars);
                let created_at = data::at_ms(data::CREATED_MS + i64::try_from(change).unwrap());
                match table.create_comment(NewComment { created_at, ..new }, None).await.unwrap() {
                    Created::New(comment) | Created::Before(comment) => present.push(comment),
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_watermark_passes_what_arrives_within_the_settle_delay() {
    let stores = Stores::start_ready().await;
    stores.table.advance_watermark(now()).await.unwrap();
    let late = late_table(&stores.table, stores.engine_url()).await;
    let exactly = JobSettings { overlap: Duration::ZERO, settle: SETTLE, ..settings(true) };
    let run = async || job_with(&stores, exactly.clone(), Stop::default()).recent().await;
    let is_over = AtomicBool::new(false);
    let writers = async {
        join_all((0..WRITERS).map(|writer| write(&late, writer))).await;
        is_over.store(true, Ordering::Relaxed);
    };
    let runs = async {
        let mut repaired = 0;
        while !is_over.load(Ordering::Relaxed) {
            let report = run().await;
            assert_eq!(report.exit_code() & !exit::DRIFT_FOUND, 0, "{report}");
            repaired += report.repaired;
        }
        repaired
    };
    let ((), repaired) = tokio::join!(writers, runs);
    assert!(repaired > 0, "the watermarks have not moved over anything meanwhile");
    let written = now();
    wait_for("the last change to settle", async || {
        let report = run().await;
        let watermark = stores.table.watermark().await.unwrap();
        if watermark > Some(written) { Ok(()) } else { Err((watermark, report.exit_code())) }
    })
    .await;
    stores.assert_invariants().await;
    assert_clean(&job(&stores, false).audit(whole()).await);
    stores.index.clear().await.unwrap();
}
