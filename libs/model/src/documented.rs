//! The keys of attributes that pages for people show (docs/api.md). Everything else in attributes
//! is the site's.

use serde_json::Value;

use crate::{comment::CommentText, site_data::CommentAttributes, timestamp::Timestamp};

/// What pages show of a comment's attributes. A value with a different type or form counts as
/// absent: attributes may hold anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Documented {
    /// Whether the site has verified the comment: `verified` is `true`.
    pub is_verified: bool,
    pub reply: Option<Reply>,
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
        let value: Value = serde_json::from_str(attributes.as_json()).unwrap_or_default();
        Self {
            is_verified: value.get("verified") == Some(&Value::Bool(true)),
            reply: value.get("reply").and_then(Reply::of),
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
                reply: Some(reply.clone())
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
    fn what_has_another_form_counts_as_absent() {
        for json in [
            "{}",
            r#"{"verified": "true"}"#,
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
