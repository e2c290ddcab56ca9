//! Cursors: where a page starts or ends, sealed.
//!
//! A cursor is AES-SIV (RFC 5297) over a direction, an instant and a comment id, in base64url. The seal covers the
//! product, filter, order and page size too: a cursor of another listing does not open. AES-SIV is deterministic
//! and needs no nonce, so the same place has the same cursor, and there is nothing to use twice by mistake.

use aes_siv::{KeyInit, siv::Aes128Siv};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use model::{Cd, CommentId, Filter, Instant, Order, PageSize, ProductId};

use crate::{error::ApiError, settings::CursorKey};

/// The longest sealed cursor: 16 bytes of seal, 1 of direction, 8 of instant, 64 of id, in base64.
const SEALED_MAX_LEN: usize = (16 + 1 + 8 + CommentId::MAX_LEN) * 4 / 3 + 1;

/// What a cursor belongs to: one more part of what is sealed.
const PURPOSE: &[u8] = b"pagemark cursor";

/// The first byte, which also is the version: another layout takes other bytes.
const FORWARD: u8 = 1;
const BACKWARD: u8 = 2;

/// In which direction a cursor leads from its comment, in the listing's own order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the page after the comment.
    Forward,
    /// To the page before the comment.
    Backward,
}

/// Just after, or just before, a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) direction: Direction,
    pub(crate) at: Cd,
}

/// The listing that a cursor belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CursorScope<'scope> {
    pub(crate) product: &'scope ProductId,
    pub(crate) filter: &'scope Filter,
    pub(crate) order: Order,
    pub(crate) page_size: PageSize,
}

impl CursorScope<'_> {
    /// The vector of associated data. AES-SIV keeps its parts apart, so no two scopes have the same.
    fn associated_data(&self) -> [Vec<u8>; 5] {
        [
            PURPOSE.to_vec(),
            self.product.as_str().as_bytes().to_vec(),
            self.filter.to_string().into_bytes(),
            self.order.to_string().into_bytes(),
            vec![self.page_size.get()],
        ]
    }
}

/// Seals and opens cursors.
pub(crate) struct CursorSealer {
    key: CursorKey,
}

impl CursorSealer {
    pub(crate) fn new(key: CursorKey) -> Self {
        Self { key }
    }

    /// The cursor as the client gets it.
    pub(crate) fn seal(&self, scope: &CursorScope<'_>, cursor: &Cursor) -> Result<String, ApiError> {
        let mut plain = Vec::with_capacity(1 + 8 + CommentId::MAX_LEN);
        plain.push(match cursor.direction {
            Direction::Forward => FORWARD,
            Direction::Backward => BACKWARD,
        });
        plain.extend(cursor.at.created_at.epoch_ms().to_be_bytes());
        plain.extend(cursor.at.id.as_str().as_bytes());
        let sealed = self.siv().encrypt(scope.associated_data(), &plain);
        // It fails for more than 126 parts only.
        let sealed = sealed.map_err(|_| ApiError::internal("a cursor could not be sealed"))?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode(sealed))
    }

    /// The cursor that a client sent back.
    ///
    /// # Errors
    /// Broken, tampered with, of another listing, or sealed with another key: nobody can tell which.
    pub(crate) fn open(&self, scope: &CursorScope<'_>, text: &str) -> Result<Cursor, ApiError> {
        self.try_open(scope, text).ok_or_else(|| {
            let problem = "is not a cursor of this listing: it must come from an earlier answer for the same product, \
                           language, ratings, order and page_size";
            ApiError::invalid("cursor", problem)
        })
    }

    fn try_open(&self, scope: &CursorScope<'_>, text: &str) -> Option<Cursor> {
        if text.len() > SEALED_MAX_LEN {
            return None;
        }
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let plain = self.siv().decrypt(scope.associated_data(), &sealed).ok()?;
        let (direction, rest) = plain.split_first()?;
        let (instant, id) = rest.split_first_chunk::<8>()?;
        let direction = match *direction {
            FORWARD => Direction::Forward,
            BACKWARD => Direction::Backward,
            _ => return None,
        };
        let created_at = Instant::from_epoch_ms(i64::from_be_bytes(*instant)).ok()?;
        let id = CommentId::parse(std::str::from_utf8(id).ok()?).ok()?;
        Some(Cursor { direction, at: Cd { created_at, id } })
    }

    fn siv(&self) -> Aes128Siv {
        Aes128Siv::new(self.key.bytes().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Language, RatingSet};
    use proptest::prelude::*;

    fn sealer() -> CursorSealer {
        CursorSealer::new(CursorKey::new([7; 32]))
    }

    fn cursor(direction: Direction, ms: i64, id: &str) -> Cursor {
        let at = Cd { created_at: Instant::from_epoch_ms(ms).unwrap(), id: CommentId::parse(id).unwrap() };
        Cursor { direction, at }
    }

    fn with_scope<T>(
        product: &str,
        filter: &Filter,
        order: Order,
        size: u64,
        f: impl FnOnce(&CursorScope<'_>) -> T,
    ) -> T {
        let product = ProductId::parse(product).unwrap();
        f(&CursorScope { product: &product, filter, order, page_size: PageSize::new(size).unwrap() })
    }

    #[test]
    fn a_cursor_opens_only_for_its_listing_and_key() {
        let sealer = sealer();
        let given = cursor(Direction::Forward, 1_700_000_000_000, "01HF00000000000000000000AA");
        let english = Filter::new(Some(Language::parse("en").unwrap()), None);
        let fives = Filter::new(None, RatingSet::parse("5").ok());
        let text = with_scope("p", &english, Order::Newest, 20, |scope| sealer.seal(scope, &given).unwrap());
        let open = |product: &str, filter: &Filter, order, size| {
            with_scope(product, filter, order, size, |scope| sealer.open(scope, &text).ok())
        };
        assert_eq!(open("p", &english, Order::Newest, 20), Some(given));
        assert_eq!(open("q", &english, Order::Newest, 20), None);
        assert_eq!(open("p", &Filter::ANY, Order::Newest, 20), None);
        assert_eq!(open("p", &fives, Order::Newest, 20), None);
        assert_eq!(open("p", &english, Order::Oldest, 20), None);
        assert_eq!(open("p", &english, Order::Newest, 21), None);
        let stranger = CursorSealer::new(CursorKey::new([8; 32]));
        assert!(with_scope("p", &english, Order::Newest, 20, |scope| stranger.open(scope, &text)).is_err());
    }

    #[test]
    fn every_changed_character_breaks_the_seal() {
        let sealer = sealer();
        with_scope("p", &Filter::ANY, Order::Newest, 20, |scope| {
            let text = sealer.seal(scope, &cursor(Direction::Backward, -5, "c")).unwrap();
            for at in 0..text.len() {
                let mut changed = text.clone().into_bytes();
                changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
                assert!(sealer.open(scope, &String::from_utf8(changed).unwrap()).is_err(), "{at}");
            }
            for broken in ["", "A", "====", &text[1..], &format!("{text}A"), &"A".repeat(10_000), "☕"] {
                assert!(sealer.open(scope, broken).is_err(), "{broken}");
            }
        });
    }

    proptest! {
        #[test]
        fn every_cursor_opens_again(
            ms in Instant::MIN.epoch_ms()..=Instant::MAX.epoch_ms(),
            id in "[A-Za-z0-9._-]{1,64}",
            forward in any::<bool>(),
        ) {
            let direction = if forward { Direction::Forward } else { Direction::Backward };
            let given = cursor(direction, ms, &id);
            with_scope("p/☕", &Filter::ANY, Order::Oldest, 100, |scope| {
                let text = sealer().seal(scope, &given).unwrap();
                assert!(text.len() <= SEALED_MAX_LEN);
                assert_eq!(sealer().open(scope, &text).unwrap(), given);
                assert_eq!(sealer().seal(scope, &given).unwrap(), text);
            });
        }
    }
}
