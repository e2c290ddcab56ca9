//! The stack's side of the control socket.

use std::{
    fs::{self, Permissions},
    io::Error,
    os::unix::{fs::PermissionsExt, net::SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use functions::quarantine::QuarantinePlace;
use page_index::PageIndex;
use repair_job::{Job, Progress, RunArgs, Stop, run_on};
use table::Table;
use tokio::{
    io::{AsyncRead, AsyncWriteExt, BufReader},
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Semaphore, oneshot, watch},
    task::JoinSet,
    time::{interval, sleep, timeout},
};

use super::{Answer, Request, SOCKET, VERSION, line_of, read_line};
use crate::index_keeper::{IndexState, looked_at};

/// Maximum size of a request.
const REQUEST_BYTES_MAX: u64 = 64 * 1024;
/// Time limit for a client to send its request, and to take an answer.
const CLIENT_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of commands at the same time.
const COMMANDS_MAX: usize = 8;
/// Interval between two messages about the progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Pause after a connection that could not be accepted, for example because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A control socket that listens. Only its user may connect. Dropping it removes the socket.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    file: SocketFile,
}

/// The file of a socket; it is removed with this value.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        fs::remove_file(&self.0).ok();
    }
}

/// What a command works on.
#[derive(Clone)]
struct Stores {
    table: Table,
    index: PageIndex,
    quarantine: PathBuf,
    index_state: watch::Receiver<IndexState>,
}

impl ControlSocket {
    /// Listens in the folder of a stack's data. A socket that a killed stack left behind is replaced. The caller holds
    /// the folder's lock.
    ///
    /// # Errors
    /// The folder cannot be written to, or its path is too long for a Unix socket.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn bind(folder: &Path) -> anyhow::Result<Self> {
        let path = std::path::absolute(folder.join(SOCKET))?;
        if SocketAddr::from_pathname(&path).is_err() {
            let (path, bytes) = (path.display(), path.as_os_str().len());
            bail!(
                "the control socket {path} cannot be made: its path has {bytes} bytes, and a Unix socket's may have about \
                 100; use a data folder with a shorter path (--data-dir)"
            );
        }
        let failed = || format!("the control socket {} cannot be made", path.display());
        let listener = bind_privately(&path).with_context(failed)?;
        Ok(Self { listener, file: SocketFile(path) })
    }

    /// The absolute path of the socket.
    pub fn path(&self) -> &Path {
        &self.file.0
    }

    /// Runs the commands that clients send, with the folder `quarantine` as the quarantine. A command that repairs waits
    /// until the page index has been looked at for the first time. Runs until it is dropped, which ends the commands under
    /// way at once.
    pub async fn serve(
        self,
        table: Table,
        index: PageIndex,
        quarantine: PathBuf,
        index_state: watch::Receiver<IndexState>,
    ) {
        let stores = Stores { table, index, quarantine, index_state };
        let (places, mut commands) = (Arc::new(Semaphore::new(COMMANDS_MAX)), JoinSet::new());
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        commands.spawn(converse(stream, stores.clone(), places.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the control socket accepts no connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
                Some(ended) = commands.join_next() => match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!(%error, "a client of the control socket has gone"),
                    Err(error) => tracing::error!(%error, "a command of the control socket failed"),
                },
            }
        }
    }
}

/// Makes the socket in a private folder, and renames it when only its user may connect. So nobody else ever may, and a
/// socket that was there is replaced in one step.
fn bind_privately(path: &Path) -> Result<UnixListener, Error> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    // With names this short, the path is no longer than the final one.
    let private = tempfile::Builder::new()
        .prefix("c")
        .rand_bytes(6)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(folder)?;
    let hidden = private.path().join("s");
    let listener = UnixListener::bind(&hidden)?;
    fs::set_permissions(&hidden, Permissions::from_mode(0o600))?;
    fs::rename(&hidden, path)?;
    Ok(listener)
}

/// Serves one client.
async fn converse(stream: UnixStream, stores: Stores, places: Arc<Semaphore>) -> Result<(), Error> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let Ok(_place) = places.try_acquire() else {
        return refuse(&mut writer, &anyhow::anyhow!("{COMMANDS_MAX} commands are already under way; try again later"))
            .await;
    };
    let asked = timeout(CLIENT_WITHIN, receive(&mut reader)).await;
    match asked.unwrap_or_else(|_| Err(anyhow::anyhow!("no command arrived within {} s", CLIENT_WITHIN.as_secs()))) {
        Ok(Some(mut args)) => {
            args.set_quarantine(QuarantinePlace::Folder(stores.quarantine.clone()));
            if args.settings.apply {
                // Before that, the stream may still deliver old states.
                looked_at(stores.index_state.clone()).await;
            }
            // Boxed, because the futures of runs are large.
            Box::pin(run(&args, stores, reader, writer)).await
        }
        Ok(None) => Ok(()),
        Err(error) => refuse(&mut writer, &error).await,
    }
}

/// Reads a command; `None` if the client sends none.
async fn receive(reader: &mut BufReader<OwnedReadHalf>) -> anyhow::Result<Option<RunArgs>> {
    let Some(line) = read_line(reader, REQUEST_BYTES_MAX).await.context("the request cannot be read")? else {
        return Ok(None);
    };
    let request: Request = serde_json::from_slice(&line).context("the request is not understood")?;
    if request.version != VERSION {
        bail!("the running stack is pagemark {VERSION}, and the command is pagemark {}; use the same", request.version);
    }
    let other_build = "the running stack does not know such a command: is it another build of pagemark?";
    let args: RunArgs = serde_json::from_value(request.args).context(other_build)?;
    args.validate().map_err(anyhow::Error::msg)?;
    Ok(Some(args))
}

/// Runs a command. The client's end asks it to stop.
async fn run(
    args: &RunArgs,
    stores: Stores,
    mut reader: impl AsyncRead + Unpin,
    writer: OwnedWriteHalf,
) -> Result<(), Error> {
    let stop = Stop::after(args.max_run_time);
    let job = Job::new(stores.table, stores.index, args.settings.clone(), stop.clone());
    let (sender, outcome) = oneshot::channel();
    let work = async {
        let answer = run_on(&job, args).await.map_or_else(|error| failed(&error), Answer::Ended);
        // Nobody receives it when the client has gone.
        sender.send(answer).ok();
    };
    let tell = async {
        let told = tell(writer, job.progress(), outcome).await;
        if told.is_err() {
            stop.ask();
        }
        told
    };
    let until_client_ends = async {
        // Nothing may follow the request, so it does not matter what is read.
        tokio::io::copy(&mut reader, &mut tokio::io::sink()).await.ok();
        stop.ask();
        std::future::pending().await
    };
    tokio::select! {
        // The work is completed even if nobody takes its outcome: it stores its position.
        ((), told) = async { tokio::join!(work, tell) } => told,
        never = until_client_ends => never,
    }
}

/// Sends the progress until there is an outcome, and then that.
async fn tell(
    mut writer: OwnedWriteHalf,
    progress: &Progress,
    mut outcome: oneshot::Receiver<Answer>,
) -> Result<(), Error> {
    let mut every = interval(PROGRESS_EVERY);
    loop {
        tokio::select! {
            biased;
            answer = &mut outcome => {
                return send(&mut writer, &answer.map_err(Error::other)?).await;
            }
            _ = every.tick() => {
                let (comments, share) = (progress.comments(), progress.share());
                send(&mut writer, &Answer::Progress { comments, share }).await?;
            }
        }
    }
}

async fn refuse(writer: &mut OwnedWriteHalf, error: &anyhow::Error) -> Result<(), Error> {
    send(writer, &failed(error)).await
}

fn failed(error: &anyhow::Error) -> Answer {
    Answer::Failed(error.chain().map(ToString::to_string).collect())
}

async fn send(writer: &mut OwnedWriteHalf, answer: &Answer) -> Result<(), Error> {
    timeout(CLIENT_WITHIN, writer.write_all(&line_of(answer)?)).await?
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileTypeExt;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
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

    #[tokio::test]
    async fn a_socket_that_a_killed_stack_left_behind_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let left_behind = std::os::unix::net::UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        drop(left_behind);
        let path = folder.path().join(SOCKET);
        assert!(UnixStream::connect(&path).await.is_err(), "nobody listens");
        let socket = ControlSocket::bind(folder.path()).unwrap();
        UnixStream::connect(&path).await.unwrap();
        socket.listener.accept().await.unwrap();
    }

    #[tokio::test]
    async fn the_longest_path_works_and_a_longer_one_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let fits =
            |length: usize| SocketAddr::from_pathname(folder.path().join("x".repeat(length)).join(SOCKET)).is_ok();
        let length = (1..200).take_while(|length| fits(*length)).last().unwrap();
        let [longest, longer] = [length, length + 1].map(|length| folder.path().join("x".repeat(length)));
        fs::create_dir(&longest).unwrap();
        fs::create_dir(&longer).unwrap();
        let socket = ControlSocket::bind(&longest).unwrap();
        UnixStream::connect(socket.path()).await.unwrap();
        let error = ControlSocket::bind(&longer).unwrap_err().to_string();
        assert!(error.contains("--data-dir") && !error.contains('\n'), "{error}");
        assert_eq!(names(&longer), Vec::<String>::new());
    }
}
