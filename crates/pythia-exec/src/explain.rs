//! Query plans for people and programs to read: operators, their steps, the planner's estimates and, if
//! profiled, measured costs.

use std::fmt::{self, Write};

use std::sync::atomic::{AtomicU64, Ordering};

use pythia_rdf::TermId;
use rustc_hash::FxHashMap;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::expression::EvaluationContext;

/// The number under which the cost of an operator or step is measured, unique in this process, so that copies
/// of an operator or step are counted as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct CostId(u64);

/// The number after all that are in use.
static NEXT_COST: AtomicU64 = AtomicU64::new(0);

impl CostId {
    /// Returns an unused number.
    pub fn next() -> Self {
        Self(NEXT_COST.fetch_add(1, Ordering::Relaxed))
    }
}

/// Reads the number of another process's plan. Operators that are planned here later get other numbers.
impl<'de> Deserialize<'de> for CostId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(from)?;
        if number > u64::MAX / 2 {
            return Err(D::Error::custom("the number of a cost is too large"));
        }
        NEXT_COST.fetch_max(number + 1, Ordering::Relaxed);
        Ok(Self(number))
    }
}

/// An operator of a plan, or a step of a pattern.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanNode {
    /// Name of the operator, in one word.
    pub operator: String,
    /// The operator's arguments.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Solutions that the planner expects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_rows: Option<f64>,
    /// Time in microseconds that the planner expects; not if some graphs are hidden from the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_us: Option<f64>,
    /// Origin of the order of the steps from this one on, if several parts of the query were ordered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<JoinOrder>,
    /// Steps that could have stood here instead, the cheapest first, if the query was prepared with
    /// [`QueryOptions::explain`](crate::QueryOptions).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<PlanNode>,
    /// Measured cost, if the query was run with [`QueryOptions::profile`](crate::QueryOptions).
    #[serde(flatten)]
    pub measured: Option<Measured>,
    /// Expected solutions divided by actual ones, with one added to both, if the part was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate_ratio: Option<f64>,
    /// True for the part of the plan with the worst estimate, if that is wrong by a factor of four or more.
    #[serde(skip_serializing_if = "is_false")]
    pub worst_estimate: bool,
    /// The surprise after which the steps of a pattern, from this one on, were ordered again while it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reordered: Option<Reordered>,
    /// Steps of a pattern, in execution order; branches of a UNION; the inside of an OPTIONAL.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<PlanNode>,
    /// Operators that supply the input solutions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<PlanNode>,
    /// Hints for the author of the query, only at the root of a plan. Warnings are not errors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A number of solutions that was far from the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reordered {
    /// Number of solutions that were expected before the step.
    pub expected: f64,
    /// Number of solutions that had come when the steps were ordered again.
    pub came: u64,
}

/// The search that found the order of steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JoinOrder {
    /// Name of the search.
    pub search: &'static str,
    /// Time in microseconds that the planner expects of all ordered steps; not if some graphs are hidden from the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_us: Option<f64>,
    /// The same for the greedy order, if a cheaper one was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub greedy_us: Option<f64>,
    /// Number of samples of links that the estimates use.
    #[serde(skip_serializing_if = "is_zero")]
    pub samples: u64,
}

impl JoinOrder {
    /// Removes the costs. They depend on the size of the whole store.
    pub(crate) fn without_costs(self) -> Self {
        Self {
            estimated_us: None,
            greedy_us: None,
            ..self
        }
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        write!(out, "order: {}", self.search)?;
        if let Some(cost) = self.estimated_us {
            write!(out, ", {}", microseconds(cost))?;
        }
        if let Some(cost) = self.greedy_us {
            write!(out, "; the greedy order: {}", microseconds(cost))?;
        }
        match self.samples {
            0 => {}
            1 => write!(out, "; 1 sample of links")?,
            samples => write!(out, "; {samples} samples of links")?,
        }
        out.push('\n');
        Ok(())
    }
}

/// Measured cost of one part of a plan, without its inputs and the steps before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Solutions returned.
    pub rows: u64,
    /// Batches returned.
    pub batches: u64,
    /// Time in microseconds.
    pub time_us: f64,
    /// Pages found in memory.
    pub pages_from_cache: u64,
    /// Pages read from the device.
    pub pages_from_device: u64,
    /// Nodes that a path search visited, counted once per start and state of the path.
    #[serde(skip_serializing_if = "is_zero")]
    pub nodes_visited: u64,
    /// Nodes that a join with a triple pattern looked up one by one, if it can change to a table of all matches.
    #[serde(skip_serializing_if = "is_zero")]
    pub nodes_looked_up: u64,
    /// Matches in the table in which a join looked up solutions.
    #[serde(skip_serializing_if = "is_zero")]
    pub table_rows: u64,
}

impl Measured {
    /// Returns whether the part was asked for solutions.
    fn has_run(self) -> bool {
        self.rows > 0 || self.time_us > 0.0
    }

    /// Removes the numbers that would reveal hidden graphs: pages, and thus batches, hold quads of all
    /// graphs.
    fn of_visible(self) -> Self {
        Self {
            batches: 0,
            pages_from_cache: 0,
            pages_from_device: 0,
            nodes_looked_up: 0,
            table_rows: 0,
            ..self
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Formats a time that the planner expects.
fn microseconds(time: f64) -> String {
    match time {
        ..9.95 => format!("{time:.1} µs"),
        ..9999.5 => format!("{time:.0} µs"),
        _ => format!("{:.0} ms", time / 1e3),
    }
}

/// Factor from which the worst estimate of a plan is marked.
const MARKED: f64 = 4.0;

impl PlanNode {
    /// Creates a part without steps or inputs.
    pub fn new(operator: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            operator: operator.into(),
            detail: detail.into(),
            estimated_rows: None,
            estimated_us: None,
            order: None,
            rejected: Vec::new(),
            measured: None,
            estimate_ratio: None,
            worst_estimate: false,
            reordered: None,
            steps: Vec::new(),
            inputs: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Returns this part and all parts below it, depth first.
    pub fn parts(&self) -> Vec<&Self> {
        let mut found = vec![self];
        for below in self.steps.iter().chain(&self.inputs) {
            found.extend(below.parts());
        }
        found
    }

    /// Returns the pages that this part and all parts below it requested.
    pub fn pages(&self) -> u64 {
        let pages = |m: Measured| m.pages_from_cache + m.pages_from_device;
        let measured = self.parts().into_iter().filter_map(|part| part.measured);
        measured.map(pages).sum()
    }

    /// Multiplies the expected rows of this part and all parts below it: they were expected for one run, and there
    /// were several.
    pub(crate) fn expect_times(&mut self, runs: f64) {
        if let Some(rows) = &mut self.estimated_rows {
            *rows *= runs;
        }
        let below = self.steps.iter_mut().chain(&mut self.inputs);
        below.for_each(|part| part.expect_times(runs));
    }

    /// Compares the estimates with the rows of the parts that ran, and marks the worst estimate.
    pub(crate) fn compare_estimates(&mut self) {
        let mut worst: f64 = MARKED;
        self.each_part(&mut |part| {
            part.estimate_ratio = part.ratio();
            worst = part.error().unwrap_or_default().max(worst);
        });
        let mut is_marked = false;
        self.each_part(&mut |part| {
            part.worst_estimate = !is_marked && part.error() == Some(worst);
            is_marked |= part.worst_estimate;
        });
    }

    fn each_part(&mut self, each: &mut impl FnMut(&mut Self)) {
        each(self);
        let below = self.steps.iter_mut().chain(&mut self.inputs);
        below.for_each(|part| part.each_part(each));
    }

    /// Returns the expected rows divided by the actual ones. One is added to both, so that none instead of one is no
    /// great error.
    fn ratio(&self) -> Option<f64> {
        let (expected, measured) = self.estimated_rows.zip(self.measured)?;
        measured
            .has_run()
            .then(|| (expected + 1.0) / (measured.rows as f64 + 1.0))
    }

    /// Returns the factor by which the estimate is wrong, in either direction.
    fn error(&self) -> Option<f64> {
        self.estimate_ratio.map(|ratio| ratio.max(1.0 / ratio))
    }

    fn write(&self, depth: usize, out: &mut String) -> fmt::Result {
        indent(depth, out);
        self.write_line(out)?;
        if let Some(order) = &self.order {
            indent(depth + 2, out);
            order.write(out)?;
        }
        for other in &self.rejected {
            indent(depth + 2, out);
            out.push_str("rejected: ");
            other.write_line(out)?;
        }
        for step in &self.steps {
            if let Some(Reordered { expected, came }) = step.reordered {
                indent(depth + 2, out);
                writeln!(
                    out,
                    "plan changed: {came} rows came instead of {expected:.0}; the next steps were ordered again"
                )?;
            }
            step.write(depth + 2, out)?;
        }
        for input in &self.inputs {
            input.write(depth + 1, out)?;
        }
        Ok(())
    }

    /// Returns whether the part is a join for which the planner expected a table to cost less than lookups.
    fn expects_table(&self) -> bool {
        self.operator.starts_with("Hash(")
    }

    /// Returns how a join was run, if not as planned.
    fn change(&self) -> Option<&'static str> {
        let measured = self.measured?;
        match (self.expects_table(), measured.table_rows > 0) {
            (true, false) if measured.nodes_looked_up > 0 => Some("no table"),
            (false, true) => Some("a table"),
            _ => None,
        }
    }

    /// Writes what is said of the part itself.
    fn write_line(&self, out: &mut String) -> fmt::Result {
        out.push_str(&self.operator);
        if !self.detail.is_empty() {
            write!(out, " {}", self.detail)?;
        }
        if let Some(rows) = self.estimated_rows {
            write!(out, "  ~{rows:.0} rows")?;
        }
        if let Some(time) = self.estimated_us {
            write!(out, ", {}", microseconds(time))?;
        }
        if let Some(m) = self.measured {
            write!(out, "  → {} rows", m.rows)?;
            if m.batches > 1 {
                write!(out, " in {} batches", m.batches)?;
            }
            write!(out, ", {:.3} ms", m.time_us / 1e3)?;
            if m.pages_from_cache + m.pages_from_device > 0 {
                let (cache, device) = (m.pages_from_cache, m.pages_from_device);
                write!(out, ", {cache} pages from cache, {device} from device")?;
            }
            if m.nodes_visited > 0 {
                write!(out, ", {} nodes visited", m.nodes_visited)?;
            }
            if m.nodes_looked_up > 0 && (self.expects_table() || m.table_rows > 0) {
                write!(out, ", {} nodes looked up", m.nodes_looked_up)?;
            }
            if m.table_rows > 0 {
                write!(out, ", table of {} matches", m.table_rows)?;
            }
            if let Some(change) = self.change() {
                write!(out, "  ← plan changed: {change}")?;
            }
        }
        if let Some(ratio) = self.estimate_ratio.filter(|_| self.worst_estimate) {
            let (times, much) = match ratio < 1.0 {
                true => (1.0 / ratio, "few"),
                false => (ratio, "many"),
            };
            write!(out, "  ← worst estimate: {times:.0} times too {much}")?;
        }
        out.push('\n');
        Ok(())
    }
}

fn indent(depth: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", depth));
}

/// Prints one line per part. What was rejected and the steps are printed below their operator, inputs below the steps,
/// and warnings at the end.
impl fmt::Display for PlanNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        self.write(0, &mut out)?;
        for warning in &self.warnings {
            writeln!(out, "warning: {warning}")?;
        }
        f.write_str(&out)
    }
}

/// Context for describing a plan: the query's terms and the measurements.
pub struct Explainer<'a> {
    evaluation: &'a EvaluationContext,
    /// Costs so far, if the query is profiled.
    measured: Option<FxHashMap<CostId, Measured>>,
    /// True if some graphs are hidden from the query.
    hides_graphs: bool,
}

impl<'a> Explainer<'a> {
    /// Creates an explainer with the measurements up to now, if the query is profiled.
    pub fn new(
        evaluation: &'a EvaluationContext,
        measured: Option<FxHashMap<CostId, Measured>>,
        hides_graphs: bool,
    ) -> Self {
        Self {
            evaluation,
            measured,
            hides_graphs,
        }
    }

    /// Returns whether some graphs are hidden from the query.
    pub fn hides_graphs(&self) -> bool {
        self.hides_graphs
    }

    /// Returns whether the query is profiled.
    pub fn measures(&self) -> bool {
        self.measured.is_some()
    }

    /// Returns the measurements of an operator or step.
    pub fn measured(&self, cost: CostId) -> Option<Measured> {
        let measured = self.measured.as_ref()?;
        // What never ran has no measurements: its cost is zero.
        let measured = measured.get(&cost).copied().unwrap_or_default();
        Some(match self.hides_graphs {
            false => measured,
            true => measured.of_visible(),
        })
    }

    /// Formats a constant: the term, or its id if the term cannot be read.
    pub fn term(&self, id: TermId) -> String {
        match self.evaluation.decode(&[id]) {
            Ok(terms) if terms.len() == 1 => terms[0].to_string(),
            _ => format!("{id:?}"),
        }
    }
}
