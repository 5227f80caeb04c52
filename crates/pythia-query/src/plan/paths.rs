//! Rewriting property paths into patterns where SPARQL says so (SPARQL 1.1 §18.2.2.4): outside
//! closures, an alternative is a union and a sequence a join, which count routes, and a negated set
//! is a triple pattern with a filter, which counts triples as other engines do. What is left as a
//! path (`*`, `+`, `?`) counts each pair of ends once.

use super::scope::visit;
use oxrdf::Variable;
use spargebra::algebra::{Expression, GraphPattern, PropertyPathExpression as Path};
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

/// The pattern with its paths rewritten; `None` if there is nothing to rewrite.
pub(crate) fn expand(pattern: &GraphPattern) -> Option<GraphPattern> {
    let mut found = false;
    visit(pattern, &mut |p| {
        found |= matches!(
            p,
            GraphPattern::Path {
                path: Path::Alternative(..)
                    | Path::Sequence(..)
                    | Path::Reverse(_)
                    | Path::NegatedPropertySet(_),
                ..
            }
        );
    });
    found.then(|| {
        let mut expanded = pattern.clone();
        rewrite(&mut expanded, &mut 0);
        expanded
    })
}

fn rewrite(pattern: &mut GraphPattern, fresh: &mut usize) {
    match pattern {
        GraphPattern::Path {
            subject,
            path,
            object,
        } => *pattern = patterns_of(subject, path, object, fresh),
        GraphPattern::Join { left, right }
        | GraphPattern::LeftJoin { left, right, .. }
        | GraphPattern::Union { left, right }
        | GraphPattern::Minus { left, right } => {
            rewrite(left, fresh);
            rewrite(right, fresh);
        }
        GraphPattern::Filter { inner, .. }
        | GraphPattern::Graph { inner, .. }
        | GraphPattern::Extend { inner, .. }
        | GraphPattern::OrderBy { inner, .. }
        | GraphPattern::Project { inner, .. }
        | GraphPattern::Distinct { inner }
        | GraphPattern::Reduced { inner }
        | GraphPattern::Slice { inner, .. }
        | GraphPattern::Group { inner, .. } => rewrite(inner, fresh),
        _ => {}
    }
}

/// The patterns that a path between two terms stands for.
fn patterns_of(
    subject: &TermPattern,
    path: &Path,
    object: &TermPattern,
    fresh: &mut usize,
) -> GraphPattern {
    match path {
        Path::NamedNode(predicate) => GraphPattern::Bgp {
            patterns: vec![TriplePattern {
                subject: subject.clone(),
                predicate: NamedNodePattern::NamedNode(predicate.clone()),
                object: object.clone(),
            }],
        },
        Path::Reverse(inner) => patterns_of(object, inner, subject, fresh),
        Path::Sequence(first, second) => {
            *fresh += 1;
            let middle = Variable::new_unchecked(format!("_:path{fresh}")).into();
            GraphPattern::Join {
                left: Box::new(patterns_of(subject, first, &middle, fresh)),
                right: Box::new(patterns_of(&middle, second, object, fresh)),
            }
        }
        Path::Alternative(a, b) => GraphPattern::Union {
            left: Box::new(patterns_of(subject, a, object, fresh)),
            right: Box::new(patterns_of(subject, b, object, fresh)),
        },
        Path::NegatedPropertySet(except) => {
            *fresh += 1;
            let predicate = Variable::new_unchecked(format!("_:path{fresh}"));
            let except = except.iter().cloned().map(Expression::NamedNode).collect();
            GraphPattern::Filter {
                expr: Expression::Not(Box::new(Expression::In(
                    Box::new(Expression::Variable(predicate.clone())),
                    except,
                ))),
                inner: Box::new(GraphPattern::Bgp {
                    patterns: vec![TriplePattern {
                        subject: subject.clone(),
                        predicate: NamedNodePattern::Variable(predicate),
                        object: object.clone(),
                    }],
                }),
            }
        }
        closure => GraphPattern::Path {
            subject: subject.clone(),
            path: closure.clone(),
            object: object.clone(),
        },
    }
}
