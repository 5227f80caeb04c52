//! SPARQL over HTTP: the server of Pythia.
//!
//! The way of a request:
//!
//! ```text
//! connection (listen) → route (protocol) → identity and access (auth) → dataset (state)
//!     → admission → a thread that runs it (protocol::answer) → body, whole or streamed
//! ```
//!
//! [`config`] says what is served and within what limits; [`auth`] who may do what; [`explore`] what
//! the page asks besides SPARQL; [`operate`] what operators look at.

mod admission;
mod auth;
pub mod config;
mod exchange;
mod explore;
mod hosts;
mod listen;
mod network;
mod operate;
mod outbound;
mod page;
mod protocol;
mod rate;
mod running;
mod server;
mod stall;
mod state;

pub use auth::{hash_password, new_token};
pub use config::Config;
pub use operate::logging;
pub use server::{Handle, Server, ServerError};
