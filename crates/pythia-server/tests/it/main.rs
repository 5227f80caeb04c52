//! Servers on this machine, asked over HTTP.

mod connections;
mod hostile;
mod operate;
mod protocol;
mod support;
mod w3c;
mod wire;
