//! The documents say the truth: their commands run, and the API's description matches its answers.

mod commands;
mod described;
mod names;
mod recipes;
mod structure;
