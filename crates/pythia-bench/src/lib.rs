//! Workloads of `pythia bench …` that measure Pythia.
//!
//! - [`yago`]: the Pythia paper's experiment on YAGO (§4.3–4.5), six queries by 1–32 clients and its three fixed
//!   queries;
//! - [`queries`]: any file of queries, each timed on its own, with the time to parse, to plan and to run it;
//! - [`bsbm`]: BSBM's queries, with parameters drawn from a store's own data, and its mixes on several databases in turn
//!   ([`contest`]), this one in process and SPARQL endpoints ([`system`]);
//! - [`ctdb`]: the experiment of the "Clustered TDB" paper (§6) on one node: a load, single triple patterns, five joins;
//! - [`endpoints`]: the queries of a file on the same databases;
//! - [`graph`]: the Pythia paper's custom graph benchmark (§3), on a device and on modelled ones;
//! - [`hops`]: a store's hops and frontiers, cold, compared with the device's own reads;
//! - [`http`]: load on a running server;
//! - [`ipl`]: In-Page Logging (Bulletin), with logs on flash and in phase change memory, beside sorted runs, modelled;
//! - [`meld`]: optimistic transactions of several executors over a shared log, beside the single writer of a store;
//! - [`operators`]: the Bulletin's operators for flash: scans of parts of pages, late joins, a Bloom filter on the device;
//! - [`probe`]: the performance of a device, as `pythia probe` reports it;
//! - [`reachability`]: paths between two known ends, by search and by labels;
//! - [`search`]: best-first search with batches of 1 to 64 nodes, and k shortest paths;
//! - [`spill`]: sorting, grouping, DISTINCT and joins of more rows than fit in memory;
//! - [`updates`]: the cost of durable commits, and of recent changes to scans and queries (MaSM).
//!
//! A workload takes an open [`pythia::Database`] and returns a serialisable report, which renders itself as text and, if
//! there are plots, as a page of HTML. Every figure is measured in the run that prints it, except those of modelled
//! devices, which are labelled as such; a paper's figures are printed beside it under the paper's name.

pub mod bsbm;
pub mod contest;
pub mod ctdb;
pub mod endpoints;
pub mod faults;
pub mod files;
pub mod graph;
pub mod hops;
pub mod http;
pub mod ipl;
pub mod latency;
pub mod machine;
pub mod meld;
pub mod operators;
pub mod page;
pub mod plot;
pub mod probe;
pub mod queries;
pub mod reachability;
pub mod search;
pub mod spill;
pub mod system;
pub mod table;
pub mod timed;
pub mod updates;
pub mod yago;
