//! Servers on this machine, asked over HTTP.

mod connections;
mod operate;
mod protocol;
mod support;
