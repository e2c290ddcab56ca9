//! `--explain`: describes what a command would read and write, without doing it. It reads only the table's description,
//! the job's own state and the markers.

use std::collections::BTreeMap;

use model::{Timestamp, journal::JOURNAL_SHARDS, primaries::PRIMARIES_SHARDS};
use process::{StoreError, now};

use crate::{
    commands::audit_plan::{AuditOptions, Which, plan_audit},
    entry::config::Command,
    find::journal::{oldest_entry, windows},
    run::{Job, error::answer_of_index, settings::ms},
    state::checkpoint::segment_states,
};

const REPAIRS: &str =
    "per comment with differences, one transaction of its wrong duplicates, one edit of the page index";

pub(crate) async fn explain(job: &Job, command: &Command) -> Result<String, StoreError> {
    let mut text = match command {
        Command::Recent { since } => recent(job, *since).await?,
        Command::Audit(args) => audit(job, args.options().unwrap_or_default()).await?,
        Command::Quarantine(args) => format!(
            "reads:  every batch in quarantine at {:?}; of each comment that one names, its items (some 33 read units at\n\
             \x20       4 KB an item, consistent), and its scores in all base sets of its product\n\
             writes: {REPAIRS}\n\
             removes: batches whose comments are all in order\n",
            args.quarantine
        ),
        Command::Rebuild { segments } => rebuild(*segments),
        Command::Check { id, .. } => format!(
            "reads:  all items of comment {id}, and its scores in all base sets of its product\n\
             writes: one transaction of its wrong duplicates, one edit of the page index, if there are differences\n"
        ),
        Command::Erase { author } => format!(
            "reads:  the table's index `authors` at {:?}, and the primary item of each comment that it names\n\
             writes: per comment one transaction: its deletion, and its journal entry. The functions delete the rest\n",
            author.as_str()
        ),
        Command::Status { .. } => {
            "reads:  the job's own state, the markers of the page index\nwrites: nothing\n".to_owned()
        }
    };
    if !job.settings.apply && !matches!(command, Command::Status { .. }) {
        text.push_str("without --apply, nothing is written\n");
    }
    Ok(text)
}

fn rebuild(segments: u32) -> String {
    let segments = segments.clamp(1, PRIMARIES_SHARDS);
    format!(
        "reads:  the table's index `primaries`, {segments} of its {PRIMARIES_SHARDS} shards at the same time, eventually consistent;\n\
         \x20       the journal since some minutes before the rebuild began\n\
         writes: a lease, a record of the run\n\
         page index: emptied; two members a comment; a marker for each partition at the end. Until then numbered\n\
         \x20       pages answer 503\n"
    )
}

async fn recent(job: &Job, since: Option<Timestamp>) -> Result<String, StoreError> {
    let present = now();
    let table_id = job.table.describe().await?.id;
    let duplicates = job.table.watermark().await?;
    let marks = answer_of_index(job.index.marks(&table_id).await)?;
    let oldest = oldest_entry(present);
    let of_index = marks.iter().flatten().map(|(_, mark)| mark.watermark);
    let begins = of_index.chain([duplicates.unwrap_or(oldest)]).min().unwrap_or(oldest);
    let from = begins.plus_ms(-ms(job.settings.overlap));
    let from = since.map_or(from, |since| since.min(from)).max(oldest);
    let to = present.plus_ms(-ms(job.settings.settle));
    let windows = windows(from, to).count();
    let queries = windows * usize::try_from(JOURNAL_SHARDS).unwrap_or(1);
    let watermark = duplicates.map_or("none".to_owned(), |at| at.to_string());
    let all = job.index.partitions().count();
    let partitions = match &marks {
        Ok(marks) => format!("partitions of the page index that are kept up to date: {} of {all}", marks.len()),
        Err(error) => format!("the page index is left out, because {error}"),
    };
    Ok(format!(
        "watermark of the duplicates: {watermark}\n{partitions}\n\
         reads:  the journal from {from} to {to}, {windows} hours or parts of them, {queries} queries at least; of each\n\
         \x20       comment named there its items, consistent, and its scores in all base sets of its product\n\
         writes: {REPAIRS};\n\
         \x20       the watermarks, a confirmation a minute; a lease, a record of the run\n"
    ))
}

async fn audit(job: &Job, options: AuditOptions) -> Result<String, StoreError> {
    let states = match job.settings.apply {
        true => segment_states(&job.table, &job.table.describe().await?.id).await?,
        false => BTreeMap::new(),
    };
    let plan = plan_audit(&states, options, now());
    let under_way = plan.segments.iter().filter(|(_, state)| state.position.is_some()).count();
    let done = plan.done;
    let which = match options.which {
        Which::All => format!("all {} segments of the table", options.segments),
        Which::NoneOfThem => "no segment of the table".to_owned(),
        Which::One(segment) => format!("segment {segment} of {}", options.segments),
        Which::Due => format!("those of {} segments that were not checked in the last six days", options.segments),
    };
    let index_scan = match options.index_scan {
        true => {
            "        every member of the page index; of each comment its primary item (half a read unit), and its scores in\n\
             \x20       all base sets of the product\n"
        }
        false => "",
    };
    Ok(format!(
        "reads:  {which}, each item once, eventually consistent ({under_way} segments resume in the middle,\n\
         \x20       {done} are done); the scores of each comment in its two base sets; again, consistent, what is not right\n\
         {index_scan}writes: {REPAIRS};\n\
         \x20       its position every 10 s, a lease, a record of the run\n"
    ))
}
