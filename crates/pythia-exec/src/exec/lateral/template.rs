//! The plans of a pattern, ready to run for any combination of terms.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;

use crate::error::QueryError;
use crate::exec::context::QueryContext;
use crate::exec::node::{self, compile_plan, nodes};
use crate::exec::solutions::Solutions;
use crate::exec::subquery::{Subquery, placeholder};
use crate::exec::templates::Template;
use crate::plan::operators::Lateral;
use crate::plan::step::{Step, StepKind};
use crate::plan::{Operator, Plan};

/// Returns the plan of the pattern for combinations in which these of the shared variables are bound.
pub(in crate::exec) fn template(
    lateral: &Lateral,
    bound: &[bool],
    context: &QueryContext,
) -> Result<Arc<Template>, QueryError> {
    let templates = &context.templates;
    if let Some(template) = templates.get(lateral.number, bound) {
        return Ok(template);
    }
    let template = Arc::new(make(lateral, bound, context)?);
    templates.keep(lateral.number, bound, &template);
    Ok(template)
}

fn make(lateral: &Lateral, bound: &[bool], context: &QueryContext) -> Result<Template, QueryError> {
    let bound: Vec<usize> = (0..bound.len()).filter(|place| bound[*place]).collect();
    let variables = bound.iter().map(|place| lateral.shared[*place].clone());
    let subquery = Subquery {
        pattern: &lateral.pattern,
        graph: &lateral.graph,
        inserted: variables.zip((0..).map(placeholder)).collect(),
        is_test: false,
        is_shown: true,
    };
    let mut plan = context.planner.plan(&subquery, context)?;
    compile_plan(&mut plan, &context.evaluation)?;
    let column_of = |variable| plan.variables.iter().position(|found| found == variable);
    Ok(Template {
        columns: lateral.found.iter().map(column_of).collect(),
        plan,
        bound,
        runs: AtomicU64::new(0),
    })
}

/// Runs a plan for a combination of terms.
pub(super) fn start(
    template: &Template,
    terms: &[u64],
    context: &Arc<QueryContext>,
) -> Result<Solutions, QueryError> {
    let terms = template.bound.iter().map(|place| terms[*place]);
    let ids = (0..).map(|number| placeholder(number).0).zip(terms);
    template.runs.fetch_add(1, Ordering::Relaxed);
    let mut plan = template.plan.clone();
    replace(&mut plan, &ids.collect());
    node::start(&nodes(plan), context)
}

/// Replaces ids wherever the planner inserts terms.
fn replace(plan: &mut Plan, ids: &HashMap<u64, u64>) {
    let replace_id = |id: &mut u64| *id = ids.get(id).copied().unwrap_or(*id);
    match &mut *plan.operator {
        Operator::Pattern(pattern) => replace_in_steps(&mut pattern.steps, &replace_id),
        Operator::EachGraph(each) => {
            for (_, term) in &mut each.inserted {
                replace_id(&mut term.0);
            }
        }
        _ => {}
    }
    for input in &mut plan.inputs {
        replace(input, ids);
    }
}

fn replace_in_steps(steps: &mut [Step], replace_id: &impl Fn(&mut u64)) {
    for step in steps {
        match &mut step.kind {
            StepKind::Values { rows, .. } => rows.iter_mut().flatten().for_each(replace_id),
            StepKind::Optional(inner) => {
                replace_in_steps(inner, replace_id);
            }
            StepKind::Union(branches) => {
                for branch in branches {
                    replace_in_steps(branch, replace_id);
                }
            }
            _ => {}
        }
    }
}
