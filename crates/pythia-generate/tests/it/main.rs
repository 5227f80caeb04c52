//! Tests of the generated data as a reader sees it.

mod bsbm;
mod official;
mod profile;
