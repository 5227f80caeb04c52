//! Loading into a store that has quads: a run is built concurrently with commits, to be published atomically.
//!
//! Parsing and sorting by batches is the same as in any load, and needs nothing of the store ([`parse`]). Then the
//! distinct terms, which come sorted, are looked up in a snapshot ([`ParsedLoad::resolve`]). New terms become part of
//! the store before any quad does ([`NewTerms`]): from then on they keep their ids, regardless of commits. Quads are
//! compared with the snapshot of that moment, and those that it lacks become a run ([`ResolvedLoad::write_run`]). The
//! quads that it has are kept aside; together with the run they show which of the quads changed by concurrent commits
//! were also loaded ([`Loaded::correct`]). A load may replace graphs: then the run also removes the quads of these
//! graphs that are not loaded ([`replaced`]).

mod known;
mod logged;
mod replaced;
mod resolver;
mod terms;

use std::sync::{Arc, Mutex};

use pythia_io::BufferPool;
use pythia_rdf::{Source, TermId};

use super::orders::PerOrder;
use super::pipeline::{Numbered, Parsed};
use super::{LoadError, LoadOptions, LoadProgress, LoadReport};
use crate::StoreError;
use crate::delta::device::{DeviceRun, DeviceRunWriter, members_max};
use crate::delta::{KindCounts, Quad, kind_index};
use crate::manifest::RunId;
use crate::pattern::Order;
use crate::snapshot::{Snapshot, WholeGraphs};
use known::{KnownQuads, KnownQuadsWriter};
use replaced::ReplacingOrderWriter;
use resolver::Resolver;

pub(crate) use logged::change_sets;
pub(crate) use terms::{NewTerms, ends};

/// Sources that were parsed, to be written as a run.
#[derive(Debug)]
pub(crate) struct ParsedLoad {
    parsed: Parsed,
    progress: Arc<LoadProgress>,
}

/// The place of a new run, and the snapshot below it.
pub(crate) struct RunTarget<'t> {
    pub(crate) pool: &'t Arc<BufferPool>,
    pub(crate) id: RunId,
    pub(crate) snapshot: &'t Snapshot,
    /// By kind, the payload of the first term that the load adds.
    pub(crate) first_terms: KindCounts,
    /// The graphs that the load replaces.
    pub(crate) replaced: Option<WholeGraphs>,
}

impl RunTarget<'_> {
    fn writer(&self) -> DeviceRunWriter {
        let storage = Arc::clone(self.pool.storage());
        DeviceRunWriter::new(storage, self.id, self.snapshot.base().options())
    }
}

/// Sources whose terms have ids; those of new terms are provisional.
pub(crate) struct ResolvedLoad {
    numbered: Numbered,
    /// The ids of all distinct terms.
    ids: Vec<u64>,
    pub(crate) new_terms: NewTerms,
    progress: Arc<LoadProgress>,
}

/// A load that was written, to be put on top of a store.
pub(crate) struct Loaded {
    /// Quads that the snapshot lacked are added, those that are replaced and were not loaded are removed. Durable, but
    /// not named by a manifest.
    pub(crate) run: Arc<DeviceRun>,
    /// Quads of the sources that the snapshot had, except for those in replaced graphs.
    known: KnownQuads,
    replaced: Option<WholeGraphs>,
    pub(crate) report: LoadReport,
}

/// Parses the sources.
pub(crate) fn parse(
    sources: Vec<Source>,
    options: &LoadOptions,
    progress: &Arc<LoadProgress>,
) -> Result<ParsedLoad, LoadError> {
    Ok(ParsedLoad {
        parsed: Parsed::new(sources, options, progress)?,
        progress: Arc::clone(progress),
    })
}

impl ParsedLoad {
    /// Looks the terms up, and writes those that the snapshot lacks as a run.
    pub(crate) fn resolve(self, target: &RunTarget<'_>) -> Result<ResolvedLoad, LoadError> {
        let Self { parsed, progress } = self;
        let terms_max = parsed.terms_max();
        let writer = target.writer();
        let terms = writer.terms(&target.first_terms, terms_max)?;
        let mut resolver = Resolver::new(target, terms, terms_max);
        let (numbered, ids) = parsed.number(&mut resolver)?;
        let (terms, are_there_any) = resolver.finish();
        let run = match are_there_any {
            true => {
                let entry = writer.seal_terms(terms)?;
                Some(DeviceRun::open(target.pool, &entry)?)
            }
            false => None,
        };
        Ok(ResolvedLoad {
            numbered,
            ids: ids.expect("a resolver gives ids"),
            new_terms: NewTerms::new(target.first_terms, run),
            progress,
        })
    }
}

impl ResolvedLoad {
    /// Writes the quads that the snapshot, which has all terms, lacks, and those that it loses.
    pub(crate) fn write_run(self, target: &RunTarget<'_>) -> Result<Loaded, LoadError> {
        let Self {
            mut numbered,
            mut ids,
            new_terms,
            progress,
        } = self;
        for id in &mut ids {
            *id = new_terms.id(*id);
        }
        numbered.take_ids(ids);
        let writer = target.writer();
        let replaced = target.replaced;
        let old_quads = replaced.map(|graphs| graphs.count(target.snapshot));
        let old_quads = old_quads.transpose()?.unwrap_or(0);
        // An estimate: there are rarely more nodes with predicates; if there are, the filters admit some more.
        let rows_max = numbered.quads().min(numbered.terms().saturating_mul(4)) + old_quads;
        let order = |order| -> Result<_, LoadError> {
            let old_rows = replaced.map(|graphs| graphs.rows(target.snapshot, order));
            let run = writer.order(order, members_max(rows_max))?;
            Ok(ReplacingOrderWriter::new(run, old_rows))
        };
        let orders = PerOrder {
            spo: order(Order::Spo)?,
            ops: order(Order::Ops)?,
            pso: order(Order::Pso)?,
            pos: order(Order::Pos)?,
            gpso: order(Order::Gpso)?,
        };
        let put_aside = Mutex::new(KnownQuadsWriter::new(&numbered.file("known quads")));
        let known = |quads: &[Quad]| {
            let known = known_quads(target, quads)?;
            let mut put_aside = put_aside.lock().expect("nothing panics holding it");
            let there = quads.iter().zip(&known).filter(|(_, known)| **known);
            there
                .map(|(quad, _)| quad)
                .try_for_each(|quad| put_aside.push(quad))?;
            Ok(known)
        };
        let (built, orders) = numbered.write(orders, Some(&known))?;
        progress.begin("seal", 0);
        let no_terms = writer.terms(&ends(target.snapshot), 0)?;
        let entry = writer.seal(no_terms, orders.into_list())?;
        let put_aside = put_aside.into_inner().expect("nothing panicked holding it");
        let bytes = entry.bytes() + new_terms.run().map_or(0, |run| run.entry().bytes());
        let report = LoadReport::new(built, bytes, &progress);
        // Quads of replaced graphs that stay were passed to the orders, too.
        let stayed = report.quads - entry.added.quads;
        Ok(Loaded {
            run: Arc::new(DeviceRun::open(target.pool, &entry)?),
            known: put_aside.finish()?,
            replaced,
            report: LoadReport {
                quads: entry.added.quads,
                known_quads: report.known_quads + stayed,
                removed_quads: entry.removed.quads,
                ..report
            },
        })
    }
}

impl Loaded {
    /// Sets the graphs to replace, if the store lacked their name when the run was begun. A commit beside the load may add it.
    pub(crate) fn replace_new(&mut self, graphs: Option<WholeGraphs>) {
        self.replaced = self.replaced.or(graphs);
    }

    /// Appends the corrections that undo those of the given changes, made since the snapshot, that affect loaded or
    /// replaced quads: then a quad that a commit has added is not added twice, and a quad that one has removed exists.
    /// Corrections of parts of the changes add up to the correction of all.
    pub(crate) fn correct(
        &mut self,
        changes: impl Iterator<Item = Result<(Quad, bool), StoreError>>,
        corrections: &mut Vec<(Quad, i32)>,
    ) -> Result<(), LoadError> {
        for change in changes {
            let (quad, added) = change?;
            let is_replaced = self.replaced.is_some_and(|graphs| graphs.has(&quad));
            if is_replaced || self.run.has(&quad, true)? || self.known.contains(&quad)? {
                corrections.push((quad, if added { -1 } else { 1 }));
            }
        }
        Ok(())
    }
}

/// Returns which of the quads the snapshot has. Not looked up are quads with a new term, and those of replaced graphs,
/// which are compared in each order.
fn known_quads(target: &RunTarget<'_>, quads: &[[u64; 4]]) -> Result<Vec<bool>, LoadError> {
    let is_old = |id: &u64| {
        let id = TermId(*id);
        kind_index(id.kind()).is_none_or(|index| id.payload() < target.first_terms[index])
    };
    let is_replaced = |quad: &Quad| target.replaced.is_some_and(|graphs| graphs.has(quad));
    let places: Vec<usize> = (0..quads.len())
        .filter(|&place| !is_replaced(&quads[place]) && quads[place].iter().all(is_old))
        .collect();
    let mut known = vec![false; quads.len()];
    if !places.is_empty() {
        let asked: Vec<[u64; 4]> = places.iter().map(|&place| quads[place]).collect();
        for (place, there) in places.into_iter().zip(target.snapshot.contains(&asked)?) {
            known[place] = there;
        }
    }
    Ok(known)
}
