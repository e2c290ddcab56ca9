//! What a run has found and done so far. It remembers what it has counted, so a difference that is
//! found in two ways counts once.
//!
//! Memory is bounded, even when everything is wrong and nothing is repaired, as in a dry run over a
//! table without duplicates.

use std::{
    collections::{BTreeMap, HashSet},
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
};

use model::{
    CommentId, ProductId,
    plan::reconcile::{Drift, DriftKind, Places},
};
use parking_lot::{Mutex, MutexGuard};
use process::StoreError;

use crate::run::{
    outcome::{CommentOutcome, Differences},
    report::{Report, TEXTS_MAX},
};

/// Maximum number of differences and comments remembered as counted: those of 200,000 comments with
/// all entries wrong. They take 75 MB, because they fill a hash table of 8 million places of 9
/// bytes. Beyond it, what is found twice counts twice.
const COUNTED_MAX: usize = 7 << 20;

/// Maximum number of unresolved comments whose reason is kept.
pub(crate) const UNRESOLVED_MAX: usize = 1_000;

#[derive(Debug)]
pub(crate) struct Ledger {
    report: Mutex<Report>,
    /// The counted comments, as hashes.
    counted: Mutex<HashSet<u64>>,
    unresolved: Mutex<BTreeMap<CommentId, (String, Places)>>,
}

impl Ledger {
    pub(crate) fn new(command: &str, apply: bool) -> Self {
        let report = Report {
            command: command.to_owned(),
            apply,
            ..Report::default()
        };
        Self {
            report: Mutex::new(report),
            counted: Mutex::default(),
            unresolved: Mutex::default(),
        }
    }

    pub(crate) fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock()
    }

    pub(crate) fn into_report(self) -> Report {
        self.report.into_inner()
    }

    /// Whether this is counted for the first time.
    fn is_new(&self, of: &str, what: &str) -> bool {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((of, what));
        let mut counted = self.counted.lock();
        if counted.len() < COUNTED_MAX {
            counted.insert(hash)
        } else {
            !counted.contains(&hash)
        }
    }

    /// Whether a remaining difference is new. A name belongs to all comments of its product: the
    /// first repair would add it for all.
    fn is_new_drift(&self, id: &CommentId, drift: &Drift) -> bool {
        let is_of_name = matches!(drift.kind(), DriftKind::MissingName | DriftKind::ExtraName);
        let of = if is_of_name { "" } else { id.as_str() };
        self.is_new(of, &drift.to_string())
    }

    /// Like [`Self::add_unresolved`], for a text that may come several times.
    pub(crate) fn add_unresolved_once(&self, what: String) {
        if self.is_new("", &what) {
            self.add_unresolved(what);
        }
    }

    pub(crate) fn add_unresolved(&self, what: String) {
        tracing::error!(what, "unresolved: a person has to look");
        let mut report = self.report();
        report.unresolved_count += 1;
        if report.unresolved.len() < TEXTS_MAX {
            report.unresolved.push(what);
        }
    }

    pub(crate) fn add_skipped(&self, what: String) {
        let mut report = self.report();
        report.skipped_count += 1;
        if report.skipped.len() < TEXTS_MAX {
            report.skipped.push(what);
        }
    }

    pub(crate) fn add_note(&self, what: String) {
        self.report().notes.push(what);
    }

    /// Reports, once, a product whose keys in the page index hold values of the wrong type.
    pub(crate) fn add_unreadable_product(&self, product: &ProductId, error: &StoreError) {
        if self.is_new(product.as_str(), "is unreadable") {
            self.add_unresolved(format!(
                "product {product} in the page index: {error}: repair-job rebuild --apply removes what is wrong"
            ));
        }
    }

    /// Counts a difference that belongs to no comment. A run that repairs has repaired it.
    pub(crate) fn add_drift(&self, kind: DriftKind) {
        let mut report = self.report();
        *report.drifted.entry(kind).or_default() += 1;
        report.add_difference();
    }

    /// Counts a product with wrong counts, once. A run that repairs has repaired it.
    pub(crate) fn add_wrong_counts(&self, product: &ProductId) {
        if self.is_new(product.as_str(), "has wrong counts") {
            tracing::warn!(%product, "the page index counted its comments wrong");
            self.add_drift(DriftKind::WrongCounts);
        }
    }

    /// Counts a comment of an author. A run that repairs has deleted it.
    pub(crate) fn add_erased(&self) {
        let mut report = self.report();
        report.drifted_comments += 1;
        report.add_difference();
    }

    pub(crate) fn forget_drift(&self) {
        let mut report = self.report();
        report.drifted.clear();
        report.drifted_comments = 0;
        report.repaired = 0;
    }

    /// The unresolved comments with their reasons and places. At most [`UNRESOLVED_MAX`] of them
    /// are kept.
    pub(crate) fn unresolved_comments(&self) -> Vec<(CommentId, String, Places)> {
        let unresolved = self.unresolved.lock();
        unresolved
            .iter()
            .map(|(id, (what, places))| (id.clone(), what.clone(), places.clone()))
            .collect()
    }

    /// Adds what was found of a comment, and what became of it: `None` when a store failed.
    pub(crate) fn add_comment(
        &self,
        id: &CommentId,
        places: &Places,
        found: &Differences,
        outcome: Option<&CommentOutcome>,
        is_stopping: bool,
    ) {
        self.add_differences(id, found);
        if let Some(outcome) = outcome {
            self.add_outcome(id, places, outcome, is_stopping);
        }
    }

    /// Counts the differences of a comment. A remaining one counts once, even when it is found in
    /// two ways; in a dry run, all differences remain.
    fn add_differences(&self, id: &CommentId, found: &Differences) {
        let was_counted = !found.remaining.is_empty() && !self.is_new(id.as_str(), "");
        let repaired = &found.repaired;
        let mut remaining = Vec::new();
        for drift in &found.remaining {
            if self.is_new_drift(id, drift) {
                remaining.push(drift);
            }
        }
        let has_news = !repaired.is_empty() || !remaining.is_empty();
        {
            let mut report = self.report();
            report.drifted_comments += u64::from(has_news && !was_counted);
            for drift in repaired.iter().chain(remaining.iter().copied()) {
                *report.drifted.entry(drift.kind()).or_default() += 1;
            }
            report.repaired += u64::try_from(repaired.len()).unwrap_or(u64::MAX);
            report.left += u64::try_from(remaining.len()).unwrap_or(u64::MAX);
        }
        for drift in repaired {
            tracing::info!(comment = %id, %drift, "repaired");
        }
        for drift in remaining {
            tracing::info!(comment = %id, %drift, "found");
        }
    }

    /// Reports a comment that was not repaired. A comment that needs a person counts once.
    fn add_outcome(
        &self,
        id: &CommentId,
        places: &Places,
        outcome: &CommentOutcome,
        is_stopping: bool,
    ) {
        match outcome {
            CommentOutcome::Repaired => {}
            CommentOutcome::Unresolved(what) => {
                if self.is_newly_unresolved(id, what, places) {
                    self.add_unresolved(what.clone());
                }
            }
            CommentOutcome::KeepsChanging => self.add_skipped(format!(
                "comment {id} keeps changing; its last change is in the journal"
            )),
            // The report says where the next run resumes.
            CommentOutcome::Unfinished(_) if is_stopping => {}
            CommentOutcome::Unfinished(why) => self.add_skipped(format!("comment {id}: {why}")),
            CommentOutcome::IndexAway(error) => self.add_skipped(format!(
                "comment {id}: its entries in the page index, because {error}"
            )),
        }
    }

    /// Counts an unresolved comment and the places where it was looked for. Returns `false` when it
    /// was counted before.
    fn is_newly_unresolved(&self, id: &CommentId, what: &str, places: &Places) -> bool {
        let is_new = self.is_new(id.as_str(), "unresolved");
        let mut unresolved = self.unresolved.lock();
        if let Some((_, before)) = unresolved.get_mut(id) {
            before.join(places);
        } else if is_new && unresolved.len() < UNRESOLVED_MAX {
            unresolved.insert(id.clone(), (what.to_owned(), places.clone()));
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use model::{FilterKey, Language};

    use super::*;

    fn id(text: &str) -> CommentId {
        CommentId::parse(text).unwrap()
    }

    fn key(text: &str) -> FilterKey {
        FilterKey::parse(text).unwrap()
    }

    fn missing_name(language: Option<&str>) -> Drift {
        let language = language.map(|tag| Language::parse(tag).unwrap());
        Drift::MissingName(ProductId::parse("p").unwrap(), language)
    }

    #[test]
    fn a_difference_that_is_found_twice_counts_once() {
        let ledger = Ledger::new("audit", false);
        let mut places = Places::default();
        let one = Drift::MissingDuplicate(key("PRODUCT#p/en/~"));
        let another = Drift::ExtraDuplicate(key("PRODUCT#p/en/~"));
        for (comment, remaining, counts) in [
            ("c1", vec![], (0, 0)),
            ("c1", vec![one.clone()], (1, 1)),
            ("c1", vec![one.clone(), another], (1, 2)),
            ("c2", vec![one], (2, 3)),
            // A name is missing for all comments of its product, and the first repair adds it for
            // all.
            ("c3", vec![missing_name(None)], (3, 4)),
            ("c4", vec![missing_name(None)], (3, 4)),
            ("c4", vec![missing_name(Some("en"))], (3, 5)),
        ] {
            let found = Differences {
                remaining,
                ..Differences::default()
            };
            ledger.add_differences(&id(comment), &found);
            let report = ledger.report();
            assert_eq!(
                (report.drifted_comments, report.left),
                counts,
                "{comment} {found:?}"
            );
        }
        let why = CommentOutcome::Unresolved("why".to_owned());
        ledger.add_outcome(&id("c1"), &places, &why, false);
        places.add(&ProductId::parse("p").unwrap(), None);
        let why_else = CommentOutcome::Unresolved("why else".to_owned());
        ledger.add_outcome(&id("c1"), &places, &why_else, false);
        assert_eq!(
            ledger.unresolved_comments(),
            [(id("c1"), "why".to_owned(), places)]
        );
        assert_eq!(ledger.report().unresolved_count, 1);
    }

    #[test]
    fn what_is_remembered_as_counted_fills_its_memory() {
        assert_eq!(
            HashSet::<u64>::with_capacity(COUNTED_MAX).capacity(),
            COUNTED_MAX
        );
    }
}
