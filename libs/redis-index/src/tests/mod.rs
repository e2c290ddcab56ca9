//! The blocks of a product on a real server. They are so small that a hundred comments fill several
//! groups.

mod cost;
mod damage;
mod list;

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use model::{
    CommentId, Language, Placement, ProductId, RankEntry, Rating, Timestamp,
    plan::{IndexEdit, index_edits},
};
use page_index::{Contents, IndexPart};
use process::StoreError;
use redis::FromRedisValue;
use tempfile::TempDir;

use crate::{
    RedisIndex, RedisIndexConfig, connect,
    connection::{Connection, Routed},
    keys::Keys,
    scripts::{Scripts, Sizes},
};

const SMALL: Sizes = Sizes {
    block_max: 4,
    closed: 3,
    group_max: 4,
    languages_max: 3,
};

/// A busy machine makes an answer late, not wrong.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server of its own, on a socket in its folder, and an index there.
struct OwnIndex {
    index: RedisIndex,
    server: Child,
    _folder: TempDir,
}

impl Drop for OwnIndex {
    fn drop(&mut self) {
        self.server.kill().expect("the server ends");
        self.server.wait().expect("the server has ended");
    }
}

/// Starts the server that PAGEMARK_REDIS_SERVER names, or else the first one that is installed.
fn spawn(socket: &Path) -> Child {
    let programs = match std::env::var_os("PAGEMARK_REDIS_SERVER") {
        Some(program) => vec![program],
        None => vec!["redis-server".into(), "valkey-server".into()],
    };
    let mut failures = Vec::new();
    for program in programs {
        let mut server = Command::new(&program);
        server.args(["--port", "0", "--save", "", "--unixsocket"]);
        match server.arg(socket).stdout(Stdio::null()).spawn() {
            Ok(server) => return server,
            Err(error) => failures.push(format!("{}: {error}", program.display())),
        }
    }
    panic!("{failures:?}; `make redis` installs a server, and PAGEMARK_REDIS_SERVER names another");
}

impl OwnIndex {
    async fn start(sizes: &Sizes) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("redis.sock");
        let server = spawn(&socket);
        let config = RedisIndexConfig::new(format!("unix://{}", socket.display()));
        let index = RedisIndex {
            connection: Connection::open(&config).unwrap(),
            keys: Keys::new("test", 1),
            scripts: Arc::new(Scripts::new(sizes)),
            timeout: PATIENCE,
        };
        let own = Self {
            index,
            server,
            _folder: folder,
        };
        own.wait_until_ready().await;
        own
    }

    async fn wait_until_ready(&self) {
        let began = Instant::now();
        loop {
            match self.try_ask::<String>("PING", "ready", &[]).await {
                Ok(_) => return,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn try_ask<T: FromRedisValue>(
        &self,
        command: &str,
        key: &str,
        arguments: &[&str],
    ) -> Result<T, StoreError> {
        let mut asked = Routed::new(command, key);
        for argument in arguments {
            asked = asked.arg(*argument);
        }
        self.index.ask(asked).await
    }

    /// The answer to a command that the product never sends.
    async fn ask<T: FromRedisValue>(&self, command: &str, key: &str, arguments: &[&str]) -> T {
        self.try_ask(command, key, arguments).await.unwrap()
    }

    /// The keys of the product, in the order of their names.
    async fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.ask("KEYS", "*PRODUCT#p/*", &[]).await;
        keys.sort_unstable();
        keys
    }

    async fn clear(&self) {
        self.ask::<()>("FLUSHDB", "SYNC", &[]).await;
    }

    /// What an index scan finds wrong, and the number of comments that it finds.
    async fn scan(&self) -> (Vec<IndexPart>, usize) {
        let mut position = self.index.begin_index_scan().await.unwrap();
        let mut wrong = Vec::new();
        let mut comments = 0;
        while let Some(part) = self.index.next_index_part(&mut position).await.unwrap() {
            match part {
                IndexPart::Entries(entries) => comments += entries.len(),
                IndexPart::Products(..) | IndexPart::Nothing => {}
                IndexPart::Miscounted(_) | IndexPart::Unknown(_) | IndexPart::Unreadable(..) => {
                    wrong.push(part);
                }
            }
        }
        (wrong, comments)
    }
}

fn product() -> ProductId {
    ProductId::parse("p").unwrap()
}

fn key(part: &str) -> String {
    Keys::new("test", 1).of_product(&product(), part)
}

fn id(text: &str) -> CommentId {
    CommentId::parse(text).unwrap()
}

fn entry(created_ms: i64, language: &str, rating: u64) -> RankEntry {
    RankEntry {
        placement: Placement {
            product: product(),
            language: Language::parse_stored(language).unwrap(),
            rating: Rating::new(rating).unwrap(),
        },
        created_at: Timestamp::from_epoch_ms(created_ms).unwrap(),
    }
}

/// More languages than have counts of their own.
const LANGUAGES: [&str; 5] = ["en", "fr", "de-1901", "x-1", "zh-Hant-TW"];

fn numbered(number: i64) -> RankEntry {
    let of_number = usize::try_from(number).unwrap() % LANGUAGES.len();
    entry(number, LANGUAGES[of_number], 5)
}

/// Edits that add comments of five stars: `c0005` in English at 5 ms, and so on.
fn additions(numbers: std::ops::Range<i64>) -> Vec<IndexEdit> {
    let mut edits = Vec::new();
    for number in numbers {
        let of_comment = numbered(number);
        edits.extend(index_edits(
            &id(&format!("c{number:04}")),
            Some(&of_comment),
            &[],
        ));
    }
    edits
}

/// Edits that remove them.
fn removals(numbers: std::ops::Range<i64>) -> Vec<IndexEdit> {
    let mut edits = Vec::new();
    for number in numbers {
        let of_comment = numbered(number);
        edits.extend(index_edits(
            &id(&format!("c{number:04}")),
            None,
            &[of_comment],
        ));
    }
    edits
}

/// "Connection refused" alone does not say what an operator has to start.
#[tokio::test]
async fn an_error_of_a_server_that_does_not_answer_says_where_it_should_be() {
    let config = RedisIndexConfig::new("redis://user:secret@127.0.0.1:1");
    let said = connect(&config)
        .unwrap()
        .ping()
        .await
        .unwrap_err()
        .to_string();
    assert!(said.contains("Redis at 127.0.0.1:1: "), "{said}");
    assert!(!said.contains("secret"), "{said}");
}
