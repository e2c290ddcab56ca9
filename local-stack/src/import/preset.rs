//! The rules for a program's export: which of its columns are the fields of a comment, and what its
//! values mean. A preset is a file in TOML, of this crate or of a site.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{date::date_format, fields::check_field};

/// The presets of this crate. `docs/moving.md` names the source of each.
const OF_THIS_CRATE: [(&str, &str); 3] = [
    ("judgeme", include_str!("presets/judgeme.toml")),
    ("woocommerce", include_str!("presets/woocommerce.toml")),
    ("yotpo", include_str!("presets/yotpo.toml")),
];

/// What the options of the command line say, for one program's exports. Options count before it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Preset {
    /// The columns that a field may have. The first that a row has counts.
    #[serde(default)]
    pub(super) columns: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub(super) set: BTreeMap<String, String>,
    /// By field, what its values mean.
    #[serde(default)]
    pub(super) values: BTreeMap<String, BTreeMap<String, String>>,
    /// By field, the columns that must have one of these values for the field to count.
    #[serde(default)]
    pub(super) only_if: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    #[serde(default)]
    pub(super) id_from: Vec<String>,
    /// The first that reads a date counts; the last is always RFC 3339.
    #[serde(default)]
    pub(super) date_formats: Vec<String>,
    #[serde(default)]
    pub(super) html_to_text: bool,
    #[serde(default)]
    pub(super) drop: Vec<String>,
}

/// Reads a preset: one of this crate by its name, or a file.
pub(super) fn read_preset(name: &str) -> Result<Preset, String> {
    let ours = OF_THIS_CRATE.iter().find(|(ours, _)| *ours == name);
    let text = match ours {
        Some((_, text)) => (*text).to_owned(),
        None => std::fs::read_to_string(name).map_err(|error| {
            let names = OF_THIS_CRATE.map(|(name, _)| name).join(", ");
            format!("{error}; it is one of {names}, or the path of a file with a site's own rules")
        })?,
    };
    parse(&text)
}

fn parse(text: &str) -> Result<Preset, String> {
    let preset: Preset = toml::from_str(text).map_err(|error| error.to_string())?;
    let fields = preset
        .columns
        .keys()
        .chain(preset.set.keys())
        .chain(preset.values.keys())
        .chain(preset.only_if.keys());
    for field in fields {
        check_field(field)?;
    }
    if preset.set.contains_key("id") {
        return Err("set: one id for all rows; id-from makes one of columns".to_owned());
    }
    for format in &preset.date_formats {
        date_format(format).map_err(|why| format!("date-formats: {format:?} {why}"))?;
    }
    Ok(preset)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use serde_json::{Value, json};

    use super::*;
    use crate::import::{ImportSource, reading::tests::reading, row::RowContent};

    /// The rows of a file as a preset reads them: what each says, without the id and absent
    /// fields, or why it is bad.
    fn read(preset: &str, name: &str, content: &str) -> Vec<Value> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(content.as_bytes()).unwrap();
        let source = ImportSource::open(&path, &reading(&["--preset", preset])).unwrap();
        let mut found = Vec::new();
        let mut ids = std::collections::HashSet::new();
        for row in source.rows {
            match row.unwrap().content {
                Ok(RowContent::Comment(row)) => {
                    assert!(ids.insert(row.comment.id.clone()), "{row:?}");
                    found.push(described(row.comment));
                }
                other => found.push(other.unwrap_err().into()),
            }
        }
        found
    }

    fn described(comment: table::NewComment) -> Value {
        let attributes = comment.site.attributes.as_ref();
        let mut described = json!({
            "product": comment.product, "rating": comment.rating, "language": comment.language,
            "created_at": comment.created_at, "title": comment.text.title, "body": comment.text.body,
            "author": comment.text.author, "status": comment.status,
            "attributes": attributes.map(|json| serde_json::from_str::<Value>(json.as_json()).unwrap()),
        });
        let fields = described.as_object_mut().unwrap();
        fields.retain(|_, value| !value.is_null());
        described
    }

    #[test]
    fn an_export_of_judge_me_is_read() {
        let content = "title,body,rating,review_date,source,curated,reviewer_name,reviewer_email,product_id,product_handle,reply,reply_date,picture_urls,ip_address,location
Top,\"Runs &amp; runs.\",5,2025-03-02 10:12:00 UTC,web,ok,Ada L.,a@example.com,701,wool-sweater,Thank you!,2025-03-03 08:00:00 UTC,\"https://pictures.example/a.jpg,https://pictures.example/b.jpg\",192.0.2.1,FR
,,4,2025-03-04 10:12:00 UTC,web,not-yet,Bo,b@example.com,701,wool-sweater,,,,,
Buy,Cheap watches,5,2025-03-05 10:12:00 UTC,web,spam,Bot,c@example.com,701,wool-sweater,,,,,
";
        let reply = json!({"text": "Thank you!", "at": "2025-03-03T08:00:00.000Z"});
        let photos = json!([
            {"url": "https://pictures.example/a.jpg"}, {"url": "https://pictures.example/b.jpg"}
        ]);
        let expected = [
            json!({
                "product": "wool-sweater", "rating": 5, "language": "und", "created_at": "2025-03-02T10:12:00.000Z",
                "title": "Top", "body": "Runs & runs.", "author": "Ada L.", "status": "published",
                "attributes": {"reply": reply, "photos": photos},
            }),
            json!({
                "product": "wool-sweater", "rating": 4, "language": "und", "created_at": "2025-03-04T10:12:00.000Z",
                "author": "Bo", "status": "pending",
            }),
            json!({
                "product": "wool-sweater", "rating": 5, "language": "und", "created_at": "2025-03-05T10:12:00.000Z",
                "title": "Buy", "body": "Cheap watches", "author": "Bot", "status": "hidden",
            }),
        ];
        assert_eq!(read("judgeme", "export.csv", content), expected);
    }

    #[test]
    fn an_export_of_yotpo_is_read_without_what_the_shop_answered_in_private() {
        let content = "product_id,product_title,product_url,date,review_content,review_score,review_title,display_name,email,user_type,md_customer_country,published,product_image_url,product_description,comment_content,comment_public,comment_created_at,published_image_url,unpublished_image_url,published_video_url,unpublished_video_url,cf_Y__X
999,Bag,https://shop.example/bag,2024-02-29,It&#39;s good,5,Super,Ana,a@example.com,verified_buyer,ES,TRUE,,,Thanks,TRUE,2024-03-01,https://pictures.example/1.jpg,https://pictures.example/2.jpg,,,
999,Bag,https://shop.example/bag,2024-02-28,Broken,1,,Bo,b@example.com,anonymous_user,ES,FALSE,,,Call us,FALSE,2024-03-01,,,,,
";
        let expected = [
            json!({
                "product": "999", "rating": 5, "language": "und", "created_at": "2024-02-29T00:00:00.000Z",
                "title": "Super", "body": "It's good", "author": "Ana", "status": "published",
                "attributes": {
                    "verified": true, "reply": {"text": "Thanks", "at": "2024-03-01T00:00:00.000Z"},
                    "photos": [{"url": "https://pictures.example/1.jpg"}],
                },
            }),
            json!({
                "product": "999", "rating": 1, "language": "und", "created_at": "2024-02-28T00:00:00.000Z",
                "body": "Broken", "author": "Bo", "status": "hidden", "attributes": {"verified": false},
            }),
        ];
        assert_eq!(read("yotpo", "export.csv", content), expected);
    }

    #[test]
    fn product_reviews_of_woocommerce_are_read_from_its_api_and_its_table() {
        let of_api = r#"{"id":22,"date_created":"2018-10-18T19:59:17","date_created_gmt":"2018-10-18T17:59:17","product_id":31,"status":"approved","reviewer":"Ada","reviewer_email":"a@example.com","review":"<p>Nice album!<br />\nReally.</p>\n","rating":5,"verified":false}
{"id":23,"date_created":"2018-10-18T19:59:17","date_created_gmt":"2018-10-18T17:59:17","product_id":31,"status":"trash","reviewer":"Bo","reviewer_email":"b@example.com","review":"<p>Off</p>\n","rating":0,"verified":true}
"#;
        let nice = json!({
            "product": "31", "rating": 5, "language": "und", "created_at": "2018-10-18T17:59:17.000Z",
            "body": "Nice album!\nReally.", "author": "Ada", "status": "published", "attributes": {"verified": false},
        });
        let found = read("woocommerce", "reviews.jsonl", of_api);
        let [first, Value::String(second)] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(*first, nice);
        assert!(second.contains("0 is not a rating"), "{second}");
        let of_table = "comment_ID,comment_post_ID,comment_author,comment_author_email,comment_date_gmt,comment_content,comment_approved,comment_type,rating,verified
22,31,Ada,a@example.com,2018-10-18 17:59:17,\"Nice album!\nReally.\",1,review,5,0
24,31,Bo,b@example.com,2018-10-18 17:59:17,Spam,spam,review,5,
";
        let found = read("woocommerce", "reviews.csv", of_table);
        assert_eq!(found[0], nice);
        assert_eq!(found[1]["status"], "hidden");
    }

    #[test]
    fn the_rules_that_the_document_shows_are_rules() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/moving.md");
        let document = std::fs::read_to_string(document).unwrap();
        let (_, rules) = document.split_once("```toml\n").unwrap();
        let (rules, _) = rules.split_once("```").unwrap();
        let preset = parse(rules).unwrap();
        assert_eq!(preset.columns["product"], ["handle", "product_id"]);
    }

    #[test]
    fn a_file_of_rules_with_a_mistake_is_refused_with_what_is_wrong() {
        for (text, expected) in [
            ("[columns]\nstars = [\"a\"]", "\"stars\" is not a field"),
            ("date-formats = [\"%H:%M\"]", "cannot say an instant"),
            ("column = 1", "unknown field `column`"),
            ("[set]\nid = \"1\"", "id-from"),
            ("a b", "line 1"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let unknown = read_preset("loox").unwrap_err();
        assert!(unknown.contains("judgeme"), "{unknown}");
    }
}
