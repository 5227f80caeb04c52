//! Servers on this machine, asked over HTTP.

mod connections;
mod protocol;
mod support;
