//! Reads the positions of comments in the page index, for callers that compare it with the table. Also removes names of
//! products and languages without comments.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join;
use model::{
    BaseSet, CommentId, Language, ProductId,
    plan::reconcile::{Names, Places, Ranks},
};
use process::StoreError;

use super::{PageIndex, connection::Routed};

/// How many sets one round trip reads, and how many members of each: far below the time-out.
const SETS_TOGETHER: usize = 256;

impl PageIndex {
    /// A comment's entries in the page index: its scores in the base sets of every place, for the languages in `places`
    /// and the languages that the index names. Also lists the names from `places` that have no members.
    pub async fn ranks(&self, id: &CommentId, places: &Places) -> Result<Ranks, StoreError> {
        let mut names = self.names(places.products()).await?;
        let sets = Ranks::base_sets(places, &names);
        let asked: Vec<(&BaseSet, Vec<&str>)> = sets.iter().map(|set| (set, vec![id.as_str()])).collect();
        let named: Vec<BaseSet> = places
            .iter()
            .filter_map(|(product, expected)| Some((product, expected, names.get(product)?)))
            .flat_map(|(product, expected, names)| wholes(product, expected, names))
            .collect();
        let (found, sizes) = try_join(self.scores(&asked), self.sizes(&named)).await?;
        for (whole, _) in named.into_iter().zip(sizes).filter(|(_, size)| *size == 0) {
            names.entry(whole.product).or_default().without_members.insert(whole.language);
        }
        let found = found.into_iter().map(|scores| scores.into_iter().flatten().next());
        let scores = sets.iter().cloned().zip(found).filter_map(|(set, score)| Some((set, score?)));
        Ok(Ranks { names, scores: scores.collect() })
    }

    /// The names that the index holds for each product, without checking whether they have members. Omits names that
    /// are not valid languages: the index scan finds those.
    pub async fn names<'product>(
        &self,
        products: impl IntoIterator<Item = &'product ProductId>,
    ) -> Result<BTreeMap<ProductId, Names>, StoreError> {
        let products: Vec<&ProductId> = products.into_iter().collect();
        let is_named = products.iter().map(|product| {
            let names = self.keys.products(self.keys.partition_of(product));
            Routed::new("SISMEMBER", &names).arg(product.escaped())
        });
        let languages = products.iter().map(|product| Routed::new("SMEMBERS", &self.keys.languages(product)));
        let (is_named, languages) =
            try_join(self.ask_all::<bool>(is_named), self.ask_all::<BTreeSet<String>>(languages)).await?;
        let languages = languages.into_iter().map(|tags| tags.iter().filter_map(|tag| language(tag)).collect());
        let names = is_named.into_iter().zip(languages).map(|(is_named, languages)| Names {
            is_named,
            languages,
            without_members: BTreeSet::new(),
        });
        Ok(products.into_iter().cloned().zip(names).collect())
    }

    /// The scores of members in base sets; `None` for a member that a set does not have.
    pub async fn scores(&self, asked: &[(&BaseSet, Vec<&str>)]) -> Result<Vec<Vec<Option<f64>>>, StoreError> {
        let mut scores = Vec::with_capacity(asked.len());
        for together in asked.chunks(SETS_TOGETHER) {
            let commands =
                together.iter().map(|(set, members)| Routed::new("ZMSCORE", &self.keys.base_set(set)).arg(members));
            scores.extend(self.ask_all::<Vec<Option<f64>>>(commands).await?);
        }
        Ok(scores)
    }

    /// The sizes of base sets.
    pub async fn sizes(&self, sets: &[BaseSet]) -> Result<Vec<u64>, StoreError> {
        let mut sizes = Vec::with_capacity(sets.len());
        for together in sets.chunks(SETS_TOGETHER) {
            let commands = together.iter().map(|set| Routed::new("ZCARD", &self.keys.base_set(set)));
            sizes.extend(self.ask_all::<u64>(commands).await?);
        }
        Ok(sizes)
    }

    /// Removes the name of a product (`None`), or of one of its languages, if it has no comments. One script checks and
    /// removes.
    pub async fn forget_if_empty(&self, product: &ProductId, language: Option<&Language>) -> Result<(), StoreError> {
        let whole = BaseSet { product: product.clone(), language: language.cloned(), rating: None };
        let partition = self.keys.partition_of(product);
        let keys = [self.keys.products(partition), self.keys.languages(product), self.keys.base_set(&whole)];
        // Comment ids are never empty, so this removes no member.
        let call = Routed::call(&self.scripts.edit, &keys).arg("").arg(0).arg(0).arg(product.escaped()).arg("");
        self.ask(call.arg(language.map_or(model::ANY, Language::as_str))).await
    }
}

/// The whole sets of names that are both in `expected` and in the index. The comment did not cause other names; the
/// index scan checks those.
fn wholes(product: &ProductId, expected: &BTreeSet<Language>, names: &Names) -> Vec<BaseSet> {
    let languages = names.languages.intersection(expected).cloned().map(Some).chain(names.is_named.then_some(None));
    languages.map(|language| BaseSet { product: product.clone(), language, rating: None }).collect()
}

fn language(tag: &str) -> Option<Language> {
    Language::parse(tag).ok().filter(|language| language.as_str() == tag)
}
