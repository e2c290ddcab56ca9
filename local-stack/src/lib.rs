//! The whole of Pagemark on one machine.
//!
//! - [`stack`]: everything wired together in one process.
//! - [`engine`]: the embedded DynamoDB engine, with the differences from DynamoDB worked around.
//! - [`index_place`]: the page index inside the process, or in Redis.
//! - [`event_source_mapping`]: polls the stream and calls the real handlers the way the Lambda service does.
//! - `served`: the API of a stack.
//! - [`import`], [`demo`]: comments from files, and generated ones. `export`: comments to a file. `compression`: how a
//!   file is compressed.
//! - [`index_keeper`]: what a start does before readers may believe the page index, and rebuilds.
//! - [`repair`], `trim`: what runs in the background: the repair job, the removal of stream records.
//! - `quiet`: which runs of the repair job are left out, because the journal has no new entry.
//! - `doctor`: looks at a data folder. `room`: whether its disk is full.
//! - `data_dir`: the folder of the data. `file_lock`: locks of files. [`memory`]: memory use. `cursor_key`: what keeps
//!   cursors valid over a restart.
//! - `attached`: how other commands find the stack, or run one. `parts`: what runs as long as the stack.
//! - [`control`]: the socket through which other processes run the repair job inside the stack.
//! - [`settling`]: how far the two functions are.
//! - `blocking`: work that blocks, beside the async threads.
//! - [`cli`]: the command `pagemark`.

mod attached;
mod blocking;
pub mod cli;
mod compression;
pub mod control;
mod cursor_key;
mod data_dir;
pub mod demo;
mod doctor;
pub mod engine;
pub mod event_source_mapping;
mod export;
mod file_lock;
pub mod import;
pub mod index_keeper;
pub mod index_place;
pub mod memory;
mod parts;
mod quiet;
pub mod repair;
mod room;
mod served;
pub mod settling;
pub mod stack;
mod trim;

pub use index_keeper::IndexState;
