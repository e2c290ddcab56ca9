//! `pagemark follow`.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, ensure};
use indicatif::HumanCount;
use model::Timestamp;
use tokio::sync::watch;

use super::{
    interrupt::{INTERRUPTED, Signals},
    origin_place::OriginPlace,
    progress::say,
    table_place::{TablePlace, connect},
    write_args::WriteArgs,
};
use crate::{
    attached::Attached,
    follow::{FollowOptions, Followed, Follower, Stream},
    import::{Format, ImportOptions, MappingArgs, Reading, Rejects},
    stack::TABLE,
};

/// Printed below the help.
pub(super) const EXIT_CODES: &str = "\
Exit code:
    0  with --until-caught-up: every change of the other table is in this one
    1  changes were refused, or it ended early; the messages say why
    2  the command line is wrong
  130  interrupted by Ctrl-C or SIGTERM; the same command goes on where it stopped";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The stream to follow, instead of that of a table.
    #[arg(long, value_name = "ARN", conflicts_with = "from_table", required_unless_present = "from_table")]
    from_stream: Option<String>,
    #[command(flatten)]
    origin: OriginPlace,
    /// When the import began that this goes on from, as `pagemark import` said. Only for the first time.
    #[arg(long, value_name = "INSTANT", value_parser = |text: &str| Timestamp::parse(text).map_err(|error| error.to_string()))]
    since: Option<Timestamp>,
    /// The file that keeps how far the stream was followed.
    #[arg(long, value_name = "FILE")]
    checkpoint: PathBuf,
    /// End when every change before this command is in the table.
    #[arg(long)]
    until_caught_up: bool,
    #[command(flatten)]
    place: TablePlace,
    #[command(flatten)]
    write: WriteArgs,
    /// The format of the items [default: dynamodb-json]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    #[command(flatten)]
    mapping: MappingArgs,
}

pub(super) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let is_of_items = matches!(args.format, None | Some(Format::DynamodbJson | Format::Article));
    ensure!(is_of_items, "a stream has items: --format is dynamodb-json or article");
    let stream = stream(&args).await?;
    let mut signals = Signals::listen()?;
    let Some(folder) = &args.place.data_dir else {
        let (table, url) = args.place.table_and_url();
        return follow(&args, stream, table, url, &mut signals).await;
    };
    let attached = tokio::select! {
        attached = Attached::to(folder, "follow") => attached?,
        () = signals.next() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let followed = follow(&args, stream, TABLE, Some(attached.dynamodb_url()), &mut signals).await;
    attached.end().await;
    followed
}

/// The stream of the command line.
async fn stream(args: &Args) -> anyhow::Result<Stream> {
    if let Some(name) = &args.origin.from_table {
        let origin = args.origin.connect(name).await?;
        let arn = origin.stream_arn().with_context(|| {
            format!("{} has no stream: make one of NEW_AND_OLD_IMAGES, and import the table after that", origin.name())
        })?;
        return Stream::open(origin.streams(), arn.to_owned()).await;
    }
    let arn = args.from_stream.clone().unwrap_or_default();
    Stream::open(args.origin.streams(&arn).await, arn).await
}

/// Follows a stream into a table. `url` is the engine's; `None` for AWS.
async fn follow(
    args: &Args,
    stream: Stream,
    table: &str,
    url: Option<&str>,
    signals: &mut Signals,
) -> anyhow::Result<ExitCode> {
    let table = connect(&args.write.table_config(table, url)).await?;
    let described = table.describe().await?;
    let is_other = described.stream_arn.as_deref() != Some(stream.arn());
    ensure!(is_other, "the stream is that of the table to write to: name another");
    let rejects = args
        .write
        .rejects
        .as_ref()
        .map(|path| Rejects::create(path).with_context(|| format!("{} cannot be written", path.display())));
    let rejects = rejects.transpose()?.map(|rejects| rejects.of_file(stream.arn()));
    let import = ImportOptions { rejects, ..args.write.import_options() };
    let choices = format!("{:?} {:?}", args.format, args.mapping);
    let options = FollowOptions { position: &args.checkpoint, since: args.since, choices: &choices, import };
    let reading = Reading::new(args.format, args.mapping.clone(), args.write.rejects.is_some());
    let follower = Follower::new(table, &described.id, &stream, reading, options);
    let follower = follower.with_context(|| format!("checkpoint {}", args.checkpoint.display()))?;
    let state = follower.state();
    let ended = tokio::select! {
        ended = follower.run(stream, args.until_caught_up) => Some(ended),
        () = say_now_and_then(state.clone()) => None,
        () = signals.next() => None,
    };
    let followed = state.borrow().clone();
    say(&report_text(&followed));
    Ok(match ended {
        None => ExitCode::from(INTERRUPTED),
        Some(Ok(())) if followed.refused == 0 => ExitCode::SUCCESS,
        Some(Ok(())) => ExitCode::FAILURE,
        Some(Err(error)) => {
            eprintln!("pagemark: {error}");
            ExitCode::FAILURE
        }
    })
}

/// Says once a minute how far it is, if anything has changed. Never ends.
async fn say_now_and_then(state: watch::Receiver<Followed>) {
    const SAY_EVERY: std::time::Duration = std::time::Duration::from_secs(60);
    let mut said = 0;
    loop {
        tokio::time::sleep(SAY_EVERY).await;
        let mut followed = state.borrow().clone();
        if followed.records != said {
            said = followed.records;
            followed.reasons.clear();
            eprint!("{}", report_text(&followed));
        }
    }
}

fn report_text(followed: &Followed) -> String {
    let Followed { records, created, updated, deleted, refused, reasons, complete_until, .. } = followed;
    let [records, created, updated, deleted, refused] =
        [records, created, updated, deleted, refused].map(|count| HumanCount(*count));
    let until =
        complete_until.map_or_else(|| "not caught up yet".to_owned(), |until| format!("complete until {until}"));
    let mut text = format!(
        "{records} changes: {created} comments created, {updated} updated, {deleted} deleted, {refused} refused; {until}\n"
    );
    for reason in reasons {
        text.push_str(&format!("refused: {reason}\n"));
    }
    text
}
