//! `audit`: a rolling scan of the table, segment by segment, in constant memory; then a sweep of the page index.
//!
//! A scan gives the items of one comment one after the other, so they are compared as they come, eventually consistent
//! and each read once. Nothing is concluded from that: whatever is not exactly right is *suspect*, and goes to
//! `reconcile`, which reads it again, strongly consistent. So neither an item that was about to change, nor a collection
//! that a scan should ever give in pieces, does any harm.
//!
//! Of a comment that is right in the table, the scores in its four base sets are asked for. Entries that should not be
//! there are found by the sweep (`sweep`).

use std::{collections::BTreeMap, time::Duration};

use futures_util::{TryStreamExt, stream};
use model::{
    BaseSet, CommentId, Instant,
    item::{COMMENT_PREFIX, Image, attribute, comment_id_of_pk, text},
    plan::reconcile::{Collection, Places},
};
use serde::{Deserialize, Serialize};
use serde_dynamo::Item;
use stores::{
    now,
    table::{ItemKey, ScanOf},
};
use tokio::time::Instant as Clock;

use crate::{
    error::RepairError,
    follow::Follow,
    job::{Job, Run, index_is_away},
    reconcile::{IndexScope, Scope, State},
    report::Report,
    sweep,
};

/// The state of segments.
pub(crate) const AUDIT: &str = "audit";

/// Into how many parts the table is divided unless it is told otherwise.
pub const SEGMENTS: u32 = 64;

/// Segments that are checked at the same time unless it is told otherwise.
pub const AT_ONCE: usize = 2;

/// How often the whole table is checked by rolling runs.
pub const EVERY: Duration = Duration::from_secs(7 * 24 * 3600);

/// A rolling run takes a segment up again so much earlier, so that none is ever late.
const EARLIER: Duration = Duration::from_secs(24 * 3600);

/// Items read in one call; an answer ends at a megabyte anyway.
const SCAN_LIMIT: u32 = 2_000;

/// More items than a comment ever has: of an id with so many, no more are kept in memory.
const COLLECTION_MAX: usize = 500;

/// How often a position is remembered.
const REMEMBER_EVERY: Duration = Duration::from_secs(10);

/// Which parts of the table are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All of them, going on where a run was interrupted.
    All,
    /// One.
    One(u32),
    /// Those that have not been checked for nearly a week, the longest first.
    Due,
}

/// What an audit is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditOptions {
    /// Into how many parts the table is divided.
    pub segments: u32,
    /// Which of them are checked.
    pub which: Which,
    /// How many of them at the same time.
    pub at_once: usize,
    /// Whether the page index is swept, after the segments.
    pub sweep: bool,
    /// Whether it begins anew instead of going on where a run was interrupted.
    pub restart: bool,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self { segments: SEGMENTS, which: Which::All, at_once: AT_ONCE, sweep: true, restart: false }
    }
}

/// How far a segment is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SegmentState {
    /// Where the pass goes on that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) position: Option<ItemKey>,
    /// When the pass began that is under way; of a pass over all segments, when that did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) began: Option<Instant>,
    /// When the last pass began that came to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_began: Option<Instant>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_ended: Option<Instant>,
}

/// The name of a segment's state.
pub(crate) fn state_name(segment: u32, segments: u32) -> String {
    format!("{segments}/{segment:06}")
}

/// The name of the state that tells when a pass over all segments began; it has ended when that tells nothing.
fn pass_name(segments: u32) -> String {
    format!("{segments}/pass")
}

impl Job {
    /// Compares the table with itself and with the page index.
    pub async fn audit(&self, options: AuditOptions) -> Report {
        let scope = match options.which {
            Which::One(segment) => format!("audit {}", state_name(segment, options.segments)),
            Which::All | Which::Due => "audit".to_owned(),
        };
        self.run("audit", &scope, async |run| Box::pin(audit(run, options)).await).await
    }
}

/// What an audit looks at.
struct Audit<'run> {
    run: &'run Run<'run>,
    scope: Scope,
    /// Whether the page index could be looked at; if not, nothing counts as checked.
    index_answers: bool,
    segments: u32,
    /// About how many items the table has.
    items: u64,
    /// When the pass began that its segments belong to.
    began: Instant,
}

async fn audit(run: &Run<'_>, options: AuditOptions) -> Result<(), RepairError> {
    let job = run.job;
    let described = job.table.describe().await?;
    let follow = Follow::read(run, &described.id).await?;
    let scope = Scope { duplicates: true, index: follow.scope() };
    let segments = options.segments.max(1);
    let mut audit =
        Audit { run, scope, index_answers: follow.answers(), segments, items: described.items, began: run.began };
    let chosen = audit.choose(options).await?;
    let (whole, mut done) = (chosen.len(), 0_usize);
    let audit = audit;
    let segments = stream::iter(chosen.into_iter().map(Ok::<_, RepairError>))
        .map_ok(|(segment, state)| {
            let audit = &audit;
            async move { audit.segment(segment, state).await }
        })
        .try_buffer_unordered(options.at_once.max(1));
    let mut segments = std::pin::pin!(segments);
    let mut is_whole = true;
    while let Some(is_checked) = segments.try_next().await? {
        is_whole &= is_checked;
        done += 1;
        job.progress.set_share(done as u64, whole as u64 + u64::from(options.sweep));
    }
    if run.may_remember() && job.stop.reason().is_none() {
        audit.vouch().await?;
    }
    if options.sweep && job.stop.reason().is_none() {
        Box::pin(sweep::sweep(run, &follow, options)).await?;
    } else if options.sweep {
        run.must_stop(|| "the next run goes on with the sweep of the page index".to_owned());
    }
    let is_over = is_whole && run.report().stopped.is_none();
    if is_over && options.which == Which::All {
        audit.remember(&pass_name(audit.segments), &SegmentState::default()).await?;
    }
    Ok(())
}

impl Audit<'_> {
    /// The segments to check, and how far each is.
    async fn choose(&mut self, options: AuditOptions) -> Result<Vec<(u32, SegmentState)>, RepairError> {
        let (table, which) = (&self.run.job.table, options.which);
        // A dry run remembers nothing, and does not begin in the middle.
        let goes_on = self.run.job.settings.apply && !options.restart;
        let states: BTreeMap<String, SegmentState> =
            if goes_on { table.states(AUDIT).await?.into_iter().collect() } else { BTreeMap::new() };
        let state = |segment| states.get(&state_name(segment, self.segments)).cloned().unwrap_or_default();
        let mut chosen: Vec<(u32, SegmentState)> = match which {
            Which::One(segment) => vec![(segment, state(segment))],
            Which::All | Which::Due => (0..self.segments).map(|segment| (segment, state(segment))).collect(),
        };
        match which {
            Which::One(_) => {}
            // A pass over all segments that was interrupted is gone on with: those that were done since it began are not
            // begun again.
            Which::All => {
                let pass = states.get(&pass_name(self.segments)).and_then(|pass| pass.began);
                self.began = pass.unwrap_or(self.began);
                chosen.retain(|(_, state)| state.last_began.is_none_or(|last| last < self.began));
                let pass = SegmentState { began: Some(self.began), ..SegmentState::default() };
                self.remember(&pass_name(self.segments), &pass).await?;
            }
            Which::Due => {
                let age = i64::try_from((EVERY - EARLIER).as_millis()).unwrap_or(i64::MAX);
                let due_before = now().plus_ms(-age);
                chosen.retain(|(_, state)| state.last_ended.is_none_or(|ended| ended < due_before));
                chosen.sort_by_key(|(_, state)| (state.began.is_none(), state.last_ended));
            }
        }
        Ok(chosen)
    }

    /// Checks a segment from where it was left; `false` when it did not come to its end, or does not count as checked.
    async fn segment(&self, segment: u32, mut state: SegmentState) -> Result<bool, RepairError> {
        let job = self.run.job;
        let mut open: Vec<Item> = Vec::new();
        let mut position = state.position.clone();
        let name = state_name(segment, self.segments);
        let mut began = state.began;
        let mut remembered = Clock::now();
        loop {
            let goes_on = || match job.settings.apply {
                true => format!("the next run goes on in segment {segment} of {}", self.segments),
                false => {
                    format!("a dry run remembers nothing: go on with --segment {segment} --segments {}", self.segments)
                }
            };
            if self.run.must_stop(goes_on) {
                if began.is_some() {
                    self.remember(&name, &state).await?;
                }
                return Ok(false);
            }
            let pass = *began.get_or_insert(self.began);
            let before = state.position.clone();
            state.began = Some(pass);
            let scanned =
                job.table.scan_segment(ScanOf::Everything, position, segment, self.segments, SCAN_LIMIT).await?;
            self.run.add_items(scanned.read, self.items);
            position = scanned.next;
            let mut closed: Vec<Vec<Item>> = Vec::new();
            for item in scanned.items {
                if open.first().is_some_and(|first| first.get(attribute::PK) != item.get(attribute::PK)) {
                    state.position = open.last().and_then(key_of);
                    closed.push(std::mem::take(&mut open));
                }
                // What is cut off here is suspect for what is kept, and read again as a whole.
                if open.len() < COLLECTION_MAX {
                    open.push(item);
                }
            }
            if position.is_none() && !open.is_empty() {
                closed.push(std::mem::take(&mut open));
            }
            if !Box::pin(self.check(&closed)).await? {
                // It goes on where it was before this answer.
                state.position = before;
                self.run.must_stop(goes_on);
                self.remember(&name, &state).await?;
                return Ok(false);
            }
            if position.is_none() && !self.index_answers {
                return Ok(false);
            }
            if position.is_none() {
                let ended = now();
                let done = SegmentState { last_began: Some(pass), last_ended: Some(ended), ..SegmentState::default() };
                self.remember(&name, &done).await?;
                return Ok(true);
            }
            if remembered.elapsed() > REMEMBER_EVERY {
                remembered = Clock::now();
                self.remember(&name, &state).await?;
            }
        }
    }

    async fn remember(&self, name: &str, state: &SegmentState) -> Result<(), RepairError> {
        if self.run.may_remember() {
            self.run.job.table.put_state(AUDIT, name, state).await?;
        }
        Ok(())
    }

    /// Compares collections, and reconciles those that are suspect; `false` when some were left out.
    async fn check(&self, collections: &[Vec<Item>]) -> Result<bool, RepairError> {
        let mut suspects: BTreeMap<CommentId, Places> = BTreeMap::new();
        let mut right: Vec<Image<'_>> = Vec::new();
        let mut checked = 0;
        for items in collections {
            let Some(pk) = items.first().and_then(|item| text(item, attribute::PK)) else { continue };
            if !pk.starts_with(COMMENT_PREFIX) {
                continue;
            }
            let Some(id) = comment_id_of_pk(pk) else {
                self.run.add_unresolved(format!("items under {pk:?}, which is no comment's key"));
                continue;
            };
            checked += 1;
            match Collection::whole(items) {
                Some(image) => right.push(image),
                None => {
                    suspects.insert(id, Places::default());
                }
            }
        }
        for image in self.without_ranks(&right).await? {
            suspects.insert(image.id.clone(), Places::of([&image.placement]));
        }
        self.run.add_checked(checked);
        let states = self.run.reconcile_all(suspects, &self.scope).await?;
        // What was not looked at must not count as checked.
        were_looked_at(&states)
    }

    /// Those of comments that are not in their base sets with the right scores.
    async fn without_ranks<'images, 'items>(
        &self,
        comments: &'images [Image<'items>],
    ) -> Result<Vec<&'images Image<'items>>, RepairError> {
        let index = &self.run.job.index;
        let is_kept = |image: &&Image<'_>| match &self.scope.index {
            IndexScope::Nothing => false,
            IndexScope::All => true,
            IndexScope::Partitions(kept) => kept.contains(&index.partition_of(&image.placement.product)),
        };
        let comments: Vec<&Image<'_>> = comments.iter().filter(is_kept).collect();
        let mut places: BTreeMap<BaseSet, Vec<usize>> = BTreeMap::new();
        for (place, image) in comments.iter().enumerate() {
            for set in image.placement.base_sets() {
                places.entry(set).or_default().push(place);
            }
        }
        let asked: Vec<(&BaseSet, Vec<&str>)> = places
            .iter()
            .map(|(set, places)| {
                let members = places.iter().filter_map(|place| comments.get(*place)).map(|image| image.id.as_str());
                (set, members.collect())
            })
            .collect();
        let scores = match index.scores(&asked).await {
            // Something else than a base set is in the place of one: which comments that concerns, `reconcile` finds out.
            Err(error) if error.remedy() == stores::Remedy::Quarantine => return Ok(comments),
            Err(error) if index_is_away(&error) => return Err(RepairError::IndexAway(error.to_string())),
            scores => scores?,
        };
        let mut found: Vec<Vec<Option<f64>>> = vec![Vec::new(); comments.len()];
        for (places, scores) in places.values().zip(scores) {
            for (place, score) in places.iter().zip(scores) {
                found.get_mut(*place).into_iter().for_each(|scores| scores.push(score));
            }
        }
        let suspect = comments.into_iter().zip(found);
        let suspect = suspect.filter(|(image, scores)| !image.placement.has_scores(scores, image.created_at));
        Ok(suspect.map(|(image, _)| image).collect())
    }

    /// Moves the duplicates' watermark on when every segment has been checked: what has changed since the first of these
    /// passes began is in the journal, and what has not was checked.
    async fn vouch(&self) -> Result<(), RepairError> {
        let job = self.run.job;
        let states: BTreeMap<String, SegmentState> = job.table.states(AUDIT).await?.into_iter().collect();
        let began = (0..self.segments)
            .map(|segment| states.get(&state_name(segment, self.segments)).and_then(|state| state.last_began))
            .collect::<Option<Vec<Instant>>>();
        let settle_ms = i64::try_from(job.settings.settle.as_millis()).unwrap_or(i64::MAX);
        if let Some(first) = began.and_then(|began| began.into_iter().min()) {
            job.table.advance_watermark(first.plus_ms(-settle_ms)).await?;
        }
        Ok(())
    }
}

/// Whether all comments were looked at, `false` when some were left out.
///
/// # Errors
/// The page index did not answer for some of them.
pub(crate) fn were_looked_at(states: &[(CommentId, State)]) -> Result<bool, RepairError> {
    let mut is_whole = true;
    for (_, state) in states {
        match state {
            State::IndexAway(error) => return Err(RepairError::IndexAway(error.clone())),
            State::LeftOut(_) => is_whole = false,
            State::Settled | State::Unresolved(_) | State::KeepsChanging => {}
        }
    }
    Ok(is_whole)
}

fn key_of(item: &Item) -> Option<ItemKey> {
    Some(ItemKey { pk: text(item, attribute::PK)?.to_owned(), sk: text(item, attribute::SK)?.to_owned() })
}
