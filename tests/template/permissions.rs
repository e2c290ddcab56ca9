//! Who may do what. The expected text lists every permission that the template gives, so a change of one is a change here.
//! `template` compares what the translation adds to the roles of functions.

use expect_test::expect;
use serde_json::Value;

use super::{of_type, resources};

/// A value of a policy in short: names of resources, and ARNs without account and region.
fn short(value: &Value) -> String {
    if let Some(all) = value.as_array() {
        return all.iter().map(short).collect::<Vec<_>>().join(", ");
    }
    if let Some([condition, then, otherwise]) = value["Fn::If"].as_array().map(Vec::as_slice) {
        return format!("{} ({}) or {}", short(then), condition.as_str().unwrap(), short(otherwise));
    }
    if let Some(attribute) = value["Fn::GetAtt"].as_array() {
        return attribute.iter().map(|part| part.as_str().unwrap()).collect::<Vec<_>>().join(".");
    }
    let text = [&value["Ref"], &value["Fn::Sub"], value].into_iter().find_map(Value::as_str);
    let text = text.unwrap_or_else(|| panic!("{value}")).replace("arn:${AWS::Partition}:", "");
    text.replace(":${AWS::Region}:${AWS::AccountId}:", ":").replace("${AWS::StackName}", "STACK")
}

fn statement(statement: &Value) -> String {
    let known = ["Action", "Condition", "Effect", "Principal", "Resource", "Sid"];
    assert!(statement.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{statement}");
    let mut line = format!("  {}", statement["Effect"].as_str().unwrap().to_lowercase());
    if let Some(principal) = statement.get("Principal") {
        line += &format!(" {}", short(principal.get("Service").unwrap_or(principal)));
    }
    line += &format!(" {}", short(&statement["Action"]));
    if let Some(resource) = statement.get("Resource") {
        line += &format!(" on {}", short(resource));
    }
    if let Some(condition) = statement.get("Condition") {
        line += &format!(" if {condition}");
    }
    line + "\n"
}

fn policies(name: &str, resource: &Value) -> Option<String> {
    let properties = &resource["Properties"];
    let listed = properties["Policies"].as_array().into_iter().flatten();
    let (references, own): (Vec<_>, Vec<_>) = listed.partition(|policy| policy.get("Ref").is_some());
    let own = own.into_iter().map(|policy| policy.get("PolicyDocument").unwrap_or(policy));
    let documents = [&properties["AssumeRolePolicyDocument"], &properties["PolicyDocument"]].into_iter().chain(own);
    let documents = documents.filter_map(|document| document["Statement"].as_array());
    let mut text: String = documents.flatten().map(statement).collect();
    for managed in references.into_iter().chain(properties["ManagedPolicyArns"].as_array().into_iter().flatten()) {
        text += &format!("  as {}\n", short(managed));
    }
    for role in ["Role", "RoleArn", "ExecutionRoleArn", "TaskRoleArn"].iter().filter_map(|role| properties.get(*role)) {
        text += &format!("  takes {}\n", short(role));
    }
    (!text.is_empty()).then(|| format!("{name}\n{text}"))
}

#[test]
fn every_part_may_do_named_things_with_named_resources_and_no_more() {
    let all: String = resources().iter().filter_map(|(name, resource)| policies(name, resource)).collect();
    expect![[r#"
        ApiExecutionRole
          allow ecs-tasks.amazonaws.com sts:AssumeRole
          allow secretsmanager:GetSecretValue on CursorKeys
          as iam::aws:policy/service-role/AmazonECSTaskExecutionRolePolicy
        ApiRole
          allow ecs-tasks.amazonaws.com sts:AssumeRole
          allow dynamodb:BatchGetItem, dynamodb:DescribeTable, dynamodb:GetItem, dynamodb:Query on dynamodb:table/${TableName}
          allow dynamodb:DeleteItem, dynamodb:PutItem, dynamodb:UpdateItem on dynamodb:table/${TableName} if {"ForAnyValue:StringEquals":{"dynamodb:EnclosingOperation":["TransactWriteItems"]}}
          allow dynamodb:Query on dynamodb:table/${TableName}/index/gsi
          allow dynamodb:Query on dynamodb:table/${TableName}/index/authors
          allow dynamodb:Query on dynamodb:table/${TableName}/index/moderation
          allow elasticache:Connect on elasticache:replicationgroup:${Redis}, elasticache:user:STACK-api
        ApiTask
          takes ApiExecutionRole.Arn
          takes ApiRole.Arn
        BigRepair
          takes BigRepairRole.Arn
        BigRepairRole
          allow states.amazonaws.com sts:AssumeRole
          allow lambda:InvokeFunction on RepairJob.Arn
          allow states:StartExecution on states:stateMachine:STACK-big-repair
          allow states:DescribeExecution, states:StopExecution on states:execution:STACK-big-repair:*, states:execution:STACK-big-repair/*
          allow s3:PutObject on ${QuarantineBucket.Arn}/big-repairs/*
        BigRepairRuleRole
          allow events.amazonaws.com sts:AssumeRole
          allow states:StartExecution on BigRepair
        DynamoDbEndpoint
          allow * dynamodb:* on dynamodb:table/${TableName}, dynamodb:table/${TableName}/index/*
        PageIndexer
          allow dynamodb:DescribeStream, dynamodb:GetRecords, dynamodb:GetShardIterator on CommentsTable.StreamArn (MakesTable) or TableStreamArn
          allow dynamodb:ListStreams on *
          allow s3:PutObject on ${QuarantineBucket.Arn}/*
          allow s3:ListBucket on QuarantineBucket.Arn
          allow elasticache:Connect on elasticache:replicationgroup:${Redis}, elasticache:user:STACK-page-indexer
        QuarantineBucketPolicy
          deny * s3:* on QuarantineBucket.Arn, ${QuarantineBucket.Arn}/* if {"Bool":{"aws:SecureTransport":"false"}}
        RepairDeadLettersPolicy
          allow events.amazonaws.com sqs:SendMessage on RepairDeadLetters.Arn if {"ArnEquals":{"aws:SourceArn":[{"Fn::GetAtt":["RepairJobRecent","Arn"]},{"Fn::GetAtt":["RepairJobHourly","Arn"]}]}}
        RepairExecutionRole
          allow ecs-tasks.amazonaws.com sts:AssumeRole
          as iam::aws:policy/service-role/AmazonECSTaskExecutionRolePolicy
        RepairJob
          as RepairPolicy
        RepairPolicy
          allow dynamodb:BatchGetItem, dynamodb:ConditionCheckItem, dynamodb:DeleteItem, dynamodb:DescribeTable, dynamodb:GetItem, dynamodb:PutItem, dynamodb:Query, dynamodb:Scan, dynamodb:UpdateItem on dynamodb:table/${TableName}
          allow dynamodb:Query on dynamodb:table/${TableName}/index/primaries
          allow s3:GetObject, s3:DeleteObject on ${QuarantineBucket.Arn}/*
          allow s3:ListBucket on QuarantineBucket.Arn
          allow elasticache:Connect on elasticache:replicationgroup:${Redis}, elasticache:user:STACK-repair-job
        RepairTask
          takes RepairExecutionRole.Arn
          takes RepairTaskRole.Arn
        RepairTaskRole
          allow ecs-tasks.amazonaws.com sts:AssumeRole
          allow dynamodb:Query on dynamodb:table/${TableName}/index/authors
          as RepairPolicy
        S3Endpoint
          allow * s3:* on QuarantineBucket.Arn, ${QuarantineBucket.Arn}/*
          allow * s3:GetObject on s3:::prod-${AWS::Region}-starport-layer-bucket/*
        StreamWriter
          allow dynamodb:BatchWriteItem, dynamodb:PutItem, dynamodb:DeleteItem on dynamodb:table/${TableName}
          allow dynamodb:DescribeStream, dynamodb:GetRecords, dynamodb:GetShardIterator on CommentsTable.StreamArn (MakesTable) or TableStreamArn
          allow dynamodb:ListStreams on *
          allow s3:PutObject on ${QuarantineBucket.Arn}/*
          allow s3:ListBucket on QuarantineBucket.Arn
    "#]]
    .assert_eq(&all);
}

#[test]
fn no_secret_stands_in_the_template() {
    for (name, task) in of_type("AWS::ECS::TaskDefinition") {
        let plain = task["Properties"]["ContainerDefinitions"][0]["Environment"].to_string();
        assert!(!plain.contains("PAGEMARK_CURSOR_KEYS"), "{name}: {plain}");
    }
    for (name, user) in of_type("AWS::ElastiCache::User") {
        assert!(user["Properties"].get("Passwords").is_none(), "{name}");
    }
    for (name, secret) in of_type("AWS::SecretsManager::Secret") {
        assert!(secret["Properties"]["GenerateSecretString"].is_object(), "{name}");
    }
    assert!(
        !super::project_file("infra/template.yaml").contains("{{resolve:"),
        "whoever sees a resource would see the secret"
    );
}
