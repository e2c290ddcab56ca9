//! The codes by which a tree counts comments: one for each pair of language and rating.

use std::collections::HashMap;

use crate::counted_tree::Code;
use model::{BaseSet, Filter, Language, Rating, RatingSet};

/// The codes of a language are this many consecutive numbers. A rating's code is the rating's number among them.
const CODES_OF_A_LANGUAGE: u32 = 8;

/// The languages of a partition's comments. A language gets its number when its first comment arrives, and keeps it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Languages {
    tags: Vec<Language>,
    numbers: HashMap<Language, u32>,
}

impl Languages {
    pub(crate) fn code(&mut self, language: &Language, rating: Rating) -> Code {
        let number = self.numbers.get(language).copied().unwrap_or_else(|| self.add(language));
        Code(number * CODES_OF_A_LANGUAGE + u32::from(rating.get()))
    }

    pub(crate) fn of(tags: Vec<Language>) -> Self {
        let mut languages = Self::default();
        for language in &tags {
            languages.add(language);
        }
        languages
    }

    pub(crate) fn tags(&self) -> &[Language] {
        &self.tags
    }

    fn add(&mut self, language: &Language) -> u32 {
        let number = u32::try_from(self.tags.len()).unwrap_or(u32::MAX);
        self.tags.push(language.clone());
        self.numbers.insert(language.clone(), number);
        number
    }

    pub(crate) fn meaning(&self, code: Code) -> Option<(&Language, Rating)> {
        let language = self.tags.get(usize::try_from(code.0 / CODES_OF_A_LANGUAGE).ok()?)?;
        Some((language, rating_of(code)?))
    }

    pub(crate) fn codes_of(&self, filter: &Filter) -> Codes {
        self.codes(filter.language(), filter.ratings())
    }

    pub(crate) fn codes_in(&self, set: &BaseSet) -> Codes {
        self.codes(set.language.as_ref(), RatingSet::of([set.rating]))
    }

    pub(crate) fn codes(&self, language: Option<&Language>, ratings: Option<RatingSet>) -> Codes {
        let (from, to) = match language.map(|language| self.numbers.get(language)) {
            None => (0, u32::MAX),
            Some(None) => (0, 0),
            Some(Some(number)) => (number * CODES_OF_A_LANGUAGE, (number + 1) * CODES_OF_A_LANGUAGE),
        };
        Codes { from, to, ratings: bits_of(ratings.unwrap_or(RatingSet::ALL)) }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Codes {
    from: u32,
    to: u32,
    /// A bit for each rating, at the rating's number. A search asks for every code in every node on its way.
    ratings: u32,
}

impl Codes {
    pub(crate) fn contains(self, Code(code): Code) -> bool {
        (self.from..self.to).contains(&code) && self.ratings & bit(code) != 0
    }
}

fn bits_of(ratings: RatingSet) -> u32 {
    ratings.iter().fold(0, |bits, rating| bits | bit(rating.get().into()))
}

fn bit(code: u32) -> u32 {
    1 << (code % CODES_OF_A_LANGUAGE)
}

fn rating_of(code: Code) -> Option<Rating> {
    Rating::new(u64::from(code.0 % CODES_OF_A_LANGUAGE)).ok()
}
