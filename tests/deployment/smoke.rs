//! `scripts/smoke.sh` and documented commands, run with AWS's own command line. AWS is a
//! simulation; stores and processes are real ones on this machine. The tests show what a smoke
//! refuses, what it does, and that it deletes everything.

use std::process::Output;

use local_stack::event_source_mapping::MappingSettings;
use model::ProductId;
use page_indexer::PageIndexer;
use serde_json::Value;
use stream_writer::StreamWriter;
use tempfile::TempDir;
use tokio::process::Command;

use crate::fixture::{
    api::{ApiProcess, api_variables},
    documents::block,
    function::{Variables, binary, repair_job_variables},
    http::WRITE_TOKEN,
    mappings::{Mappings, handler},
    program::run_tool,
    python,
    s3::S3,
    stores::{INVOCATION, Stores},
    tool,
};

fn start_mappings(stores: &Stores) -> Mappings {
    let writer = StreamWriter::new(stores.table.clone(), stores.quarantine(), 4);
    let fan_out = handler(writer, async |writer, event, deadline| {
        writer.handle(&event, deadline).await.response
    });
    let indexer = PageIndexer::new(stores.index.clone(), stores.quarantine());
    let indexing = handler(indexer, async |indexer, event, deadline| {
        indexer.handle(&event, deadline).await.response
    });
    let mut mappings = Mappings::default();
    mappings.start(
        stores,
        stream_writer::FUNCTION,
        MappingSettings::STREAM_WRITER,
        fan_out,
    );
    mappings.start(
        stores,
        page_indexer::FUNCTION,
        MappingSettings::PAGE_INDEXER,
        indexing,
    );
    mappings
}

/// A simulation of AWS with AWS's command line.
struct Aws {
    simulation: S3,
    folder: TempDir,
}

impl Aws {
    async fn start() -> Self {
        Self {
            simulation: S3::start().await,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Runs commands of a shell in the project's folder.
    async fn sh(&self, script: &str, variables: Variables) -> Output {
        let aws = tool("aws-cli/bin/aws", "python-tools");
        let path = format!(
            "{}:{}",
            aws.parent().unwrap().display(),
            std::env::var("PATH").unwrap()
        );
        let mut shell = Command::new("sh");
        shell
            .args(["-euc", script])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        shell
            .env("PATH", path)
            .env("AWS_ENDPOINT_URL", &self.simulation.url)
            .env("AWS_EC2_METADATA_DISABLED", "true");
        shell.envs([
            ("AWS_REGION", "us-east-1"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
            ("AWS_PAGER", ""),
        ]);
        shell.envs([
            ("AWS_ACCESS_KEY_ID", "none"),
            ("AWS_SECRET_ACCESS_KEY", "none"),
        ]);
        shell
            .env("CARGO_TARGET_DIR", self.folder.path())
            .env("SMOKE_CONFIRM", "yes")
            .envs(variables);
        shell.kill_on_drop(true).output().await.unwrap()
    }

    /// Runs commands, which must succeed. Returns what they print.
    async fn done(&self, script: &str) -> String {
        text(&self.sh(script, Vec::new()).await, 0)
    }

    async fn python(&self, program: &str) -> String {
        let mut command = python::command("python");
        command.args(["-c", program, &self.simulation.url]);
        command.env("AWS_DEFAULT_REGION", "us-east-1");
        command.envs([
            ("AWS_ACCESS_KEY_ID", "none"),
            ("AWS_SECRET_ACCESS_KEY", "none"),
        ]);
        run_tool(command, "").await
    }

    async fn make_stack(&self, table: &str, balancer: &str, tags: &str) {
        let template = serde_json::json!({
            "Resources": {"QuarantineBucket": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain"}},
            "Outputs": {"TableName": {"Value": table}, "LoadBalancerName": {"Value": balancer}},
        });
        let make = format!(
            "aws cloudformation create-stack --stack-name smoke-1 --template-body '{template}' {tags}"
        );
        self.done(&make).await;
    }
}

const NOWHERE: &str = "127.0.0.1:1";

const TAG: &str = "--tags Key=pagemark:smoke,Value=smoke-1";

/// What a script printed. Its exit code must be this one.
#[track_caller]
fn text(output: &Output, code: i32) -> String {
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert_eq!(output.status.code(), Some(code), "{err}\n{out}");
    if code == 0 { out } else { err }
}

#[tokio::test]
async fn the_smoke_runs_on_the_stores_and_processes_of_this_machine() {
    let (aws, stores) = (Aws::start().await, Stores::start_ready_with_redis().await);
    let api = ApiProcess::start(api_variables(&stores)).await;
    let mappings = start_mappings(&stores);
    aws.make_stack(stores.table.name(), NOWHERE, TAG).await;
    let work = aws.folder.path().join("smoke/smoke-1");
    std::fs::create_dir_all(&work).unwrap();
    std::fs::write(work.join("token"), WRITE_TOKEN).unwrap();
    let mut variables = repair_job_variables(&stores);
    variables.extend([
        ("AWS_ENDPOINT_URL_DYNAMODB", stores.engine_url()),
        ("SMOKE_URL", api.http.base().to_owned()),
        (
            "SMOKE_REPAIR",
            binary("repair-job").await.display().to_string(),
        ),
        ("SMOKE_COMMENTS", "30".to_owned()),
    ]);
    let steps = async |steps: &str| {
        aws.sh(
            &format!("scripts/smoke.sh smoke-1 {steps}"),
            variables.clone(),
        )
        .await
    };
    let printed = text(&steps("confirm filled compared repaired").await, 0);
    assert!(printed.contains("an hour costs $0.14"), "{printed}");
    let posted = std::fs::read_to_string(work.join("comments.jsonl")).unwrap();
    assert_eq!(posted.lines().count(), 30);

    // An interrupted step begins again and posts nothing twice; the others are not repeated.
    std::fs::remove_file(work.join("done-filled")).unwrap();
    std::fs::remove_file(work.join("done-compared")).unwrap();
    let again = text(&steps("confirm filled compared repaired").await, 0);
    assert!(!again.contains("an hour costs"), "{again}");
    assert_eq!(
        std::fs::read_to_string(work.join("comments.jsonl")).unwrap(),
        posted
    );

    // It does not touch comments of others.
    stores
        .create_numbered(0, ProductId::parse("of-others").unwrap())
        .await;
    assert!(
        text(&steps("clean").await, 3).contains("has 1 comments that this script has not posted")
    );
    mappings.finish(INVOCATION).await;
    stores.finish().await;
}

/// What a run leaves that was interrupted at its end, beside things of others. In Python, which is
/// quicker than a command line for each.
const LEFT: &str = r#"
import boto3, sys
of = lambda service: boto3.client(service, endpoint_url=sys.argv[1])
for table in ["smoke-1", "smoke-1-restored", "pagemark"]:
    of("dynamodb").create_table(
        TableName=table, BillingMode="PAY_PER_REQUEST", DeletionProtectionEnabled=True,
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ["pk", "shard", "pcd"]],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        GlobalSecondaryIndexes=[{
            "IndexName": "primaries", "Projection": {"ProjectionType": "ALL"},
            "KeySchema": [{"AttributeName": "shard", "KeyType": "HASH"}, {"AttributeName": "pcd", "KeyType": "RANGE"}],
        }])
s3 = of("s3")
deploy = "smoke-1-" + of("sts").get_caller_identity()["Account"]
s3.create_bucket(Bucket=deploy)
for bucket in [deploy, *(b["Name"] for b in s3.list_buckets()["Buckets"] if "quarantinebucket" in b["Name"])]:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for key in ["left", "left", "other"]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"left")
    s3.delete_object(Bucket=bucket, Key="left")
of("ecr").create_repository(repositoryName="smoke-1")
for name in ["smoke-1.invalid", "comments.example.com"]:
    of("acm").request_certificate(DomainName=name)
"#;

const SHOW: &str = r#"
import boto3, sys
of = lambda service: boto3.client(service, endpoint_url=sys.argv[1])
print(*of("dynamodb").list_tables()["TableNames"])
print(*(bucket["Name"] for bucket in of("s3").list_buckets()["Buckets"]))
print(*(repository["repositoryName"] for repository in of("ecr").describe_repositories()["repositories"]))
print(*(stack["StackName"] for stack in of("cloudformation").describe_stacks()["Stacks"]))
print(*(certificate["DomainName"] for certificate in of("acm").list_certificates()["CertificateSummaryList"]))
"#;

#[tokio::test]
async fn the_smoke_deletes_everything_that_it_has_made_and_nothing_else() {
    let aws = Aws::start().await;
    aws.make_stack("smoke-1-restored", NOWHERE, TAG).await;
    aws.python(LEFT).await;
    assert_eq!(aws.python(SHOW).await.matches("smoke-1").count(), 7);
    aws.done("scripts/smoke.sh smoke-1 clean").await;
    let left = aws.python(SHOW).await;
    let left: Vec<&str> = left.split_whitespace().collect();
    assert_eq!(
        left,
        [
            "pagemark",
            crate::fixture::s3::BUCKET,
            "comments.example.com"
        ]
    );
    assert!(!aws.folder.path().join("smoke/smoke-1").exists());
}

const CREATE_TABLE: &str = "aws dynamodb create-table --table-name pagemark --billing-mode PAY_PER_REQUEST \
     --attribute-definitions AttributeName=pk,AttributeType=S --key-schema AttributeName=pk,KeyType=HASH >/dev/null
aws dynamodb update-continuous-backups --table-name pagemark \
     --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true >/dev/null\n";

#[tokio::test]
async fn the_documented_commands_of_a_restore_make_a_table_that_a_stack_can_use() {
    let aws = Aws::start().await;
    let commands = block("docs/operate.md", "sh", "TABLE=pagemark-restored");
    // The documented `deploy` changes a stack. Here it shows what it would set.
    let script = [
        CREATE_TABLE,
        "deploy() { echo \"deploy $*\"; }\nexec 3>&1 >/dev/null\n",
        &commands,
    ]
    .concat();
    let script = script.replace("deploy Table", "deploy >&3 Table");
    let deployed = aws.done(&script).await;
    let describe = "aws dynamodb describe-table --table-name pagemark-restored --query Table";
    let table: Value = serde_json::from_str(&aws.done(describe).await).unwrap();
    let stream = table["LatestStreamArn"].as_str().unwrap();
    assert_eq!(
        deployed.trim(),
        format!("deploy TableName=pagemark-restored RollBackOnAlarm=no TableStreamArn={stream}")
    );
    assert_eq!(
        table["StreamSpecification"]["StreamViewType"],
        "NEW_AND_OLD_IMAGES"
    );
    assert_eq!(table["DeletionProtectionEnabled"], true);
    let more = "aws dynamodb describe-time-to-live --table-name pagemark-restored --output text
        aws dynamodb describe-continuous-backups --table-name pagemark-restored --output text";
    let more = aws.done(more).await;
    assert!(
        more.contains("expires_at") && more.contains("ENABLED"),
        "{more}"
    );
}
