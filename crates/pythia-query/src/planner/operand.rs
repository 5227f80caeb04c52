//! UNION, VALUES, `GRAPH <g>`, and groups with OPTIONAL or BIND as elements of the join order of the group that they are
//! in; also the alternatives of a path, which are a UNION.
//!
//! Such an operand may be joined at any place of the order if its solutions do not depend on the place, and if it always
//! binds the variables that it shares with the rest of the group. Its estimate is that of its branches, each in the order
//! that a greedy search finds from the solutions so far. See `docs/decisions/0050-operands-in-the-join-order.md`.

use std::borrow::Cow;

use hashbrown::HashMap;
use oxrdf::{BlankNode, Variable};
use pythia_sparql::scope::{Variables, can_seed, certain, in_scope};
use spargebra::algebra::{GraphPattern, PropertyPathExpression};
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

use super::builder::Builder;
use super::element::{Branch, Element, Inside, Operand};
use super::group::{Operands, take_apart};
use super::{PlanError, Planner};
use pythia_exec::plan::dataset::GraphScope;

/// Maximum number of parts of an operand; a larger one is joined after all elements.
const PARTS_MAX: usize = 1000;
/// Maximum depth of operands inside operands that estimates consider: each level is estimated several times for each time that
/// the one around it is.
const DEPTH_MAX: usize = 2;
/// Maximum number of alternatives of a path that become a UNION. A path reads the page of a node once for all of them.
const ALTERNATIVES_MAX: usize = 8;

impl Planner<'_> {
    /// Moves the operands that can be elements of the join order from the group's rest and paths to its operands.
    pub(super) fn take_operands(
        &self,
        builder: &mut Builder,
        group: &mut Operands<'_>,
        graph: &GraphScope,
    ) {
        // Nothing waits in most groups.
        if group.rest.is_empty() && group.paths.is_empty() {
            return;
        }
        if !graph.is_fixed() {
            return;
        }
        self.take_alternatives(builder, group);
        let outside = Outside::new(builder, group);
        let rest = std::mem::take(&mut group.rest);
        for pattern in rest {
            if outside.is_element(builder, pattern) {
                group.operands.push(Cow::Borrowed(pattern));
            } else {
                group.rest.push(pattern);
            }
        }
    }

    /// Turns paths that are alternatives into UNIONs.
    fn take_alternatives(&self, builder: &mut Builder, group: &mut Operands<'_>) {
        let is_counted = self.counted.is_some();
        let paths = std::mem::take(&mut group.paths);
        for (subject, path, object) in paths {
            if !is_counted && (2..=ALTERNATIVES_MAX).contains(&count_alternatives(path)) {
                let union = alternatives(builder, subject, path, object);
                group.operands.push(Cow::Owned(union));
            } else {
                group.paths.push((subject, path, object));
            }
        }
    }

    /// Returns an operand with its estimates.
    pub(super) fn operand(
        &self,
        builder: &mut Builder,
        place: usize,
        pattern: &GraphPattern,
        graph: &GraphScope,
    ) -> Result<Operand, PlanError> {
        self.operand_at(builder, place, pattern, graph, 0)
    }

    /// Returns an operand inside `depth` others.
    fn operand_at(
        &self,
        builder: &mut Builder,
        place: usize,
        pattern: &GraphPattern,
        graph: &GraphScope,
        depth: usize,
    ) -> Result<Operand, PlanError> {
        self.evaluation.check()?;
        let mut bound: Vec<Variable> = certain(pattern).into_iter().collect();
        // The same query always gets the same slots.
        bound.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        if let GraphPattern::Values { bindings, .. } = pattern {
            let rows = bindings.len() as f64;
            return Ok(Operand {
                place,
                slots: bound.iter().map(|v| (builder.slot(v), rows)).collect(),
                inside: Inside::Rows(rows),
            });
        }
        let mut patterns = Vec::new();
        union_branches(pattern, &mut patterns);
        let mut branches = Vec::new();
        for pattern in patterns {
            let mut branch = Branch::default();
            if self.add_elements(builder, pattern, graph, depth, &mut branch)? {
                branches.push(branch);
            }
        }
        let slots = bound.iter().map(|variable| {
            let slot = builder.slot(variable);
            (slot, branches.iter().map(|b| b.distinct(slot)).sum())
        });
        Ok(Operand {
            place,
            slots: slots.collect(),
            inside: Inside::Branches(branches),
        })
    }

    /// Adds the elements of a pattern to those of its branch. Returns false if it has no solutions.
    fn add_elements(
        &self,
        builder: &mut Builder,
        pattern: &GraphPattern,
        graph: &GraphScope,
        depth: usize,
        branch: &mut Branch,
    ) -> Result<bool, PlanError> {
        let mut group = Operands::default();
        take_apart(pattern, &mut group);
        let Some((mut elements, _)) = self.elements(builder, &group, graph)? else {
            return Ok(false);
        };
        let hints = self.push_down(builder, &group.filters, &[], &mut elements)?;
        branch.filters.extend(hints);
        branch.elements.extend(elements);
        for pattern in group.rest {
            let may_match = match pattern {
                GraphPattern::Union { .. } | GraphPattern::Values { .. } if depth < DEPTH_MAX => {
                    let operand = self.operand_at(builder, 0, pattern, graph, depth + 1)?;
                    branch.elements.push(Element::Operand(operand));
                    true
                }
                GraphPattern::LeftJoin { left: inner, .. }
                | GraphPattern::Extend { inner, .. }
                | GraphPattern::Filter { inner, .. } => {
                    self.add_elements(builder, inner, graph, depth, branch)?
                }
                GraphPattern::Graph {
                    name: NamedNodePattern::NamedNode(node),
                    inner,
                } => match self.named_graph(node)? {
                    Some(scope) => self.add_elements(builder, inner, &scope, depth, branch)?,
                    None => false,
                },
                _ => true,
            };
            if !may_match {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The variables of a group, to find those that an operand shares with the other parts.
struct Outside {
    /// Variables of the solutions so far, and of triple patterns, paths and alternatives.
    always: Variables,
    /// Number of other operands that have the variable.
    operands: HashMap<Variable, usize>,
}

impl Outside {
    fn new(builder: &Builder, group: &Operands<'_>) -> Self {
        let mut always = builder.joined_variables();
        always.extend(group.matched());
        for pattern in &group.operands {
            always.extend(in_scope(pattern));
        }
        let mut operands = HashMap::new();
        for pattern in &group.rest {
            for variable in in_scope(pattern) {
                *operands.entry(variable).or_insert(0) += 1;
            }
        }
        Self { always, operands }
    }

    /// Returns whether an operand of the rest can be joined at any place.
    fn is_element(&self, builder: &Builder, pattern: &GraphPattern) -> bool {
        let is_kind = match pattern {
            GraphPattern::Extend { inner, .. } => {
                !matches!(&**inner, GraphPattern::Bgp { patterns } if patterns.is_empty())
            }
            GraphPattern::Union { .. }
            | GraphPattern::Values { .. }
            | GraphPattern::Graph { .. }
            | GraphPattern::LeftJoin { .. } => true,
            _ => false,
        };
        let mut parts = 0;
        if !is_kind || !is_joinable(pattern, &mut parts) {
            return false;
        }
        let own = in_scope(pattern);
        let mut others = self.always.clone();
        let of_operands = self.operands.iter();
        let of_others = of_operands
            .filter(|(variable, count)| **count > usize::from(own.contains(*variable)))
            .map(|(variable, _)| variable.clone());
        others.extend(of_others);
        let bound = certain(pattern);
        let is_certain =
            |v: &Variable| bound.contains(v) && (builder.is_certain(v) || !builder.is_bound(v));
        own.intersection(&others).all(is_certain) && can_seed(pattern, &others)
    }
}

/// Returns whether a pattern can always be part of a pipeline, whatever is bound before. Counts its parts.
fn is_joinable(pattern: &GraphPattern, parts: &mut usize) -> bool {
    *parts += 1;
    if *parts > PARTS_MAX {
        return false;
    }
    match pattern {
        GraphPattern::Bgp { patterns } => {
            *parts += patterns.len();
            true
        }
        GraphPattern::Path { .. } | GraphPattern::Values { .. } => true,
        GraphPattern::Union { left, right } => {
            is_joinable(left, parts) && is_joinable(right, parts)
        }
        GraphPattern::Join { left, right } => {
            is_joinable(left, parts) && is_joinable(right, parts) && {
                let bound = &certain(left) & &certain(right);
                let (of_left, of_right) = (in_scope(left), in_scope(right));
                (&of_left & &of_right).is_subset(&bound)
                    && can_seed(left, &of_right)
                    && can_seed(right, &of_left)
            }
        }
        GraphPattern::LeftJoin { left, right, .. } => {
            is_joinable(left, parts)
                && is_joinable(right, parts)
                && (&in_scope(left) & &in_scope(right)).is_subset(&certain(left))
                && can_seed(right, &in_scope(left))
        }
        GraphPattern::Filter { inner, .. }
        | GraphPattern::Extend { inner, .. }
        | GraphPattern::Graph {
            name: NamedNodePattern::NamedNode(_),
            inner,
        } => is_joinable(inner, parts),
        _ => false,
    }
}

fn count_alternatives(path: &PropertyPathExpression) -> usize {
    match path {
        PropertyPathExpression::Alternative(a, b) => count_alternatives(a) + count_alternatives(b),
        _ => 1,
    }
}

/// Returns the alternatives of a path as a UNION (SPARQL 1.1, section 18.2.2.3).
fn alternatives(
    builder: &mut Builder,
    subject: &TermPattern,
    path: &PropertyPathExpression,
    object: &TermPattern,
) -> GraphPattern {
    use PropertyPathExpression as P;
    let triple = |subject: &TermPattern, predicate: NamedNodePattern, object: &TermPattern| {
        let patterns = vec![TriplePattern {
            subject: subject.clone(),
            predicate,
            object: object.clone(),
        }];
        GraphPattern::Bgp { patterns }
    };
    match path {
        P::Alternative(a, b) => GraphPattern::Union {
            left: Box::new(alternatives(builder, subject, a, object)),
            right: Box::new(alternatives(builder, subject, b, object)),
        },
        P::NamedNode(predicate) => triple(subject, predicate.clone().into(), object),
        P::Reverse(inner) => alternatives(builder, object, inner, subject),
        P::Sequence(a, b) => {
            let slot = builder.temporary_slot();
            let name = builder.slots[slot].as_str().trim_start_matches("_:");
            let between = TermPattern::BlankNode(BlankNode::new_unchecked(name));
            GraphPattern::Join {
                left: Box::new(alternatives(builder, subject, a, &between)),
                right: Box::new(alternatives(builder, &between, b, object)),
            }
        }
        path => GraphPattern::Path {
            subject: subject.clone(),
            path: path.clone(),
            object: object.clone(),
        },
    }
}

/// Flattens nested UNIONs into a list of branches.
pub(super) fn union_branches<'p>(pattern: &'p GraphPattern, branches: &mut Vec<&'p GraphPattern>) {
    match pattern {
        GraphPattern::Union { left, right } => {
            union_branches(left, branches);
            union_branches(right, branches);
        }
        other => branches.push(other),
    }
}
