//! Query plans for people and programs to read: operators, their steps, the planner's estimates and, if
//! profiled, measured costs.

use std::fmt::{self, Write};

use datafusion_physical_plan::ExecutionPlan;
use pythia_rdf::TermId;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::exec::context::QueryContext;
use crate::exec::operator::SolutionExec;
use crate::exec::profile::PartId;

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
    /// Measured cost, if the query was run with [`QueryOptions::profile`](crate::QueryOptions).
    #[serde(flatten)]
    pub measured: Option<Measured>,
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
}

impl Measured {
    /// Removes the numbers that would reveal hidden graphs: pages, and thus batches, hold quads of all
    /// graphs.
    fn of_visible(self) -> Self {
        Self {
            batches: 0,
            pages_from_cache: 0,
            pages_from_device: 0,
            ..self
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl PlanNode {
    /// Creates a part without steps or inputs.
    pub(crate) fn new(operator: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            operator: operator.into(),
            detail: detail.into(),
            estimated_rows: None,
            measured: None,
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

    fn write(&self, depth: usize, out: &mut String) -> fmt::Result {
        write!(out, "{:indent$}{}", "", self.operator, indent = depth * 2)?;
        if !self.detail.is_empty() {
            write!(out, " {}", self.detail)?;
        }
        if let Some(rows) = self.estimated_rows {
            write!(out, "  ~{rows:.0} rows")?;
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
        }
        out.push('\n');
        for step in &self.steps {
            step.write(depth + 2, out)?;
        }
        for input in &self.inputs {
            input.write(depth + 1, out)?;
        }
        Ok(())
    }
}

/// Prints one line per part. Steps are printed below their operator, inputs below the steps, and warnings at
/// the end.
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
pub(crate) struct Explainer<'a> {
    context: &'a QueryContext,
    /// Costs of the parts so far, if the query is profiled.
    measured: Option<FxHashMap<PartId, Measured>>,
}

impl<'a> Explainer<'a> {
    /// Creates an explainer with the measurements up to now.
    pub(crate) fn new(context: &'a QueryContext) -> Self {
        Self {
            context,
            measured: context.profile.as_ref().map(|profile| profile.parts()),
        }
    }

    /// Describes a plan and all parts below it.
    pub(crate) fn plan(&self, plan: &dyn ExecutionPlan) -> PlanNode {
        let mut node = match plan.downcast_ref::<SolutionExec>() {
            Some(solutions) => solutions.explain(self),
            None => PlanNode::new(plan.name(), ""),
        };
        let inputs = plan.children().into_iter();
        node.inputs = inputs.map(|input| self.plan(input.as_ref())).collect();
        node
    }

    /// Returns the measurements of a part.
    pub(crate) fn measured(&self, part: PartId) -> Option<Measured> {
        let measured = self.measured.as_ref()?;
        // A part that never ran has no measurements: its cost is zero.
        let measured = measured.get(&part).copied().unwrap_or_default();
        Some(match &self.context.dataset.visible {
            None => measured,
            Some(_) => measured.of_visible(),
        })
    }

    /// Formats a constant: the term, or its id if the term cannot be read.
    pub(crate) fn term(&self, id: TermId) -> String {
        match self.context.evaluation.decode(&[id]) {
            Ok(terms) if terms.len() == 1 => terms[0].to_string(),
            _ => format!("{id:?}"),
        }
    }
}
