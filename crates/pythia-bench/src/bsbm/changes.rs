//! The updates of BSBM's use case Explore and Update, with data copied from the store.
//!
//! U1 inserts a product with its offers and reviews; U2 deletes an offer. The benchmark's generator writes the products to
//! insert with the data set. Here a product of the store is copied under other names, so that any store with BSBM data
//! will do, and deleted offers are the store's. Each change has an update that takes it back.

use anyhow::{Context, Result, ensure};
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
/// Number of tries to find an offer that is not deleted yet.
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
        let product = source.one_of(|data| data.instances(Kind::Product))?;
        self.inserted += 1;
        let query = format!(
            "{PROLOGUE}SELECT ?s ?p ?o {{ {{ VALUES ?s {{ {product} }} ?s ?p ?o }} \
             UNION {{ ?s bsbm:product {product} ; ?p ?o }} UNION {{ ?s bsbm:reviewFor {product} ; ?p ?o }} }}"
        );
        let rows = bound_rows(source.database, &query)?;
        let names: FxHashMap<&Term, String> = (rows.iter())
            .filter_map(|row| Some((&row[0], self.copied(&row[0])?)))
            .collect();
        let name = |term: &Term| names.get(term).cloned().unwrap_or_else(|| term.to_string());
        let triples = rows
            .iter()
            .map(|row| format!("{} {} {} .\n", name(&row[0]), row[1], name(&row[2])));
        let triples: String = triples.collect();
        let subjects: FxHashSet<&String> = names.values().collect();
        let mut subjects: Vec<&str> = subjects.into_iter().map(String::as_str).collect();
        subjects.sort_unstable();
        let change = Change {
            undo: format!("DELETE DATA {{\n{triples}}}"),
            seen: format!(
                "SELECT ?s ?p ?o {{ VALUES ?s {{ {} }} ?s ?p ?o }}",
                subjects.join(" ")
            ),
        };
        let text = format!("INSERT DATA {{\n{triples}}}");
        Ok(Question::update(INSERT, text, change))
    }

    /// Returns the name of a copied thing; `None` for what is not an IRI.
    fn copied(&self, term: &Term) -> Option<String> {
        match term {
            Term::NamedNode(name) => Some(format!("<{}-copy{}>", name.as_str(), self.inserted)),
            _ => None,
        }
    }

    /// Deletes an offer that no other update deletes.
    fn delete(&mut self, source: &mut QuerySource<'_>) -> Result<Question> {
        let mut offer = String::new();
        for _ in 0..TRIES {
            offer = source.one_of(|data| data.instances(Kind::Offer))?;
            if self.deleted.insert(offer.clone()) {
                break;
            }
            offer.clear();
        }
        ensure!(
            !offer.is_empty(),
            "the store has too few offers for {} different ones: ask for fewer mixes",
            self.deleted.len() + 1
        );
        let seen = format!("SELECT ?p ?o {{ {offer} ?p ?o }}");
        let rows = bound_rows(source.database, &seen)?;
        let triples = rows
            .iter()
            .map(|row| format!("{offer} {} {} .\n", row[0], row[1]));
        let undo = format!("INSERT DATA {{\n{}}}", triples.collect::<String>());
        let text = format!("DELETE WHERE {{ {offer} ?p ?o }}");
        Ok(Question::update(DELETE, text, Change { undo, seen }))
    }
}
