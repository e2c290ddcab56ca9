//! An error about a setting names the variable that sets it, because a deployed function has no flags.

use clap::{CommandFactory, Parser, builder::Resettable};
use functions::QuarantineArgs;
use process::with_variables;
use redis_index::RedisIndexArgs;
use table::{CommentBlobArgs, TableArgs};

#[derive(Debug, Parser)]
#[command(name = "tested")]
struct Settings {
    #[command(flatten)]
    table: TableArgs,
    #[command(flatten)]
    page_index: RedisIndexArgs,
    #[command(flatten)]
    quarantine: QuarantineArgs,
    #[command(flatten)]
    comment_blob: CommentBlobArgs,
}

/// The message about some flags must name a variable.
fn check(flags: &[&str], variable: &str) {
    // Ignores the variables that are set for the tests themselves.
    let command = Settings::command().mut_args(|argument| argument.env(Resettable::Reset));
    let error = command.try_get_matches_from([&["tested"], flags].concat()).unwrap_err();
    let message = with_variables(error, Settings::command()).to_string();
    assert!(message.contains(variable), "{message}");
}

#[test]
fn a_missing_or_wrong_setting_is_named_by_its_variable() {
    let (table, redis) = (["--table", "t"], ["--redis-url", "redis://localhost/"]);
    check(&[redis.as_slice(), &["--quarantine", "mapping"]].concat(), "PAGEMARK_TABLE");
    check(&[table.as_slice(), &["--quarantine", "mapping"]].concat(), "PAGEMARK_REDIS_URL");
    check(&[table, redis].concat(), "PAGEMARK_QUARANTINE");
    check(&["--table", ""], "PAGEMARK_TABLE");
    check(&[table.as_slice(), &["--redis-url", ""]].concat(), "PAGEMARK_REDIS_URL");
    check(&["--quarantine", "anywhere"], "PAGEMARK_QUARANTINE");
    check(&["--index-partitions", "many"], "PAGEMARK_INDEX_PARTITIONS");
    check(&["--redis-mode", "sentinel"], "PAGEMARK_REDIS_MODE");
    check(&["--comment-blob", "gzip"], "PAGEMARK_COMMENT_BLOB");
}
