//! The deployment template, and what the rest of the project reads from it.
//!
//! The local stack runs the stream functions with the settings in `template.yaml`. So what works on one machine is what
//! gets deployed. [`mapping_settings`] returns the batching, the retries and the [`FilterPattern`] of a function's
//! event source mapping.
//!
//! ```
//! let settings = infra::mapping_settings("StreamWriter")?;
//! assert!(settings.batch_size > 0);
//! # Ok::<(), infra::TemplateError>(())
//! ```

use std::{collections::BTreeMap, ops::RangeInclusive};

use serde::{Deserialize, Deserializer, de::Error};

pub mod filter;

pub use filter::{FilterError, FilterPattern};

/// The text of the deployment template (AWS SAM), `infra/template.yaml`.
pub const TEMPLATE: &str = include_str!("../template.yaml");

/// The settings of one event source mapping. The names are the service's, with units last.
#[derive(Debug, Clone, PartialEq)]
pub struct MappingSettings {
    /// Maximum number of records that one call of the function gets.
    pub batch_size: u32,
    /// Maximum number of retries of a batch before it goes to quarantine.
    pub maximum_retry_attempts: u32,
    /// The age at which records go to quarantine instead of being retried; `None` when only the stream drops them.
    pub maximum_record_age_seconds: Option<u32>,
    /// How many batches of one shard run in parallel. They are divided by item: partition and sort key.
    pub parallelization_factor: u32,
    /// Whether a batch that failed as a whole is split in two.
    pub bisect_batch_on_function_error: bool,
    /// Whether the function reports which records failed. If so, a batch is retried from the first of them.
    pub report_batch_item_failures: bool,
    /// Which records the function gets.
    pub filter: FilterPattern,
}

/// Why the template cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The template is not YAML, or a mapping in it lacks a property or has one of a wrong type.
    #[error("the template cannot be read: {0}")]
    Yaml(#[from] serde_norway::Error),
    /// The template has no task definition of this name.
    #[error("the template has no task definition {task}")]
    NoTask {
        /// The requested logical id.
        task: String,
    },
    /// No event source mapping names the function, or several do.
    #[error("the template has {count} event source mappings for {function}, not one")]
    Mappings {
        /// The requested logical id.
        function: String,
        /// How many mappings name it.
        count: usize,
    },
    /// A number is outside the range that the service accepts, or means "for ever" where this project needs an end.
    #[error("{property} of the mapping for {function} is {value}, not in {range:?}")]
    OutOfRange {
        /// The function's logical id.
        function: String,
        /// The property.
        property: &'static str,
        /// Its value.
        value: i64,
        /// The accepted values.
        range: RangeInclusive<u32>,
    },
    /// The mapping's filter cannot be used.
    #[error("the filter of the mapping for {function}: {source}")]
    Filter {
        /// The function's logical id.
        function: String,
        /// The error of the filter.
        source: FilterError,
    },
}

/// The settings of the event source mapping that feeds a function of [`TEMPLATE`]. The function is given by its logical
/// id, such as `StreamWriter`.
///
/// # Errors
/// The template has no such mapping. Or the service would refuse the mapping, or the local stack cannot simulate it.
pub fn mapping_settings(function_logical_id: &str) -> Result<MappingSettings, TemplateError> {
    mapping_settings_in(TEMPLATE, function_logical_id)
}

fn mapping_settings_in(template: &str, function: &str) -> Result<MappingSettings, TemplateError> {
    let template: Template = serde_norway::from_str(template)?;
    let mut mappings = Vec::new();
    for resource in template.resources.values().filter(|resource| is_a(resource, MAPPING_TYPE)) {
        let mapping: Mapping = serde_norway::from_value(properties(resource))?;
        if mapping.function_name.logical_id == function {
            mappings.push(mapping);
        }
    }
    let count = mappings.len();
    let (Some(mapping), 1) = (mappings.pop(), count) else {
        return Err(TemplateError::Mappings { function: function.to_owned(), count });
    };

    let in_range = |property, value: i64, range: RangeInclusive<u32>| {
        let number = u32::try_from(value).ok().filter(|number| range.contains(number));
        number.ok_or_else(|| TemplateError::OutOfRange { function: function.to_owned(), property, value, range })
    };
    let patterns: Vec<String> = mapping.filter_criteria.filters.into_iter().map(|filter| filter.pattern).collect();
    // The ranges are those of the API reference, CreateEventSourceMapping, for DynamoDB streams.
    in_range("MaximumBatchingWindowInSeconds", mapping.maximum_batching_window_in_seconds, 0..=300)?;
    Ok(MappingSettings {
        batch_size: in_range("BatchSize", mapping.batch_size, 1..=10_000)?,
        // With the service's -1 ("for ever"), one bad batch would block its shard until the stream drops records.
        maximum_retry_attempts: in_range("MaximumRetryAttempts", mapping.maximum_retry_attempts, 0..=10_000)?,
        maximum_record_age_seconds: match mapping.maximum_record_age_in_seconds {
            None | Some(-1) => None,
            Some(age) => Some(in_range("MaximumRecordAgeInSeconds", age, 60..=604_800)?),
        },
        parallelization_factor: in_range("ParallelizationFactor", mapping.parallelization_factor, 1..=10)?,
        bisect_batch_on_function_error: mapping.bisect_batch_on_function_error,
        report_batch_item_failures: mapping
            .function_response_types
            .iter()
            .any(|kind| kind == "ReportBatchItemFailures"),
        filter: FilterPattern::parse(&patterns)
            .map_err(|source| TemplateError::Filter { function: function.to_owned(), source })?,
    })
}

/// The size of a task of [`TEMPLATE`], and how its process is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSettings {
    /// The memory of its container.
    pub memory_mib: u64,
    /// The variables of the process whose values the template spells out.
    pub variables: BTreeMap<String, String>,
}

/// The settings of a task definition with one container. The task is given by its logical id, such as `ApiTask`.
///
/// # Errors
/// The template has no such task definition, or it cannot be read.
pub fn task_settings(logical_id: &str) -> Result<TaskSettings, TemplateError> {
    let template: Template = serde_norway::from_str(TEMPLATE)?;
    let task = template.resources.get(logical_id).filter(|resource| is_a(resource, TASK_TYPE));
    let task = task.ok_or_else(|| TemplateError::NoTask { task: logical_id.to_owned() })?;
    let task: Task = serde_norway::from_value(properties(task))?;
    let variables = task.container_definitions.into_iter().flat_map(|container| container.environment);
    let spelled_out = |variable: serde_norway::Value| serde_norway::from_value::<Variable>(variable).ok();
    let variables = variables.filter_map(spelled_out).map(|variable| (variable.name, variable.value)).collect();
    Ok(TaskSettings { memory_mib: task.memory, variables })
}

const TASK_TYPE: &str = "AWS::ECS::TaskDefinition";

const MAPPING_TYPE: &str = "AWS::Lambda::EventSourceMapping";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Template {
    /// Resources by logical id, and loops over resources (`Fn::ForEach::…`).
    resources: BTreeMap<String, serde_norway::Value>,
}

fn is_a(resource: &serde_norway::Value, kind: &str) -> bool {
    resource.get("Type").is_some_and(|named| named == kind)
}

fn properties(resource: &serde_norway::Value) -> serde_norway::Value {
    resource.get("Properties").cloned().unwrap_or_default()
}

/// The properties of a mapping. The local stack simulates some of them. These must be written down, so that nothing
/// depends on a default.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Mapping {
    function_name: Reference,
    batch_size: i64,
    maximum_batching_window_in_seconds: i64,
    maximum_retry_attempts: i64,
    maximum_record_age_in_seconds: Option<i64>,
    parallelization_factor: i64,
    bisect_batch_on_function_error: bool,
    #[serde(default)]
    function_response_types: Vec<String>,
    #[serde(default)]
    filter_criteria: FilterCriteria,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Task {
    #[serde(deserialize_with = "number")]
    memory: u64,
    container_definitions: Vec<Container>,
}

/// A number that CloudFormation takes as a text.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    environment: Vec<serde_norway::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Variable {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct Reference {
    #[serde(rename = "Ref")]
    logical_id: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FilterCriteria {
    filters: Vec<Filter>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Filter {
    pattern: String,
}

#[cfg(test)]
mod tests;
