//! `audit`: scans the table, segment by segment, and the page index, and repairs what is wrong
//! there.
//!
//! A run scans the table first and then the page index. A rolling run does both in parallel, so
//! that neither waits until the other is done.

use std::collections::BTreeMap;

use futures_util::{FutureExt, StreamExt, future::join, stream};
use model::planted::{self, Bug};
use page_index::{IndexScanPosition, PageIndex};
use process::{StoreError, now};
use serde::Serialize;

use crate::{
    commands::audit_plan::{AuditOptions, plan_audit, state_name},
    find::{
        ITEMS_PER_COMMENT,
        index_scan::{IndexScan, STEPS_OF_A_COMMENT},
        table_scan::TableScan,
    },
    repair::{
        index_snapshot::{IndexSnapshot, RepairScope},
        pipeline::{Finder, Pipeline},
    },
    run::{IndexAnswer, Job, Run, answer_of_index, report::Report, settings::ms},
    state::checkpoint::{
        AUDIT, Checkpoint, INDEX_SCAN, POSITION, SegmentState, StateKey, segment_states,
    },
};

struct Audit<'run> {
    run: &'run Run<'run>,
    options: AuditOptions,
    snapshot: IndexSnapshot,
    /// For a person: how to resume if the run stops.
    resumes: String,
}

impl Job {
    /// Compares the table with itself and with the page index, and repairs the differences.
    pub async fn audit(&self, options: AuditOptions) -> Report {
        let options = AuditOptions {
            segments: options.segments.max(1),
            ..options
        };
        let lease = match options.segment {
            // Big repairs with other numbers of segments store the same state of its scan.
            Some(segment) if segment >= options.segments => "audit of the page index".to_owned(),
            Some(segment) => format!("audit {}", state_name(segment, options.segments)),
            None => "audit".to_owned(),
        };
        self.run("audit", Some(&lease), async |run| {
            Box::pin(audit(run, options)).await
        })
        .await
    }
}

async fn audit(run: &Run<'_>, options: AuditOptions) -> Result<(), StoreError> {
    let Job {
        table, settings, ..
    } = run.job;
    let described = table.describe().await?;
    let snapshot = IndexSnapshot::read(run, &described.id).await?;
    // A dry run stores no state and does not resume.
    let states = if settings.apply {
        segment_states(table, &described.id).await?
    } else {
        BTreeMap::new()
    };
    let remaining = plan_audit(&states, options, run.began);
    let resumes = if !settings.apply {
        "a dry run remembers nothing".to_owned()
    } else if options.rolling {
        "the next rolling run resumes".to_owned()
    } else {
        let since = options.since.unwrap_or(run.began).min(run.began);
        format!("--since {since} --segments {} resumes", options.segments)
    };
    let audit = Audit {
        run,
        options,
        snapshot,
        resumes,
    };
    audit.expect(described.items, remaining.len());
    if let Some(since) = options.since
        && settings.apply
    {
        let done = options.wanted().len() - remaining.len();
        run.ledger.add_note(format!(
            "{done} segments were done since {since}, and are not checked again"
        ));
    }
    let ended = audit.scan(remaining).await;
    if ended.is_err() || run.ledger.report().skipped_count > 0 {
        run.ledger
            .add_note(format!("what was not completed: {}", audit.resumes));
    }
    ended
}

impl Audit<'_> {
    /// Sets the expected amount of work for the progress display.
    fn expect(&self, items: u64, segments: usize) {
        let of_table =
            items / u64::from(self.options.segments) * u64::try_from(segments).unwrap_or(u64::MAX);
        let of_index = if self.options.scans_index() {
            items / ITEMS_PER_COMMENT * STEPS_OF_A_COMMENT
        } else {
            0
        };
        self.run.job.progress.expect(of_table + of_index);
    }

    async fn scan(&self, segments: Vec<(u32, SegmentState)>) -> Result<(), StoreError> {
        // Boxed, here and below, so that the future types do not nest too deeply for the compiler.
        let of_table = self.scan_table(segments).boxed();
        let of_index = self.scan_index().boxed();
        if !self.options.rolling {
            of_table.await?;
            return of_index.await;
        }
        let (of_table, of_index) = join(of_table, of_index).await;
        of_table.and(of_index)
    }

    async fn scan_table(&self, segments: Vec<(u32, SegmentState)>) -> Result<(), StoreError> {
        let scans = stream::iter(segments)
            .map(|(segment, state)| self.scan_segment(segment, state).boxed());
        // After an error, the other segments finish what they have begun.
        let scanned: Vec<Result<(), StoreError>> = scans
            .buffer_unordered(self.options.at_once.max(1))
            .collect()
            .await;
        scanned.into_iter().collect::<Result<(), StoreError>>()?;
        if self.run.may_remember() && self.run.interruption().is_none() {
            self.advance_watermark().await?;
        }
        Ok(())
    }

    async fn scan_segment(&self, segment: u32, mut state: SegmentState) -> Result<(), StoreError> {
        state.table = Some(self.snapshot.table_id.clone());
        // A pass counts only if all its runs have compared them.
        state.compares_indexes |= state.position.is_none();
        state.compares_indexes &= self.options.compares_indexes();
        let pass = state.began.unwrap_or(self.run.began);
        let segments = self.options.segments;
        let key = StateKey {
            kind: AUDIT,
            name: state_name(segment, segments),
        };
        let mut checkpoint = Checkpoint::new(self.run, &self.snapshot, key, state, pass);
        let position = checkpoint.position();
        let finder = TableScan::new(
            self.run,
            &self.snapshot,
            (segment, segments),
            position,
            self.options.compares_indexes(),
            &self.resumes,
        );
        if planted::has(Bug::PositionPassesRepairs) {
            checkpoint.close(true).await?;
        }
        let ended = self.repair_found(finder, &mut checkpoint).await;
        let closed = checkpoint.close(matches!(ended, Ok(true))).await;
        ended.and(closed).inspect_err(|_| self.run.fail())
    }

    /// Repairs what a scan finds, and records how far it has come. Returns `false` when the run had
    /// to end before the scan did.
    async fn repair_found<P: Clone + Serialize>(
        &self,
        finder: impl Finder<ScanPosition = Option<P>>,
        checkpoint: &mut Checkpoint<'_, P>,
    ) -> Result<bool, StoreError> {
        let scope = || RepairScope {
            entries: self.options.compares_indexes(),
            ..RepairScope::of_all(&self.snapshot)
        };
        let mut found = Pipeline::new(self.run, finder);
        while let Some((position, outcome)) = found.next(scope()).await? {
            checkpoint.record(position, &outcome).await?;
        }
        Ok(found.is_complete())
    }

    async fn scan_index(&self) -> Result<(), StoreError> {
        // An index without partitions was already reported when the markers were read.
        if !self.options.scans_index()
            || self.snapshot.is_empty()
            || self.run.must_stop(&self.resumes)
        {
            return Ok(());
        }
        match answer_of_index(self.try_to_scan_index().await) {
            Ok(IndexAnswer::Answered(())) => Ok(()),
            Ok(IndexAnswer::Away(error)) => {
                self.run.ledger.add_skipped(format!(
                    "the rest of the scan of the page index, because {error}"
                ));
                Ok(())
            }
            Err(error) => {
                self.run.fail();
                Err(error)
            }
        }
    }

    async fn try_to_scan_index(&self) -> Result<(), StoreError> {
        let Job {
            table,
            index,
            settings,
            ..
        } = self.run.job;
        let stored = if settings.apply {
            table.state(INDEX_SCAN, POSITION).await?
        } else {
            None
        };
        let Some(mut state) = self.options.remaining(stored.unwrap_or_default(), now()) else {
            return Ok(());
        };
        if !is_scan_valid(index, state.position.as_ref()).await? {
            state = state.begun_anew();
            state.position = Some(index.begin_index_scan().await?);
        }
        let began = *state.began.get_or_insert_with(now);
        if state.last_began.is_none() {
            state.first_began.get_or_insert(began);
        }
        let key = StateKey {
            kind: INDEX_SCAN,
            name: POSITION.to_owned(),
        };
        let mut checkpoint = Checkpoint::new(self.run, &self.snapshot, key, state, began);
        let position = checkpoint.position();
        let finder = IndexScan::new(
            self.run,
            &self.snapshot,
            position,
            self.options.at_once,
            &self.resumes,
        );
        let ended = self.repair_found(finder, &mut checkpoint).await;
        let mut is_complete = matches!(ended, Ok(true));
        if is_complete && !is_scan_valid(index, checkpoint.position().as_ref()).await? {
            let what =
                "part of the index scan, whose servers have changed: the next one starts anew";
            self.run.ledger.add_skipped(what.to_owned());
            checkpoint.begin_anew();
            is_complete = false;
        }
        let closed = checkpoint.close(is_complete).await;
        ended.and(closed)
    }

    /// Advances the duplicates' watermark when every segment is checked. Changes since the first of
    /// these passes began are in the journal; everything older was checked. A margin covers the
    /// writers' clock differences and late writes.
    async fn advance_watermark(&self) -> Result<(), StoreError> {
        let job = self.run.job;
        let states = segment_states(&job.table, &self.snapshot.table_id).await?;
        let mut passes = Vec::new();
        for segment in 0..self.options.segments {
            let state = states.get(&state_name(segment, self.options.segments));
            let Some(began) = state.and_then(|state| state.last_began) else {
                return Ok(());
            };
            passes.push(began);
        }
        let Some(first) = passes.into_iter().min() else {
            return Ok(());
        };
        let first = first.plus_ms(-ms(job.settings.min_age) - ms(job.settings.overlap));
        job.table.advance_watermark(first).await
    }
}

async fn is_scan_valid(
    index: &PageIndex,
    position: Option<&IndexScanPosition>,
) -> Result<bool, StoreError> {
    match position {
        Some(position) => index.is_index_scan_valid(position).await,
        None => Ok(false),
    }
}
