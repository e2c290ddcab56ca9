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
use serde_json::{Map, Value, json};
use table::{CommentPatch, Idempotency};

use crate::fixture::{data, program::run_tool, project_file, python, stores::Stores};

mod agreement;
mod alarms;
mod costs;
mod permissions;
mod safety;

/// Resources that the simulation does not create.
const NOT_SIMULATED: [&str; 13] = [
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
    let found: Vec<_> = resources()
        .iter()
        .filter(|(_, resource)| resource["Type"] == kind)
        .collect();
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
async fn the_linter_finds_nothing() {
    assert_eq!(run("cfn-lint", &[project("infra/template.yaml")]).await, "");
}

#[tokio::test]
async fn the_stack_has_what_the_code_expects() {
    let script =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("deployment/template/create_stack.py");
    let stack: Value =
        serde_json::from_str(&run("python", &[script, project("infra/template.yaml")]).await)
            .unwrap();
    assert_eq!(stack["status"], "CREATE_COMPLETE");
    assert_eq!(stack["left_out"], json!(NOT_SIMULATED));
    let alarms = stack["alarms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap());
    let of_nodes = alarms.filter(|name| name.contains("0001") || name.contains("0002"));
    assert_eq!(
        of_nodes.count(),
        20,
        "five alarms of each of two nodes of two shards"
    );

    // `agreement` compares the settings of the mappings.
    assert_eq!(
        stack["mappings"].as_array().unwrap().len(),
        2,
        "a shard of a stream admits two readers"
    );
    assert_roles(&stack);

    // With an existing table, the stack creates none, and reads that table's stream.
    let other = &stack["on_a_table"];
    assert!(other["ids"].get("CommentsTable").is_none());
    assert_eq!(other["sources"], json!([other["stream"], other["stream"]]));
    assert_eq!(other["tables"], json!(["restored", "restored"]));
}

/// Asserts that each role has its translated statements and the additions of the translation, on
/// this stack's resources.
fn assert_roles(stack: &Value) {
    let roles = stack["roles"].as_object().unwrap();
    let (basic, in_network) = (
        "AWSLambdaBasicExecutionRole",
        "AWSLambdaVPCAccessExecutionRole",
    );
    let start = "AmazonECSTaskExecutionRolePolicy";
    // What the translation adds.
    let expected = [
        ("StreamWriterRole", None, vec![basic]),
        ("PageIndexerRole", None, vec![basic, in_network]),
        // For the queue of failed runs.
        (
            "RepairJobRole",
            Some("sqs:SendMessage"),
            vec!["RepairPolicy", basic, in_network],
        ),
        ("RepairTaskRole", None, vec!["RepairPolicy"]),
        ("ApiRole", None, vec![]),
        ("BigRepairRole", None, vec![]),
        ("ApiExecutionRole", None, vec![start]),
        ("RepairExecutionRole", None, vec![start]),
    ];
    assert_eq!(roles.len(), expected.len(), "{roles:?}");
    for (part, added, managed) in expected {
        let role = &roles[part];
        // Every resource that a role names has become an ARN of this stack.
        let policies = role["policies"].to_string();
        assert!(
            !policies.contains("Fn::") && !policies.contains("${"),
            "{policies}"
        );
        let is_of_table = !part.ends_with("ExecutionRole") && part != "BigRepairRole";
        assert_eq!(
            policies.contains("table/pagemark"),
            is_of_table,
            "{part}: {policies}"
        );
        let texts = |of: &str| -> BTreeSet<String> {
            role[of]
                .as_array()
                .unwrap()
                .iter()
                .map(|text| text.as_str().unwrap().to_owned())
                .collect()
        };
        let named: BTreeSet<String> = texts("named")
            .into_iter()
            .chain(added.map(str::to_owned))
            .collect();
        assert_eq!(texts("inline"), named, "{part}");
        let attached = role["managed"].as_array().unwrap().iter();
        let attached: Vec<&str> = attached
            .map(|arn| arn.as_str().unwrap().rsplit('/').next().unwrap())
            .collect();
        assert_eq!(attached, managed, "{part}");
    }
}

/// The kind of a record: its item's kind (from the images alone), its event, and whether TTL caused
/// it.
fn kind(record: &Value) -> String {
    let change = &record["dynamodb"];
    let image = change.get("NewImage").or(change.get("OldImage")).unwrap();
    let about = match image["pk"]["S"]
        .as_str()
        .unwrap()
        .split('#')
        .next()
        .unwrap()
    {
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
    let [client, key, body_hash] = ["client", "key", "hash"].map(str::to_owned);
    let idempotency = Idempotency {
        client,
        key,
        body_hash,
    };
    stores
        .table
        .create_comment(with_key, Some(idempotency))
        .await
        .unwrap();
    stores.deliver_all().await;
    let change = CommentPatch {
        body: Some("Changed.".to_owned()),
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
    let mut expired = stores
        .table
        .primary_item(&comments[2].id)
        .await
        .unwrap()
        .unwrap()
        .into_inner();
    expired.insert(
        "expires_at".to_owned(),
        serde_dynamo::AttributeValue::N("1700000000".to_owned()),
    );
    stores.put_raw(expired.into()).await;
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
        for expected in events.iter().map(|event| format!("{about} {event}")) {
            assert!(
                kinds.contains_key(&expected),
                "{expected} was not recorded: {kinds:?}"
            );
        }
    }
    stores.finish().await;
}
