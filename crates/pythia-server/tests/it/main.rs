//! Servers on this machine, asked over HTTP.

mod explore;
mod protocol;
mod support;
