//! How a command begins: the command line, which `pagemark repair` shares, and the Lambda function.

pub(crate) mod command_line;
pub(crate) mod config;
pub(crate) mod function;
