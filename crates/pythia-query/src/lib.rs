//! SPARQL over a snapshot of the store: planning, queries and updates.
//!
//! text → `Query` → physical plan ([`Engine::prepare`]) → [`Results`], and
//! text → `Update` → changes of a transaction ([`Engine::update`]).

pub mod advise;
pub mod engine;
pub mod graph_rules;
mod planner;
pub mod update;

pub use advise::UsefulIndexes;
pub use engine::{Engine, EngineOptions, PreparedQuery, QueryOptions, Usage};
pub use graph_rules::GraphRules;
pub use pythia_exec::error::QueryError;
pub use pythia_exec::explain::{JoinOrder, Measured, PlanNode};
pub use pythia_exec::expression::{CustomFunction, CustomFunctions};
pub use pythia_exec::limits::cores::Cores;
pub use pythia_exec::limits::fork::fork;
pub use pythia_exec::limits::governor::Overstay;
pub use pythia_exec::limits::spill::bytes::{SpilledBytes, SpilledPiece};
pub use pythia_exec::result::{
    Mapped, MappedResults, Results, SolutionBatch, SolutionStream, SpooledSolutions, TripleStream,
};
pub use pythia_exec::search::literal::{Path, PathEdge};
pub use pythia_exec::service::{HttpService, ServiceError, ServiceHandler, ServiceSolutions};
pub use update::load::{LoadHandler, Loader, SourceError};
pub use update::{UpdateOptions, Updated};
