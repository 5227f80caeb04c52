//! Names in a plan for people: a variable that the parser made for an aggregate is shown as the aggregate, and blank nodes as
//! such.

use std::collections::HashMap;

use datafusion_physical_plan::ExecutionPlan;
use oxrdf::Variable;

use super::node::SolutionExec;
use crate::explain::PlanNode;
use crate::plan::Operator;

/// The internal variables of a plan, and what is shown for them.
pub(super) struct Names {
    shown: HashMap<String, String>,
    /// Anonymous blank nodes so far.
    anonymous: usize,
}

impl Names {
    /// Finds the variables that hold the results of aggregates.
    pub(super) fn of(plan: &dyn ExecutionPlan) -> Self {
        let mut names = Self {
            shown: HashMap::new(),
            anonymous: 0,
        };
        names.collect(plan);
        names
    }

    fn collect(&mut self, plan: &dyn ExecutionPlan) {
        // The aggregates of inner groups first: those of outer ones may use them.
        for input in plan.children() {
            self.collect(input.as_ref());
        }
        let Some(solutions) = plan.downcast_ref::<SolutionExec>() else {
            return;
        };
        if let Operator::Aggregation(aggregation) = &*solutions.operator {
            let results = solutions.variables().iter().skip(aggregation.keys.len());
            for (result, aggregate) in results.zip(&aggregation.aggregates.expressions) {
                // The planner's own names say what they are for; a group shows what they are.
                if is_random(result.as_str()) {
                    let aggregate = self.put(&aggregate.to_string());
                    self.shown.insert(result.as_str().to_owned(), aggregate);
                }
            }
        }
    }

    /// Replaces the names in a description and all below it.
    pub(super) fn put_into(&mut self, node: &mut PlanNode) {
        node.detail = self.put(&node.detail);
        let below = node
            .steps
            .iter_mut()
            .chain(&mut node.inputs)
            .chain(&mut node.rejected);
        for node in below {
            self.put_into(node);
        }
    }

    /// Replaces the internal variables in a text.
    fn put(&mut self, text: &str) -> String {
        let mut put = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('?') {
            let (before, after) = rest.split_at(at);
            let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
            let end = after[1..]
                .find(|c| !is_name(c))
                .map_or(after.len(), |end| end + 1);
            let (variable, after) = after.split_at(end);
            put.push_str(before);
            match is_internal(&variable[1..]) {
                true => put.push_str(self.shown(&variable[1..])),
                false => put.push_str(variable),
            }
            rest = after;
        }
        put.push_str(rest);
        put
    }

    fn shown(&mut self, name: &str) -> &str {
        let anonymous = &mut self.anonymous;
        self.shown
            .entry(name.to_owned())
            .or_insert_with(|| match name.strip_prefix("_:") {
                Some(label) if !is_random(label) => format!("_:{label}"),
                _ => {
                    *anonymous += 1;
                    format!("_:{anonymous}")
                }
            })
    }
}

/// Returns variables as they are listed.
pub(super) fn listed<'v>(variables: impl Iterator<Item = &'v Variable>) -> String {
    let names: Vec<String> = variables.map(ToString::to_string).collect();
    names.join(" ")
}

/// Returns whether the planner has named a variable, for a result that has no place in the query.
pub(super) fn named(variable: &Variable) -> bool {
    let name = variable.as_str().strip_prefix("_:");
    name.is_some_and(|name| !is_random(name))
}

/// Returns whether a name is none of a query's: one of a blank node, of the planner, or of the parser for an aggregate.
fn is_internal(name: &str) -> bool {
    name.starts_with("_:") || is_random(name)
}

/// Returns whether a name is one that the parser has drawn: 32 hexadecimal digits at most.
fn is_random(name: &str) -> bool {
    (24..=32).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_variables_are_shown_as_what_they_stand_for() {
        let sum = "d0a00bd0989d7545d3efc4042d0c9049";
        let mut names = Names {
            shown: HashMap::from([(sum.to_owned(), "SUM(?x)".to_owned())]),
            anonymous: 0,
        };
        let blank = "?_:ff78f95254428af4a2415b502b1e051e";
        let text = format!(
            "?s {blank} =?p ?_:path1 ?{sum}, {blank} ?_:a0dfdbd6790eaf09e8fe8a7d12b1dec6 ?"
        );
        assert_eq!(names.put(&text), "?s _:1 =?p _:path1 SUM(?x), _:1 _:2 ?");
        assert_eq!(
            names.put("?deadbeef <http://a?b=c> \"a ?\""),
            "?deadbeef <http://a?b=c> \"a ?\""
        );
    }
}
