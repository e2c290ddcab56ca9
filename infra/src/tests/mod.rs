//! Checks of the deployment template.
//!
//! - `agreement`: the template agrees with the code and the documents.
//! - `alarms`: each alarm watches a metric that is sent, and has a section in the runbook.
//! - `big_repair`: the state machine of big repairs.
//! - `costs`: the bill in the documents counts what the template makes.
//! - `edge`: the CDN in front of the load balancer, which is an option.
//! - `network`: which parts can reach which others, and the settings that let CloudFormation apply a change without an
//!   outage.
//! - `permissions`: every part is allowed only named actions on named resources.
//! - `policies`: nothing is open or unencrypted, and irreplaceable data is kept.

mod agreement;
mod alarms;
mod big_repair;
mod costs;
mod edge;
mod network;
mod permissions;
mod policies;

use serde_json::{Value, json};

use super::{FilterError, MAPPING_TYPE, TEMPLATE, TemplateError, mapping_settings, mapping_settings_in};

const FUNCTIONS: [&str; 2] = ["StreamWriter", "PageIndexer"];

fn resources() -> Resources {
    resources_with(&[("RedisShards", "0001")])
}

/// The resources, with each loop (`Fn::ForEach`) repeated for the members of a parameter's list.
fn resources_with(lists: &[(&str, &str)]) -> Resources {
    let template: Value = serde_norway::from_str(TEMPLATE).unwrap();
    let mut resources = serde_json::Map::new();
    for (name, resource) in template["Resources"].as_object().unwrap() {
        if !name.starts_with("Fn::ForEach::") {
            resources.insert(name.clone(), resource.clone());
            continue;
        }
        let variable = format!("${{{}}}", resource[0].as_str().unwrap());
        let (_, list) = lists.iter().find(|(list, _)| resource[1] == json!({ "Ref": list })).unwrap();
        for member in list.split(',') {
            let body = resource[2].to_string().replace(&variable, member);
            resources.extend(serde_json::from_str::<serde_json::Map<String, Value>>(&body).unwrap());
        }
    }
    resources
}

/// Resources by their logical ids.
type Resources = serde_json::Map<String, Value>;

/// The resources that a stack with these parameters has. All other parameters have their defaults. Conditions are
/// evaluated, references stay.
fn deployed(parameters: &[(&str, &str)]) -> Resources {
    let template: Value = serde_norway::from_str(TEMPLATE).unwrap();
    let stack = Stack { template: &template, parameters };
    let mut resources = resources();
    resources.retain(|_, resource| resource["Condition"].as_str().is_none_or(|name| stack.holds(name)));
    resources.into_iter().map(|(name, resource)| (name, stack.evaluated(resource).unwrap())).collect()
}

/// The conditions of a template under these parameters.
struct Stack<'a> {
    template: &'a Value,
    parameters: &'a [(&'a str, &'a str)],
}

impl Stack<'_> {
    fn holds(&self, condition: &str) -> bool {
        self.is_true(&self.template["Conditions"][condition])
    }

    fn is_true(&self, test: &Value) -> bool {
        let (function, arguments) = test.as_object().unwrap().iter().next().unwrap();
        let mut inner = arguments.as_array().into_iter().flatten();
        match function.as_str() {
            "Condition" => self.holds(arguments.as_str().unwrap()),
            "Fn::Not" => !self.is_true(&arguments[0]),
            "Fn::And" => inner.all(|test| self.is_true(test)),
            "Fn::Or" => inner.any(|test| self.is_true(test)),
            "Fn::Equals" => self.text(&arguments[0]) == self.text(&arguments[1]),
            other => panic!("{other}"),
        }
    }

    /// The text that a condition compares.
    fn text(&self, value: &Value) -> String {
        if let Some(name) = value["Ref"].as_str() {
            let given = self.parameters.iter().find(|(parameter, _)| *parameter == name);
            let default = || self.text(&self.template["Parameters"][name]["Default"]);
            return given.map_or_else(default, |(_, value)| (*value).to_owned());
        }
        if let Some([index, list]) = value["Fn::Select"].as_array().map(Vec::as_slice) {
            let (separator, text) = (list["Fn::Split"][0].as_str().unwrap(), self.text(&list["Fn::Split"][1]));
            let index = usize::try_from(index.as_u64().unwrap()).unwrap();
            return text.split(separator).nth(index).unwrap().to_owned();
        }
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    }

    /// A value without `Fn::If`; `None` if it then has no value.
    fn evaluated(&self, value: Value) -> Option<Value> {
        if let Some([condition, then, otherwise]) = value["Fn::If"].as_array().map(Vec::as_slice) {
            let chosen = if self.holds(condition.as_str().unwrap()) { then } else { otherwise };
            return self.evaluated(chosen.clone());
        }
        if value == json!({"Ref": "AWS::NoValue"}) {
            return None;
        }
        Some(match value {
            Value::Array(all) => all.into_iter().filter_map(|inner| self.evaluated(inner)).collect(),
            Value::Object(all) => {
                all.into_iter().filter_map(|(name, inner)| Some((name, self.evaluated(inner)?))).collect()
            }
            text_or_number @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => text_or_number,
        })
    }
}

/// The resources of a type, with their logical ids.
fn of_type(kind: &str) -> Vec<(String, Value)> {
    let found: Vec<(String, Value)> =
        resources().into_iter().filter(|(_, resource)| resource["Type"] == kind).collect();
    assert!(!found.is_empty(), "the template has no {kind}");
    found
}

/// Asserts values in every resource of a type. A JSON pointer names each.
#[track_caller]
fn assert_each(kind: &str, expected: &[(&str, Value)]) {
    for (name, resource) in of_type(kind) {
        for (pointer, value) in expected {
            assert_eq!(resource.pointer(pointer), Some(value), "{name}: {pointer}");
        }
    }
}

/// Asserts some properties of a resource.
#[track_caller]
fn assert_properties(name: &str, expected: &Value) {
    let resource = &resources()[name];
    for (property, value) in expected.as_object().unwrap() {
        assert_eq!(&resource["Properties"][property], value, "{name}: {property}");
    }
}

/// A file of the project.
fn file(path: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn record(pk: &str, sk: &str) -> Value {
    json!({
        "eventID": "1",
        "eventName": "INSERT",
        "eventSource": "aws:dynamodb",
        "dynamodb": {"Keys": {"pk": {"S": pk}, "sk": {"S": sk}}, "SequenceNumber": "1"},
    })
}

#[test]
fn the_filters_pass_primary_items_and_nothing_else() {
    for function in FUNCTIONS {
        let filter = mapping_settings(function).unwrap().filter;
        for sk in ["PRODUCT#x/~/~", "PRODUCT#assurance%2Fauto/~/~", "PRODUCT#日本/~/~"] {
            assert!(filter.matches(&record("COMMENT#c1", sk)), "{function} refuses the primary item {sk}");
        }
        for sk in ["PRODUCT#x/en/1.5", "PRODUCT#x/~/5", "PRODUCT#x/en/~", "PRODUCT#x/~/1.2.3.4", "PRODUCT#x/zh-Hant/~"]
        {
            assert!(!filter.matches(&record("COMMENT#c1", sk)), "{function} passes the duplicate {sk}");
        }
        for (pk, sk) in [
            ("CHANGE#2024-05-01T10#7", "2024-05-01T10:11:12.345Z#c1"),
            ("IDEMPOTENCY#abc", "IDEMPOTENCY"),
            ("STATE#watermark", "STATE"),
            ("PRODUCTS#28", "a%2Fb"),
        ] {
            assert!(!filter.matches(&record(pk, sk)), "{function} passes {pk} {sk}");
        }
        assert!(!filter.matches(&json!({})));
    }
}

#[test]
fn every_mapping_ends_in_quarantine_and_starts_at_the_oldest_record() {
    let resources = resources();
    let mappings: Vec<&Value> = resources.values().filter(|resource| resource["Type"] == MAPPING_TYPE).collect();
    assert_eq!(mappings.len(), FUNCTIONS.len(), "a shard of a stream admits two readers");
    for mapping in mappings {
        let properties = &mapping["Properties"];
        assert_eq!(properties["StartingPosition"], "TRIM_HORIZON");
        let own = json!({"Fn::GetAtt": ["CommentsTable", "StreamArn"]});
        assert_eq!(properties["EventSourceArn"], json!({"Fn::If": ["MakesTable", own, {"Ref": "TableStreamArn"}]}));
        let destination = &properties["DestinationConfig"]["OnFailure"]["Destination"];
        assert_eq!(*destination, json!({"Fn::GetAtt": ["QuarantineBucket", "Arn"]}));
        for filter in properties["FilterCriteria"]["Filters"].as_array().unwrap() {
            let pattern: Value = serde_json::from_str(filter["Pattern"].as_str().unwrap()).unwrap();
            let keys: Vec<&String> = pattern.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["dynamodb"], "mappings of DynamoDB streams filter on that key only");
        }
    }
    for function in FUNCTIONS {
        let settings = mapping_settings(function).unwrap();
        assert!(settings.bisect_batch_on_function_error && settings.report_batch_item_failures);
        // Six hours. The number of tries must not end them earlier, because a store that refuses at once would use up a
        // smaller number.
        assert_eq!((settings.maximum_record_age_seconds, settings.maximum_retry_attempts), (Some(21_600), 10_000));
    }
}

#[test]
fn every_name_that_the_template_refers_to_is_defined() {
    let mut template: Value = serde_norway::from_str(TEMPLATE).unwrap();
    template["Resources"] = resources().into();
    let mut names = Vec::new();
    collect_references(&template, &mut names);
    assert!(names.contains(&"CommentsTable".to_owned()), "{names:?}");
    for name in names {
        if name.starts_with("AWS::") {
            continue;
        }
        let defined = template["Resources"].get(&name).or(template["Parameters"].get(&name));
        // SAM makes the schedules' rules from the function's events, and gives them these names.
        assert!(defined.is_some() || ["RepairJobHourly", "RepairJobRecent"].contains(&name.as_str()), "{name}");
    }
}

fn collect_references(value: &Value, names: &mut Vec<String>) {
    if let Some(members) = value.as_array() {
        members.iter().for_each(|member| collect_references(member, names));
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        match key.as_str() {
            "Ref" => names.push(inner.as_str().unwrap().to_owned()),
            "Fn::GetAtt" => names.push(inner[0].as_str().unwrap().to_owned()),
            "Fn::Sub" => {
                let text = inner.as_str().unwrap();
                // This includes the text of a dashboard.
                for part in text.split("${").skip(1) {
                    names.push(part.split(['}', '.']).next().unwrap().to_owned());
                }
            }
            _ => collect_references(inner, names),
        }
    }
}

#[test]
fn a_setting_that_cannot_be_acted_out_is_an_error_that_names_it() {
    assert!(matches!(mapping_settings("Nobody"), Err(TemplateError::Mappings { count: 0, .. })));

    let changed = |from: &str, to: &str| {
        assert!(TEMPLATE.contains(from), "{from}");
        mapping_settings_in(&TEMPLATE.replace(from, to), "StreamWriter").unwrap_err()
    };
    let error = changed("MaximumRetryAttempts: 10000", "MaximumRetryAttempts: -1");
    assert!(error.to_string().contains("MaximumRetryAttempts of the mapping for StreamWriter is -1"), "{error}");
    let error = changed("BatchSize: 100", "BatchSize: 20000");
    assert!(matches!(error, TemplateError::OutOfRange { property: "BatchSize", .. }), "{error}");
    let error = changed("      BatchSize: 100\n", "");
    assert!(error.to_string().contains("BatchSize"), "{error}");
    let error = changed(r#"{"suffix": "/~/~"}"#, r#"{"wildcard": "*/~/~"}"#);
    assert!(matches!(error, TemplateError::Filter { source: FilterError::Unsupported { .. }, .. }), "{error}");
    let error = changed("Ref: PageIndexer", "Ref: StreamWriter");
    assert!(matches!(error, TemplateError::Mappings { count: 2, .. }), "{error}");
}
