//! The `pythia` command as a process.

mod ctdb;
mod energy;
mod faults;
mod generate;
mod ipl;
mod log_folders;
mod masm;
mod meld;
mod newer_format;
mod open_files;
mod operators;
mod salvage;
mod serve;
mod support;
mod update;
mod version;
