//! Tests of the whole: files in, answers out, against an independent engine and a hostile world.

mod answers;
mod cases;
mod differential;
mod generator;
mod hops;
mod hostile;
mod language;
mod optimizer;
mod store;
mod support;
