//! Which parts can reach which others, and the settings that let CloudFormation apply a change without an outage.

use serde_json::{Value, json};

use super::{assert_each, assert_properties, deployed, of_type, resources};

#[test]
fn only_the_load_balancer_is_open_to_the_world() {
    let stack = deployed(&[]);
    for (name, _) in of_type("AWS::EC2::SecurityGroup") {
        let group = &stack[&name];
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
    // A private subnet has only the routes of the gateway endpoints.
    assert_each("AWS::EC2::Route", &[("/Properties/RouteTableId", json!({"Ref": "PublicRoutes"}))]);
}

fn references(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "Ref": name })).collect()
}

#[test]
fn redis_admits_the_processes_that_need_it_and_has_no_way_out() {
    let groups = references(&["RedisSecurityGroup"]);
    let redis = json!({"CacheSubnetGroupName": {"Ref": "RedisSubnets"}, "SecurityGroupIds": groups});
    assert_properties("Redis", &redis);
    assert_properties("RedisSubnets", &json!({"SubnetIds": references(&["PrivateSubnetA", "PrivateSubnetB"])}));
    let resources = resources();
    let rules = resources["RedisSecurityGroup"]["Properties"]["SecurityGroupIngress"].as_array().unwrap();
    let admitted: Vec<&str> = rules.iter().map(|rule| rule["SourceSecurityGroupId"]["Ref"].as_str().unwrap()).collect();
    assert_eq!(admitted, ["FunctionSecurityGroup", "ApiSecurityGroup", "RepairTaskSecurityGroup"]);
    assert!(rules.iter().all(|rule| (&rule["FromPort"], &rule["ToPort"]) == (&json!(6379), &json!(6379))));
    let task = &resources["RepairTaskSecurityGroup"]["Properties"];
    assert!(task.get("SecurityGroupIngress").is_none(), "nobody connects to the repair job");
}

#[test]
fn each_subnet_has_the_routes_of_its_kind_and_both_reach_table_and_bucket() {
    let mut routes: Vec<(String, String)> = of_type("AWS::EC2::SubnetRouteTableAssociation")
        .into_iter()
        .map(|(_, association)| {
            let name = |property: &str| association["Properties"][property]["Ref"].as_str().unwrap().to_owned();
            (name("SubnetId"), name("RouteTableId"))
        })
        .collect();
    routes.sort();
    let expected = [
        ("PrivateSubnetA", "PrivateRoutes"),
        ("PrivateSubnetB", "PrivateRoutes"),
        ("PublicSubnetA", "PublicRoutes"),
        ("PublicSubnetB", "PublicRoutes"),
    ];
    assert_eq!(routes, expected.map(|(subnet, table)| (subnet.to_owned(), table.to_owned())));
    let endpoints = of_type("AWS::EC2::VPCEndpoint");
    let mut services: Vec<&str> = Vec::new();
    for (name, endpoint) in &endpoints {
        let properties = &endpoint["Properties"];
        assert_eq!(properties["VpcEndpointType"], "Gateway", "{name}");
        assert_eq!(properties["RouteTableIds"], references(&["PrivateRoutes", "PublicRoutes"]), "{name}");
        services.push(properties["ServiceName"]["Fn::Sub"].as_str().unwrap());
    }
    assert_eq!(services, ["com.amazonaws.${AWS::Region}.dynamodb", "com.amazonaws.${AWS::Region}.s3"]);
    for zones in [["PublicSubnetA", "PublicSubnetB"], ["PrivateSubnetA", "PrivateSubnetB"]] {
        let [first, second] = zones.map(|name| resources()[name]["Properties"]["AvailabilityZone"].clone());
        assert_ne!(first, second, "{zones:?}");
    }
}

#[test]
fn a_load_balancer_that_is_open_to_the_internet_waits_for_the_gateway() {
    let after_the_gateway = ("/DependsOn", json!("InternetGatewayAttachment"));
    let open = ("/Properties/Scheme", json!("internet-facing"));
    assert_each("AWS::ElasticLoadBalancingV2::LoadBalancer", &[open, after_the_gateway.clone()]);
    assert_each("AWS::EC2::Route", &[after_the_gateway]);
}

#[test]
fn health_is_asked_where_the_api_answers_it() {
    let resources = resources();
    let container = &resources["ApiTask"]["Properties"]["ContainerDefinitions"][0];
    let port = |variable: &str| {
        let entries = container["Environment"].as_array().unwrap();
        let value = entries.iter().find(|entry| entry["Name"] == variable).unwrap()["Value"].as_str().unwrap();
        value.strip_prefix("0.0.0.0:").unwrap().to_owned()
    };
    let targets = &resources["ApiTargets"]["Properties"];
    assert_eq!(targets["HealthCheckPath"], "/livez");
    assert_eq!(targets["HealthCheckPort"], port("PAGEMARK_OPERATIONS_LISTEN"));
    assert_eq!(targets["Port"].to_string(), port("PAGEMARK_LISTEN"));
    let open = |list: &Value, property: &str| -> Vec<String> {
        list.as_array().unwrap().iter().map(|entry| entry[property].to_string()).collect()
    };
    let ports = [port("PAGEMARK_LISTEN"), port("PAGEMARK_OPERATIONS_LISTEN")];
    assert_eq!(open(&container["PortMappings"], "ContainerPort"), ports);
    let rules = &resources["ApiSecurityGroup"]["Properties"]["SecurityGroupIngress"];
    assert_eq!(open(rules, "FromPort"), ports);
    for rule in rules.as_array().unwrap() {
        assert_eq!(rule["SourceSecurityGroupId"], json!({"Ref": "LoadBalancerSecurityGroup"}));
    }
}

#[test]
fn only_autoscaling_decides_how_many_tasks_run() {
    assert!(resources()["ApiService"]["Properties"].get("DesiredCount").is_none(), "each deployment would reset it");
    let scaling = json!({
        "ResourceId": {"Fn::Sub": "service/${ApiCluster}/${ApiService.Name}"},
        "MinCapacity": {"Ref": "ApiTasksMin"},
        "MaxCapacity": {"Ref": "ApiTasksMax"},
    });
    assert_properties("ApiScaling", &scaling);
    let policy = json!({"ScalingTargetId": {"Ref": "ApiScaling"}, "PolicyType": "TargetTrackingScaling"});
    assert_properties("ApiScalingPolicy", &policy);
    assert_properties("ApiInFlightScalingPolicy", &policy);
}

#[test]
fn tasks_are_added_before_they_refuse_requests() {
    let resources = resources();
    let environment = &resources["ApiTask"]["Properties"]["ContainerDefinitions"][0]["Environment"];
    let in_flight = environment.as_array().unwrap().iter().find(|entry| entry["Name"] == "PAGEMARK_MAX_IN_FLIGHT");
    let most: f64 = in_flight.unwrap()["Value"].as_str().unwrap().parse().unwrap();
    let policy = &resources["ApiInFlightScalingPolicy"]["Properties"]["TargetTrackingScalingPolicyConfiguration"];
    assert!(policy["TargetValue"].as_f64().unwrap() < most / 2.0, "{policy}");
}

#[test]
fn a_release_that_answers_errors_is_rolled_back() {
    let rollback = json!({
        "AlarmNames": references(&["ApiFailing", "ApiUnreachable", "ApiUnavailable"]),
        "Enable": true,
        "Rollback": true,
    });
    assert_eq!(resources()["ApiService"]["Properties"]["DeploymentConfiguration"]["Alarms"], rollback);
}

#[test]
fn the_unencrypted_port_refuses_the_api_and_sends_readers_to_https() {
    let listener = json!({"ListenerArn": {"Ref": "HttpListener"}});
    assert_properties("HttpApiRule", &listener);
    let rule = &resources()["HttpApiRule"]["Properties"];
    // `*` matches the base path of PublicUrl, also an empty one.
    assert_eq!(rule["Conditions"][0]["PathPatternConfig"]["Values"], json!(["*/api/*"]));
    assert_eq!(rule["Actions"][0]["FixedResponseConfig"]["StatusCode"], "403");
    let header = "routing.http.response.strict_transport_security.header_value";
    let attributes = json!([{"Key": header, "Value": "max-age=31536000"}]);
    assert_properties("HttpsListener", &json!({ "ListenerAttributes": attributes }));
}

#[test]
fn users_of_redis_change_one_after_the_other() {
    for (user, before) in [("RepairJobUser", "PageIndexerUser"), ("ApiUser", "RepairJobUser")] {
        assert_eq!(resources()[user]["DependsOn"], before, "{user}");
    }
}

#[test]
fn shards_are_added_to_the_cluster_that_is_there() {
    assert_eq!(resources()["Redis"]["UpdatePolicy"], json!({"UseOnlineResharding": true}));
    let properties = json!({
        "NumNodeGroups": {"Fn::Length": {"Ref": "RedisShards"}},
        "ReplicasPerNodeGroup": {"Ref": "RedisReplicas"},
        // CloudFormation refuses two zones without a replica, and a cluster without fail-over.
        "MultiAZEnabled": {"Fn::If": ["HasRedisReplica", true, false]},
        "AutomaticFailoverEnabled": true,
    });
    assert_properties("Redis", &properties);
}
