//! What `make package` makes, as Lambda takes it: each zip holds one program that may be executed and that asks the Runtime
//! API for work. Here for this machine, from the same code; other processors differ by the compiler's target only.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::json;
use tokio::process::Command;

use crate::fixture::{
    function::{
        Function, TIMEOUT, page_indexer_variables, repair_job_variables, stream_writer_variables,
        without_the_tests_package,
    },
    python,
    runtime_api::Outcome,
    stores::Stores,
};

/// Unpacks a zip as Lambda does: the modes that it names are kept.
const UNPACK: &str = "
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as zip:
    for entry in zip.infolist():
        os.chmod(zip.extract(entry, sys.argv[2]), entry.external_attr >> 16 & 0o7777)
    print(*(f'{entry.filename} {entry.external_attr >> 16:o}' for entry in zip.infolist()))
";

/// The project's folder, and cargo's.
fn folders() -> (PathBuf, PathBuf) {
    // <target>/<profile>/deps/<the tests>
    let tests = std::env::current_exe().unwrap();
    let project = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    (project, tests.ancestors().nth(3).unwrap().to_owned())
}

#[tokio::test]
async fn each_zip_holds_a_program_that_asks_for_work() {
    let (project, target) = folders();
    let folder = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().file_name().unwrap().to_owned();
    let profile = if folder == "debug" { "dev".into() } else { folder };
    let mut package = Command::new("sh");
    without_the_tests_package(&mut package);
    let packaged = package
        .args(["scripts/package.sh"])
        .current_dir(project)
        .env("ARCH", "host")
        .env("PROFILE", profile)
        .env("CARGO_TARGET_DIR", &target)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&packaged.stdout).into_owned();
    assert!(packaged.status.success(), "{said}\n{}", String::from_utf8_lossy(&packaged.stderr));
    for name in ["stream-writer.zip", "page-indexer.zip", "repair-job.zip", "api/api"] {
        assert!(said.contains(name), "the size of {name} is not told: {said}");
    }

    let stores = Stores::start().await;
    for (name, variables) in [
        ("stream-writer", stream_writer_variables(&stores)),
        ("page-indexer", page_indexer_variables(&stores)),
        ("repair-job", repair_job_variables(&stores)),
    ] {
        let unpacked = tempfile::tempdir().unwrap();
        let zip = target.join("package").join(format!("{name}.zip"));
        let output = Command::new(python::program("python"))
            .args(["-c", UNPACK])
            .args([&zip, unpacked.path()])
            .output()
            .await
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "bootstrap 100755", "{name}: {output:?}");
        let mut function = Function::spawn_program(&unpacked.path().join("bootstrap"), name, &variables).await;
        function.polled().await;
        let answer = function.invoke(json!({ "Records": [] }).to_string(), TIMEOUT).await;
        assert!(matches!(answer, Outcome::Response(_)), "{name}: {answer:?}");
        function.finish().await;
    }
    stores.index.clear().await.unwrap();
}
