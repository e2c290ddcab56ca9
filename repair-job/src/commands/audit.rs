//! `audit`: scans the table, segment by segment, and the page index, and repairs what is wrong there.
//!
//! A run over everything scans the table first and then the page index. A rolling run does both in parallel, so that
//! neither waits until the other is done.

use std::collections::BTreeMap;

use futures_util::{FutureExt, StreamExt, future::join, stream};
use model::Timestamp;
use page_index::IndexScanPosition;
use process::{StoreError, now};
use serde::Serialize;

use crate::{
    commands::audit_plan::{AuditOptions, AuditPlan, Which, pass_name, plan_audit, plan_index_scan, state_name},
    find::{
        ITEMS_PER_COMMENT,
        index_scan::{IndexScan, STEPS_OF_A_COMMENT},
        table_scan::TableScan,
    },
    repair::pipeline::{Finder, Pipeline},
    run::{Job, Run, answer_of_index, report::Report, settings::ms},
    state::{
        checkpoint::{AUDIT, Checkpoint, INDEX_SCAN, POSITION, SegmentState, segment_states},
        index_snapshot::IndexSnapshot,
    },
};

struct Audit<'run> {
    run: &'run Run<'run>,
    options: AuditOptions,
    snapshot: IndexSnapshot,
    segments: u32,
    began: Timestamp,
}

impl Job {
    /// Compares the table with itself and with the page index, and repairs the differences.
    pub async fn audit(&self, options: AuditOptions) -> Report {
        let lease = match options.which() {
            Which::One(segment) => format!("audit {}", state_name(segment, options.segments)),
            Which::NoneOfThem => "audit of the page index".to_owned(),
            Which::All | Which::Due => "audit".to_owned(),
        };
        self.run("audit", Some(&lease), async |run| Box::pin(audit(run, options)).await).await
    }
}

async fn audit(run: &Run<'_>, options: AuditOptions) -> Result<(), StoreError> {
    let job = run.job;
    let described = job.table.describe().await?;
    let snapshot = IndexSnapshot::read(run, &described.id).await?;
    // A dry run stores no state and does not resume.
    let states: BTreeMap<String, SegmentState> =
        if job.settings.apply { segment_states(&job.table, &described.id).await? } else { BTreeMap::new() };
    let plan = plan_audit(&states, options, run.began);
    plan.notes.iter().for_each(|note| run.ledger.add_note(note.clone()));
    let audit = Audit { run, options, snapshot, segments: options.segments.max(1), began: plan.began };
    audit.expect(described.items, &plan);
    if options.which() != Which::Due {
        return audit.one_after_the_other(plan).await;
    }
    let (of_table, of_index) = join(audit.scan_table(plan).boxed(), audit.scan_index(None).boxed()).await;
    of_table.and(of_index)
}

impl Audit<'_> {
    /// Scans the table, then the page index, unless the run must stop in between.
    async fn one_after_the_other(&self, plan: AuditPlan) -> Result<(), StoreError> {
        let is_all = self.options.which() == Which::All;
        if is_all {
            let (table, began) = (Some(self.snapshot.table_id.clone()), Some(self.began));
            self.store_pass(&SegmentState { table, began, ..SegmentState::default() }).await?;
        }
        // Boxed, here and above, so that the future types do not nest too deeply for the compiler.
        let is_whole = self.scan_table(plan).boxed().await?;
        if self.options.scans_index() && self.run.must_stop("the next run resumes with the scan of the page index") {
            return Ok(());
        }
        // An index scan that began before a pass over everything is not part of that pass.
        self.scan_index(self.options.since.or(is_all.then_some(self.began))).boxed().await?;
        if is_whole && is_all && self.run.ledger.report().stopped.is_none() {
            self.store_pass(&SegmentState::default()).await?;
        }
        Ok(())
    }

    /// Sets the expected amount of work for the progress display, and the segments that earlier runs have done.
    fn expect(&self, items: u64, plan: &AuditPlan) {
        let of_segment = items / u64::from(self.segments);
        let left = u64::try_from(plan.segments.len()).unwrap_or(u64::MAX).saturating_mul(of_segment);
        let done = u64::from(plan.done).saturating_mul(of_segment);
        let of_index = if self.options.scans_index() { items / ITEMS_PER_COMMENT * STEPS_OF_A_COMMENT } else { 0 };
        self.run.job.progress.expect(done + left + of_index);
        self.run.job.progress.advance(done);
    }

    async fn store_pass(&self, state: &SegmentState) -> Result<(), StoreError> {
        if self.run.may_remember() {
            self.run.job.table.put_state(AUDIT, &pass_name(self.segments), state).await?;
        }
        Ok(())
    }

    /// Scans the segments of a plan. Returns `false` when some did not finish, or do not count as checked.
    async fn scan_table(&self, plan: AuditPlan) -> Result<bool, StoreError> {
        let scans = stream::iter(plan.segments).map(|(segment, state)| self.scan_segment(segment, state).boxed());
        // After an error, the other segments finish what they have begun.
        let scanned: Vec<Result<bool, StoreError>> =
            scans.buffer_unordered(self.options.at_once.max(1)).collect().await;
        let are_whole = scanned.into_iter().collect::<Result<Vec<bool>, StoreError>>()?;
        if self.run.may_remember() && self.run.job.stop.reason().is_none() {
            self.advance_watermark().await?;
        }
        Ok(are_whole.into_iter().all(|is_whole| is_whole))
    }

    async fn scan_segment(&self, segment: u32, mut state: SegmentState) -> Result<bool, StoreError> {
        state.table = Some(self.snapshot.table_id.clone());
        let pass = state.began.unwrap_or(self.began);
        let place = (AUDIT, state_name(segment, self.segments));
        let mut checkpoint = Checkpoint::new(self.run, &self.snapshot, place, state, pass);
        let finder = TableScan::new(self.run, &self.snapshot, (segment, self.segments), checkpoint.position());
        let ended = self.scan(finder, &mut checkpoint).await;
        let closed = checkpoint.close(matches!(ended, Ok(true))).await;
        ended.and(closed).inspect_err(|_| self.run.fail())
    }

    /// Repairs what a scan finds, and records how far it has come. Returns `false` when the run had to end before the
    /// scan did.
    async fn scan<P: Clone + Serialize>(
        &self,
        finder: impl Finder<Position = Option<P>>,
        checkpoint: &mut Checkpoint<'_, P>,
    ) -> Result<bool, StoreError> {
        let mut found = Pipeline::new(self.run, finder);
        while let Some((position, outcome)) = found.next(checkpoint.scope()).await? {
            if !checkpoint.record(position, &outcome).await? {
                return Ok(false);
            }
        }
        Ok(found.is_complete())
    }

    /// Scans the page index. Resumes an interrupted scan, unless that scan began before `since`.
    async fn scan_index(&self, since: Option<Timestamp>) -> Result<(), StoreError> {
        // An index without partitions was already reported when the markers were read.
        if !self.options.scans_index() || self.snapshot.is_empty() {
            return Ok(());
        }
        match answer_of_index(self.try_to_scan_index(since).await) {
            Ok(Err(error)) => {
                self.run.ledger.add_skipped(format!("the rest of the scan of the page index, because {error}"));
                Ok(())
            }
            scanned => scanned.map(drop).inspect_err(|_| self.run.fail()),
        }
    }

    async fn try_to_scan_index(&self, since: Option<Timestamp>) -> Result<(), StoreError> {
        let Job { table, index, settings, .. } = self.run.job;
        let stored = if settings.apply { table.state(INDEX_SCAN, POSITION).await? } else { None };
        let Some(mut state) = plan_index_scan(stored.unwrap_or_default(), self.options, since, now()) else {
            return Ok(());
        };
        let is_valid = async |position: &Option<IndexScanPosition>| match position {
            Some(position) => index.is_index_scan_valid(position).await,
            None => Ok(false),
        };
        if !is_valid(&state.position).await? {
            state = state.begun_anew();
            state.position = Some(index.begin_index_scan().await?);
        }
        if let Some(began) = state.began {
            self.run.ledger.add_note(format!("it resumes the scan of the page index that began at {began}"));
        }
        let began = *state.began.get_or_insert_with(now);
        if state.last_ended.is_none() {
            state.first_began.get_or_insert(began);
        }
        let place = (INDEX_SCAN, POSITION.to_owned());
        let mut checkpoint = Checkpoint::new(self.run, &self.snapshot, place, state, began);
        let finder = IndexScan::new(self.run, &self.snapshot, checkpoint.position(), self.options.at_once);
        let ended = self.scan(finder, &mut checkpoint).await;
        let mut is_complete = matches!(ended, Ok(true));
        if is_complete && !is_valid(&checkpoint.position()).await? {
            let what = "part of the index scan, whose servers have changed: the next one starts anew";
            self.run.ledger.add_skipped(what.to_owned());
            checkpoint.begin_anew();
            is_complete = false;
        }
        let closed = checkpoint.close(is_complete).await;
        ended.and(closed).map(drop)
    }

    /// Advances the duplicates' watermark when every segment is checked. Changes since the first of these passes began
    /// are in the journal; everything older was checked. A margin covers the writers' clock differences and late
    /// writes.
    async fn advance_watermark(&self) -> Result<(), StoreError> {
        let job = self.run.job;
        let states = segment_states(&job.table, &self.snapshot.table_id).await?;
        let of_segment = |segment| states.get(&state_name(segment, self.segments));
        let done = (0..self.segments)
            .map(|segment| of_segment(segment).and_then(|state| state.last_began))
            .collect::<Option<Vec<Timestamp>>>();
        let Some(first) = done.into_iter().flatten().min() else { return Ok(()) };
        let first = first.plus_ms(-ms(job.settings.settle) - ms(job.settings.overlap));
        job.table.advance_watermark(first).await
    }
}
