//! The work that is timed: range scans, drawn from a store's own data, and queries.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pythia::{Database, QueryOptions};
use pythia_io::probe::SplitMix;
use pythia_rdf::TermId;
use pythia_store::{Component, IdBatch, Order, QuadPattern, QuadScan, Snapshot};

use crate::queries::NamedQuery;
use crate::timed::{self, Output};

/// Factor by which a predicate may be longer or shorter than a requested length.
const PREDICATE_FACTOR: f64 = 3.0;

/// A scan or a query.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) name: String,
    /// The name that scans of the same kind and length, or queries of the same template, share.
    pub(super) group: String,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// All quads of the subjects from the first id to the last one, in the order of subjects.
    Subjects(u64, u64),
    /// All quads of a predicate, in the order of subjects.
    Predicate(TermId),
    /// A SPARQL query, whose results are decoded.
    Query(String),
}

/// One run of a scan or query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    pub(super) time: Duration,
    pub(super) rows: u64,
}

impl Work {
    pub(super) fn of_query(query: &NamedQuery) -> Self {
        Self {
            name: query.id.clone(),
            group: query.template.clone(),
            kind: Kind::Query(query.query.clone()),
        }
    }

    pub(super) fn is_scan(&self) -> bool {
        !matches!(self.kind, Kind::Query(_))
    }

    /// Runs the work on the current state to its end. A scan's rows stay ids.
    pub(super) fn run(&self, database: &Database) -> Result<Outcome> {
        let begun = Instant::now();
        let rows = self.rows(database);
        let time = begun.elapsed();
        let rows = rows.with_context(|| format!("run {}", self.name))?;
        Ok(Outcome { time, rows })
    }

    fn rows(&self, database: &Database) -> Result<u64> {
        match &self.kind {
            Kind::Subjects(first, last) => scan_subjects(&database.snapshot(), *first, *last),
            Kind::Predicate(predicate) => scan_predicate(&database.snapshot(), *predicate),
            Kind::Query(text) => {
                let options = QueryOptions::default();
                Ok(timed::run(database, text, &options, Output::Terms)?.rows)
            }
        }
    }
}

fn scan_subjects(snapshot: &Snapshot, first: u64, last: u64) -> Result<u64> {
    use Component::{Object, Predicate, Subject};
    let wanted = [Subject, Predicate, Object];
    let mut scan = snapshot.scan(&QuadPattern::default(), Order::Spo, &wanted)?;
    if first > 0 {
        scan.seek(TermId(first))?;
    }
    read(&mut scan, last)
}

fn scan_predicate(snapshot: &Snapshot, predicate: TermId) -> Result<u64> {
    let pattern = QuadPattern {
        predicate: Some(predicate),
        ..QuadPattern::default()
    };
    let wanted = [Component::Subject, Component::Object];
    read(&mut snapshot.scan(&pattern, Order::Pso, &wanted)?, u64::MAX)
}

/// Counts the rows up to those of the subject `last`. The subject is the first column.
fn read(scan: &mut QuadScan, last: u64) -> Result<u64> {
    let mut batch = IdBatch::default();
    let mut rows = 0;
    while scan.next_into(&mut batch)? {
        black_box(&batch);
        let subjects = &batch.columns[0];
        let within = subjects.partition_point(|&subject| subject <= last);
        rows += within as u64;
        if within < subjects.len() {
            break;
        }
    }
    Ok(rows)
}

/// Draws scans: for each length, in percent of the quads, `each` ranges of subjects, and as many whole predicates with about
/// that share of the quads as the store has. A length of 100 % is one scan of everything. Reads all quads once.
pub(super) fn draw(
    snapshot: &Snapshot,
    lengths: &[f64],
    each: usize,
    seed: u64,
) -> Result<Vec<Work>> {
    let quads = snapshot.statistics().quads;
    let mut random = SplitMix(seed);
    let is_whole = |percent: f64| percent >= 100.0;
    // The first and the last row of each range.
    let mut ends = Vec::new();
    for &percent in lengths.iter().filter(|percent| !is_whole(**percent)) {
        let rows = ((quads as f64 * percent / 100.0) as u64).clamp(1, quads.max(1));
        for _ in 0..each {
            let first = random.below((quads + 1).saturating_sub(rows).max(1));
            ends.extend([first, first + rows - 1]);
        }
    }
    let subjects = subjects_of(snapshot, &ends)?;
    let mut ranges = subjects.chunks_exact(2);
    let mut works = Vec::new();
    for &percent in lengths {
        if is_whole(percent) {
            works.push(Work {
                name: "everything".to_owned(),
                group: "everything".to_owned(),
                kind: Kind::Subjects(0, u64::MAX),
            });
            continue;
        }
        for (number, range) in ranges.by_ref().take(each).enumerate() {
            works.push(Work {
                name: format!("subjects {percent} % #{}", number + 1),
                group: format!("subjects, {percent} % of the quads"),
                kind: Kind::Subjects(range[0], range[1]),
            });
        }
        works.extend(predicates(snapshot, percent, each));
    }
    Ok(works)
}

/// Returns the subjects of some rows of all quads in the order of subjects. A row after the last has the last one's subject.
fn subjects_of(snapshot: &Snapshot, rows: &[u64]) -> Result<Vec<u64>> {
    let mut places: Vec<usize> = (0..rows.len()).collect();
    places.sort_unstable_by_key(|&place| rows[place]);
    let mut found = vec![0; rows.len()];
    let mut next = places.into_iter().peekable();
    let wanted = [Component::Subject];
    let mut scan = snapshot.scan(&QuadPattern::default(), Order::Spo, &wanted)?;
    let mut batch = IdBatch::default();
    let (mut before, mut last) = (0, 0);
    while next.peek().is_some() && scan.next_into(&mut batch)? {
        let subjects = &batch.columns[0];
        let end = before + batch.rows as u64;
        while let Some(place) = next.next_if(|&place| rows[place] < end) {
            found[place] = subjects[(rows[place] - before) as usize];
        }
        last = subjects.last().copied().unwrap_or(last);
        before = end;
    }
    next.for_each(|place| found[place] = last);
    Ok(found)
}

/// Returns scans of the predicates whose shares are nearest to a percentage of the quads.
fn predicates(snapshot: &Snapshot, percent: f64, each: usize) -> Vec<Work> {
    let statistics = snapshot.statistics();
    let wanted = (statistics.quads as f64 * percent / 100.0).max(1.0);
    let mut near: Vec<(f64, TermId)> = Vec::new();
    for predicate in statistics.predicates.iter().filter(|it| it.quads > 0) {
        let distance = (predicate.quads as f64 / wanted).ln().abs();
        near.push((distance, predicate.predicate));
    }
    near.retain(|(distance, _)| *distance <= PREDICATE_FACTOR.ln());
    near.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let work = |(number, (_, predicate)): (usize, (f64, TermId))| Work {
        name: format!("predicate {percent} % #{}", number + 1),
        group: format!("predicates, about {percent} % of the quads"),
        kind: Kind::Predicate(predicate),
    };
    near.into_iter().take(each).enumerate().map(work).collect()
}
