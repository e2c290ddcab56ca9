//! A row that says a comment, and its import. An export writes the same lines.

use model::{
    AuthorId, Comment, CommentAttributes, CommentId, CommentText, InvalidInput, Language,
    ProductId, Rating, Revision, SiteData, Status, Timestamp,
};
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::value::RawValue;
use table::{CommentPatch, NewComment, Table, WriteError};

use super::{
    ImportOptions, RowOutcome, date::rfc_3339, earlier::EarlierRow, emptied, imported::ImportedRow,
    spreadsheet,
};

/// The message for a JSON array. A file that is one array gets it only once.
pub(super) const NOT_LINES: &str = "is a JSON array or begins one, but a file must be JSON Lines: each line one comment, \
                                    as a JSON object; `jq -c '.[]' FILE` writes an array so";

/// The fields of a line. Unknown ones are refused: a misspelt field would otherwise be lost without
/// notice. A field that a comment may lack is `None` if it is missing, and `Some(None)` if it is
/// null.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommentLine {
    pub(super) id: CommentId,
    pub(super) product: ProductId,
    #[serde(deserialize_with = "language")]
    pub(super) language: Language,
    pub(super) rating: Rating,
    #[serde(deserialize_with = "date")]
    pub(super) created_at: Timestamp,
    #[serde(default, deserialize_with = "named")]
    pub(super) title: Option<Option<String>>,
    #[serde(default, deserialize_with = "named")]
    pub(super) body: Option<Option<String>>,
    #[serde(default, deserialize_with = "named")]
    pub(super) author: Option<Option<String>>,
    /// Without one, or with null, a line says nothing about the status of a comment that exists.
    #[serde(default)]
    pub(super) status: Option<Status>,
    #[serde(default, deserialize_with = "attributes")]
    pub(super) attributes: Option<Option<CommentAttributes>>,
    #[serde(default, deserialize_with = "named")]
    pub(super) author_id: Option<Option<AuthorId>>,
}

/// A field that the line names: its value, or null.
pub(super) fn named<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    of: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(of).map(Some)
}

fn date<'de, D: Deserializer<'de>>(of: D) -> Result<Timestamp, D::Error> {
    rfc_3339(&String::deserialize(of)?).map_err(D::Error::custom)
}

/// Programs also write `pt_BR`.
fn language<'de, D: Deserializer<'de>>(of: D) -> Result<Language, D::Error> {
    imported_language(&String::deserialize(of)?).map_err(D::Error::custom)
}

pub(super) fn imported_language(tag: &str) -> Result<Language, InvalidInput> {
    if tag.contains('_') {
        Language::parse(&tag.replace('_', "-"))
    } else {
        Language::parse(tag)
    }
}

fn attributes<'de, D: Deserializer<'de>>(
    of: D,
) -> Result<Option<Option<CommentAttributes>>, D::Error> {
    let json: Option<Box<RawValue>> = Option::deserialize(of)?;
    json.map(|json| CommentAttributes::parse(json.get()).map_err(D::Error::custom))
        .transpose()
        .map(Some)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommentRow {
    pub(super) comment: NewComment,
    /// Whether the row names the title, the body, the author, the attributes and the author's id.
    /// What it does not name stays as it is in an existing comment.
    names: [bool; 5],
}

impl From<NewComment> for CommentRow {
    fn from(comment: NewComment) -> Self {
        Self {
            comment,
            names: [true; 5],
        }
    }
}

impl TryFrom<CommentLine> for CommentRow {
    type Error = InvalidInput;

    fn try_from(line: CommentLine) -> Result<Self, InvalidInput> {
        let CommentLine {
            id,
            product,
            language,
            rating,
            created_at,
            status,
            body,
            title,
            author,
            attributes,
            author_id,
        } = line;
        // Stored values may be spelled in more ways than new ones.
        let product = ProductId::parse(product.as_str())?;
        let language = Language::parse(language.as_str())?;
        let author_id = match author_id {
            Some(Some(id)) => Some(Some(AuthorId::parse(id.as_str())?)),
            absent => absent,
        };
        let names = [
            title.is_some(),
            body.is_some(),
            author.is_some(),
            attributes.is_some(),
            author_id.is_some(),
        ];
        let text = CommentText::new(title.flatten(), body.flatten(), author.flatten())?;
        let site = SiteData {
            attributes: attributes.flatten(),
            author_id: author_id.flatten(),
        };
        Ok(Self {
            comment: NewComment {
                id,
                product,
                language,
                rating,
                created_at,
                status,
                text,
                site,
            },
            names,
        })
    }
}

/// Reads a line: one JSON object. The error says in one line why it is not a comment.
pub fn parse_line(line: &[u8]) -> Result<NewComment, String> {
    read_row(line).map(|row| row.comment)
}

pub(super) fn read_row(line: &[u8]) -> Result<CommentRow, String> {
    let line: CommentLine = serde_json::from_slice(line).map_err(|error| described(&error))?;
    CommentRow::try_from(line).map_err(|error| error.to_string())
}

/// Writes a comment as a line, without the line's end. It names every field, so that an update with
/// it leaves nothing of what was there. Equal comments give equal lines, also with different
/// revisions.
pub fn to_line(comment: Comment) -> serde_json::Result<String> {
    let Comment {
        id,
        product,
        language,
        rating,
        created_at,
        revision: _,
        status,
        text,
        site,
    } = comment;
    let line = CommentLine {
        id,
        product,
        language,
        rating,
        created_at,
        title: Some(text.title),
        body: Some(text.body),
        author: Some(text.author),
        status: Some(status),
        attributes: Some(site.attributes),
        author_id: Some(site.author_id),
    };
    serde_json::to_string(&line)
}

/// How much of the parser's message is kept: it repeats the names of unknown fields, which may be
/// long.
const PROBLEM_MAX_CHARS: usize = 400;

/// A message as one line of at most [`PROBLEM_MAX_CHARS`], without characters that control a
/// terminal.
pub(super) fn printable(message: &str) -> String {
    let shortened = message.chars().take(PROBLEM_MAX_CHARS);
    shortened
        .map(|c| {
            if c.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect()
}

/// An error of the JSON parser, which takes the line for line 1 of a document.
pub(super) fn described(error: &serde_json::Error) -> String {
    let hint = if error.is_eof() {
        ": a line must hold a whole JSON object, and a line feed within a text is written \\n"
    } else {
        ""
    };
    printable(&error.to_string()).replace(" at line 1 column ", " at column ") + hint
}

impl CommentRow {
    /// What the row says about an existing comment.
    pub(super) fn patch(&self) -> CommentPatch {
        let NewComment {
            language,
            rating,
            status,
            text,
            site,
            ..
        } = self.comment.clone();
        let [title, body, author, attributes, author_id] = self.names;
        CommentPatch {
            language: Some(language),
            rating: Some(rating),
            title: title.then_some(text.title),
            body: body.then_some(text.body),
            author: author.then_some(text.author),
            attributes: attributes.then_some(site.attributes),
            author_id: author_id.then_some(site.author_id),
            status,
        }
    }

    /// What a spreadsheet may have made of its texts.
    pub(super) fn comment_doubts(&self) -> impl Iterator<Item = String> {
        let NewComment {
            id,
            product,
            text,
            site,
            ..
        } = &self.comment;
        let texts = [
            ("id", Some(id.as_str())),
            ("product", Some(product.as_str())),
            ("author_id", site.author_id.as_ref().map(AuthorId::as_str)),
            ("title", text.title.as_deref()),
            ("body", text.body.as_deref()),
            ("author", text.author.as_deref()),
        ];
        texts
            .into_iter()
            .filter_map(|(field, text)| spreadsheet::doubt(field, text?))
    }

    /// Whether a comment is as the row says.
    pub(super) fn is_already(&self, present: &Comment) -> Result<bool, InvalidInput> {
        let is_of_row = present.product == self.comment.product
            && present.created_at == self.comment.created_at;
        Ok(is_of_row && self.patch().apply(present)? == *present)
    }

    /// Creates the comment unless its id is in use. An id is used only once.
    pub(super) async fn import(
        &self,
        table: &Table,
        options: &ImportOptions,
        earlier: Option<&EarlierRow>,
    ) -> Result<ImportedRow, WriteError> {
        let id = &self.comment.id;
        self.comment.created_at.not_ahead_of(process::now())?;
        let Some(present) = present(table, id, earlier).await? else {
            if !options.dry_run {
                table.create_comment(self.comment.clone(), None).await?;
                return Ok(RowOutcome::Created.into());
            }
            let revision = Revision::after(None, self.comment.created_at, 0);
            return Ok(ImportedRow {
                outcome: RowOutcome::Created,
                stored: to_line(self.comment.clone().at(revision)).ok(),
            });
        };
        let patch = self.patch();
        let updated = patch.apply(&present)?;
        if self.is_already(&present)? {
            return Ok(match earlier {
                Some(_) => RowOutcome::Repeated.into(),
                None => RowOutcome::Unchanged.into(),
            });
        }
        if let Some(reason) = self.conflict(&present, &updated, options, earlier) {
            return Ok(RowOutcome::Refused(reason).into());
        }
        if !options.update {
            return Ok(RowOutcome::Differing.into());
        }
        let outcome = RowOutcome::Updated {
            emptied: emptied(filled(&present), filled(&updated)),
        };
        if options.dry_run {
            return Ok(ImportedRow {
                outcome,
                stored: to_line(updated).ok(),
            });
        }
        // Only this comment is changed, and none that took its id since.
        table
            .patch_comment(id, |now| now.revision == present.revision, &patch)
            .await?;
        Ok(outcome.into())
    }

    /// Why the row cannot have its id, which `present` has. Updated by the row, it would be
    /// `updated`.
    fn conflict(
        &self,
        present: &Comment,
        updated: &Comment,
        options: &ImportOptions,
        earlier: Option<&EarlierRow>,
    ) -> Option<String> {
        let id = self.comment.id.as_str();
        let place = match earlier {
            Some(EarlierRow { place, .. }) => format!(" in {place}"),
            None => String::new(),
        };
        if present.product != self.comment.product {
            let product = present.product.as_str();
            return Some(format!(
                "id: {id:?} is in use by a comment of product {product:?}{place}"
            ));
        }
        if options.update {
            let created_at = present.created_at;
            return (created_at != self.comment.created_at).then(|| {
                format!("created_at: {id:?} is of {created_at}{place}, which never changes")
            });
        }
        let mut others = Vec::new();
        if present.created_at != self.comment.created_at {
            others.push("created_at");
        }
        if present.text.author != updated.text.author {
            others.push("author");
        }
        if present.text.title != updated.text.title {
            others.push("title");
        }
        if present.text.body != updated.text.body {
            others.push("body");
        }
        let others = others.join(", ");
        match earlier {
            Some(_) if others.is_empty() => Some(format!(
                "id: {id:?} is the same id as{place}, with other values"
            )),
            Some(_) => Some(format!(
                "id: {id:?} is the same id as{place}, with another {others}; a review needs an id of its own: --id-from COLUMN,COLUMN makes one of the columns that tell reviews apart"
            )),
            None if others.is_empty() => None,
            None => Some(format!(
                "id: {id:?} is in use by a comment with another {others}; --update changes it to this one, if it is the same review"
            )),
        }
    }
}

/// The comment that has an id: in a dry run also one that an import would have stored.
async fn present(
    table: &Table,
    id: &CommentId,
    earlier: Option<&EarlierRow>,
) -> Result<Option<Comment>, WriteError> {
    match earlier.and_then(|earlier| earlier.stored.as_deref()) {
        Some(line) => Ok(Some(stored_comment(line)?)),
        None => Ok(table.comment(id).await?),
    }
}

/// Reads a line of [`to_line`].
fn stored_comment(line: &str) -> Result<Comment, InvalidInput> {
    let line: CommentLine =
        serde_json::from_str(line).map_err(|error| InvalidInput::new("id", described(&error)))?;
    Ok(Comment {
        revision: Revision::after(None, line.created_at, 0),
        id: line.id,
        product: line.product,
        language: line.language,
        rating: line.rating,
        created_at: line.created_at,
        status: line.status.unwrap_or_default(),
        text: CommentText {
            title: line.title.flatten(),
            body: line.body.flatten(),
            author: line.author.flatten(),
        },
        site: SiteData {
            attributes: line.attributes.flatten(),
            author_id: line.author_id.flatten(),
        },
    })
}

/// Which of the fields that a comment may lack it has.
fn filled(Comment { text, site, .. }: &Comment) -> [bool; 5] {
    [
        text.title.is_some(),
        text.body.is_some(),
        text.author.is_some(),
        site.attributes.is_some(),
        site.author_id.is_some(),
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = r#"{"id":"c-1","product":"a/b","language":"EN","rating":4,"created_at":"2024-02-29T12:00:00Z","title":null,"body":"Fine.","author":null,"status":"published","attributes":null,"author_id":null}"#;

    /// The last fields of [`GOOD`], which most comments lack, and values of theirs, the
    /// attributes in the spelling that is kept.
    const NEITHER: &str = r#""attributes":null,"author_id":null"#;
    const WHOLE: &str = r#""attributes":{"a":["é",12345678901234567890],"z":1},"author_id":"u/7""#;

    #[test]
    fn a_line_reads_back_as_its_comment_and_names_every_field() {
        let whole = GOOD.replace(NEITHER, WHOLE);
        for given in [GOOD, &whole] {
            let new = parse_line(given.as_bytes()).unwrap();
            let NewComment {
                id,
                product,
                language,
                rating,
                created_at,
                status,
                text,
                site,
            } = new;
            let status = status.unwrap_or_default();
            let revision = Revision::after(None, created_at, 1);
            let line = to_line(Comment {
                id,
                product,
                language,
                rating,
                created_at,
                revision,
                status,
                text,
                site,
            })
            .unwrap();
            assert_eq!(line, given.replace("EN", "en").replace("00Z", "00.000Z"));
            assert_eq!(parse_line(line.as_bytes()), parse_line(given.as_bytes()));
        }
    }

    #[test]
    fn one_content_in_two_spellings_is_one_comment() {
        let one = GOOD
            .replace(NEITHER, WHOLE)
            .replace("Fine.", "Fine.\\n\\nBye.");
        let other = one
            .replace(
                r#"{"a":["é",12345678901234567890],"z":1}"#,
                r#"{"z": 1.0, "a": ["\u00e9", 12345678901234567890]}"#,
            )
            .replace("\\n\\n", "\\r\\n\\r");
        assert_ne!(one, other);
        assert_eq!(parse_line(one.as_bytes()), parse_line(other.as_bytes()));
    }

    /// The status of [`GOOD`] with this text instead of its status.
    fn status_with(text: &str) -> Result<Option<Status>, String> {
        parse_line(GOOD.replace(",\"status\":\"published\"", text).as_bytes())
            .map(|comment| comment.status)
    }

    #[test]
    fn a_line_without_a_status_says_none_and_an_unknown_one_is_refused() {
        assert_eq!(status_with("").unwrap(), None);
        assert_eq!(status_with(",\"status\":null").unwrap(), None);
        assert_eq!(
            status_with(",\"status\":\"hidden\"").unwrap(),
            Some(Status::Hidden)
        );
        assert!(
            status_with(",\"status\":\"shown\"")
                .unwrap_err()
                .contains("shown")
        );
    }

    #[test]
    fn a_bad_line_says_what_is_wrong() {
        for (old, new, expected) in [
            ("\"rating\":4", "\"rating\":6", "rating"),
            ("\"rating\":4", "\"rating\":4.5", "4.5"),
            ("\"rating\":4", "\"rating\":\"4\"", "a rating"),
            ("\"EN\"", "\"e\"", "language"),
            (
                "\"EN\"",
                "\"german\"",
                "language: \"german\" is not a language tag",
            ),
            (
                "2024-02-29T12:00:00Z",
                "2024-01-01",
                "`pagemark import --date-format` reads other forms at column",
            ),
            ("c-1", "c 1", "id"),
            ("c-1", ".", "id: \".\" cannot be a comment id"),
            ("c-1", "..", "URL clients remove it"),
            ("a/b", "..", "product: \"..\" cannot be a product id"),
            (
                "a/b",
                "\u{feff}a",
                "product: \"\\u{feff}a\" begins or ends with",
            ),
            ("\"author_id\":null", "\"author_id\":\" a\"", "author_id"),
            ("Fine.", "\\u0007", "body"),
            ("\"title\"", "\"tilte\"", "tilte"),
            (
                "\"title\"",
                "\"ti\\ntle\\u001b[31m\"",
                "`ti\u{fffd}tle\u{fffd}[31m`",
            ),
            ("2024-02-29T12:00:00Z", "2023-02-29T12:00:00Z", "created_at"),
            (
                "2024-02-29T12:00:00Z",
                "9999-12-31T23:59:59-01:00",
                "outside the years 1 to 9999 of UTC; ",
            ),
            (
                "\"author_id\":null}",
                "\"author_id\":null",
                "a whole JSON object",
            ),
            (
                "\"attributes\":null",
                "\"attributes\":[]",
                "attributes: must be a JSON object",
            ),
            (
                "\"attributes\":null",
                "\"attributes\":\"{}\"",
                "attributes: must be a JSON object",
            ),
            (
                "\"author_id\":null",
                "\"author_id\":\"\"",
                "author_id: is empty",
            ),
        ] {
            let error = parse_line(GOOD.replace(old, new).as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains('\n'));
        }
    }

    proptest! {
        #[test]
        fn a_line_is_a_comment_or_says_what_is_wrong_in_one_line(
            any in prop::collection::vec(any::<u8>(), 0..60),
            at in 0..GOOD.len(),
            with in r#"["{}\[\],:.0-9eE+\\nul☕ -]{0,3}"#,
            without in 0..4_usize,
        ) {
            let end = (at + without).min(GOOD.len());
            let near = [&GOOD.as_bytes()[..at], with.as_bytes(), &GOOD.as_bytes()[end..]].concat();
            for line in [any, near] {
                if let Err(reason) = parse_line(&line) {
                    prop_assert!(!reason.is_empty() && !reason.contains(char::is_control), "{reason:?}");
                }
            }
        }
    }
}
