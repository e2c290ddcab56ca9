//! The API matches its description, and the metrics are as Prometheus requires. Both are checked
//! with the tools that read them.

use std::path::{Path, PathBuf};

use crate::fixture::{
    http::{WRITE_TOKEN, good_comment},
    program::run_tool,
    project_file, python,
    stack::Running,
};

const _: crate::Engines = crate::Engines::Both;

/// Number of requests of each kind per operation. More requests find more; these take some 20 s.
const EXAMPLES: &str = "40";

fn described(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("documents/described")
        .join(name)
}

async fn run(program: &str, arguments: &[&str], input: &str) -> String {
    let mut command = python::command(program);
    command
        .args(arguments)
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .env("SCHEMATHESIS_HOOKS", described("hooks.py"));
    run_tool(command, input).await
}

#[tokio::test]
#[ignore = "needs Python packages"]
async fn every_described_request_is_accepted_and_answered_as_described() {
    let running = Running::start().await;
    let url = format!("{}/openapi.json", running.stack.api_url().unwrap());
    let description = running.http.get("/openapi.json").await;
    assert_eq!(description.header("content-type"), Some("application/json"));
    let authorization = format!("Authorization: Bearer {WRITE_TOKEN}");
    let config = described("schemathesis.toml");
    let arguments = [
        "--config-file",
        config.to_str().unwrap(),
        "run",
        &url,
        "--header",
        &authorization,
        "--checks",
        "all",
        // DELETE removes the record of a product, not its comments: what is below its path stays. A
        // test in `serving` proves that a deleted comment is 404.
        "--exclude-checks",
        "use_after_free",
        "--max-examples",
        EXAMPLES,
        "--generation-deterministic",
        "--continue-on-failure",
        "--no-color",
    ];
    let output = run("schemathesis", &arguments, "").await;
    assert!(output.contains("No issues found"), "{output}");
    running.finish().await;
}

#[tokio::test]
#[ignore = "needs Python packages"]
async fn the_description_is_valid() {
    let arguments = ["--schema", "3.1", "-"];
    let description = project_file("docs/openapi.json");
    run("openapi-spec-validator", &arguments, &description).await;
}

#[tokio::test]
#[ignore = "needs Python packages"]
async fn prometheus_can_read_the_metrics() {
    const READ: &str = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
print(*sorted(family.name for family in text_string_to_metric_families(sys.stdin.read())))
";
    let mut running = Running::start().await;
    running
        .http
        .post("p", &good_comment("en", 5, "Body"))
        .await
        .expect(201);
    running.settle().await;
    running
        .http
        .get("/api/v1/products/p/comments")
        .await
        .expect(200);
    let metrics = running.http.get("/metrics").await;
    let families = run("python", &["-c", READ], &metrics.body).await;
    let expected = [
        "pagemark_build",
        "pagemark_drift_signs",
        "pagemark_http_answer_bytes",
        "pagemark_http_request_duration_seconds",
        "pagemark_http_requests",
        "pagemark_http_requests_in_flight",
        "pagemark_http_requests_malformed",
        "pagemark_http_requests_shed",
        "pagemark_malformed_items",
        "pagemark_page_index_answers",
        "pagemark_page_index_available",
        "pagemark_page_index_partitions",
        "pagemark_store_call_duration_seconds",
    ];
    assert_eq!(families.trim(), expected.join(" "));
    running.finish().await;
}
