//! The `pythia` command as a process.

mod serve;
