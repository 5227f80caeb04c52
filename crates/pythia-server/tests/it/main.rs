//! Servers on this machine, asked over HTTP.

mod page;
mod protocol;
mod support;
