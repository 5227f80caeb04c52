//! Servers on this machine, asked over HTTP.

mod protocol;
mod support;
mod w3c;
mod wire;
