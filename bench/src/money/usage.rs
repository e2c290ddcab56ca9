//! A design's usage, and the load of a month.

use strum::VariantArray;

use super::units::READ_UNIT_BYTES;

/// One value for each number of ratings in a filter, from one to all five, which is a page without a filter by rating.
pub(crate) type PerRatings<T> = [T; 5];

/// One value for each kind of write.
pub(crate) type PerWrite<T> = [T; Write::VARIANTS.len()];

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, VariantArray)]
pub(crate) enum Write {
    #[strum(to_string = "insert")]
    Insert,
    #[strum(to_string = "text edit")]
    EditText,
    #[strum(to_string = "rating change")]
    ChangeRating,
    #[strum(to_string = "delete")]
    Delete,
}

/// An assumption: how page views divide into those with one to four ratings, and those without a filter by rating.
pub(crate) const VIEW_SHARES: PerRatings<f64> = [0.1, 0.05, 0.05, 0.05, 0.75];

/// An assumption: how writes divide into inserts, text edits, rating changes and deletions.
pub(crate) const WRITE_SHARES: PerWrite<f64> = [0.9, 0.05, 0.02, 0.03];

/// The job audits each comment once a week, with the index scan. A month has 730 hours, a week 168.
const AUDITS_A_MONTH: f64 = 730.0 / 168.0;
/// The index scan reads each ranked comment's primary item, eventually consistent.
const INDEX_SCAN_READ_UNITS: f64 = 0.5;
/// `stream-writer` and `page-indexer`. At a low rate each write is a separate invocation. At a high rate one invocation
/// handles up to a hundred writes.
pub(crate) const FUNCTIONS: f64 = 2.0;
/// The functions' memory in the deployment template, in GB.
pub(crate) const FUNCTION_MEMORY_GB: f64 = 0.25;

/// Read units for auditing a comment for a month. `item_bytes` are those of all its items in the table. A scan is
/// eventually consistent, and packs items, so it is not rounded up.
pub(crate) fn audit_read_units(item_bytes: f64) -> f64 {
    AUDITS_A_MONTH * (item_bytes / READ_UNIT_BYTES / 2.0 + INDEX_SCAN_READ_UNITS)
}

/// The usage of one write, including everything that follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct WriteUsage {
    /// Units in the table and all its indexes, for the writer and the functions.
    pub(crate) write_units: f64,
    /// Read units that a write needs.
    pub(crate) read_units: f64,
    /// Invocations of all functions. In a batch of many writes, each write counts for a fraction of an invocation.
    pub(crate) function_invocations: f64,
    /// Running time of all functions together.
    pub(crate) function_ms: f64,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Usage {
    /// The design's name, such as "four indexes".
    pub(crate) design: String,
    pub(crate) page_read_units: PerRatings<f64>,
    pub(crate) write: PerWrite<WriteUsage>,
    /// Memory of the functions in GB; 0.25 is 256 MB.
    pub(crate) function_memory_gb: f64,
    /// Bytes of a comment in the table and in all indexes, including the 100 bytes that are billed for storing each
    /// item.
    pub(crate) table_bytes: f64,
    pub(crate) index_bytes: f64,
    /// Bytes of a comment in Redis; 0 for a design without Redis.
    pub(crate) redis_bytes: f64,
    /// Upkeep read units per comment and month. Pagemark audits each comment once a week.
    pub(crate) upkeep_read_units: f64,
}

impl Usage {
    /// This design behind a cache of pages that answers `hits_of_ten` of ten page views, in a Redis that is billed for
    /// this many bytes of each comment. A write removes no cached page.
    pub(crate) fn behind_cache(&self, design: &str, hits_of_ten: u32, redis_bytes: f64) -> Self {
        let missed = f64::from(10 - hits_of_ten.min(10)) / 10.0;
        let page_read_units = self.page_read_units.map(|units| units * missed);
        Self { design: design.to_owned(), page_read_units, redis_bytes, ..self.clone() }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Workload {
    /// The month's name, such as "1 million comments, 100,000 writes".
    pub(crate) name: String,
    pub(crate) page_views: PerRatings<f64>,
    pub(crate) writes: PerWrite<f64>,
    /// Number of comments stored all month.
    pub(crate) comments: f64,
    /// Bytes of one comment as a plain item. A GB of comments is counted in these.
    pub(crate) comment_bytes: f64,
}

impl Workload {
    pub(crate) fn writes(&self) -> f64 {
        self.writes.iter().sum()
    }
}
