//! What a design takes for a page view, a write and a stored comment.

use strum::VariantArray;

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

/// An assumption: how writes divide into inserts, text edits, rating changes and deletions.
pub(super) const WRITE_SHARES: PerWrite<f64> = [0.9, 0.05, 0.02, 0.03];

/// What one write takes, with everything that follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct WriteUsage {
    /// Units in the table and all its indexes, for the writer and the functions.
    pub(super) write_units: f64,
    /// Read units that a write needs.
    pub(super) read_units: f64,
    /// Invocations of all functions. In a batch of many writes, each write counts for a fraction of an invocation.
    pub(super) function_invocations: f64,
    /// Running time of all functions together.
    pub(super) function_ms: f64,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Design {
    pub(super) name: String,
    /// Items of a comment in the table.
    pub(super) items: f64,
    /// Read units of a page: without a filter by rating, then with 1, 2, and more ratings, up to all but one.
    pub(super) page_read_units: Vec<f64>,
    pub(super) write: PerWrite<WriteUsage>,
    /// Memory of the functions in GB; 0.25 is 256 MB.
    pub(super) function_memory_gb: f64,
    /// Bytes of a comment in the table and in all indexes, including the 100 bytes that are billed for storing each
    /// item.
    pub(super) table_bytes: f64,
    pub(super) index_bytes: f64,
    /// Bytes of a comment in Redis; 0 for a design without Redis.
    pub(super) redis_bytes: f64,
    /// Upkeep read units per comment and month. Pagemark audits each comment once a week.
    pub(super) upkeep_read_units: f64,
}

impl Design {
    /// Read units of the mean page view. The shares are in the order of [`Self::page_read_units`].
    pub(super) fn view_read_units(&self, mix: &[f64]) -> f64 {
        mix.iter().zip(&self.page_read_units).map(|(share, units)| share * units).sum()
    }

    /// This design behind a cache of pages, which answers `hits_of_ten` of ten page views. The cache is in a Redis whose
    /// bill is for `redis_bytes` of each comment. A write removes no cached page.
    pub(super) fn behind_cache(&self, name: &str, hits_of_ten: u32, redis_bytes: f64) -> Self {
        let missed = f64::from(10 - hits_of_ten.min(10)) / 10.0;
        let page_read_units = self.page_read_units.iter().map(|units| units * missed).collect();
        Self { name: name.to_owned(), page_read_units, redis_bytes, ..self.clone() }
    }
}
