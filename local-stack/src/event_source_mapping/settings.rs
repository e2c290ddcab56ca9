//! The settings of the mappings, as in the deployment template. `tests/deployment/template`
//! compares the two.

use model::FilterKey;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingSettings {
    pub batch_size: usize,
    /// After so many retries a batch goes to quarantine.
    pub maximum_retry_attempts: u32,
    /// How many batches of one shard run in parallel. They are divided by item: partition and sort
    /// key.
    pub parallelization_factor: u32,
    /// Whether a batch that failed as a whole is split in two.
    pub bisect_batch_on_function_error: bool,
}

impl MappingSettings {
    pub const STREAM_WRITER: Self = Self {
        batch_size: 100,
        maximum_retry_attempts: 10_000,
        parallelization_factor: 10,
        bisect_batch_on_function_error: true,
    };

    pub const PAGE_INDEXER: Self = Self {
        parallelization_factor: 4,
        ..Self::STREAM_WRITER
    };
}

/// Whether a stream record, in the form that the handlers get, passes the filter of the mappings.
pub fn passes_filter(record: &Value) -> bool {
    let sort_key = record
        .pointer("/dynamodb/Keys/sk/S")
        .and_then(Value::as_str);
    sort_key.is_some_and(|sort_key| sort_key.ends_with(FilterKey::PRIMARY_SUFFIX))
}
