//! The control socket: other processes run the repair job's commands inside a running stack, where
//! its page index is.
//!
//! It speaks HTTP/1.1. A request of an AWS client goes to the embedded engine: commands on the data
//! folder reach the table so. At `BACKLOG` the answer is what the mappings still have to process.
//! Elsewhere, the first line of a request's body is a `ControlRequest` as JSON, and the answer's
//! body is a `CommandOutput`. The end of the request's body asks the run to stop; the run then
//! reports what it did until then. A client that has gone ends it too.

use std::{
    convert::Infallible,
    fs::{self, Permissions},
    io,
    os::unix::{fs::PermissionsExt, net::SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use functions::quarantine::QuarantineLocation;
use futures_util::{FutureExt, StreamExt, future::ready, stream};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::{
    Response, StatusCode,
    body::{Body, Bytes, Frame, Incoming},
    header::HOST,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use page_index::PageIndex;
use process::StoreError;
use repair_job::{CommandOutput, Job, RepairCommand, RunArgs, Stop, print_outcome, run_on};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use table::Table;
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{oneshot, watch},
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
) -> Result<Response<Full<Bytes>>, Infallible> {
    if let Some(engine) = &stores.engine
        && EnginePort::is_for(&request)
    {
        return Ok(engine.answer(request).await);
    }
    let answered = if request.uri().path() == BACKLOG {
        let backlog = mappings.backlog().await;
        backlog.and_then(|backlog| Ok(serde_json::to_vec(&backlog)?))
    } else {
        // A run whose client has gone stores its position first.
        let outcome = tokio::spawn(Box::pin(run(request.into_body(), stores))).await;
        outcome
            .map_err(anyhow::Error::from)
            .flatten()
            .and_then(|outcome| Ok(serde_json::to_vec(&outcome)?))
    };
    Ok(match answered {
        Ok(answer) => Response::new(answer.into()),
        Err(error) => {
            let mut refusal = Response::new(format!("{error:#}").into());
            *refusal.status_mut() = StatusCode::BAD_REQUEST;
            refusal
        }
    })
}

async fn run(mut body: Incoming, stores: Stores) -> anyhow::Result<CommandOutput> {
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
    args.set_quarantine(QuarantineLocation::Folder(stores.quarantine));
    if args.settings.apply {
        // Before that, the stream may still deliver old states.
        if matches!(args.command, RepairCommand::Rebuild { .. }) {
            // It waits for the keeper's own rebuild, and has nothing to do if that one ends well.
            replay_ended(stores.index_state).await;
        } else {
            looked_at(stores.index_state).await;
        }
    }
    let stop = Stop::after(args.max_run_time);
    let job = Job::new(
        stores.table,
        stores.index,
        args.settings.clone(),
        stop.clone(),
    );
    let until_body_ends = async {
        while let Some(Ok(_)) = body.frame().await {}
        stop.ask();
        std::future::pending().await
    };
    tokio::select! {
        outcome = run_on(&job, &args) => outcome,
        never = until_body_ends => never,
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
    // It ends when its sender is dropped.
    print_outcome(args, request(socket, args, stop.map(drop)), move || {
        drop(signalled)
    })
    .await
}

/// Asks the stack that listens at a socket how much of what was written before its mappings still
/// have to process. Answers after some seconds at most.
pub(crate) async fn backlog(socket: &Path) -> anyhow::Result<Backlog> {
    let request = hyper::Request::post(BACKLOG)
        .header(HOST, "localhost")
        .body(Full::<Bytes>::default())?;
    send(socket, request).await
}

/// Runs a command in the stack that listens at a socket. `stop` asks it to stop.
pub async fn request(
    socket: &Path,
    args: &RunArgs,
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
    send(
        socket,
        hyper::Request::post("/")
            .header(HOST, "localhost")
            .body(Box::pin(body))?,
    )
    .await
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
            let (status, answer) = exchange(&socket, request).await.map_err(io::Error::other)?;
            Ok((status.as_u16(), answer.into()))
        }
    })
}

/// Sends a request to the stack that listens at a socket, and reads what it says.
async fn send<Answer: DeserializeOwned>(
    socket: &Path,
    request: hyper::Request<impl Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static>,
) -> anyhow::Result<Answer> {
    let (status, answer) = exchange(socket, request).await?;
    if !status.is_success() {
        bail!("{}", String::from_utf8_lossy(&answer));
    }
    serde_json::from_slice(&answer).with_context(|| {
        format!(
            "pagemark {VERSION} does not know the running stack's answer: is it another version?"
        )
    })
}

/// Sends a request to the stack that listens at a socket, and reads the status and the body of its
/// answer.
async fn exchange(
    socket: &Path,
    request: hyper::Request<impl Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static>,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let stream = UnixStream::connect(socket).await.with_context(|| {
        format!(
            "no running stack answers at {}: is `pagemark up` running here, by the same user?",
            socket.display()
        )
    })?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Dropping it closes the connection.
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let ended = "the running stack has closed the connection: was it stopped?";
    let (head, answer) = sender
        .send_request(request)
        .await
        .context(ended)?
        .into_parts();
    let answer = answer.collect().await.context(ended)?.to_bytes();
    Ok((head.status, answer))
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
        let ((), outcome) = tokio::join!(stack, request(&socket, &args, std::future::pending()));
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
                "{\"a_new_answer\":1}",
                "is it another version?",
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
        let error = request(Path::new("/nowhere/s"), &args, std::future::pending())
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
