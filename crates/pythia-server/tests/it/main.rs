//! Servers on this machine, asked over HTTP.

mod connections;
mod explore;
mod federation;
mod graphs;
mod guard;
mod hidden;
mod hostile;
mod indexes;
mod operate;
mod page;
mod protocol;
mod support;
mod union_graph;
mod validators;
mod w3c;
mod wire;
