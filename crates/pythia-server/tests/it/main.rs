//! Servers on this machine, asked over HTTP.

mod protocol;
mod support;
