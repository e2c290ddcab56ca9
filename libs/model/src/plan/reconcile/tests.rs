//! Plans as data, and random damage: after a repair, no further plan is needed.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use itertools::Itertools;
use proptest::prelude::*;
use serde_dynamo::{AttributeValue, Item};
use strum::IntoEnumIterator;

use super::*;
use crate::{
    comment::Comment,
    filter::Filter,
    id::CommentId,
    item::{
        Image, attribute,
        tests::{comment, primary_item},
    },
    plan::{DuplicateWrite, IndexEdit},
    status::Status,
};

#[derive(Debug, Clone, Default, PartialEq)]
struct State {
    items: BTreeMap<String, Item>,
    ranks: Ranks,
}

fn items_of(comment: &Comment) -> BTreeMap<String, Item> {
    let primary = primary_item(comment);
    let image = Image::of_primary(&primary).unwrap();
    let placement = comment.placement();
    let duplicates = placement
        .duplicate_keys()
        .map(|key| (key.to_string(), image.duplicate(&key)));
    let key = FilterKey::primary(comment.product.clone()).to_string();
    duplicates.chain([(key, primary.clone())]).collect()
}

impl State {
    fn of(comment: &Comment) -> Self {
        let mut state = Self {
            items: items_of(comment),
            ranks: Ranks::default(),
        };
        state.index(comment);
        state
    }

    fn index(&mut self, comment: &Comment) {
        let names = self.ranks.names.entry(comment.product.clone()).or_default();
        names.is_named = true;
        names.languages.insert(comment.language.clone());
        for set in comment.placement().base_sets() {
            let times = self.ranks.times.entry(set).or_default();
            times.insert(comment.created_at);
        }
    }

    fn has_no_members(&self, product: &ProductId, language: &Option<Language>) -> bool {
        let sets = Filter::new(language.clone(), None).base_sets(product);
        !sets.iter().any(|set| self.ranks.times.contains_key(set))
    }

    /// Plans; `None` when a person has to look.
    fn plan(&self) -> Result<(DuplicatePlan, RankPlan), Unresolved> {
        let items: Vec<Item> = self.items.values().cloned().collect();
        let collection = Collection::read(&CommentId::parse("c1").unwrap(), &items)?;
        let last = collection.last();
        let mut ranks = self.ranks.clone();
        for (product, names) in &mut ranks.names {
            let mut named: BTreeSet<Option<Language>> =
                names.languages.iter().cloned().map(Some).collect();
            if names.is_named {
                named.insert(None);
            }
            named.retain(|language| self.has_no_members(product, language));
            names.without_members = named;
        }
        let duplicates = collection.plan_duplicates();
        let ranks = plan_ranks(&collection.id, last.as_ref(), &ranks);
        let is_whole = Collection::whole(&items).is_some();
        assert_eq!(
            is_whole,
            collection.primary.is_some() && duplicates.drift.is_empty(),
            "the short way agrees"
        );
        Ok((duplicates, ranks))
    }

    fn apply(&mut self, writes: Vec<DuplicateWrite>, edits: &[IndexEdit]) {
        for write in writes {
            let key = write.key().filter_key.to_string();
            match write {
                DuplicateWrite::Put { item, .. } => self.items.insert(key, item),
                DuplicateWrite::Delete { .. } => self.items.remove(&key),
            };
        }
        for edit in edits {
            // As an index does that finds entries by their times.
            for (set, times) in &mut self.ranks.times {
                if set.product == edit.product {
                    times.retain(|time| !edit.remove_at.contains(time));
                }
            }
            self.ranks.times.retain(|_, times| !times.is_empty());
            for set in &edit.add {
                let times = self.ranks.times.entry(set.clone()).or_default();
                times.insert(edit.created_at.unwrap());
                let names = self.ranks.names.entry(edit.product.clone()).or_default();
                names.is_named = true;
                names.languages.extend(set.language.clone());
            }
            for set in &edit.remove {
                self.ranks.times.remove(set);
                if self.has_no_members(&set.product, &set.language) {
                    let names = self.ranks.names.entry(edit.product.clone()).or_default();
                    match &set.language {
                        None => names.is_named = false,
                        Some(language) => drop(names.languages.remove(language)),
                    }
                }
            }
        }
    }
}

fn check(state: &State, expected: Expect) {
    let text = match state.plan() {
        Err(unresolved) => format!("unresolved: {unresolved}"),
        Ok((duplicates, ranks)) => {
            let guards = duplicates.guards.iter().map(|guard| {
                let expected = match guard.expected {
                    Expected::Absent => "none",
                    Expected::Revision(_) => "as read",
                    Expected::Invalid(_) => "invalid as read",
                };
                format!("if {}: {expected}", guard.product)
            });
            let drift = duplicates
                .drift
                .iter()
                .chain(&ranks.drift)
                .map(Drift::to_string);
            guards.chain(drift).join("\n")
        }
    };
    expected.assert_eq(&text);
}

fn set_attribute(item: &mut Item, name: &str, value: Option<AttributeValue>) {
    let mut attributes = std::mem::take(item).into_inner();
    match value {
        Some(value) => attributes.insert(name.to_owned(), value),
        None => attributes.remove(name),
    };
    *item = attributes.into();
}

#[test]
fn a_comment_in_order_needs_nothing() {
    check(&State::of(&comment("c1", "p", "en", 4)), expect![[""]]);
    check(&State::default(), expect![[""]]);
}

#[test]
fn duplicates_are_compared_attribute_by_attribute() {
    let mut state = State::of(&comment("c1", "p", "en", 4));
    for (key, name, value) in [
        ("en/4", "rating", Some(AttributeValue::N("5".to_owned()))),
        ("en/4", "language", None),
        ("en/~", "auto", None),
        ("~/4", "unknown", Some(AttributeValue::Bool(true))),
        ("~/1.4", "revision", Some(AttributeValue::S("x".to_owned()))),
        (
            "~/1.4",
            "comment_blob",
            Some(AttributeValue::M(Default::default())),
        ),
    ] {
        let item = state.items.get_mut(&format!("PRODUCT#p/{key}")).unwrap();
        set_attribute(item, name, value);
    }
    state.items.remove("PRODUCT#p/en/1.2.3.4");
    check(
        &state,
        expect![[r#"
            if p: as read
            stale_duplicate: PRODUCT#p/~/4 (unknown)
            stale_duplicate: PRODUCT#p/~/1.4 (comment_blob, revision)
            stale_duplicate: PRODUCT#p/en/~ (auto)
            stale_duplicate: PRODUCT#p/en/4 (language, rating)
            missing_duplicate: PRODUCT#p/en/1.2.3.4"#]],
    );
}

#[test]
fn what_is_left_of_another_language_rating_or_product_goes() {
    let mut state = State::of(&comment("c1", "p", "en", 4));
    for (product, key) in [("p", "ko/4"), ("p", "en/5"), ("other", "~/4")] {
        let mut item = state.items["PRODUCT#p/en/4"].clone();
        let sk = format!("PRODUCT#{product}/{key}");
        set_attribute(
            &mut item,
            attribute::SK,
            Some(AttributeValue::S(sk.clone())),
        );
        state.items.insert(sk, item);
    }
    state.index(&comment("c1", "p", "ko", 4));
    state.index(&comment("c1", "other", "en", 4));
    check(
        &state,
        expect![[r#"
            if other: none
            if p: as read
            extra_duplicate: PRODUCT#other/~/4
            extra_duplicate: PRODUCT#p/en/5
            extra_duplicate: PRODUCT#p/ko/4
            extra_rank: PRODUCT#other:~/4
            extra_rank: PRODUCT#other:en/4
            extra_rank: PRODUCT#p:ko/4"#]],
    );
}

#[test]
fn without_a_primary_item_everything_is_an_orphan_and_the_guard_is_its_absence() {
    let mut state = State::of(&comment("c1", "p", "en", 4));
    state
        .items
        .retain(|key, _| key.ends_with("en/4") || key.ends_with("~/4"));
    check(
        &state,
        expect![[r#"
            if p: none
            orphan_duplicate: PRODUCT#p/~/4
            orphan_duplicate: PRODUCT#p/en/4
            orphan_rank: PRODUCT#p:~/4
            orphan_rank: PRODUCT#p:en/4"#]],
    );
}

#[test]
fn ranks_are_compared_with_their_scores_and_names() {
    let mut state = State::of(&comment("c1", "p", "en", 4));
    let sets = comment("c1", "p", "en", 4).placement().base_sets();
    state.ranks.times.remove(&sets[0]);
    state
        .ranks
        .times
        .insert(sets[1].clone(), [instant(1)].into());
    *state.ranks.names.values_mut().next().unwrap() = Names::default();
    check(
        &state,
        expect![[r#"
            missing_rank: PRODUCT#p:~/4
            wrong_score: PRODUCT#p:en/4 (1970-01-01T00:00:00.001Z)
            missing_name: p
            missing_name: p en"#]],
    );
}

#[test]
fn names_without_members_go_unless_the_comment_is_what_they_lack() {
    let mut state = State::of(&comment("c1", "p", "en", 4));
    state
        .ranks
        .names
        .values_mut()
        .next()
        .unwrap()
        .languages
        .insert(Language::parse("ko").unwrap());
    check(&state, expect!["extra_name: p ko"]);
    state.ranks.times.clear();
    check(
        &state,
        expect![[r#"
            missing_rank: PRODUCT#p:~/4
            missing_rank: PRODUCT#p:en/4
            extra_name: p ko"#]],
    );
    state.items.clear();
    check(
        &state,
        expect![[r#"
            extra_name: p
            extra_name: p en
            extra_name: p ko"#]],
    );
}

#[test]
fn a_person_looks_at_what_tells_nothing() {
    let whole = State::of(&comment("c1", "p", "en", 4));
    let mut two = whole.clone();
    two.items.extend(items_of(&comment("c1", "q", "en", 4)));
    check(
        &two,
        expect!["unresolved: it has several primary items: PRODUCT#p/~/~, PRODUCT#q/~/~"],
    );
    let mut unknown = whole;
    let mut item = unknown.items["PRODUCT#p/en/4"].clone();
    set_attribute(
        &mut item,
        attribute::SK,
        Some(AttributeValue::S("PRODUCT#p/en/9".to_owned())),
    );
    unknown.items.insert("PRODUCT#p/en/9".to_owned(), item);
    check(
        &unknown,
        expect![[
            r#"unresolved: malformed item: pk "COMMENT#c1", sk "PRODUCT#p/en/9", attribute sk: is no filter key"#
        ]],
    );
}

#[test]
fn an_invalid_primary_item_implies_nothing_and_guards_what_it_left() {
    let id = CommentId::parse("c1").unwrap();
    let attribute = [
        ("rating", None),
        ("auto", Some(AttributeValue::Bool(true))),
        ("revision", None),
        ("shard", None),
        ("pcd", None),
        ("comment_blob", None),
    ];
    for (name, value) in attribute {
        let mut broken = State::of(&comment("c1", "p", "en", 4));
        set_attribute(broken.items.get_mut("PRODUCT#p/~/~").unwrap(), name, value);
        let items: Vec<Item> = broken.items.values().cloned().collect();
        let collection = Collection::read(&id, &items).unwrap();
        let invalid = collection.invalid.as_ref().unwrap();
        assert!(
            invalid
                .malformed
                .to_string()
                .contains(&format!("attribute {name}: ")),
            "{}",
            invalid.malformed
        );
        assert_eq!(
            invalid.incomplete.is_some(),
            ["revision", "shard", "pcd"].contains(&name)
        );
        let (duplicates, ranks) = broken.plan().unwrap();
        assert!(
            duplicates
                .drift
                .iter()
                .all(|drift| matches!(drift, Drift::OrphanDuplicate(_))),
            "{name}"
        );
        let expected = Expected::Invalid(broken.items["PRODUCT#p/~/~"].clone());
        assert_eq!(
            duplicates.guards,
            [Guard {
                product: comment("c1", "p", "en", 4).product,
                expected
            }]
        );
        assert_eq!(
            (duplicates.writes.len(), ranks.drift.len()),
            (31, 2),
            "{name}"
        );
        broken.apply(duplicates.writes, &ranks.edits);
        check(&broken, expect![[""]]);
    }
}

#[test]
fn an_unpublished_comment_implies_nothing_and_guards_what_it_left() {
    for status in Status::UNPUBLISHED {
        let mut hidden = State::of(&comment("c1", "p", "en", 4));
        inflict(&mut hidden, &Damage::Unpublish(status));
        let (duplicates, ranks) = hidden.plan().unwrap();
        assert!(
            duplicates
                .drift
                .iter()
                .all(|drift| matches!(drift, Drift::OrphanDuplicate(_))),
            "{status}"
        );
        let of = comment("c1", "p", "en", 4);
        let guard = Guard {
            product: of.product.clone(),
            expected: Expected::Revision(of.revision),
        };
        assert_eq!(
            duplicates.guards,
            [guard],
            "a publication meanwhile stops the deletions"
        );
        assert_eq!(
            (duplicates.writes.len(), ranks.drift.len()),
            (31, 2),
            "{status}"
        );
        hidden.apply(duplicates.writes, &ranks.edits);
        check(&hidden, expect![[""]]);
    }
}

fn instant(ms: i64) -> Timestamp {
    Timestamp::from_epoch_ms(ms).unwrap()
}

fn places(text: &str) -> Places {
    let mut places = Places::default();
    for part in text.split_whitespace() {
        let (product, language) = part.split_once(':').unwrap();
        let language = (!language.is_empty()).then(|| Language::parse(language).unwrap());
        places.add(&ProductId::parse(product).unwrap(), language.as_ref());
    }
    places
}

fn places_text(places: &Places) -> String {
    let parts = places.iter().map(|(product, languages)| {
        let languages = languages.iter().map(Language::as_str).join(",");
        format!("{}:{languages}", product.as_str())
    });
    parts.collect_vec().join(" ")
}

#[test]
fn places_of_a_comment_add_up() {
    for (given, more, sum) in [
        ("", "p:en p:ko q:", "p:en,ko q:"),
        ("p:en", "p:ko q:en", "p:en,ko q:en"),
        ("p:en q:", "", "p:en q:"),
    ] {
        let mut all = places(given);
        all.join(&places(more));
        assert_eq!(places_text(&all), sum);
    }
}

/// A comment whose primary item is valid, unpublished, invalid, and absent.
fn every_primary() -> [State; 4] {
    let whole = State::of(&comment("c1", "p", "en", 4));
    let [mut unpublished, mut invalid, mut absent] = [whole.clone(), whole.clone(), whole.clone()];
    inflict(&mut unpublished, &Damage::Unpublish(Status::Hidden));
    set_attribute(
        invalid.items.get_mut("PRODUCT#p/~/~").unwrap(),
        "rating",
        None,
    );
    inflict(&mut absent, &Damage::DropPrimary);
    [whole, unpublished, invalid, absent]
}

#[test]
fn a_comment_is_looked_for_where_its_items_are_and_where_it_was_seen() {
    let elsewhere = items_of(&comment("c1", "q", "ko", 4))["PRODUCT#q/ko/4"].clone();
    let expected = [
        "p:en q:ko seen:",
        "p:en q:ko seen:",
        "p: q:ko seen:",
        "q:ko seen:",
    ];
    for (state, expected) in every_primary().iter().zip(expected) {
        // Without its duplicates, so that only the primary item leads to its product.
        let primary = state.items.get("PRODUCT#p/~/~").cloned();
        let items: Vec<Item> = primary.into_iter().chain([elsewhere.clone()]).collect();
        let collection = Collection::read(&CommentId::parse("c1").unwrap(), &items).unwrap();
        let found = collection.places(&places("seen:"));
        assert_eq!(places_text(&found), expected);
        let created_at = comment("c1", "q", "ko", 4).created_at;
        let product = ProductId::parse("q").unwrap();
        assert_eq!(found.times_in(&product), Some(&[created_at].into()));
    }
}

#[test]
fn a_comment_of_unknown_time_is_looked_for_at_any_except_where_it_was_searched() {
    let entry = comment("c1", "p", "ko", 4).entry();
    let mut places = Places::default().at_any_time();
    let searched = &entry.placement.product;
    places.add_all_entries(searched, std::slice::from_ref(&entry));
    assert_eq!(places.times_in(searched), Some(&[entry.created_at].into()));
    let other = ProductId::parse("q").unwrap();
    assert_eq!(places.times_in(&other), None);
}

#[test]
fn a_second_reading_finds_the_primary_item_valid_or_not_in_its_product_alone() {
    for state in every_primary() {
        let items: Vec<Item> = state.items.values().cloned().collect();
        let collection = Collection::read(&CommentId::parse("c1").unwrap(), &items).unwrap();
        let [here, elsewhere] = ["p", "q"].map(|product| ProductId::parse(product).unwrap());
        assert_eq!(
            collection.primary_item_in(&here),
            state.items.get("PRODUCT#p/~/~")
        );
        assert_eq!(collection.primary_item_in(&elsewhere), None);
    }
}

#[derive(Debug, Clone)]
enum Damage {
    DropItem(prop::sample::Index),
    AlterItem(prop::sample::Index, &'static str),
    DropRank(prop::sample::Index),
    MoveRank(prop::sample::Index),
    AddStranger(&'static str, &'static str, u64),
    DropNames,
    DropPrimary,
    Unpublish(Status),
}

fn damages() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<prop::sample::Index>().prop_map(Damage::DropItem),
        (
            any::<prop::sample::Index>(),
            prop::sample::select(vec!["auto", "cd", "language", "comment_blob", "new"])
        )
            .prop_map(|(at, name)| Damage::AlterItem(at, name)),
        any::<prop::sample::Index>().prop_map(Damage::DropRank),
        any::<prop::sample::Index>().prop_map(Damage::MoveRank),
        (
            prop::sample::select(vec!["p", "q"]),
            prop::sample::select(vec!["en", "ko"]),
            1..=5_u64
        )
            .prop_map(|(product, language, rating)| Damage::AddStranger(product, language, rating)),
        Just(Damage::DropNames),
        Just(Damage::DropPrimary),
        prop::sample::select(Status::UNPUBLISHED.to_vec()).prop_map(Damage::Unpublish),
    ]
}

fn draw<T: Clone>(all: &[T], at: &prop::sample::Index) -> Option<T> {
    if all.is_empty() {
        None
    } else {
        Some(at.get(all).clone())
    }
}

fn draw_duplicate(state: &State, at: &prop::sample::Index) -> Option<String> {
    let mut keys: Vec<String> = state.items.keys().cloned().collect();
    keys.retain(|key| !key.ends_with("/~/~"));
    draw(&keys, at)
}

fn draw_rank(state: &State, at: &prop::sample::Index) -> Option<BaseSet> {
    let sets: Vec<BaseSet> = state.ranks.times.keys().cloned().collect();
    draw(&sets, at)
}

fn inflict(state: &mut State, damage: &Damage) {
    match damage {
        Damage::DropItem(at) => {
            draw_duplicate(state, at).and_then(|key| state.items.remove(&key));
        }
        Damage::AlterItem(at, name) => {
            if let Some(key) = draw_duplicate(state, at) {
                let value = AttributeValue::S("altered".to_owned());
                set_attribute(state.items.get_mut(&key).unwrap(), name, Some(value));
            }
        }
        Damage::DropRank(at) => {
            draw_rank(state, at).and_then(|set| state.ranks.times.remove(&set));
        }
        Damage::MoveRank(at) => {
            if let Some(set) = draw_rank(state, at) {
                state.ranks.times.insert(set, [instant(7)].into());
            }
        }
        Damage::AddStranger(product, language, rating) => {
            let stranger = comment("c1", product, language, *rating);
            state.items.extend(
                items_of(&stranger)
                    .into_iter()
                    .filter(|(key, _)| !key.ends_with("/~/~")),
            );
            state.index(&stranger);
        }
        Damage::DropNames => state
            .ranks
            .names
            .values_mut()
            .for_each(|names| *names = Names::default()),
        Damage::DropPrimary => state.items.retain(|key, _| !key.ends_with("/~/~")),
        Damage::Unpublish(status) => {
            if let Some(item) = state.items.get_mut("PRODUCT#p/~/~") {
                *item = primary_item(&Comment {
                    status: *status,
                    ..comment("c1", "p", "en", 4)
                });
            }
        }
    }
}

proptest! {
    #[test]
    fn a_plan_that_was_applied_leaves_nothing_to_do(damages in prop::collection::vec(damages(), 0..8)) {
        let mut state = State::of(&comment("c1", "p", "en", 4));
        damages.iter().for_each(|damage| inflict(&mut state, damage));
        let (duplicates, ranks) = state.plan().unwrap();
        prop_assert_eq!(duplicates.drift.len(), duplicates.writes.len());
        prop_assert!(duplicates.writes.iter().map(DuplicateWrite::key).all_unique());
        for write in &duplicates.writes {
            let product = &write.key().filter_key.product;
            prop_assert!(duplicates.guards.iter().any(|guard| guard.product == *product), "no guard of its product");
        }
        prop_assert_eq!(duplicates.guards.is_empty(), duplicates.writes.is_empty());
        state.apply(duplicates.writes, &ranks.edits);
        let (duplicates, ranks) = state.plan().unwrap();
        prop_assert_eq!(duplicates, DuplicatePlan::default());
        prop_assert_eq!(ranks, RankPlan::default());
        let is_there = !damages.iter().any(|damage| matches!(damage, Damage::DropPrimary));
        let is_published = is_there && !damages.iter().any(|damage| matches!(damage, Damage::Unpublish(_)));
        prop_assert_eq!(state.items.len(), if is_published { 32 } else { usize::from(is_there) });
        prop_assert_eq!(state.ranks.times.len(), if is_published { 2 } else { 0 });
    }
}

#[test]
fn joined_places_are_all_that_either_names() {
    let of_p = comment("c", "p", "en", 4);
    let product = ProductId::parse("p").unwrap();
    let mut joined = Places::of(&of_p.entry());
    joined.join(&places("q:ko"));
    assert_eq!(places_text(&joined), "p:en q:ko");
    let in_p = joined.within(|within| *within == product);
    assert_eq!(in_p.products().collect_vec(), [&product]);
    assert_eq!(joined.times_in(&product), Some(&[of_p.created_at].into()));
    // If either knows no time, neither does the sum.
    joined.join(&Places::default().at_any_time());
    joined.join(&places("q:ko"));
    assert_eq!(joined.times_in(&product), None);
}

#[test]
fn reports_name_a_kind_as_it_is_printed() {
    for kind in DriftKind::iter() {
        assert_eq!(kind.name(), kind.to_string());
    }
}
