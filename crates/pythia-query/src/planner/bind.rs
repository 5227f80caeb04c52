//! BINDs and what stands around them.
//!
//! A BIND is in the way of the join order and of filters over its variable: `{ ?x :p ?a . BIND(STR(?a) AS ?b) ?x :q ?c
//! FILTER(?b = "1") }`. So it follows a join with what stands behind it, and a filter over its variable is applied to its
//! expression, before the BIND.

use std::borrow::Cow;

use oxrdf::Variable;
use pythia_sparql::scope::{
    Variables, certain, draws, has_exists, in_scope, mentioned, variables_of, visit,
};
use spargebra::algebra::{Expression, Function, GraphPattern};

use super::builder::Builder;
use super::group::conjuncts;

/// The largest number of parts of a value and of a filter in which it takes its variable's place: values of values may be
/// huge.
const PARTS_MAX: usize = 64;

/// The largest number of BINDs with joins around them that are operands of these joins, each inside the next.
const NESTED_MAX: usize = 8;

/// Moves BINDs behind joins, and filters over their variables before them; `None` if there are none to move.
pub(super) fn moved(builder: &Builder, pattern: &GraphPattern) -> Option<GraphPattern> {
    if !has_bind(pattern) {
        return None;
    }
    let mut mover = Mover {
        builder,
        has_moved: false,
    };
    let moved = mover.pattern(pattern);
    mover.has_moved.then(|| moved.into_pattern())
}

/// Does the same for a filter over a pattern.
pub(super) fn moved_filter(
    builder: &Builder,
    filter: &Expression,
    pattern: &GraphPattern,
) -> Option<GraphPattern> {
    let is_over_bind = matches!(pattern, GraphPattern::Extend { .. }) || has_bind(pattern);
    is_over_bind.then_some(())?;
    let mut mover = Mover {
        builder,
        has_moved: false,
    };
    let mut moved = mover.pattern(pattern);
    mover.filter(&mut moved, Cow::Borrowed(filter));
    mover.has_moved.then(|| moved.into_pattern())
}

/// Returns whether operands of joins and filters end with a BIND.
fn has_bind(mut pattern: &GraphPattern) -> bool {
    loop {
        pattern = match pattern {
            GraphPattern::Join { left, right } => {
                if matches!(**right, GraphPattern::Extend { .. }) || has_bind(right) {
                    return true;
                }
                left
            }
            GraphPattern::Filter { inner, .. } => inner,
            _ => return false,
        };
        if matches!(pattern, GraphPattern::Extend { .. }) {
            return true;
        }
    }
}

/// A join, filter or BIND around a pattern.
pub(super) enum Layer<'p> {
    /// The right operand of a join.
    Join(Cow<'p, GraphPattern>),
    Filter(Cow<'p, Expression>),
    Bind(&'p Variable, &'p Expression),
}

impl Layer<'_> {
    fn around(self, inner: GraphPattern) -> GraphPattern {
        let inner = Box::new(inner);
        match self {
            Layer::Join(right) => GraphPattern::Join {
                left: inner,
                right: Box::new(right.into_owned()),
            },
            Layer::Filter(expression) => GraphPattern::Filter {
                expr: expression.into_owned(),
                inner,
            },
            Layer::Bind(variable, expression) => GraphPattern::Extend {
                inner,
                variable: variable.clone(),
                expression: expression.clone(),
            },
        }
    }
}

/// Returns the leftmost operand of joins, filters and BINDs, and the layers around it, from the inside out.
fn layers(mut pattern: &GraphPattern) -> (&GraphPattern, Vec<Layer<'_>>) {
    let mut layers = Vec::new();
    loop {
        pattern = match pattern {
            GraphPattern::Join { left, right } => {
                layers.push(Layer::Join(Cow::Borrowed(&**right)));
                left
            }
            GraphPattern::Filter { expr, inner } => {
                layers.push(Layer::Filter(Cow::Borrowed(expr)));
                inner
            }
            GraphPattern::Extend {
                inner,
                variable,
                expression,
            } => {
                layers.push(Layer::Bind(variable, expression));
                inner
            }
            base => {
                layers.reverse();
                return (base, layers);
            }
        };
    }
}

/// Returns the layers of a pattern whose joins have more than [`NESTED_MAX`] BINDs inside each other, to be planned from the
/// inside out: planned as operands, they would take a deep stack.
pub(super) fn deep(pattern: &GraphPattern) -> Option<(&GraphPattern, Vec<Layer<'_>>)> {
    if !has_bind(pattern) {
        return None;
    }
    let (base, layers) = layers(pattern);
    let binds = (layers.iter()).filter(|layer| matches!(layer, Layer::Bind(..)));
    (binds.count() > NESTED_MAX).then_some((base, layers))
}

/// A pattern with its BINDs where they are evaluated.
struct Moved<'p> {
    base: &'p GraphPattern,
    /// Joins, filters and BINDs around the base, from the inside out.
    done: Vec<Layer<'p>>,
    /// The BINDs at its end, which may follow further joins.
    last: Vec<(&'p Variable, &'p Expression)>,
    /// Variables that it always binds.
    bound: Variables,
    /// All variables but those of the last BINDs. A SERVICE has the one of its endpoint.
    mentioned: Variables,
}

impl<'p> Moved<'p> {
    fn new(base: &'p GraphPattern) -> Self {
        let mut all = in_scope(base);
        mentioned(base, &mut all);
        Self {
            base,
            done: Vec::new(),
            last: Vec::new(),
            bound: certain(base),
            mentioned: all,
        }
    }

    /// Leaves the first of the last BINDs where they are.
    fn settle(&mut self, binds: usize) {
        for (variable, value) in self.last.drain(..binds) {
            self.mentioned.insert(variable.clone());
            self.mentioned.extend(variables_of(value));
            self.done.push(Layer::Bind(variable, value));
        }
    }

    fn filter(&mut self, expression: Cow<'p, Expression>) {
        self.mentioned.extend(variables_of(&expression));
        self.done.push(Layer::Filter(expression));
    }

    /// Returns how many of the last BINDs give something else after a join with a pattern of these variables, or stand
    /// before one that does.
    fn staying(&self, others: &Variables) -> usize {
        let may_follow = |(variable, value): &(&Variable, &Expression)| {
            let is_bound = |v: &Variable| !others.contains(v) || self.bound.contains(v);
            !others.contains(*variable)
                && !draws(value)
                && !has_exists(value)
                && variables_of(value).iter().all(is_bound)
        };
        let follow = (self.last.iter().rev()).take_while(|bind| may_follow(bind));
        self.last.len() - follow.count()
    }

    fn join(&mut self, mut right: Self) {
        let mut others = right.mentioned.clone();
        for (variable, value) in &right.last {
            others.insert((*variable).clone());
            others.extend(variables_of(value));
        }
        self.settle(self.staying(&others));
        right.settle(right.staying(&self.mentioned));
        self.last.append(&mut right.last);
        self.bound.extend(right.bound.drain());
        self.mentioned.extend(right.mentioned.drain());
        self.done
            .push(Layer::Join(Cow::Owned(right.into_pattern())));
    }

    fn into_pattern(self) -> GraphPattern {
        let last = self.last.into_iter();
        let last = last.map(|(variable, value)| Layer::Bind(variable, value));
        let layers = self.done.into_iter().chain(last);
        layers.fold(self.base.clone(), |inner, layer| layer.around(inner))
    }
}

struct Mover<'b> {
    builder: &'b Builder,
    has_moved: bool,
}

impl Mover<'_> {
    fn pattern<'p>(&mut self, pattern: &'p GraphPattern) -> Moved<'p> {
        let (base, layers) = layers(pattern);
        let mut moved = Moved::new(base);
        for layer in layers {
            match layer {
                Layer::Bind(variable, value) => moved.last.push((variable, value)),
                Layer::Filter(filter) => self.filter(&mut moved, filter),
                Layer::Join(right) => {
                    let Cow::Borrowed(right) = right else {
                        unreachable!("operands are taken from the pattern")
                    };
                    let right = self.pattern(right);
                    moved.join(right);
                    self.has_moved |= !moved.last.is_empty();
                }
            }
        }
        moved
    }

    /// Applies a filter before those last BINDs on which a part of the filter depends.
    fn filter<'p>(&mut self, moved: &mut Moved<'p>, filter: Cow<'p, Expression>) {
        let mut within = filter;
        // What is left above BINDs, by their places, from the last one on.
        let mut above = Vec::new();
        let mut before = moved.last.len();
        while before > 0 {
            let (inside, outside) = self.split(moved, before - 1, &within);
            let Some(inside) = inside else {
                break;
            };
            self.has_moved = true;
            above.extend(outside.map(|outside| (before, outside)));
            within = Cow::Owned(inside);
            before -= 1;
        }
        let mut settled = before;
        moved.settle(before);
        moved.filter(within);
        for (place, outside) in above.into_iter().rev() {
            moved.settle(place - settled);
            moved.filter(Cow::Owned(outside));
            settled = place;
        }
    }

    /// Splits a filter over one of the last BINDs into what is applied before the BIND, if a part of it depends on that,
    /// and after it.
    fn split(
        &self,
        moved: &Moved<'_>,
        place: usize,
        filter: &Expression,
    ) -> (Option<Expression>, Option<Expression>) {
        let (variable, value) = moved.last[place];
        let is_single = matches!(moved.base, GraphPattern::Bgp { patterns } if patterns.len() < 2);
        let can_save = is_cheap(value) || !is_single || place > 0 || !moved.done.is_empty();
        // A variable that is bound outside need not have the value.
        if self.builder.is_bound(variable) || !can_save || !is_same_inside(value, &moved.bound) {
            return (None, None);
        }
        let mut parts = Vec::new();
        conjuncts(filter, &mut parts);
        let (mut within, mut outside) = (Vec::new(), Vec::new());
        let mut is_over_value = false;
        for part in parts {
            if !variables_of(part).contains(variable) {
                within.push(part.clone());
            } else if is_small(part)
                && let Some(part) = with_value(part, variable, value)
            {
                is_over_value = true;
                within.push(part);
            } else {
                outside.push(part.clone());
            }
        }
        match is_over_value {
            true => (
                within.into_iter().reduce(and),
                outside.into_iter().reduce(and),
            ),
            false => (None, None),
        }
    }
}

fn and(one: Expression, other: Expression) -> Expression {
    Expression::And(Box::new(one), Box::new(other))
}

/// Returns whether evaluating a value once more, for the filter, costs little. If it does not, the filter has to be applied
/// before a join to save work.
fn is_cheap(value: &Expression) -> bool {
    match value {
        Expression::NamedNode(_) | Expression::Literal(_) | Expression::Variable(_) => true,
        Expression::FunctionCall(Function::Str | Function::Lang | Function::Datatype, of) => {
            matches!(of[..], [Expression::Variable(_)])
        }
        _ => false,
    }
}

/// Returns whether a value is the same for each evaluation, and depends only on what is always bound.
fn is_same_inside(value: &Expression, bound: &Variables) -> bool {
    !draws(value) && !has_exists(value) && is_small(value) && variables_of(value).is_subset(bound)
}

fn is_small(expression: &Expression) -> bool {
    let mut parts = 0;
    visit(expression, &mut |_| parts += 1);
    parts <= PARTS_MAX
}

/// Replaces a variable of an expression. Returns `None` for parts that take variables only.
fn with_value(
    expression: &Expression,
    variable: &Variable,
    value: &Expression,
) -> Option<Expression> {
    use Expression as E;
    let one = |part: &E| with_value(part, variable, value).map(Box::new);
    let list = |parts: &[E]| -> Option<Vec<E>> {
        let parts = parts.iter();
        parts
            .map(|part| with_value(part, variable, value))
            .collect()
    };
    Some(match expression {
        E::Variable(v) if v == variable => value.clone(),
        E::Variable(_) | E::NamedNode(_) | E::Literal(_) => expression.clone(),
        E::Or(a, b) => E::Or(one(a)?, one(b)?),
        E::And(a, b) => E::And(one(a)?, one(b)?),
        E::Equal(a, b) => E::Equal(one(a)?, one(b)?),
        E::SameTerm(a, b) => E::SameTerm(one(a)?, one(b)?),
        E::Greater(a, b) => E::Greater(one(a)?, one(b)?),
        E::GreaterOrEqual(a, b) => E::GreaterOrEqual(one(a)?, one(b)?),
        E::Less(a, b) => E::Less(one(a)?, one(b)?),
        E::LessOrEqual(a, b) => E::LessOrEqual(one(a)?, one(b)?),
        E::Add(a, b) => E::Add(one(a)?, one(b)?),
        E::Subtract(a, b) => E::Subtract(one(a)?, one(b)?),
        E::Multiply(a, b) => E::Multiply(one(a)?, one(b)?),
        E::Divide(a, b) => E::Divide(one(a)?, one(b)?),
        E::UnaryPlus(a) => E::UnaryPlus(one(a)?),
        E::UnaryMinus(a) => E::UnaryMinus(one(a)?),
        E::Not(a) => E::Not(one(a)?),
        E::In(a, parts) => E::In(one(a)?, list(parts)?),
        E::If(a, b, c) => E::If(one(a)?, one(b)?, one(c)?),
        E::Coalesce(parts) => E::Coalesce(list(parts)?),
        E::FunctionCall(function, parts) => E::FunctionCall(function.clone(), list(parts)?),
        _ => return None,
    })
}
