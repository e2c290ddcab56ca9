//! One simulated world: stores, processes, clocks, and what is known of the comments.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    rc::Rc,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use actix_http::Request;
use actix_web::{
    body::to_bytes,
    dev::{Service, ServiceResponse},
    http::Method,
    test::TestRequest,
};
use api::ApiSettings;
use aws_sdk_dynamodb::{Client, config::IdentityCache};
use aws_smithy_runtime_api::client::auth::AuthSchemeId;
use functions::Quarantine;
use futures_util::{FutureExt, future::LocalBoxFuture};
use local_stack::engine::client::http_client;
use model::{CommentId, Invariant, ProductId, Timestamp, plan::reconcile::DriftKind};
use page_index::PageIndex;
use page_indexer::PageIndexer;
use process::{now, simulation};
use rand::RngExt;
use repair_job::{Job, JobSettings, Stop};
use serde_json::Value;
use stream_writer::StreamWriter;
use table::{Table, TableConfig};
use tempfile::TempDir;
use tokio::sync::Notify;

use super::{
    engine::{Engine, TABLE},
    index::{NAMED, Named, Servers},
    mappings::{Handler, Position, Stream},
    model::Model,
    plan::{Mode, Part, Plan},
    trace::Trace,
};
use crate::fixture::{api::named_token, data, http::WRITE_TOKEN, stores::rebuild};

/// The instant at which every simulation begins.
pub(crate) fn beginning() -> Timestamp {
    Timestamp::from_epoch_ms(1_790_000_000_000).unwrap()
}

/// The product that readers ask for. Another one is only imported to.
pub(crate) const PRODUCT: &str = "p";
pub(crate) const OTHER_PRODUCT: &str = "q";
pub(crate) const LANGUAGES: [&str; 2] = ["en", "ko"];

/// How far clocks are apart: within the bound of ADR 57, or beyond everything that anybody assumes.
const CLOCKS_APART_MS: i64 = 10_000;
const CLOCKS_FAR_APART_MS: i64 = 180_000;

/// A page of two comments, so that few comments make several pages.
pub(crate) const PAGE_SIZE: u64 = 2;

type Call = Rc<dyn Fn(Request) -> LocalBoxFuture<'static, Answer>>;

/// An API process.
pub(crate) struct Api {
    pub(crate) name: &'static str,
    ahead_ms: i64,
    /// The process, until it is killed.
    call: RefCell<Call>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// The ranks that the page index named meanwhile.
    pub(crate) named: Vec<Named>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// A promise that was broken, and by what.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Violation {
    pub(crate) invariant: Invariant,
    pub(crate) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

/// Something whose pages are judged: the simulated system, or a running one (`tests/soak`).
pub(crate) trait Judged {
    /// The answer to a reader.
    async fn read(&self, url: &str) -> Answer;

    /// Notes a promise that was broken.
    fn violated(&self, invariant: Invariant, what: String);

    fn check(&self, invariant: Invariant, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.violated(invariant, what());
        }
    }
}

pub(crate) struct World {
    pub(crate) plan: Arc<Plan>,
    pub(crate) trace: Trace,
    pub(crate) engine: Engine,
    pub(crate) servers: Arc<Servers>,
    pub(crate) stream: Stream,
    pub(crate) apis: Vec<Api>,
    pub(crate) model: RefCell<Model>,
    /// The archive pages that readers have seen, by address.
    pub(crate) archive: RefCell<BTreeMap<String, Vec<String>>>,
    pub(crate) violation: RefCell<Option<Violation>>,
    pub(crate) positions: [Position; 2],
    pub(crate) base: Client,
    pub(crate) bodies: Cell<u64>,
    /// How many pages were judged: the API processes take turns.
    judged: Cell<usize>,
    /// When a duplicate of a comment was last removed by something else than Pagemark.
    pub(crate) damaged: RefCell<BTreeMap<CommentId, Timestamp>>,
    /// The kinds of drift that were repaired.
    pub(crate) repaired: RefCell<BTreeSet<DriftKind>>,
    /// The comments that were changed, the last one last.
    pub(crate) edited: RefCell<Vec<CommentId>>,
    /// Everything that runs in the process of `pagemark up` ends now.
    pub(crate) killed: Notify,
    /// It has been started, and its page index was not looked at yet.
    pub(crate) is_starting: Cell<bool>,
    /// The files on the disk.
    pub(crate) folder: TempDir,
}

impl World {
    pub(crate) async fn new(plan: &Plan, base: &Client) -> Rc<Self> {
        // Before the chance of the simulation begins, because the folder's name is drawn too.
        let folder = tempfile::tempdir().unwrap();
        simulation::begin(plan.seed, beginning());
        fastrand::seed(plan.seed);
        let plan = Arc::new(plan.clone());
        let trace = Trace::default();
        let engine = Engine::new(Arc::clone(&plan), trace.clone());
        let calm = engine.table(base, "the operator", false);
        calm.create_if_missing().await.unwrap();
        let servers = Servers::new();
        rebuild(&calm, &servers.calm_client(), 1).await;
        // As after a first run of `recent`, which reads the whole journal.
        calm.advance_watermark(now()).await.unwrap();
        let mut world = Self {
            trace,
            engine,
            servers,
            stream: Stream::default(),
            apis: Vec::new(),
            model: RefCell::default(),
            archive: RefCell::default(),
            violation: RefCell::default(),
            positions: Default::default(),
            base: base.clone(),
            bodies: Cell::default(),
            judged: Cell::default(),
            damaged: RefCell::default(),
            repaired: RefCell::default(),
            edited: RefCell::default(),
            killed: Notify::new(),
            is_starting: Cell::default(),
            folder,
            plan,
        };
        let mut random = world.plan.random("clocks");
        let apart = if world.plan.mode == Mode::AnyFaults {
            CLOCKS_FAR_APART_MS
        } else {
            CLOCKS_APART_MS
        };
        for name in ["api one", "api two"] {
            let ahead_ms = if world.plan.has(Part::Clocks) {
                random.random_range(-apart / 2..=apart / 2)
            } else {
                0
            };
            let call = world.api(name).await;
            world.apis.push(Api {
                name,
                ahead_ms,
                call: RefCell::new(call),
            });
        }
        Rc::new(world)
    }

    async fn api(&self, name: &'static str) -> Call {
        let mut settings = ApiSettings {
            archive_after_seconds: 60,
            ..ApiSettings::default()
        };
        settings.writing.tokens.push(named_token(
            "shop",
            "comments:write+comments:moderate+products:write",
            WRITE_TOKEN,
        ));
        settings.cursor_keys.push(api::CursorKey([7; 32]));
        let app = api::in_process(self.table(name), self.index(name), settings).unwrap();
        let service = Rc::new(actix_web::test::init_service(app).await);
        Rc::new(move |request| answer(Rc::clone(&service), request).boxed_local())
    }

    pub(crate) fn table(&self, process: &'static str) -> Table {
        self.engine.table(&self.base, process, true)
    }

    pub(crate) fn calm_table(&self) -> Table {
        self.engine.table(&self.base, "the operator", false)
    }

    pub(crate) fn index(&self, process: &'static str) -> PageIndex {
        self.servers
            .client(&self.engine, &self.plan, &self.trace, process)
    }

    pub(crate) fn job(&self, table: Table, index: PageIndex) -> Job {
        let mut settings = JobSettings {
            apply: true,
            ..JobSettings::default()
        };
        // Without the overlap, a watermark that is too late shows.
        if self.plan.seed.is_multiple_of(2) {
            settings.overlap = Duration::ZERO;
        }
        Job::new(table, index, settings, Stop::default())
    }

    /// Where the mappings put the records that their functions never get.
    pub(crate) fn quarantine(&self) -> Quarantine {
        Quarantine::Folder(self.folder.path().join("quarantine"))
    }

    /// Whether records are lost for ever.
    pub(crate) fn loses_records(&self) -> bool {
        self.plan.has(Part::RecordsLost) && !self.plan.has(Part::Quarantine)
    }

    pub(crate) fn writer(&self) -> Handler {
        let writer = StreamWriter::new(self.table(stream_writer::FUNCTION), Quarantine::Mapping, 2);
        Rc::new(move |event, deadline| {
            let writer = writer.clone();
            async move { writer.handle(&event, deadline).await.response }.boxed_local()
        })
    }

    pub(crate) fn indexer(&self) -> Handler {
        let indexer = PageIndexer::new(self.index(page_indexer::FUNCTION), Quarantine::Mapping);
        Rc::new(move |event, deadline| {
            let indexer = indexer.clone();
            async move { indexer.handle(&event, deadline).await.response }.boxed_local()
        })
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.engine.is_calm.load(Ordering::Relaxed)
    }

    pub(crate) fn may_fail(&self, part: Part) -> bool {
        self.plan.has(part) && !self.is_calm()
    }

    pub(crate) async fn until_calm(&self) {
        let calmed = self.engine.calmed.notified();
        if !self.is_calm() {
            calmed.await;
        }
    }

    /// Waits for a time, or until no fault happens any more.
    pub(crate) async fn while_not_calm(&self, time: Duration) {
        tokio::time::timeout(time, self.until_calm()).await.ok();
    }

    /// Runs something in the process of `pagemark up`; `None` when it was killed meanwhile.
    pub(crate) fn unless_killed<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = Option<T>> {
        let work = Box::pin(work);
        async {
            tokio::select! {
                biased;
                () = self.killed.notified() => None,
                done = work => Some(done),
            }
        }
    }

    /// Waits until the page index was looked at after a start, as everything does that repairs.
    pub(crate) async fn started(&self) {
        while self.is_starting.get() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Begins the API processes anew, without anything that they had in memory.
    pub(crate) async fn restart_apis(&self) {
        for api in &self.apis {
            let call = self.api(api.name).await;
            api.call.replace(call);
        }
    }

    pub(crate) fn new_body(&self) -> String {
        self.bodies.set(self.bodies.get() + 1);
        body(self.bodies.get())
    }

    pub(crate) fn all_bodies(&self) -> impl Iterator<Item = String> {
        (1..=self.bodies.get()).map(body)
    }

    /// Sends a request to an API process, as a client with all rights if it writes.
    pub(crate) async fn request(
        &self,
        api: &Api,
        method: Method,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Answer {
        let mut request = TestRequest::with_uri(target).method(method.clone());
        if method != Method::GET {
            request = request.insert_header(("Authorization", format!("Bearer {WRITE_TOKEN}")));
        }
        for header in headers {
            request = request.insert_header(*header);
        }
        if let Some(body) = body {
            request = request.set_json(body);
        }
        let answered = NAMED.scope(Mutex::default(), self.call(api, request));
        let answer = simulation::with_clock_ahead(api.ahead_ms, answered).await;
        self.trace
            .note(|| format!("{}: {method} {target} {}", api.name, answer.status));
        self.check(
            Invariant::AbsenceIsCertain,
            answer.status < 500 || answer.status == 503,
            || format!("{method} {target} is {answer:?}"),
        );
        answer
    }

    /// Has an API process answer. Notes which ranks the page index names meanwhile.
    async fn call(&self, api: &Api, request: TestRequest) -> Answer {
        let call = Rc::clone(&api.call.borrow());
        let answered = self.unless_killed(call(request.to_request())).await;
        // After a kill its client knows no more than after a 503.
        let answer = answered.unwrap_or_else(|| Answer {
            status: 503,
            body: String::new(),
            named: Vec::new(),
        });
        let named = NAMED.with(|named| std::mem::take(&mut *named.lock().unwrap()));
        Answer { named, ..answer }
    }
}

impl Judged for World {
    async fn read(&self, url: &str) -> Answer {
        let number = self.judged.replace(self.judged.get() + 1);
        let api = &self.apis[number % self.apis.len()];
        self.request(api, Method::GET, url, &[], None).await
    }

    /// Notes the first promise that was broken.
    fn violated(&self, invariant: Invariant, what: String) {
        self.trace.note(|| format!("VIOLATION {invariant}: {what}"));
        let violation = Violation { invariant, what };
        self.violation.borrow_mut().get_or_insert(violation);
    }
}

fn body(number: u64) -> String {
    format!("text {number}")
}

async fn answer<S>(service: Rc<S>, request: Request) -> Answer
where
    S: Service<Request, Response = ServiceResponse, Error = actix_web::Error>,
{
    let response = match service.call(request).await {
        Ok(response) => response.into_parts().1,
        Err(error) => error.error_response(),
    };
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body()).await.unwrap_or_default();
    Answer {
        status,
        body: String::from_utf8_lossy(&body).into_owned(),
        named: Vec::new(),
    }
}

/// The SDK's client that all others are made of. It reads the environment, so a thread makes it
/// once.
pub(crate) async fn base_client() -> Client {
    let without_table = http_client(async |_, _| Err(std::io::Error::other("no table")));
    let config = TableConfig::new(TABLE, Some("http://engine".to_owned()));
    let table = Table::connect_through(&config, without_table).await;
    // A cache of identities draws its own chance when it is filled. Signatures only take time.
    let config = table
        .client()
        .config()
        .to_builder()
        .identity_cache(IdentityCache::no_cache())
        .allow_no_auth()
        .auth_scheme_preference([AuthSchemeId::new("noAuth")])
        .build();
    Client::from_conf(config)
}

pub(crate) fn product() -> ProductId {
    data::product(PRODUCT)
}

/// Runs a part of the schedule for as long as the world is not calm.
pub(crate) async fn until_calm(world: &World, part: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = part => {}
        () = world.until_calm() => {}
    }
}
