//! Links that end in some terms, by the nodes that they start from.

use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::pattern::Room;
use pythia_store::{End, Expansion, GraphFilter, StoreError};

use super::context::QueryContext;
use super::runs::{Runs, RunsBuilder};
use crate::error::QueryError;
use crate::limits::governor::{Governor, Share};
use crate::limits::spill::rows::RowStore;
use crate::plan::step::EXPAND_NODES;

/// Number of terms whose links are read first; then always twice as many.
const FIRST_TERMS: usize = 8;
/// Bytes of a link while it is read: its far end twice, and the place of its node.
const LINK_BYTES: usize = 2 * size_of::<u64>() + size_of::<u32>();
/// Bytes of a link in a list that grows.
const LIST_BYTES: usize = 2 * size_of::<[u64; 2]>();

/// The links to read.
pub(super) struct Wanted<'a> {
    /// The terms in which they end, sorted.
    pub(super) terms: &'a [u64],
    /// The end at which these terms are.
    pub(super) end: End,
    pub(super) predicate: TermId,
    pub(super) graph: GraphFilter,
    /// Number of links that are worth their time so far.
    pub(super) most: usize,
}

/// Links that are being read.
pub(super) struct Reader {
    /// The node and the term of each link.
    links: Vec<[u64; 2]>,
    /// Number of terms whose links are read, and of those whose links are read next.
    terms: usize,
    together: usize,
    /// Their memory, once the first links are read.
    share: Option<Share>,
}

/// Progress of reading links.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    All,
    /// There are more than are worth their time so far.
    Part,
    /// There is no memory for all.
    NoMemory,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            links: Vec::new(),
            terms: 0,
            together: FIRST_TERMS,
            share: None,
        }
    }

    /// Reads more links, within a share of the query's memory. The terms must be the same each time.
    pub(super) fn read(
        &mut self,
        wanted: &Wanted<'_>,
        context: &QueryContext,
    ) -> Result<Progress, QueryError> {
        let room = FewLinks {
            most: wanted.most,
            governor: Arc::clone(context.governor()),
        };
        let mut expansion = Expansion::new(false, false).within(Arc::new(room));
        let share = (self.share).get_or_insert_with(|| Share::new(context.governor()));
        while self.terms < wanted.terms.len() {
            context.check()?;
            if self.links.len() > wanted.most {
                return Ok(Progress::Part);
            }
            let links_per_term = (self.links.len() / self.terms.max(1)).max(1);
            let fitting = (wanted.most - self.links.len()) / links_per_term + 1;
            let left = &wanted.terms[self.terms..];
            let terms = &left[..self.together.min(fitting).min(left.len())];
            let nodes: Vec<TermId> = terms.iter().map(|&term| TermId(term)).collect();
            expansion.clear();
            let predicate = Some(wanted.predicate);
            let (snapshot, graph) = (&context.snapshot, wanted.graph);
            match snapshot.expand(wanted.end, &nodes, predicate, graph, &mut expansion) {
                // One of many links may be among them.
                Err(StoreError::NoRoom { .. }) if terms.len() > 1 => {
                    self.together = terms.len() / 2;
                    continue;
                }
                Err(StoreError::NoRoom { .. }) => return Ok(Progress::Part),
                expanded => expanded?,
            }
            let count = self.links.len() + expansion.len();
            let bytes = held_bytes(&RowStore::new(1), count) + count * LIST_BYTES;
            if !share.fits(bytes + expansion.len() * LINK_BYTES) {
                return Ok(Progress::NoMemory);
            }
            let found = expansion.other.iter().zip(&expansion.source);
            let link = |(&node, &place): (&u64, &u32)| [node, terms[place as usize]];
            self.links.extend(found.map(link));
            self.terms += terms.len();
            self.together = (self.together * 2).min(EXPAND_NODES);
        }
        Ok(Progress::All)
    }

    /// Returns the links that were read.
    pub(super) fn finish(self) -> Result<LinksInto, QueryError> {
        let Self {
            links: mut sorted,
            share,
            ..
        } = self;
        let mut share = share.expect("links were read");
        sorted.sort_unstable();
        sorted.dedup();
        let (mut links, mut runs) = (RowStore::new(1), RunsBuilder::new());
        for &[node, term] in &sorted {
            links.push(&[term]);
            runs.push(&[node]);
        }
        drop(sorted);
        let runs = runs.finish();
        share.require(held_bytes(&links, 0))?;
        Ok(LinksInto {
            links,
            runs,
            _share: share,
        })
    }
}

/// The links of a predicate into some terms.
pub(super) struct LinksInto {
    /// The term of each link, sorted by the node and the term.
    links: RowStore,
    /// The links of each node.
    runs: Runs,
    /// Holds their memory.
    _share: Share,
}

impl LinksInto {
    /// Returns the terms to which a node is linked, sorted.
    pub(super) fn of(&self, node: u64) -> impl Iterator<Item = u64> {
        let found = self.runs.find(node);
        found.map(|link| self.links.row(link)[0])
    }
}

/// Returns the bytes of links and their runs, after adding `more` links.
fn held_bytes(links: &RowStore, more: usize) -> usize {
    links.bytes_with(more) + RunsBuilder::bytes_max(links.len() + more)
}

/// Room for a number of links, within the memory of the query.
#[derive(Debug)]
struct FewLinks {
    most: usize,
    governor: Arc<Governor>,
}

impl Room for FewLinks {
    fn require(&self, bytes: usize) -> Result<(), String> {
        if bytes / LINK_BYTES > self.most {
            return Err(format!("there are more than {} links", self.most));
        }
        Room::require(&*self.governor, bytes)
    }
}
