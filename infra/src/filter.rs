//! Filter patterns of event source mappings, evaluated by the service's rules.
//!
//! The syntax is "Filter rule syntax" in the AWS Lambda Developer Guide. A pattern has the shape of a record, with
//! lists of rules at its leaves. All leaves must match, and at each leaf one rule must hold. If a mapping has several
//! patterns, one must match. An unsupported operator (`numeric`, `equals-ignore-case`, `$or` …) is an error when the
//! pattern is parsed, so a pattern never matches less or more than it says.

use serde_json::{Map, Value};

/// Maximum number of patterns that a mapping accepts by default.
pub const PATTERNS_MAX: usize = 5;

/// Maximum length of a pattern that the service accepts, in bytes.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// The filter of one event source mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct FilterPattern {
    alternatives: Vec<Fields>,
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

type Fields = Vec<(String, Node)>;

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Fields(Fields),
    OneOf(Vec<Rule>),
}

#[derive(Debug, Clone, PartialEq)]
enum Rule {
    Equals(Value),
    AnythingBut(Vec<Value>),
    Prefix(String),
    Suffix(String),
    Exists(bool),
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
            parse_fields(fields, &mut Vec::new())
        };
        Ok(FilterPattern { alternatives: patterns.iter().map(parse).collect::<Result<_, _>>()? })
    }

    /// Whether the mapping passes a stream record. The record is the JSON that a function receives: an object with
    /// `eventName`, `dynamodb.Keys` and so on.
    pub fn matches(&self, record: &Value) -> bool {
        self.alternatives.is_empty() || self.alternatives.iter().any(|fields| fields_match(fields, Some(record)))
    }
}

fn parse_fields(fields: &Map<String, Value>, path: &mut Vec<String>) -> Result<Fields, FilterError> {
    if fields.is_empty() {
        return Err(malformed(path, "an object names at least one field"));
    }
    let mut parsed = Vec::with_capacity(fields.len());
    for (name, value) in fields {
        // New operators besides `$or` may appear. None of them is a field.
        if name.starts_with('$') {
            return Err(unsupported(path, name));
        }
        path.push(name.clone());
        let node = match value {
            Value::Object(inner) => Node::Fields(parse_fields(inner, path)?),
            Value::Array(rules) if rules.is_empty() => return Err(malformed(path, "a list has at least one rule")),
            Value::Array(rules) => {
                Node::OneOf(rules.iter().map(|rule| parse_rule(rule, path)).collect::<Result<_, _>>()?)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return Err(malformed(path, "a value stands in a list"));
            }
        };
        path.pop();
        parsed.push((name.clone(), node));
    }
    Ok(parsed)
}

fn parse_rule(rule: &Value, path: &[String]) -> Result<Rule, FilterError> {
    let operation = match rule {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Ok(Rule::Equals(rule.clone())),
        Value::Array(_) => return Err(malformed(path, "a rule is a value or an object")),
        Value::Object(operation) => operation,
    };
    let mut operations = operation.iter();
    let (Some((operator, operand)), None) = (operations.next(), operations.next()) else {
        return Err(malformed(path, "a rule has one operator"));
    };
    match (operator.as_str(), operand) {
        ("prefix", Value::String(text)) => Ok(Rule::Prefix(text.clone())),
        ("suffix", Value::String(text)) => Ok(Rule::Suffix(text.clone())),
        ("exists", Value::Bool(wanted)) => Ok(Rule::Exists(*wanted)),
        ("anything-but", Value::String(_) | Value::Number(_)) => Ok(Rule::AnythingBut(vec![operand.clone()])),
        ("anything-but", Value::Array(values))
            if !values.is_empty() && values.iter().all(|value| value.is_string() || value.is_number()) =>
        {
            Ok(Rule::AnythingBut(values.clone()))
        }
        // Also covers operands of other types: `{"anything-but": {"prefix": …}}` is a separate operator.
        _ => Err(unsupported(path, &format!("{operator}: {operand}"))),
    }
}

fn fields_match(fields: &Fields, value: Option<&Value>) -> bool {
    fields.iter().all(|(name, node)| {
        // Checks absent fields too, because a rule may require that a field does not exist.
        let inner = value.and_then(|value| value.get(name));
        match node {
            Node::Fields(fields) => fields_match(fields, inner),
            Node::OneOf(rules) => rules.iter().any(|rule| rule_matches(rule, inner)),
        }
    })
}

fn rule_matches(rule: &Rule, value: Option<&Value>) -> bool {
    // If the record has a list, one of its elements must match. An object is not a leaf, and rules apply to leaves.
    let leaves = match value {
        Some(Value::Array(members)) => members.as_slice(),
        Some(Value::Object(_)) | None => &[],
        Some(leaf @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_))) => std::slice::from_ref(leaf),
    };
    let any_text = |fits: &dyn Fn(&str) -> bool| leaves.iter().filter_map(Value::as_str).any(fits);
    match rule {
        Rule::Equals(wanted) => leaves.contains(wanted),
        Rule::AnythingBut(unwanted) => leaves.iter().any(|leaf| !unwanted.contains(leaf)),
        Rule::Prefix(prefix) => any_text(&|text| text.starts_with(prefix.as_str())),
        Rule::Suffix(suffix) => any_text(&|text| text.ends_with(suffix.as_str())),
        Rule::Exists(wanted) => *wanted != leaves.is_empty(),
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

    #[track_caller]
    fn check(pattern: Value, matching: &[Value], others: &[Value]) {
        let filter = FilterPattern::parse(&[pattern.to_string()]).unwrap();
        for record in matching {
            assert!(filter.matches(record), "{pattern} refuses {record}");
        }
        for record in others {
            assert!(!filter.matches(record), "{pattern} passes {record}");
        }
    }

    #[test]
    fn each_rule_matches_what_its_name_says() {
        check(
            json!({"a": ["x", 1, null]}),
            &[json!({"a": "x"}), json!({"a": 1}), json!({"a": null})],
            &[json!({"a": "X"}), json!({"a": "1"}), json!({"a": 1.0}), json!({})],
        );
        check(
            json!({"a": [{"prefix": "us-"}]}),
            &[json!({"a": "us-"}), json!({"a": "us-east"})],
            &[json!({"a": "eus-"}), json!({"a": 5}), json!({})],
        );
        check(
            json!({"a": [{"suffix": ".png"}]}),
            &[json!({"a": "i.png"})],
            &[json!({"a": "i.PNG"}), json!({"a": null})],
        );
        check(
            json!({"a": [{"anything-but": ["x", 1]}]}),
            &[json!({"a": "y"}), json!({"a": 2})],
            &[json!({"a": "x"}), json!({"a": 1}), json!({})],
        );
        check(json!({"a": [{"anything-but": "x"}]}), &[json!({"a": "y"})], &[json!({"a": "x"})]);
        check(json!({"a": [{"exists": true}]}), &[json!({"a": null})], &[json!({}), json!({"a": {"b": 1}})]);
    }

    #[test]
    fn something_can_be_demanded_to_be_absent_at_any_depth() {
        check(
            json!({"dynamodb": {"NewImage": {"auto": {"BOOL": [{"exists": false}]}}}}),
            &[json!({}), json!({"dynamodb": {}}), json!({"dynamodb": {"NewImage": {"pk": {"S": "x"}}}})],
            &[json!({"dynamodb": {"NewImage": {"auto": {"BOOL": true}}}})],
        );
    }

    #[test]
    fn all_fields_must_match_and_one_rule_of_each() {
        check(
            json!({"eventName": ["INSERT", {"prefix": "MOD"}], "n": {"m": [1]}}),
            &[json!({"eventName": "INSERT", "n": {"m": 1}}), json!({"eventName": "MODIFY", "n": {"m": 1}})],
            &[json!({"eventName": "REMOVE", "n": {"m": 1}}), json!({"eventName": "INSERT", "n": {"m": 2}})],
        );
    }

    #[test]
    fn one_pattern_of_several_must_match_and_without_any_all_do() {
        let filter = FilterPattern::parse(&[r#"{"a": [1]}"#, r#"{"a": [2]}"#]).unwrap();
        assert!(filter.matches(&json!({"a": 1})) && filter.matches(&json!({"a": 2})));
        assert!(!filter.matches(&json!({"a": 3})));
        assert!(FilterPattern::parse(&[] as &[&str]).unwrap().matches(&json!({"a": 3})));
    }

    #[test]
    fn what_is_not_supported_is_an_error_and_no_silent_match() {
        for pattern in [
            r#"{"a": [{"numeric": [">", 5]}]}"#,
            r#"{"a": [{"equals-ignore-case": "x"}]}"#,
            r#"{"a": [{"wildcard": "*x"}]}"#,
            r#"{"a": [{"anything-but": {"prefix": "x"}}]}"#,
            r#"{"a": [{"anything-but": []}]}"#,
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
