//! The updates of BSBM's use case Explore and Update, with data copied from the store.
//!
//! U1 inserts a product with its offers and reviews; U2 deletes an offer. The benchmark's generator writes the products to
//! insert with the data set. Here a product of the store is copied under other names, so that any store with BSBM data
//! will do, and deleted offers are the store's. Each change has an update that takes it back.

use anyhow::{Context, Result};
use pythia::Term;
use rustc_hash::{FxHashMap, FxHashSet};

use super::QuerySource;
use super::data::Kind;
use super::templates::PROLOGUE;
use crate::contest::{Change, Question};
use crate::timed::bound_rows;

/// Names of the updates.
pub(super) const TEMPLATES: [&str; 2] = [INSERT, DELETE];
const INSERT: &str = "U1";
const DELETE: &str = "U2";
/// Number of deleted offers of a mix.
const DELETED: usize = 4;
/// Number of draws of a product or of an offer.
const TRIES: usize = 100;

/// A source of updates, each of which changes other triples.
#[derive(Default)]
pub(super) struct Changes {
    inserted: usize,
    deleted: FxHashSet<String>,
}

impl Changes {
    /// Returns the updates of a mix.
    pub(super) fn of_mix(&mut self, source: &mut QuerySource<'_>) -> Result<Vec<Question>> {
        let mut changes = vec![self.insert(source).context("draw a product to insert")?];
        for _ in 0..DELETED {
            changes.push(self.delete(source).context("draw an offer to delete")?);
        }
        Ok(changes)
    }

    /// Inserts a copy of a product with its offers and reviews.
    fn insert(&mut self, source: &mut QuerySource<'_>) -> Result<Question> {
        let rows = tried(|| {
            let product = source.one_of(|data| data.instances(Kind::Product))?;
            let query = format!(
                "{PROLOGUE}SELECT ?s ?p ?o {{ {{ VALUES ?s {{ {product} }} ?s ?p ?o }} \
                 UNION {{ ?s bsbm:product {product} ; ?p ?o }} UNION {{ ?s bsbm:reviewFor {product} ; ?p ?o }} }}"
            );
            let rows = bound_rows(source.database, &query)?;
            Ok(are_named(&rows).then_some(rows))
        })?;
        let rows = rows
            .context("the products of the store have blank nodes, which an update cannot name")?;
        self.inserted += 1;
        let names = rows.iter().map(|row| (&row[0], self.copied(&row[0])));
        let names: FxHashMap<&Term, String> = names.collect();
        let name = |term: &Term| names.get(term).cloned().unwrap_or_else(|| term.to_string());
        let triples = rows
            .iter()
            .map(|row| format!("{} {} {} .\n", name(&row[0]), row[1], name(&row[2])));
        let triples: String = triples.collect();
        let mut subjects: Vec<&str> = names.values().map(String::as_str).collect();
        subjects.sort_unstable();
        let text = format!("INSERT DATA {{\n{triples}}}");
        let change = Change {
            undo: format!("DELETE DATA {{\n{triples}}}"),
            triples: format!(
                "SELECT ?s ?p ?o {{ VALUES ?s {{ {} }} ?s ?p ?o }}",
                subjects.join(" ")
            ),
        };
        Ok(Question::update(INSERT, text, change))
    }

    /// Returns the name of a copied thing.
    fn copied(&self, term: &Term) -> String {
        let name = term.to_string();
        format!("{}-copy{}>", name.trim_end_matches('>'), self.inserted)
    }

    /// Deletes an offer that no other update deletes.
    fn delete(&mut self, source: &mut QuerySource<'_>) -> Result<Question> {
        let drawn = tried(|| {
            let offer = source.one_of(|data| data.instances(Kind::Offer))?;
            let triples = format!("SELECT ?p ?o {{ {offer} ?p ?o }}");
            let rows = bound_rows(source.database, &triples)?;
            let is_new = are_named(&rows) && self.deleted.insert(offer.clone());
            Ok(is_new.then_some((offer, triples, rows)))
        })?;
        let (offer, triples, rows) = drawn.with_context(|| {
            let count = self.deleted.len() + 1;
            format!("the store has too few offers for {count} different ones: ask for fewer mixes")
        })?;
        let removed = rows
            .iter()
            .map(|row| format!("{offer} {} {} .\n", row[0], row[1]));
        let undo = format!("INSERT DATA {{\n{}}}", removed.collect::<String>());
        let text = format!("DELETE WHERE {{ {offer} ?p ?o }}");
        Ok(Question::update(DELETE, text, Change { undo, triples }))
    }
}

/// Draws until there is something, a limited number of times.
fn tried<T>(mut draw: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    for _ in 0..TRIES {
        if let Some(drawn) = draw()? {
            return Ok(Some(drawn));
        }
    }
    Ok(None)
}

/// Returns whether no term is a blank node.
fn are_named(rows: &[Vec<Term>]) -> bool {
    let mut terms = rows.iter().flatten();
    !terms.any(|term| matches!(term, Term::BlankNode(_)))
}
