//! The codes by which a tree counts comments: one for each pair of language and rating.

use indexmap::IndexSet;
use model::{BaseSet, Filter, Language, Rating, RatingSet};

use crate::counted_tree::Code;

/// The codes of a language are this many consecutive numbers. A rating's code is the rating's
/// number among them.
const CODES_OF_A_LANGUAGE: u32 = 8;

/// The languages of a partition's comments. A language gets its number when its first comment
/// arrives, and keeps it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Languages(pub(crate) IndexSet<Language>);

impl Languages {
    pub(crate) fn code(&mut self, language: &Language, rating: Rating) -> Code {
        let number = self
            .0
            .get_index_of(language)
            .unwrap_or_else(|| self.0.insert_full(language.clone()).0);
        Code(first_code(number) + u32::from(rating.get()))
    }

    pub(crate) fn meaning(&self, Code(code): Code) -> Option<(&Language, Rating)> {
        let language = self
            .0
            .get_index(usize::try_from(code / CODES_OF_A_LANGUAGE).ok()?)?;
        Some((
            language,
            Rating::new(u64::from(code % CODES_OF_A_LANGUAGE)).ok()?,
        ))
    }

    pub(crate) fn codes_of(&self, filter: &Filter) -> Codes {
        self.codes(filter.language(), filter.ratings())
    }

    pub(crate) fn codes_in(&self, set: &BaseSet) -> Codes {
        self.codes(set.language.as_ref(), RatingSet::of([set.rating]))
    }

    pub(crate) fn codes(&self, language: Option<&Language>, ratings: Option<RatingSet>) -> Codes {
        let (from, to) = match language.map(|language| self.0.get_index_of(language)) {
            None => (0, u32::MAX),
            Some(None) => (0, 0),
            Some(Some(number)) => (first_code(number), first_code(number + 1)),
        };
        let ratings = ratings
            .unwrap_or(RatingSet::ALL)
            .iter()
            .fold(0, |bits, rating| bits | bit(rating.get().into()));
        Codes { from, to, ratings }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Codes {
    from: u32,
    to: u32,
    /// A bit for each rating, at the rating's number. A search asks for every code in every node on
    /// its way.
    ratings: u32,
}

impl Codes {
    pub(crate) fn contains(self, Code(code): Code) -> bool {
        (self.from..self.to).contains(&code) && self.ratings & bit(code) != 0
    }
}

fn first_code(language_number: usize) -> u32 {
    u32::try_from(language_number).unwrap_or(u32::MAX / CODES_OF_A_LANGUAGE) * CODES_OF_A_LANGUAGE
}

fn bit(code: u32) -> u32 {
    1 << (code % CODES_OF_A_LANGUAGE)
}
