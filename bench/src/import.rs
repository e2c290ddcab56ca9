//! `import`: the time from a file or a generator until every comment is visible under every filter.

use std::{fs, path::Path, sync::Arc, time::Instant};

use anyhow::{Context, bail};
use local_stack::{
    demo::demo_comments,
    import::{LineReader, Source, import, read_lines},
    memory::resident_memory,
    stack::{Stack, StackSettings},
};

use crate::{
    report::{Limit, Report, count},
    statistics::as_f64,
};

const GIB: f64 = 1_073_741_824.0;
/// The comments that the limit on memory is for: the file of 42,943 real reviews, a few of which are refused.
const LIMIT_FROM: u64 = 42_900;
/// One line in this many may be refused: a few real reviews have no visible character.
const REFUSED_ONE_IN: u64 = 1_000;

pub(crate) async fn measure(report: &mut Report, data: Option<&Path>, comments: u64) -> anyhow::Result<()> {
    let mut stack = Stack::start(StackSettings::ephemeral("bench".parse().map_err(anyhow::Error::msg)?)).await?;
    stack.wait_until_index_ready().await?;
    let (source, about) = match data {
        Some(path) => {
            let reader = LineReader::open(path).with_context(|| path.display().to_string())?;
            (read_lines(reader), "a file".to_owned())
        }
        None => (Source::of_comments(demo_comments(comments)), format!("{} generated comments", count(comments))),
    };
    report.step(&format!("importing {about}"));
    // Linux then counts the largest resident memory from here on (proc(5), clear_refs).
    fs::write("/proc/self/clear_refs", "5").context("the largest resident memory cannot be reset")?;
    let began = Instant::now();
    let imported = import(stack.table(), source, &Arc::default()).await?;
    let written_s = began.elapsed().as_secs_f64();
    stack.settle().await;
    let settled_s = began.elapsed().as_secs_f64();
    if imported.bad * REFUSED_ONE_IN > imported.lines() || imported.created + imported.bad != imported.lines() {
        bail!("not every line was new and good: {imported:?}");
    }
    let memory = resident_memory().context("resident memory is read from /proc, so this needs Linux")?;
    let files = folder_size(stack.data_dir())?;
    let count = as_f64(imported.created);
    report.add(
        "import",
        &about,
        &[
            ("comments", count, ""),
            ("until written", written_s, "s"),
            ("written", count / written_s, "comments/s"),
            ("until settled", settled_s, "s"),
            ("settled", count / settled_s, "comments/s"),
            ("resident memory now", as_f64(memory.now) / GIB, "GiB"),
            ("resident memory at most", as_f64(memory.peak) / GIB, "GiB"),
            ("files of the data folder", as_f64(files) / GIB, "GiB"),
        ],
    );
    report.ratio_noted(
        "import_peak_memory_gib",
        as_f64(memory.peak) / GIB,
        Limit::AtMost(2.0).only_if(imported.created >= LIMIT_FROM),
        "at most 2 for 42,943 comments",
    );
    stack.stop().await;
    Ok(())
}

/// The bytes of the files of a folder.
pub(crate) fn folder_size(folder: &Path) -> anyhow::Result<u64> {
    let files = fs::read_dir(folder)?.map(|entry| entry?.metadata()).collect::<Result<Vec<_>, _>>()?;
    Ok(files.iter().filter(|file| file.is_file()).map(|file| file.len()).sum())
}
