//! The `pythia` command as a process.

mod convert;
mod ctdb;
mod energy;
mod faults;
mod generate;
mod ipl;
mod load;
mod log_folders;
mod manual;
mod masm;
mod meld;
mod newer_format;
mod open_files;
mod operators;
mod query;
mod salvage;
mod serve;
mod shell;
mod support;
mod update;
mod version;
