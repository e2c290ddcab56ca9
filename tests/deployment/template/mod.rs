//! The deployment template: the linter finds nothing, a simulation of AWS creates what the code
//! expects, and the modules below read the template itself:
//!
//! - `agreement`: it agrees with the code and the documents.
//! - `alarms`: each alarm watches a metric that is sent, and has a section in the runbook.
//! - `costs`: the bill in the documents counts what the template makes.
//! - `permissions`: every part is allowed only named actions on named resources.
//! - `safety`: nothing is open or unencrypted, what cannot be made again is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::LazyLock;

use local_stack::event_source_mapping::passes_filter;
use serde_dynamo::AttributeValue;
use serde_json::{Map, Value, json};
use table::{CommentPatch, Idempotency};

use crate::fixture::{data, program::run_tool, project_file, python, stores::Stores};

const _: crate::Engines = crate::Engines::Embedded("about the template");

mod agreement;
mod alarms;
mod costs;
mod permissions;
mod safety;

/// Resources that the simulation does not create.
const NOT_SIMULATED: [&str; 14] = [
    "AWS::ApplicationAutoScaling::ScalableTarget",
    "AWS::ApplicationAutoScaling::ScalingPolicy",
    "AWS::CloudWatch::Alarm",
    "AWS::ElastiCache::ParameterGroup",
    "AWS::ElastiCache::ReplicationGroup",
    "AWS::ElastiCache::SubnetGroup",
    "AWS::ElastiCache::User",
    "AWS::ElastiCache::UserGroup",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Logs::MetricFilter",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::TopicPolicy",
    "AWS::SQS::QueuePolicy",
    "AWS::SecretsManager::Secret",
];

fn project(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(path)
}

/// The template, with its loops over resources repeated for one shard of Redis.
static TEMPLATE: LazyLock<Value> = LazyLock::new(|| {
    let mut python = python::command("python");
    let python = python.as_std_mut();
    python
        .args([
            project("tests/deployment/template/as_json.py"),
            project("infra/template.yaml"),
        ])
        .arg("RedisShards=0001");
    let output = python.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
});

fn resources() -> &'static Map<String, Value> {
    TEMPLATE["Resources"].as_object().unwrap()
}

fn properties(name: &str) -> &'static Value {
    &resources()
        .get(name)
        .unwrap_or_else(|| panic!("there is no {name}"))["Properties"]
}

fn of_type(kind: &str) -> Vec<(&'static String, &'static Value)> {
    let mut found: Vec<_> = resources().iter().collect();
    found.retain(|(_, resource)| resource["Type"] == kind);
    assert!(!found.is_empty(), "the template has no {kind}");
    found
}

#[track_caller]
fn assert_settings(expected: &[(&str, Value)]) {
    for (pointer, value) in expected {
        assert_eq!(
            TEMPLATE["Resources"].pointer(pointer),
            Some(value),
            "{pointer}"
        );
    }
}

#[track_caller]
fn assert_each(kind: &str, expected: &[(&str, Value)]) {
    for (name, resource) in of_type(kind) {
        for (pointer, value) in expected {
            assert_eq!(
                resource["Properties"].pointer(pointer),
                Some(value),
                "{name}: {pointer}"
            );
        }
    }
}

async fn run(program: &str, arguments: &[PathBuf]) -> String {
    let mut command = python::command(program);
    command.args(arguments);
    run_tool(command, "").await
}

#[tokio::test]
#[ignore = "needs Python packages"]
async fn the_linter_finds_nothing() {
    assert_eq!(run("cfn-lint", &[project("infra/template.yaml")]).await, "");
}

#[tokio::test]
#[ignore = "needs Python packages"]
async fn the_stack_has_what_the_code_expects() {
    let script =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("deployment/template/create_stack.py");
    let printed = run("python", &[script, project("infra/template.yaml")]).await;
    let stack: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(stack["status"], "CREATE_COMPLETE");
    assert_eq!(stack["left_out"], json!(NOT_SIMULATED));
    let mut alarms = texts(&stack["alarms"]);
    alarms.retain(|name| name.contains("0001") || name.contains("0002"));
    assert_eq!(
        alarms.len(),
        20,
        "five alarms of each of two nodes of two shards"
    );

    // `agreement` compares the settings of the mappings.
    let mappings = stack["mappings"].as_array().unwrap();
    assert_eq!(mappings.len(), 2, "a shard of a stream admits two readers");
    assert_roles(&stack);

    // With an existing table, the stack creates none, and reads that table's stream.
    let other = &stack["on_a_table"];
    assert!(other["ids"].get("CommentsTable").is_none());
    assert_eq!(other["sources"], json!([other["stream"], other["stream"]]));
    assert_eq!(other["tables"], json!(["restored", "restored"]));
}

/// The texts of an array.
fn texts(array: &Value) -> Vec<&str> {
    let texts = array.as_array().unwrap().iter();
    texts.map(|text| text.as_str().unwrap()).collect()
}

const BASIC: &str = "AWSLambdaBasicExecutionRole";
const IN_NETWORK: &str = "AWSLambdaVPCAccessExecutionRole";
const START: &str = "AmazonECSTaskExecutionRolePolicy";

/// The roles, each with the managed policies that the translation attaches.
const ROLES: [(&str, &[&str]); 8] = [
    ("StreamWriterRole", &[BASIC]),
    ("PageIndexerRole", &[BASIC, IN_NETWORK]),
    ("RepairJobRole", &["RepairPolicy", BASIC, IN_NETWORK]),
    ("RepairTaskRole", &["RepairPolicy"]),
    ("ApiRole", &[]),
    ("BigRepairRole", &[]),
    ("ApiExecutionRole", &[START]),
    ("RepairExecutionRole", &[START]),
];

/// Asserts that each role has its translated statements and the additions of the translation, on
/// this stack's resources.
fn assert_roles(stack: &Value) {
    let roles = stack["roles"].as_object().unwrap();
    assert_eq!(roles.len(), ROLES.len(), "{roles:?}");
    for (name, managed) in ROLES {
        let role = &roles[name];
        // Every resource that a role names has become an ARN of this stack.
        let policies = role["policies"].to_string();
        assert!(!policies.contains("Fn::"), "{policies}");
        assert!(!policies.contains("${"), "{policies}");
        let is_of_table = !name.ends_with("ExecutionRole") && name != "BigRepairRole";
        assert_eq!(
            policies.contains("table/pagemark"),
            is_of_table,
            "{name}: {policies}"
        );
        let mut expected: BTreeSet<&str> = texts(&role["named"]).into_iter().collect();
        if name == "RepairJobRole" {
            // The translation adds it, for the queue of failed runs.
            expected.insert("sqs:SendMessage");
        }
        let inline: BTreeSet<&str> = texts(&role["inline"]).into_iter().collect();
        assert_eq!(inline, expected, "{name}");
        let attached = texts(&role["managed"]).into_iter();
        let attached: Vec<&str> = attached
            .map(|arn| arn.rsplit('/').next().unwrap())
            .collect();
        assert_eq!(attached, managed, "{name}");
    }
}

/// The kind of a record: its item's kind (from the images alone), its event, and whether TTL caused
/// it.
fn kind(record: &Value) -> String {
    let change = &record["dynamodb"];
    let image = change.get("NewImage").or(change.get("OldImage")).unwrap();
    let (prefix, _) = image["pk"]["S"].as_str().unwrap().split_once('#').unwrap();
    let about = match prefix {
        "COMMENT" if image.get("auto").is_some() => "duplicate",
        "COMMENT" => "primary",
        "CHANGE" => "journal",
        "IDEMPOTENCY" => "idempotency",
        other => panic!("{other}"),
    };
    let by_ttl = if record.get("userIdentity").is_some() {
        " by TTL"
    } else {
        ""
    };
    format!("{about} {}{by_ttl}", record["eventName"].as_str().unwrap())
}

#[tokio::test]
async fn the_filter_passes_the_recorded_changes_of_primary_items_and_no_other() {
    let stores = Stores::start().await;
    let product = data::product(data::PRODUCT);
    let comments = stores.create_all(0..3, |_| product.clone()).await;
    let with_key = data::new_comment("with-key", &product, "en", 1);
    let idempotency = Idempotency {
        client: "client".to_owned(),
        key: "key".to_owned(),
        body_hash: "hash".to_owned(),
    };
    stores
        .table
        .create_comment(with_key, Some(idempotency))
        .await
        .unwrap();
    stores.deliver_all().await;
    let change = CommentPatch {
        body: Some(Some("Changed.".to_owned())),
        ..CommentPatch::default()
    };
    stores
        .table
        .patch_comment(&comments[0].id, |_| true, &change)
        .await
        .unwrap();
    stores
        .table
        .delete_comment(&comments[1].id, |_| true)
        .await
        .unwrap();
    let item = stores.table.primary_item(&comments[2].id).await.unwrap();
    let in_the_past = AttributeValue::N("1700000000".to_owned());
    let expired = data::with_attribute(&item.unwrap(), "expires_at", Some(in_the_past));
    stores.put_raw(expired).await;
    stores.deliver_all().await;
    assert_eq!(stores.engine.remove_expired_items().await, 32);

    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for record in stores.lambda_records_of_everything().await {
        let kind = kind(&record);
        assert_eq!(
            passes_filter(&record),
            kind.starts_with("primary"),
            "{record}"
        );
        *kinds.entry(kind).or_default() += 1;
    }
    let all = ["INSERT", "MODIFY", "REMOVE", "REMOVE by TTL"];
    for (about, events) in [
        ("primary", &all[..]),
        ("duplicate", &all),
        ("journal", &all[..1]),
        ("idempotency", &all[..1]),
    ] {
        for event in events {
            let expected = format!("{about} {event}");
            assert!(
                kinds.contains_key(&expected),
                "{expected} was not recorded: {kinds:?}"
            );
        }
    }
    stores.finish().await;
}
