//! The queries of the tests: parameters drawn from the data, such that each query has an answer.

use anyhow::{Result, bail};
use pythia::ids::{Expansion, GraphFilter, TermId, TermKind};
use pythia::{Database, End, QueryOptions, Results, Snapshot, Term};
use pythia_generate::people;
use rand::seq::{SliceRandom, index};
use rand::{Rng, SeedableRng, rngs::SmallRng};
use rustc_hash::FxHashSet;

use super::Test;

/// Attempts to find enough subjects and objects.
const TRIES: usize = 100;

/// Draws up to `count` different queries of each test, in the order of [`Test::ALL`].
pub(super) fn draw(database: &Database, count: usize, seed: u64) -> Result<Vec<Vec<String>>> {
    Test::ALL
        .into_iter()
        .map(|test| draw_test(database, test, count, seed))
        .collect()
}

/// Draws up to `count` different queries of one test. The same store and seed give the same queries.
pub(super) fn draw_test(
    database: &Database,
    test: Test,
    count: usize,
    seed: u64,
) -> Result<Vec<String>> {
    let mut draws = Draws {
        database,
        snapshot: database.snapshot(),
        random: SmallRng::seed_from_u64(seed ^ ((test as u64 + 1) << 32)),
        count,
    };
    let values = match test {
        Test::Subject => draws.statements(|subject, _| subject)?,
        Test::Predicate => draws.predicates()?,
        Test::Object => draws.statements(|_, object| object)?,
        Test::Join1 => {
            let (likes, lives) = (people::LIKES_CHEESE, people::LIVES_IN);
            let pattern = format!("?person <{likes}> ?cheese . ?person <{lives}> ?town");
            draws.rows(
                &format!("SELECT DISTINCT ?cheese ?town WHERE {{ {pattern} }}"),
                count,
            )?
        }
        Test::Join2 => draws.once(people::HAS_INTERESTS)?,
        Test::Join3 => draws.once(people::TYPE)?,
        Test::Join4 => {
            let pattern = format!("?person <{}> ?book", people::LIKES_BOOK);
            draws.rows(
                &format!("SELECT DISTINCT ?person WHERE {{ {pattern} }}"),
                count,
            )?
        }
        Test::Join5 => draws.feelings()?,
    };
    if values.is_empty() {
        bail!(
            "the store has no data for the test \"{}\" ({}); make a store with them: \
             `pythia generate people --triples 10000000 -l STORE`",
            test.name(),
            test.question()
        );
    }
    Ok(values.iter().map(|values| test.query(values)).collect())
}

/// Random choices from a store.
struct Draws<'d> {
    database: &'d Database,
    snapshot: Snapshot,
    random: SmallRng,
    /// Number of choices.
    count: usize,
}

impl Draws<'_> {
    /// Returns the subjects or the objects of random statements: one statement each of random subjects.
    fn statements(&mut self, chosen: fn(TermId, TermId) -> TermId) -> Result<Vec<Vec<String>>> {
        let nodes = self.snapshot.sorted_payloads(TermKind::Iri).max(1);
        let mut found = FxHashSet::default();
        let mut order = Vec::new();
        let mut edges = Expansion::default();
        for _ in 0..TRIES {
            let mut drawn: Vec<TermId> = (0..self.count)
                .map(|_| TermId::new(TermKind::Iri, self.random.random_range(0..nodes)))
                .collect();
            drawn.sort_unstable();
            drawn.dedup();
            edges.clear();
            let snapshot = &self.snapshot;
            snapshot.expand(End::Subject, &drawn, None, GraphFilter::Any, &mut edges)?;
            for (subject, object) in self.one_each(&drawn, &edges) {
                let id = chosen(subject, object);
                // A query cannot name a blank node.
                if id.kind() != TermKind::BlankNode && found.insert(id) {
                    order.push(id);
                }
            }
            if order.len() >= self.count {
                break;
            }
        }
        order.shuffle(&mut self.random);
        order.truncate(self.count);
        self.decode(&order, 1)
    }

    /// Returns a random statement of each node that has some, as subject and object.
    fn one_each(&mut self, nodes: &[TermId], edges: &Expansion) -> Vec<(TermId, TermId)> {
        let mut start = 0;
        let mut chosen = Vec::new();
        for rows in edges.source.chunk_by(|one, next| one == next) {
            let row = start + self.random.random_range(0..rows.len());
            chosen.push((nodes[rows[0] as usize], TermId(edges.other[row])));
            start += rows.len();
        }
        chosen
    }

    /// Returns random properties, all equally likely.
    fn predicates(&mut self) -> Result<Vec<Vec<String>>> {
        let predicates = &self.snapshot.statistics().predicates;
        let mut ids: Vec<TermId> = predicates
            .iter()
            .filter(|predicate| predicate.quads > 0)
            .map(|predicate| predicate.predicate)
            .collect();
        ids.shuffle(&mut self.random);
        ids.truncate(self.count);
        self.decode(&ids, 1)
    }

    /// Returns up to `count` random solutions of a SELECT, all different if its solutions are.
    fn rows(&mut self, query: &str, count: usize) -> Result<Vec<Vec<String>>> {
        let (ids, width) = self.sorted_ids(query)?;
        let rows = ids.len() / width;
        let chosen: Vec<TermId> = index::sample(&mut self.random, rows, count.min(rows))
            .iter()
            .flat_map(|row| ids[row * width..][..width].iter().copied())
            .collect();
        self.decode(&chosen, width)
    }

    /// Returns the ids of a SELECT's solutions, one solution after the other, in an order that does not depend on the
    /// plan, and the number of ids of each.
    fn sorted_ids(&self, query: &str) -> Result<(Vec<TermId>, usize)> {
        let prepared = self.database.prepare(query, &QueryOptions::default())?;
        let Results::Solutions(mut solutions) = prepared.execute()? else {
            unreachable!("only used with SELECT");
        };
        let width = solutions.variables().len();
        let mut rows: Vec<Vec<TermId>> = Vec::new();
        while let Some(batch) = solutions.next_ids()? {
            let row = |row: usize| batch.columns.iter().map(|ids| TermId(ids[row])).collect();
            rows.extend((0..batch.rows).map(row));
        }
        rows.sort_unstable();
        Ok((rows.concat(), width))
    }

    /// Returns the only, empty set of values of a query without parameters; nothing if the store lacks the property.
    fn once(&self, property: &str) -> Result<Vec<Vec<String>>> {
        let property = oxrdf::NamedNodeRef::new(property)?;
        let known = self.snapshot.resolve(property.into())?;
        Ok(known.map(|_| Vec::new()).into_iter().collect())
    }

    /// Returns random people with a thing that they have a feeling about; all feelings are equally likely.
    fn feelings(&mut self) -> Result<Vec<Vec<String>>> {
        let mut draws_of = vec![0; people::FEELINGS as usize];
        for _ in 0..self.count {
            draws_of[self.random.random_range(0..people::FEELINGS as usize)] += 1;
        }
        let mut values = Vec::new();
        for (feeling, draws) in draws_of.into_iter().enumerate() {
            if draws > 0 {
                let pattern = format!("?person <{}{feeling}> ?thing", people::FEELS);
                let query = format!("SELECT ?person ?thing WHERE {{ {pattern} }}");
                values.extend(self.rows(&query, draws)?);
            }
        }
        values.shuffle(&mut self.random);
        Ok(values)
    }

    /// Returns terms as N-Triples, `width` in each set.
    fn decode(&self, ids: &[TermId], width: usize) -> Result<Vec<Vec<String>>> {
        let terms = self.snapshot.decode(ids)?;
        let sets = terms.chunks(width);
        Ok(sets
            .map(|set| set.iter().map(Term::to_string).collect())
            .collect())
    }
}
