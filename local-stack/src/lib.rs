//! The whole of Pagemark on one machine.
//!
//! Begin with [`stack`], which wires everything together and lists the steps of a start and of a
//! stop. [`cli`] has the commands. Each module says in its first line what it does.

mod attached;
mod backlog;
mod blocking;
pub mod cli;
mod compression;
pub mod control;
mod cursor_key;
mod data_dir;
pub mod demo;
pub mod engine;
pub mod event_source_mapping;
pub mod export;
mod file_lock;
pub mod import;
mod index_host;
pub mod index_keeper;
mod parts;
pub mod repair;
mod room;
mod served;
pub mod settings;
pub mod stack;
mod trim;
