//! `scripts/smoke.sh` and documented commands, run with AWS's own command line. AWS is a
//! simulation; stores and processes are real ones on this machine. The tests show what a smoke
//! refuses, what it does, and that it deletes everything.

use std::process::Output;

use local_stack::event_source_mapping::MappingSettings;
use page_indexer::PageIndexer;
use serde_json::{Value, json};
use stream_writer::StreamWriter;
use tempfile::TempDir;
use tokio::process::Command;

use crate::fixture::{
    api::{ApiProcess, api_variables},
    data,
    documents::{PROJECT, block},
    function::{Variables, binary, repair_job_variables},
    http::WRITE_TOKEN,
    mappings::{Mappings, handler},
    program::run_tool,
    python,
    s3::{BUCKET, S3},
    stores::{INVOCATION, Stores},
    tool,
};

const _: crate::Engines =
    crate::Engines::Embedded("its simulation of AWS has an engine of its own");

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
        let folder_of_aws = aws.parent().unwrap().display();
        let path = std::env::var("PATH").unwrap();
        let mut shell = Command::new("sh");
        shell
            .args(["-euc", script])
            .current_dir(PROJECT)
            .env("PATH", format!("{folder_of_aws}:{path}"))
            .env("AWS_ENDPOINT_URL", &self.simulation.url)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_REGION", "us-east-1")
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .env("AWS_PAGER", "")
            .env("AWS_ACCESS_KEY_ID", "none")
            .env("AWS_SECRET_ACCESS_KEY", "none")
            .env("CARGO_TARGET_DIR", self.folder.path())
            .env("SMOKE_CONFIRM", "yes")
            .envs(variables);
        shell.kill_on_drop(true).output().await.unwrap()
    }

    /// Runs these steps of the smoke.
    async fn smoke(&self, steps: &str, variables: &Variables) -> Output {
        let script = format!("scripts/smoke.sh smoke-1 {steps}");
        self.sh(&script, variables.clone()).await
    }

    /// Runs commands, which must succeed. Returns what they print.
    async fn done(&self, script: &str) -> String {
        text(&self.sh(script, Vec::new()).await, 0)
    }

    async fn python(&self, program: &str) -> String {
        let mut command = python::command("python");
        command
            .args(["-c", program, &self.simulation.url])
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", "none")
            .env("AWS_SECRET_ACCESS_KEY", "none");
        run_tool(command, "").await
    }

    /// Makes a stack with this table. Its load balancer is nowhere.
    async fn make_stack(&self, table: &str) {
        let bucket = json!({ "Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain" });
        let template = json!({
            "Resources": { "QuarantineBucket": bucket },
            "Outputs": {
                "TableName": { "Value": table },
                "LoadBalancerName": { "Value": "127.0.0.1:1" },
            },
        });
        let make = format!(
            "aws cloudformation create-stack --stack-name smoke-1 --template-body '{template}' \
             --tags Key=pagemark:smoke,Value=smoke-1"
        );
        self.done(&make).await;
    }
}

/// What a script printed. Its exit code must be this one.
#[track_caller]
fn text(output: &Output, code: i32) -> String {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{err}\n{out}");
    if code == 0 { out } else { err }
}

#[tokio::test]
#[ignore = "needs the AWS CLI"]
async fn the_smoke_runs_on_the_stores_and_processes_of_this_machine() {
    let aws = Aws::start().await;
    let stores = Stores::start_ready_with_redis().await;
    let api = ApiProcess::start(api_variables(&stores)).await;
    let mappings = start_mappings(&stores);
    aws.make_stack(stores.table.name()).await;
    let work = aws.folder.path().join("smoke/smoke-1");
    std::fs::create_dir_all(&work).unwrap();
    std::fs::write(work.join("token"), WRITE_TOKEN).unwrap();
    let repair_job = binary("repair-job").await;
    let mut variables = repair_job_variables(&stores);
    variables.extend([
        ("AWS_ENDPOINT_URL_DYNAMODB", stores.engine_url()),
        ("SMOKE_URL", api.http.base().to_owned()),
        ("SMOKE_REPAIR", repair_job.display().to_string()),
        ("SMOKE_COMMENTS", "30".to_owned()),
    ]);
    let steps = "confirm filled compared repaired";
    let printed = text(&aws.smoke(steps, &variables).await, 0);
    assert!(printed.contains("an hour costs $0.14"), "{printed}");
    let posted = std::fs::read_to_string(work.join("comments.jsonl")).unwrap();
    assert_eq!(posted.lines().count(), 30);

    // An interrupted step begins again and posts nothing twice; the others are not repeated.
    std::fs::remove_file(work.join("done-filled")).unwrap();
    std::fs::remove_file(work.join("done-compared")).unwrap();
    let again = text(&aws.smoke(steps, &variables).await, 0);
    assert!(!again.contains("an hour costs"), "{again}");
    let posted_again = std::fs::read_to_string(work.join("comments.jsonl")).unwrap();
    assert_eq!(posted_again, posted);

    // It does not touch comments of others.
    stores.create_numbered(0, data::product("of-others")).await;
    let refused = text(&aws.smoke("clean", &variables).await, 3);
    let reason = "has 1 comments that this script has not posted";
    assert!(refused.contains(reason), "{refused}");
    mappings.finish(INVOCATION).await;
    stores.finish().await;
}

/// Makes what remains of a run that was interrupted at its end, beside things of others. In Python,
/// which is quicker than a command line for each.
const MAKE_REMAINS: &str = r#"
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
    for key in ["deleted", "deleted", "kept"]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"content")
    s3.delete_object(Bucket=bucket, Key="deleted")
of("ecr").create_repository(repositoryName="smoke-1")
for name in ["smoke-1.invalid", "comments.example.com"]:
    of("acm").request_certificate(DomainName=name)
"#;

/// Prints the names of all that is there.
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
#[ignore = "needs the AWS CLI"]
async fn the_smoke_deletes_everything_that_it_has_made_and_nothing_else() {
    let aws = Aws::start().await;
    aws.make_stack("smoke-1-restored").await;
    aws.python(MAKE_REMAINS).await;
    assert_eq!(aws.python(SHOW).await.matches("smoke-1").count(), 7);
    aws.done("scripts/smoke.sh smoke-1 clean").await;
    let remaining = aws.python(SHOW).await;
    let remaining: Vec<&str> = remaining.split_whitespace().collect();
    assert_eq!(remaining, ["pagemark", BUCKET, "comments.example.com"]);
    assert!(!aws.folder.path().join("smoke/smoke-1").exists());
}

const CREATE_TABLE: &str = "aws dynamodb create-table --table-name pagemark --billing-mode PAY_PER_REQUEST \
     --attribute-definitions AttributeName=pk,AttributeType=S --key-schema AttributeName=pk,KeyType=HASH >/dev/null
aws dynamodb update-continuous-backups --table-name pagemark \
     --point-in-time-recovery-specification PointInTimeRecoveryEnabled=true >/dev/null\n";

#[tokio::test]
#[ignore = "needs the AWS CLI"]
async fn the_documented_commands_of_a_restore_make_a_table_that_a_stack_can_use() {
    let aws = Aws::start().await;
    let commands = block("docs/operate.md", "sh", "TABLE=pagemark-restored");
    // The documented `deploy` changes a stack. Here it shows what it would set.
    let define_deploy = "deploy() { echo \"deploy $*\"; }\nexec 3>&1 >/dev/null\n";
    let commands = commands.replace("deploy Table", "deploy >&3 Table");
    let script = [CREATE_TABLE, define_deploy, &commands].concat();
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
    assert!(more.contains("expires_at"), "{more}");
    assert!(more.contains("ENABLED"), "{more}");
}
