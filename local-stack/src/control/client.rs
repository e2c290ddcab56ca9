//! The client's side of the control socket.

use std::{io::Write, path::Path, process::ExitCode, time::Duration};

use anyhow::{Context, anyhow};
use repair_job::{Display, Outcome, RunArgs, exit, stop_on_signals};
use tokio::{
    io::{AsyncBufRead, AsyncWriteExt, BufReader},
    net::UnixStream,
    sync::{oneshot, watch},
    time::timeout,
};

use super::{Answer, Request, VERSION, line_of, read_line};

/// Maximum size of an answer: far larger than the report of any run.
const ANSWER_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Time limit between two answers. The stack sends one about every second.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Runs a command in the stack that listens at a socket. Shows its progress, prints its output, and returns its exit
/// code. The first signal asks it to stop, and then its report is printed. The second signal ends this process.
///
/// # Errors
/// No stack listens, it is another version, or it could not run the command.
pub async fn ask(socket: &Path, args: &RunArgs) -> anyhow::Result<ExitCode> {
    if let Err(problem) = args.validate() {
        eprintln!("error: {problem}");
        return Ok(ExitCode::from(exit::USAGE));
    }
    let (signalled, stop) = oneshot::channel::<()>();
    let signals = tokio::spawn(stop_on_signals(move || drop(signalled))?);
    let (progress, shown) = watch::channel((0, 0.0));
    let name: &str = (&args.command).into();
    let display = args.has_progress().then(|| Display::show(name.to_owned(), move || *shown.borrow()));
    let stop = async move {
        // It ends when its sender is dropped.
        stop.await.ok();
    };
    let outcome = request(socket, args, stop, |comments, share| {
        progress.send_replace((comments, share));
    });
    let outcome = outcome.await;
    drop(display);
    signals.abort();
    let Outcome { output, exit_code } = outcome?;
    // The exit code counts even if nobody reads the output any more.
    std::io::stdout().write_all(output.as_bytes()).ok();
    Ok(ExitCode::from(exit_code))
}

/// Runs a command in the stack that listens at a socket. `stop` asks it to stop. `look` gets the number of comments done
/// and the share of the work, from 0 to 1, about every second.
///
/// # Errors
/// No stack listens, it is another version, or it could not run the command.
pub async fn request(
    socket: &Path,
    args: &RunArgs,
    stop: impl Future<Output = ()>,
    look: impl FnMut(u64, f64),
) -> anyhow::Result<Outcome> {
    let none = || {
        format!("no running stack answers at {}: is `pagemark up` running here, by the same user?", socket.display())
    };
    let (reader, mut writer) = UnixStream::connect(socket).await.with_context(none)?.into_split();
    let request = Request { version: VERSION.to_owned(), args: serde_json::to_value(args)? };
    // A stack that refuses may close the connection before it has read everything. Its answer says why.
    writer.write_all(&line_of(&request)?).await.ok();
    let stopped = async {
        stop.await;
        // The end of this direction asks the run to stop.
        drop(writer);
        std::future::pending().await
    };
    tokio::select! {
        outcome = outcome(BufReader::new(reader), look) => outcome,
        never = stopped => never,
    }
}

/// Reads answers until the last one.
async fn outcome(mut reader: impl AsyncBufRead + Unpin, mut look: impl FnMut(u64, f64)) -> anyhow::Result<Outcome> {
    let ended = "the running stack has closed the connection: was it stopped?";
    loop {
        let line = timeout(ANSWER_WITHIN, read_line(&mut reader, ANSWER_BYTES_MAX)).await;
        let line = line.map_err(|_| anyhow!("the running stack has not answered for {} s", ANSWER_WITHIN.as_secs()))?;
        let line = line.context(ended)?.context(ended)?;
        let unknown = || format!("pagemark {VERSION} does not know the running stack's answer: is it another version?");
        match serde_json::from_slice(&line).with_context(unknown)? {
            Answer::Progress { comments, share } => look(comments, share),
            Answer::Ended(outcome) => return Ok(outcome),
            Answer::Failed(causes) => return Err(failure(causes)),
        }
    }
}

/// The error of these causes, the outermost first.
fn failure(causes: Vec<String>) -> anyhow::Error {
    let mut causes = causes.into_iter().rev();
    let root = anyhow::Error::msg(causes.next().unwrap_or_default());
    causes.fold(root, anyhow::Error::context)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tokio::net::UnixListener;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArgs,
    }

    /// What a client makes of a stack that closes the connection after it has sent these bytes.
    async fn answered(bytes: &[u8]) -> Result<Outcome, String> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let stack = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(bytes).await.unwrap();
        };
        let args = Line::parse_from(["repair", "status"]).run;
        let ((), outcome) = tokio::join!(stack, request(&socket, &args, std::future::pending(), |_, _| {}));
        outcome.map_err(|error| format!("{error:#}"))
    }

    #[tokio::test]
    async fn an_outcome_and_an_error_arrive_as_they_were() {
        let outcome = Outcome { output: "two\nlines\n".to_owned(), exit_code: 12 };
        let mut lines = line_of(&Answer::Progress { comments: 1, share: 0.5 }).unwrap();
        lines.extend(line_of(&Answer::Ended(outcome.clone())).unwrap());
        assert_eq!(answered(&lines).await, Ok(outcome));
        let failed = Answer::Failed(vec!["outer".to_owned(), "inner".to_owned()]);
        assert_eq!(answered(&line_of(&failed).unwrap()).await, Err("outer: inner".to_owned()));
    }

    #[tokio::test]
    async fn a_stack_of_another_version_or_one_that_ends_is_said() {
        for (bytes, said) in [
            (&b""[..], "was it stopped?"),
            (b"{\"progress\":", "was it stopped?"),
            (b"{\"a_new_answer\":1}\n", "is it another version?"),
            (b"garbage\n", "is it another version?"),
        ] {
            let error = answered(bytes).await.unwrap_err();
            assert!(error.contains(said) && !error.contains('\n'), "{error}");
        }
    }

    #[tokio::test]
    async fn a_stack_that_is_not_running_is_said_in_one_line() {
        let args = Line::parse_from(["repair", "status"]).run;
        let error = request(Path::new("/nowhere/s"), &args, std::future::pending(), |_, _| {}).await.unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("`pagemark up`") && text.contains("/nowhere/s") && !text.contains('\n'), "{text}");
    }
}
