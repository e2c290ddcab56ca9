//! Nothing in the template is open, unencrypted, or allowed to do more than it must.

use serde_json::{Value, json};

use super::resources;

/// The resources of a type, with their logical ids.
fn of_type(kind: &str) -> Vec<(String, Value)> {
    let found: Vec<(String, Value)> =
        resources().into_iter().filter(|(_, resource)| resource["Type"] == kind).collect();
    assert!(!found.is_empty(), "the template has no {kind}");
    found
}

/// Every statement that allows something: of functions, of roles.
fn statements() -> Vec<(String, Value)> {
    let mut statements = Vec::new();
    for (name, resource) in resources() {
        for policy in resource["Properties"]["Policies"].as_array().into_iter().flatten() {
            let document = policy.get("PolicyDocument").unwrap_or(policy);
            statements.extend(document["Statement"].as_array().unwrap().iter().map(|of| (name.clone(), of.clone())));
        }
    }
    assert!(statements.len() > 10, "{statements:?}");
    statements
}

fn texts(value: &Value) -> Vec<String> {
    match value.as_array() {
        Some(all) => all.iter().flat_map(texts).collect(),
        None => vec![value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()],
    }
}

#[test]
fn nobody_may_do_more_than_named_actions_on_named_resources() {
    for (name, statement) in statements() {
        let sid = statement["Sid"].as_str().unwrap_or_else(|| panic!("{name} has a statement without a name"));
        for action in texts(&statement["Action"]) {
            assert!(!action.contains('*'), "{name}/{sid} allows {action}");
        }
        let everything = statement["Resource"] == "*";
        assert_eq!(everything, sid == "ListStreams", "{name}/{sid}: {}", statement["Resource"]);
    }
}

#[test]
fn each_process_has_just_its_own_actions_on_the_table() {
    let actions = |name: &str| {
        let mut actions: Vec<String> = statements()
            .into_iter()
            .filter(|(of, _)| of == name)
            .flat_map(|(_, statement)| texts(&statement["Action"]))
            .filter_map(|action| Some(action.strip_prefix("dynamodb:")?.to_owned()))
            .collect();
        actions.sort();
        actions.dedup();
        actions.join(" ")
    };
    let stream = "DescribeStream GetRecords GetShardIterator ListStreams";
    assert_eq!(actions("PageIndexer"), stream, "it does not touch the table");
    assert_eq!(
        actions("StreamWriter"),
        "BatchWriteItem DeleteItem DescribeStream GetRecords GetShardIterator ListStreams PutItem"
    );
    assert_eq!(actions("ApiRole"), "DeleteItem DescribeTable GetItem PutItem Query", "readers cannot make it scan");
    assert!(!actions("RepairJob").contains("DeleteTable"));
}

#[test]
fn whatever_is_kept_is_encrypted_and_so_is_every_way_to_it() {
    let table = &resources()["CommentsTable"]["Properties"];
    assert_eq!(table["SSESpecification"]["SSEEnabled"], true);
    for (name, bucket) in of_type("AWS::S3::Bucket") {
        let rules = &bucket["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"];
        assert_eq!(rules[0]["ServerSideEncryptionByDefault"]["SSEAlgorithm"], "AES256", "{name}");
        let blocked = &bucket["Properties"]["PublicAccessBlockConfiguration"];
        for block in ["BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"] {
            assert_eq!(blocked[block], true, "{name}: {block}");
        }
    }
    let (_, policy) = of_type("AWS::S3::BucketPolicy").remove(0);
    let statement = &policy["Properties"]["PolicyDocument"]["Statement"][0];
    assert_eq!(
        (&statement["Effect"], &statement["Condition"]),
        (&json!("Deny"), &json!({"Bool": {"aws:SecureTransport": "false"}}))
    );
    for (name, redis) in of_type("AWS::ElastiCache::ReplicationGroup") {
        for encryption in ["TransitEncryptionEnabled", "AtRestEncryptionEnabled"] {
            assert_eq!(redis["Properties"][encryption], true, "{name}: {encryption}");
        }
        assert_eq!(redis["Properties"]["MultiAZEnabled"], true, "{name}");
    }
    for (name, queue) in of_type("AWS::SQS::Queue") {
        assert_eq!(queue["Properties"]["SqsManagedSseEnabled"], true, "{name}");
    }
    for (name, listener) in of_type("AWS::ElasticLoadBalancingV2::Listener") {
        let properties = &listener["Properties"];
        let action = &properties["DefaultActions"][0];
        let encrypted = properties["Protocol"] == "HTTPS";
        assert!(encrypted || action["RedirectConfig"]["Protocol"] == "HTTPS", "{name} serves pages in the clear");
    }
}

#[test]
fn redis_never_evicts() {
    let (_, parameters) = of_type("AWS::ElastiCache::ParameterGroup").remove(0);
    assert_eq!(parameters["Properties"]["Properties"]["maxmemory-policy"], "noeviction");
}

#[test]
fn what_cannot_be_made_again_outlives_the_stack() {
    for name in ["CommentsTable", "QuarantineBucket"] {
        let resource = &resources()[name];
        assert_eq!(
            (&resource["DeletionPolicy"], &resource["UpdateReplacePolicy"]),
            (&json!("Retain"), &json!("Retain"))
        );
    }
    let table = &resources()["CommentsTable"]["Properties"];
    assert_eq!(table["DeletionProtectionEnabled"], true);
    assert_eq!(table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true);
}

#[test]
fn only_the_load_balancer_is_open_to_the_world() {
    for (name, group) in of_type("AWS::EC2::SecurityGroup") {
        let open = group["Properties"]["SecurityGroupIngress"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|rule| ["CidrIp", "CidrIpv6"].iter().any(|address| rule.get(*address).is_some()));
        assert_eq!(open, name == "LoadBalancerSecurityGroup", "{name}");
    }
    for name in ["PageIndexer", "RepairJob"] {
        let subnets = &resources()[name]["Properties"]["VpcConfig"]["SubnetIds"];
        assert_eq!(*subnets, json!([{"Ref": "PrivateSubnetA"}, {"Ref": "PrivateSubnetB"}]), "{name}");
    }
    assert!(resources()["StreamWriter"]["Properties"].get("VpcConfig").is_none(), "it needs nothing in the network");
    // A private subnet has no route but those of the gateway endpoints.
    for (name, route) in of_type("AWS::EC2::Route") {
        assert_eq!(route["Properties"]["RouteTableId"], json!({"Ref": "PublicRoutes"}), "{name}");
    }
}

#[test]
fn no_secret_stands_in_the_template_or_in_a_container_s_settings() {
    let task = &resources()["ApiTask"]["Properties"]["ContainerDefinitions"][0];
    assert_eq!(task["ReadonlyRootFilesystem"], true);
    let plain = task["Environment"].to_string();
    assert!(!plain.contains("PAGEMARK_REDIS_URL") && !plain.contains("PAGEMARK_CURSOR_KEYS"), "{plain}");
    for (name, secret) in of_type("AWS::SecretsManager::Secret") {
        let properties = &secret["Properties"];
        let generated = properties["GenerateSecretString"].is_object();
        let composed = properties["SecretString"]["Fn::Sub"].as_str().is_some_and(|text| text.contains("{{resolve:"));
        assert!(generated || composed, "{name}");
    }
}

#[test]
fn every_log_ends_some_day() {
    for (name, group) in of_type("AWS::Logs::LogGroup") {
        assert_eq!(group["Properties"]["RetentionInDays"], json!({"Ref": "LogRetentionDays"}), "{name}");
    }
    for (name, function) in of_type("AWS::Serverless::Function") {
        assert!(function["Properties"]["LoggingConfig"]["LogGroup"]["Ref"].is_string(), "{name} logs for ever");
    }
}
