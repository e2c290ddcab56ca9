//! Ratings and non-empty sets of them.

use std::fmt;

use derive_more::Display;
use itertools::Itertools;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, Visitor},
};

use crate::error::{InvalidInput, quoted};

/// A rating: 1, 2, 3, 4 or 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Display)]
#[display("{}", self.as_str())]
pub struct Rating(u8);

impl Rating {
    pub const ALL: [Self; 5] = [Self(1), Self(2), Self(3), Self(4), Self(5)];

    pub fn new(number: u64) -> Result<Self, InvalidInput> {
        match u8::try_from(number) {
            Ok(small @ 1..=5) => Ok(Self(small)),
            _ => Err(InvalidInput::new(
                "rating",
                format!("{number} is not a rating: 1, 2, 3, 4 or 5"),
            )),
        }
    }

    /// A rating from a number as JSON has it: 4 and 4.0 are the same number.
    pub fn of_number(number: f64) -> Result<Self, InvalidInput> {
        Self::ALL
            .into_iter()
            .find(|rating| f64::from(rating.0) == number)
            .ok_or_else(|| {
                InvalidInput::new(
                    "rating",
                    format!("{number} is not a rating: 1, 2, 3, 4 or 5"),
                )
            })
    }

    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        match text.as_bytes() {
            [digit @ b'1'..=b'5'] => Ok(Self(digit - b'0')),
            _ => Err(InvalidInput::new(
                "rating",
                format!("{} is not a rating: 1, 2, 3, 4 or 5", quoted(text)),
            )),
        }
    }

    pub fn get(self) -> u8 {
        self.0
    }

    pub fn as_str(self) -> &'static str {
        match self.0 {
            1 => "1",
            2 => "2",
            3 => "3",
            4 => "4",
            _ => "5",
        }
    }

    fn bit(self) -> u8 {
        1 << (self.0 - 1)
    }
}

impl<'de> Deserialize<'de> for Rating {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(RatingVisitor)
    }
}

struct RatingVisitor;

impl Visitor<'_> for RatingVisitor {
    type Value = Rating;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a rating: the number 1, 2, 3, 4 or 5")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Rating, E> {
        Rating::new(number).map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Rating, E> {
        Rating::of_number(number).map_err(E::custom)
    }
}

/// A non-empty set of ratings; its text is ascending and `.`-joined, as in `1.5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
#[display("{}", self.iter().format("."))]
pub struct RatingSet(u8);

impl RatingSet {
    /// All five ratings. As a filter they exclude nothing.
    pub const ALL: Self = Self(0b1_1111);

    /// The set of these ratings; `None` for an empty list.
    pub fn of(ratings: impl IntoIterator<Item = Rating>) -> Option<Self> {
        match ratings
            .into_iter()
            .fold(0, |bits, rating| bits | rating.bit())
        {
            0 => None,
            bits => Some(Self(bits)),
        }
    }

    /// All 31 sets.
    pub fn every() -> impl Iterator<Item = Self> {
        (1..=Self::ALL.0).map(Self)
    }

    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        let ratings: Vec<Rating> = text.split('.').map(Rating::parse).try_collect()?;
        if !ratings.iter().tuple_windows().all(|(a, b)| a < b) {
            let problem = format!(
                "{} is not a set of ratings: ascending and each once, as in 1.5",
                quoted(text)
            );
            return Err(InvalidInput::new("rating", problem));
        }
        Self::of(ratings).ok_or_else(|| InvalidInput::new("rating", "is empty"))
    }

    pub fn contains(self, rating: Rating) -> bool {
        self.0 & rating.bit() != 0
    }

    pub fn iter(self) -> impl Iterator<Item = Rating> {
        Rating::ALL
            .into_iter()
            .filter(move |rating| self.contains(*rating))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(number: &str) -> Result<Rating, serde_dynamo::Error> {
        serde_dynamo::from_attribute_value(serde_dynamo::AttributeValue::N(number.to_owned()))
    }

    #[test]
    fn a_number_of_json_is_a_rating_however_it_is_written() {
        for json in ["4", "4.0", "0.4e1", "40e-1"] {
            assert_eq!(
                serde_json::from_str::<Rating>(json).unwrap(),
                Rating(4),
                "{json}"
            );
        }
        for json in [
            "0",
            "0.0",
            "6",
            "4.5",
            "-4",
            "-4.0",
            "1e300",
            "18446744073709551616",
            "\"4\"",
            "null",
            "[4]",
        ] {
            let refused = serde_json::from_str::<Rating>(json)
                .unwrap_err()
                .to_string();
            assert!(refused.contains("rating"), "{json}: {refused}");
        }
        assert_eq!(stored("4").unwrap(), Rating(4));
        assert!(stored("6").is_err());
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "", "0", "6", "4.5.", "5.4", "1.1", "five", "1,2", " 1", "10",
        ] {
            assert!(RatingSet::parse(text).is_err(), "{text}");
        }
        for number in [0, 6, 10, 261, u64::MAX] {
            assert!(Rating::new(number).is_err(), "{number}");
        }
    }
}
