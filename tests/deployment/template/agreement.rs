//! The template agrees with the code and the documents. Renaming something in only one of them
//! fails.

use std::collections::{BTreeMap, BTreeSet};

use clap::CommandFactory;
use local_stack::event_source_mapping::MappingSettings;
use model::FilterKey;
use serde_json::{Value, json};

use super::{TEMPLATE, project_file, properties};

/// A key of two attributes, as the template describes it.
fn keys(hash: &str, range: &str) -> Value {
    json!([
        {"AttributeName": hash, "KeyType": "HASH"},
        {"AttributeName": range, "KeyType": "RANGE"},
    ])
}

/// An index, as the template describes it.
fn index(name: &str, keys: Value, projected: Value) -> Value {
    json!({"IndexName": name, "KeySchema": keys, "Projection": projected})
}

#[test]
#[ignore = "needs Python packages"]
fn the_template_and_the_code_describe_one_table() {
    use model::{
        item::attribute::{
            AUTHOR_ID, CD, EXPIRES_AT, PCD, PK, SHARD, SK, UNPUBLISHED, UNPUBLISHED_CD,
        },
        primaries::PRIMARIES_PROJECTED,
    };
    for (of_code, name) in [
        (PK, "pk"),
        (SK, "sk"),
        (CD, "cd"),
        (SHARD, "shard"),
        (PCD, "pcd"),
        (AUTHOR_ID, "author_id"),
        (UNPUBLISHED, "unpublished"),
        (UNPUBLISHED_CD, "unpublished_cd"),
        (EXPIRES_AT, "expires_at"),
        (table::GSI, "gsi"),
        (table::PRIMARIES, "primaries"),
        (table::AUTHORS, "authors"),
        (table::MODERATION, "moderation"),
    ] {
        assert_eq!(of_code, name);
    }
    let all = json!({"ProjectionType": "ALL"});
    let keys_only = json!({"ProjectionType": "KEYS_ONLY"});
    let of_primaries =
        json!({"ProjectionType": "INCLUDE", "NonKeyAttributes": PRIMARIES_PROJECTED});
    let expected = json!({
        "KeySchema": keys(PK, SK),
        "GlobalSecondaryIndexes": [
            index(table::GSI, keys(SK, CD), all.clone()),
            index(table::PRIMARIES, keys(SHARD, PCD), of_primaries),
            index(table::AUTHORS, keys(AUTHOR_ID, PK), keys_only),
            index(table::MODERATION, keys(UNPUBLISHED, UNPUBLISHED_CD), all),
        ],
        "BillingMode": "PAY_PER_REQUEST",
        "StreamSpecification": {"StreamViewType": "NEW_AND_OLD_IMAGES"},
        "TimeToLiveSpecification": {"AttributeName": EXPIRES_AT, "Enabled": true},
    });
    for (property, value) in expected.as_object().unwrap() {
        assert_eq!(properties("CommentsTable")[property], *value, "{property}");
    }
}

#[test]
#[ignore = "needs Python packages"]
fn the_local_stack_imitates_the_mappings_of_the_template() {
    let source = json!({"Fn::If": [
        "MakesTable",
        {"Fn::GetAtt": ["CommentsTable", "StreamArn"]},
        {"Ref": "TableStreamArn"},
    ]});
    let pattern =
        json!({"dynamodb": {"Keys": {"sk": {"S": [{"suffix": FilterKey::PRIMARY_SUFFIX}]}}}});
    for (function, imitated) in [
        ("StreamWriter", MappingSettings::STREAM_WRITER),
        ("PageIndexer", MappingSettings::PAGE_INDEXER),
    ] {
        let mut mapping = properties(&format!("{function}Mapping")).clone();
        let filter = mapping["FilterCriteria"]["Filters"][0]["Pattern"].take();
        let filter: Value = serde_json::from_str(filter.as_str().unwrap()).unwrap();
        assert_eq!(filter, pattern);
        let quarantine = json!({"Fn::GetAtt": ["QuarantineBucket", "Arn"]});
        let expected = json!({
            "FunctionName": {"Ref": function},
            "EventSourceArn": source,
            "StartingPosition": "TRIM_HORIZON",
            "FilterCriteria": {"Filters": [{"Pattern": null}]},
            "BatchSize": imitated.batch_size,
            "MaximumBatchingWindowInSeconds": 0,
            "ParallelizationFactor": imitated.parallelization_factor,
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
            "BisectBatchOnFunctionError": imitated.bisect_batch_on_function_error,
            "MaximumRetryAttempts": imitated.maximum_retry_attempts,
            // Six hours. The number of tries must not end them earlier: a store that refuses at
            // once would use up a smaller number.
            "MaximumRecordAgeInSeconds": 21_600,
            "MetricsConfig": {"Metrics": ["EventCount"]},
            "DestinationConfig": {"OnFailure": {"Destination": quarantine}},
        });
        assert_eq!(mapping, expected, "{function}");
    }
}

/// The variables that the template gives to a process.
fn given(logical_id: &str) -> BTreeMap<String, String> {
    let mut given = BTreeMap::new();
    let properties = properties(logical_id);
    if let Some(variables) = properties["Environment"]["Variables"].as_object() {
        for (name, value) in variables {
            given.insert(name.clone(), resolved(value));
        }
        return given;
    }
    let container = &properties["ContainerDefinitions"][0];
    for kind in ["Environment", "Secrets"] {
        for entry in container[kind].as_array().into_iter().flatten() {
            // If the entry has a condition, take the first alternative.
            let entry = if entry["Name"].is_string() {
                entry
            } else {
                &entry["Fn::If"][1]
            };
            let name = entry["Name"].as_str().unwrap().to_owned();
            let value = entry.get("Value").unwrap_or(&entry["ValueFrom"]);
            given.insert(name, resolved(value));
        }
    }
    given
}

/// A value of the template with an example for each parameter.
fn resolved(value: &Value) -> String {
    if let Some(text) = value.as_str() {
        return text.to_owned();
    }
    if let Some(name) = value["Ref"].as_str() {
        return named(name);
    }
    let text = value["Fn::Sub"]
        .as_str()
        .unwrap_or_else(|| panic!("{value}"));
    let mut parts = text.split("${");
    let mut resolved = parts.next().unwrap().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap();
        resolved += &named(name);
        resolved += rest;
    }
    resolved
}

/// An example for what the template refers to by this name.
fn named(name: &str) -> String {
    match name {
        "AWS::StackName" => "pagemark".to_owned(),
        "PublicUrl" => "https://comments.example.com".to_owned(),
        "Tokens" => format!(
            "shop/comments:write+products:write/sha256:{}",
            "0a".repeat(32)
        ),
        "Redis.ConfigurationEndPoint.Port" => "6379".to_owned(),
        "CursorKeys" => "0a".repeat(32),
        _ => match &TEMPLATE["Parameters"][name]["Default"] {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
                name.to_lowercase()
            }
        },
    }
}

/// The variable that an argument of a command may be given by.
fn variable(argument: &clap::Arg) -> Option<String> {
    let name = argument.get_env()?;
    Some(name.to_string_lossy().into_owned())
}

/// The arguments of a command as flags, as far as the template gives a value.
fn flags(command: &clap::Command, given: &BTreeMap<String, String>) -> Vec<String> {
    let mut flags = Vec::new();
    for argument in command.get_arguments() {
        let value = variable(argument).and_then(|name| given.get(&name));
        if let (Some(flag), Some(value)) = (argument.get_long(), value) {
            flags.push(format!("--{flag}={value}"));
        }
    }
    flags
}

#[test]
#[ignore = "needs Python packages"]
fn each_process_gets_every_variable_that_it_needs_and_no_other() {
    for (logical_id, command) in [
        ("StreamWriter", stream_writer::StreamWriterConfig::command()),
        ("PageIndexer", page_indexer::PageIndexerConfig::command()),
        ("RepairJob", repair_job::FunctionConfig::command()),
        ("RepairTask", repair_job::RepairConfig::command()),
        ("ApiTask", api::Settings::command()),
    ] {
        let given = given(logical_id);
        // Without a subcommand, the repair job started by hand prints the status.
        let subcommand = command.find_subcommand("status");
        let mut known = BTreeSet::new();
        let mut needed = BTreeSet::new();
        for command in [Some(&command), subcommand].into_iter().flatten() {
            for argument in command.get_arguments() {
                let Some(name) = variable(argument) else {
                    continue;
                };
                if argument.is_required_set() {
                    needed.insert(name.clone());
                }
                known.insert(name);
            }
        }
        let names: BTreeSet<String> = given.keys().cloned().collect();
        assert!(!needed.is_empty());
        assert!(
            names.is_superset(&needed),
            "{logical_id} lacks {:?}",
            needed.difference(&names)
        );
        assert!(
            known.is_superset(&names),
            "{logical_id} does not know {:?}",
            names.difference(&known)
        );

        // The command line that says the same.
        let mut line = vec![logical_id.to_owned()];
        line.extend(flags(&command, &given));
        let mut words = 1 + given.len();
        if let Some(subcommand) = subcommand {
            line.push(subcommand.get_name().to_owned());
            line.extend(flags(subcommand, &given));
            words += 1;
        }
        assert_eq!(line.len(), words, "{logical_id}: {line:?}");
        command
            .try_get_matches_from(line)
            .unwrap_or_else(|error| panic!("{logical_id}: {error}"));
    }
}

#[test]
#[ignore = "needs Python packages"]
fn each_process_logs_in_to_redis_by_iam_and_trusts_amazons_authorities() {
    for (process, user, authorities) in [
        // Where scripts/package.sh and infra/Containerfile put the file. Lambda unpacks a zip in
        // /var/task.
        ("PageIndexer", "page-indexer", "/var/task/amazon-roots.pem"),
        ("RepairJob", "repair-job", "/var/task/amazon-roots.pem"),
        ("RepairTask", "repair-job", "/amazon-roots.pem"),
        ("ApiTask", "api", "/amazon-roots.pem"),
    ] {
        let given = given(process);
        assert!(
            given["PAGEMARK_REDIS_URL"].starts_with(&format!("rediss://pagemark-{user}@")),
            "{given:?}"
        );
        assert_eq!(given["PAGEMARK_REDIS_IAM"], "redis");
        assert_eq!(given["PAGEMARK_REDIS_MODE"], "cluster");
        assert_eq!(given["PAGEMARK_REDIS_CA"], authorities, "{process}");
    }
    assert!(
        project_file("infra/Containerfile").contains("COPY amazon-roots.pem /amazon-roots.pem\n")
    );
}

#[test]
#[ignore = "needs Python packages"]
fn each_process_has_a_user_of_redis_with_the_permissions_that_are_tested() {
    let documented = project_file("docs/operate.md");
    for (logical_id, user) in [
        ("PageIndexerUser", "page-indexer"),
        ("RepairJobUser", "repair-job"),
        ("ApiUser", "api"),
    ] {
        let prefix = format!("ACL SETUSER {user} on >PASSWORD ");
        let rules = documented
            .lines()
            .find_map(|line| line.strip_prefix(&prefix))
            .unwrap_or_else(|| panic!("{user}"));
        // AWS requires one name of a user who logs in by IAM.
        let name = json!({ "Fn::Sub": format!("${{AWS::StackName}}-{user}") });
        let expected = json!({
            "Engine": "valkey",
            "UserId": name,
            "UserName": name,
            "AccessString": format!("on {rules}"),
            "AuthenticationMode": {"Type": "iam"},
        });
        assert_eq!(*properties(logical_id), expected);
    }
}

/// Maximum template size that CloudFormation accepts without a bucket, in bytes ("Understand
/// CloudFormation quotas").
const INLINE_BYTES_MAX: usize = 51_200;

/// The outputs that documents name, as `$(output NAME)`.
fn outputs_named(documents: &str) -> BTreeSet<&str> {
    let mut outputs = BTreeSet::new();
    for rest in documents.split("$(output ").skip(1) {
        let mut words = rest.split(|character: char| !character.is_alphanumeric());
        outputs.insert(words.next().unwrap());
    }
    outputs
}

/// The parameters that documents set, as `deploy NAME=VALUE ...`, over lines that end with a
/// backslash.
fn parameters_set(documents: &str) -> BTreeSet<String> {
    let mut parameters = BTreeSet::new();
    for line in documents.replace("\\\n", " ").lines() {
        let Some(call) = line.trim().strip_prefix("deploy ") else {
            continue;
        };
        for word in call.split_whitespace() {
            if let Some((name, _)) = word.split_once('=')
                && name.chars().all(char::is_alphanumeric)
            {
                parameters.insert(name.to_owned());
            }
        }
    }
    parameters
}

#[test]
#[ignore = "needs Python packages"]
fn the_commands_of_the_documents_are_about_what_the_template_has() {
    let documents = [
        "README.md",
        "docs/deploy.md",
        "docs/operate.md",
        "scripts/repair-task.sh",
    ]
    .map(project_file)
    .concat();
    let is_small = project_file("infra/template.yaml").len() <= INLINE_BYTES_MAX;
    let mut calls = 0;
    for rest in documents.split("aws cloudformation deploy ").skip(1) {
        let call = rest.split("\n}").next().unwrap();
        assert!(is_small || call.contains("--s3-bucket"), "refused: {call}");
        calls += 1;
    }
    assert!(calls > 0);

    let outputs = outputs_named(&documents);
    assert!(outputs.contains("RepairFunctionName"), "{outputs:?}");
    for output in outputs {
        let found = TEMPLATE["Outputs"].get(output);
        assert!(found.is_some(), "there is no output {output}");
    }

    let set = parameters_set(&documents);
    assert!(set.contains("TableStreamArn"), "{set:?}");
    for name in &set {
        let found = TEMPLATE["Parameters"].get(name);
        assert!(found.is_some(), "there is no parameter {name}");
    }
    for (name, parameter) in TEMPLATE["Parameters"].as_object().unwrap() {
        if parameter.get("Default").is_none() {
            assert!(set.contains(name), "no command sets {name}");
        }
    }
}
