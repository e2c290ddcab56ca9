//! A comment, and the rules that its text must keep.

use derive_more::Display;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    error::{InvalidInput, Malformed, quoted},
    id::{CommentId, ProductId},
    language::Language,
    rating::Rating,
    revision::Revision,
    site_data::SiteData,
    status::Status,
    strict_text::strict_optional_text,
    timestamp::Timestamp,
    visible::has_visible_char,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    pub id: CommentId,
    /// The product it is about; it never changes.
    pub product: ProductId,
    pub language: Language,
    pub rating: Rating,
    /// When it was made. This never changes, and decides every order.
    pub created_at: Timestamp,
    pub revision: Revision,
    pub status: Status,
    pub text: CommentText,
    /// What the site stores with it. Duplicates lack the author's id.
    pub site: SiteData,
}

impl Comment {
    pub fn placement(&self) -> Placement {
        Placement {
            product: self.product.clone(),
            language: self.language.clone(),
            rating: self.rating,
        }
    }

    /// Its entry in the page index if it is published.
    pub fn entry(&self) -> RankEntry {
        RankEntry {
            placement: self.placement(),
            created_at: self.created_at,
        }
    }

    pub fn cd(&self) -> Cd {
        Cd {
            created_at: self.created_at,
            id: self.id.clone(),
        }
    }

    /// Whether this is the comment's place in the order of time.
    pub fn is_at(&self, cd: &Cd) -> bool {
        self.created_at == cd.created_at && self.id == cd.id
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommentText {
    /// A title, at most [`CommentText::TITLE_MAX_CHARS`] characters of one line.
    #[serde(
        default,
        deserialize_with = "strict_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub title: Option<String>,
    /// The text itself, at most [`CommentText::BODY_MAX_CHARS`] characters. A rating may have none. It
    /// is stored as an empty text then: versions before 0.3.0 need one.
    #[serde(
        default,
        deserialize_with = "text_unless_empty",
        serialize_with = "text_or_empty"
    )]
    pub body: Option<String>,
    /// The name to show, at most [`CommentText::AUTHOR_MAX_CHARS`] characters of one line.
    #[serde(
        default,
        deserialize_with = "strict_optional_text",
        skip_serializing_if = "Option::is_none"
    )]
    pub author: Option<String>,
}

impl CommentText {
    pub const TITLE_MAX_CHARS: usize = 200;
    pub const BODY_MAX_CHARS: usize = 10_000;
    pub const AUTHOR_MAX_CHARS: usize = 100;
    pub const MAX_CHARS: usize =
        Self::TITLE_MAX_CHARS + Self::BODY_MAX_CHARS + Self::AUTHOR_MAX_CHARS;

    pub fn new(
        title: Option<String>,
        body: impl Into<Option<String>>,
        author: Option<String>,
    ) -> Result<Self, InvalidInput> {
        Ok(Self {
            title: Self::new_title(title)?,
            body: Self::new_body(body.into())?,
            author: Self::new_author(author)?,
        })
    }

    /// `None` without a visible character.
    pub fn new_title(title: Option<String>) -> Result<Option<String>, InvalidInput> {
        new_line("title", title, Self::TITLE_MAX_CHARS)
    }

    /// `None` without a visible character. Line ends become line feeds: each program writes its own.
    pub fn new_body(body: Option<String>) -> Result<Option<String>, InvalidInput> {
        let body = body.map(with_line_feeds);
        if let Some(body) = &body {
            check_text("body", body, Self::BODY_MAX_CHARS, |c| {
                c.is_control() && !matches!(c, '\n' | '\t')
            })?;
        }
        Ok(visible(body))
    }

    /// `None` without a visible character.
    pub fn new_author(author: Option<String>) -> Result<Option<String>, InvalidInput> {
        new_line("author", author, Self::AUTHOR_MAX_CHARS)
    }

    /// A stored text as it is shown. Texts without a visible character count as absent. Earlier
    /// versions kept them in titles and authors, and every kind of line end in bodies.
    pub fn shown(self) -> Self {
        Self {
            title: visible(self.title),
            author: visible(self.author),
            body: visible(self.body.map(with_line_feeds)),
        }
    }
}

fn text_unless_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text: Option<String> = strict_optional_text(from)?;
    Ok(text.filter(|text| !text.is_empty()))
}

fn text_or_empty<S: Serializer>(text: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(text.as_deref().unwrap_or_default())
}

/// A text of one line; `None` without a visible character.
pub(crate) fn new_line(
    field: &'static str,
    text: Option<String>,
    max_chars: usize,
) -> Result<Option<String>, InvalidInput> {
    if let Some(text) = &text {
        check_text(field, text, max_chars, char::is_control)?;
    }
    Ok(visible(text))
}

fn with_line_feeds(text: String) -> String {
    if text.contains('\r') {
        text.replace("\r\n", "\n").replace('\r', "\n")
    } else {
        text
    }
}

fn visible(text: Option<String>) -> Option<String> {
    text.filter(|text| has_visible_char(text))
}

fn check_text(
    field: &'static str,
    text: &str,
    max_chars: usize,
    forbidden: impl Fn(char) -> bool,
) -> Result<(), InvalidInput> {
    let chars = text.chars().count();
    if chars > max_chars {
        return Err(InvalidInput::new(
            field,
            format!("has {chars} characters, at most {max_chars} are allowed"),
        ));
    }
    if let Some(control) = text.chars().find(|c| forbidden(*c)) {
        return Err(InvalidInput::new(
            field,
            format!("holds the control character {control:?}"),
        ));
    }
    Ok(())
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Placement {
    pub product: ProductId,
    pub language: Language,
    pub rating: Rating,
}

/// Where a comment is in the page index: its placement decides the base sets, its creation time the
/// score.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RankEntry {
    pub placement: Placement,
    pub created_at: Timestamp,
}

/// The sort key of the index: `YYYY-MM-DDTHH:MM:SS.mmmZ#<comment id>`.
///
/// The key is unique, because DynamoDB documents no order of index items with equal sort keys. Its
/// order, as text and as this type, is (creation time, id by bytes), which is the order of (score,
/// member) in Redis.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Display)]
#[display("{created_at}#{id}")]
pub struct Cd {
    pub created_at: Timestamp,
    pub id: CommentId,
}

impl Cd {
    /// Refuses any text that `Display` does not produce.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        Self::parse_parts(text).ok_or_else(|| {
            Malformed::new(
                "cd",
                format!("{} is not <instant>#<comment id>", quoted(text)),
            )
        })
    }

    fn parse_parts(text: &str) -> Option<Self> {
        let (instant, id) = text.split_once('#')?;
        Some(Self {
            created_at: Timestamp::parse_text(instant)?,
            id: CommentId::parse(id).ok()?,
        })
    }

    /// The next possible key; no key lies between. `None` at the end of time.
    pub fn just_after(&self) -> Option<Self> {
        if let Some(id) = self.id.next() {
            return Some(Self {
                created_at: self.created_at,
                id,
            });
        }
        let created_at = self.created_at.plus_ms(1);
        (created_at > self.created_at).then(|| Self {
            created_at,
            id: CommentId::least(),
        })
    }

    /// The previous possible key; no key lies between. `None` at the beginning of time.
    pub fn just_before(&self) -> Option<Self> {
        if let Some(id) = self.id.previous() {
            return Some(Self {
                created_at: self.created_at,
                id,
            });
        }
        let created_at = self.created_at.plus_ms(-1);
        (created_at < self.created_at).then(|| Self {
            created_at,
            id: CommentId::greatest(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn refused_field(title: &str, body: &str, author: &str) -> &'static str {
        let refused = CommentText::new(some(title), body.to_owned(), some(author)).unwrap_err();
        refused.field
    }

    #[test]
    fn each_broken_text_names_its_field() {
        assert_eq!(refused_field(&"x".repeat(201), "b", "a"), "title");
        assert_eq!(refused_field("two\nlines", "b", "a"), "title");
        assert_eq!(refused_field("t", &"x".repeat(10_001), "a"), "body");
        assert_eq!(refused_field("t", "bell\u{7}", "a"), "body");
        assert_eq!(refused_field("t", "b", &"x".repeat(101)), "author");
    }

    #[test]
    fn a_text_without_a_visible_character_counts_as_absent() {
        for blank in ["", "   ", "\u{200b}", "\u{3164}\u{2800}", "\u{a0}\u{feff}"] {
            let absent = CommentText {
                title: None,
                body: None,
                author: None,
            };
            let text = CommentText::new(some(blank), some(blank), some(blank)).unwrap();
            assert_eq!(text, absent, "{blank:?}");
            let stored = CommentText {
                title: some(blank),
                body: some(blank),
                author: some(blank),
            };
            assert_eq!(stored.shown(), absent, "{blank:?}");
        }
        let kept =
            CommentText::new(some(" t "), "\u{200b}b".to_owned(), some("\u{202e}a")).unwrap();
        assert_eq!(kept.clone().shown(), kept);
    }

    #[test]
    fn the_limits_count_characters_and_line_feeds_are_text() {
        let text = CommentText::new(Some(String::new()), "😀\n\t".repeat(3_333), None).unwrap();
        assert_eq!((text.title, text.author), (None, None));
    }

    #[test]
    fn line_ends_are_one_content_whatever_their_form() {
        let longest = "a\r\n".repeat(5_000);
        let shortened = some(&"a\n".repeat(5_000));
        assert_eq!(CommentText::new_body(Some(longest)).unwrap(), shortened);
        let stored = CommentText {
            title: None,
            body: some("a\rb\r\n\nc"),
            author: None,
        };
        assert_eq!(stored.shown().body, some("a\nb\n\nc"));
    }

    fn cd(ms: i64, id: &str) -> Cd {
        Cd {
            created_at: Timestamp::from_epoch_ms(ms).unwrap(),
            id: CommentId::parse(id).unwrap(),
        }
    }

    fn ids() -> impl Strategy<Value = String> {
        let text = r"[A-Za-z0-9._-]{1,64}|-|z{64}|[az-]{64}|a-?|az{63}|\.[-.]?-{0,2}|\.-z{62}|\.?-z{63}|\.\.[-z]{1,62}";
        text.prop_filter("an id", |text| CommentId::parse(text).is_ok())
    }

    proptest! {
        #[test]
        fn the_order_of_cd_is_the_order_of_score_and_member(
            a in (-3_000_000_000_000..3_000_000_000_000_i64, ids()),
            b in (-3_000_000_000_000..3_000_000_000_000_i64, ids()),
            tie in any::<bool>(),
        ) {
            let b = if tie { (a.0, b.1) } else { b };
            let by_score_and_member = a.0.cmp(&b.0).then_with(|| a.1.as_bytes().cmp(b.1.as_bytes()));
            let a = cd(a.0, &a.1);
            let b = cd(b.0, &b.1);
            prop_assert_eq!(a.to_string().as_bytes().cmp(b.to_string().as_bytes()), by_score_and_member);
            prop_assert_eq!(a.cmp(&b), by_score_and_member);
            prop_assert_eq!(Cd::parse(&a.to_string()).unwrap(), a);
        }

        #[test]
        fn nothing_lies_between_neighbours(
            ms in -3_000_000_000_000..3_000_000_000_000_i64,
            id in ids(),
            other in ids(),
        ) {
            let this = cd(ms, &id);
            let other = cd(ms, &other);
            let before = this.just_before().unwrap();
            let after = this.just_after().unwrap();
            prop_assert!(before < this && this < after);
            prop_assert!(other <= before || other == this || other >= after);
            prop_assert_eq!(before.just_after().unwrap(), this.clone());
            prop_assert_eq!(after.just_before().unwrap(), this);
            prop_assert_eq!(Cd::parse(&before.to_string()).unwrap(), before);
            prop_assert_eq!(Cd::parse(&after.to_string()).unwrap(), after);
        }
    }
}
