//! Vouches: every minute of a run, `recent` confirms which partitions of the page index readers may believe.
//!
//! A watermark says how far repair has come. It may be half a day behind while the page index is right. A vouch says
//! that a partition is still the one that the table knows, and that the page indexer keeps up. It requires three
//! things:
//!
//! - **Nothing was lost.** Each vouch leaves a new token in the markers and in the table. A partition with an older
//!   token was restored from a snapshot, so its vouch is taken away. If the tokens are right but the servers have
//!   changed, the last writes may be lost. Readers then believe the partition until its last vouch expires.
//! - **Possible losses were checked.** What changed since shortly before the partition's last vouch is reconciled
//!   before the backlog. Earlier writes are not lost: writes of a slot are replicated in their order, and a snapshot
//!   shows a single moment.
//! - **The page indexer keeps up.** For some comments that changed a while ago, the page index agrees with the table.
//!   Changes that the watermarks have passed need no sample.
//!
//! **Invariant:** a partition is vouched for only after its possible losses were checked (`tests/repair/vouched.rs`).

use std::{collections::BTreeMap, time::Duration};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use model::{CommentId, Timestamp, plan::reconcile::Places};
use page_index::{IndexPartition, Rebuild, ServerIdentity, VouchTime};
use process::{StoreError, now};
use table::Table;
use tokio::time::Instant as Clock;

use crate::{
    changed::{Reader, reconcile_part, windows},
    continuity::{Check, Findings, Remembered, Times, judge},
    error::RepairError,
    follow::Follow,
    job::{Job, Run, index_is_away},
    recent::oldest_entry,
    reconcile::{Scope, State},
};

/// The kind of the state that stores the last vouch, and its only name.
const VOUCH: &str = "vouch";
const INDEX: &str = "index";

/// Number of sampled comments. A stopped indexer misses all of them. An indexer that misses every tenth comment is
/// found out with a probability of 99 %.
const SAMPLE: usize = 50;

/// How far back to look for the sample, in seconds, until there are enough comments. A busy journal is read for one
/// second only.
const SAMPLE_SPANS_S: [i64; 5] = [1, 10, 100, 1_000, 10_000];

/// Stores the vouch of a rebuild that is about to mark the partitions.
pub(crate) async fn remember_rebuild(table: &Table, rebuild: &Rebuild) -> Result<(), RepairError> {
    let (token, servers) = (rebuild.token().to_owned(), rebuild.servers().clone());
    Ok(table.put_state(VOUCH, INDEX, &Remembered { token, before: None, servers, check: None }).await?)
}

/// Vouches for the partitions that a run keeps up to date.
pub(crate) struct Voucher<'run> {
    run: &'run Run<'run>,
    table_id: String,
    last: Clock,
    /// Why the last attempt was refused.
    refusal: Option<String>,
}

impl<'run> Voucher<'run> {
    pub(crate) fn new(run: &'run Run<'run>, table_id: &str) -> Self {
        Self { run, table_id: table_id.to_owned(), last: Clock::now(), refusal: None }
    }

    /// Whether the next vouch is due.
    pub(crate) fn is_due(&self) -> bool {
        self.last.elapsed() >= self.run.job.settings.vouch_every
    }

    /// Vouches if possible. Returns `false` when the servers have changed since the run began, or answer again after a
    /// failure. The run must then end, and the next run begins with what they may have lost.
    ///
    /// # Errors
    /// The table's. A page index that does not answer only prevents the vouch.
    pub(crate) async fn vouch(&mut self, follow: &Follow) -> Result<bool, RepairError> {
        self.last = Clock::now();
        self.refusal = None;
        let Some(began_with) = follow.servers() else { return Ok(true) };
        if !self.run.may_remember() || self.run.job.stop.reason().is_some() {
            return Ok(true);
        }
        let refusal = match self.try_to_vouch(follow, began_with).await {
            Ok(refusal) => refusal,
            Err(RepairError::Store(error)) if index_is_away(&error) => Some(Refusal::Because(error.to_string())),
            Err(error) => return Err(error),
        };
        match refusal {
            None => {}
            Some(Refusal::Because(why)) => {
                tracing::warn!(why, "the page index is not vouched for");
                self.refusal = Some(why);
            }
            Some(Refusal::BeginAnew) => {
                self.refusal = Some(
                    "its servers have changed since the run began, or did not answer; the next run goes on".to_owned(),
                );
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reports why the last attempt was refused, if it was.
    pub(crate) fn report(&self) {
        if let Some(why) = &self.refusal {
            self.run.add_skipped(format!("vouching for the page index: {why}"));
        }
    }

    async fn try_to_vouch(&self, follow: &Follow, began_with: &ServerIdentity) -> Result<Option<Refusal>, RepairError> {
        let Job { table, index, settings, .. } = self.run.job;
        let present = now();
        // The order matters. The next vouch finds a server that takes over after this question. A rebuild that ends
        // meanwhile has changed the state by the time it is read.
        let servers = index.server_identity().await?;
        if follow.has_given_up() {
            return Ok(Some(Refusal::BeginAnew));
        }
        let before: Option<Remembered> = table.state(VOUCH, INDEX).await?;
        let mut marks = index.marks(&self.table_id).await?;
        marks.retain(|(partition, _)| follow.watermarks.contains_key(partition));
        if marks.is_empty() {
            return Ok(None);
        }
        let times = Times {
            present,
            oldest: oldest_entry(present),
            margin_ms: ms(settings.indexer_lag) + ms(settings.overlap),
            settle_ms: ms(settings.settle),
        };
        let findings = judge(before.as_ref(), &marks, &servers, times, process::new_ulid());
        if findings.is_new {
            if !table.replace_state(VOUCH, INDEX, before.as_ref(), &findings.remembered).await? {
                return Ok(Some(Refusal::somebody_else()));
            }
            let token = &findings.remembered.token;
            index.leave_token(&self.table_id, &findings.restored, token, VouchTime::TakenAway).await?;
            index.leave_token(&self.table_id, &findings.unreached, token, VouchTime::Kept).await?;
            self.note(&findings, marks.len());
        }
        if servers != *began_with {
            return Ok(Some(Refusal::BeginAnew));
        }
        let mut remembered = findings.remembered;
        if let Some(refusal) = self.look_at_what_may_be_lost(&mut remembered, follow).await? {
            return Ok(Some(refusal));
        }
        let present = now();
        if let Some(refusal) = self.sample(follow, present).await? {
            return Ok(Some(refusal));
        }
        let partitions = marks.into_iter().map(|(partition, _)| (partition, remembered.token.clone())).collect();
        self.leave_vouch(remembered, partitions, present).await
    }

    fn note(&self, findings: &Findings<IndexPartition>, all: usize) {
        let Some(check) = &findings.remembered.check else { return };
        let (since, restored) = (check.began, findings.restored.len());
        let what = match restored {
            0 => "the page index has other servers, or lacks the last vouch".to_owned(),
            _ => format!(
                "{restored} of {all} partitions of the page index are older than the last vouch, and not believed"
            ),
        };
        tracing::warn!(what, %since, "what the page index may have lost is looked at first");
        self.run.add_note(format!("{what}: what has changed since {since} is looked at first"));
    }

    /// Reconciles the changes that may be lost, and stores how far it is.
    async fn look_at_what_may_be_lost(
        &self,
        remembered: &mut Remembered,
        follow: &Follow,
    ) -> Result<Option<Refusal>, RepairError> {
        let (run, table) = (self.run, &self.run.job.table);
        let Some(check) = remembered.check.clone() else { return Ok(None) };
        let scope = Scope { duplicates: false, index: follow.scope() };
        for window in windows(check.from, check.to) {
            let mut reader = Reader::new(window);
            loop {
                if run.must_stop(|| format!("the next run looks for what is lost from {}", reader.at())) {
                    return Ok(Some(Refusal::Because("the run had to stop".to_owned())));
                }
                // The run reports unreadable entries when it reaches them.
                let Some(part) = reader.next(table).await? else { break };
                let outcome = Box::pin(reconcile_part(run, part.window, part.named, &scope)).await?;
                if outcome.index_was_away || !outcome.is_whole {
                    return Ok(Some(Refusal::Because("what it may have lost was not all looked at".to_owned())));
                }
                let looked = Check { from: part.window.to, ..check.clone() };
                let next = Remembered { check: Some(looked), ..remembered.clone() };
                if !table.replace_state(VOUCH, INDEX, Some(remembered), &next).await? {
                    return Ok(Some(Refusal::somebody_else()));
                }
                *remembered = next;
            }
        }
        Ok(None)
    }

    /// Samples whether the page indexer keeps up, and repairs what it missed in the sample.
    async fn sample(&self, follow: &Follow, present: Timestamp) -> Result<Option<Refusal>, RepairError> {
        let run = self.run;
        let lag = run.job.settings.indexer_lag;
        let reconciled = follow.begins(oldest_entry(present)).min().unwrap_or(present);
        let until = present.plus_ms(-ms(lag));
        let sample = self.unchanged_since(until, changed_before(&run.job.table, reconciled, until).await?).await?;
        let (count, before) = (sample.len(), run.report().mended);
        let scope = Scope { duplicates: false, index: follow.scope() };
        let states = run.reconcile_all(sample, &scope).await?;
        if states.iter().any(|(_, state)| matches!(state, State::IndexAway(_) | State::LeftOut(_))) {
            return Ok(Some(Refusal::Because("the sample could not be looked at".to_owned())));
        }
        let missed = run.report().mended - before;
        Ok((missed > 0).then(|| {
            let seconds = lag.as_secs();
            Refusal::Because(format!(
                "{count} comments that changed more than {seconds} s ago were sampled, and {missed} of their entries were \
                 wrong: the page indexer is behind, or has stopped"
            ))
        }))
    }

    /// The comments without those that changed again after `at`: their last change may still be on its way to the indexer.
    async fn unchanged_since(
        &self,
        at: Timestamp,
        comments: BTreeMap<CommentId, Places>,
    ) -> Result<BTreeMap<CommentId, Places>, RepairError> {
        let Job { table, settings, .. } = self.run.job;
        let looks = comments.into_iter().map(async |(id, places)| {
            let changed_again = match table.comment(&id).await {
                Ok(comment) => comment.is_some_and(|comment| comment.revision.instant() > at),
                // It has no entries in the page index, which the sample checks too.
                Err(StoreError::Malformed(_)) => false,
                Err(error) => return Err(error),
            };
            Ok((!changed_again).then_some((id, places)))
        });
        let unchanged: Vec<_> = stream::iter(looks).buffered(settings.concurrency.max(1)).try_collect().await?;
        Ok(unchanged.into_iter().flatten().collect())
    }

    /// Leaves a new token, then sets the time of the vouch where that token is.
    async fn leave_vouch(
        &self,
        before: Remembered,
        partitions: Vec<(IndexPartition, String)>,
        present: Timestamp,
    ) -> Result<Option<Refusal>, RepairError> {
        let Job { table, index, .. } = self.run.job;
        let next = Remembered { token: process::new_ulid(), before: Some(before.token.clone()), ..before.clone() };
        if !table.replace_state(VOUCH, INDEX, Some(&before), &next).await? {
            return Ok(Some(Refusal::somebody_else()));
        }
        if next.check.is_none() {
            index.leave_token(&self.table_id, &partitions, &next.token, VouchTime::At(present)).await?;
            return Ok(None);
        }
        // As with watermarks: repairs may have been lost again before the servers are asked. A server that takes over
        // later has the repairs, or lacks the token.
        let partitions = index.leave_token(&self.table_id, &partitions, &next.token, VouchTime::Kept).await?;
        if index.server_identity().await? != next.servers {
            return Ok(Some(Refusal::BeginAnew));
        }
        let done = Remembered { check: None, ..next.clone() };
        if !table.replace_state(VOUCH, INDEX, Some(&next), &done).await? {
            return Ok(Some(Refusal::somebody_else()));
        }
        index.leave_token(&self.table_id, &partitions, &done.token, VouchTime::At(present)).await?;
        Ok(None)
    }
}

/// Why an attempt is refused.
enum Refusal {
    Because(String),
    BeginAnew,
}

impl Refusal {
    fn somebody_else() -> Self {
        Self::Because("another run or a rebuild has vouched meanwhile".to_owned())
    }
}

/// Some comments that changed between two instants, preferably late ones.
async fn changed_before(
    table: &Table,
    from: Timestamp,
    to: Timestamp,
) -> Result<BTreeMap<CommentId, Places>, RepairError> {
    let mut named = BTreeMap::new();
    for span_s in SAMPLE_SPANS_S {
        let begins = to.plus_ms(-1_000 * span_s).max(from);
        named.clear();
        for window in windows(begins, to) {
            if let Some(part) = Reader::new(window).next(table).await? {
                named.extend(part.named);
            }
        }
        if named.len() >= SAMPLE || begins == from {
            break;
        }
    }
    let step = named.len().div_ceil(SAMPLE).max(1);
    Ok(named.into_iter().step_by(step).collect())
}

pub(crate) fn ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
