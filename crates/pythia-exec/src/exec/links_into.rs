//! Links that end in some terms, by the nodes that they start from.

use std::sync::Arc;

use pythia_rdf::TermId;
use pythia_store::pattern::Room;
use pythia_store::{End, Expansion, GraphFilter, StoreError};

use super::context::QueryContext;
use super::runs::Runs;
use crate::error::QueryError;
use crate::limits::governor::{Governor, Share};
use crate::limits::spill::rows::RowStore;
use crate::plan::step::EXPAND_NODES;

/// Number of terms whose links are read first; then always twice as many.
const FIRST_TERMS: usize = 8;
/// Bytes of a link while it is read: its far end twice, and the place of its node.
const LINK_BYTES: usize = 2 * size_of::<u64>() + size_of::<u32>();
/// Bytes of a link while links are sorted, in a list that grows.
const SORTED_BYTES: usize = 2 * size_of::<[u64; 2]>();

/// The links to read.
pub(super) struct Wanted<'a> {
    /// The terms in which they end, sorted.
    pub(super) terms: &'a [u64],
    /// The end at which these terms are.
    pub(super) end: End,
    pub(super) predicate: TermId,
    pub(super) graph: GraphFilter,
    /// If there are more links, they are not worth their time.
    pub(super) most: usize,
}

/// The links of a predicate into some terms.
pub(super) struct LinksInto {
    /// The node and the term of each link, sorted.
    links: RowStore,
    runs: Runs,
    /// Holds their memory.
    _share: Share,
}

impl LinksInto {
    /// Reads links. If there are too many, or too many for the memory, returns the share without memory.
    pub(super) fn read(
        wanted: &Wanted<'_>,
        mut share: Share,
        context: &QueryContext,
    ) -> Result<Result<Self, Share>, QueryError> {
        let Some(sorted) = wanted.sorted(&mut share, context)? else {
            share.require(0)?;
            return Ok(Err(share));
        };
        let mut links = RowStore::new(2);
        for link in &sorted {
            links.push(link);
        }
        drop(sorted);
        let runs = Runs::of(&links, 0);
        share.require(held_bytes(&links, 0))?;
        Ok(Ok(Self {
            links,
            runs,
            _share: share,
        }))
    }

    /// Returns the terms to which a node is linked, sorted.
    pub(super) fn of(&self, node: u64) -> impl Iterator<Item = u64> {
        let found = self.runs.find(&self.links, 0, node);
        found.map(|link| self.links.row(link)[1])
    }
}

impl Wanted<'_> {
    /// Returns the node and the term of each link, sorted; `None` if there are too many.
    fn sorted(
        &self,
        share: &mut Share,
        context: &QueryContext,
    ) -> Result<Option<Vec<[u64; 2]>>, QueryError> {
        let room = FewLinks {
            most: self.most,
            governor: Arc::clone(context.governor()),
        };
        let mut expansion = Expansion::new(false, false).within(Arc::new(room));
        let mut sorted: Vec<[u64; 2]> = Vec::new();
        let (mut left, mut together) = (self.terms, FIRST_TERMS);
        while !left.is_empty() {
            context.check()?;
            let (terms, later) = left.split_at(together.min(left.len()));
            let nodes: Vec<TermId> = terms.iter().map(|&term| TermId(term)).collect();
            expansion.clear();
            let predicate = Some(self.predicate);
            let (snapshot, graph) = (&context.snapshot, self.graph);
            match snapshot.expand(self.end, &nodes, predicate, graph, &mut expansion) {
                Err(StoreError::NoRoom { .. }) => return Ok(None),
                expanded => expanded?,
            }
            let count = sorted.len() + expansion.len();
            let links = RowStore::new(2);
            let bytes = held_bytes(&links, count) + count * SORTED_BYTES;
            if count > self.most || !share.fits(bytes + expansion.len() * LINK_BYTES) {
                return Ok(None);
            }
            let found = expansion.other.iter().zip(&expansion.source);
            sorted.extend(found.map(|(&node, &place)| [node, terms[place as usize]]));
            (left, together) = (later, (together * 2).min(EXPAND_NODES));
        }
        sorted.sort_unstable();
        sorted.dedup();
        Ok(Some(sorted))
    }
}

/// Returns the bytes of links and their runs, after adding `more` links.
fn held_bytes(links: &RowStore, more: usize) -> usize {
    links.bytes_with(more) + Runs::bytes(links.len() + more)
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
