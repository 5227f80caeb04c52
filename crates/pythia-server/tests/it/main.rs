//! Servers on this machine, asked over HTTP.

mod connections;
mod explore;
mod operate;
mod hostile;
mod protocol;
mod support;
mod w3c;
mod wire;
