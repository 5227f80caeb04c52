//! The operators of a plan, as data. A plan's node holds one of them, and how to run it is not said here.

use oxrdf::{NamedNode, Variable};
use pythia_rdf::TermId;
use serde::{Deserialize, Serialize};
use spargebra::algebra::GraphPattern;

use super::dataset::GraphScope;
use super::expression::{Aggregates, SlotExpression};
use super::path_search::PathSearch;
use super::step::Step;
use crate::explain::CostId;

/// An operation on the solutions of a node's inputs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Operator {
    /// Basic graph patterns with what can be evaluated along with them.
    Pattern(Pattern),
    /// Inner join, left join, MINUS.
    HashJoin(HashJoin),
    /// Picks and reorders columns.
    Project(Project),
    /// OFFSET and LIMIT.
    Slice(Slice),
    /// The most solutions that a query may have.
    RowLimit(RowLimit),
    /// Returns the solutions of each input in turn. All inputs have the same columns.
    Concatenate,
    /// Drops solutions that were already returned. Terms are compared by identity.
    Distinct,
    /// ORDER BY.
    Sort(Sort),
    /// GROUP BY and aggregates.
    Aggregation(Aggregation),
    /// `GRAPH ?g` around a pattern that is planned for each graph.
    EachGraph(EachGraph),
    /// `LATERAL` around a pattern that is planned while the query runs.
    Lateral(Lateral),
    /// SERVICE.
    Service(Service),
    /// Path search.
    PathSearch(PathSearch),
}

/// Runs a pipeline of steps from the empty solution, or from each batch of its input.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Pattern {
    /// The variable of each slot.
    #[serde(with = "super::form")]
    pub slots: Vec<Variable>,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The slot of each column of the input, if there is one.
    pub input: Vec<usize>,
    /// The slot of each column of the output.
    pub output: Vec<usize>,
}

/// Joins left and right; holds the right input in memory if it fits.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct HashJoin {
    /// The kind of join.
    pub kind: JoinKind,
    /// Columns (left, right) of variables bound in every solution of both inputs.
    pub keys: Vec<(usize, usize)>,
    /// Columns (left, right) of other shared variables.
    pub maybe: Vec<(usize, usize)>,
    /// Right columns appended to the left ones.
    pub added: Vec<usize>,
}

/// The kind of join.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum JoinKind {
    /// Compatible pairs.
    Inner,
    /// Compatible pairs for which the condition holds, and left solutions without such a pair.
    Left(Option<SlotExpression>),
    /// Left solutions without a compatible right one that shares a bound variable.
    Minus,
}

/// Picks and reorders columns; `None` is a column unbound in every solution.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Project {
    /// The input's column for each column of the output.
    pub columns: Vec<Option<usize>>,
}

/// Skips and limits solutions.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Slice {
    /// Number of solutions that are skipped.
    pub start: usize,
    /// Maximum number of solutions after them.
    pub length: Option<usize>,
}

/// Passes up to `rows` solutions, and fails if there are more.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RowLimit {
    /// Maximum number of solutions.
    pub rows: u64,
}

/// Sorts solutions. The sort is stable.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Sort {
    /// The sort keys, the most significant first.
    pub keys: Vec<SortKey>,
    /// The number of first solutions that are wanted.
    pub limit: Option<usize>,
}

/// One sort key.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SortKey {
    /// The expression that is sorted by.
    pub expression: SlotExpression,
    /// True for the largest first.
    pub descending: bool,
}

/// Groups solutions by key columns and aggregates each group. Without keys there is one group, even if
/// there are no solutions.
#[derive(Clone, Deserialize, Serialize)]
pub struct Aggregation {
    /// Key columns; `None` is a key that no solution binds.
    pub keys: Vec<Option<usize>>,
    /// The aggregates of each group.
    pub aggregates: Aggregates,
    /// Aggregations of the plan with the same number have the same solutions. One of them computes them for all.
    #[serde(default)]
    pub common: Option<u32>,
}

/// Plans and runs a pattern in each named graph in turn. The graph's column comes last, after those of
/// `variables`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct EachGraph {
    /// The pattern.
    #[serde(with = "super::form")]
    pub pattern: GraphPattern,
    /// The graph's variable.
    #[serde(with = "super::form")]
    pub graph: Variable,
    /// The pattern's variables that are columns.
    #[serde(with = "super::form")]
    pub variables: Vec<Variable>,
    /// Terms substituted for variables of the pattern.
    #[serde(with = "super::form")]
    pub inserted: Vec<(Variable, TermId)>,
    /// Identifies the operator among those of the query.
    #[serde(skip, default = "CostId::next")]
    pub number: CostId,
}

/// Joins each solution with the solutions of a pattern in which its terms are inserted.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Lateral {
    /// The pattern.
    #[serde(with = "super::form")]
    pub pattern: GraphPattern,
    /// The graph in which it is matched.
    pub graph: GraphScope,
    /// The variables of which the pattern sees the terms.
    #[serde(with = "super::form")]
    pub shared: Vec<Variable>,
    /// The input's column of each of these.
    pub given: Vec<usize>,
    /// The variables that the pattern binds.
    #[serde(with = "super::form")]
    pub found: Vec<Variable>,
    /// The output's column of each of these. The input's columns are the first ones of the output.
    pub columns: Vec<usize>,
    /// The number under which the plans of the pattern are kept.
    pub number: CostId,
}

/// Joins solutions with a pattern that an endpoint answers.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Service {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The pattern.
    #[serde(with = "super::form")]
    pub pattern: GraphPattern,
    /// True if a failed request counts as one solution that binds nothing.
    pub silent: bool,
    /// True if a solution without a match is kept: OPTIONAL.
    pub optional: bool,
    /// The requested variables.
    #[serde(with = "super::form")]
    pub asked: Vec<Variable>,
    /// The column of the output that each requested variable fills.
    pub columns: Vec<usize>,
    /// Number of the input's columns, which are the first ones of the output.
    pub left: usize,
}

/// The endpoint of a request.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Endpoint {
    /// The endpoint that the query names.
    Fixed(#[serde(with = "super::form")] NamedNode),
    /// The endpoint named by an input column, which is that of this variable.
    Column(usize, #[serde(with = "super::form")] Variable),
}
