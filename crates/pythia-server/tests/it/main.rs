//! Servers on this machine, asked over HTTP.

mod connections;
mod explore;
mod guard;
mod hostile;
mod operate;
mod page;
mod protocol;
mod support;
mod w3c;
mod wire;
