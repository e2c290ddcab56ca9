//! `recent`: it repairs what changed, and no watermark passes anything that was not checked.

use std::time::Duration;

use model::{Filter, Order, RatingSet, Revision, Timestamp, journal::JOURNAL_RETENTION_DAYS};
use page_index::{IndexPartition, PageIndex};
use process::now;
use repair_job::{JobSettings, Report, Stop, StopReason, exit};
use serde_dynamo::Item;
use table::Lease;

use super::{
    HeldRun, assert_clean, end_redis, expect, job, job_with, no_overlap, product, recent,
    restart_redis, settings, whole, write_changes,
};
use crate::{
    fixture::{
        api::Served,
        damage::{Damage, inflict},
        data, gate,
        http::ids,
        invariants::{Contents, all_items, differences_of_page_index, journal},
        stores::Stores,
        wait_for,
    },
    reading::ordering::listing_url,
};

const _: crate::Engines = crate::Engines::Both;

const DAY_MS: i64 = 24 * 3_600_000;

async fn watermarks(stores: &Stores, index: &PageIndex) -> Vec<(IndexPartition, Timestamp)> {
    let marks = index.marks(&stores.table_id().await).await.unwrap();
    marks
        .into_iter()
        .map(|(partition, mark)| (partition, mark.watermark))
        .collect()
}

async fn watermark(stores: &Stores) -> Timestamp {
    stores.table.watermark().await.unwrap().unwrap()
}

async fn set_watermarks(stores: &Stores, at: Timestamp) {
    stores.table.advance_watermark(at).await.unwrap();
    let rebuild = stores.index.begin_rebuild().await.unwrap();
    stores
        .index
        .finish_rebuild(&rebuild, &stores.table_id().await, at)
        .await
        .unwrap();
}

async fn exact_recent(stores: &Stores) -> Report {
    job_with(stores, no_overlap(), Stop::default())
        .recent()
        .await
}

/// What a run could change.
#[derive(PartialEq)]
struct Everything {
    items: Vec<Item>,
    /// What differs from the table is in the page index.
    in_index: Vec<String>,
    marks: String,
}

impl Everything {
    async fn read(stores: &Stores) -> Self {
        let contents = Contents::read(&stores.table).await;
        let marks = stores.index.marks(&stores.table_id().await).await.unwrap();
        Self {
            in_index: differences_of_page_index(&contents, stores.checked()).await,
            items: all_items(&stores.table).await,
            marks: format!("{marks:?}"),
        }
    }
}

#[tokio::test]
async fn a_dry_run_writes_nothing_at_all() {
    let stores = Stores::start_ready().await;
    write_changes(&stores, 0..20).await;
    let before = Everything::read(&stores).await;
    for report in [
        job(&stores, false).recent().await,
        job(&stores, false).audit(whole()).await,
    ] {
        assert_eq!(
            report.exit_code(),
            exit::DRIFT_FOUND | exit::DRIFT_LEFT,
            "{report}"
        );
        assert_eq!(report.write_units, 0.0, "{report}");
    }
    expect(
        0,
        job(&stores, false).quarantine(&stores.quarantine()).await,
    );
    // The page index is ready, so nothing needs a rebuild.
    expect(0, job(&stores, false).rebuild(2).await);
    job(&stores, false)
        .check(&data::comment_id("c0000"), None)
        .await;
    job(&stores, false).status(1, None).await.unwrap();
    assert!(
        Everything::read(&stores).await == before,
        "the table or the page index has changed"
    );
    stores.finish().await;
}

#[tokio::test]
async fn changes_within_the_settle_delay_wait_for_the_next_run() {
    let stores = Stores::start_ready().await;
    write_changes(&stores, 0..20).await;
    let waits_an_hour = JobSettings {
        min_age: Duration::from_secs(3600),
        ..settings(true)
    };
    let before = now();
    let job_that_waits = job_with(&stores, waits_an_hour, Stop::default());
    let report = job_that_waits.recent().await;
    assert_eq!((report.exit_code(), report.checked), (0, 0), "{report}");
    let of_duplicates = watermark(&stores).await;
    assert!(
        of_duplicates <= before.plus_ms(-3_600_000 + 60_000),
        "{of_duplicates}"
    );
    // The markers are already later, and stay.
    assert!(
        watermarks(&stores, &stores.index)
            .await
            .iter()
            .all(|(_, at)| *at > of_duplicates)
    );
    expect(exit::DRIFT_FOUND, job(&stores, true).recent().await);
    stores.finish().await;
}

#[tokio::test]
async fn without_a_ready_page_index_only_duplicates_are_repaired() {
    let (redis, mut stores) = Stores::start_on_own_redis().await;
    write_changes(&stores, 0..20).await;
    // A new index has no markers.
    expect(
        exit::DRIFT_FOUND | exit::SKIPPED,
        job(&stores, true).recent().await,
    );
    assert_eq!(
        stores.key_names().await.len(),
        0,
        "nothing is put into an index that nobody fills"
    );
    let first = watermark(&stores).await;
    end_redis(&redis, &mut stores).await;
    expect(exit::SKIPPED, job(&stores, true).recent().await);
    assert!(watermark(&stores).await > first);
    restart_redis(&redis, &mut stores).await;
    stores.rebuild().await;
    assert_clean(&job(&stores, true).recent().await);
    stores.assert_invariants().await;
}

#[tokio::test]
async fn watermarks_older_than_the_journal_do_not_advance() {
    let stores = Stores::start().await;
    write_changes(&stores, 0..20).await;
    let long_ago = now().plus_ms(-(JOURNAL_RETENTION_DAYS + 1) * DAY_MS);
    set_watermarks(&stores, long_ago).await;
    for _ in 0..2 {
        let report = job(&stores, true).recent().await;
        assert_eq!(
            (report.exit_code(), report.unresolved_count),
            (exit::UNRESOLVED, 2),
            "{report}"
        );
        let says = report.unresolved.join("\n");
        assert!(
            says.contains("repair-job rebuild") && says.contains("repair-job audit --apply"),
            "{says}"
        );
    }
    assert_eq!(stores.table.watermark().await.unwrap(), Some(long_ago));
    assert!(
        watermarks(&stores, &stores.index)
            .await
            .iter()
            .all(|(_, at)| *at == long_ago)
    );
    // The commands in the report help: an audit of the whole table covers the duplicates, and a
    // rebuild the page index.
    let audit = job(&stores, true).audit(whole()).await;
    assert_eq!(audit.exit_code() & !exit::DRIFT_FOUND, 0, "{audit}");
    assert!(watermark(&stores).await > long_ago);
    stores.rebuild().await;
    assert_clean(&job(&stores, true).recent().await);
    stores.finish().await;
}

#[tokio::test]
async fn a_watermark_in_the_future_is_reported_and_the_whole_journal_is_read() {
    let stores = Stores::start().await;
    set_watermarks(&stores, now().plus_ms(DAY_MS)).await;
    write_changes(&stores, 0..20).await;
    let report = expect(
        exit::DRIFT_FOUND | exit::UNRESOLVED,
        job(&stores, true).recent().await,
    );
    assert_eq!(report.unresolved_count, 2, "{report}");
    stores.assert_invariants().await;
    let of_duplicates = watermark(&stores).await;
    assert!(of_duplicates <= now());
    assert!(
        watermarks(&stores, &stores.index)
            .await
            .iter()
            .all(|(_, at)| *at == of_duplicates)
    );
    assert_clean(&job(&stores, true).recent().await);
    stores.finish().await;
}

#[tokio::test]
async fn an_unresolved_comment_counts_in_every_run_until_it_is_right() {
    let stores = Stores::start_ready().await;
    let comment = stores.create_numbered(1, product(1)).await;
    stores.deliver_all().await;
    let item = stores
        .break_primary_item(&comment.id, "rating", data::text_value("four"))
        .await;
    expect(
        exit::UNRESOLVED | exit::DRIFT_FOUND,
        job(&stores, true).audit(whole()).await,
    );
    for _ in 0..3 {
        let report = exact_recent(&stores).await;
        assert_eq!(
            (report.exit_code(), report.unresolved_count),
            (exit::UNRESOLVED, 1),
            "{report}"
        );
        assert!(
            report.unresolved[0].contains(comment.id.as_str()),
            "{report}"
        );
    }
    stores.put_raw(item).await;
    assert_eq!(
        exact_recent(&stores).await.exit_code(),
        exit::DRIFT_FOUND,
        "what was removed is made again"
    );
    for _ in 0..2 {
        assert_clean(&exact_recent(&stores).await);
    }
    stores.assert_invariants().await;
    // Do not read the stream: an engine may show the remembered empty map as a value without a
    // type.
    stores.index.clear().await.unwrap();
}

#[tokio::test]
async fn recent_since_repairs_damage_before_the_watermarks() {
    let stores = Stores::start_ready().await;
    let before = now();
    let comment = stores.create_numbered(1, product(1)).await;
    stores.deliver_all().await;
    assert_clean(&exact_recent(&stores).await);
    let passed = watermark(&stores).await;
    inflict(&stores, &comment, Damage::DropDuplicates).await;
    assert_clean(&exact_recent(&stores).await);
    expect(
        exit::DRIFT_FOUND,
        job_with(&stores, no_overlap(), Stop::default())
            .recent_since(Some(before))
            .await,
    );
    assert!(watermark(&stores).await > passed);
    stores.assert_invariants().await;
    expect(
        exit::UNRESOLVED,
        job(&stores, false)
            .recent_since(Some(before.plus_ms(-30 * DAY_MS)))
            .await,
    );
    stores.finish().await;
}

#[tokio::test]
async fn what_a_reader_reports_is_repaired_by_the_next_run_without_an_audit() {
    let stores = Stores::start_ready().await;
    let comments = stores.create_all(0..10, product).await;
    let damaged = &comments[3];
    // Its last change is two minutes ago, so its duplicates are not on their way.
    let revision = Revision::after(None, now().plus_ms(-120_000), 1).to_string();
    stores
        .break_primary_item(&damaged.id, "revision", data::text_value(revision))
        .await;
    stores.deliver_all().await;
    assert_clean(&exact_recent(&stores).await);
    inflict(&stores, damaged, Damage::DropDuplicates).await;
    // A rank too many, in a language that the reader's filter does not name.
    let ghost = data::comment_id("ghost");
    let placement = data::placement(&damaged.product, "fr", 2);
    let extra_rank = data::index_comment(&ghost, &placement, data::at_ms(5));
    stores.index.apply(&extra_rank).await.unwrap();
    assert_clean(&exact_recent(&stores).await);
    let looked_for = data::filter(None, Some("2.3")).placement_in(&damaged.product);
    let looked_for = data::entry(&looked_for, data::at_ms(5));
    stores.table.report(&ghost, &looked_for).await.unwrap();
    // A page that misses a duplicate shows the comment, and reports it.
    let api = Served::of(&stores);
    for ratings in RatingSet::every().filter(|ratings| ratings.contains(damaged.rating)) {
        for language in [None, Some(damaged.language.clone())] {
            let filter = Filter::new(language, Some(ratings));
            let url = listing_url(&damaged.product, &filter, Order::Newest, 20);
            let page = api.http.get(&url).await.expect(200);
            assert!(ids(&page).contains(&damaged.id.to_string()), "{page}");
        }
    }
    wait_for("a report", async || {
        let mut reports = journal(&stores.table).await;
        reports.retain(|entry| entry.is_report);
        if reports.iter().any(|entry| entry.id == damaged.id) {
            Ok(())
        } else {
            Err(reports)
        }
    })
    .await;
    api.finish().await;
    let report = expect(exit::DRIFT_FOUND, exact_recent(&stores).await);
    assert_eq!(
        (report.checked, report.drifted_comments, report.left),
        (2, 2, 0),
        "{report}"
    );
    stores.assert_invariants().await;
    stores.finish().await;
}

#[tokio::test]
async fn a_run_stops_when_another_run_takes_its_lease() {
    let stores = Stores::start_ready().await;
    let begun = now();
    stores.create_all(0..40, product).await;
    let short = JobSettings {
        lease: Duration::from_secs(5),
        concurrency: 1,
        ..settings(true)
    };
    let run = HeldRun::start(&stores, (gate::TRANSACTIONS, 1), short, recent).await;
    // A slow run has moved the watermark through the empty parts before the first change.
    let watermark = stores.table.watermark().await.unwrap();
    assert!(watermark.is_none_or(|at| at <= begun), "{watermark:?}");
    // Another run takes the lease, as if the first one had slept for longer than its lease.
    let other = Lease {
        holder: "other".to_owned(),
        who: "another".to_owned(),
        since: now(),
        until_ms: i64::MAX,
    };
    let far_future = now().plus_ms(DAY_MS);
    let taken = stores.table.take_lease("recent", &other, far_future).await;
    assert_eq!(taken.unwrap(), None);
    wait_for("a renewal that fails", async || {
        run.stop.reason().map(drop).ok_or("no reason to stop")
    })
    .await;
    let report = run.finish().await;
    let reason = report.stopped.as_ref().map(|stopped| stopped.reason);
    assert_eq!(reason, Some(StopReason::LeaseLost), "{report}");
    // The other run's lease stays, and the watermark has not moved.
    assert_eq!(stores.table.leases().await.unwrap().len(), 1);
    assert_eq!(stores.table.watermark().await.unwrap(), watermark);
    let status = job(&stores, false).status(1, None).await.unwrap();
    assert!(
        status.last_runs.iter().all(|run| run.command != "recent"),
        "it has written down how it ended: {status}"
    );
    stores.table.release_lease("recent", "other").await.unwrap();
    expect(exit::DRIFT_FOUND, job(&stores, true).recent().await);
    stores.assert_invariants().await;
    stores.finish().await;
}
