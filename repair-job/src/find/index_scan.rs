//! Finds suspects by a scan of the page index: every member of every base set, and every name.
//!
//! The scan of the table cannot see superfluous entries in the page index. ADR 21 says how this
//! scan does. It checks a comment's scores only in the languages that had names then. So the
//! language of a set must have a name, and a member must be in no other language with that rating.
//!
//! While some batches are compared, the next ones are read.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::{join, try_join, try_join_all};
use model::{
    BaseSet, CommentId, FilterKey, Language, ProductId,
    item::Image,
    plan::reconcile::{Names, Ranks, base_sets_in, plan_ranks},
};
use page_index::{IndexPart, IndexPartition, IndexScanPosition, Name};
use process::{Remedy, Store, StoreError};
use tokio::time::{Duration, Instant};

use super::{ITEMS_PER_COMMENT, scores_of};
use crate::{
    repair::{
        index_snapshot::IndexSnapshot,
        pipeline::{Finder, Finding, Suspects},
    },
    run::Run,
};

const TOGETHER: usize = 500;

/// After this many steps without anything to compare, the position may be stored.
const STEPS_TOGETHER: usize = 200;

const TIME_MAX: Duration = Duration::from_secs(60);

/// About how long a comment takes, in the time that the table's scan takes for an item, as `bench`
/// measures it.
pub(crate) const STEPS_OF_A_COMMENT: u64 = ITEMS_PER_COMMENT / 2;

#[derive(Default)]
struct Batch {
    in_any_language: BTreeMap<ProductId, BTreeSet<CommentId>>,
    in_a_language: BTreeMap<BaseSet, BTreeSet<CommentId>>,
    member_count: usize,
    names: BTreeSet<Name>,
    strays: BTreeSet<(IndexPartition, String)>,
    steps: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        let names = self.names.len() + self.strays.len();
        self.member_count >= TOGETHER || names >= TOGETHER || self.steps >= STEPS_TOGETHER
    }

    fn by_product(&self) -> BTreeMap<ProductId, Self> {
        let mut parts: BTreeMap<ProductId, Self> = BTreeMap::new();
        for (product, ids) in &self.in_any_language {
            parts
                .entry(product.clone())
                .or_default()
                .in_any_language
                .insert(product.clone(), ids.clone());
        }
        for (set, ids) in &self.in_a_language {
            parts
                .entry(set.product.clone())
                .or_default()
                .in_a_language
                .insert(set.clone(), ids.clone());
        }
        for name in &self.names {
            parts
                .entry(name.0.clone())
                .or_default()
                .names
                .insert(name.clone());
        }
        parts
    }

    fn comments(&self) -> impl Iterator<Item = (CommentId, ProductId)> {
        self.in_any_language
            .iter()
            .flat_map(|(product, ids)| ids.iter().map(|id| (id.clone(), product.clone())))
    }
}

/// The set of the same rating and any language.
fn of_any_language(set: &BaseSet) -> BaseSet {
    BaseSet {
        language: None,
        ..set.clone()
    }
}

/// The sets of the same rating and the product's other languages. A member of a language's set is
/// in none of them.
fn of_other_languages(set: &BaseSet, names: &BTreeMap<ProductId, Names>) -> Vec<BaseSet> {
    let languages = names
        .get(&set.product)
        .into_iter()
        .flat_map(|names| &names.languages);
    let others = languages.filter(|other| Some(*other) != set.language.as_ref());
    others
        .map(|other| BaseSet {
            language: Some(other.clone()),
            ..set.clone()
        })
        .collect()
}

struct BatchesRead {
    batches: Vec<Batch>,
    position: IndexScanPosition,
    is_last: bool,
}

pub(crate) struct IndexScan<'run> {
    run: &'run Run<'run>,
    snapshot: &'run IndexSnapshot,
    /// Where the first read begins.
    next: Option<IndexScanPosition>,
    ahead: Option<Result<BatchesRead, StoreError>>,
    at_once: usize,
    resumes: &'run str,
}

impl Finder for IndexScan<'_> {
    type ScanPosition = Option<IndexScanPosition>;

    async fn find(&mut self) -> Result<Option<Finding<Self::ScanPosition>>, StoreError> {
        if !self.snapshot.is_in_use() {
            return Err(StoreError::unavailable(
                Store::PageIndex,
                "the run does not use it any more",
            ));
        }
        let read = match (self.ahead.take(), self.next.take()) {
            (Some(read), _) => read?,
            (None, Some(position)) => self.read(position).await?,
            (None, None) => return Ok(None),
        };
        let ahead = async {
            if read.is_last {
                None
            } else {
                Some(self.read(read.position.clone()).await)
            }
        };
        let compared = try_join_all(read.batches.iter().map(|batch| self.compare(batch)));
        let (compared, ahead) = Box::pin(join(compared, ahead)).await;
        self.ahead = ahead;
        let mut suspects = Suspects::default();
        compared?.into_iter().for_each(|found| suspects.join(found));
        suspects.strays.extend(
            read.batches
                .iter()
                .flat_map(|batch| batch.strays.iter().cloned()),
        );
        let comments = read
            .batches
            .iter()
            .map(|batch| batch.comments().count())
            .sum::<usize>();
        let steps = u64::try_from(comments)
            .unwrap_or(u64::MAX)
            .saturating_mul(STEPS_OF_A_COMMENT);
        Ok(Some(Finding {
            suspects,
            checked: 0,
            steps,
            position: Some(read.position),
            is_last: read.is_last,
        }))
    }

    fn resumes(&self) -> String {
        self.resumes.to_owned()
    }
}

impl<'run> IndexScan<'run> {
    pub(crate) fn new(
        run: &'run Run<'run>,
        snapshot: &'run IndexSnapshot,
        next: Option<IndexScanPosition>,
        at_once: usize,
        resumes: &'run str,
    ) -> Self {
        Self {
            run,
            snapshot,
            next,
            ahead: None,
            at_once: at_once.max(1),
            resumes,
        }
    }

    /// Reads the next batches: fewer when the run must stop.
    async fn read(&self, mut position: IndexScanPosition) -> Result<BatchesRead, StoreError> {
        let mut batches = Vec::new();
        while batches.len() < self.at_once
            && (batches.is_empty() || self.run.stop_reason().is_none())
        {
            let mut batch = Batch::default();
            while !batch.is_full() {
                let Some(part) = self.run.job.index.next_index_part(&mut position).await? else {
                    batches.push(batch);
                    return Ok(BatchesRead {
                        batches,
                        position,
                        is_last: true,
                    });
                };
                self.add(&mut batch, part);
            }
            batches.push(batch);
        }
        Ok(BatchesRead {
            batches,
            position,
            is_last: false,
        })
    }

    fn add(&self, batch: &mut Batch, part: IndexPart) {
        batch.steps += 1;
        let index = &self.run.job.index;
        let is_current = |product: &ProductId| self.snapshot.has(index.partition_of(product));
        let unreadable = |what: String| {
            self.run
                .ledger
                .add_unresolved(format!("{what}: repair-job rebuild --apply removes it"))
        };
        match part {
            IndexPart::Unreadable(key, why) => unreadable(format!("the key {key:?}: {why}")),
            IndexPart::Unknown(key) => {
                unreadable(format!("the key {key:?} is not the page index's"))
            }
            IndexPart::Members(sets) => {
                for (set, members) in sets.into_iter().filter(|(set, _)| is_current(&set.product)) {
                    self.run.ledger.report().members +=
                        u64::try_from(members.len()).unwrap_or(u64::MAX);
                    for (member, _) in members {
                        let Ok(id) = CommentId::parse(&member) else {
                            unreadable(format!(
                                "the member {member:?} of {set} is not a comment's id"
                            ));
                            continue;
                        };
                        let ids = match &set.language {
                            None => batch
                                .in_any_language
                                .entry(set.product.clone())
                                .or_default(),
                            Some(_) => batch.in_a_language.entry(set.clone()).or_default(),
                        };
                        batch.member_count += usize::from(ids.insert(id));
                    }
                }
            }
            IndexPart::Products(partition, names) if self.snapshot.has(partition) => {
                for name in names {
                    let parsed =
                        FilterKey::parse(&format!("PRODUCT#{name}/~/~")).map(|key| key.product);
                    match parsed {
                        Ok(product) if index.partition_of(&product) == partition => {
                            batch.names.insert((product, None));
                        }
                        _ => drop(batch.strays.insert((partition, name))),
                    }
                }
            }
            IndexPart::Languages(product, names) if is_current(&product) => {
                for name in names {
                    match Language::parse(&name)
                        .ok()
                        .filter(|language| language.as_str() == name)
                    {
                        Some(language) => {
                            batch.names.insert((product.clone(), Some(language)));
                        }
                        None => {
                            unreadable(format!("the name {name:?} is not a language, of {product}"))
                        }
                    }
                }
            }
            IndexPart::Nothing | IndexPart::Products(..) | IndexPart::Languages(..) => {}
        }
    }

    async fn compare(&self, batch: &Batch) -> Result<Suspects, StoreError> {
        match self.compare_together(batch).await {
            Err(error) if error.remedy() == Remedy::Quarantine => {}
            compared => return compared,
        }
        // A key holds a value of the wrong type. Compare the other products without the affected
        // one.
        let mut suspects = Suspects::default();
        for (product, part) in batch.by_product() {
            match self.compare_together(&part).await {
                Err(error) if error.remedy() == Remedy::Quarantine => {
                    self.run.ledger.add_unreadable_product(&product, &error);
                }
                compared => suspects.join(compared?),
            }
        }
        Ok(suspects)
    }

    async fn compare_together(&self, batch: &Batch) -> Result<Suspects, StoreError> {
        let index = &self.run.job.index;
        let empty = index
            .without_members(batch.names.iter().cloned().collect())
            .await?;
        let in_a_language = batch.in_a_language.keys().map(|set| &set.product);
        let of_empty = empty.iter().map(|(product, _)| product);
        let products: BTreeSet<&ProductId> = batch
            .in_any_language
            .keys()
            .chain(in_a_language)
            .chain(of_empty)
            .collect();
        let names = index.names(&products).await?;
        let (mut suspects, in_a_language) = try_join(
            self.suspects_in_any_language(batch, &names),
            self.suspects_in_a_language(batch, &names),
        )
        .await?;
        suspects.join(in_a_language);
        // The last member and its name are removed in one step. So a name whose members were
        // repaired away before the names were read is gone.
        let is_named = |(product, language): &Name| {
            names.get(product).is_some_and(|names| match language {
                None => names.is_named,
                Some(language) => names.languages.contains(language),
            })
        };
        suspects.names = empty.into_iter().filter(is_named).collect();
        Ok(suspects)
    }

    async fn suspects_in_any_language(
        &self,
        batch: &Batch,
        names: &BTreeMap<ProductId, Names>,
    ) -> Result<Suspects, StoreError> {
        let job = self.run.job;
        let keys: Vec<(CommentId, ProductId)> = batch.comments().collect();
        let items = job
            .table
            .primary_items_of(&keys, Instant::now() + TIME_MAX)
            .await?;
        // An unreadable item stays absent here, which makes the comment suspect.
        let images: Vec<Image<'_>> = items
            .iter()
            .filter_map(|item| Image::of_primary(item).ok())
            .collect();
        let of_table: BTreeMap<(&CommentId, &ProductId), &Image<'_>> = images
            .iter()
            .map(|image| ((&image.id, &image.placement.product), image))
            .collect();
        let none = Names::default();
        let names_of = |product: &ProductId| names.get(product).unwrap_or(&none);
        let mut wanted: BTreeMap<BaseSet, BTreeSet<&CommentId>> = BTreeMap::new();
        for (product, ids) in &batch.in_any_language {
            let sets = base_sets_in(product, &names_of(product).languages);
            wanted.extend(sets.into_iter().map(|set| (set, ids.iter().collect())));
        }
        let mut scores: BTreeMap<(&CommentId, &ProductId), BTreeMap<BaseSet, f64>> =
            BTreeMap::new();
        for ((set, id), score) in scores_of(&job.index, &wanted).await? {
            scores
                .entry((id, &set.product))
                .or_default()
                .insert(set.clone(), score);
        }
        let mut suspects = Suspects::default();
        for (id, product) in &keys {
            let last = of_table
                .get(&(id, product))
                .map(|image| (&image.placement, image.created_at));
            let names = [(product.clone(), names_of(product).clone())].into();
            let ranks = Ranks {
                names,
                scores: scores.remove(&(id, product)).unwrap_or_default(),
            };
            // A language without a name also counts as a difference. So a comment without
            // differences was compared in all its sets.
            if last.is_none() || !plan_ranks(id, last, &ranks).drift.is_empty() {
                suspects
                    .comments
                    .entry(id.clone())
                    .or_default()
                    .add(product, None);
            }
        }
        Ok(suspects)
    }

    /// Finds the members of languages' sets that do not fit. Such a member is missing from the set
    /// of any language, or is in two languages. Or the language of its set is not named.
    async fn suspects_in_a_language(
        &self,
        batch: &Batch,
        names: &BTreeMap<ProductId, Names>,
    ) -> Result<Suspects, StoreError> {
        let mut wanted: BTreeMap<BaseSet, BTreeSet<&CommentId>> = BTreeMap::new();
        for (set, ids) in &batch.in_a_language {
            for looked_up in of_other_languages(set, names)
                .into_iter()
                .chain([of_any_language(set)])
            {
                wanted.entry(looked_up).or_default().extend(ids);
            }
        }
        let scores = scores_of(&self.run.job.index, &wanted).await?;
        let mut suspects = Suspects::default();
        for (set, ids) in &batch.in_a_language {
            let (product, language) = (&set.product, set.language.as_ref());
            let is_known = |language| {
                names
                    .get(product)
                    .is_some_and(|names| names.languages.contains(language))
            };
            let (is_named, of_any) = (language.is_some_and(is_known), of_any_language(set));
            let others = of_other_languages(set, names);
            let has = |set: &BaseSet, id: &CommentId| scores.contains_key(&(set, id));
            let is_right = |id: &CommentId| {
                is_named && has(&of_any, id) && !others.iter().any(|other| has(other, id))
            };
            for id in ids.iter().filter(|id| !is_right(id)) {
                suspects
                    .comments
                    .entry(id.clone())
                    .or_default()
                    .add(product, language);
            }
        }
        Ok(suspects)
    }
}
