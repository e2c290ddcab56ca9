//! The whole of Pagemark on one machine.
//!
//! - [`stack`]: everything wired together in one process.
//! - [`engine`]: the embedded DynamoDB engine, with the differences from DynamoDB worked around.
//! - [`index_place`]: the page index inside the process, or in Redis.
//! - [`event_source_mapping`]: polls the stream and calls the real handlers the way the Lambda service does.
//!   [`stream_reader`]: reads its shards.
//! - [`import`], [`demo`]: comments from files or another table, and generated ones. [`origin`]: the other table. [`follow`]: its changes. [`export`]: comments to a file. [`compression`]: how a
//!   file is compressed.
//! - [`repair`], `index_keeper`, `trim`: what runs in the background: the repair job, rebuilds, the removal of stream
//!   records.
//! - `quiet`: which runs of the repair job are left out, because comments have not changed lately.
//! - `catch_up`: what a start does before readers may believe the page index.
//! - `doctor`: looks at a data folder.
//! - `data_dir`: the folder of the data. `page_numbers`: how its pages are numbered. `file_lock`: locks of files.
//!   `running`: how other commands find the stack. [`memory`]: memory use. `cursor_key`: what keeps cursors valid over a
//!   restart.
//! - `attached`: commands on a data folder, whether its stack runs or not.
//! - [`control`]: the socket through which other processes run the repair job inside the stack.
//! - `blocking`: work that blocks, beside the async threads.
//! - [`cli`]: the command `pagemark`.

mod attached;
mod blocking;
mod catch_up;
pub mod cli;
pub mod clients;
pub mod compression;
pub mod control;
mod cursor_key;
mod data_dir;
pub mod demo;
mod doctor;
pub mod engine;
pub mod event_source_mapping;
pub mod export;
mod file_lock;
pub mod follow;
pub mod import;
mod index_keeper;
pub mod index_place;
pub mod memory;
pub mod origin;
mod page_numbers;
mod parts;
mod quiet;
pub mod repair;
mod running;
pub mod stack;
pub mod stream_reader;
mod trim;

pub use index_keeper::IndexState;
