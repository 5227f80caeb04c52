//! Workloads that measure Pythia: what `pythia bench …` runs.
//!
//! - [`yago`]: the path paper's experiment on YAGO (§4.3–4.5), six queries by 1–32 clients and its
//!   three fixed queries;
//! - [`queries`]: any file of queries, each timed on its own; `bench/compare` uses it to put other
//!   databases beside this one.
//! - [`bsbm`]: BSBM's queries, with parameters drawn from a store's own data;
//! - [`graph`]: the path paper's custom graph benchmark (§3), on a device and on modelled ones;
//! - [`hops`]: a store's hops and frontiers, cold, beside the device's own reads;
//! - [`http`]: load on a running server;
//! - [`probe`]: what a device can do, and what `pythia probe` prints of it;
//! - [`reachability`]: paths between two known ends, by searches and by labels;
//! - [`search`]: best-first search with batches of 1 to 64 nodes, and k shortest paths;
//! - [`spill`]: sorting, grouping, DISTINCT and joins of more rows than memory holds;
//! - [`updates`]: what durable commits cost.
//!
//! A workload takes an open [`pythia::Database`] and gives a report that can be serialised; the
//! report renders itself as text and, where there is something to plot, as a page of HTML. Every
//! figure is measured in the run that prints it, but for the modelled devices of [`graph`], which are
//! named so; what a paper printed stands beside it under its own name.

pub mod bsbm;
pub mod faults;
pub mod graph;
pub mod hops;
pub mod http;
pub mod latency;
pub mod machine;
pub mod page;
pub mod plot;
pub mod probe;
pub mod queries;
pub mod reachability;
pub mod search;
pub mod spill;
pub mod table;
pub mod timed;
pub mod updates;
pub mod yago;
