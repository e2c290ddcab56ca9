//! What a site says about a product: its record, and the record's item.
//!
//! **Invariant:** nothing takes a record for a comment. Its key is not a comment's, and it has no
//! attribute that keys an index (ADR 70). So no page, no function, no repair and no rebuild ever
//! reads it.

use derive_more::Display;
use serde::{Deserialize, Serialize};

use crate::{
    comment::new_line,
    error::{InvalidInput, Malformed, quoted},
    id::ProductId,
    language::Language,
    primaries::{PRIMARIES_SHARDS, PrimariesKey, primaries_shard},
    revision::Revision,
    visible::has_visible_char,
};

const RECORD_PREFIX: &str = "PRODUCTS#";

/// Number of partition keys over which records are spread. An export reads one after the other.
pub const RECORD_SHARDS: u32 = PRIMARIES_SHARDS;

pub fn record_pk(shard: u32) -> String {
    format!("{RECORD_PREFIX}{}", primaries_shard(shard))
}

pub fn record_key(product: &ProductId) -> (String, String) {
    (
        record_pk(PrimariesKey::shard_of(product)),
        product.escaped(),
    )
}

/// An absolute `http` or `https` URL in ASCII (RFC 3986), with a host name or an IPv4 address and
/// without a user. Its spelling stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(try_from = "String")]
pub struct WebUrl(String);

impl WebUrl {
    /// Maximum length, in bytes.
    pub const MAX_LEN: usize = 2_000;

    pub fn parse(field: &'static str, text: &str) -> Result<Self, InvalidInput> {
        if text.len() <= Self::MAX_LEN && is_web_url(text) {
            return Ok(Self(text.to_owned()));
        }
        let problem = format!(
            "{} is not a URL of at most {} characters that begins with https:// or http://; other characters than \
             ASCII are percent-encoded, in a host by Punycode",
            quoted(text),
            Self::MAX_LEN
        );
        Err(InvalidInput::new(field, problem))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The scheme, host and port.
    pub fn origin(&self) -> &str {
        // Two slashes stand before the host. What ends it is the third of these.
        match self.0.match_indices(['/', '?', '#']).nth(2) {
            Some((end, _)) => self.0.split_at(end).0,
            None => &self.0,
        }
    }
}

fn is_web_url(text: &str) -> bool {
    let Some(rest) = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))
    else {
        return false;
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    host.split('.').all(is_label) && port.is_none_or(is_port) && is_percent_encoded(path)
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn is_port(port: &str) -> bool {
    let has_one_spelling = port.len() < 5 || !port.starts_with('0');
    has_one_spelling
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && port.parse::<u16>().is_ok()
}

/// Whether a path with query and fragment has only characters that a URL may have.
fn is_percent_encoded(path: &str) -> bool {
    let mut encoded = path.split('%');
    let plain = encoded.next().unwrap_or_default();
    let begin_with_hex = encoded.all(|piece| {
        let digits = piece.get(..2);
        digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
            && piece.bytes().all(is_url_byte)
    });
    plain.bytes().all(is_url_byte) && begin_with_hex
}

fn is_url_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=".contains(&byte)
}

/// A Global Trade Item Number: 8, 12, 13 or 14 digits. The last one is the check digit (GS1 General
/// Specifications, section 7.9). UPC, EAN and ISBN-13 are such numbers. No leading zero is added or
/// removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(try_from = "String")]
pub struct Gtin(String);

impl Gtin {
    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        if !matches!(text.len(), 8 | 12 | 13 | 14)
            || !text.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Err(no_gtin(text, "is not a GTIN: 8, 12, 13 or 14 digits"));
        }
        // From the right, the digits count once and three times in turn. The sum is a multiple of
        // ten.
        let digits = text.bytes().rev().map(|byte| u32::from(byte - b'0'));
        let sum: u32 = digits
            .zip([1, 3].into_iter().cycle())
            .map(|(digit, weight)| digit * weight)
            .sum();
        if sum.is_multiple_of(10) {
            Ok(Self(text.to_owned()))
        } else {
            Err(no_gtin(text, "has a wrong check digit"))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn no_gtin(text: &str, problem: &str) -> InvalidInput {
    InvalidInput::new("gtin", format!("{} {problem}", quoted(text)))
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductDetails {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<WebUrl>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<WebUrl>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brand: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gtin: Option<Gtin>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sku: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
}

impl ProductDetails {
    pub const NAME_MAX_CHARS: usize = 200;
    pub const BRAND_MAX_CHARS: usize = 100;
    pub const SKU_MAX_CHARS: usize = 100;

    pub fn new_name(name: String) -> Result<String, InvalidInput> {
        let name = new_line("name", Some(name), Self::NAME_MAX_CHARS)?;
        name.ok_or_else(|| InvalidInput::new("name", "is empty: it has no visible character"))
    }

    /// `None` without a visible character.
    pub fn new_brand(brand: Option<String>) -> Result<Option<String>, InvalidInput> {
        new_line("brand", brand, Self::BRAND_MAX_CHARS)
    }

    /// `None` without a visible character.
    pub fn new_sku(sku: Option<String>) -> Result<Option<String>, InvalidInput> {
        new_line("sku", sku, Self::SKU_MAX_CHARS)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProductRecord {
    pub product: ProductId,
    pub revision: Revision,
    pub details: ProductDetails,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProductItem {
    pub pk: String,
    pub sk: String,
    pub revision: Revision,
    #[serde(flatten)]
    pub details: ProductDetails,
}

impl From<ProductRecord> for ProductItem {
    fn from(record: ProductRecord) -> Self {
        let ProductRecord {
            product,
            revision,
            details,
        } = record;
        let (pk, sk) = record_key(&product);
        Self {
            pk,
            sk,
            revision,
            details,
        }
    }
}

impl TryFrom<ProductItem> for ProductRecord {
    type Error = Malformed;

    fn try_from(item: ProductItem) -> Result<Self, Malformed> {
        let ProductItem {
            pk,
            sk,
            revision,
            mut details,
        } = item;
        let product = ProductId::from_escaped(&sk)
            .ok()
            .filter(|product| record_key(product).0 == pk);
        let product = product
            .ok_or_else(|| Malformed::of_item(&pk, &sk, "sk", "is not a product of this shard"))?;
        if !has_visible_char(&details.name) {
            // Another tool wrote it. A heading must show something.
            details.name = product.to_string();
        }
        Ok(Self {
            product,
            revision,
            details,
        })
    }
}

#[cfg(test)]
mod tests;
