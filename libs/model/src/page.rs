//! Page numbers, page sizes and their arithmetic.

use std::cmp::Ordering;

use derive_more::Display;
use serde::Serialize;
use strum::{EnumString, VariantNames};

use crate::{
    comment::Cd,
    error::{InvalidInput, quoted},
};

/// The order of comments by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Order {
    Newest,
    Oldest,
}

impl Order {
    /// How two positions follow each other in this order.
    pub fn compare(self, a: &Cd, b: &Cd) -> Ordering {
        match self {
            Self::Newest => b.cmp(a),
            Self::Oldest => a.cmp(b),
        }
    }

    pub fn reversed(self) -> Self {
        match self {
            Self::Newest => Self::Oldest,
            Self::Oldest => Self::Newest,
        }
    }
}

/// The order of a listing.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    strum::Display,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ListingOrder {
    #[default]
    Newest,
    Oldest,
    /// The highest rating first, and the newest first within a rating.
    Highest,
    /// The lowest rating first, and the newest first within a rating.
    Lowest,
}

impl ListingOrder {
    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        text.parse().map_err(|_| {
            let known = Self::VARIANTS.join(", ");
            let problem = format!("{} is none of {known}", quoted(text));
            InvalidInput::new("order", problem)
        })
    }

    pub fn is_by_rating(self) -> bool {
        match self {
            Self::Newest | Self::Oldest => false,
            Self::Highest | Self::Lowest => true,
        }
    }

    /// The order of the comments of one rating.
    pub fn within_a_rating(self) -> Order {
        match self {
            Self::Newest | Self::Highest | Self::Lowest => Order::Newest,
            Self::Oldest => Order::Oldest,
        }
    }
}

/// The number of a page, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Display)]
pub struct PageNumber(u64);

impl PageNumber {
    pub const FIRST: Self = Self(1);
    /// The greatest page number. Multiplied by the greatest page size, it is still exact in Redis's
    /// doubles.
    pub const MAX: Self = Self(1_000_000_000_000);

    pub fn new(number: u64) -> Result<Self, InvalidInput> {
        if (1..=Self::MAX.0).contains(&number) {
            Ok(Self(number))
        } else {
            Err(InvalidInput::new(
                "page",
                format!("{number} is not a page number: 1 to {}", Self::MAX.0),
            ))
        }
    }

    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        Self::new(parse_digits("page", text)?)
    }

    pub fn get(self) -> u64 {
        self.0
    }

    pub fn skip(self, size: PageSize) -> u64 {
        (self.0 - 1) * u64::from(size.0)
    }

    /// The page with the comment of this rank, counted from 0.
    pub fn of_rank(rank: u64, size: PageSize) -> Self {
        Self(rank / u64::from(size.0) + 1)
    }
}

/// How many comments a page shows, 1 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Display)]
pub struct PageSize(u8);

impl PageSize {
    pub const MAX: Self = Self(100);

    pub fn new(number: u64) -> Result<Self, InvalidInput> {
        match u8::try_from(number) {
            Ok(small) if (1..=Self::MAX.0).contains(&small) => Ok(Self(small)),
            _ => Err(InvalidInput::new(
                "page_size",
                format!("{number} is not a page size: 1 to {}", Self::MAX.0),
            )),
        }
    }

    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        Self::new(parse_digits("page_size", text)?)
    }

    pub fn get(self) -> u8 {
        self.0
    }

    /// The number of pages: at least one, because page 1 of an empty listing exists.
    pub fn total_pages(self, total: u64) -> u64 {
        total.div_ceil(u64::from(self.0)).max(1)
    }
}

impl Default for PageSize {
    fn default() -> Self {
        Self(20)
    }
}

fn parse_digits(field: &'static str, text: &str) -> Result<u64, InvalidInput> {
    // `parse` alone would accept a sign.
    let has_only_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if has_only_digits => Ok(number),
        Ok(_) | Err(_) => Err(InvalidInput::new(
            field,
            format!("{} is not a whole number from 1", quoted(text)),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_out_of_range_are_refused() {
        for text in [
            "",
            "0",
            "-1",
            "+1",
            "1e9",
            "two",
            "1.0",
            " 1",
            "99999999999999999999",
            "1000000000001",
        ] {
            assert_eq!(PageNumber::parse(text).unwrap_err().field, "page", "{text}");
        }
        for text in ["0", "101", "256", "257"] {
            assert_eq!(
                PageSize::parse(text).unwrap_err().field,
                "page_size",
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn every_rank_is_on_exactly_the_page_that_skips_to_it(rank in 0..10_u64.pow(12), size in 1..=100_u64) {
            let size = PageSize::new(size).unwrap();
            let page = PageNumber::of_rank(rank, size);
            prop_assert!(page.skip(size) <= rank && rank < page.skip(size) + u64::from(size.get()));
            prop_assert_eq!(size.total_pages(rank + 1), page.get());
        }
    }
}
