//! A disk that refuses a write. A library in front of the system's calls plays it.

use std::{fs, path::PathBuf, process::Command};

use tempfile::TempDir;

use super::up;
use crate::fixture::{
    data::PRODUCT,
    folder_in_memory,
    http::{Http, WRITE_TOKEN, good_comment, product_path},
    pagemark::{Up, up_after},
};

/// While the file that the variable names exists, the disk confirms nothing.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static long confirm(long call, int file) {
    const char *refusing = getenv("DISK_REFUSES");
    if (refusing && access(refusing, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    return syscall(call, file);
}

int fsync(int file) { return confirm(SYS_fsync, file); }
int fdatasync(int file) { return confirm(SYS_fdatasync, file); }
"#;

struct Disk {
    folder: TempDir,
}

impl Disk {
    fn new() -> Self {
        let disk = Self {
            folder: folder_in_memory(),
        };
        fs::write(disk.at("disk.c"), LIBRARY).unwrap();
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-o"])
            .args([disk.at("disk.so"), disk.at("disk.c")]);
        let status = compiler
            .status()
            .expect("a C compiler, as `make tools` installs it");
        assert!(status.success());
        disk
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn shell(&self) -> String {
        let library = self.at("disk.so");
        let refusing = self.at("refuses");
        format!(
            "export LD_PRELOAD={} DISK_REFUSES={};",
            library.display(),
            refusing.display()
        )
    }

    fn refuse(&self) {
        fs::write(self.at("refuses"), "").unwrap();
    }

    fn confirm(&self) {
        fs::remove_file(self.at("refuses")).unwrap();
    }
}

async fn post_at_the_end(http: &Http) -> String {
    let body = good_comment("en", 5, "Is it there?").to_string();
    let path = format!("{}/comments", product_path(PRODUCT));
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Authorization: Bearer {WRITE_TOKEN}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    // The process ends, so the connection may break off.
    http.answer_to_cut_bytes(&request).await
}

const OPTIONS: [&str; 4] = ["--demo", "0", "--write-token", WRITE_TOKEN];

#[tokio::test]
#[ignore = "takes long"]
async fn a_write_that_the_disk_refuses_ends_the_stack_and_is_not_confirmed() {
    let folder = folder_in_memory();
    let disk = Disk::new();
    let first = Up::start_after(&disk.shell(), folder.path(), &OPTIONS).await;
    let mut posted = Vec::new();
    for rating in 1..=5 {
        let comment = good_comment("en", rating, "A body");
        posted.push(first.api.posted(PRODUCT, &comment).await);
    }
    disk.refuse();
    let answer = post_at_the_end(&first.api).await;
    assert!(!answer.contains(" 201 "), "{answer}");
    let ended = first.end().await.expect(1);
    let said = ended
        .stderr
        .lines()
        .filter(|line| line.starts_with("pagemark: the disk did not confirm a write"));
    assert_eq!(said.count(), 1, "{ended:?}");

    // Everything that the first stack has written must reach the disk before the next one writes
    // anything.
    let data_dir = ["--data-dir", folder.path().to_str().unwrap()];
    let second = up_after(&disk.shell(), &[&data_dir[..], &OPTIONS].concat()).await;
    let second = second.end().await.expect(1);
    assert!(second.stderr.contains("cannot open"), "{second:?}");
    assert_eq!(second.stderr.lines().count(), 1, "{second:?}");
    disk.confirm();
    let third = up(folder.path()).await;
    for id in posted {
        let address = format!("/api/v1/comments/{id}");
        third.api.get(&address).await.expect(200);
    }
    third.stop().await;
}
