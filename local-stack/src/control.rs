//! The control socket: other processes run the repair job's commands inside a running stack, where
//! its page index is.
//!
//! It speaks HTTP/1.1. A request of an AWS client goes to the embedded engine: commands on the data
//! folder reach the table so. At `BACKLOG` the answer is what the mappings still have to process.
//! Elsewhere, the first line of a request's body is a `ControlRequest` as JSON. Each line of the
//! answer's body is a `ControlAnswer`: the run's progress, and at the end its outcome. The end of the
//! request's body asks the run to stop; the run then reports what it did until then. A client that
//! has gone ends it too.

use std::{
    convert::Infallible,
    fs::{self, Permissions},
    io,
    os::unix::{fs::PermissionsExt, net::SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use functions::quarantine::QuarantineLocation;
use futures_util::{FutureExt, StreamExt, future::ready, stream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    Response, StatusCode,
    body::{Body, Bytes, Frame, Incoming},
    header::HOST,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use page_index::PageIndex;
use process::StoreError;
use repair_job::{
    CommandOutput, Job, Progress, ProgressMoment, RepairCommand, RunArgs, Stop, print_outcome,
    run_on,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use table::Table;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    backlog::{Backlog, MappingProgress},
    data_dir::VERSION,
    engine::{EnginePort, client},
    index_keeper::{KeeperState, looked_at, replay_ended},
};

pub const SOCKET: &str = "control.sock";
/// The path where the answer is [`MappingProgress::backlog`].
const BACKLOG: &str = "/settling";
/// The key of [`Running`] among the states in the table.
const RECORD: (&str, &str) = ("local-stack", "running");
const REQUEST_BYTES_MAX: usize = 64 * 1024;
const COMMAND_WITHIN: Duration = Duration::from_secs(10);
const CONNECTIONS_MAX: usize = 64;
/// How often a client is told how far its run is.
const TOLD_EVERY: Duration = Duration::from_millis(200);
/// Pause after a connection that could not be accepted, for example because too many files are
/// open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// The record of the stack that runs on a table, or ran there last.
#[derive(Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) socket: PathBuf,
}

impl Running {
    pub(crate) async fn on(table: &Table) -> Result<Option<Self>, StoreError> {
        table.state(RECORD.0, RECORD.1).await
    }

    pub(crate) async fn announce(self, table: &Table) -> Result<(), StoreError> {
        table.put_state(RECORD.0, RECORD.1, &self).await
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct ControlRequest {
    version: String,
    /// A `RunArgs`. Read only if the version is right, because another version may have other
    /// arguments.
    args: serde_json::Value,
}

/// A line of the answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum ControlAnswer {
    Progress(ProgressMoment),
    Ended(CommandOutput),
    Failed(String),
}

impl ControlAnswer {
    fn line(&self) -> serde_json::Result<Bytes> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line.into())
    }
}

/// A control socket that listens. Only its user may connect. Dropping it removes the socket.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // A user may have removed it already.
        fs::remove_file(&self.path).ok();
    }
}

/// What a command works on.
#[derive(Debug, Clone)]
pub struct Stores {
    pub table: Table,
    pub index: PageIndex,
    pub index_state: watch::Receiver<KeeperState>,
    /// The folder of the quarantine.
    pub quarantine: PathBuf,
    pub disk_is_full: Arc<AtomicBool>,
    /// `None` for a table in another engine, which commands reach by its URL.
    pub(crate) engine: Option<EnginePort>,
}

impl ControlSocket {
    /// Listens in the folder of a stack's data. A socket that a killed stack left behind is
    /// replaced. The caller holds the folder's lock.
    pub fn bind(folder: &Path) -> anyhow::Result<Self> {
        let path = std::path::absolute(folder.join(SOCKET))?;
        let listener = bind_privately(folder, &path).with_context(|| {
            format!(
                "{} cannot be made; if its path is too long, use another data folder (--data-dir)",
                path.display()
            )
        })?;
        Ok(Self { listener, path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs the commands that clients send, until it is dropped. A command that repairs waits until
    /// the page index has been looked at. A rebuild waits only for the stream at the start, and then
    /// for the rebuild that the keeper may have begun.
    pub async fn serve(self, stores: Stores, mappings: MappingProgress) {
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            if connections.len() >= CONNECTIONS_MAX {
                connections.join_next().await;
            }
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let stores = stores.clone();
                    let mappings = mappings.clone();
                    let service = service_fn(move |request| {
                        answer(request, stores.clone(), mappings.clone())
                    });
                    let mut http = hyper::server::conn::http1::Builder::new();
                    http.timer(TokioTimer::new())
                        .header_read_timeout(COMMAND_WITHIN)
                        .keep_alive(false);
                    connections.spawn(
                        http.serve_connection(TokioIo::new(stream), service)
                            .map(drop),
                    );
                }
                Err(error) => {
                    tracing::warn!(%error, "the control socket accepts no connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Makes the socket in a private folder, and renames it when only its user may connect.
fn bind_privately(folder: &Path, path: &Path) -> io::Result<UnixListener> {
    SocketAddr::from_pathname(path)?;
    // With names this short, the path is no longer than the final one.
    let private = tempfile::Builder::new()
        .prefix("c")
        .rand_bytes(6)
        .tempdir_in(folder)?;
    let hidden = private.path().join("s");
    let listener = UnixListener::bind(&hidden)?;
    fs::set_permissions(&hidden, Permissions::from_mode(0o600))?;
    fs::rename(&hidden, path)?;
    Ok(listener)
}

async fn answer(
    request: hyper::Request<Incoming>,
    stores: Stores,
    mut mappings: MappingProgress,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    if let Some(engine) = &stores.engine
        && EnginePort::is_for(&request)
    {
        return Ok(engine.answer(request).await.map(BodyExt::boxed));
    }
    let answered = if request.uri().path() == BACKLOG {
        let backlog = mappings.backlog().await;
        backlog.and_then(|backlog| Ok(Full::from(serde_json::to_vec(&backlog)?).boxed()))
    } else {
        begin(request.into_body(), stores).await
    };
    Ok(match answered {
        Ok(answer) => Response::new(answer),
        Err(error) => {
            let mut refusal = Response::new(Full::from(format!("{error:#}")).boxed());
            *refusal.status_mut() = StatusCode::BAD_REQUEST;
            refusal
        }
    })
}

/// Begins the run that a request asks for, and returns the body of the answer.
///
/// # Errors
/// The request is wrong, or of another version.
async fn begin(mut body: Incoming, stores: Stores) -> anyhow::Result<BoxBody<Bytes, Infallible>> {
    let command = timeout(COMMAND_WITHIN, first_line(&mut body)).await;
    let command = command
        .with_context(|| format!("no command arrived within {} s", COMMAND_WITHIN.as_secs()))??;
    let ControlRequest { version, args } =
        serde_json::from_slice(&command).context("the request is not understood")?;
    if version != VERSION {
        bail!(
            "the running stack is pagemark {VERSION}, and the command is pagemark {version}; use the same"
        );
    }
    let args = serde_json::from_value::<RunArgs>(args);
    let mut args = args.context(
        "the running stack does not know such a command: is it another build of pagemark?",
    )?;
    args.validate().map_err(anyhow::Error::msg)?;
    args.set_quarantine(QuarantineLocation::Folder(stores.quarantine.clone()));
    args.set_disk_is_full(stores.disk_is_full.load(Ordering::Relaxed));
    let (lines, mut written) = mpsc::channel(1);
    // A run whose client has gone stores its position first.
    tokio::spawn(Box::pin(run(args, body, stores, lines)));
    let lines = stream::poll_fn(move |context| written.poll_recv(context));
    let frames = lines.map(|line| Ok(Frame::data(line)));
    Ok(BodyExt::boxed(StreamBody::new(frames)))
}

/// Runs a command, and writes the lines of the answer.
async fn run(args: RunArgs, mut body: Incoming, stores: Stores, lines: mpsc::Sender<Bytes>) {
    let stop = Stop::after(args.options.max_run_time);
    let job = Job::new(
        stores.table,
        stores.index,
        args.options.settings.clone(),
        stop.clone(),
    );
    let work = async {
        tokio::select! {
            () = wait_for_index(&args, stores.index_state, job.progress()) => {}
            () = stop.come() => {}
        }
        job.progress().end_wait();
        run_on(&job, &args).await
    };
    let until_body_ends = async {
        while let Some(Ok(_)) = body.frame().await {}
        stop.ask();
        std::future::pending().await
    };
    let outcome = tokio::select! {
        outcome = work => outcome,
        never = until_body_ends => never,
        never = tell(job.progress(), &lines) => never,
    };
    let answer = match outcome {
        Ok(output) => ControlAnswer::Ended(output),
        Err(error) => ControlAnswer::Failed(format!("{error:#}")),
    };
    match answer.line() {
        // The client may have gone.
        Ok(line) => drop(lines.send(line).await),
        Err(error) => tracing::error!(%error, "the outcome of a command cannot be written"),
    }
}

/// Waits until a command that repairs may begin. Before that, the stream may still deliver old
/// states.
async fn wait_for_index(
    args: &RunArgs,
    index_state: watch::Receiver<KeeperState>,
    progress: &Progress,
) {
    if !args.options.settings.apply {
        return;
    }
    if matches!(args.command, RepairCommand::Rebuild { .. }) {
        progress.wait_for("the stack to process what its stream held at the start");
        // It waits for the keeper's own rebuild, and has nothing to do if that one ends well.
        replay_ended(index_state).await;
    } else {
        progress.wait_for("the stack to bring its page index up to date");
        looked_at(index_state).await;
    }
}

/// Tells a client how far its run is, as long as the client reads it.
async fn tell<Never>(progress: &Progress, lines: &mpsc::Sender<Bytes>) -> Never {
    loop {
        sleep(TOLD_EVERY).await;
        let told = ControlAnswer::Progress(progress.moment()).line();
        let Ok(line) = told else { continue };
        if lines.send(line).await.is_err() {
            return std::future::pending().await;
        }
    }
}

async fn first_line(body: &mut Incoming) -> anyhow::Result<Vec<u8>> {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let frame = body
            .frame()
            .await
            .context("the request ended within its first line")??;
        line.extend(frame.into_data().unwrap_or_default());
        ensure!(
            line.len() <= REQUEST_BYTES_MAX,
            "no line of at most {REQUEST_BYTES_MAX} bytes"
        );
    }
    Ok(line)
}

/// Runs a command in the stack that listens at a socket, as [`print_outcome`] says.
pub(crate) async fn ask(socket: &Path, args: &RunArgs) -> anyhow::Result<ExitCode> {
    let (signalled, stop) = oneshot::channel::<()>();
    let progress = Progress::default();
    // It ends when its sender is dropped.
    let work = request(socket, args, &progress, stop.map(drop));
    print_outcome(args, &progress, work, move || drop(signalled)).await
}

/// Asks the stack that listens at a socket how much of what was written before its mappings still
/// have to process. Answers after some seconds at most.
pub(crate) async fn backlog(socket: &Path) -> anyhow::Result<Backlog> {
    let request = hyper::Request::post(BACKLOG)
        .header(HOST, "localhost")
        .body(Full::<Bytes>::default())?;
    send(socket, request).await
}

/// Runs a command in the stack that listens at a socket, and makes `progress` the run's. `stop` asks
/// it to stop.
pub async fn request(
    socket: &Path,
    args: &RunArgs,
    progress: &Progress,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<CommandOutput> {
    let mut command = serde_json::to_vec(&ControlRequest {
        version: VERSION.to_owned(),
        args: serde_json::to_value(args)?,
    })?;
    command.push(b'\n');
    let command = stream::once(ready(Ok::<_, Infallible>(Frame::data(Bytes::from(
        command,
    )))));
    let body = StreamBody::new(command.chain(stop.into_stream().filter_map(|()| ready(None))));
    let request = hyper::Request::post("/")
        .header(HOST, "localhost")
        .body(Box::pin(body))?;
    let mut exchange = Exchange::begin(socket, request).await?;
    if !exchange.status.is_success() {
        bail!("{}", String::from_utf8_lossy(&exchange.rest().await?));
    }
    while let Some(line) = exchange.next_line().await? {
        match understood(&line)? {
            ControlAnswer::Progress(moment) => progress.mirror(moment),
            ControlAnswer::Ended(output) => return Ok(output),
            ControlAnswer::Failed(reason) => bail!("{reason}"),
        }
    }
    bail!("the running stack has given up the command; its log says why")
}

/// An HTTP client for AWS clients of the embedded engine, whose stack listens at a socket. A call is
/// a connection, which takes much less time than what it asks for.
pub(crate) fn engine_client(socket: PathBuf) -> SharedHttpClient {
    client::http_client(move |operation, body| {
        let socket = socket.clone();
        async move {
            let request = hyper::Request::post("/")
                .header(HOST, "localhost")
                .header(client::TARGET, operation)
                .body(Full::new(body))
                .map_err(io::Error::other)?;
            let answered = async {
                let exchange = Exchange::begin(&socket, request).await?;
                let status = exchange.status.as_u16();
                Ok((status, exchange.rest().await?.into()))
            };
            let answered: anyhow::Result<_> = answered.await;
            answered.map_err(io::Error::other)
        }
    })
}

/// Sends a request to the stack that listens at a socket, and reads what it says.
async fn send<Answer: DeserializeOwned>(
    socket: &Path,
    request: hyper::Request<impl Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static>,
) -> anyhow::Result<Answer> {
    let exchange = Exchange::begin(socket, request).await?;
    let is_success = exchange.status.is_success();
    let answer = exchange.rest().await?;
    if !is_success {
        bail!("{}", String::from_utf8_lossy(&answer));
    }
    understood(&answer)
}

fn understood<Answer: DeserializeOwned>(answer: &[u8]) -> anyhow::Result<Answer> {
    serde_json::from_slice(answer).with_context(|| {
        format!(
            "pagemark {VERSION} does not know the running stack's answer: is it another version?"
        )
    })
}

const ENDED: &str = "the running stack has closed the connection: was it stopped?";

/// A request to a stack, and its answer as far as it was read.
struct Exchange {
    status: StatusCode,
    body: Incoming,
    /// What of the body was received, and is not a whole line yet.
    received: Vec<u8>,
    /// Dropping it closes the connection.
    _connection: JoinSet<hyper::Result<()>>,
}

impl Exchange {
    /// Sends a request to the stack that listens at a socket, and reads the head of its answer.
    async fn begin(
        socket: &Path,
        request: hyper::Request<
            impl Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
        >,
    ) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(socket).await.with_context(|| {
            format!(
                "no running stack answers at {}: is `pagemark up` running here, by the same user?",
                socket.display()
            )
        })?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let mut connections = JoinSet::new();
        connections.spawn(connection);
        let answer = sender.send_request(request).await.context(ENDED)?;
        Ok(Self {
            status: answer.status(),
            body: answer.into_body(),
            received: Vec::new(),
            _connection: connections,
        })
    }

    /// The next line of the answer, if there is one more.
    async fn next_line(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let rest = self.received.split_off(end + 1);
                return Ok(Some(std::mem::replace(&mut self.received, rest)));
            }
            let Some(frame) = self.body.frame().await else {
                ensure!(self.received.is_empty(), ENDED);
                return Ok(None);
            };
            let data = frame.context(ENDED)?.into_data();
            self.received.extend(data.unwrap_or_default());
        }
    }

    /// The rest of the answer.
    async fn rest(self) -> anyhow::Result<Bytes> {
        Ok(self.body.collect().await.context(ENDED)?.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileTypeExt;

    use clap::Parser;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[derive(Parser)]
    struct RepairLine {
        #[command(flatten)]
        run: RunArgs,
    }

    /// What a client makes of a stack that closes the connection after it has sent this.
    async fn answered(head: &str, body: &str) -> Result<CommandOutput, String> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let stack = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
            stream
                .write_all(format!("{head}{body}").as_bytes())
                .await
                .unwrap();
        };
        let args = RepairLine::parse_from(["repair", "status"]).run;
        let progress = Progress::default();
        let asked = request(&socket, &args, &progress, std::future::pending());
        let ((), outcome) = tokio::join!(stack, asked);
        outcome.map_err(|error| format!("{error:#}"))
    }

    #[tokio::test]
    async fn a_stack_of_another_version_or_one_that_ends_is_said_in_one_line() {
        for (head, body, said) in [
            ("", "", "was it stopped?"),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
                "{\"out",
                "was it stopped?",
            ),
            (
                "HTTP/1.1 200 OK\r\n\r\n",
                "{\"a_new_answer\":1}\n",
                "is it another version?",
            ),
            (
                "HTTP/1.1 200 OK\r\n\r\n",
                "{\"progress\":{\"comments\":1,\"share\":0.5,\"waits_for\":null}}\n",
                "its log says why",
            ),
            (
                "HTTP/1.1 400 Bad Request\r\n\r\n",
                "the reason",
                "the reason",
            ),
        ] {
            let error = answered(head, body).await.unwrap_err();
            assert!(error.contains(said) && !error.contains('\n'), "{error}");
        }
    }

    #[tokio::test]
    async fn a_stack_that_is_not_running_is_said_in_one_line() {
        let args = RepairLine::parse_from(["repair", "status"]).run;
        let error = request(
            Path::new("/nowhere/s"),
            &args,
            &Progress::default(),
            std::future::pending(),
        )
        .await
        .unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.contains("`pagemark up`") && text.contains("/nowhere/s") && !text.contains('\n'),
            "{text}"
        );
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[tokio::test]
    async fn only_its_user_may_connect_and_nothing_else_is_left_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let socket = ControlSocket::bind(folder.path()).unwrap();
        let metadata = fs::symlink_metadata(socket.path()).unwrap();
        assert!(metadata.file_type().is_socket());
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()), [SOCKET]);
        drop(socket);
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }

    /// Whether a socket can be in a subfolder whose name has this length.
    fn fits(folder: &Path, length: usize) -> bool {
        SocketAddr::from_pathname(folder.join("x".repeat(length)).join(SOCKET)).is_ok()
    }

    #[tokio::test]
    async fn the_longest_path_works_and_a_longer_one_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let length = (1..200)
            .take_while(|length| fits(folder.path(), *length))
            .last()
            .unwrap();
        let [longest, longer] =
            [length, length + 1].map(|length| folder.path().join("x".repeat(length)));
        fs::create_dir(&longest).unwrap();
        fs::create_dir(&longer).unwrap();
        let socket = ControlSocket::bind(&longest).unwrap();
        UnixStream::connect(socket.path()).await.unwrap();
        let error = format!("{:#}", ControlSocket::bind(&longer).unwrap_err());
        assert!(
            error.contains("--data-dir") && !error.contains('\n'),
            "{error}"
        );
        assert_eq!(names(&longer), Vec::<String>::new());
    }
}
