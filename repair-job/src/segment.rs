//! The scan of one segment of the table.
//!
//! A scan returns the items of one comment one after the other. So they are compared as they arrive: eventually
//! consistent, and each read once. The comparison proves nothing. Any comment that is not exactly right is *suspect*
//! and goes to `reconcile`, which reads it again, strongly consistent. So neither an item that was about to change nor
//! a collection that a scan returns in pieces does any harm.
//!
//! When a comment is right in the table, its scores in its four base sets are also checked. The sweep finds superfluous
//! entries (`sweep`).
//!
//! **Invariant:** a position is stored, and a segment counts as checked, only up to where everything was checked,
//! including the page index (`tests/repair/resumed.rs`).

use std::collections::BTreeMap;

use model::{
    BaseSet, CommentId, Malformed,
    item::{COMMENT_PREFIX, Image, attribute, comment_id_of_pk, text},
    plan::reconcile::{Collection, Places},
};
use process::now;
use serde_dynamo::Item;
use table::ItemKey;
use tokio::time::{Duration, Instant as Clock};

use crate::{
    audit::Audit,
    error::RepairError,
    job::{index_is_away, looked_at},
    pass::{SegmentState, state_name},
    reconcile::{IndexScope, Scope, State},
};

/// Maximum number of items read in one call. An answer also ends after a megabyte.
const SCAN_LIMIT: u32 = 2_000;

/// Maximum number of items of one id kept in memory. A comment never has as many.
const COLLECTION_MAX: usize = 500;

/// How often the position is stored.
const REMEMBER_EVERY: Duration = Duration::from_secs(10);

/// How completely some comments were checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looked {
    /// All were checked.
    Whole,
    /// All were checked, but not in the page index, which does not answer or was lost.
    WithoutIndex,
    /// Some were skipped.
    LeftOut,
}

impl Audit<'_> {
    /// Checks a segment from its stored position on. Returns `false` when the scan did not reach the end, or does not
    /// count as a check.
    pub(crate) async fn segment(&self, segment: u32, mut state: SegmentState) -> Result<bool, RepairError> {
        let job = self.run.job;
        let mut open: Vec<Item> = Vec::new();
        let mut position = state.position.clone();
        let mut read = state.items.unwrap_or(0);
        let name = state_name(segment, self.segments);
        let pass = state.began.unwrap_or(self.began);
        // While this holds, everything up to the stored position was checked. When it ends, the stored position stays.
        let mut counts = self.index_answers();
        let mut remembered = Clock::now();
        loop {
            let goes_on = || match job.settings.apply {
                true => format!("the next run goes on in segment {segment} of {}", self.segments),
                false => {
                    format!("a dry run remembers nothing: go on with --segment {segment} --segments {}", self.segments)
                }
            };
            if self.run.must_stop(goes_on) || self.run.has_failed() {
                if counts && state.began.is_some() {
                    self.remember(&name, &state).await?;
                }
                return Ok(false);
            }
            state.table = Some(self.table_id.clone());
            let before = SegmentState { began: Some(pass), ..state.clone() };
            state.began = Some(pass);
            let scanned = job.table.scan_segment(position, segment, self.segments, SCAN_LIMIT).await?;
            self.run.report().items += scanned.read;
            self.advance(&mut read, scanned.read);
            position = scanned.next;
            let mut closed: Vec<Vec<Item>> = Vec::new();
            for item in scanned.items {
                if open.first().is_some_and(|first| first.get(attribute::PK) != item.get(attribute::PK)) {
                    state.position = open.last().and_then(key_of);
                    closed.push(std::mem::take(&mut open));
                }
                // A collection that is cut off here is suspect by what is kept, and is read again as a whole.
                if open.len() < COLLECTION_MAX {
                    open.push(item);
                }
            }
            state.items = Some(read.saturating_sub(u64::try_from(open.len()).unwrap_or(u64::MAX)));
            if position.is_none() && !open.is_empty() {
                closed.push(std::mem::take(&mut open));
            }
            match Box::pin(self.check(&closed)).await? {
                Looked::Whole => {}
                Looked::WithoutIndex if counts => {
                    counts = false;
                    self.remember(&name, &before).await?;
                }
                Looked::WithoutIndex => {}
                Looked::LeftOut => {
                    // The next run resumes from before this answer.
                    self.run.must_stop(goes_on);
                    if counts {
                        self.remember(&name, &before).await?;
                    }
                    return Ok(false);
                }
            }
            if position.is_none() {
                let rest = self.items.saturating_sub(read);
                self.advance(&mut read, rest);
            }
            if position.is_none() && counts {
                let ended = now();
                let done = SegmentState {
                    table: state.table.clone(),
                    last_began: Some(pass),
                    last_ended: Some(ended),
                    ..SegmentState::default()
                };
                self.remember(&name, &done).await?;
            }
            if position.is_none() {
                return Ok(counts);
            }
            if counts && remembered.elapsed() > REMEMBER_EVERY {
                remembered = Clock::now();
                self.remember(&name, &state).await?;
            }
        }
    }

    /// Counts items as progress, at most as many as the segment is expected to have.
    fn advance(&self, read: &mut u64, items: u64) {
        let before = (*read).min(self.items);
        *read += items;
        self.run.job.progress.advance((*read).min(self.items) - before);
    }

    /// Compares collections, and reconciles the suspect ones.
    async fn check(&self, collections: &[Vec<Item>]) -> Result<Looked, RepairError> {
        let mut suspects: BTreeMap<CommentId, Places> = BTreeMap::new();
        let mut right: Vec<Image<'_>> = Vec::new();
        let mut checked = 0;
        for items in collections {
            let Some(pk) = items.first().and_then(|item| text(item, attribute::PK)) else { continue };
            if !pk.starts_with(COMMENT_PREFIX) {
                continue;
            }
            let Some(id) = comment_id_of_pk(pk) else {
                let sk = items.first().and_then(|item| text(item, attribute::SK)).unwrap_or_default();
                let malformed = Malformed::of_item(pk, sk, attribute::PK, "is not a comment's");
                self.run.add_unresolved(malformed.to_string());
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
        let index = match self.index_answers() {
            true => self.follow.scope(),
            false => IndexScope::Nothing,
        };
        for image in self.without_ranks(&right, &index).await? {
            suspects.insert(image.id.clone(), Places::of([&image.placement]));
        }
        let all = suspects.len();
        let states = self.run.reconcile_all(suspects, &Scope { duplicates: true, index }).await?;
        let away = states.iter().find_map(|(_, state)| match state {
            State::IndexAway(why) => Some(why),
            State::Settled | State::Unresolved(_) | State::KeepsChanging | State::LeftOut(_) => None,
        });
        away.into_iter().for_each(|why| self.give_index_up(why));
        let left_out = all - looked_at(&states);
        self.run.add_checked(checked - left_out);
        // Unchecked comments must not count as checked.
        Ok(match (left_out, self.index_answers()) {
            (0, true) => Looked::Whole,
            (0, false) => Looked::WithoutIndex,
            _ => Looked::LeftOut,
        })
    }

    /// The comments that are not in their base sets with the right scores.
    async fn without_ranks<'images, 'items>(
        &self,
        comments: &'images [Image<'items>],
        scope: &IndexScope,
    ) -> Result<Vec<&'images Image<'items>>, RepairError> {
        let index = &self.run.job.index;
        let is_kept = |image: &&Image<'_>| match scope {
            IndexScope::Nothing => false,
            IndexScope::All => true,
            IndexScope::Partitions(kept) => kept.has(index, &image.placement.product),
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
            // A key holds something other than a base set. `reconcile` finds out which comments that affects.
            Err(error) if error.remedy() == process::Remedy::Quarantine => return Ok(comments),
            // The duplicates are still checked.
            Err(error) if index_is_away(&error) => {
                self.give_index_up(&error.to_string());
                return Ok(Vec::new());
            }
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
}

fn key_of(item: &Item) -> Option<ItemKey> {
    Some(ItemKey { pk: text(item, attribute::PK)?.to_owned(), sk: text(item, attribute::SK)?.to_owned() })
}
