//! The single-machine edition: its data folder, restarts, imports, exports, and upgrades.

mod data_folder;
mod export;
mod import;
mod restart;
mod settings;
mod upgrade;
