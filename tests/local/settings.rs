//! An error about a setting names the variable that sets it, because a deployed function has no
//! flags.

use clap::{Command, CommandFactory, builder::Resettable};
use local_stack::settings::StackSettings;
use process::{defaults, with_variables};
use repair_job::FunctionConfig;

/// The message about some flags must name a variable.
fn check(command: &Command, flags: &[&str], variable: &str) {
    // Ignores the variables that are set for the tests themselves.
    let tested = command
        .clone()
        .mut_args(|argument| argument.env(Resettable::Reset));
    let error = tested
        .try_get_matches_from([&["tested"], flags].concat())
        .unwrap_err();
    let message = with_variables(error, command.clone()).to_string();
    assert!(message.contains(variable), "{message}");
}

#[test]
fn a_missing_or_wrong_setting_is_named_by_its_variable() {
    let (table, redis) = (["--table", "t"], ["--redis-url", "redis://localhost/"]);
    let function = FunctionConfig::command();
    check(
        &function,
        &[redis.as_slice(), &["--quarantine", "mapping"]].concat(),
        "PAGEMARK_TABLE",
    );
    check(
        &function,
        &[table.as_slice(), &["--quarantine", "mapping"]].concat(),
        "PAGEMARK_REDIS_URL",
    );
    check(&function, &[table, redis].concat(), "PAGEMARK_QUARANTINE");
    check(&function, &["--table", ""], "PAGEMARK_TABLE");
    check(
        &function,
        &[table.as_slice(), &["--redis-url", ""]].concat(),
        "PAGEMARK_REDIS_URL",
    );
    check(
        &function,
        &["--quarantine", "anywhere"],
        "PAGEMARK_QUARANTINE",
    );
    check(
        &function,
        &["--index-partitions", "many"],
        "PAGEMARK_INDEX_PARTITIONS",
    );
    check(
        &function,
        &["--redis-mode", "sentinel"],
        "PAGEMARK_REDIS_MODE",
    );
    check(
        &api::Settings::command(),
        &["--comment-blob", "gzip"],
        "PAGEMARK_COMMENT_BLOB",
    );
}

#[test]
fn the_api_must_know_its_public_address_and_up_takes_other_defaults() {
    check(
        &api::Settings::command(),
        &["--table", "t", "--redis-url", "redis://localhost/"],
        "PAGEMARK_PUBLIC_URL",
    );
    let (api, up) = (
        defaults::<api::ApiSettings>(&[]),
        defaults::<StackSettings>(&[]).api,
    );
    assert_eq!(api.archive_after_seconds, 60);
    assert_eq!(up.archive_after_seconds, 15);
    assert_eq!(api.listen, up.listen);
    assert_eq!(api.site.public_url, None);
    assert_eq!(up.site.public_url, None);
}
