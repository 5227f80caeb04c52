//! SPARQL over a snapshot of the store: planning, operators over id columns, results.
//!
//! text → [`Query`] → physical plan ([`Engine::prepare`]) → [`Results`], and
//! text → [`Update`] → changes of a transaction ([`Engine::update`]).

pub mod advise;
pub mod engine;
pub mod error;
pub(crate) mod exec;
pub mod explain;
pub mod expression;
pub mod governor;
pub mod graph_rules;
pub(crate) mod plan;
pub mod result;
pub(crate) mod search;
pub mod service;
pub(crate) mod spill;
pub mod syntax;
pub mod update;
mod validate;

pub use advise::Wishes;
pub use engine::{Engine, EngineOptions, PreparedQuery, QueryOptions, Usage};
pub use error::QueryError;
pub use explain::{Measured, PlanNode};
pub use expression::{CustomFunction, CustomFunctions};
pub use graph_rules::GraphRules;
pub use result::{Results, SolutionBatch, SolutionStream, SpooledSolutions, TripleStream};
pub use search::literal::{Path, PathEdge};
pub use service::{HttpService, ServiceError, ServiceHandler, ServiceSolutions};
pub use spill::bytes::{SpilledBytes, SpilledPiece};
pub use syntax::{Query, QueryForm, Update};
pub use update::load::{LoadHandler, Loader, SourceError};
pub use update::{UpdateOptions, Updated};
