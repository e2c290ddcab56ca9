//! Lines in the CloudWatch embedded metric format: a line of JSON on standard output, which
//! CloudWatch Logs turns into metrics (Amazon CloudWatch, "Specification: Embedded metric format").

use serde_json::{Map, Value, json};

/// The default namespace of every function's metrics. Each stack of an account needs a different
/// one.
pub const NAMESPACE: &str = "Pagemark";

/// The only dimension: the name of the function, or of the API.
pub const DIMENSION: &str = "Function";

/// The metrics of a process in a namespace as a line, without a line feed. Each value has a name
/// and a unit.
pub fn line(
    namespace: &str,
    process: &str,
    at_epoch_ms: i64,
    values: &[(&str, &str, Value)],
) -> String {
    let metrics: Vec<Value> = values
        .iter()
        .map(|(name, unit, _)| json!({ "Name": name, "Unit": unit }))
        .collect();
    let mut line = Map::new();
    line.insert(
        "_aws".to_owned(),
        json!({
            "Timestamp": at_epoch_ms,
            "CloudWatchMetrics": [{ "Namespace": namespace, "Dimensions": [[DIMENSION]], "Metrics": metrics }],
        }),
    );
    line.insert(DIMENSION.to_owned(), process.into());
    line.extend(
        values
            .iter()
            .map(|(name, _, value)| ((*name).to_owned(), value.clone())),
    );
    Value::Object(line).to_string()
}
