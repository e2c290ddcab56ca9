//! Filter patterns of event source mappings, evaluated by the service's rules.
//!
//! The syntax is "Filter rule syntax" in the AWS Lambda Developer Guide. A pattern has the shape of a record, with
//! lists of rules at its leaves. All leaves must match, and at each leaf one rule must hold. If a mapping has several
//! patterns, one must match. The only rule here is the template's, `suffix`. Any other (`prefix`, `exists`, `$or` …) is
//! an error when the pattern is parsed, so a pattern never matches less or more than it says.

use serde_json::{Map, Value};

/// Maximum number of patterns that a mapping accepts by default.
pub const PATTERNS_MAX: usize = 5;

/// Maximum length of a pattern that the service accepts, in bytes.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// The filter of one event source mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct FilterPattern {
    alternatives: Vec<Vec<Leaf>>,
}

/// Why a pattern is invalid.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// The pattern is not JSON.
    #[error("the filter pattern is not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The pattern uses an operator that is not supported here.
    #[error("the filter pattern uses {operator:?} at {at:?}, which is not supported")]
    Unsupported {
        /// The operator.
        operator: String,
        /// The path to it, joined by dots.
        at: String,
    },
    /// The pattern has the wrong structure.
    #[error("the filter pattern is malformed at {at:?}: {reason}")]
    Malformed {
        /// The path to the error, joined by dots.
        at: String,
        /// The error.
        reason: &'static str,
    },
    /// The patterns are more numerous, or longer, than the service accepts.
    #[error("a mapping takes {PATTERNS_MAX} patterns of {PATTERN_BYTES_MAX} bytes at most")]
    TooLarge,
}

/// A field, and the endings of which its text must have one.
#[derive(Debug, Clone, PartialEq)]
struct Leaf {
    path: Vec<String>,
    suffixes: Vec<String>,
}

impl FilterPattern {
    /// Parses the patterns of one mapping. Without patterns, every record matches, as in the service.
    ///
    /// # Errors
    /// A pattern is malformed, too large, or uses an operator that is not supported here.
    pub fn parse(patterns: &[impl AsRef<str>]) -> Result<FilterPattern, FilterError> {
        if patterns.len() > PATTERNS_MAX || patterns.iter().any(|pattern| pattern.as_ref().len() > PATTERN_BYTES_MAX) {
            return Err(FilterError::TooLarge);
        }
        let parse = |pattern: &_| {
            let pattern: Value = serde_json::from_str(AsRef::<str>::as_ref(pattern))?;
            let fields = pattern.as_object().ok_or_else(|| malformed(&[], "a pattern is an object"))?;
            let mut leaves = Vec::new();
            parse_fields(fields, &mut Vec::new(), &mut leaves)?;
            Ok(leaves)
        };
        Ok(FilterPattern { alternatives: patterns.iter().map(parse).collect::<Result<_, FilterError>>()? })
    }

    /// Whether the mapping passes a stream record. The record is the JSON that a function receives: an object with
    /// `eventName`, `dynamodb.Keys` and so on.
    pub fn matches(&self, record: &Value) -> bool {
        self.alternatives.is_empty()
            || self.alternatives.iter().any(|leaves| leaves.iter().all(|leaf| leaf.matches(record)))
    }
}

fn parse_fields(
    fields: &Map<String, Value>,
    path: &mut Vec<String>,
    leaves: &mut Vec<Leaf>,
) -> Result<(), FilterError> {
    if fields.is_empty() {
        return Err(malformed(path, "an object names at least one field"));
    }
    for (name, value) in fields {
        // New operators besides `$or` may appear. None of them is a field.
        if name.starts_with('$') {
            return Err(unsupported(path, name));
        }
        path.push(name.clone());
        match value {
            Value::Object(inner) => parse_fields(inner, path, leaves)?,
            Value::Array(rules) if rules.is_empty() => return Err(malformed(path, "a list has at least one rule")),
            Value::Array(rules) => {
                let suffixes = rules.iter().map(|rule| parse_rule(rule, path)).collect::<Result<_, _>>()?;
                leaves.push(Leaf { path: path.clone(), suffixes });
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return Err(malformed(path, "a value stands in a list"));
            }
        }
        path.pop();
    }
    Ok(())
}

/// The ending that a rule demands.
fn parse_rule(rule: &Value, path: &[String]) -> Result<String, FilterError> {
    match rule {
        Value::Object(operation) => match (operation.get("suffix"), operation.len()) {
            (Some(Value::String(suffix)), 1) => Ok(suffix.clone()),
            (_, 1) => Err(unsupported(path, &rule.to_string())),
            _ => Err(malformed(path, "a rule has one operator")),
        },
        Value::Array(_) => Err(malformed(path, "a rule is a value or an object")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Err(unsupported(path, &rule.to_string())),
    }
}

impl Leaf {
    fn matches(&self, record: &Value) -> bool {
        let value = self.path.iter().try_fold(record, |value, name| value.get(name));
        // If the record has a list, one of its elements must match.
        let texts = match value {
            Some(Value::Array(members)) => members.as_slice(),
            Some(value) => std::slice::from_ref(value),
            None => &[],
        };
        let ends = |text: &str| self.suffixes.iter().any(|suffix| text.ends_with(suffix));
        texts.iter().filter_map(Value::as_str).any(ends)
    }
}

fn malformed(path: &[String], reason: &'static str) -> FilterError {
    FilterError::Malformed { at: path.join("."), reason }
}

fn unsupported(path: &[String], operator: &str) -> FilterError {
    FilterError::Unsupported { operator: operator.to_owned(), at: path.join(".") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_leaf_must_match_by_one_of_its_rules_and_one_pattern_of_several() {
        let one = r#"{"a": [{"suffix": ".png"}, {"suffix": ".gif"}], "n": {"m": [{"suffix": "x"}]}}"#;
        let other = r#"{"b": [{"suffix": "y"}]}"#;
        for (patterns, record, expected) in [
            (&[one][..], json!({"a": "i.png", "n": {"m": "x"}}), true),
            (&[one], json!({"a": ".gif", "n": {"m": ["y", "x"]}}), true),
            (&[one], json!({"a": "i.png", "n": {"m": "X"}}), false),
            (&[one], json!({"a": "i.PNG", "n": {"m": "x"}}), false),
            (&[one], json!({"a": "i.png", "n": {"m": {"x": "x"}}}), false),
            (&[one], json!({"a": "i.png", "n": null}), false),
            (&[one], json!({"a": 1, "n": {"m": "x"}}), false),
            (&[one], json!({}), false),
            (&[one, other], json!({"a": "i.png", "n": {"m": "x"}}), true),
            (&[one, other], json!({"b": "y"}), true),
            (&[one, other], json!({"b": "x"}), false),
            (&[], json!({"b": "x"}), true),
        ] {
            assert_eq!(FilterPattern::parse(patterns).unwrap().matches(&record), expected, "{patterns:?} {record}");
        }
    }

    #[test]
    fn what_is_not_supported_is_an_error_and_no_silent_match() {
        for pattern in [
            r#"{"a": ["x"]}"#,
            r#"{"a": [null]}"#,
            r#"{"a": [{"prefix": "x"}]}"#,
            r#"{"a": [{"exists": true}]}"#,
            r#"{"a": [{"anything-but": ["x"]}]}"#,
            r#"{"a": [{"anything-but": {"prefix": "x"}}]}"#,
            r#"{"a": [{"anything-but": []}]}"#,
            r#"{"a": [{"numeric": [">", 5]}]}"#,
            r#"{"a": [{"equals-ignore-case": "x"}]}"#,
            r#"{"a": [{"wildcard": "*x"}]}"#,
            r#"{"a": [{"suffix": 5}]}"#,
            r#"{"a": [{"exists": "yes"}]}"#,
            r#"{"$or": [{"a": [1]}, {"b": [1]}]}"#,
        ] {
            let error = FilterPattern::parse(&[pattern]).unwrap_err();
            assert!(matches!(error, FilterError::Unsupported { .. }), "{pattern}: {error:?}");
        }
        for pattern in
            ["[]", "{}", r#"{"a": {}}"#, r#"{"a": []}"#, r#"{"a": "x"}"#, r#"{"a": [["x"]]}"#, r#"{"a": [{}]}"#]
        {
            let error = FilterPattern::parse(&[pattern]).unwrap_err();
            assert!(matches!(error, FilterError::Malformed { .. }), "{pattern}: {error:?}");
        }
        assert!(matches!(FilterPattern::parse(&["{"]), Err(FilterError::Json(_))));
        assert!(matches!(FilterPattern::parse(&["{}"; 6]), Err(FilterError::TooLarge)));
        assert!(matches!(FilterPattern::parse(&[" ".repeat(4097)]), Err(FilterError::TooLarge)));
    }
}
