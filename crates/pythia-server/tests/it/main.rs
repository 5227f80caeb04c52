//! Servers on this machine, asked over HTTP.

mod connections;
mod operate;
mod page;
mod protocol;
mod support;
