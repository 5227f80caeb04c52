//! The `pythia` command as a process.

mod faults;
mod log_folders;
mod open_files;
mod salvage;
mod serve;
mod update;
mod version;
