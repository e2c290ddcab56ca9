//! `scale`: the growth of all costs with the number of comments, and their absolute values.
//!
//! - **Reads** (5,000, 50,000, 500,000 comments of one product): random pages of 20, of all comments and of three
//!   ratings. They are read like in the API, without HTTP: the page's start from the page index, its comments by one
//!   Query. The figures are the latency of single reads, and how many pages 16 callers read per second. Sample pages
//!   are compared before.
//! - **Page index** (10,000 to 10,000,000 comments, if the machine has the memory). The server's time for a random page of
//!   one and of three ratings, as in `selection`. The memory of the data. The rate at which one pipeline fills it.
//! - **Upkeep** (1,000, 3,000, 10,000 comments with all their items). The binary of the repair job audits table and page
//!   index. The figures are its total time and its largest resident set. Also a rebuild of the page index.
//!
//! Each quantity gets an exponent (`fit`): 0 if it does not grow with the number of comments, 1 if it grows in
//! proportion. A page must cost the same for any number of comments (I6), at the median and at the 99th percentile. The
//! memory of the page index, the audit and the rebuild may grow in proportion. An audit's memory must not grow.

mod fit;
mod growth;
mod page_index;
mod reads;
mod upkeep;

use crate::{
    binaries::binary,
    options::Options,
    report::{Report, count},
};
use growth::{CONSTANT, Growth, LEVEL, PROPORTIONAL};
use reads::CALLERS;

const READ_SIZES: [u32; 3] = [5_000, 50_000, 500_000];
const INDEX_SIZES: [u32; 4] = [10_000, 100_000, 1_000_000, 10_000_000];
/// 100,000 comments have 3.2 million items. Loading them alone would take longer than everything else here.
const UPKEEP_SIZES: [u32; 3] = [1_000, 3_000, 10_000];
const QUICK_SIZES: [u32; 3] = [1_000, 3_000, 10_000];
/// Loading 32 items per comment is slow.
const QUICK_UPKEEP_SIZES: [u32; 3] = [300, 1_000, 3_000];
/// Free memory that the machine must have for each comment of the page index. The index takes about 450 bytes, and the
/// server also holds data that it has not added yet.
const INDEX_BYTES_A_COMMENT: f64 = 600.0;
/// Free memory for any number of comments: for the benchmark and the rest of the machine.
const INDEX_BYTES_AT_LEAST: f64 = 1e9;

/// Measures at all sizes up to the requested number of comments.
pub(crate) async fn measure(report: &mut Report, options: &Options) -> anyhow::Result<()> {
    let most = options.comments_or(10_000, 10_000_000);
    let up_to = |sizes: &[u32], quick_sizes: &[u32]| -> Vec<u32> {
        let sizes = if options.quick { quick_sizes } else { sizes };
        sizes.iter().copied().filter(|size| *size <= most).collect()
    };
    let mut growth = Growth::default();

    let available = page_index::available_memory_bytes()?;
    let needed = |size: u32| f64::from(size) * INDEX_BYTES_A_COMMENT + INDEX_BYTES_AT_LEAST;
    let (index_sizes, too_large): (Vec<u32>, Vec<u32>) =
        up_to(&INDEX_SIZES, &QUICK_SIZES).into_iter().partition(|size| needed(*size) <= available);
    let mut about =
        "The page index of one product: the server's time for a random page of 20, its memory (four sets a comment), \
                     and how fast one pipeline filled it since the size before, in the order of time."
            .to_owned();
    for size in too_large {
        let (needed, available) = (needed(size) / 1e9, available / 1e9);
        about +=
            &format!(" Left out: {size} comments, which need {needed:.1} GB of free memory; {available:.1} are free.");
    }
    let points = page_index::measure(report, &index_sizes, options.quick).await?;
    report.table(growth.part("scale-index", about, page_index::QUANTITIES, &points));

    let mut points = Vec::new();
    for size in up_to(&READ_SIZES, &QUICK_SIZES) {
        report.step(&format!("reads, {} comments", count(size)));
        points.push(reads::measure(size, options.quick).await?);
    }
    let about = format!(
        "Random pages of 20 of one product, as the API reads them, without HTTP: latency of one after the other, and throughput of \
         {CALLERS} callers."
    );
    report.table(growth.part("scale-reads", about, reads::QUANTITIES, &points));

    let repair_job = binary("repair-job")?;
    let mut points = Vec::new();
    for size in up_to(&UPKEEP_SIZES, &QUICK_UPKEEP_SIZES) {
        report.step(&format!("audit and rebuild, {} comments", count(size)));
        points.push(upkeep::measure(size, &repair_job).await?);
    }
    let about = "All 32 items a comment, one segment: the repair job's binary audits table and page index, and rebuilds the page index.";
    report.table(growth.part("scale-upkeep", about.to_owned(), upkeep::QUANTITIES, &points));

    report.table(growth.table());
    growth.plots().into_iter().for_each(|plot| report.plot(plot));
    // Between the sizes of a quick run, little changes except that caches become too small.
    if !options.quick {
        for (name, bound) in
            [("growth_level", CONSTANT), ("growth_proportional", PROPORTIONAL), ("growth_rates", LEVEL)]
        {
            if let Some((worst, exponent)) = growth.worst(bound) {
                report.ratio_noted(name, exponent, bound, &format!("the worst exponent, of {worst}"));
            }
        }
    }
    Ok(())
}
