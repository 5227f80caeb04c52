//! Plans as people and programs read them: operators, the steps inside them, what was expected
//! and, if it was measured, what happened.

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
    /// What it is, in one word.
    pub operator: String,
    /// What it works on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Solutions the planner expects of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_rows: Option<f64>,
    /// What it took, if the query was run with [`QueryOptions::profile`](crate::QueryOptions).
    #[serde(flatten)]
    pub measured: Option<Measured>,
    /// A pattern's steps, in the order they run; the branches of a UNION, the inside of an
    /// OPTIONAL.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<PlanNode>,
    /// Where its solutions come from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<PlanNode>,
    /// At the root of a plan: what whoever wrote the query should know, though it is no error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What one part of a plan took, its inputs and the steps before it left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Solutions it gave.
    pub rows: u64,
    /// Batches they came in.
    pub batches: u64,
    /// Time, in microseconds.
    pub time_us: f64,
    /// Pages found in memory.
    pub pages_from_cache: u64,
    /// Pages read from the device.
    pub pages_from_device: u64,
    /// Nodes that a path search came to, once for each start and state of the path.
    #[serde(skip_serializing_if = "is_zero")]
    pub nodes_visited: u64,
}

impl Measured {
    /// Returns what may be told where graphs are hidden: pages, and the batches they make, hold quads of all
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
    /// A part without steps or inputs.
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

    /// This part and all below it, depth first.
    pub fn parts(&self) -> Vec<&Self> {
        let mut found = vec![self];
        for below in self.steps.iter().chain(&self.inputs) {
            found.extend(below.parts());
        }
        found
    }

    /// Pages that this part and all below it asked for.
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

/// One line per part; steps stand below their operator, inputs below the steps, and warnings at the
/// end.
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

/// What it takes to describe a plan: the query's terms, and what was measured.
pub(crate) struct Explainer<'a> {
    context: &'a QueryContext,
    /// What its parts took so far, if that is measured.
    measured: Option<FxHashMap<PartId, Measured>>,
}

impl<'a> Explainer<'a> {
    /// Describes plans of this query, with what was measured up to now.
    pub(crate) fn new(context: &'a QueryContext) -> Self {
        Self {
            context,
            measured: context.profile.as_ref().map(|profile| profile.parts()),
        }
    }

    /// A plan with all below it.
    pub(crate) fn plan(&self, plan: &dyn ExecutionPlan) -> PlanNode {
        let mut node = match plan.downcast_ref::<SolutionExec>() {
            Some(solutions) => solutions.explain(self),
            None => PlanNode::new(plan.name(), ""),
        };
        let inputs = plan.children().into_iter();
        node.inputs = inputs.map(|input| self.plan(input.as_ref())).collect();
        node
    }

    /// What was measured of a part.
    pub(crate) fn measured(&self, part: PartId) -> Option<Measured> {
        let measured = self.measured.as_ref()?;
        // A part that never ran took nothing.
        let measured = measured.get(&part).copied().unwrap_or_default();
        Some(match &self.context.dataset.visible {
            None => measured,
            Some(_) => measured.of_visible(),
        })
    }

    /// A constant as text: the term, or its id if it cannot be read.
    pub(crate) fn term(&self, id: TermId) -> String {
        match self.context.evaluation.decode(&[id]) {
            Ok(terms) if terms.len() == 1 => terms[0].to_string(),
            _ => format!("{id:?}"),
        }
    }
}
