//! Execution of queries: a plan is data, and operators over columns of term ids run it.
//!
//! [`plan`] describes the work, [`exec`] does it with [`expression`]s over batches of ids within [`limits`], and
//! [`result`] turns ids into terms. Plans are made by the planner, which this crate does not know: operators
//! that plan while a query runs call the trait [`SubqueryPlanner`](exec::subquery::SubqueryPlanner).

pub mod error;
pub mod exec;
pub mod explain;
pub mod expression;
pub mod limits;
pub mod plan;
pub mod result;
pub mod search;
pub mod service;

pub use error::QueryError;
