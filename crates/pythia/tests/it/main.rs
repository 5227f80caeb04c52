//! Tests of the whole: files in, answers out, against an independent engine and a hostile world.

mod answers;
mod backup;
mod damage;
mod differential;
mod exact_casts;
mod federation;
mod formats;
mod governed;
mod hops;
mod hostile;
mod isolation;
mod language;
mod log_folders;
mod optimize;
mod optimizer;
mod outcome;
mod paths;
mod progress;
mod property_paths;
mod sparqltest;
mod store;
mod support;
mod tidy;
mod update;
mod visible;
mod w3c;
