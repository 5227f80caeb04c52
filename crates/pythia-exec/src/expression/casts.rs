//! Floats and doubles that the query's terms were cast to, so that a term is not read for the same cast again.
//!
//! To read a term and its number takes far longer than to find it here. A query may do it for the same terms in several places (the
//! average of prices, and prices below it), and in batches that are far apart.

use std::sync::Arc;

use oxsdatatypes::{Double, Float};
use parking_lot::Mutex;
use pythia_rdf::TermId;
use rustc_hash::FxHashMap;

use super::number::Number;
use crate::limits::exchange::{PARTS, Parted};
use crate::limits::governor::{Governor, Held};
use crate::limits::spill::table::hash_ids;

/// Minimum number of terms that are looked up together. The casts of few terms are not kept.
pub(super) const TERMS_MIN: usize = 64;
/// The numbers of one part get one of this many parts of the memory that is left.
const SHARE: usize = 16 * PARTS;
/// Approximate memory of a number in bytes, with the free places of the table.
const NUMBER_BYTES: usize = 2 * size_of::<(u64, Option<f64>)>();

/// A cast of terms to numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumberCast {
    pub(super) target: Floating,
    /// True for the number in the term's string.
    pub(super) of_string: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Floating {
    Float,
    Double,
}

/// The numbers of all casts.
pub(super) struct Casts {
    /// By cast and part: terms are divided by their hash, because several threads look them up.
    parts: [[Mutex<Part>; PARTS]; 4],
}

/// The numbers of some terms; `None` is an error.
struct Part {
    numbers: FxHashMap<u64, Option<f64>>,
    held: Held,
}

impl NumberCast {
    fn place(self) -> usize {
        self.target as usize * 2 + usize::from(self.of_string)
    }

    fn number(self, kept: f64) -> Number {
        match self.target {
            // Every float is a double.
            Floating::Float => Number::Float(Float::from(kept as f32)),
            Floating::Double => Number::Double(Double::from(kept)),
        }
    }
}

impl Casts {
    pub(super) fn new(governor: &Arc<Governor>) -> Self {
        let part = |_| {
            Mutex::new(Part {
                numbers: FxHashMap::default(),
                held: Held::new(governor),
            })
        };
        Self {
            parts: std::array::from_fn(|_| std::array::from_fn(part)),
        }
    }

    /// Returns the numbers of terms by this cast; `None` for those that were not cast before.
    pub(super) fn find(&self, cast: NumberCast, ids: &[u64]) -> Vec<Option<Option<Number>>> {
        let parted = parted(ids);
        let mut found = vec![None; ids.len()];
        for (place, part) in self.parts[cast.place()].iter().enumerate() {
            let part = part.lock();
            if part.numbers.is_empty() {
                continue;
            }
            for &row in parted.rows(place) {
                let kept = part.numbers.get(&ids[row as usize]);
                found[row as usize] = kept.map(|kept| kept.map(|kept| cast.number(kept)));
            }
        }
        found
    }

    /// Keeps the numbers of terms, as far as there is memory.
    pub(super) fn keep(&self, cast: NumberCast, ids: &[u64], numbers: &[Option<Number>]) {
        let parted = parted(ids);
        for (place, part) in self.parts[cast.place()].iter().enumerate() {
            let rows = parted.rows(place);
            let mut part = part.lock();
            if !part.has_room(rows.len()) {
                continue;
            }
            for row in rows.iter().map(|&row| row as usize) {
                if is_read(ids[row]) {
                    let number = numbers[row].map(|number| f64::from(number.to_double()));
                    part.numbers.insert(ids[row], number);
                }
            }
        }
    }
}

impl Part {
    /// Takes memory for more numbers, if there is much more of it.
    fn has_room(&mut self, more: usize) -> bool {
        let bytes = (self.numbers.len() + more) * NUMBER_BYTES;
        bytes <= self.held.bytes()
            || (bytes <= (self.held.left() + self.held.bytes()) / SHARE
                && self.held.set(bytes.next_power_of_two()).is_ok())
    }
}

fn parted(ids: &[u64]) -> Parted {
    Parted::by(ids.len(), |row| hash_ids([ids[row]], 0))
}

/// Returns whether a cast of the term has to read it.
pub(super) fn is_read(id: u64) -> bool {
    TermId(id).is_bound() && !TermId(id).kind().is_inline()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use oxrdf::vocab::xsd;
    use oxrdf::{NamedNodeRef, TermRef, Variable};
    use pythia_rdf::TermKind;
    use pythia_rdf::key::KeyParts;
    use spargebra::algebra::{Expression, Function};

    use super::*;
    use crate::error::QueryError;
    use crate::expression::{
        CompiledExpression, EvaluationContext, FoundTerm, TermReader, TermResolver,
    };

    const TERMS: u64 = 3000;

    /// Prices whose text is their rank, of which some are no numbers.
    #[derive(Default)]
    struct Prices {
        read: AtomicUsize,
    }

    impl TermResolver for Prices {
        fn resolve(&self, _: TermRef<'_>) -> Result<Option<TermId>, QueryError> {
            Ok(None)
        }

        fn read(&self, ids: &[TermId], f: &mut TermReader<'_>) -> Result<(), QueryError> {
            self.read.fetch_add(ids.len(), Ordering::Relaxed);
            for (index, id) in ids.iter().enumerate() {
                let text = match id.payload() % 10 {
                    0 => "dear".to_owned(),
                    _ => format!("{}.1", id.payload()),
                };
                let price = KeyParts::TypedLiteral {
                    value: text.into(),
                    datatype: "http://example.org/price",
                };
                f(index, FoundTerm::Parts(price)).expect("a text");
            }
            Ok(())
        }
    }

    /// Casts the price of each rank to a number, twice for some of them. Returns the numbers as text and how many prices
    /// were read.
    fn cast_all(memory: usize, casts: &[(bool, Function)]) -> (Vec<Vec<String>>, usize) {
        let prices = Arc::new(Prices::default());
        let resolver: Arc<dyn TermResolver> = Arc::<Prices>::clone(&prices);
        let governor = Arc::new(Governor::with_memory(memory));
        let context = EvaluationContext::new(resolver, governor);
        let price = Variable::new_unchecked("price");
        let id = |rank| TermId::new(TermKind::TypedLiteral, rank * 7 % TERMS).0;
        let mut ids: Vec<u64> = (0..TERMS + 500).map(id).collect();
        ids.push(TermId::UNBOUND.0);
        let mut all = Vec::new();
        for (of_string, function) in casts {
            let call =
                |function: &Function, of| Expression::FunctionCall(function.clone(), vec![of]);
            let mut of = Expression::Variable(price.clone());
            if *of_string {
                of = call(&Function::Custom(xsd::STRING.into()), of);
            }
            let cast = call(function, of);
            let cast =
                CompiledExpression::compile(&cast, std::slice::from_ref(&price), &context).unwrap();
            let numbers = cast.evaluate(&[&ids], ids.len(), &context).unwrap();
            all.push(numbers.iter().map(|number| format!("{number:?}")).collect());
        }
        (all, prices.read.load(Ordering::Relaxed))
    }

    #[test]
    fn terms_are_read_once_for_a_cast() {
        let cast =
            |of_string, target: NamedNodeRef<'static>| (of_string, Function::Custom(target.into()));
        let (float, double) = (cast(true, xsd::FLOAT), cast(true, xsd::DOUBLE));
        // The price itself is no number: only its string may be one.
        let price = cast(false, xsd::FLOAT);
        let casts = [float.clone(), double, price, float];
        let (kept, read) = cast_all(64 << 20, &casts);
        assert_eq!(read as u64, 3 * TERMS);
        assert_eq!(kept[3], kept[0]);
        let (read_again, read) = cast_all(1 << 20, &casts);
        assert_eq!(read as u64, 4 * TERMS);
        assert_eq!(read_again, kept);
        assert_eq!(kept[0].last().unwrap(), "None");
        assert!(kept[0][1].contains("7.1") && kept[1][1].contains("7.1"));
        assert!(kept[0][0] == "None" && kept[2].iter().all(|number| number == "None"));
    }
}
