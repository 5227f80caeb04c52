//! Merging of the batches' vocabularies: every distinct term of the load gets its number.
//!
//! A term's number is its rank among all distinct terms of the load in id order, including inline values, with the
//! default graph first, so numbers sort like ids and are as small as possible. Each batch gets the numbers of its
//! ranks, which come out in order and can be spilled. The terms of dictionary kinds are passed on to the dictionary.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustc_hash::FxHashMap;

use pythia_rdf::{TermId, TermKind};

use super::LoadError;
use super::batch::{Batch, BatchHeader, BatchRows};
use super::progress::LoadProgress;
use super::runs::{RunFile, RunWriter, WrittenRun};
use super::vocabulary::KeyCursor;
use crate::loser_tree::LoserTree;

/// Numbers written at a time.
const WRITTEN_NUMBERS: usize = 256;
const SPANS: usize = 8;
/// Keys between two updates of the progress.
const PROGRESS_KEYS: u64 = 1 << 14;

/// A sink for the distinct dictionary terms, sorted.
pub(super) trait TermSink {
    /// Takes the next term.
    fn term(&mut self, kind: TermKind, key: &[u8]) -> Result<(), LoadError>;
    /// Ends the terms. Returns their ids in the order in which they came, unless the ids are their ranks.
    fn finish(&mut self) -> Result<Option<Vec<u64>>, LoadError>;
}

/// The mapping from numbers to ids.
#[derive(Debug)]
pub(super) struct TermNumbers {
    /// First number of each span of one kind; the inline values of all kinds are one span.
    starts: [u32; SPANS],
    /// The difference between ids and numbers of each span.
    bases: [u64; SPANS],
    /// Index of the inline values' span, [`SPANS`] if there are none.
    inline_span: usize,
    inline_start: u32,
    inline: Vec<u64>,
    count: u32,
    /// Ids by number, if they are not ranks.
    ids: Option<Vec<u64>>,
}

impl TermNumbers {
    fn new() -> Self {
        Self {
            starts: [u32::MAX; SPANS],
            bases: [0; SPANS],
            inline_span: SPANS,
            inline_start: 0,
            inline: Vec::new(),
            count: 0,
            ids: None,
        }
    }

    /// Returns the number of distinct terms, including the default graph.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Returns the bytes of memory in use.
    pub(super) fn bytes(&self) -> usize {
        let ids = self.ids.as_ref().map_or(0, Vec::capacity);
        // With ids there is also the list of changed numbers.
        self.inline.capacity() * 8 + ids * 12
    }

    /// Gives the dictionary terms ids other than their ranks, in the order of their numbers. Changes the numbers,
    /// here and in the batches, so that they sort like ids again.
    pub(super) fn take_ids(&mut self, ids: Vec<u64>, batches: &mut [NumberedBatch]) {
        let mut given = ids.iter().copied();
        let mut by_id: Vec<(u64, u32)> = (0..self.count)
            .map(|number| {
                let id = TermId(self.id(number));
                let given = if id.kind().is_dictionary() {
                    given.next().expect("every dictionary term has an id")
                } else {
                    id.0
                };
                (given, number)
            })
            .collect();
        drop(ids);
        by_id.sort_unstable();
        let mut renumbered = vec![0; by_id.len()];
        for (new, &(_, old)) in by_id.iter().enumerate() {
            renumbered[old as usize] = new as u32;
        }
        self.ids = Some(by_id.into_iter().map(|(id, _)| id).collect());
        let renumbered = Arc::new(renumbered);
        let last = self.count.saturating_sub(1);
        for batch in batches {
            for number in batch.predicates.iter_mut().chain(&mut batch.graphs) {
                *number = renumbered[*number as usize];
            }
            batch.ends = [last; 2];
            batch.renumbered = Some(Arc::clone(&renumbered));
        }
    }

    /// Returns the id of a number.
    #[inline]
    pub(super) fn id(&self, number: u32) -> u64 {
        if let Some(ids) = &self.ids {
            return ids[number as usize];
        }
        let span = self
            .starts
            .iter()
            .map(|start| usize::from(number >= *start))
            .sum::<usize>()
            - 1;
        if span == self.inline_span {
            self.inline[(number - self.inline_start) as usize]
        } else {
            self.bases[span].wrapping_add(u64::from(number))
        }
    }

    /// Gives the next number to the term of this key, kind first.
    fn push(
        &mut self,
        key: &[u8],
        span: &mut Option<u8>,
        spans: &mut usize,
    ) -> Result<u32, LoadError> {
        let number = self.count;
        if number == u32::MAX {
            return Err(LoadError::TooManyTerms);
        }
        self.count += 1;
        let is_inline = TermKind::from_u8(key[0]).is_some_and(TermKind::is_inline);
        // The inline kinds are adjacent, so they make one span.
        let class = if is_inline {
            TermKind::Boolean as u8
        } else {
            key[0]
        };
        if *span != Some(class) {
            *span = Some(class);
            self.starts[*spans] = number;
            self.bases[*spans] =
                (u64::from(key[0]) << TermId::PAYLOAD_BITS).wrapping_sub(u64::from(number));
            if is_inline {
                (self.inline_span, self.inline_start) = (*spans, number);
            }
            *spans += 1;
        }
        if is_inline {
            let bytes = key
                .first_chunk()
                .expect("an inline key is an id's eight bytes");
            self.inline.push(u64::from_be_bytes(*bytes));
        }
        Ok(number)
    }
}

/// A batch whose terms have their numbers.
#[derive(Debug)]
pub(super) struct NumberedBatch {
    /// Its quads, as ranks.
    pub(super) rows: BatchRows,
    /// Numbers by rank.
    numbers: WrittenRun,
    count: u32,
    /// New numbers by old ones, if they have changed.
    renumbered: Option<Arc<Vec<u32>>>,
    /// Numbers of its predicates, by position.
    pub(super) predicates: Vec<u32>,
    /// Numbers of its graphs, by position.
    pub(super) graphs: Vec<u32>,
    /// The highest number of a subject and of an object.
    pub(super) ends: [u32; 2],
}

impl NumberedBatch {
    /// Returns the number of terms.
    pub(super) fn term_count(&self) -> u32 {
        self.count
    }

    /// Returns the quads, and all numbers by rank.
    pub(super) fn into_rows(self) -> Result<(BatchRows, Vec<u32>), LoadError> {
        let mut numbers = Vec::with_capacity(self.count as usize);
        let mut reader = self.numbers.into_reader(1 << 18);
        loop {
            let bytes = reader.peek(4)?;
            if bytes.is_empty() {
                return Ok((self.rows, numbers));
            }
            let (words, _) = bytes.as_chunks::<4>();
            if words.is_empty() {
                return Err(reader.cut_short());
            }
            let used = words.len() * 4;
            let read = words.iter().map(|word| u32::from_le_bytes(*word));
            match &self.renumbered {
                None => numbers.extend(read),
                Some(renumbered) => numbers.extend(read.map(|old| renumbered[old as usize])),
            }
            reader.consume(used);
        }
    }
}

/// Writer of one batch's numbers.
struct NumberWriter {
    out: RunWriter,
    bytes: Vec<u8>,
    rank: u32,
    /// Ranks whose numbers are needed, descending.
    watched: Vec<u32>,
    seen: FxHashMap<u32, u32>,
}

impl NumberWriter {
    fn new(batch: &BatchHeader, out: RunWriter) -> Self {
        let mut watched = [&batch.predicates[..], &batch.graphs[..], &batch.ends[..]].concat();
        watched.sort_unstable_by(|a, b| b.cmp(a));
        watched.dedup();
        Self {
            out,
            bytes: Vec::with_capacity(4 * WRITTEN_NUMBERS),
            rank: 0,
            watched,
            seen: FxHashMap::default(),
        }
    }

    #[inline]
    fn push(&mut self, number: u32) -> Result<(), LoadError> {
        if self.watched.last() == Some(&self.rank) {
            self.watched.pop();
            self.seen.insert(self.rank, number);
        }
        self.rank += 1;
        self.bytes.extend_from_slice(&number.to_le_bytes());
        if self.bytes.len() == 4 * WRITTEN_NUMBERS {
            self.out.write(&self.bytes)?;
            self.bytes.clear();
        }
        Ok(())
    }

    fn finish(mut self, batch: BatchHeader) -> Result<NumberedBatch, LoadError> {
        self.out.write(&self.bytes)?;
        let number = |rank: &u32| self.seen[rank];
        Ok(NumberedBatch {
            predicates: batch.predicates.iter().map(number).collect(),
            graphs: batch.graphs.iter().map(number).collect(),
            ends: batch.ends.map(|rank| number(&rank)),
            rows: batch.rows,
            count: self.rank,
            renumbered: None,
            numbers: self.out.finish()?,
        })
    }
}

/// Merges the vocabularies of `batches` and passes the distinct dictionary terms to `sink`.
///
/// Reads up to `buffer_bytes` of each vocabulary at a time, and writes the batches' numbers to `file` in blocks of
/// the same size.
pub(super) fn number_terms(
    batches: Vec<Batch>,
    sink: &mut impl TermSink,
    file: &Arc<RunFile>,
    buffer_bytes: usize,
    progress: &LoadProgress,
) -> Result<(TermNumbers, Vec<NumberedBatch>), LoadError> {
    let mut terms = TermNumbers::new();
    let mut heads = Vec::with_capacity(batches.len());
    let mut writers = Vec::with_capacity(batches.len());
    for (index, batch) in batches.into_iter().enumerate() {
        let (vocabulary, header) = batch.split();
        writers.push((NumberWriter::new(&header, file.run(buffer_bytes)), header));
        let mut cursor = vocabulary.into_cursor(buffer_bytes);
        if cursor.advance()? {
            heads.push((index, cursor));
        }
    }
    merge(&mut heads, &mut writers, &mut terms, sink, progress)?;
    let batches = writers
        .into_iter()
        .map(|(writer, header)| writer.finish(header));
    let batches: Result<Vec<NumberedBatch>, LoadError> = batches.collect();
    Ok((terms, batches?))
}

fn merge(
    heads: &mut Vec<(usize, KeyCursor)>,
    writers: &mut [(NumberWriter, BatchHeader)],
    terms: &mut TermNumbers,
    sink: &mut impl TermSink,
    progress: &LoadProgress,
) -> Result<(), LoadError> {
    let mut keys = 0_u64;
    let (mut span, mut spans) = (None, 0);
    let mut last: Vec<u8> = Vec::new();
    let mut number = 0;
    while !heads.is_empty() {
        let less =
            |heads: &[(usize, KeyCursor)], a: usize, b: usize| heads[a].1.key() < heads[b].1.key();
        let mut tree = LoserTree::new(heads.len(), |a, b| less(heads, a, b));
        // Until a vocabulary ends.
        loop {
            let winner = tree.winner();
            let (batch, cursor) = &mut heads[winner];
            let key = cursor.key();
            if key != last {
                number = terms.push(key, &mut span, &mut spans)?;
                match TermKind::from_u8(key[0]) {
                    Some(kind) if kind.is_dictionary() => sink.term(kind, &key[1..])?,
                    _ => {}
                }
                last.clear();
                last.extend_from_slice(key);
            }
            writers[*batch].0.push(number)?;
            keys += 1;
            if keys.is_multiple_of(PROGRESS_KEYS) {
                progress.done.store(keys, Ordering::Relaxed);
            }
            if !cursor.advance()? {
                heads.swap_remove(winner);
                break;
            }
            tree.replay(|a, b| less(heads, a, b));
        }
    }
    Ok(())
}
