//! Batches of nodes: the changes of their edges, merged into the base's edges.

use pythia_rdf::TermId;

use super::Delta;
use super::device::DeviceRun;
use super::run::Run;
use crate::StoreError;
use crate::gallop::gallop_rows;
use crate::pattern::{End, Expansion, GraphFilter, QuadPattern};
use crate::scan;

/// The change of an edge of one of the expanded nodes. Sorts like the rows of an expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EdgeChange {
    source: u32,
    predicate: u64,
    other: u64,
    graph: u64,
    sum: i32,
}

impl EdgeChange {
    fn key(&self) -> (u32, u64, u64) {
        (self.source, self.predicate, self.other)
    }

    /// Returns the index of the expanded node, and the other end.
    pub(crate) fn edge(&self) -> (u32, u64) {
        (self.source, self.other)
    }

    pub(crate) fn is_added(&self) -> bool {
        self.sum > 0
    }
}

impl Delta {
    /// Returns the changes of the edges of `nodes`, which are sorted and distinct; sorted, each once.
    pub(crate) fn edge_changes(
        &self,
        end: End,
        nodes: &[TermId],
        predicate: Option<TermId>,
        graph: GraphFilter,
    ) -> Result<Vec<EdgeChange>, StoreError> {
        let mut changes = Vec::new();
        for run in &self.runs {
            if predicate.is_none_or(|predicate| run.predicate(predicate).is_some()) {
                of_run(run, end, nodes, predicate, graph, &mut changes);
            }
        }
        let mut inputs = self.runs.len();
        for run in &self.device {
            if predicate.is_none_or(|predicate| run.predicate(predicate) != (0, 0)) {
                of_device_run(run, end, nodes, predicate, graph, &mut changes)?;
                inputs += 2;
            }
        }
        if inputs > 1 {
            changes.sort_unstable();
            sum_up(&mut changes);
        }
        Ok(changes)
    }

    /// Returns, for each pair, the change in the number of quads that join it.
    pub(crate) fn probe(
        &self,
        predicate: TermId,
        pairs: &[(TermId, TermId)],
        graph: GraphFilter,
    ) -> Result<Vec<i64>, StoreError> {
        let mut sums = vec![0; pairs.len()];
        for run in &self.runs {
            if run.predicate(predicate).is_some() {
                for (sum, &pair) in sums.iter_mut().zip(pairs) {
                    *sum += run.probe(predicate, pair, graph);
                }
            }
        }
        for run in &self.device {
            if run.predicate(predicate) != (0, 0) {
                probe_device_run(run, predicate, pairs, graph, &mut sums)?;
            }
        }
        Ok(sums)
    }
}

fn probe_device_run(
    run: &DeviceRun,
    predicate: TermId,
    pairs: &[(TermId, TermId)],
    graph: GraphFilter,
    sums: &mut [i64],
) -> Result<(), StoreError> {
    let touches = |&index: &usize| {
        let (subject, object) = pairs[index];
        run.touches(End::Subject, subject, Some(predicate))
            && run.touches(End::Object, object, Some(predicate))
    };
    let touched: Vec<usize> = (0..pairs.len()).filter(touches).collect();
    if touched.is_empty() {
        return Ok(());
    }
    let pairs: Vec<_> = touched.iter().map(|&index| pairs[index]).collect();
    for (segment, sign) in [(run.added(), 1), (run.removed(), -1)] {
        let there = scan::probe(segment, predicate, &pairs, graph)?;
        for (&index, &(subject, object)) in touched
            .iter()
            .zip(&pairs)
            .zip(there)
            .filter_map(|(both, there)| there.then_some(both))
        {
            // In one graph a pair is joined once; in several it must be counted.
            sums[index] += sign
                * match graph {
                    GraphFilter::One(_) => 1,
                    GraphFilter::Any | GraphFilter::Named => scan::count(
                        segment,
                        &QuadPattern {
                            subject: Some(subject),
                            predicate: Some(predicate),
                            object: Some(object),
                            graph,
                        },
                    )? as i64,
                };
        }
    }
    Ok(())
}

/// Adds up the signs of equal changes, and drops those that cancel.
fn sum_up(changes: &mut Vec<EdgeChange>) {
    let mut kept: Vec<EdgeChange> = Vec::with_capacity(changes.len());
    for &change in changes.iter() {
        match kept.last_mut() {
            Some(last) if (last.key(), last.graph) == (change.key(), change.graph) => {
                last.sum += change.sum;
            }
            _ => kept.push(change),
        }
    }
    kept.retain(|change| change.sum != 0);
    *changes = kept;
}

fn of_run(
    run: &Run,
    end: End,
    nodes: &[TermId],
    predicate: Option<TermId>,
    graph: GraphFilter,
    changes: &mut Vec<EdgeChange>,
) {
    let rows = run.rows(end.order());
    let mut from = 0;
    let mut prefix = [0, predicate.map_or(0, |predicate| predicate.0)];
    let prefix_len = 1 + usize::from(predicate.is_some());
    for source in run.touched(end, nodes, predicate) {
        prefix[0] = nodes[source].0;
        from = rows.position(from, &prefix[..prefix_len], false);
        while from < rows.len() {
            let row = rows.row(from);
            if row[..prefix_len] != prefix[..prefix_len] {
                break;
            }
            if graph.accepts(TermId(row[3])) {
                changes.push(EdgeChange {
                    source: source as u32,
                    predicate: row[1],
                    other: row[2],
                    graph: row[3],
                    sum: rows.sign(from),
                });
            }
            from += 1;
        }
    }
}

fn of_device_run(
    run: &DeviceRun,
    end: End,
    nodes: &[TermId],
    predicate: Option<TermId>,
    graph: GraphFilter,
    changes: &mut Vec<EdgeChange>,
) -> Result<(), StoreError> {
    let touched = run.touched(end, nodes, predicate);
    if touched.is_empty() {
        return Ok(());
    }
    let nodes: Vec<TermId> = touched.iter().map(|&index| nodes[index]).collect();
    for (segment, sum) in [(run.added(), 1), (run.removed(), -1)] {
        let mut rows = Expansion::new(true, true);
        scan::expand(segment, end, &nodes, predicate, graph, &mut rows)?;
        changes.extend((0..rows.len()).map(|row| EdgeChange {
            source: touched[rows.source[row] as usize] as u32,
            predicate: rows.predicate[row],
            other: rows.other[row],
            graph: rows.graph[row],
            sum,
        }));
    }
    Ok(())
}

/// Appends the base's rows, with the changes applied, to `out`. `base` has predicates unless only one predicate is
/// wanted, and graphs if `out` wants them.
pub(crate) fn merge(
    base: &Expansion,
    changes: &[EdgeChange],
    predicate: Option<TermId>,
    out: &mut Expansion,
) -> Result<(), StoreError> {
    let predicate = predicate.map_or(0, |predicate| predicate.0);
    let predicate_of = |row: usize| base.predicate.get(row).copied().unwrap_or(predicate);
    // Without graphs, rows of an edge in several graphs look alike, and the sum of their changes counts.
    let graph_of = |row: usize| base.graph.get(row).copied().unwrap_or(0);
    let key = |row: usize| {
        (
            base.source[row],
            predicate_of(row),
            base.other[row],
            graph_of(row),
        )
    };
    let key_of = |change: &EdgeChange| {
        let graph = if base.with_graph { change.graph } else { 0 };
        (change.source, change.predicate, change.other, graph)
    };
    let mut row = 0;
    for same in changes.chunk_by(|a, b| key_of(a) == key_of(b)) {
        let wanted = key_of(&same[0]);
        let next = gallop_rows(row..base.len(), 1, |row| key(row) < wanted);
        out.append(base, row..next);
        row = next;
        let sum: i32 = same.iter().map(|change| change.sum).sum();
        for _ in 0..sum.max(0) {
            push(wanted, out);
        }
        for _ in 0..(-sum).max(0) {
            if row >= base.len() || key(row) != wanted {
                return Err(super::contradiction());
            }
            row += 1;
        }
    }
    out.append(base, row..base.len());
    Ok(())
}

fn push((source, predicate, other, graph): (u32, u64, u64, u64), out: &mut Expansion) {
    out.source.push(source);
    out.other.push(other);
    if out.with_predicate {
        out.predicate.push(predicate);
    }
    if out.with_graph {
        out.graph.push(graph);
    }
}
