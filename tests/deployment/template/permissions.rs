//! The permissions of each role. `template` compares which actions and managed policies the roles
//! have after the translation.

use serde_json::{Value, json};

use super::{of_type, resources};

/// The statements of all policies in a resource.
fn statements(part: &'static Value) -> Vec<&'static Value> {
    if part.get("Effect").is_some() {
        return vec![part];
    }
    match part {
        Value::Object(parts) => parts.values().flat_map(statements).collect(),
        Value::Array(parts) => parts.iter().flat_map(statements).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

#[test]
#[ignore = "needs Python packages"]
fn every_part_may_do_named_things_with_named_resources() {
    let mut allowed = Vec::new();
    for (name, resource) in resources() {
        for statement in statements(resource) {
            if statement["Effect"] == "Allow" {
                allowed.push((name, statement));
            }
        }
    }
    assert!(!allowed.is_empty());
    for (name, statement) in allowed {
        // A statement with a principal is of a role that is taken, or of an endpoint, behind which
        // the roles are limited.
        if statement.get("Principal").is_none() {
            let actions = statement["Action"].to_string();
            assert!(!actions.contains('*'), "{name}: {statement}");
        }
        let resources = statement["Resource"].to_string();
        // In the policy of a key it is the key. DynamoDB has no resource for `ListStreams`.
        let is_of_key = super::resources()[name]["Type"] == "AWS::KMS::Key";
        if !is_of_key && statement["Action"] != "dynamodb:ListStreams" {
            assert!(!resources.contains(r#""*""#), "{name}: {statement}");
        }
        assert!(!resources.contains("table/*"), "{name}: {statement}");
    }
}

/// An audit asks each of them for what the table has.
#[test]
#[ignore = "needs Python packages"]
fn the_repair_job_may_read_every_index() {
    let queried = statements(&resources()["RepairPolicy"])
        .into_iter()
        .filter(|statement| statement["Action"].to_string().contains("dynamodb:Query"));
    let resources: Vec<String> = queried
        .map(|statement| statement["Resource"].to_string())
        .collect();
    assert!(
        resources
            .iter()
            .any(|resource| resource.ends_with("table/${TableName}/index/*\"}")),
        "{resources:?}"
    );
}

/// A write outside a transaction would lack its entry in the journal.
#[test]
#[ignore = "needs Python packages"]
fn the_api_writes_in_transactions_only() {
    let in_transactions = json!({ "dynamodb:EnclosingOperation": ["TransactWriteItems"] });
    let only = json!({ "ForAnyValue:StringEquals": in_transactions });
    let mut writing = 0;
    for statement in statements(&resources()["ApiRole"]) {
        if statement["Action"].to_string().contains("dynamodb:PutItem") {
            assert_eq!(statement["Condition"], only);
            writing += 1;
        }
    }
    assert!(writing > 0);
}

#[test]
#[ignore = "needs Python packages"]
fn no_secret_stands_in_the_template() {
    for (name, task) in of_type("AWS::ECS::TaskDefinition") {
        let plain = task["Properties"]["ContainerDefinitions"][0]["Environment"].to_string();
        assert!(!plain.contains("PAGEMARK_CURSOR_KEYS"), "{name}: {plain}");
    }
    for (name, user) in of_type("AWS::ElastiCache::User") {
        assert!(user["Properties"].get("Passwords").is_none(), "{name}");
    }
    for (name, secret) in of_type("AWS::SecretsManager::Secret") {
        assert!(
            secret["Properties"]["GenerateSecretString"].is_object(),
            "{name}"
        );
    }
    assert!(
        !super::project_file("infra/template.yaml").contains("{{resolve:"),
        "whoever sees a resource would see the secret"
    );
}
