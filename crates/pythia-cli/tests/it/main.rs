//! The `pythia` command as a process.

mod faults;
mod open_files;
mod serve;
