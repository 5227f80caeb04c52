//! Servers on this machine, asked over HTTP.

mod guard;
mod protocol;
mod support;
