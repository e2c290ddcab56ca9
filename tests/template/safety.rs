//! Nothing is open or unencrypted, what cannot be made again is kept, and a deployment ends in no outage.

use local_stack::event_source_mapping::MappingSettings;
use serde_json::{Value, json};

use super::{TEMPLATE, assert_each, assert_settings, of_type, properties, resources};

#[test]
fn all_stored_data_and_every_connection_to_it_are_encrypted() {
    assert_settings(&[("/CommentsTable/Properties/SSESpecification/SSEEnabled", json!(true))]);
    let encrypted = "/BucketEncryption/ServerSideEncryptionConfiguration/0/ServerSideEncryptionByDefault/SSEAlgorithm";
    let closed = ["BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"];
    let closed: Value = closed.map(|name| (name.to_owned(), json!(true))).into_iter().collect();
    assert_each("AWS::S3::Bucket", &[(encrypted, json!("AES256")), ("/PublicAccessBlockConfiguration", closed)]);
    let redis = [("/TransitEncryptionEnabled", json!(true)), ("/AtRestEncryptionEnabled", json!(true))];
    assert_each("AWS::ElastiCache::ReplicationGroup", &redis);
    assert_each("AWS::SQS::Queue", &[("/SqsManagedSseEnabled", json!(true))]);
    for (name, listener) in of_type("AWS::ElasticLoadBalancingV2::Listener") {
        let properties = &listener["Properties"];
        let redirects = properties["DefaultActions"][0]["RedirectConfig"]["Protocol"] == "HTTPS";
        assert!(properties["Protocol"] == "HTTPS" || redirects, "{name} serves pages in the clear");
    }
}

#[test]
fn the_unencrypted_port_refuses_the_api_and_sends_readers_to_https() {
    assert_settings(&[
        ("/HttpApiRule/Properties/ListenerArn", json!({"Ref": "HttpListener"})),
        // `*` matches the base path of PublicUrl, also an empty one.
        ("/HttpApiRule/Properties/Conditions/0/PathPatternConfig/Values", json!(["*/api/*"])),
        ("/HttpApiRule/Properties/Actions/0/FixedResponseConfig/StatusCode", json!("403")),
        ("/HttpsListener/Properties/ListenerAttributes/0/Value", json!("max-age=31536000")),
    ]);
}

#[test]
fn no_comment_stays_in_quarantine_for_ever() {
    let days = functions::quarantine::RETENTION.as_secs() / (24 * 3600);
    let rules = properties("QuarantineBucket")["LifecycleConfiguration"]["Rules"].as_array().unwrap();
    let whole_bucket = json!({
        "Id": "ExpireBatches",
        "Status": "Enabled",
        "ExpirationInDays": days,
        "NoncurrentVersionExpiration": {"NoncurrentDays": days},
    });
    assert!(rules.contains(&whole_bucket), "{rules:?}");
}

#[test]
fn every_log_expires() {
    assert_each("AWS::Logs::LogGroup", &[("/RetentionInDays", json!({"Ref": "LogRetentionDays"}))]);
    for (name, function) in of_type("AWS::Serverless::Function") {
        assert!(function["Properties"]["LoggingConfig"]["LogGroup"]["Ref"].is_string(), "{name} logs for ever");
    }
}

#[test]
fn what_cannot_be_made_again_outlives_the_stack() {
    assert_settings(&[
        ("/CommentsTable/DeletionPolicy", json!("Retain")),
        ("/CommentsTable/UpdateReplacePolicy", json!("Retain")),
        ("/CommentsTable/Properties/DeletionProtectionEnabled", json!(true)),
        ("/CommentsTable/Properties/PointInTimeRecoverySpecification/PointInTimeRecoveryEnabled", json!(true)),
        ("/QuarantineBucket/DeletionPolicy", json!("Retain")),
        ("/QuarantineBucket/UpdateReplacePolicy", json!("Retain")),
    ]);
}

fn references(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "Ref": name })).collect()
}

fn admitted(group: &str) -> Vec<(u64, &'static str)> {
    let rules = properties(group)["SecurityGroupIngress"].as_array().into_iter().flatten();
    let rule = |rule: &'static Value| {
        assert_eq!(rule["FromPort"], rule["ToPort"], "{rule}");
        let from = rule["SourceSecurityGroupId"]["Ref"].as_str().or(rule["CidrIp"].as_str());
        (rule["FromPort"].as_u64().unwrap(), from.unwrap_or_else(|| panic!("{rule}")))
    };
    rules.map(rule).collect()
}

#[test]
fn only_the_load_balancer_is_open_to_the_world() {
    assert_eq!(admitted("LoadBalancerSecurityGroup"), [(443, "0.0.0.0/0"), (80, "0.0.0.0/0")]);
    assert_eq!(
        admitted("ApiSecurityGroup"),
        [(8080, "LoadBalancerSecurityGroup"), (9090, "LoadBalancerSecurityGroup")]
    );
    let users = ["FunctionSecurityGroup", "ApiSecurityGroup", "RepairTaskSecurityGroup"];
    assert_eq!(admitted("RedisSecurityGroup"), users.map(|from| (6379, from)));
    for closed in ["FunctionSecurityGroup", "RepairTaskSecurityGroup"] {
        assert_eq!(admitted(closed), []);
    }
    assert_eq!(of_type("AWS::EC2::SecurityGroup").len(), 5);
    assert_settings(&[("/Redis/Properties/SecurityGroupIds", references(&["RedisSecurityGroup"]))]);
}

#[test]
fn redis_and_its_functions_have_no_way_out_but_to_table_and_bucket() {
    let private = references(&["PrivateSubnetA", "PrivateSubnetB"]);
    for name in ["PageIndexer", "RepairJob"] {
        assert_settings(&[(&format!("/{name}/Properties/VpcConfig/SubnetIds"), private.clone())]);
    }
    assert_settings(&[
        ("/RedisSubnets/Properties/SubnetIds", private),
        ("/Redis/Properties/CacheSubnetGroupName", json!({"Ref": "RedisSubnets"})),
    ]);
    assert!(properties("StreamWriter").get("VpcConfig").is_none(), "it needs nothing in the network");
    // A private subnet has only the routes of the gateway endpoints.
    assert_each("AWS::EC2::Route", &[("/RouteTableId", json!({"Ref": "PublicRoutes"}))]);
    let both = references(&["PrivateRoutes", "PublicRoutes"]);
    assert_each("AWS::EC2::VPCEndpoint", &[("/VpcEndpointType", json!("Gateway")), ("/RouteTableIds", both)]);
    for kind in ["Private", "Public"] {
        for zone in ["A", "B"] {
            let association = format!("/{kind}Subnet{zone}Routes/Properties");
            assert_settings(&[
                (&format!("{association}/SubnetId"), json!({ "Ref": format!("{kind}Subnet{zone}") })),
                (&format!("{association}/RouteTableId"), json!({ "Ref": format!("{kind}Routes") })),
            ]);
        }
        let [first, second] = ["A", "B"].map(|zone| &properties(&format!("{kind}Subnet{zone}"))["AvailabilityZone"]);
        assert_ne!(first, second, "{kind}");
    }
}

#[test]
fn redis_never_evicts_and_grows_while_it_serves() {
    assert_settings(&[
        ("/RedisParameters/Properties/Properties/maxmemory-policy", json!("noeviction")),
        ("/Redis/UpdatePolicy/UseOnlineResharding", json!(true)),
        ("/Redis/Properties/NumNodeGroups", json!({"Fn::Length": {"Ref": "RedisShards"}})),
        ("/Redis/Properties/ReplicasPerNodeGroup", json!({"Ref": "RedisReplicas"})),
        // CloudFormation refuses two zones without a replica, and a cluster without fail-over.
        ("/Redis/Properties/MultiAZEnabled", json!({"Fn::If": ["HasRedisReplica", true, false]})),
        ("/Redis/Properties/AutomaticFailoverEnabled", json!(true)),
        // While one user changes, their group accepts no other change.
        ("/RepairJobUser/DependsOn", json!("PageIndexerUser")),
        ("/ApiUser/DependsOn", json!("RepairJobUser")),
    ]);
}

#[test]
fn the_load_balancer_waits_for_the_gateway_and_asks_health_where_the_api_answers() {
    let variable = |name: &str| {
        let entries = properties("ApiTask")["ContainerDefinitions"][0]["Environment"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["Name"] == name).unwrap_or_else(|| panic!("{name}"));
        entry["Value"].as_str().unwrap().to_owned()
    };
    assert_eq!(variable("PAGEMARK_LISTEN"), "0.0.0.0:8080");
    assert_eq!(variable("PAGEMARK_OPERATIONS_LISTEN"), "0.0.0.0:9090");
    let ports = json!([{"ContainerPort": 8080, "Protocol": "tcp"}, {"ContainerPort": 9090, "Protocol": "tcp"}]);
    let metric = "/TargetTrackingScalingPolicyConfiguration/TargetValue";
    let target = properties("ApiInFlightScalingPolicy").pointer(metric).unwrap().as_f64().unwrap();
    let refused_above: f64 = variable("PAGEMARK_MAX_IN_FLIGHT").parse().unwrap();
    assert!(target < refused_above / 2.0, "tasks are added before they refuse requests");
    assert_settings(&[
        ("/LoadBalancer/DependsOn", json!("InternetGatewayAttachment")),
        ("/PublicDefaultRoute/DependsOn", json!("InternetGatewayAttachment")),
        ("/ApiTask/Properties/ContainerDefinitions/0/PortMappings", ports),
        ("/ApiTargets/Properties/Port", json!(8080)),
        ("/ApiTargets/Properties/HealthCheckPort", json!("9090")),
        ("/ApiTargets/Properties/HealthCheckPath", json!("/livez")),
    ]);
    assert_each("AWS::ApplicationAutoScaling::ScalingPolicy", &[("/ScalingTargetId", json!({"Ref": "ApiScaling"}))]);
}

#[test]
fn a_release_that_answers_errors_is_rolled_back_and_no_deployment_resets_the_number_of_tasks() {
    let rolls_back = json!({"Fn::If": ["RollsBackOnAlarm", true, false]});
    assert_settings(&[
        ("/ApiScaling/Properties/ResourceId", json!({"Fn::Sub": "service/${ApiCluster}/${ApiService.Name}"})),
        ("/ApiScaling/Properties/MinCapacity", json!({"Ref": "ApiTasksMin"})),
        ("/ApiService/Properties/DeploymentConfiguration/DeploymentCircuitBreaker/Rollback", json!(true)),
        (
            "/ApiService/Properties/DeploymentConfiguration/Alarms",
            json!({
                "AlarmNames": references(&["ApiFailing", "ApiUnreachable", "ApiUnavailable"]),
                "Enable": rolls_back,
                "Rollback": rolls_back,
            }),
        ),
    ]);
    // A restore makes pages unavailable on purpose.
    assert_eq!(TEMPLATE["Conditions"]["RollsBackOnAlarm"], json!({"Fn::Equals": [{"Ref": "RollBackOnAlarm"}, "yes"]}));
    assert_eq!(TEMPLATE["Parameters"]["RollBackOnAlarm"]["Default"], "yes");
    assert!(properties("ApiService").get("DesiredCount").is_none());
    assert_each("AWS::ECS::TaskDefinition", &[("/ContainerDefinitions/0/ReadonlyRootFilesystem", json!(true))]);
}

#[test]
fn an_alarm_starts_a_big_repair_only_if_a_parameter_says_so() {
    assert_settings(&[
        ("/BigRepairRule/Condition", json!("StartsBigRepair")),
        ("/BigRepairRuleRole/Condition", json!("StartsBigRepair")),
        ("/BigRepairRule/Properties/EventPattern/resources", json!([{"Fn::GetAtt": ["DriftUnresolved", "Arn"]}])),
        ("/BigRepairRule/Properties/EventPattern/detail", json!({"state": {"value": ["ALARM"]}})),
    ]);
    assert_eq!(TEMPLATE["Parameters"]["StartBigRepair"]["Default"], "no");
}

fn calls(machine: &'static Value) -> Vec<(&'static String, &'static Value)> {
    let states = machine["States"].as_object().unwrap();
    let inner = states.values().filter_map(|state| state.get("ItemProcessor")).flat_map(calls);
    inner.chain(states.iter().filter(|(_, state)| state["Type"] == "Task")).collect()
}

#[test]
fn every_call_of_a_big_repair_is_repeated_with_back_off_and_waits_longer_than_the_function_runs() {
    let retry = json!([{
        "ErrorEquals": ["States.ALL"],
        "IntervalSeconds": 5,
        "MaxAttempts": 5,
        "BackoffRate": 3,
        "JitterStrategy": "FULL",
    }]);
    let runs = properties("RepairJob")["Timeout"].as_u64().unwrap();
    let calls = calls(&resources()["BigRepair"]["Properties"]["Definition"]);
    assert_eq!(calls.len(), 2);
    for (name, state) in calls {
        assert_eq!(state["Retry"], retry, "{name}");
        let waits = state["TimeoutSeconds"].as_u64();
        assert!(name == "Store" || waits.is_some_and(|waits| waits > runs), "{name}");
    }
}

/// Shards of the stream at the table's quota of 40,000 write units a second.
const SHARDS: u64 = 40;

#[test]
fn no_function_starves_behind_another_s_backlog() {
    for function in ["StreamWriter", "PageIndexer", "RepairJob"] {
        let (condition, parameter) = (format!("Reserves{function}"), format!("{function}Concurrency"));
        let reserved = json!({"Fn::If": [condition, {"Ref": parameter}, {"Ref": "AWS::NoValue"}]});
        assert_settings(&[
            (&format!("/{function}/Properties/ReservedConcurrentExecutions"), reserved),
            (&format!("/{function}Throttled/Properties/Dimensions/0/Value"), json!({ "Ref": function })),
        ]);
        let is_set = json!({"Fn::Not": [{"Fn::Equals": [{"Ref": parameter}, 0]}]});
        assert_eq!(TEMPLATE["Conditions"][condition], is_set);
    }
    let reserved =
        |function: &str| TEMPLATE["Parameters"][format!("{function}Concurrency")]["Default"].as_u64().unwrap();
    let of_each_shard = u64::from(MappingSettings::PAGE_INDEXER.parallelization_factor);
    assert_eq!(reserved("PageIndexer"), of_each_shard * SHARDS);
    // The segments of a big repair and both schedules, and some for runs by hand.
    assert!(reserved("RepairJob") > 8 + 2);
    // StreamWriter asks for more than all others, so it has what is left.
    assert_eq!(reserved("StreamWriter"), 0);
}

#[test]
fn no_arn_names_a_partition_and_both_zones_are_a_parameter() {
    let template = super::project_file("infra/template.yaml");
    assert!(!template.contains("arn:aws"), "it would refuse the partitions of China and the government");
    for (name, subnet) in of_type("AWS::EC2::Subnet") {
        let which = u64::from(name.ends_with('B'));
        let zones = json!({"Fn::If": ["HasZones", {"Ref": "Zones"}, {"Fn::GetAZs": ""}]});
        assert_eq!(subnet["Properties"]["AvailabilityZone"], json!({"Fn::Select": [which, zones]}), "{name}");
    }
}
