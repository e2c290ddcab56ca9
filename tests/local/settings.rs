//! An error about a setting names the variable that sets it, because a deployed function has no
//! flags.

use clap::{Command, CommandFactory, builder::Resettable};
use local_stack::settings::StackSettings;
use process::{defaults, with_variables};
use repair_job::FunctionConfig;

const _: crate::Engines = crate::Engines::Embedded("about settings");

/// The message about some flags, with spaces between them, must name a variable.
fn check(command: &Command, flags: &str, variable: &str) {
    // Ignores the variables that are set for the tests themselves.
    let tested = command
        .clone()
        .mut_args(|argument| argument.env(Resettable::Reset));
    let line = format!("tested {flags}");
    let error = tested.try_get_matches_from(line.split(' ')).unwrap_err();
    let message = with_variables(error, command.clone()).to_string();
    assert!(message.contains(variable), "{message}");
}

#[test]
fn a_missing_or_wrong_setting_is_named_by_its_variable() {
    let function = FunctionConfig::command();
    for (flags, variable) in [
        (
            "--redis-url redis://h/ --quarantine mapping",
            "PAGEMARK_TABLE",
        ),
        ("--table t --quarantine mapping", "PAGEMARK_REDIS_URL"),
        ("--table t --redis-url redis://h/", "PAGEMARK_QUARANTINE"),
        ("--table=", "PAGEMARK_TABLE"),
        ("--table t --redis-url=", "PAGEMARK_REDIS_URL"),
        ("--quarantine anywhere", "PAGEMARK_QUARANTINE"),
        ("--index-partitions many", "PAGEMARK_INDEX_PARTITIONS"),
        ("--redis-mode sentinel", "PAGEMARK_REDIS_MODE"),
    ] {
        check(&function, flags, variable);
    }
    let api = api::Settings::command();
    check(&api, "--comment-blob gzip", "PAGEMARK_COMMENT_BLOB");
}

#[test]
fn the_api_must_know_its_public_address_and_up_takes_other_defaults() {
    check(
        &api::Settings::command(),
        "--table t --redis-url redis://h/",
        "PAGEMARK_PUBLIC_URL",
    );
    let api = defaults::<api::ApiSettings>(&[]);
    let up = defaults::<StackSettings>(&[]).api;
    assert_eq!(api.archive_after_seconds, 60);
    assert_eq!(up.archive_after_seconds, 15);
    assert_eq!(api.listen, up.listen);
    assert_eq!(api.site.public_url, None);
    assert_eq!(up.site.public_url, None);
}
