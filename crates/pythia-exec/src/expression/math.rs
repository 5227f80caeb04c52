//! XPath's mathematical functions (XPath F&O 3.1 §4.8). All of them take and return doubles.

/// The namespace that is usually called `math:`.
const NAMESPACE: &str = "http://www.w3.org/2005/xpath-functions/math#";

/// A mathematical function.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Math {
    Constant(f64),
    Of(fn(f64) -> f64),
    OfTwo(fn(f64, f64) -> f64),
}

impl Math {
    /// Returns the number of arguments.
    pub(super) fn arity(self) -> usize {
        match self {
            Self::Constant(_) => 0,
            Self::Of(_) => 1,
            Self::OfTwo(_) => 2,
        }
    }

    /// Applies the function to as many numbers as it takes.
    pub(super) fn apply(self, numbers: &[f64]) -> f64 {
        match (self, numbers) {
            (Self::Constant(value), []) => value,
            (Self::Of(function), [number]) => function(*number),
            (Self::OfTwo(function), [a, b]) => function(*a, *b),
            _ => unreachable!("calls with another number of arguments are refused"),
        }
    }
}

/// Returns the function with this IRI, if it is one of these.
pub(super) fn function(iri: &str) -> Option<Math> {
    Some(match iri.strip_prefix(NAMESPACE)? {
        "pi" => Math::Constant(std::f64::consts::PI),
        "exp" => Math::Of(f64::exp),
        "exp10" => Math::Of(|number| 10_f64.powf(number)),
        "log" => Math::Of(f64::ln),
        "log10" => Math::Of(f64::log10),
        "sqrt" => Math::Of(f64::sqrt),
        "sin" => Math::Of(f64::sin),
        "cos" => Math::Of(f64::cos),
        "tan" => Math::Of(f64::tan),
        "asin" => Math::Of(f64::asin),
        "acos" => Math::Of(f64::acos),
        "atan" => Math::Of(f64::atan),
        "pow" => Math::OfTwo(f64::powf),
        "atan2" => Math::OfTwo(f64::atan2),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_that_are_suggested_exist() {
        let suggested = pythia_sparql::called_iris().filter(|iri| iri.starts_with(NAMESPACE));
        let arities: Vec<usize> = suggested
            .map(|iri| function(&iri).unwrap_or_else(|| panic!("no {iri}")).arity())
            .collect();
        assert_eq!(arities, [1, 1, 1, 2, 1, 1, 1, 1, 1, 0, 2, 1, 1, 1]);
        assert!(function("http://www.w3.org/2005/xpath-functions/math#sinh").is_none());
        assert!(function("http://www.w3.org/2005/xpath-functions#pi").is_none());
    }
}
