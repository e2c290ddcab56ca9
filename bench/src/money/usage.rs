//! What a design uses, and what a month asks of it.

/// One value for each number of ratings in a filter.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct PerRatings<T> {
    /// One rating.
    pub(crate) one: T,
    pub(crate) two: T,
    pub(crate) three: T,
    pub(crate) four: T,
    /// All five: a page without a filter by rating.
    pub(crate) any: T,
}

impl<T: Copy> PerRatings<T> {
    /// All with the number of ratings, from 1 to 5.
    pub(crate) fn each(&self) -> [(usize, T); 5] {
        [(1, self.one), (2, self.two), (3, self.three), (4, self.four), (5, self.any)]
    }
}

/// One value for each kind of write.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct PerWrite<T> {
    pub(crate) insert: T,
    pub(crate) text_edit: T,
    pub(crate) rating_change: T,
    pub(crate) delete: T,
}

impl<T: Copy> PerWrite<T> {
    /// All with what kind they are of.
    pub(crate) fn each(&self) -> [(&'static str, T); 4] {
        [
            ("insert", self.insert),
            ("text edit", self.text_edit),
            ("rating change", self.rating_change),
            ("delete", self.delete),
        ]
    }
}

/// What one write uses, with all that follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct WriteUsage {
    /// In the table and all its indexes, of the writer and of the functions.
    pub(crate) write_units: f64,
    /// Reads that a write needs.
    pub(crate) read_units: f64,
    /// Of all functions together: a batch of many writes is a fraction of an invocation each.
    pub(crate) function_invocations: f64,
    /// Of all functions together.
    pub(crate) function_ms: f64,
}

/// What a design uses.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Usage {
    /// As in "four indexes".
    pub(crate) design: String,
    /// Read units of a page view.
    pub(crate) page_read_units: PerRatings<f64>,
    /// Latency of a page, p50, in microseconds; of all designs measured the same way.
    pub(crate) page_latency_us: PerRatings<Option<f64>>,
    pub(crate) write: PerWrite<WriteUsage>,
    /// Memory of the functions in GB; 0.25 is 256 MB.
    pub(crate) function_memory_gb: f64,
    /// Of a comment in the table and in all indexes, each with the 100 bytes that are billed for storing an item.
    pub(crate) table_bytes: f64,
    pub(crate) index_bytes: f64,
    /// Bytes of a comment in Redis; 0 in a design without Redis.
    pub(crate) redis_bytes: f64,
    /// Of a comment and month, for upkeep: Pagemark audits each comment once a week.
    pub(crate) upkeep_read_units: f64,
}

/// What a month asks.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Workload {
    /// As in "1 million comments, 100,000 writes".
    pub(crate) name: String,
    pub(crate) page_views: PerRatings<f64>,
    pub(crate) writes: PerWrite<f64>,
    /// Comments that are stored all month.
    pub(crate) comments: f64,
    /// Bytes of one comment as a plain item: what a GB of comments is counted by.
    pub(crate) comment_bytes: f64,
}

impl Workload {
    /// Writes of all kinds.
    pub(crate) fn writes(&self) -> f64 {
        self.writes.each().iter().map(|(_, count)| count).sum()
    }
}
