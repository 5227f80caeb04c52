//! Servers on this machine, asked over HTTP.

mod connections;
mod explore;
mod operate;
mod protocol;
mod support;
