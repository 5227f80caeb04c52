//! Pythia's server: SPARQL over HTTP.
//!
//! The path of a request:
//!
//! ```text
//! connection (listen), which stays with a worker (workers) → route (protocol) → identity and access (auth) → dataset (context)
//!     → admission → a thread that runs it (protocol::answer) → body, whole or streamed
//! ```
//!
//! [`config`] has the settings, [`auth`] authentication and access, [`explore`] what the page uses besides SPARQL,
//! [`operate`] the interfaces for operators.

mod admission;
mod auth;
pub mod config;
mod context;
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
mod workers;

pub use auth::{hash_password, new_token};
pub use config::Config;
pub use explore::{Completer, Completions, Suggestion};
pub use operate::{ServerFile, logging};
pub use server::{Handle, Server, ServerError};
