//! The keys of attributes that pages for people show (docs/api.md). Everything else in attributes
//! is the site's.

use serde_json::Value;

use crate::{
    comment::CommentText, product::WebUrl, site_data::CommentAttributes, timestamp::Timestamp,
};

/// What pages show of a comment's attributes. A value with a different type or form counts as
/// absent: attributes may hold anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Documented {
    /// Whether the site has verified the comment: `verified` is `true`.
    pub is_verified: bool,
    pub reply: Option<Reply>,
    /// At most [`Photo::MAX`]. Those in another form are left out.
    pub photos: Vec<Photo>,
}

/// A picture that the author of a comment took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Photo {
    /// It begins with `https://`.
    pub url: WebUrl,
    /// In pixels; `None` where a shop's export has no sizes.
    pub width: Option<u64>,
    pub height: Option<u64>,
    /// What it shows, in words.
    pub alt: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub text: String,
    pub author: Option<String>,
    /// `at`, as in RFC 3339.
    pub at: Option<Timestamp>,
}

impl Documented {
    pub fn of(attributes: &CommentAttributes) -> Self {
        Self::of_json(&serde_json::from_str(attributes.as_json()).unwrap_or_default())
    }

    /// Of attributes that were read already.
    pub fn of_json(value: &Value) -> Self {
        Self {
            is_verified: value.get("verified") == Some(&Value::Bool(true)),
            reply: value.get("reply").and_then(Reply::of),
            photos: Photo::all_of(value),
        }
    }
}

impl Reply {
    fn of(reply: &Value) -> Option<Self> {
        let author = text_field(reply, "author").map(str::to_owned);
        Some(Self {
            text: CommentText::new_body(text_field(reply, "text").map(str::to_owned)).ok()??,
            author: CommentText::new_author(author).ok().flatten(),
            at: text_field(reply, "at").and_then(|at| Timestamp::parse(at).ok()),
        })
    }
}

impl Photo {
    pub const MAX: usize = 10;

    /// Maximum width and height. Cameras take less than half.
    const SIDE_MAX: u64 = 30_000;

    fn all_of(attributes: &Value) -> Vec<Self> {
        let photos = attributes.get("photos").and_then(Value::as_array);
        let photos = photos.into_iter().flatten();
        photos.filter_map(Self::of).take(Self::MAX).collect()
    }

    fn of(photo: &Value) -> Option<Self> {
        let url = text_field(photo, "url").filter(|url| url.starts_with("https://"))?;
        let alt = text_field(photo, "alt").map(str::to_owned);
        Some(Self {
            url: WebUrl::parse("url", url).ok()?,
            width: side(photo, "width"),
            height: side(photo, "height"),
            // A line of at most the length of an author's name.
            alt: CommentText::new_author(alt).ok().flatten(),
        })
    }
}

fn side(photo: &Value, name: &str) -> Option<u64> {
    let pixels = photo.get(name)?.as_u64()?;
    Some(pixels).filter(|pixels| (1..=Photo::SIDE_MAX).contains(pixels))
}

fn text_field<'value>(object: &'value Value, name: &str) -> Option<&'value str> {
    object.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Documented {
        Documented::of(&CommentAttributes::parse(json).unwrap())
    }

    #[test]
    fn a_reply_has_a_text_and_perhaps_an_author_and_a_time() {
        let whole = of(
            r#"{"verified": true, "reply": {"text": "Thanks!", "author": "Ada's", "at": "2024-02-29T12:00:00Z"}}"#,
        );
        let at = Timestamp::parse("2024-02-29T12:00:00Z").ok();
        let reply = Reply {
            text: "Thanks!".to_owned(),
            author: Some("Ada's".to_owned()),
            at,
        };
        assert_eq!(
            whole,
            Documented {
                is_verified: true,
                reply: Some(reply.clone()),
                photos: Vec::new(),
            }
        );
        let alone = Some(Reply {
            author: None,
            at: None,
            ..reply
        });
        assert_eq!(
            of(r#"{"reply": {"text": "Thanks!", "author": 7, "at": "yesterday"}}"#).reply,
            alone
        );
    }

    #[test]
    fn a_photo_has_an_address_and_perhaps_a_size_and_words() {
        let photo = |width: Option<u64>, height: Option<u64>, alt: Option<&str>| Photo {
            url: WebUrl::parse("url", "https://cdn.example/1.jpg").unwrap(),
            width,
            height,
            alt: alt.map(str::to_owned),
        };
        let url = "https://cdn.example/1.jpg";
        let found = of(&format!(
            r#"{{"photos": [
                {{"url": "{url}", "width": 800, "height": 600, "alt": "A cup"}},
                {{"url": "{url}", "width": 800, "height": 600}},
                {{"url": "{url}", "width": 800}},
                {{"url": "{url}", "width": 0, "height": 600}},
                {{"url": "{url}", "width": "800", "height": 600}},
                {{"url": "http://cdn.example/1.jpg", "width": 800, "height": 600}},
                {{"url": "javascript:1", "width": 800, "height": 600}}, "{url}"
            ]}}"#
        ));
        let expected = [
            photo(Some(800), Some(600), Some("A cup")),
            photo(Some(800), Some(600), None),
            photo(Some(800), None, None),
            photo(None, Some(600), None),
            photo(None, Some(600), None),
        ];
        assert_eq!(found.photos, expected);
        let one = format!(r#"{{"url": "{url}", "width": 800, "height": 600}}"#);
        let many = of(&format!(
            r#"{{"photos": [{}]}}"#,
            [one.as_str(); 12].join(",")
        ));
        assert_eq!(many.photos.len(), Photo::MAX);
    }

    #[test]
    fn what_has_another_form_counts_as_absent() {
        for json in [
            "{}",
            r#"{"verified": "true", "photos": {"url": "https://x/1.jpg"}}"#,
            r#"{"verified": 1, "reply": "Thanks!"}"#,
            r#"{"reply": {"text": ""}}"#,
            r#"{"reply": {"text": "\u200b"}}"#,
            r#"{"reply": {"text": "bell \u0007"}}"#,
            r#"{"reply": [{"text": "Thanks!"}], "nested": {"verified": true}}"#,
        ] {
            assert_eq!(of(json), Documented::default(), "{json}");
        }
    }
}
