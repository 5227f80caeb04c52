//! Casts between numbers for the peer of random queries: its own are inexact, so they are replaced
//! by ones of rational arithmetic, which is none of either engine's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oxigraph::model::{Literal, NamedNode, Term};
use oxigraph::sparql::SparqlEvaluator;

use rational::Rational;

#[path = "../../../pythia-exec/src/expression/rational.rs"]
#[allow(dead_code, reason = "the tests of expressions use more of it")]
mod rational;

const XSD: &str = "http://www.w3.org/2001/XMLSchema#";
const TYPES: [&str; 4] = ["integer", "decimal", "float", "double"];
/// The digits behind the point that the peer's decimals have.
const PEER_DIGITS: u32 = 18;

/// The query with calls of the exact casts.
pub(crate) fn rewritten(query: &str) -> String {
    let mut query = query.to_owned();
    for name in TYPES {
        for cast in [format!("xsd:{name}("), format!("<{XSD}{name}>(")] {
            query = query.replace(&cast, &format!("<urn:exact:{name}>("));
        }
    }
    query
}

/// The evaluator with these casts. Sets `is_beyond` if an outcome is one that the peer's numbers
/// cannot hold.
pub(crate) fn with_casts(
    mut evaluator: SparqlEvaluator,
    is_beyond: &Arc<AtomicBool>,
) -> SparqlEvaluator {
    for name in TYPES {
        let is_beyond = Arc::clone(is_beyond);
        let function = NamedNode::new_unchecked(format!("urn:exact:{name}"));
        evaluator = evaluator.with_custom_function(function, move |arguments| match arguments {
            [Term::Literal(literal)] => cast(literal, name, &is_beyond),
            _ => None,
        });
    }
    evaluator
}

fn cast(literal: &Literal, target: &str, is_beyond: &AtomicBool) -> Option<Term> {
    let is_exact = matches!(target, "integer" | "decimal");
    let typed = |text: String| {
        let datatype = NamedNode::new_unchecked(format!("{XSD}{target}"));
        Some(Literal::new_typed_literal(text, datatype).into())
    };
    let source = literal.datatype();
    let source = source.as_str().strip_prefix(XSD)?;
    let text = literal.value();
    let number = match source {
        "boolean" => Rational::integer(i32::from(matches!(text, "true" | "1"))),
        "string" => {
            let has_form = match target {
                "integer" => !text.contains(['.', 'e', 'E']),
                "decimal" => !text.contains(['e', 'E']),
                _ => true,
            };
            has_form.then(|| Rational::parse(text.trim()))??
        }
        "float" | "double" => match Rational::parse(text) {
            Some(number) => number,
            // An infinity or NaN.
            None if is_exact => return None,
            None => return typed(text.to_owned()),
        },
        _ => Rational::parse(text)?,
    };
    // What the text of a floating-point number is worth.
    let number = match source {
        "float" => number.nearest_float()?,
        "double" => number.nearest_double()?,
        _ => number,
    };
    let number = match target {
        "integer" => number.truncated(0),
        "decimal" => number,
        "float" => number.nearest_float()?,
        _ => number.nearest_double()?,
    };
    let limit = Rational::integer(i64::MAX);
    if is_exact && (number.truncated(PEER_DIGITS) != number || number.abs() > limit) {
        is_beyond.store(true, Ordering::Relaxed);
    }
    typed(number.decimal_text()?)
}
