//! The engine as the AWS SDK sees it, on a file in a temporary folder.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use aws_sdk_dynamodbstreams::types::{Record, ShardIteratorType};
use futures_util::FutureExt;
use rusqlite::Connection;
use table::{Table, TableConfig};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use super::Engine;
use crate::{
    backlog::MappingProgress,
    event_source_mapping::{MappingState, streams_client},
    trim::trim,
};

const TABLE: &str = "comments";

/// After this time, a test gives up.
const WAIT_MAX: Duration = Duration::from_secs(60);

fn any_free_port() -> Option<SocketAddr> {
    Some(([127, 0, 0, 1], 0).into())
}

/// A folder for data files. Removed after the engine has ended.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn data_file(&self) -> PathBuf {
        self.file("data.db")
    }

    fn free_pages(&self) -> u32 {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let connection = Connection::open_with_flags(self.data_file(), flags).unwrap();
        connection
            .query_one("PRAGMA freelist_count", [], |row| row.get(0))
            .unwrap()
    }

    async fn start(&self) -> anyhow::Result<Engine> {
        Engine::start(&self.data_file(), any_free_port()).await
    }

    async fn start_with_table(&self) -> (Engine, Clients) {
        let engine = self.start().await.unwrap();
        let config = TableConfig::new(TABLE, Some(engine.endpoint_url().unwrap()));
        let table = Table::connect_through(&config, engine.http_client()).await;
        let stream_arn = table.create_if_missing().await.unwrap().stream_arn.unwrap();
        let streams = streams_client(&engine.endpoint_url().unwrap(), engine.http_client()).await;
        (
            engine,
            Clients {
                table,
                stream_arn,
                streams,
            },
        )
    }
}

struct Clients {
    table: Table,
    stream_arn: String,
    streams: aws_sdk_dynamodbstreams::Client,
}

impl Clients {
    async fn put(&self, pk: &str, more: &[(&str, AttributeValue)]) {
        let put = self.table.client().put_item().table_name(TABLE);
        let mut put = put
            .item("pk", AttributeValue::S(pk.to_owned()))
            .item("sk", AttributeValue::S("x".to_owned()));
        for (name, value) in more {
            put = put.item(*name, value.clone());
        }
        put.send().await.unwrap();
    }

    /// Puts 600 versions of 20 KB of one item, and returns the sequence number of the last one.
    async fn put_long_versions(&self) -> String {
        let long = AttributeValue::S("x".repeat(20_000));
        for number in 0..600 {
            // Each version is in the stream twice: as the new image, and as the next record's old
            // one.
            self.put(
                "one",
                &[
                    ("number", AttributeValue::N(number.to_string())),
                    ("text", long.clone()),
                ],
            )
            .await;
        }
        number_of(self.read_all().await.last().unwrap())
    }

    async fn put_many(&self, numbers: std::ops::Range<usize>) {
        let numbers: Vec<usize> = numbers.collect();
        for batch in numbers.chunks(25) {
            let requests = batch
                .iter()
                .map(|number| {
                    let put = PutRequest::builder()
                        .item("pk", AttributeValue::S(format!("{number:06}")))
                        .item("sk", AttributeValue::S("x".to_owned()))
                        .build()
                        .unwrap();
                    WriteRequest::builder().put_request(put).build()
                })
                .collect();
            self.table
                .client()
                .batch_write_item()
                .request_items(TABLE, requests)
                .send()
                .await
                .unwrap();
        }
    }

    /// A reader that has read nothing yet.
    async fn iterator(&self, of: ShardIteratorType, number: Option<&str>) -> Option<String> {
        let stream = self
            .streams
            .describe_stream()
            .stream_arn(&self.stream_arn)
            .send()
            .await
            .unwrap();
        let shard_id = stream.stream_description.unwrap().shards.unwrap()[0]
            .shard_id
            .clone()
            .unwrap();
        let request = self
            .streams
            .get_shard_iterator()
            .stream_arn(&self.stream_arn)
            .shard_id(shard_id);
        let request = request
            .shard_iterator_type(of)
            .set_sequence_number(number.map(str::to_owned));
        request.send().await.unwrap().shard_iterator
    }

    /// The next records, and the reader behind them.
    async fn read(&self, iterator: Option<String>, limit: i32) -> (Vec<Record>, Option<String>) {
        let answer = self
            .streams
            .get_records()
            .set_shard_iterator(iterator)
            .limit(limit)
            .send()
            .await
            .unwrap();
        (
            answer.records.unwrap_or_default(),
            answer.next_shard_iterator,
        )
    }

    async fn read_all(&self) -> Vec<Record> {
        let mut iterator = self.iterator(ShardIteratorType::TrimHorizon, None).await;
        let mut all = Vec::new();
        loop {
            let (records, next) = self.read(iterator, 1000).await;
            if records.is_empty() {
                return all;
            }
            all.extend(records);
            iterator = next;
        }
    }
}

fn number_of(record: &Record) -> String {
    record
        .dynamodb
        .as_ref()
        .unwrap()
        .sequence_number
        .clone()
        .unwrap()
}

fn key_of(record: &Record) -> String {
    let keys = record.dynamodb.as_ref().unwrap().keys.as_ref().unwrap();
    keys["pk"].as_s().unwrap().clone()
}

#[tokio::test]
async fn a_reader_goes_on_right_after_a_trim() {
    let folder = Folder::new();
    let (engine, clients) = folder.start_with_table().await;
    clients.put_many(0..2_000).await;
    assert_eq!(
        engine.pending_stream_records(TABLE, None).await.unwrap(),
        2_000
    );

    let iterator = clients.iterator(ShardIteratorType::TrimHorizon, None).await;
    let (records, iterator) = clients.read(iterator, 1000).await;
    assert_eq!(records.len(), 1000);
    let last_read = number_of(records.last().unwrap());

    // More than one chunk, so that the loop runs more than once.
    assert_eq!(engine.trim_stream(TABLE, &last_read).await.unwrap(), 1000);
    assert_eq!(
        engine.trim_stream(TABLE, &last_read).await.unwrap(),
        0,
        "a trim is repeatable"
    );
    assert_eq!(
        engine.pending_stream_records(TABLE, None).await.unwrap(),
        1000
    );
    assert_eq!(
        engine
            .pending_stream_records(TABLE, Some(&last_read))
            .await
            .unwrap(),
        1000
    );

    // The reader that stands at the trimmed record, a new one there, and one from the beginning see
    // the same record.
    let (records, _) = clients.read(iterator, 1).await;
    assert_eq!(key_of(&records[0]), "001000");
    let after = clients
        .iterator(ShardIteratorType::AfterSequenceNumber, Some(&last_read))
        .await;
    assert_eq!(key_of(&clients.read(after, 1).await.0[0]), "001000");
    let first = clients.iterator(ShardIteratorType::TrimHorizon, None).await;
    assert_eq!(key_of(&clients.read(first, 1).await.0[0]), "001000");
    // A reader that fell behind the trim gets what remains.
    let (before, _) = clients
        .read(
            clients.iterator(ShardIteratorType::TrimHorizon, None).await,
            1000,
        )
        .await;
    assert_eq!(before.len(), 1000);
    engine.stop().await;
}

#[tokio::test]
async fn sequence_numbers_grow_after_a_trim_and_a_restart() {
    let folder = Folder::new();
    let (engine, clients) = folder.start_with_table().await;
    clients.put_many(0..30).await;
    let newest = number_of(clients.read_all().await.last().unwrap());

    assert_eq!(
        engine.trim_stream(TABLE, &newest).await.unwrap(),
        29,
        "the newest record stays"
    );
    let remaining = clients.read_all().await;
    assert_eq!(
        remaining.iter().map(number_of).collect::<Vec<_>>(),
        std::slice::from_ref(&newest)
    );
    engine.stop().await;

    // As if the clock had been set back by a year: without this, the engine would continue from the
    // clock.
    let later = 365 * 24 * 3600 * 1_000_000_i64;
    let ahead =
        "UPDATE _stream_records SET sequence_number = CAST(sequence_number AS INTEGER) + ?1";
    Connection::open(folder.data_file())
        .unwrap()
        .execute(ahead, [later])
        .unwrap();

    let (engine, clients) = folder.start_with_table().await;
    let newest_ahead = number_of(&clients.read_all().await[0]);
    assert!(newest_ahead > newest);
    clients.put("later", &[]).await;
    let records = clients.read_all().await;
    assert_eq!(records.len(), 2);
    assert_eq!(key_of(&records[1]), "later");
    assert!(
        number_of(&records[1]) > newest_ahead,
        "21 digits, so the order of texts is that of numbers"
    );
    assert_eq!(
        engine
            .pending_stream_records(TABLE, Some(&newest_ahead))
            .await
            .unwrap(),
        1
    );
    engine.stop().await;
}

/// Without the lock, a write or a trim is done before so many reads are.
async fn read_many_times(clients: &Clients) {
    for _ in 0..50 {
        clients.read_all().await;
    }
}

/// Each of them would corrupt the file one day: SQLite's WAL-reset bug.
#[tokio::test]
async fn the_second_connection_and_requests_that_write_wait_for_each_other() {
    let folder = Folder::new();
    let (engine, clients) = folder.start_with_table().await;
    clients.put_many(0..25).await;
    let newest = number_of(clients.read_all().await.last().unwrap());
    let alone = engine.write_lock.second_connection().await;
    let mut put = pin!(clients.put("waits", &[]));
    tokio::select! {
        () = &mut put => panic!("a write was answered while the second connection wrote"),
        () = read_many_times(&clients) => drop(alone),
    }
    put.await;

    for work in ["trim", "free pages"] {
        let request = engine.write_lock.request().await;
        let mut upkeep = pin!(async {
            match work {
                "trim" => drop(engine.trim_stream(TABLE, &newest).await.unwrap()),
                _ => engine.release_free_pages().await.unwrap(),
            }
        });
        tokio::select! {
            () = &mut upkeep => panic!("{work} while a request wrote"),
            () = read_many_times(&clients) => drop(request),
        }
        upkeep.await;
    }
    engine.stop().await;
}

/// SQLite writes a heading above what it finds in a tree.
#[tokio::test]
async fn a_damaged_tree_is_named_in_one_line() {
    let folder = Folder::new();
    folder.start_with_table().await.0.stop().await;
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = '_stream_records'";
    let page: u64 = Connection::open(folder.data_file())
        .unwrap()
        .query_one(root, [], |row| row.get(0))
        .unwrap();
    let mut content = std::fs::read(folder.data_file()).unwrap();
    content[(usize::try_from(page).unwrap() - 1) * 4_096] = 0xff;
    std::fs::write(folder.data_file(), content).unwrap();
    let refused = folder.start().await.map(drop).unwrap_err().to_string();
    assert!(
        refused.contains("Tree") && refused.lines().count() == 1,
        "{refused}"
    );
}

#[tokio::test]
async fn the_file_gets_shorter_after_a_trim_and_keeps_what_it_holds() {
    let folder = Folder::new();
    let (engine, clients) = folder.start_with_table().await;
    let newest = clients.put_long_versions().await;
    assert_eq!(engine.trim_stream(TABLE, &newest).await.unwrap(), 599);
    let free_before = folder.free_pages();
    assert!(
        free_before > 2_000,
        "more than one chunk, and more than is kept: {free_before}"
    );

    engine.release_free_pages().await.unwrap();
    assert_eq!(folder.free_pages(), 1_024, "some stay for the next records");
    let size = std::fs::metadata(folder.data_file()).unwrap().len();
    assert!(
        size < 2 * 1_024 * 4_096,
        "the file itself is shorter: {size}"
    );
    assert_eq!(clients.read_all().await.len(), 1);
    clients.put("two", &[]).await;
    engine.stop().await;

    let (engine, clients) = folder.start_with_table().await;
    let records = clients.read_all().await;
    assert_eq!(
        records.iter().map(key_of).collect::<Vec<_>>(),
        ["one", "two"]
    );
    let check = "PRAGMA integrity_check";
    let connection = Connection::open(folder.data_file()).unwrap();
    assert_eq!(
        connection
            .query_one(check, [], |row| row.get::<_, String>(0))
            .unwrap(),
        "ok"
    );
    engine.stop().await;
}

#[tokio::test]
async fn the_stack_gives_room_back_when_both_mappings_have_caught_up() {
    let folder = Folder::new();
    let (engine, clients) = folder.start_with_table().await;
    let newest = clients.put_long_versions().await;
    let engine = Arc::new(engine);
    let states = [(); 2].map(|()| watch::Sender::new(MappingState::default()));
    let progress = MappingProgress::of(
        states.each_ref().map(watch::Sender::subscribe),
        None,
        Arc::default(),
    );
    let trimming = trim(Arc::clone(&engine), TABLE.to_owned(), progress);
    let mappings = async {
        for state in &states {
            state.send_modify(|state| state.processed = Some(newest.clone()));
        }
        while engine.pending_stream_records(TABLE, None).await.unwrap() > 1 {
            tokio::task::yield_now().await;
        }
        assert!(
            folder.free_pages() > 2_000,
            "there may soon be more records"
        );
        while folder.free_pages() > 1_024 {
            for state in &states {
                state.send_modify(|state| state.caught_up_at = Some(tokio::time::Instant::now()));
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = trimming => unreachable!("it trims for ever"),
        done = tokio::time::timeout(WAIT_MAX, mappings) => {
            assert!(done.is_ok(), "{} pages are free", folder.free_pages());
        }
    }
}

#[tokio::test]
async fn a_file_of_an_older_version_keeps_its_free_pages() {
    let folder = Folder::new();
    dynoxide::Database::new(folder.data_file().to_str().unwrap()).unwrap();
    let (engine, clients) = folder.start_with_table().await;
    clients.put("one", &[]).await;
    engine.release_free_pages().await.unwrap();
    assert_eq!(clients.read_all().await.len(), 1);
    engine.stop().await;
}

/// Whether something was announced since the last call.
fn is_announced(writes: &mut watch::Receiver<()>) -> bool {
    let is_changed = writes.has_changed().unwrap();
    writes.mark_unchanged();
    is_changed
}

#[tokio::test]
async fn every_write_is_announced_before_its_answer_and_no_read_is() {
    let folder = Folder::new();
    let (engine, clients) = folder.start_with_table().await;
    let mut writes = engine.writes();
    clients.put("single", &[]).await;
    assert!(is_announced(&mut writes), "a write");
    clients.put_many(0..25).await;
    assert!(is_announced(&mut writes), "a batch");
    engine.sweep_expired_items().await.unwrap();
    assert!(is_announced(&mut writes), "a sweep");
    assert_eq!(clients.read_all().await.len(), 26);
    clients.table.describe().await.unwrap();
    let key = [("pk", "single"), ("sk", "x")]
        .map(|(name, value)| (name.to_owned(), AttributeValue::S(value.to_owned())));
    let get = clients
        .table
        .client()
        .get_item()
        .table_name(TABLE)
        .set_key(Some(key.into()));
    assert!(get.send().await.unwrap().item.is_some());
    assert!(
        !is_announced(&mut writes),
        "mappings that poll must not wake each other"
    );
    engine.stop().await;
}

#[tokio::test]
async fn a_write_whose_caller_goes_away_is_carried_out_and_announced() {
    let folder = Folder::new();
    let (engine, clients) = folder.start_with_table().await;
    let mut writes = engine.writes();
    writes.mark_unchanged();
    let alone = engine.write_lock.second_connection().await;
    let item = r#"{"TableName": "comments", "Item": {"pk": {"S": "one"}, "sk": {"S": "x"}}}"#;
    let put = Arc::clone(&engine.calls).call("PutItem".to_owned(), item.into());
    assert!(put.now_or_never().is_none());
    drop(alone);
    tokio::time::timeout(WAIT_MAX, writes.changed())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(clients.read_all().await.len(), 1);
    engine.stop().await;
}

async fn ask(engine: &Engine, operation: &str, body: &'static str) -> (u16, Vec<u8>) {
    Arc::clone(&engine.calls)
        .call(operation.to_owned(), body.into())
        .await
        .unwrap()
}

#[tokio::test]
async fn a_kept_description_is_given_until_a_table_may_have_changed() {
    let folder = Folder::new();
    let engine = folder.start().await.unwrap();
    let asked = r#"{"TableName": "comments"}"#;
    let kept = (200, b"kept".to_vec());
    engine
        .calls
        .descriptions
        .lock()
        .insert(asked.into(), (kept.clone(), Instant::now() + WAIT_MAX));
    for other in ["ListTables", "PutItem"] {
        ask(&engine, other, "{}").await;
        assert_eq!(ask(&engine, "DescribeTable", asked).await, kept, "{other}");
    }
    // Refused or not: the table may have changed. So the engine is asked, and it refuses.
    ask(&engine, "UpdateTable", "{}").await;
    assert_eq!(ask(&engine, "DescribeTable", asked).await.0, 400);
    engine.stop().await;
}

#[tokio::test]
async fn an_answered_write_has_waited_for_the_disk_and_a_read_has_not() {
    let folder = Folder::new();
    let (engine, clients) = folder.start_with_table().await;
    for _ in 0..3 {
        let waited = engine.calls.disk.waited().await;
        clients.put("one", &[]).await;
        assert_eq!(engine.calls.disk.waited().await, waited + 1);
        clients.read_all().await;
        assert_eq!(engine.calls.disk.waited().await, waited + 1);
    }
}

#[tokio::test]
async fn a_taken_port_is_one_clear_line() {
    let folder = Folder::new();
    let engine = folder.start().await.unwrap();
    let error = Engine::start(&folder.file("other.db"), engine.address())
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with(&format!("{} is in use; ", engine.address().unwrap())),
        "{error:?}"
    );
    assert_eq!(error.to_string().lines().count(), 1);
    assert!(!folder.file("other.db").exists(), "nothing was touched");
}

#[tokio::test]
async fn a_data_file_has_one_engine_at_a_time() {
    let folder = Folder::new();
    let (engine, clients) = folder.start_with_table().await;
    let error = folder.start().await.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("is in use by another running stack"),
        "{error:?}"
    );
    drop(engine);
    assert!(
        !folder.file("data.db-wal").exists(),
        "the last connection is closed, although a client is left"
    );
    clients.table.describe().await.unwrap_err();
    folder
        .start()
        .await
        .expect("free after a drop")
        .stop()
        .await;
    folder
        .start()
        .await
        .expect("free after a stop")
        .stop()
        .await;
}

#[tokio::test]
async fn a_foreign_file_is_refused_and_left_as_it_was() {
    let folder = Folder::new();
    let text = folder.file("notes.txt");
    std::fs::write(
        &text,
        "not a database, but long enough to look like one: ".repeat(50),
    )
    .unwrap();
    let other = folder.file("other.db");
    Connection::open(&other)
        .unwrap()
        .execute_batch("CREATE TABLE bookmarks (url TEXT)")
        .unwrap();
    for path in [&text, &other] {
        let before = std::fs::read(path).unwrap();
        let error = Engine::start(path, any_free_port()).await.unwrap_err();
        assert!(
            error.to_string().ends_with("it was left untouched"),
            "{error:?}"
        );
        assert_eq!(std::fs::read(path).unwrap(), before);
    }
    let error = Engine::start(&folder.file("nowhere/data.db"), any_free_port())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}

/// The engine's two hot queries, and the index that must serve each. The first finds the next
/// record's number, on every write. The second reads the records after a position, on every
/// `GetRecords`.
const ENGINE_QUERIES: [(&str, &str); 2] = [
    (
        "SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) + 1 FROM _stream_records WHERE table_name = ?1",
        "pagemark_stream_by_table",
    ),
    (
        "SELECT event_name, keys_json, new_image, old_image, sequence_number, created_at, user_identity, event_id
         FROM _stream_records
         WHERE table_name = ?1 AND shard_id = ?2 AND CAST(sequence_number AS INTEGER) > ?3
         ORDER BY CAST(sequence_number AS INTEGER) ASC LIMIT ?4",
        "pagemark_stream_by_shard",
    ),
];

fn texts_of(connection: &Connection, query: &str, column: &str) -> Vec<String> {
    // A plan ignores the values, so the parameters stay unbound.
    let mut statement = connection.prepare(query).unwrap();
    let rows = statement.raw_query();
    rows.mapped(|row| row.get(column))
        .collect::<rusqlite::Result<_>>()
        .unwrap()
}

fn plan_of(connection: &Connection, query: &str) -> String {
    let explain = format!("EXPLAIN QUERY PLAN {query}");
    texts_of(connection, &explain, "detail").join("; ")
}

#[tokio::test]
async fn the_indexes_serve_the_engines_own_queries() {
    let folder = Folder::new();
    let (engine, clients) = folder.start_with_table().await;
    clients.put_many(0..100).await;
    let connection = Connection::open(folder.data_file()).unwrap();
    let columns = "SELECT name || ' ' || type AS shown FROM pragma_table_info('_stream_records') ORDER BY cid";
    let columns = texts_of(&connection, columns, "shown").join(", ");
    assert_eq!(
        columns,
        "id INTEGER, table_name TEXT, event_name TEXT, keys_json TEXT, new_image TEXT, old_image TEXT, sequence_number TEXT, \
         shard_id TEXT, created_at INTEGER, user_identity TEXT, event_id TEXT"
    );
    for (query, index) in ENGINE_QUERIES {
        let plan = plan_of(&connection, query);
        // It searches the index in the required order: no scan and no sort.
        let is_search = plan.starts_with("SEARCH _stream_records USING")
            && plan.contains(&format!("INDEX {index} ("));
        assert!(is_search && !plan.contains("TEMP B-TREE"), "{plan}");
    }
    connection
        .execute_batch("DROP INDEX pagemark_stream_by_table")
        .unwrap();
    let without = plan_of(&connection, ENGINE_QUERIES[0].0);
    assert!(
        !without.contains("pagemark_stream_by_table"),
        "the check can fail: {without}"
    );
    engine.stop().await;
}

#[tokio::test]
async fn a_sequence_number_that_was_never_given_out_is_refused() {
    let folder = Folder::new();
    let engine = folder.start().await.unwrap();
    for text in ["", "5", "-1", "abc", "999999999999999999999999999999"] {
        let error = engine.trim_stream(TABLE, text).await.unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("is not a sequence number of this engine"),
            "{text}: {error:?}"
        );
    }
}

/// Sends bytes and reads everything until the engine closes the connection.
async fn exchange(engine: &Engine, bytes: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(engine.address().unwrap())
        .await
        .unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.to_ascii_lowercase()
}

/// A request with other lines of a head.
fn list_tables(lines: &str) -> String {
    format!(
        "POST / HTTP/1.1\r\n{lines}X-Amz-Target: DynamoDB_20120810.ListTables\r\nContent-Length: 2\r\n\r\n{{}}"
    )
}

/// A request to a host, with more lines of a head.
fn list_tables_of(host: &str, more: &str) -> String {
    list_tables(&format!("Host: {host}\r\nConnection: close\r\n{more}"))
}

#[tokio::test]
async fn what_a_web_page_can_send_is_refused_without_a_permission_to_read_the_answer() {
    let folder = Folder::new();
    let (engine, _) = folder.start_with_table().await;
    let port = engine.address().unwrap().port();
    let preflight = format!(
        "OPTIONS / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:8080\r\nConnection: close\r\n\
         Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-amz-target\r\n\r\n"
    );
    let local = format!("127.0.0.1:{port}");
    for refused in [
        preflight.clone(),
        list_tables_of(&local, "Origin: http://127.0.0.1:8080\r\n"),
        list_tables_of(&local, "Origin: null\r\n"),
        list_tables_of("evil.example", ""),
        list_tables_of(&format!("localhost.evil.example:{port}"), ""),
        list_tables_of(&local, "Host: evil.example\r\n"),
        list_tables("Connection: close\r\n"),
    ] {
        let answer = exchange(&engine, &refused).await;
        assert!(answer.starts_with("http/1.1 403 "), "{refused}\n{answer}");
        assert!(
            !answer.contains("access-control-") && !answer.contains(TABLE),
            "{refused}\n{answer}"
        );
    }
    let without_origin = preflight.replace("Origin: http://127.0.0.1:8080\r\n", "");
    assert!(
        !exchange(&engine, &without_origin)
            .await
            .contains("access-control-")
    );
    for host in [local, format!("localhost:{port}"), format!("[::1]:{port}")] {
        let answer = exchange(&engine, &list_tables_of(&host, "")).await;
        assert!(
            answer.starts_with("http/1.1 200 ") && answer.contains(TABLE),
            "{answer}"
        );
    }
    engine.stop().await;
}
