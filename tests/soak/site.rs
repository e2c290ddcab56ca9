//! The processes of a soak: `pagemark up`, which is killed and started again, and its Redis.

use std::{
    fs,
    path::{Path, PathBuf},
    pin::pin,
    sync::Mutex,
    time::Duration,
};

use local_stack::{engine::Engine, settings::TABLE};
use rand::{RngExt, rngs::StdRng};
use redis_index::RedisIndexConfig;
use table::{Table, TableConfig};
use tempfile::TempDir;
use tokio::{
    sync::Mutex as AsyncMutex,
    time::{Instant, timeout},
};

use super::{disk::Disk, line::Line, tally::Tally};
use crate::fixture::{
    engine::PATIENT_CALLS,
    http::{Http, WRITE_TOKEN},
    pagemark::{self, address_of, starting_api},
    program::{Ended, Program},
    redis_server::OwnRedis,
    wait_for,
};

/// How long a start may be refused: longer than any fault of its disk or its Redis.
const START_WITHIN: Duration = Duration::from_secs(120);

/// How long a command may take. An audit of an unoptimised build takes a minute on a busy machine.
const COMMAND_WITHIN: Duration = Duration::from_secs(600);

/// How long a refused start waits, as systemd does.
const START_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// When a comment counts for archive pages, and the same in the words of an option.
pub(super) const ARCHIVED_AFTER: Duration = Duration::from_secs(3);
const ARCHIVED_AFTER_S: &str = "3";

/// Where Debian and Fedora put libfaketime.
const FAKETIME: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// What the table calls a life whose clock is a day behind.
pub(super) const CLOCK_BACK: &str = "fault: clock a day back";

/// The ranks as Redis last wrote them to its disk.
const DUMP: &str = "dump.rdb";

/// How the stack of a round runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Life {
    /// The engine is another process than the API, behind a line.
    pub(super) engine_is_apart: bool,
    /// Its clock is a day behind.
    pub(super) clock_is_back: bool,
}

impl Life {
    pub(super) fn draw(random: &mut StdRng) -> Self {
        Self {
            engine_is_apart: random.random_ratio(1, 4),
            clock_is_back: random.random_ratio(1, 5),
        }
    }
}

/// An engine outside the stack. The stack's own folder has no data then.
struct Apart {
    engine: Engine,
    line: Line,
    folder: TempDir,
}

struct Stack {
    process: Program,
    apart: Option<Apart>,
    life: Life,
}

pub(super) struct Site {
    pub(super) redis: OwnRedis,
    redis_folder: PathBuf,
    pub(super) redis_line: Line,
    stack: AsyncMutex<Option<Stack>>,
    /// Where the stack answers; `None` while it is down.
    api: Mutex<Option<Http>>,
    faketime: Option<&'static str>,
    log: Mutex<String>,
    // Unmounted after the processes have ended.
    pub(super) disk: Disk,
}

impl Site {
    pub(super) async fn new() -> Self {
        let redis = OwnRedis::start().await;
        let redis_folder = redis.ask::<Vec<String>>("CONFIG GET dir").await.remove(1);
        let faketime = FAKETIME.into_iter().find(|path| Path::new(path).exists());
        if faketime.is_none() {
            println!("soak: no clock will be a day back, because libfaketime is not installed");
        }
        let disk = Disk::new();
        fs::create_dir(disk.path().join("data")).unwrap();
        Self {
            redis_line: Line::to(&redis.server.url()).await,
            redis,
            redis_folder: redis_folder.into(),
            stack: AsyncMutex::default(),
            api: Mutex::default(),
            faketime,
            log: Mutex::default(),
            disk,
        }
    }

    pub(super) fn api(&self) -> Option<Http> {
        self.api.lock().unwrap().clone()
    }

    fn data(&self) -> PathBuf {
        self.disk.path().join("data")
    }

    /// Begins a life of the stack, after the last one.
    pub(super) async fn begin(&self, life: Life, is_killed: bool, tally: &Tally) {
        self.end(is_killed, tally).await;
        let life = Life {
            clock_is_back: life.clock_is_back && self.faketime.is_some(),
            ..life
        };
        if life.clock_is_back {
            tally.add(CLOCK_BACK, 1);
        }
        let apart = if life.engine_is_apart {
            tally.add("lives with the engine apart", 1);
            let any_port = Some("127.0.0.1:0".parse().unwrap());
            let data_file = self.data().join("dynamodb.sqlite");
            let engine = Engine::start(&data_file, any_port).await.unwrap();
            let line = Line::to(&engine.endpoint_url().unwrap()).await;
            let folder = tempfile::tempdir().unwrap();
            Some(Apart {
                engine,
                line,
                folder,
            })
        } else {
            None
        };
        let process = self.start(life, apart.as_ref(), tally).await;
        *self.stack.lock().await = Some(Stack {
            process,
            apart,
            life,
        });
    }

    /// Ends the life of the stack, if there is one.
    async fn end(&self, is_killed: bool, tally: &Tally) {
        let Some(stack) = self.stack.lock().await.take() else {
            return;
        };
        *self.api.lock().unwrap() = None;
        self.end_process(stack.process, is_killed, tally).await;
        if let Some(apart) = stack.apart {
            apart.engine.stop().await;
        }
    }

    async fn end_process(&self, process: Program, is_killed: bool, tally: &Tally) {
        let ended = if is_killed {
            tally.add("fault: kill -9 of pagemark", 1);
            process.kill().await
        } else {
            tally.add("fault: orderly stop of pagemark", 1);
            process.signal("INT");
            process.end().await
        };
        self.keep(&ended);
        assert!(is_killed || ended.status.success(), "{ended:?}");
    }

    /// Keeps what a process has said. A check of its own (`debug_assert!`) may have ended a task alone.
    fn keep(&self, ended: &Ended) {
        assert!(
            !ended.stderr.contains("panicked at"),
            "pagemark has panicked: {ended:?}"
        );
        let mut log = self.log.lock().unwrap();
        *log = format!("{}\n--- {}\n", ended.stderr, ended.status);
    }

    /// What the last processes have said.
    pub(super) fn said(&self) -> String {
        let last = self.log.lock().unwrap().clone();
        let now = match self.stack.try_lock() {
            Ok(stack) => stack.as_ref().map(|stack| stack.process.stderr()),
            Err(_) => None,
        };
        format!("{last}{}", now.unwrap_or_default())
    }

    /// Starts the process, again if it refuses: its Redis may be down, or its disk full.
    async fn start(&self, life: Life, apart: Option<&Apart>, tally: &Tally) -> Program {
        let data = self.data();
        let folder = match apart {
            Some(apart) => apart.folder.path(),
            None => data.as_path(),
        };
        let engine_url = apart
            .map(|apart| apart.line.url.clone())
            .unwrap_or_default();
        let mut options = vec!["--data-dir", folder.to_str().unwrap()];
        options.extend(["--redis-url", &self.redis_line.url]);
        options.extend(["--write-token", WRITE_TOKEN, "--demo", "0"]);
        options.extend(["--repair-every", "3", "--audit-every", "10"]);
        options.extend(["--archive-after", ARCHIVED_AFTER_S]);
        if apart.is_some() {
            options.extend(["--dynamodb-url", &engine_url]);
        }
        let shell = match self.faketime {
            Some(library) if life.clock_is_back => {
                format!("export LD_PRELOAD={library} FAKETIME=-1d FAKETIME_DONT_FAKE_MONOTONIC=1;")
            }
            _ => String::new(),
        };
        let began = Instant::now();
        loop {
            let mut process = pagemark::up_after(&shell, &options).await;
            let api = wait_for("the start of pagemark up", async || {
                let stderr = process.stderr();
                match starting_api(&stderr) {
                    Some(api) => Ok(Some(api)),
                    None if process.status().is_some() => Ok(None),
                    None => Err(stderr),
                }
            })
            .await;
            if let Some(api) = api {
                *self.api.lock().unwrap() = Some(api);
                tally.add("starts of pagemark", 1);
                return process;
            }
            let ended = process.end().await;
            self.keep(&ended);
            let may_start_later = ended.code() == 1 && began.elapsed() < START_WITHIN;
            assert!(may_start_later, "it does not start: {ended:?}");
            tally.add("starts refused while Redis was down or the disk full", 1);
            tokio::time::sleep(START_AGAIN_AFTER).await;
        }
    }

    /// Ends the process, and starts it again.
    pub(super) async fn restart(&self, is_killed: bool, down: Duration, tally: &Tally) {
        let mut guard = self.stack.lock().await;
        let stack = guard.take().expect("the stack has begun");
        *guard = Some(self.restarted(stack, is_killed, down, tally).await);
    }

    async fn restarted(
        &self,
        stack: Stack,
        is_killed: bool,
        down: Duration,
        tally: &Tally,
    ) -> Stack {
        *self.api.lock().unwrap() = None;
        self.end_process(stack.process, is_killed, tally).await;
        tokio::time::sleep(down).await;
        let process = self.start(stack.life, stack.apart.as_ref(), tally).await;
        Stack { process, ..stack }
    }

    /// Corrects the clock of the stack, which takes a restart.
    pub(super) async fn correct_clock(&self, tally: &Tally) {
        let mut guard = self.stack.lock().await;
        let mut stack = guard.take().expect("the stack has begun");
        if stack.life.clock_is_back {
            stack.life.clock_is_back = false;
            stack = self.restarted(stack, false, Duration::ZERO, tally).await;
        }
        *guard = Some(stack);
    }

    pub(super) async fn clock_is_back(&self) -> bool {
        let guard = self.stack.lock().await;
        guard.as_ref().is_some_and(|stack| stack.life.clock_is_back)
    }

    pub(super) async fn signal(&self, name: &str) {
        if let Some(stack) = &*self.stack.lock().await {
            stack.process.signal(name);
        }
    }

    /// Whether the process has ended without being asked to.
    pub(super) async fn has_ended_unasked(&self) -> bool {
        match &mut *self.stack.lock().await {
            Some(stack) => stack.process.status().is_some(),
            None => false,
        }
    }

    /// The line to the engine; `None` for one inside the stack.
    pub(super) async fn engine_line(&self) -> Option<Line> {
        let guard = self.stack.lock().await;
        let apart = guard.as_ref()?.apart.as_ref()?;
        Some(apart.line.clone())
    }

    /// The folder of the running stack.
    async fn folder(&self) -> PathBuf {
        let guard = self.stack.lock().await;
        let stack = guard.as_ref().expect("the stack has begun");
        match &stack.apart {
            Some(apart) => apart.folder.path().to_owned(),
            None => self.data(),
        }
    }

    /// Runs a command of `pagemark` on the running stack.
    pub(super) async fn run(&self, command: &[&str]) -> Ended {
        let folder = self.folder().await;
        let on_folder = ["--data-dir", folder.to_str().unwrap()];
        let program = pagemark::start(&[command, &on_folder].concat()).await;
        let mut ended = pin!(program.end_within(COMMAND_WITHIN));
        match timeout(COMMAND_WITHIN / 2, &mut ended).await {
            Ok(ended) => ended,
            Err(_) => {
                println!("soak: {command:?} takes long.\n{}", self.said());
                ended.await
            }
        }
    }

    /// Exports the running stack. Returns what the file has, which a failed export may lack.
    pub(super) async fn export(&self) -> (Ended, String) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("export.jsonl");
        let ended = self
            .run(&["export", "--output", file.to_str().unwrap()])
            .await;
        (ended, fs::read_to_string(&file).unwrap_or_default())
    }

    /// A client of the table, past every line. Waits until the stack is ready.
    pub(super) async fn table(&self) -> Table {
        let guard = self.stack.lock().await;
        let stack = guard.as_ref().expect("the stack has begun");
        let url = match &stack.apart {
            Some(apart) => apart.engine.endpoint_url().unwrap(),
            None => {
                let address = wait_for("a stack that is ready", async || {
                    let stdout = stack.process.stdout();
                    address_of("DynamoDB", &stdout).ok_or((stdout, stack.process.stderr()))
                })
                .await;
                format!("http://{address}")
            }
        };
        let calls = PATIENT_CALLS;
        Table::connect(&TableConfig {
            calls,
            ..TableConfig::new(TABLE, Some(url))
        })
        .await
    }

    /// Where the stack has its page index, past every line.
    pub(super) async fn index_config(&self, table: &Table) -> RedisIndexConfig {
        let table_id = table.describe().await.unwrap().id;
        RedisIndexConfig {
            prefix: format!("pagemark-{table_id}"),
            timeout: Duration::from_secs(30),
            ..RedisIndexConfig::new(self.redis.server.url())
        }
    }

    /// Forgets what Redis last wrote to its disk, so that a restart finds nothing.
    pub(super) fn forget_dump(&self) {
        // There may be none.
        fs::remove_file(self.redis_folder.join(DUMP)).ok();
    }

    pub(super) fn has_dump(&self) -> bool {
        self.redis_folder.join(DUMP).exists()
    }

    pub(super) async fn stop(&self) {
        self.end(false, &Tally::default()).await;
    }
}
