//! The output of `make package`, as Lambda uses it: each zip holds one executable program that asks
//! the Runtime API for work. This test builds for this machine from the same code; other processors
//! differ only by the compiler's target. With `PAGEMARK_TEST_PACKAGE` it takes the zips in that
//! folder instead, and runs programs for arm64 in an emulator. They must name their crates. It also
//! checks that a program which needs other files to start never gets into the image.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use redis_index::RedisIndexConfig;
use serde_json::json;
use tokio::process::Command;

use crate::fixture::{
    documents::PROJECT,
    function::{
        Function, TIMEOUT, page_indexer_variables, repair_job_variables, stream_writer_variables,
        without_the_tests_package,
    },
    profile,
    program::run_tool,
    project_file, python,
    runtime_api::Outcome,
    stores::Stores,
    target_folder,
};

const _: crate::Engines = crate::Engines::Embedded("about the packages");

/// Unpacks a zip like Lambda, which keeps the file modes.
const UNPACK: &str = "
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as zip:
    for entry in zip.infolist():
        os.chmod(zip.extract(entry, sys.argv[2]), entry.external_attr >> 16 & 0o7777)
    print(*(f'{entry.filename} {entry.external_attr >> 16:o}' for entry in zip.infolist()))
";

fn script(path: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .arg(path)
        .current_dir(PROJECT)
        .env("CARGO_TARGET_DIR", target_folder());
    command
}

/// The interpreter that a program needs to start, as `make package` determines it, or the error.
async fn interpreter(program: &Path) -> Result<String, String> {
    let script = Path::new(PROJECT).join("scripts/elf_interpreter.py");
    let output = python::command("python")
        .args([&script, program])
        .output()
        .await
        .unwrap();
    if output.status.success() {
        Ok(trimmed(&output.stdout))
    } else {
        Err(trimmed(&output.stderr))
    }
}

fn trimmed(output: &[u8]) -> String {
    String::from_utf8_lossy(output).trim().to_owned()
}

#[tokio::test]
#[ignore = "needs Python packages"]
async fn the_image_trusts_the_pinned_authorities() {
    let made = tempfile::tempdir().unwrap();
    let bundle = made.path().join("ca-certificates.crt");
    let roots = made.path().join("amazon-roots.pem");
    for (which, file) in [("all", &bundle), ("amazon", &roots)] {
        let mut command = script("scripts/ca-certificates.sh");
        command.arg(which).arg(file);
        run_tool(command, "").await;
    }
    let installed = target_folder().join("ca-certificates/installed.txt");
    let installed = std::fs::read_to_string(installed).unwrap();
    assert_eq!(installed, project_file("scripts/ca-certificates.txt"));
    // The authority of AWS's own servers.
    let bundle = std::fs::read_to_string(bundle).unwrap();
    assert!(bundle.contains("Amazon Root CA 1"));
    assert!(bundle.contains("-----BEGIN CERTIFICATE-----"));
    // Five authorities of Amazon's and no other, as the client reads them.
    let roots_text = std::fs::read_to_string(&roots).unwrap();
    let mut subjects = 0;
    for line in roots_text.lines() {
        if line.starts_with("# Subject: ") {
            let is_of_amazon = line.contains("Amazon") || line.contains("Starfield Services");
            assert!(is_of_amazon, "{line}");
            subjects += 1;
        }
    }
    assert_eq!(subjects, 5);
    assert_eq!(roots_text.matches("-----BEGIN CERTIFICATE-----").count(), 5);
    let config = RedisIndexConfig {
        ca: Some(roots),
        ..RedisIndexConfig::new("rediss://redis.example:6379/")
    };
    redis_index::connect(&config).unwrap();
    assert!(
        !project_file("scripts/package.sh").contains("/etc/"),
        "the package holds a file of this machine's"
    );
}

/// The program itself if this machine can run it, or a script that runs it in an emulator.
fn runnable(program: PathBuf) -> PathBuf {
    // e_machine (elf(5)).
    let is_arm = std::fs::read(&program).unwrap()[18..20] == 183_u16.to_le_bytes();
    if !is_arm || cfg!(target_arch = "aarch64") {
        return program;
    }
    let script = program.with_extension("sh");
    let emulated = format!(
        "#!/bin/sh\nexec qemu-aarch64 '{}' \"$@\"\n",
        program.display()
    );
    std::fs::write(&script, emulated).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    script
}

/// Makes the zips for this machine in a separate folder, not the one that a deployment uses.
async fn package_for_this_machine() -> tempfile::TempDir {
    let made = tempfile::tempdir().unwrap();
    let mut package = script("scripts/package.sh");
    without_the_tests_package(&mut package);
    package
        .env("ARCH", "host")
        .env("PROFILE", profile())
        .env("OUT", made.path());
    let output = run_tool(package, "").await;
    for name in ["stream-writer.zip", "page-indexer.zip", "repair-job.zip"] {
        assert!(
            output.contains(name),
            "the size of {name} is missing: {output}"
        );
    }
    let is_static = interpreter(&std::env::current_exe().unwrap())
        .await
        .is_ok_and(|needed| needed.is_empty());
    assert_eq!(output.contains("no image"), !is_static, "{output}");
    for program in [
        "api/api",
        "api/repair-job",
        "api/amazon-roots.pem",
        "api/Containerfile",
    ] {
        assert_eq!(
            made.path().join(program).exists(),
            is_static,
            "{program}: {output}"
        );
    }
    made
}

async fn crates(program: &Path) -> String {
    let mut list = python::command("python");
    list.arg(Path::new(PROJECT).join("scripts/elf_dependencies.py"))
        .arg(program);
    run_tool(list, "").await
}

/// A program that was made elsewhere names its crates.
async fn assert_names_crates(program: &Path, name: &str) {
    let crates = crates(program).await;
    for expected in [name, "lambda_runtime"] {
        let mut names = crates.lines().map(|line| line.split(' ').next().unwrap());
        assert!(names.any(|found| found == expected), "{name}: {crates}");
    }
}

#[tokio::test]
#[ignore = "needs Python packages"]
async fn each_zip_holds_a_program_that_asks_for_work() {
    // Lambda unpacks a zip where the template says that the authorities are.
    let roots = include_str!("../../infra/template.yaml")
        .matches("PAGEMARK_REDIS_CA: /var/task/amazon-roots.pem\n")
        .count();
    assert_eq!(roots, 2);

    let given = std::env::var_os("PAGEMARK_TEST_PACKAGE").map(PathBuf::from);
    // A folder that was made here is deleted at the end of the test.
    let mut made = None;
    let folder = match &given {
        Some(folder) => folder.as_path(),
        None => made.insert(package_for_this_machine().await).path(),
    };

    let stores = Stores::start_with_redis().await;
    for (name, variables) in [
        ("stream-writer", stream_writer_variables(&stores)),
        ("page-indexer", page_indexer_variables(&stores)),
        ("repair-job", repair_job_variables(&stores)),
    ] {
        let unpacked = tempfile::tempdir().unwrap();
        let zip = folder.join(format!("{name}.zip"));
        let mut unpack = python::command("python");
        unpack.args(["-c", UNPACK]).args([&zip, unpacked.path()]);
        let files = run_tool(unpack, "").await;
        assert_eq!(
            files.trim(),
            "bootstrap 100755 amazon-roots.pem 100644",
            "{name}"
        );
        let program = unpacked.path().join("bootstrap");
        if given.is_some() {
            assert_names_crates(&program, name).await;
        }
        let mut function = Function::spawn_program(&runnable(program), name, &variables).await;
        function.polled().await;
        let no_records = json!({ "Records": [] }).to_string();
        let answer = function.invoke(no_records, TIMEOUT).await;
        assert!(matches!(answer, Outcome::Response(_)), "{name}: {answer:?}");
        function.finish().await;
    }
    stores.index.clear().await.unwrap();
}
