//! Checks that nothing in the template is open or unencrypted, and that irreplaceable data is kept.

use serde_json::json;

use super::{TEMPLATE, assert_each, assert_properties, of_type, resources};

#[test]
fn all_stored_data_and_every_connection_to_it_are_encrypted() {
    assert_properties("CommentsTable", &json!({"SSESpecification": {"SSEEnabled": true}}));
    let encrypted_by = "/Properties/BucketEncryption/ServerSideEncryptionConfiguration/0/ServerSideEncryptionByDefault";
    assert_each(
        "AWS::S3::Bucket",
        &[
            (&format!("{encrypted_by}/SSEAlgorithm"), json!("AES256")),
            ("/Properties/PublicAccessBlockConfiguration/BlockPublicAcls", json!(true)),
            ("/Properties/PublicAccessBlockConfiguration/BlockPublicPolicy", json!(true)),
            ("/Properties/PublicAccessBlockConfiguration/IgnorePublicAcls", json!(true)),
            ("/Properties/PublicAccessBlockConfiguration/RestrictPublicBuckets", json!(true)),
        ],
    );
    assert_each(
        "AWS::ElastiCache::ReplicationGroup",
        &[("/Properties/TransitEncryptionEnabled", json!(true)), ("/Properties/AtRestEncryptionEnabled", json!(true))],
    );
    assert_each("AWS::SQS::Queue", &[("/Properties/SqsManagedSseEnabled", json!(true))]);
    for (name, listener) in of_type("AWS::ElasticLoadBalancingV2::Listener") {
        let properties = &listener["Properties"];
        let action = &properties["DefaultActions"][0];
        let encrypted = properties["Protocol"] == "HTTPS";
        assert!(encrypted || action["RedirectConfig"]["Protocol"] == "HTTPS", "{name} serves pages in the clear");
    }
}

#[test]
fn no_comment_stays_in_quarantine_for_ever() {
    let days = functions::quarantine::RETENTION.as_secs() / (24 * 3600);
    let rules = resources()["QuarantineBucket"]["Properties"]["LifecycleConfiguration"]["Rules"].clone();
    let rule = rules.as_array().unwrap().iter().find(|rule| rule["ExpirationInDays"].is_number()).unwrap();
    assert_eq!((&rule["Status"], &rule["Prefix"], &rule["Filter"]), (&json!("Enabled"), &json!(null), &json!(null)));
    assert_eq!(rule["ExpirationInDays"], days);
    assert_eq!(rule["NoncurrentVersionExpiration"]["NoncurrentDays"], days);
}

#[test]
fn redis_never_evicts() {
    let policy = ("/Properties/Properties/maxmemory-policy", json!("noeviction"));
    assert_each("AWS::ElastiCache::ParameterGroup", &[policy]);
}

#[test]
fn what_cannot_be_made_again_outlives_the_stack() {
    for name in ["CommentsTable", "QuarantineBucket"] {
        for policy in ["DeletionPolicy", "UpdateReplacePolicy"] {
            assert_eq!(resources()[name][policy], "Retain", "{name}: {policy}");
        }
    }
    let table = json!({
        "DeletionProtectionEnabled": true,
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": true},
    });
    assert_properties("CommentsTable", &table);
}

#[test]
fn no_secret_stands_in_the_template_or_in_a_container_s_settings() {
    for (name, task) in of_type("AWS::ECS::TaskDefinition") {
        let container = &task["Properties"]["ContainerDefinitions"][0];
        assert_eq!(container["ReadonlyRootFilesystem"], true, "{name}");
        let plain = container["Environment"].to_string();
        assert!(!plain.contains("PAGEMARK_CURSOR_KEYS"), "{name}: {plain}");
    }
    // Users of Redis have no passwords. Only the CDN and the load balancer share one.
    for (name, user) in of_type("AWS::ElastiCache::User") {
        assert!(user["Properties"].get("Passwords").is_none(), "{name}");
    }
    let (secrets, of_cdn) = ("{{resolve:", "{{resolve:secretsmanager:${CdnPassword}:SecretString::");
    assert_eq!(TEMPLATE.matches(secrets).count(), TEMPLATE.matches(of_cdn).count());
    for (name, secret) in of_type("AWS::SecretsManager::Secret") {
        assert!(secret["Properties"]["GenerateSecretString"].is_object(), "{name}");
    }
}

#[test]
fn every_log_expires() {
    assert_each("AWS::Logs::LogGroup", &[("/Properties/RetentionInDays", json!({"Ref": "LogRetentionDays"}))]);
    for (name, function) in of_type("AWS::Serverless::Function") {
        assert!(function["Properties"]["LoggingConfig"]["LogGroup"]["Ref"].is_string(), "{name} logs for ever");
    }
}
