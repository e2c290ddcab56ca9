//! The deployment template in the tools that deploy it: the linter finds nothing, and a simulation of AWS creates what
//! the code expects. This module names the resources that the simulation does not know. The tests of the package
//! `infra` check these, and also the table's TTL and point-in-time recovery, which the simulation ignores.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Value, json};
use table::{CommentPatch, Idempotency};

use crate::fixture::{data, program::run_tool, python, stores::Stores};

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
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Runs a Python program and returns its output. The program must succeed.
async fn run(program: &str, arguments: &[PathBuf]) -> String {
    let mut command = python::command(program);
    command.args(arguments);
    run_tool(command, "").await
}

#[tokio::test]
async fn the_linter_finds_nothing() {
    assert_eq!(run("cfn-lint", &["infra/template.yaml", "infra/web-acl.yaml"].map(project)).await, "");
}

#[tokio::test]
async fn the_stack_has_what_the_code_expects() {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("template/create_stack.py");
    let stack: Value = serde_json::from_str(&run("python", &[script, project("infra/template.yaml")]).await).unwrap();
    assert_eq!(stack["status"], "CREATE_COMPLETE");
    assert_eq!(stack["left_out"], json!(NOT_SIMULATED));
    let id =
        |logical: &str| stack["ids"][logical].as_str().unwrap_or_else(|| panic!("{logical} was not made")).to_owned();

    let table = &stack["table"];
    let key = |schema: &Value| -> Vec<String> {
        schema.as_array().unwrap().iter().map(|key| key["AttributeName"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(key(&table["KeySchema"]), ["pk", "sk"]);
    let index = &table["GlobalSecondaryIndexes"][0];
    assert_eq!(index["IndexName"], table::GSI);
    assert_eq!(key(&index["KeySchema"]), ["sk", "cd"]);
    let index = &table["GlobalSecondaryIndexes"][1];
    assert_eq!(index["IndexName"], table::PRIMARIES);
    assert_eq!(key(&index["KeySchema"]), ["shard", "pcd"]);
    assert_eq!(index["Projection"]["NonKeyAttributes"], json!(model::primaries::PRIMARIES_PROJECTED));
    assert_eq!(table["GlobalSecondaryIndexes"][2]["IndexName"], table::AUTHORS);
    let index = &table["GlobalSecondaryIndexes"][3];
    assert_eq!(index["IndexName"], table::MODERATION);
    assert_eq!(key(&index["KeySchema"]), ["unpublished", "unpublished_cd"]);
    assert_eq!(table["StreamSpecification"]["StreamViewType"], "NEW_AND_OLD_IMAGES");
    assert_eq!(table["DeletionProtectionEnabled"], true);

    let alarms = stack["alarms"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    let of_shards = alarms.filter(|name| name.ends_with("0001") || name.ends_with("0002"));
    assert_eq!(of_shards.count(), 10, "five alarms of each of two shards");

    let mappings = stack["mappings"].as_array().unwrap();
    assert_eq!(mappings.len(), 2, "a shard of a stream admits two readers");
    for function in ["StreamWriter", "PageIndexer"] {
        let settings = infra::mapping_settings(function).unwrap();
        let name = id(function);
        let mapping =
            mappings.iter().find(|mapping| mapping["FunctionArn"].as_str().unwrap().ends_with(&name)).unwrap();
        assert_eq!(mapping["EventSourceArn"], table["LatestStreamArn"]);
        assert_eq!(mapping["StartingPosition"], "TRIM_HORIZON");
        assert_eq!(mapping["BatchSize"], settings.batch_size);
        assert_eq!(mapping["ParallelizationFactor"], settings.parallelization_factor);
        assert_eq!(mapping["MaximumRetryAttempts"], settings.maximum_retry_attempts);
        assert_eq!(mapping["MaximumRecordAgeInSeconds"].as_u64(), settings.maximum_record_age_seconds.map(u64::from));
        assert_eq!(mapping["BisectBatchOnFunctionError"], settings.bisect_batch_on_function_error);
        assert_eq!(mapping["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]));
        let patterns = mapping["FilterCriteria"]["Filters"].as_array().unwrap().iter();
        let patterns: Vec<&str> = patterns.map(|filter| filter["Pattern"].as_str().unwrap()).collect();
        assert_eq!(infra::FilterPattern::parse(&patterns).unwrap(), settings.filter);
        assert_eq!(mapping["MetricsConfig"], json!({"Metrics": ["EventCount"]}), "alarms look at them");
        let destination = &mapping["DestinationConfig"]["OnFailure"]["Destination"];
        assert_eq!(*destination, format!("arn:aws:s3:::{}", id("QuarantineBucket")));
    }

    assert_functions_and_rules(&stack, id);
    assert_roles(&stack);

    // With an existing table, the stack creates none, and reads that table's stream.
    let other = &stack["on_a_table"];
    assert!(other["ids"].get("CommentsTable").is_none());
    assert_eq!(other["sources"], json!([other["stream"], other["stream"]]));
    assert_eq!(other["tables"], json!(["restored", "restored"]));

    // That stack has a CDN. Only requests with its header reach the API.
    let rules = other["listener_rules"].as_array().unwrap().iter();
    let rules =
        rules.map(|rule| (&rule["Conditions"][0]["HttpHeaderConfig"]["HttpHeaderName"], &rule["Actions"][0]["Type"]));
    let (with_header, otherwise) = (json!("X-Pagemark-Cdn"), Value::Null);
    let expected = [(&with_header, &json!("forward")), (&otherwise, &json!("fixed-response"))];
    assert_eq!(rules.collect::<Vec<_>>(), expected);
}

/// Asserts what the functions are, and what starts the repair job.
fn assert_functions_and_rules(stack: &Value, id: impl Fn(&str) -> String) {
    let functions = stack["functions"].as_array().unwrap();
    assert_eq!(functions.len(), 4);
    for function in functions {
        let name = function["FunctionName"].as_str().unwrap();
        assert_eq!(function["Runtime"], "provided.al2023", "{name}");
        assert_eq!(function["Handler"], "bootstrap", "{name}");
        let variables = &function["Environment"]["Variables"];
        if name == id("Canary") {
            assert_eq!(variables["PAGEMARK_CANARY_TOKEN"], "the-canary-s-token");
            continue;
        }
        assert_eq!(variables["PAGEMARK_QUARANTINE"], format!("s3://{}", id("QuarantineBucket")), "{name}");
    }

    let rules = stack["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 3);
    let of_canary = |rule: &&Value| rule["targets"][0]["Arn"].as_str().unwrap().ends_with(&id("Canary"));
    let canary = rules.iter().find(of_canary).unwrap();
    assert_eq!((&canary["ScheduleExpression"], &canary["State"]), (&json!("rate(5 minutes)"), &json!("ENABLED")));
    let rules: Vec<&Value> = rules.iter().filter(|rule| !of_canary(rule)).collect();
    let expected = [("rate(1 hour)", Value::Null, 1_800), ("rate(5 minutes)", json!(r#"{"command": "recent"}"#), 300)];
    for (schedule, input, seconds) in expected {
        let rule = rules.iter().find(|rule| rule["ScheduleExpression"] == schedule).expect(schedule);
        assert_eq!(rule["State"], "ENABLED", "{rule}");
        let target = &rule["targets"][0];
        assert!(target["Arn"].as_str().unwrap().ends_with(&id("RepairJob")), "{target}");
        assert!(target["DeadLetterConfig"]["Arn"].as_str().unwrap().contains("RepairDeadLetters"), "{target}");
        let retries = json!({"MaximumRetryAttempts": 2, "MaximumEventAgeInSeconds": seconds});
        assert_eq!((&target["RetryPolicy"], &target["Input"]), (&retries, &input));
    }
}

/// Asserts that each role has its translated statements and the additions of the translation, on this stack's
/// resources.
fn assert_roles(stack: &Value) {
    // Every resource that a role names has become an ARN of this stack.
    let roles = stack["roles"].as_object().unwrap();
    let (in_network, start) = ("AWSLambdaVPCAccessExecutionRole", "AmazonECSTaskExecutionRolePolicy");
    // The package `infra` compares what the template names. This test compares what the translation adds.
    let roles_expected = [
        ("StreamWriterRole", None, vec!["AWSLambdaBasicExecutionRole"]),
        ("PageIndexerRole", None, vec!["AWSLambdaBasicExecutionRole", in_network]),
        // For the queue of failed runs.
        ("CanaryRole", None, vec!["AWSLambdaBasicExecutionRole"]),
        ("RepairJobRole", Some("sqs:SendMessage"), vec!["AWSLambdaBasicExecutionRole", in_network]),
        ("RepairTaskRole", None, vec![]),
        ("ApiRole", None, vec![]),
        ("BigRepairRole", None, vec![]),
        ("ApiExecutionRole", None, vec![start]),
        ("RepairExecutionRole", None, vec![start]),
    ];
    assert_eq!(roles.len(), roles_expected.len(), "{roles:?}");
    for (part, added, managed) in roles_expected {
        let role = roles.iter().find(|(name, _)| name.starts_with(&format!("pagemark-{part}-")));
        let (_, role) = role.unwrap_or_else(|| panic!("{part} was not made"));
        let policies = role["policies"].to_string();
        assert!(!policies.contains("Fn::") && !policies.contains("${"), "{policies}");
        let touches_table = policies.contains("table/pagemark");
        let is_of_table = !part.ends_with("ExecutionRole") && !["BigRepairRole", "CanaryRole"].contains(&part);
        assert_eq!(touches_table, is_of_table, "{part}: {policies}");
        let statements = role["policies"].as_array().unwrap().iter();
        let actions: BTreeSet<String> = statements
            .flat_map(|policy| policy["Statement"].as_array().unwrap())
            .flat_map(|statement| statement["Action"].as_array().cloned().unwrap_or(vec![statement["Action"].clone()]))
            .map(|action| action.as_str().unwrap().to_owned())
            .collect();
        // The canary names none, nor does what starts a repair task.
        let named = stack["named"][part].as_array().into_iter().flatten().map(|action| action.as_str().unwrap());
        assert_eq!(actions, named.chain(added).map(str::to_owned).collect::<BTreeSet<String>>(), "{part}");
        let attached = stack["managed"][part].as_array().unwrap().iter();
        let attached: Vec<&str> = attached.map(|arn| arn.as_str().unwrap().rsplit('/').next().unwrap()).collect();
        assert_eq!(attached, managed, "{part}");
    }
}

/// The kind of a record: its item's kind (from the images alone), its event, and whether TTL caused it.
fn kind(record: &Value) -> String {
    let change = &record["dynamodb"];
    let image = change.get("NewImage").or(change.get("OldImage")).unwrap();
    let about = match image["pk"]["S"].as_str().unwrap().split('#').next().unwrap() {
        "COMMENT" if image.get("auto").is_some() => "duplicate",
        "COMMENT" => "primary",
        "CHANGE" => "journal",
        "IDEMPOTENCY" => "idempotency",
        other => panic!("{other}"),
    };
    let by_ttl = if record.get("userIdentity").is_some() { " by TTL" } else { "" };
    format!("{about} {}{by_ttl}", record["eventName"].as_str().unwrap())
}

#[tokio::test]
async fn the_filters_pass_the_recorded_changes_of_primary_items_and_no_other() {
    let stores = Stores::start().await;
    let product = data::product(data::PRODUCT);
    let comments = stores.create_all(0..3, |_| product.clone()).await;
    let with_key = data::new_comment("with-key", &product, "en", 1);
    let [client, key, body_hash] = ["client", "key", "hash"].map(str::to_owned);
    let idempotency = Idempotency { client, key, body_hash };
    stores.table.create_comment(with_key, Some(idempotency)).await.unwrap();
    stores.deliver_all().await;
    let change = CommentPatch { body: Some("Changed.".to_owned()), ..CommentPatch::default() };
    stores.table.patch_comment(&comments[0].id, None, &change).await.unwrap();
    stores.table.delete_comment(&comments[1].id, None).await.unwrap();
    let mut expired = stores.table.primary_item(&comments[2].id).await.unwrap().unwrap().into_inner();
    expired.insert("expires_at".to_owned(), serde_dynamo::AttributeValue::N("1700000000".to_owned()));
    stores.put_raw(expired.into()).await;
    stores.deliver_all().await;
    assert_eq!(stores.remove_expired_items().await, 32);

    let filters = ["StreamWriter", "PageIndexer"].map(|function| infra::mapping_settings(function).unwrap().filter);
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for record in stores.lambda_records_of_everything().await {
        let kind = kind(&record);
        for filter in &filters {
            assert_eq!(filter.matches(&record), kind.starts_with("primary"), "{record}");
        }
        *kinds.entry(kind).or_default() += 1;
    }
    let all = ["INSERT", "MODIFY", "REMOVE", "REMOVE by TTL"];
    for (about, events) in
        [("primary", &all[..]), ("duplicate", &all), ("journal", &all[..1]), ("idempotency", &all[..1])]
    {
        for expected in events.iter().map(|event| format!("{about} {event}")) {
            assert!(kinds.contains_key(&expected), "{expected} was not recorded: {kinds:?}");
        }
    }
    stores.finish().await;
}
