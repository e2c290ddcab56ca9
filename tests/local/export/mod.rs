//! An export holds every comment as an import reads it, also while writes continue.

mod ends;
mod while_written;

use std::fs;
use std::path::{Path, PathBuf};

use local_stack::import::{ImportOptions, ImportSource, ReadingArgs, import, to_line};
use model::{
    AuthorId, BlobFormat, Comment, CommentAttributes, CommentText, SiteData, Status,
    item::attribute,
};
use repair_job::{AuditOptions, Job, JobSettings, Stop};
use serde_json::Value;
use table::{CommentPatch, NewComment, Table, TableConfig};
use tempfile::TempDir;

use crate::fixture::{
    data::{self, PRODUCT, at_ms, body, comment_id, new_comment, product, text_value},
    folder_in_memory,
    invariants::Contents,
    pagemark,
    program::{Ended, Program},
    reviews,
    stores::Stores,
};

struct Exporter {
    stores: Stores,
    folder: TempDir,
}

impl Exporter {
    async fn start() -> Self {
        Self {
            stores: Stores::start().await,
            folder: folder_in_memory(),
        }
    }

    async fn with_comments(count: u64) -> Self {
        let exporter = Self::start().await;
        let names = [PRODUCT, "c", "d e"].map(product);
        exporter
            .stores
            .create_all(0..count, |number| {
                names[usize::try_from(number % 3).unwrap()].clone()
            })
            .await;
        exporter
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self) -> PathBuf {
        self.path("comments.jsonl")
    }

    /// Starts an export through an engine's URL, such as a gate's.
    async fn start_export(&self, url: &str, output: &Path, more: &[&str]) -> Program {
        let table = self.stores.table.name();
        let arguments = [
            "export",
            "--table",
            table,
            "--dynamodb-url",
            url,
            "--output",
            output.to_str().unwrap(),
        ];
        pagemark::start(&[&arguments, more].concat()).await
    }

    async fn export_to(&self, output: &Path, more: &[&str]) -> Ended {
        self.start_export(&self.stores.engine_url(), output, more)
            .await
            .end()
            .await
    }

    /// Exports everything to [`Self::file`], and returns the lines.
    async fn exported(&self) -> String {
        self.export_to(&self.file(), &[]).await.expect(0);
        fs::read_to_string(self.file()).unwrap()
    }

    /// The lines of the comments that the table holds, by a scan of all its items.
    async fn expected(&self) -> String {
        expected(Contents::read(&self.stores.table).await.comments())
    }

    async fn table_writing(&self, comment_blob: BlobFormat) -> Table {
        let config = TableConfig::new(self.stores.table.name(), Some(self.stores.engine_url()));
        Table::connect(&TableConfig {
            comment_blob,
            ..config
        })
        .await
    }

    /// Ends without the checks of derived data: the test delivered nothing.
    async fn end(self) {
        self.stores.index.clear().await.unwrap();
    }
}

fn expected(mut comments: Vec<Comment>) -> String {
    comments.sort_by_key(|comment| {
        (
            comment.product.as_str().to_owned(),
            comment.created_at,
            comment.id.clone(),
        )
    });
    comments
        .into_iter()
        .map(|comment| to_line(comment).unwrap() + "\n")
        .collect()
}

fn field(lines: &str, name: &str) -> Vec<String> {
    let parsed = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    parsed
        .map(|line| line[name].as_str().unwrap().to_owned())
        .collect()
}

async fn import_into(table: &Table, source: ImportSource) {
    let (report, ended) = import(table, source, &ImportOptions::default()).await;
    assert_eq!(report.bad, 0, "{report:?}: {ended:?}");
    assert_eq!(report.differing, 0, "{report:?}: {ended:?}");
    ended.unwrap();
}

/// Comments at every limit: of texts, of ids, of escapes and of the order.
fn odd_comments() -> Vec<NewComment> {
    let text = |title: &str, body: &str, author: &str| {
        CommentText::new(
            Some(title.to_owned()),
            body.to_owned(),
            Some(author.to_owned()),
        )
        .unwrap()
    };
    let texts = [
        text(&"😀".repeat(200), &"😀".repeat(10_000), &"é".repeat(100)),
        text(
            "\"quoted\" \\ /",
            "tab\tline\nreturn\r\u{2028}\u{2029}",
            "O'Neil",
        ),
        text(
            "</script>",
            "\u{feff}\u{202e}right to left\u{200b} \u{1f469}\u{200d}\u{1f469}",
            "\u{5d0}\u{5d1}",
        ),
        body("{\"id\":\"no\",\"created_at\":\"2001-01-01T00:00:00.000Z\",\"title\":null}"),
        body(&"the same again and ".repeat(500)),
        body("-"),
    ];
    // `!` and `"` are less than `#`, which ends a product in the index's keys; `/`, `%` and ` ` are
    // escaped there.
    let products = [
        "a", "a!", "a\"b", "a#b", "a%2Fb", "a/b", "a b", "~", "ä", "😀",
    ];
    let ids = ["-", "A", "_.-", "z"];
    let attributes = r#"{"z":1.0,"a":[12345678901234567890,"\u00e9☕"],"verified":true}"#;
    let site = SiteData {
        attributes: Some(CommentAttributes::parse(attributes).unwrap()),
        author_id: Some(AuthorId::parse("user/7 é").unwrap()),
    };
    let mut comments = Vec::new();
    for (number, name) in products.iter().enumerate() {
        for (place, id) in ids.iter().enumerate() {
            let id = format!("{id}{number}");
            let text = texts[(number + place) % texts.len()].clone();
            // Pairs share a time; the oldest is before 1970.
            let created_at =
                at_ms(i64::try_from(place / 2).unwrap() * 40_000_000_000 - 30_000_000_000);
            let comment = new_comment(
                &id,
                &product(name),
                ["en", "zh-Hant-TW"][place % 2],
                1 + (place as u64),
            );
            let site = if place == 1 {
                site.clone()
            } else {
                comment.site.clone()
            };
            comments.push(NewComment {
                created_at,
                text,
                site,
                ..comment
            });
        }
    }
    comments
}

/// Comments in both text formats, of which some were edited and some deleted.
async fn varied(exporter: &Exporter) {
    let mut comments = odd_comments();
    comments.extend(reviews::reviews(reviews::sample_size()));
    let zstd = exporter.table_writing(BlobFormat::Zstd).await;
    let half = comments.split_off(comments.len() / 2);
    import_into(
        &exporter.stores.table,
        ImportSource::of_comments(comments.clone()),
    )
    .await;
    import_into(&zstd, ImportSource::of_comments(half)).await;
    for (number, comment) in comments
        .iter()
        .enumerate()
        .filter(|(number, _)| number % 7 < 5)
    {
        match number % 7 {
            0 => zstd.delete_comment(&comment.id, |_| true).await.unwrap(),
            1 => drop(
                zstd.patch_comment(&comment.id, |_| true, &data::rate(3))
                    .await
                    .unwrap(),
            ),
            place @ (2 | 3) => {
                let status = Some(Status::UNPUBLISHED[place - 2]);
                let patch = CommentPatch {
                    status,
                    ..CommentPatch::default()
                };
                drop(
                    zstd.patch_comment(&comment.id, |_| true, &patch)
                        .await
                        .unwrap(),
                );
            }
            _ => {
                let patch = CommentPatch {
                    title: Some(Some("Edited".to_owned())),
                    ..CommentPatch::default()
                };
                drop(
                    zstd.patch_comment(&comment.id, |_| true, &patch)
                        .await
                        .unwrap(),
                );
            }
        }
    }
}

#[tokio::test]
async fn an_import_of_an_export_exports_the_same_byte_for_byte() {
    let first = Exporter::start().await;
    varied(&first).await;
    let lines = first.exported().await;
    assert_eq!(lines, first.expected().await);
    assert!(lines.lines().count() > 100, "{}", lines.lines().count());
    let statuses = field(&lines, "status");
    for status in Status::ALL {
        assert!(
            statuses.iter().filter(|of| **of == status.as_str()).count() > 10,
            "{status}"
        );
    }

    // The second table gets the lines compressed, and writes texts in the other format.
    for (name, format) in [
        ("comments.jsonl.zst", BlobFormat::Zstd),
        ("comments.jsonl.gz", BlobFormat::Map),
    ] {
        let packed = first.path(name);
        first.export_to(&packed, &[]).await.expect(0);
        assert!(fs::metadata(&packed).unwrap().len() < lines.len() as u64 / 2);
        let second = Exporter::start().await;
        assert_eq!(
            second.exported().await,
            "",
            "an empty table is an empty file"
        );
        let table = second.table_writing(format).await;
        import_into(
            &table,
            ImportSource::open(&packed, &ReadingArgs::default()).unwrap(),
        )
        .await;
        assert!(
            second.exported().await == lines,
            "{name}: the second export differs"
        );
        let again = second.path(name);
        second.export_to(&again, &[]).await.expect(0);
        assert!(
            fs::read(&again).unwrap() == fs::read(&packed).unwrap(),
            "{name}: the second file differs"
        );
        second.end().await;
    }
    first.end().await;
}

#[tokio::test]
async fn an_export_holds_no_duplicates_and_nothing_else_of_the_table() {
    let exporter = Exporter::with_comments(40).await;
    exporter.stores.deliver_all().await;
    let lines = exporter.exported().await;
    assert_eq!(lines.lines().count(), 40);
    assert_eq!(lines, exporter.expected().await);
    // To the standard output, too, and to a pipe.
    let table = exporter.stores.table.name();
    let url = exporter.stores.engine_url();
    let ended = pagemark::run(&["export", "--table", table, "--dynamodb-url", &url])
        .await
        .expect(0);
    assert_eq!(ended.stdout, lines);
    assert!(
        ended.stderr.contains("the standard output: 40 comments"),
        "{ended:?}"
    );
    let ended = exporter
        .export_to(Path::new("/dev/stdout"), &[])
        .await
        .expect(0);
    assert_eq!(ended.stdout, lines);
    let Exporter { stores, .. } = exporter;
    stores.finish().await;
}

#[tokio::test]
async fn a_product_with_more_comments_than_an_answer_and_its_neighbours_are_whole() {
    let exporter = Exporter::start().await;
    let comment = |name: &str, number: i64| {
        let comment = new_comment(&format!("{name}-{number}"), &product(name), "en", 3);
        NewComment {
            created_at: at_ms(1_000_000_000_000 + number / 3),
            ..comment
        }
    };
    // All in one shard, by the hash of a product: the one in the middle has more than an answer of
    // `primaries` names.
    let shard = |name: &&String| model::primaries::PrimariesKey::shard_of(&product(name)) == 7;
    let names: Vec<String> = (0..)
        .map(|number| format!("p{number:04}"))
        .filter(|name| shard(&name))
        .take(5)
        .collect();
    let counts = [1, 2, 4_300, 600, 1];
    let all = names
        .iter()
        .zip(counts)
        .flat_map(|(name, count)| (0..count).map(move |number| comment(name, number)));
    exporter.stores.put_primary_items(all.collect()).await;
    let lines = exporter.exported().await;
    let products = field(&lines, "product");
    for (name, count) in names.iter().zip(counts) {
        assert_eq!(
            products.iter().filter(|product| *product == name).count(),
            usize::try_from(count).unwrap()
        );
    }
    assert_eq!(lines, exporter.expected().await);
    exporter.end().await;
}

#[tokio::test]
async fn unreadable_items_are_named_and_all_other_comments_exported() {
    let exporter = Exporter::with_comments(60).await;
    let stores = &exporter.stores;
    let [blob, keyless, wrong, long] = ["c0001", "c0010", "c0020", "c0030"].map(comment_id);
    // Without `cd`, an item is in no index of the table. An audit finds it, and remembers it.
    let cd = stores
        .break_primary_item(&keyless, attribute::CD, None)
        .await;
    let settings = JobSettings {
        apply: true,
        ..JobSettings::default()
    };
    stores.rebuild().await;
    let job = Job::new(
        stores.table.clone(),
        stores.index.clone(),
        settings,
        Stop::default(),
    );
    job.audit(AuditOptions::default()).await;
    stores
        .break_primary_item(&blob, attribute::COMMENT_BLOB, None)
        .await;
    stores
        .break_primary_item(&wrong, attribute::LANGUAGE, text_value("no language"))
        .await;
    let body = serde_dynamo::AttributeValue::M(
        [("body".to_owned(), text_value("x".repeat(10_001)).unwrap())].into(),
    );
    stores
        .break_primary_item(&long, attribute::COMMENT_BLOB, Some(body))
        .await;

    let ended = exporter.export_to(&exporter.file(), &[]).await.expect(1);
    for (id, product, what) in [
        (&blob, "c", "attribute comment_blob: is missing"),
        (&keyless, "c", "attribute cd: is missing"),
        (&wrong, "d e", "attribute language: is no language tag"),
        (
            &long,
            PRODUCT,
            "an import will refuse it: body: has 10001 characters",
        ),
    ] {
        let is_named = |line: &&str| {
            let key = model::FilterKey::primary(data::product(product)).to_string();
            line.contains(&format!("pk \"COMMENT#{id}\""))
                && line.contains(&format!("{key:?}"))
                && line.contains(what)
        };
        assert_eq!(
            ended.stderr.lines().filter(is_named).count(),
            1,
            "{id}, {product}, {what}: {ended:?}"
        );
    }
    assert!(ended.stderr.contains("4 items need a person"), "{ended:?}");
    let lines = fs::read_to_string(exporter.file()).unwrap();
    let ids = field(&lines, "id");
    assert_eq!(ids.len(), 57);
    assert!(
        ids.contains(&long.to_string())
            && ![&blob, &keyless, &wrong]
                .map(|id| ids.contains(&id.to_string()))
                .contains(&true)
    );

    // An item that is right again is exported again.
    stores.put_raw(cd).await;
    let ended = exporter.export_to(&exporter.file(), &[]).await.expect(1);
    assert!(ended.stderr.contains("3 items need a person"), "{ended:?}");
    assert!(
        field(&fs::read_to_string(exporter.file()).unwrap(), "id").contains(&keyless.to_string())
    );
    exporter.end().await;
}

#[tokio::test]
async fn a_second_primary_item_of_an_id_is_exported_and_named() {
    let exporter = Exporter::start().await;
    let pending = |name: &str| NewComment {
        status: Some(Status::Pending),
        ..new_comment("twice", &product(name), "en", 3)
    };
    exporter
        .stores
        .put_primary_items(vec![pending("a"), pending("b")])
        .await;
    let ended = exporter.export_to(&exporter.file(), &[]).await.expect(1);
    assert!(
        ended
            .stderr
            .contains("an import will refuse it: product \"a\" has a comment with this id"),
        "{ended:?}"
    );
    assert_eq!(
        field(&fs::read_to_string(exporter.file()).unwrap(), "product"),
        ["a", "b"]
    );
    exporter.end().await;
}
