//! Servers on this machine, asked over HTTP.

mod operate;
mod protocol;
mod support;
