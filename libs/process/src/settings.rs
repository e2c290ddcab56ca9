//! Reads the settings of any binary.

use clap::{
    Arg, Args, Command, Parser,
    builder::Resettable,
    error::{ContextKind, ContextValue},
};

/// Reads the settings of this process from its flags and variables. Ends the process when one is
/// missing or wrong.
///
/// The message names the variable beside the flag, because a deployed function is configured only
/// by variables.
pub fn parse_settings<S: Parser>() -> S {
    let parsed = S::command()
        .try_get_matches()
        .and_then(|mut matches| S::from_arg_matches_mut(&mut matches));
    parsed.unwrap_or_else(|error| with_variables(error, S::command()).exit())
}

/// What the flags default to, beside the `required` ones. The variables of the process are not
/// read.
pub fn defaults<S: Args>(required: &[&'static str]) -> S {
    let command = S::augment_args(Command::new("defaults"))
        .mut_args(|argument| argument.env(Resettable::Reset));
    let matches = command.no_binary_name(true).get_matches_from(required);
    S::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

pub fn with_variables(mut error: clap::Error, mut command: Command) -> clap::Error {
    // Only a built command knows how an error names its arguments.
    command.build();
    let named = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) => {
            Some(ContextValue::String(with_variable(flag, &command)))
        }
        Some(ContextValue::Strings(flags)) => {
            let flags = flags.iter().map(|flag| with_variable(flag, &command));
            Some(ContextValue::Strings(flags.collect()))
        }
        _ => None,
    };
    // Even a wrong value may be a secret, such as a token where its hash belongs.
    if let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg)
        && is_secret(flag, &command)
    {
        error.insert(
            ContextKind::InvalidValue,
            ContextValue::String("…".to_owned()),
        );
    }
    if let Some(named) = named {
        error.insert(ContextKind::InvalidArg, named);
    }
    error
}

/// A flag with its variable, if it has one.
fn with_variable(flag: &str, command: &Command) -> String {
    match variable_of(flag, command) {
        Some(variable) => format!("{flag} (or the variable {variable})"),
        None => flag.to_owned(),
    }
}

fn is_secret(flag: &str, command: &Command) -> bool {
    command
        .get_arguments()
        .any(|argument| argument.to_string() == flag && argument.is_hide_env_values_set())
        || command
            .get_subcommands()
            .any(|below| is_secret(flag, below))
}

/// The variable of a flag in the spelling of an error, such as `--table <NAME>`, for the command or
/// its subcommands.
fn variable_of(flag: &str, command: &Command) -> Option<String> {
    let own = command
        .get_arguments()
        .find(|argument| argument.to_string() == flag)
        .and_then(Arg::get_env);
    match own {
        Some(variable) => Some(variable.to_string_lossy().into_owned()),
        None => command
            .get_subcommands()
            .find_map(|below| variable_of(flag, below)),
    }
}
