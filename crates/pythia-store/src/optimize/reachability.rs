//! Building of a predicate's labels, in memory that is known in advance.

use pythia_io::{IoError, Page, PagedFile};
use pythia_rdf::TermId;

use super::intervals::{INTERVALS_MAX, Labels, NODES_MAX};
use crate::StoreError;
use crate::auxiliary::reachability::Reachability;
use crate::auxiliary::reachability::format::{Directory, Label, NodeComponent, Pages};
use crate::graph::{Components, Graph};
use crate::pace::Pace;
use crate::pattern::{Component, GraphFilter, IdBatch, Order, QuadPattern};
use crate::segment::tuple::PageSink;
use crate::snapshot::Snapshot;

/// Upper bounds of the bytes for building: for each node, for each edge, and for each node and interval.
const NODE_BYTES: u64 = 104;
const EDGE_BYTES: u64 = 12;
const INTERVAL_BYTES: u64 = 16;
const INTERVALS_MIN: u64 = 2;

/// Rebuilds the labels and compares them: for `pythia verify`. The first difference is an error.
pub(crate) fn verify(labels: &Reachability, snapshot: &Snapshot) -> Result<(), StoreError> {
    let mut sink = Comparison {
        file: labels.file(),
        next: 0,
    };
    let edges = Edges {
        snapshot,
        predicate: labels.predicate(),
        pace: &Pace::default(),
    };
    let expected = edges.write(labels.directory().intervals_max, &mut sink)?;
    if expected != *labels.directory() || sink.next != labels.file().page_count() {
        return Err(labels.corrupt(None, "its directory is not that of the predicate's edges"));
    }
    Ok(())
}

/// The condensed graph of edges, or of the reversed edges, whichever has shorter labels.
struct Labelled {
    components: Components,
    /// The numbers that the components have in the reversed graph.
    renumbered: Components,
    reversed: bool,
    dag: Graph,
    labels: Labels,
}

impl Labelled {
    /// Labels a graph with at most `most` intervals a component.
    fn new(graph: Graph, most: usize, pace: &Pace) -> Result<Self, StoreError> {
        let mut go_on = || pace.step();
        let components = Components::find(&graph, &mut go_on)?;
        let forward = graph.condensed(&components, &components.members(), components.numbers());
        drop(graph);
        let labels = Labels::new(&forward, &components.firsts, most, &mut go_on)?;
        let reversed = forward.reversed();
        let renumbered = Components::find(&reversed, &mut go_on)?;
        let backward = reversed.condensed(&renumbered, &renumbered.members(), renumbered.numbers());
        drop(reversed);
        let reverse_labels = Labels::new(&backward, &renumbered.firsts, most, &mut go_on)?;
        let reversed = reverse_labels.interval_count() < labels.interval_count();
        let (dag, labels) = match reversed {
            true => (backward, reverse_labels),
            false => (forward, labels),
        };
        Ok(Self {
            components,
            renumbered,
            reversed,
            dag,
            labels,
        })
    }

    /// Returns the component of a node.
    fn component(&self, node: usize) -> NodeComponent {
        let component = self.components.of[node];
        NodeComponent {
            component: match self.reversed {
                true => self.renumbered.of[component as usize],
                false => component,
            },
            cyclic: self.components.cyclic[component as usize],
        }
    }
}

/// Returns how many intervals a component may have for building to stay within `memory_bytes`.
///
/// # Errors
/// [`StoreError::MemoryTooSmall`] if that is not possible.
fn intervals_within(
    snapshot: &Snapshot,
    predicate: TermId,
    memory_bytes: usize,
) -> Result<u32, StoreError> {
    let (edges, nodes) = match snapshot.statistics().predicate(predicate) {
        Some(counts) => (counts.quads, counts.subjects + counts.objects),
        None => (0, 0),
    };
    if nodes > NODES_MAX as u64 {
        return Err(StoreError::TooLarge {
            what: format!("{nodes} ends of edges, and labels are for at most {NODES_MAX}"),
        });
    }
    let fixed = nodes * NODE_BYTES + edges * EDGE_BYTES;
    let each = (nodes * INTERVAL_BYTES).max(1);
    let most = (memory_bytes as u64).saturating_sub(fixed) / each;
    if most < INTERVALS_MIN {
        return Err(StoreError::MemoryTooSmall {
            what: "building reachability labels",
            needed_bytes: fixed + INTERVALS_MIN * each,
            given_bytes: memory_bytes as u64,
        });
    }
    Ok(most.min(INTERVALS_MAX as u64) as u32)
}

/// The edges of a predicate in the default graph, to be labelled.
pub(crate) struct Edges<'s> {
    pub(crate) snapshot: &'s Snapshot,
    pub(crate) predicate: TermId,
    pub(crate) pace: &'s Pace,
}

impl Edges<'_> {
    /// Builds labels with pages of [`PAGE_BYTES`](crate::auxiliary::reachability::format::PAGE_BYTES); returns the
    /// `directory` file.
    pub(crate) fn build(
        &self,
        memory_bytes: usize,
        sink: &mut impl PageSink,
    ) -> Result<Vec<u8>, StoreError> {
        let intervals = intervals_within(self.snapshot, self.predicate, memory_bytes)?;
        Ok(self.write(intervals, sink)?.to_bytes())
    }

    /// Labels the edges; passes the pages to `sink`.
    fn write(&self, intervals_max: u32, sink: &mut impl PageSink) -> Result<Directory, StoreError> {
        let ids = self.nodes()?;
        let graph = self.graph(&ids)?;
        let edge_count = graph.edges();
        let labelled = Labelled::new(graph, intervals_max as usize, self.pace)?;
        let Labelled { dag, labels, .. } = &labelled;
        let mut paced = Paced {
            sink,
            pace: self.pace,
        };
        let mut pages = Pages::new(&mut paced);
        let places = ids.iter().enumerate();
        let places = places.map(|(node, &id)| (id, labelled.component(node)));
        let node_pages = pages.nodes(places)?;
        let searched = |&component: &u32| !labels.is_exact(component);
        let count = dag.nodes() as u32;
        let mut links = 0;
        let label_pages = pages.labels((0..count).map(|component| {
            let own = if searched(&component) {
                dag.targets(component).len() as u64
            } else {
                0
            };
            links += own;
            Label {
                level: labels.levels[component as usize],
                intervals: labels.of(component).to_vec(),
                links: links - own..links,
            }
        }))?;
        let sources = (0..count).filter(searched);
        pages.links(sources.flat_map(|component| dag.targets(component).iter().copied()))?;
        Ok(Directory {
            predicate: self.predicate.0,
            reversed: labelled.reversed,
            intervals_max,
            edges: edge_count,
            nodes: ids.len() as u64,
            components: count,
            intervals: labels.interval_count(),
            exact: count - (0..count).filter(searched).count() as u32,
            links,
            node_pages,
            label_pages,
        })
    }

    fn scan(
        &self,
        order: Order,
        wanted: &[Component],
        mut f: impl FnMut(&IdBatch),
    ) -> Result<(), StoreError> {
        let pattern = QuadPattern {
            predicate: Some(self.predicate),
            graph: GraphFilter::One(TermId::DEFAULT_GRAPH),
            ..QuadPattern::default()
        };
        let mut scan = self.snapshot.scan(&pattern, order, wanted)?;
        let mut batch = IdBatch::default();
        while scan.next_into(&mut batch)? {
            self.pace.step()?;
            f(&batch);
        }
        Ok(())
    }

    /// Returns the terms at all ends, sorted.
    fn nodes(&self) -> Result<Vec<u64>, StoreError> {
        let mut nodes: Vec<u64> = Vec::new();
        for (order, component) in [
            (Order::Pso, Component::Subject),
            (Order::Pos, Component::Object),
        ] {
            self.scan(order, &[component], |batch| {
                nodes.extend_from_slice(&batch.columns[0]);
                nodes.dedup();
            })?;
        }
        // The list consists of two sorted runs, which this sort finds and merges.
        nodes.sort();
        nodes.dedup();
        nodes.shrink_to_fit();
        Ok(nodes)
    }

    fn graph(&self, ids: &[u64]) -> Result<Graph, StoreError> {
        let statistics = self.snapshot.statistics().predicate(self.predicate);
        let edges = statistics.map_or(0, |counts| counts.quads as usize);
        let mut builder = Graph::builder(ids.len(), edges);
        let mut source = 0;
        let wanted = [Component::Subject, Component::Object];
        self.scan(Order::Pso, &wanted, |batch| {
            for (&subject, &object) in batch.columns[0].iter().zip(&batch.columns[1]) {
                while ids[source] < subject {
                    source += 1;
                }
                let target = ids.binary_search(&object).expect("every object is a node");
                builder.push(source as u32, target as u32);
            }
        })?;
        Ok(builder.finish())
    }
}

/// A sink that takes a step with each page.
struct Paced<'s, S> {
    sink: &'s mut S,
    pace: &'s Pace,
}

impl<S: PageSink> PageSink for Paced<'_, S> {
    fn push_page(&mut self, page: &mut [u8]) -> Result<u64, StoreError> {
        self.pace.step()?;
        self.sink.push_page(page)
    }
}

/// A sink that compares pages with those of a file instead of writing them.
struct Comparison<'f> {
    file: &'f PagedFile,
    next: u64,
}

impl PageSink for Comparison<'_> {
    fn push_page(&mut self, page: &mut [u8]) -> Result<u64, StoreError> {
        let number = self.next;
        self.next += 1;
        let stored: Result<Page, IoError> = self.file.page(number);
        // The seal was checked when the page was read.
        if stored?[pythia_io::SEAL_BYTES..] != page[pythia_io::SEAL_BYTES..] {
            let message = "it is not what the predicate's edges give";
            return Err(StoreError::corrupt(self.file.name(), number, message));
        }
        Ok(number)
    }
}
