//! A design's usage, and the load of a month.

use strum::VariantArray;

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
    /// Median latency of a page in microseconds, measured the same way for all designs.
    pub(crate) page_latency_us: PerRatings<Option<f64>>,
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
