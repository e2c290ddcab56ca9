//! An export holds every comment as an import reads it, also while writes continue.

mod by_table;
mod ends;
mod while_written;

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use local_stack::import::{EarlierRows, ImportOptions, ImportSource, ReadingArgs, import, to_line};
use model::{
    AuthorId, BlobFormat, Comment, CommentAttributes, CommentText, FilterKey, ProductDetails,
    SiteData, Status, item::attribute, primaries::PrimariesKey,
};
use repair_job::{AuditOptions, Job, JobSettings, Stop};
use serde_dynamo::AttributeValue;
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

const _: crate::Engines = crate::Engines::BothExcept(&[crate::Excused {
    test: "by_table::an_export_by_the_table_has_what_its_indexes_have_lost",
    why: "no test can take entries from its indexes",
}]);

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
        let stores = &exporter.stores;
        stores
            .create_all(0..count, |number| match number % 3 {
                0 => product(PRODUCT),
                1 => product("c"),
                _ => product("d e"),
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
        let arguments = [
            "export",
            "--table",
            self.stores.table.name(),
            "--dynamodb-url",
            url,
            "--output",
            output.to_str().unwrap(),
        ];
        pagemark::start(&[&arguments, more].concat()).await
    }

    async fn export_to(&self, output: &Path, more: &[&str]) -> Ended {
        let url = self.stores.engine_url();
        self.start_export(&url, output, more).await.end().await
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

/// The lines of comments, in the order of an export.
fn expected(mut comments: Vec<Comment>) -> String {
    comments.sort_by_key(|comment| {
        (
            comment.product.as_str().to_owned(),
            comment.created_at,
            comment.id.clone(),
        )
    });
    let mut lines = String::new();
    for comment in comments {
        lines.push_str(&to_line(comment).unwrap());
        lines.push('\n');
    }
    lines
}

/// A field of each of these lines.
fn field(lines: &str, name: &str) -> Vec<String> {
    let mut values = Vec::new();
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        values.push(line[name].as_str().unwrap().to_owned());
    }
    values
}

async fn import_into(table: &Table, source: ImportSource) {
    let (report, ended) = import(
        table,
        source,
        &ImportOptions::default(),
        &mut EarlierRows::new().unwrap(),
    )
    .await;
    assert_eq!(report.bad, 0, "{report:?}: {ended:?}");
    assert_eq!(report.differing, 0, "{report:?}: {ended:?}");
    ended.unwrap();
}

fn text(title: &str, body: &str, author: &str) -> CommentText {
    let title = Some(title.to_owned());
    let author = Some(author.to_owned());
    CommentText::new(title, body.to_owned(), author).unwrap()
}

/// Comments at every limit: of texts, of ids, of escapes and of the order.
fn odd_comments() -> Vec<NewComment> {
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
        for (of_product, id) in ids.iter().enumerate() {
            let id = format!("{id}{number}");
            let language = ["en", "zh-Hant"][of_product % 2];
            let rating = 1 + of_product as u64;
            let mut comment = new_comment(&id, &product(name), language, rating);
            comment.text = texts[(number + of_product) % texts.len()].clone();
            // Pairs share a time; the oldest is before 1970.
            let pair = i64::try_from(of_product / 2).unwrap();
            comment.created_at = at_ms(pair * 40_000_000_000 - 30_000_000_000);
            if of_product == 1 {
                comment.site = site.clone();
            }
            comments.push(comment);
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
    let source = ImportSource::of_comments(comments.clone());
    import_into(&exporter.stores.table, source).await;
    import_into(&zstd, ImportSource::of_comments(half)).await;
    for (number, comment) in comments.iter().enumerate() {
        let id = &comment.id;
        let mut patch = CommentPatch::default();
        match number % 7 {
            0 => {
                zstd.delete_comment(id, |_| true).await.unwrap();
                continue;
            }
            1 => patch.rating = Some(data::rating(3)),
            2 => patch.status = Some(Status::UNPUBLISHED[0]),
            3 => patch.status = Some(Status::UNPUBLISHED[1]),
            4 => patch.title = Some(Some("Edited".to_owned())),
            _ => continue,
        }
        zstd.patch_comment(id, |_| true, &patch).await.unwrap();
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
        let mut with_status = statuses.clone();
        with_status.retain(|found| found == status.as_str());
        assert!(with_status.len() > 10, "{status}");
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
        let empty = second.exported().await;
        assert_eq!(empty, "", "an empty table is an empty file");
        let table = second.table_writing(format).await;
        let source = ImportSource::open(&packed, &ReadingArgs::default()).unwrap();
        import_into(&table, source).await;
        let is_equal = second.exported().await == lines;
        assert!(is_equal, "{name}: the second export differs");
        let packed_again = second.path(name);
        second.export_to(&packed_again, &[]).await.expect(0);
        let is_equal = fs::read(&packed_again).unwrap() == fs::read(&packed).unwrap();
        assert!(is_equal, "{name}: the second file differs");
        second.end().await;
    }
    first.end().await;
}

/// The options of a feed for Google.
const FEED: [&str; 6] = [
    "--format",
    "google-reviews",
    "--publisher",
    "Ada's",
    "--public-url",
    "https://shop.example.com/reviews",
];

/// The texts of all elements with this name.
fn elements<'feed>(feed: &'feed str, name: &str) -> Vec<&'feed str> {
    let begin = format!("<{name}>");
    let end = format!("</{name}>");
    let mut texts = Vec::new();
    for rest in feed.split(&begin).skip(1) {
        texts.push(rest.split_once(&end).unwrap().0);
    }
    texts
}

#[tokio::test]
async fn a_feed_for_google_holds_each_published_comment_of_products_that_google_can_place() {
    let exporter = Exporter::with_comments(60).await;
    let lines = exporter.exported().await;
    let table = &exporter.stores.table;
    let details: ProductDetails =
        serde_json::from_str(r#"{"name": "A & b", "gtin": "4006381333931"}"#).unwrap();
    table
        .put_product(&product(PRODUCT), &details, |_| true)
        .await
        .unwrap();
    let mut published = Vec::new();
    let mut others = 0;
    for line in lines.lines() {
        let comment: Value = serde_json::from_str(line).unwrap();
        if comment["status"] != "published" {
            continue;
        }
        if comment["product"] == PRODUCT {
            published.push(comment["id"].as_str().unwrap().to_owned());
        } else {
            others += 1;
        }
    }
    assert!(published.len() > 10 && others > 10);

    let file = exporter.path("feed.xml");
    let ended = exporter.export_to(&file, &FEED).await.expect(0);
    let feed = fs::read_to_string(&file).unwrap();
    assert_eq!(elements(&feed, "review_id"), published);
    assert_eq!(elements(&feed, "version"), ["2.4"]);
    assert_eq!(elements(&feed, "publisher"), ["<name>Ada's</name>"]);
    let told =
        format!("left out {others} comments on products whose record has neither gtin nor sku");
    assert!(ended.stderr.contains(&told), "{ended:?}");
    // Without the address of the site, a review has none.
    exporter.export_to(&file, &FEED[..4]).await.expect(2);
    exporter.end().await;
}

#[tokio::test]
async fn an_export_holds_no_duplicates_and_nothing_else_of_the_table() {
    let exporter = Exporter::with_comments(40).await;
    exporter.stores.deliver_all().await;
    let lines = exporter.exported().await;
    let mode = fs::metadata(exporter.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
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
    // All in one shard, by the hash of a product: the one in the middle has more than an answer of
    // `primaries` names.
    let counts = [1, 2, 4_300, 600, 1];
    let names: Vec<String> = (0..)
        .map(|number| format!("p{number:04}"))
        .filter(|name| PrimariesKey::shard_of(&product(name)) == 7)
        .take(counts.len())
        .collect();
    let mut comments = Vec::new();
    for (name, count) in names.iter().zip(counts) {
        for number in 0..count {
            let mut comment = new_comment(&format!("{name}-{number}"), &product(name), "en", 3);
            comment.created_at = at_ms(1_000_000_000_000 + number / 3);
            comments.push(comment);
        }
    }
    exporter.stores.put_primary_items(comments).await;
    let lines = exporter.exported().await;
    for (name, count) in names.iter().zip(counts) {
        let mut of_product = field(&lines, "product");
        of_product.retain(|product| product == name);
        assert_eq!(of_product.len(), usize::try_from(count).unwrap());
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
    let whole_again = stores
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
    let body = AttributeValue::S("x".repeat(10_001));
    let fields = HashMap::from([("body".to_owned(), body)]);
    stores
        .break_primary_item(
            &long,
            attribute::COMMENT_BLOB,
            Some(AttributeValue::M(fields)),
        )
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
        let pk = format!("pk \"COMMENT#{id}\"");
        let sk = FilterKey::primary(data::product(product)).to_string();
        let sk = format!("{sk:?}");
        let mut lines: Vec<&str> = ended.stderr.lines().collect();
        lines.retain(|line| line.contains(&pk) && line.contains(&sk) && line.contains(what));
        assert_eq!(lines.len(), 1, "{id}, {product}, {what}: {ended:?}");
    }
    assert!(ended.stderr.contains("4 items need a person"), "{ended:?}");
    let lines = fs::read_to_string(exporter.file()).unwrap();
    let ids = field(&lines, "id");
    assert_eq!(ids.len(), 57);
    assert!(ids.contains(&long.to_string()));
    for id in [&blob, &keyless, &wrong] {
        assert!(!ids.contains(&id.to_string()), "{id}");
    }
    let feed = exporter.path("feed.xml");
    let ended = exporter.export_to(&feed, &FEED).await.expect(1);
    assert!(
        ended.stderr.contains("and 3 items cannot be read"),
        "{ended:?}"
    );
    assert!(!fs::exists(feed).unwrap());

    // An item that is right again is exported again.
    stores.put_raw(whole_again).await;
    let ended = exporter.export_to(&exporter.file(), &[]).await.expect(1);
    assert!(ended.stderr.contains("3 items need a person"), "{ended:?}");
    let lines = fs::read_to_string(exporter.file()).unwrap();
    assert!(field(&lines, "id").contains(&keyless.to_string()));
    exporter.end().await;
}

#[tokio::test]
async fn a_second_primary_item_of_an_id_is_exported_and_named() {
    let exporter = Exporter::start().await;
    let mut comments = Vec::new();
    for name in ["a", "b"] {
        let mut comment = new_comment("twice", &product(name), "en", 3);
        comment.status = Some(Status::Pending);
        comments.push(comment);
    }
    exporter.stores.put_primary_items(comments).await;
    let ended = exporter.export_to(&exporter.file(), &[]).await.expect(1);
    let says = "an import will refuse it: product \"a\" has a comment with this id";
    assert!(ended.stderr.contains(says), "{ended:?}");
    let lines = fs::read_to_string(exporter.file()).unwrap();
    assert_eq!(field(&lines, "product"), ["a", "b"]);
    // Both can be read, so a feed lacks nothing.
    let feed = exporter.path("feed.xml");
    let ended = exporter.export_to(&feed, &FEED).await.expect(1);
    assert!(ended.stderr.contains("1 items need a person"), "{ended:?}");
    assert!(fs::exists(feed).unwrap());
    exporter.end().await;
}
