//! Rewrites property paths as patterns where SPARQL says so (SPARQL 1.1 §18.2.2.4). Outside closures, an
//! alternative is a union and a sequence is a join, which count routes. A negated set is a triple pattern
//! with a filter, which counts triples as other engines do. The remaining paths (`*`, `+`, `?`) return each
//! pair of ends once.

use crate::scope::visit_mut;
use oxrdf::Variable;
use spargebra::algebra::{Expression, GraphPattern, PropertyPathExpression as Path};
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

/// Rewrites the paths of a pattern and of all patterns inside it.
pub fn expand(pattern: &mut GraphPattern) {
    let mut fresh = 0;
    visit_mut(pattern, &mut |pattern| {
        if let GraphPattern::Path {
            subject,
            path,
            object,
        } = pattern
            && !matches!(
                path,
                Path::ZeroOrMore(_) | Path::OneOrMore(_) | Path::ZeroOrOne(_)
            )
        {
            *pattern = patterns_of(subject, path, object, &mut fresh);
        }
    });
}

/// Returns the patterns that are equivalent to a path between two terms.
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
