//! Servers on this machine, asked over HTTP.

mod hostile;
mod protocol;
mod support;
mod w3c;
mod wire;
