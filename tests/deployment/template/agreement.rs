//! The template agrees with the code and the documents. Renaming something in only one of them
//! fails.

use std::collections::{BTreeMap, BTreeSet};

use clap::CommandFactory;
use local_stack::event_source_mapping::MappingSettings;
use model::FilterKey;
use serde_json::{Value, json};

use super::{TEMPLATE, project_file, properties};

#[test]
fn the_template_and_the_code_describe_one_table() {
    use model::{
        item::attribute::{
            AUTHOR_ID, CD, EXPIRES_AT, PCD, PK, SHARD, SK, UNPUBLISHED, UNPUBLISHED_CD,
        },
        primaries::PRIMARIES_PROJECTED,
    };
    let of_code = [
        PK,
        SK,
        CD,
        SHARD,
        PCD,
        AUTHOR_ID,
        UNPUBLISHED,
        UNPUBLISHED_CD,
        EXPIRES_AT,
    ];
    let names = [
        "pk",
        "sk",
        "cd",
        "shard",
        "pcd",
        "author_id",
        "unpublished",
        "unpublished_cd",
        "expires_at",
    ];
    assert_eq!(of_code, names);
    let indexes = [
        table::GSI,
        table::PRIMARIES,
        table::AUTHORS,
        table::MODERATION,
    ];
    assert_eq!(indexes, ["gsi", "primaries", "authors", "moderation"]);
    let key = |name: &str, kind: &str| json!({"AttributeName": name, "KeyType": kind});
    let keys = |hash: &str, range: &str| json!([key(hash, "HASH"), key(range, "RANGE")]);
    let index = |name: &str, keys: Value, projected: Value| json!({"IndexName": name, "KeySchema": keys, "Projection": projected});
    let all = json!({"ProjectionType": "ALL"});
    let of_primaries =
        json!({"ProjectionType": "INCLUDE", "NonKeyAttributes": PRIMARIES_PROJECTED});
    let expected = json!({
        "KeySchema": keys(PK, SK),
        "GlobalSecondaryIndexes": [
            index(table::GSI, keys(SK, CD), all.clone()),
            index(table::PRIMARIES, keys(SHARD, PCD), of_primaries),
            index(table::AUTHORS, keys(AUTHOR_ID, PK), json!({"ProjectionType": "KEYS_ONLY"})),
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
        assert_eq!(
            serde_json::from_str::<Value>(filter.as_str().unwrap()).unwrap(),
            pattern
        );
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
            "DestinationConfig": {"OnFailure": {"Destination": {"Fn::GetAtt": ["QuarantineBucket", "Arn"]}}},
        });
        assert_eq!(mapping, expected, "{function}");
    }
}

fn given(logical_id: &str) -> BTreeMap<String, String> {
    let properties = properties(logical_id);
    if let Some(variables) = properties["Environment"]["Variables"].as_object() {
        return variables
            .iter()
            .map(|(name, value)| (name.clone(), resolved(value)))
            .collect();
    }
    let container = &properties["ContainerDefinitions"][0];
    let entries = [&container["Environment"], &container["Secrets"]]
        .into_iter()
        .filter_map(Value::as_array)
        .flatten();
    let pair = |entry: &Value| {
        // If the entry has a condition, take the first alternative.
        let entry = if entry["Name"].is_string() {
            entry
        } else {
            &entry["Fn::If"][1]
        };
        let value = entry.get("Value").unwrap_or(&entry["ValueFrom"]);
        (entry["Name"].as_str().unwrap().to_owned(), resolved(value))
    };
    entries.map(pair).collect()
}

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

#[test]
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
        let below = command.find_subcommand("status");
        let all = || {
            command
                .get_arguments()
                .chain(below.iter().flat_map(|below| below.get_arguments()))
        };
        let variable = |argument: &clap::Arg| {
            argument
                .get_env()
                .map(|name| name.to_string_lossy().into_owned())
        };
        let known: BTreeSet<String> = all().filter_map(variable).collect();
        let needed: BTreeSet<String> = all()
            .filter(|argument| argument.is_required_set())
            .filter_map(variable)
            .collect();
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

        let flag = |argument: &clap::Arg| {
            let value = given.get(&variable(argument)?)?;
            Some(format!("--{}={value}", argument.get_long()?))
        };
        let mut flags = vec![logical_id.to_owned()];
        flags.extend(command.get_arguments().filter_map(flag));
        if let Some(below) = below {
            flags.push(below.get_name().to_owned());
            flags.extend(below.get_arguments().filter_map(flag));
        }
        assert_eq!(
            flags.len(),
            1 + usize::from(below.is_some()) + given.len(),
            "{logical_id}: {flags:?}"
        );
        command
            .try_get_matches_from(flags)
            .unwrap_or_else(|error| panic!("{logical_id}: {error}"));
    }
}

#[test]
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
        assert_eq!(
            (
                &*given["PAGEMARK_REDIS_IAM"],
                &*given["PAGEMARK_REDIS_MODE"]
            ),
            ("redis", "cluster")
        );
        assert_eq!(given["PAGEMARK_REDIS_CA"], authorities, "{process}");
    }
    assert!(
        project_file("infra/Containerfile").contains("COPY amazon-roots.pem /amazon-roots.pem\n")
    );
}

#[test]
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

#[test]
fn the_commands_of_the_documents_are_about_what_the_template_has() {
    let documents = [
        "README.md",
        "docs/deploy.md",
        "docs/operate.md",
        "scripts/repair-task.sh",
    ]
    .map(project_file)
    .concat();
    let calls: Vec<&str> = documents
        .split("aws cloudformation deploy ")
        .skip(1)
        .collect();
    assert!(!calls.is_empty());
    for call in calls {
        let call = call.split("\n}").next().unwrap();
        let is_small = project_file("infra/template.yaml").len() <= INLINE_BYTES_MAX;
        assert!(is_small || call.contains("--s3-bucket"), "refused: {call}");
    }
    // Collects `output NAME`, and parameters as NAME=VALUE in commands that deploy.
    let outputs: BTreeSet<&str> = documents
        .split("$(output ")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap())
        .collect();
    assert!(outputs.contains("RepairFunctionName"), "{outputs:?}");
    for output in outputs {
        assert!(
            TEMPLATE["Outputs"].get(output).is_some(),
            "there is no output {output}"
        );
    }
    // `deploy NAME=VALUE ...`, over lines that end with a backslash.
    let mut set = BTreeSet::new();
    for call in documents
        .replace("\\\n", " ")
        .lines()
        .filter_map(|line| line.trim().strip_prefix("deploy "))
    {
        let names = call
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
            .map(|(name, _)| name.to_owned());
        set.extend(names.filter(|name| name.chars().all(char::is_alphanumeric)));
    }
    assert!(set.contains("TableStreamArn"), "{set:?}");
    for name in &set {
        assert!(
            TEMPLATE["Parameters"].get(name).is_some(),
            "there is no parameter {name}"
        );
    }
    let needed = TEMPLATE["Parameters"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, of)| of.get("Default").is_none());
    for (name, _) in needed {
        assert!(set.contains(name), "no command sets {name}");
    }
}
