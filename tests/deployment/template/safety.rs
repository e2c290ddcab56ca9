//! Rules for every resource of a type, so also for a new one. Nothing is open or unencrypted.
//! Nothing is deleted that cannot be made again. And single settings that an operator would miss
//! too late, or that depend on each other.

use local_stack::event_source_mapping::MappingSettings;
use serde_json::{Value, json};

use super::{TEMPLATE, assert_each, assert_settings, of_type, properties, resources};

#[test]
#[ignore = "needs Python packages"]
fn all_stored_data_and_every_connection_to_it_are_encrypted() {
    assert_each(
        "AWS::DynamoDB::Table",
        &[("/SSESpecification/SSEEnabled", json!(true))],
    );
    let encrypted = "/BucketEncryption/ServerSideEncryptionConfiguration/0/ServerSideEncryptionByDefault/SSEAlgorithm";
    let closed = json!({
        "BlockPublicAcls": true,
        "BlockPublicPolicy": true,
        "IgnorePublicAcls": true,
        "RestrictPublicBuckets": true,
    });
    assert_each(
        "AWS::S3::Bucket",
        &[
            (encrypted, json!("AES256")),
            ("/PublicAccessBlockConfiguration", closed),
        ],
    );
    let redis = [
        ("/TransitEncryptionEnabled", json!(true)),
        ("/AtRestEncryptionEnabled", json!(true)),
    ];
    assert_each("AWS::ElastiCache::ReplicationGroup", &redis);
    assert_each("AWS::SQS::Queue", &[("/SqsManagedSseEnabled", json!(true))]);
    let key = [("/KmsMasterKeyId", json!({"Ref": "AlarmKey"}))];
    assert_each("AWS::SNS::Topic", &key);
    for (name, listener) in of_type("AWS::ElasticLoadBalancingV2::Listener") {
        let properties = &listener["Properties"];
        let redirects = properties["DefaultActions"][0]["RedirectConfig"]["Protocol"] == "HTTPS";
        assert!(
            properties["Protocol"] == "HTTPS" || redirects,
            "{name} serves pages in the clear"
        );
    }
}

#[test]
#[ignore = "needs Python packages"]
fn the_unencrypted_port_refuses_the_api_and_sends_readers_to_https() {
    assert_settings(&[
        (
            "/HttpApiRule/Properties/ListenerArn",
            json!({"Ref": "HttpListener"}),
        ),
        // `*` matches the base path of PublicUrl, also an empty one.
        (
            "/HttpApiRule/Properties/Conditions/0/PathPatternConfig/Values",
            json!(["*/api/*"]),
        ),
        (
            "/HttpApiRule/Properties/Actions/0/FixedResponseConfig/StatusCode",
            json!("403"),
        ),
        (
            "/HttpsListener/Properties/ListenerAttributes/0/Value",
            json!("max-age=31536000"),
        ),
    ]);
}

#[test]
#[ignore = "needs Python packages"]
fn no_comment_stays_in_quarantine_for_ever() {
    let days = functions::quarantine::RETENTION.as_secs() / (24 * 3600);
    let rules = properties("QuarantineBucket")["LifecycleConfiguration"]["Rules"]
        .as_array()
        .unwrap();
    let whole_bucket = json!({
        "Id": "ExpireBatches",
        "Status": "Enabled",
        "ExpirationInDays": days,
        "NoncurrentVersionExpiration": {"NoncurrentDays": days},
    });
    assert!(rules.contains(&whole_bucket), "{rules:?}");
}

#[test]
#[ignore = "needs Python packages"]
fn every_log_expires() {
    assert_each(
        "AWS::Logs::LogGroup",
        &[("/RetentionInDays", json!({"Ref": "LogRetentionDays"}))],
    );
    for (name, function) in of_type("AWS::Serverless::Function") {
        assert!(
            function["Properties"]["LoggingConfig"]["LogGroup"]["Ref"].is_string(),
            "{name} logs for ever"
        );
    }
}

#[test]
#[ignore = "needs Python packages"]
fn what_cannot_be_made_again_outlives_the_stack() {
    let tables = of_type("AWS::DynamoDB::Table");
    let buckets = of_type("AWS::S3::Bucket");
    for (name, resource) in tables.into_iter().chain(buckets) {
        for policy in ["DeletionPolicy", "UpdateReplacePolicy"] {
            assert_eq!(resource[policy], "Retain", "{name}");
        }
    }
    let restores = "/PointInTimeRecoverySpecification/PointInTimeRecoveryEnabled";
    assert_each(
        "AWS::DynamoDB::Table",
        &[
            ("/DeletionProtectionEnabled", json!(true)),
            (restores, json!(true)),
        ],
    );
}

#[test]
#[ignore = "needs Python packages"]
fn the_load_balancer_is_not_deleted_by_mistake() {
    let protected = json!({"Fn::If": ["ProtectsLoadBalancer", "true", "false"]});
    let attribute = json!({"Key": "deletion_protection.enabled", "Value": protected});
    let attributes = &properties("LoadBalancer")["LoadBalancerAttributes"];
    assert!(attributes.as_array().unwrap().contains(&attribute));
    let by_default = &TEMPLATE["Parameters"]["ProtectLoadBalancer"]["Default"];
    assert_eq!(by_default, "yes");
}

/// The services that a policy allows to do something.
fn allowed_services(policy: &Value, action: &str) -> String {
    let mut services = String::new();
    for statement in policy["Statement"].as_array().unwrap() {
        if statement["Action"].to_string().contains(action) {
            services += &statement["Principal"]["Service"].to_string();
        }
    }
    services
}

/// A topic that is encrypted is silent if a sender may not use its key.
#[test]
#[ignore = "needs Python packages"]
fn alarms_and_the_budget_may_publish_to_the_encrypted_topic() {
    let topic = &properties("AlarmTopicPolicy")["PolicyDocument"];
    let key = &properties("AlarmKey")["KeyPolicy"];
    for service in ["cloudwatch.amazonaws.com", "budgets.amazonaws.com"] {
        assert!(allowed_services(topic, "sns:Publish").contains(service));
        assert!(allowed_services(key, "kms:GenerateDataKey*").contains(service));
        assert!(allowed_services(key, "kms:Decrypt").contains(service));
    }
    let told = json!([{"SubscriptionType": "SNS", "Address": {"Ref": "AlarmTopic"}}]);
    let told_of = &properties("Budget")["NotificationsWithSubscribers"];
    for notification in told_of.as_array().unwrap() {
        assert_eq!(notification["Subscribers"], told);
    }
    assert_settings(&[
        ("/Budget/Condition", json!("HasBudget")),
        (
            "/Budget/Properties/Budget/BudgetLimit/Amount",
            json!({"Ref": "MonthlyBudget"}),
        ),
    ]);
}

#[test]
#[ignore = "needs Python packages"]
fn only_the_load_balancer_is_open_to_the_world() {
    for (name, group) in of_type("AWS::EC2::SecurityGroup") {
        if name == "LoadBalancerSecurityGroup" {
            continue;
        }
        let rules = group["Properties"]["SecurityGroupIngress"].as_array();
        for rule in rules.into_iter().flatten() {
            assert!(
                rule["SourceSecurityGroupId"]["Ref"].is_string(),
                "{name}: {rule}"
            );
            assert!(rule.get("CidrIp").is_none(), "{name}: {rule}");
        }
    }
}

#[test]
#[ignore = "needs Python packages"]
fn redis_and_its_functions_have_no_way_out_but_to_table_and_bucket() {
    let private = json!([{"Ref": "PrivateSubnetA"}, {"Ref": "PrivateSubnetB"}]);
    assert_each(
        "AWS::ElastiCache::SubnetGroup",
        &[("/SubnetIds", private.clone())],
    );
    for (name, function) in of_type("AWS::Serverless::Function") {
        // `StreamWriter` needs nothing in the network.
        let network = function["Properties"].get("VpcConfig");
        assert_eq!(network.is_none(), name == "StreamWriter");
        assert!(
            network.is_none_or(|network| network["SubnetIds"] == private),
            "{name}"
        );
    }
    // A private subnet has only the routes of the gateway endpoints.
    assert_each(
        "AWS::EC2::Route",
        &[("/RouteTableId", json!({"Ref": "PublicRoutes"}))],
    );
    assert_each(
        "AWS::EC2::VPCEndpoint",
        &[("/VpcEndpointType", json!("Gateway"))],
    );
    for subnet in ["PrivateSubnetA", "PrivateSubnetB"] {
        assert_eq!(
            properties(&format!("{subnet}Routes"))["RouteTableId"]["Ref"],
            "PrivateRoutes"
        );
    }
}

/// A variable of the API's container.
fn api_variable(name: &str) -> &'static str {
    let entries = &properties("ApiTask")["ContainerDefinitions"][0]["Environment"];
    let mut entries = entries.as_array().unwrap().iter();
    let entry = entries
        .find(|entry| entry["Name"] == name)
        .unwrap_or_else(|| panic!("{name}"));
    entry["Value"].as_str().unwrap()
}

#[test]
#[ignore = "needs Python packages"]
fn the_load_balancer_asks_where_the_api_answers_and_tasks_are_added_in_time() {
    let targets = properties("ApiTargets");
    let listen = api_variable("PAGEMARK_LISTEN");
    let port = listen.strip_prefix("0.0.0.0:").unwrap();
    assert_eq!(targets["Port"].to_string(), port);
    let operations_listen = api_variable("PAGEMARK_OPERATIONS_LISTEN");
    let port = operations_listen.strip_prefix("0.0.0.0:").unwrap();
    assert_eq!(targets["HealthCheckPort"], port);
    // Tasks are added before the others refuse requests.
    let policy = properties("ApiInFlightScalingPolicy");
    let target = &policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"];
    let target = target.as_f64().unwrap();
    let refused_above: f64 = api_variable("PAGEMARK_MAX_IN_FLIGHT").parse().unwrap();
    assert!(target < refused_above / 2.0);
}

#[test]
#[ignore = "needs Python packages"]
fn a_release_that_answers_errors_is_rolled_back() {
    let rolls_back = json!({"Fn::If": ["RollsBackOnAlarm", true, false]});
    let alarms =
        ["ApiFailing", "ApiUnreachable", "ApiUnavailable"].map(|alarm| json!({ "Ref": alarm }));
    assert_settings(&[
        (
            "/ApiService/Properties/DeploymentConfiguration/DeploymentCircuitBreaker/Rollback",
            json!(true),
        ),
        (
            "/ApiService/Properties/DeploymentConfiguration/Alarms",
            json!({"AlarmNames": alarms, "Enable": rolls_back, "Rollback": rolls_back}),
        ),
    ]);
    assert!(
        properties("ApiService").get("DesiredCount").is_none(),
        "a deployment would reset the number of tasks"
    );
}

#[test]
#[ignore = "needs Python packages"]
fn redis_never_evicts() {
    assert_settings(&[(
        "/RedisParameters/Properties/Properties/maxmemory-policy",
        json!("noeviction"),
    )]);
}

#[test]
#[ignore = "needs Python packages"]
fn an_alarm_starts_a_big_repair_only_if_a_parameter_says_so() {
    assert_settings(&[
        ("/BigRepairRule/Condition", json!("StartsBigRepair")),
        ("/BigRepairRuleRole/Condition", json!("StartsBigRepair")),
        (
            "/BigRepairRule/Properties/EventPattern/resources",
            json!([{"Fn::GetAtt": ["DriftUnresolved", "Arn"]}]),
        ),
        (
            "/BigRepairRule/Properties/EventPattern/detail",
            json!({"state": {"value": ["ALARM"]}}),
        ),
    ]);
    assert_eq!(TEMPLATE["Parameters"]["StartBigRepair"]["Default"], "no");
}

/// The states of a state machine that call something, with those of the machines inside it.
fn calls(machine: &'static Value) -> Vec<(&'static String, &'static Value)> {
    let mut found = Vec::new();
    for (name, state) in machine["States"].as_object().unwrap() {
        if state["Type"] == "Task" {
            found.push((name, state));
        }
        if let Some(inner) = state.get("ItemProcessor") {
            found.extend(calls(inner));
        }
    }
    found
}

#[test]
#[ignore = "needs Python packages"]
fn every_call_of_a_big_repair_is_repeated_and_waits_longer_than_the_function_runs() {
    let runs = properties("RepairJob")["Timeout"].as_u64().unwrap();
    let calls = calls(&resources()["BigRepair"]["Properties"]["Definition"]);
    assert_eq!(calls.len(), 2);
    for (name, state) in calls {
        assert_eq!(
            state["Retry"][0]["ErrorEquals"],
            json!(["States.ALL"]),
            "{name}"
        );
        if name != "Store" {
            let waits = state["TimeoutSeconds"].as_u64().unwrap();
            assert!(waits > runs, "{name}");
        }
    }
}

/// Shards of the stream at the table's quota of 40,000 write units a second.
const SHARDS: u64 = 40;

/// The concurrency that is reserved for a function.
fn reserved(function: &str) -> u64 {
    let parameter = &TEMPLATE["Parameters"][format!("{function}Concurrency")];
    parameter["Default"].as_u64().unwrap()
}

#[test]
#[ignore = "needs Python packages"]
fn no_function_starves_behind_another_s_backlog() {
    let of_each_shard = u64::from(MappingSettings::PAGE_INDEXER.parallelization_factor);
    assert_eq!(reserved("PageIndexer"), of_each_shard * SHARDS);
    // The segments of a big repair and both schedules, and some for runs by hand.
    assert!(reserved("RepairJob") > 8 + 2);
    // StreamWriter asks for more than all others, so it has what is not reserved.
    assert_eq!(reserved("StreamWriter"), 0);
}

#[test]
fn no_arn_names_a_partition() {
    let template = super::project_file("infra/template.yaml");
    assert!(
        !template.contains("arn:aws"),
        "it would refuse the partitions of China and the government"
    );
}
