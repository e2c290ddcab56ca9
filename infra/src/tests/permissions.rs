//! Checks that every part is allowed only named actions on named resources. This file lists all permissions.
//!
//! The package `tests` (`template`) compares what the translation adds to the functions' roles.

use serde_json::{Value, json};

use super::{of_type, resources};

const TABLE: &str = "arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/${TableName}";

fn texts(value: &Value) -> Vec<String> {
    match value.as_array() {
        Some(all) => all.iter().flat_map(texts).collect(),
        None => vec![value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()],
    }
}

/// The statements of a function or a role: the allowed actions and their resources.
fn allowed(name: &str) -> Vec<(String, Value)> {
    let properties = &resources()[name]["Properties"];
    let policies = properties["Policies"].as_array().unwrap();
    let statements = policies.iter().flat_map(|policy| {
        let document = policy.get("PolicyDocument").unwrap_or(policy);
        document["Statement"].as_array().unwrap().clone()
    });
    statements
        .map(|statement| {
            let members = statement.as_object().unwrap().keys().filter(|key| *key != "Condition");
            assert_eq!(members.collect::<Vec<_>>(), ["Action", "Effect", "Resource", "Sid"], "{name}");
            assert_eq!(statement["Effect"], "Allow", "{name}");
            (texts(&statement["Action"]).join(" "), statement["Resource"].clone())
        })
        .collect()
}

fn quarantine(actions: &str) -> [(String, Value); 2] {
    [
        (actions.to_owned(), json!({"Fn::Sub": "${QuarantineBucket.Arn}/*"})),
        ("s3:ListBucket".to_owned(), json!({"Fn::GetAtt": ["QuarantineBucket", "Arn"]})),
    ]
}

fn stream() -> [(String, Value); 2] {
    let own = json!({"Fn::GetAtt": ["CommentsTable", "StreamArn"]});
    [
        (
            "dynamodb:DescribeStream dynamodb:GetRecords dynamodb:GetShardIterator".to_owned(),
            json!({"Fn::If": ["MakesTable", own, {"Ref": "TableStreamArn"}]}),
        ),
        // This action accepts no narrower resource.
        ("dynamodb:ListStreams".to_owned(), json!("*")),
    ]
}

fn query_of_index(index: &str) -> (String, Value) {
    ("dynamodb:Query".to_owned(), json!({ "Fn::Sub": format!("{TABLE}/index/{index}") }))
}

/// To log in to this stack's Redis as one user.
fn login(user: &str) -> (String, Value) {
    let of_redis = "arn:${AWS::Partition}:elasticache:${AWS::Region}:${AWS::AccountId}";
    let resources =
        [format!("{of_redis}:replicationgroup:${{Redis}}"), format!("{of_redis}:user:${{AWS::StackName}}-{user}")];
    ("elasticache:Connect".to_owned(), resources.iter().map(|arn| json!({ "Fn::Sub": arn })).collect())
}

fn on_table(actions: &str) -> (String, Value) {
    let actions: Vec<String> = actions.split(' ').map(|action| format!("dynamodb:{action}")).collect();
    (actions.join(" "), json!({ "Fn::Sub": TABLE }))
}

#[test]
fn each_function_has_just_its_own_actions() {
    let writer =
        [vec![on_table("BatchWriteItem PutItem DeleteItem")], stream().into(), quarantine("s3:PutObject").into()];
    assert_eq!(allowed("StreamWriter"), writer.concat());
    let indexer = [&stream()[..], &quarantine("s3:PutObject"), &[login("page-indexer")]].concat();
    assert_eq!(allowed("PageIndexer"), indexer, "it does not touch the table");
    let repair = [
        vec![
            on_table("BatchGetItem ConditionCheckItem DeleteItem DescribeTable GetItem PutItem Query Scan UpdateItem"),
            query_of_index("primaries"),
        ],
        [&quarantine("s3:GetObject s3:DeleteObject")[..], &[login("repair-job")]].concat(),
    ];
    assert_eq!(allowed("RepairJob"), repair.concat());
    let [table, others] = repair;
    let by_hand = [table, vec![query_of_index("authors")], others].concat();
    assert_eq!(allowed("RepairTaskRole"), by_hand, "by hand it may do what it may do every hour, and erase");
}

#[test]
fn a_big_repair_invokes_the_repair_job_starts_its_own_parts_and_stores_its_report() {
    let states = "arn:${AWS::Partition}:states:${AWS::Region}:${AWS::AccountId}";
    let own =
        |kind: &str, of: &str| json!({ "Fn::Sub": format!("{states}:{kind}:${{AWS::StackName}}-big-repair{of}") });
    let expected = [
        ("lambda:InvokeFunction", json!({"Fn::GetAtt": ["RepairJob", "Arn"]})),
        ("states:StartExecution", own("stateMachine", "")),
        ("states:DescribeExecution states:StopExecution", json!([own("execution", ":*"), own("execution", "/*")])),
        ("s3:PutObject", json!({"Fn::Sub": "${QuarantineBucket.Arn}/big-repairs/*"})),
    ];
    assert_eq!(allowed("BigRepairRole"), expected.map(|(actions, resource)| (actions.to_owned(), resource)));
    let start = ("states:StartExecution".to_owned(), json!({"Ref": "BigRepair"}));
    assert_eq!(allowed("BigRepairRuleRole"), [start]);
    let name = &resources()["BigRepair"]["Properties"]["StateMachineName"];
    assert_eq!(*name, json!({"Fn::Sub": "${AWS::StackName}-big-repair"}), "the role names it");
}

#[test]
fn the_api_reads_and_writes_comments_and_cannot_scan() {
    let (reads, writes) = (on_table("DescribeTable GetItem Query"), on_table("DeleteItem PutItem UpdateItem"));
    let found =
        [reads, writes, query_of_index("gsi"), query_of_index("authors"), query_of_index("moderation"), login("api")];
    assert_eq!(allowed("ApiRole"), found);
}

#[test]
fn the_api_writes_only_inside_transactions() {
    let statements = &resources()["ApiRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"];
    let condition = json!({"ForAnyValue:StringEquals": {"dynamodb:EnclosingOperation": ["TransactWriteItems"]}});
    for statement in statements.as_array().unwrap() {
        let actions = statement["Action"].to_string();
        let writes = ["Put", "Delete", "Update"].iter().any(|verb| actions.contains(&format!("dynamodb:{verb}")));
        assert_eq!(statement["Condition"], if writes { condition.clone() } else { Value::Null }, "{statement}");
    }
}

#[test]
fn what_starts_a_task_reads_its_secrets_and_no_other() {
    let cursor_keys = json!([{"Ref": "CursorKeys"}]);
    assert_eq!(allowed("ApiExecutionRole"), [("secretsmanager:GetSecretValue".to_owned(), cursor_keys)]);
    assert!(resources()["RepairExecutionRole"]["Properties"].get("Policies").is_none());
    for (name, task) in of_type("AWS::ECS::TaskDefinition") {
        let part = name.trim_end_matches("Task");
        let properties = &task["Properties"];
        assert_eq!(properties["ExecutionRoleArn"], json!({"Fn::GetAtt": [format!("{part}ExecutionRole"), "Arn"]}));
        let role = if part == "Api" { "ApiRole" } else { "RepairTaskRole" };
        assert_eq!(properties["TaskRoleArn"], json!({"Fn::GetAtt": [role, "Arn"]}));
    }
}

#[test]
fn each_role_is_taken_by_one_service_and_the_one_managed_policy_is_that_of_a_task_s_start() {
    let managed =
        json!([{"Fn::Sub": "arn:${AWS::Partition}:iam::aws:policy/service-role/AmazonECSTaskExecutionRolePolicy"}]);
    let trust = |service: &str| {
        let principal = json!({"Service": format!("{service}.amazonaws.com")});
        json!([{"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}])
    };
    for (name, role) in of_type("AWS::IAM::Role") {
        let properties = &role["Properties"];
        let service = match name.as_str() {
            "BigRepairRole" => "states",
            "BigRepairRuleRole" => "events",
            _ => "ecs-tasks",
        };
        assert_eq!(properties["AssumeRolePolicyDocument"]["Statement"], trust(service), "{name}");
        let expected = if name.ends_with("ExecutionRole") { &managed } else { &Value::Null };
        assert_eq!(&properties["ManagedPolicyArns"], expected, "{name}");
    }
    for (name, function) in of_type("AWS::Serverless::Function") {
        assert!(function["Properties"].get("Role").is_none(), "{name} has a role that nothing here compares");
    }
    // Every role and function with policies is compared above.
    let mut with_policies: Vec<String> = resources()
        .into_iter()
        .filter(|(_, resource)| resource["Properties"].get("Policies").is_some())
        .map(|(name, _)| name)
        .collect();
    with_policies.sort();
    let compared = [
        "ApiExecutionRole",
        "ApiRole",
        "BigRepairRole",
        "BigRepairRuleRole",
        "PageIndexer",
        "RepairJob",
        "RepairTaskRole",
        "StreamWriter",
    ];
    assert_eq!(with_policies, compared);
}

#[test]
fn the_bucket_refuses_what_is_not_encrypted_and_admits_nobody_else() {
    let [(_, policy)] = &of_type("AWS::S3::BucketPolicy")[..] else { panic!("one bucket, one policy") };
    assert_eq!(policy["Properties"]["Bucket"], json!({"Ref": "QuarantineBucket"}));
    let expected = json!([{
        "Sid": "OnlyEncryptedConnections",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [{"Fn::GetAtt": ["QuarantineBucket", "Arn"]}, {"Fn::Sub": "${QuarantineBucket.Arn}/*"}],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }]);
    assert_eq!(policy["Properties"]["PolicyDocument"]["Statement"], expected);
}

#[test]
fn only_the_schedules_of_the_repair_job_may_put_into_its_queue() {
    let [(_, policy)] = &of_type("AWS::SQS::QueuePolicy")[..] else { panic!("one queue, one policy") };
    assert_eq!(policy["Properties"]["Queues"], json!([{"Ref": "RepairDeadLetters"}]));
    let expected = json!([{
        "Sid": "ScheduleMayPut",
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": {"Fn::GetAtt": ["RepairDeadLetters", "Arn"]},
        "Condition": {"ArnEquals": {"aws:SourceArn": [
            {"Fn::GetAtt": ["RepairJobRecent", "Arn"]},
            {"Fn::GetAtt": ["RepairJobHourly", "Arn"]},
        ]}},
    }]);
    assert_eq!(policy["Properties"]["PolicyDocument"]["Statement"], expected);
}

#[test]
fn the_endpoints_admit_what_the_parts_in_the_network_use_and_no_other_table_or_bucket() {
    let admitted = |endpoint: &str| -> Vec<Value> {
        let statements = &resources()[endpoint]["Properties"]["PolicyDocument"]["Statement"];
        let resources = |statement: &Value| {
            let named = &statement["Resource"];
            named.as_array().cloned().unwrap_or_else(|| vec![named.clone()])
        };
        statements.as_array().unwrap().iter().flat_map(resources).collect()
    };
    let bucket = [json!({"Fn::GetAtt": ["QuarantineBucket", "Arn"]}), json!({"Fn::Sub": "${QuarantineBucket.Arn}/*"})];
    // The registry's own bucket, from which tasks fetch their image (ECR, "Interface VPC endpoints").
    let layers = "arn:${AWS::Partition}:s3:::prod-${AWS::Region}-starport-layer-bucket/*";
    let (tables, buckets) = (admitted("DynamoDbEndpoint"), admitted("S3Endpoint"));
    assert_eq!(tables, [json!({ "Fn::Sub": TABLE }), json!({ "Fn::Sub": format!("{TABLE}/index/*") })]);
    assert_eq!(buckets, [bucket.to_vec(), vec![json!({ "Fn::Sub": layers })]].concat());
    for part in ["PageIndexer", "RepairJob", "RepairTaskRole", "ApiRole"] {
        for (actions, resource) in allowed(part) {
            let of_index = resource["Fn::Sub"].as_str().is_some_and(|arn| arn.starts_with(&format!("{TABLE}/index/")));
            let passes = match actions.split(':').next().unwrap() {
                // Lambda itself reads the stream, outside of the network.
                "dynamodb" if actions.contains("Stream") => true,
                "dynamodb" => of_index || tables.contains(&resource),
                "s3" => buckets.contains(&resource),
                // A connection to Redis shows the signed right to ElastiCache, within the network.
                "elasticache" => true,
                other => panic!("{part} uses {other}, which has no endpoint"),
            };
            assert!(passes, "{part}: no endpoint lets {actions} of {resource} pass");
        }
    }
}
