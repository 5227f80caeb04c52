//! Merging the batches' vocabularies: every distinct term of the load gets its number.
//!
//! A term's number is its rank among all distinct terms of the load in id order, inline values
//! included and the default graph first, so numbers sort like ids and are as small as can be. Each
//! batch gets the numbers of its ranks, which come out in order and can be spilled. The terms of
//! dictionary kinds go on to the dictionary.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use pythia_rdf::{TermId, TermKind};

use super::LoadError;
use super::batch::Batch;
use super::merge::LoserTree;
use super::temp::{Run, TempFile, TempSpace};
use super::vocabulary::KeyCursor;

/// Numbers buffered for a batch before they are written.
const BUFFERED_NUMBERS: usize = 1 << 14;
const SPANS: usize = 8;

/// Takes the distinct dictionary terms, sorted.
pub(super) trait TermSink {
    /// The next term.
    fn term(&mut self, kind: TermKind, key: &[u8]) -> Result<(), LoadError>;
    /// All terms were given.
    fn finish(&mut self) -> Result<(), LoadError>;
}

/// From numbers to ids.
#[derive(Debug)]
pub(super) struct TermNumbers {
    /// First number of each span of one kind; the inline values of all kinds are one span.
    starts: [u32; SPANS],
    /// What to add to a number of the span to get its id.
    bases: [u64; SPANS],
    /// Place of the inline values' span, [`SPANS`] if there are none.
    inline_span: usize,
    inline_start: u32,
    inline: Vec<u64>,
    count: u32,
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
        }
    }

    /// How many distinct terms there are, the default graph among them.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of memory in use.
    pub(super) fn bytes(&self) -> usize {
        self.inline.capacity() * 8
    }

    /// The id of a number.
    #[inline]
    pub(super) fn id(&self, number: u32) -> u64 {
        let span = self.starts.iter().map(|start| usize::from(number >= *start)).sum::<usize>() - 1;
        if span == self.inline_span {
            self.inline[(number - self.inline_start) as usize]
        } else {
            self.bases[span].wrapping_add(u64::from(number))
        }
    }

    /// Gives the next number to the term of this key, kind first.
    fn push(&mut self, key: &[u8], span: &mut Option<u8>, spans: &mut usize) -> Result<u32, LoadError> {
        let number = self.count;
        if number == u32::MAX {
            return Err(LoadError::TooManyTerms);
        }
        self.count += 1;
        let is_inline = TermKind::from_u8(key[0]).is_some_and(TermKind::is_inline);
        // The inline kinds are neighbours, so they make one span.
        let class = if is_inline { TermKind::Boolean as u8 } else { key[0] };
        if *span != Some(class) {
            *span = Some(class);
            self.starts[*spans] = number;
            self.bases[*spans] = (u64::from(key[0]) << TermId::PAYLOAD_BITS).wrapping_sub(u64::from(number));
            if is_inline {
                (self.inline_span, self.inline_start) = (*spans, number);
            }
            *spans += 1;
        }
        if is_inline {
            let bytes = key.first_chunk().expect("an inline key is an id's eight bytes");
            self.inline.push(u64::from_be_bytes(*bytes));
        }
        Ok(number)
    }
}

/// A batch's numbers by rank.
#[derive(Debug)]
pub(super) struct BatchNumbers {
    store: NumberStore,
    /// Numbers of its predicates, by position.
    pub(super) predicates: Vec<u32>,
    /// Numbers of its graphs, by position.
    pub(super) graphs: Vec<u32>,
    /// The highest number of a subject and of an object.
    pub(super) ends: [u32; 2],
}

#[derive(Debug)]
enum NumberStore {
    Memory(Vec<u32>),
    Run(Run, u32),
}

impl BatchNumbers {
    /// All numbers, in memory.
    pub(super) fn into_numbers(self) -> Result<Vec<u32>, LoadError> {
        match self.store {
            NumberStore::Memory(numbers) => Ok(numbers),
            NumberStore::Run(run, count) => {
                let mut reader = run.reader(1 << 20);
                let mut numbers = Vec::with_capacity(count as usize);
                while !reader.is_at_end() {
                    let bytes = reader.peek(4)?;
                    let (words, _) = bytes.as_chunks::<4>();
                    let used = words.len() * 4;
                    numbers.extend(words.iter().map(|word| u32::from_le_bytes(*word)));
                    reader.consume(used);
                }
                Ok(numbers)
            }
        }
    }
}

/// Collects one batch's numbers.
struct NumberWriter {
    buffer: Vec<u32>,
    rank: u32,
    /// Where full buffers go, and the next one's offset; `None` keeps all in memory.
    spill: Option<(Arc<TempFile>, Run, u64)>,
    /// Ranks whose numbers are asked for, descending.
    watched: Vec<u32>,
    seen: FxHashMap<u32, u32>,
}

impl NumberWriter {
    fn new(batch: &Batch, file: Option<&Arc<TempFile>>) -> Result<Self, LoadError> {
        let count = batch.vocabulary.len();
        let spill = match file {
            None => None,
            Some(file) => {
                let run = file.reserve(u64::from(count) * 4)?;
                let offset = run.offset();
                Some((Arc::clone(file), run, offset))
            }
        };
        let mut watched = [&batch.predicates[..], &batch.graphs[..], &batch.ends[..]].concat();
        watched.sort_unstable_by(|a, b| b.cmp(a));
        watched.dedup();
        Ok(Self {
            buffer: Vec::with_capacity(if file.is_some() { BUFFERED_NUMBERS } else { count as usize }),
            rank: 0,
            spill,
            watched,
            seen: FxHashMap::default(),
        })
    }

    #[inline]
    fn push(&mut self, number: u32) -> Result<(), LoadError> {
        if self.watched.last() == Some(&self.rank) {
            self.watched.pop();
            self.seen.insert(self.rank, number);
        }
        self.rank += 1;
        self.buffer.push(number);
        if self.spill.is_some() && self.buffer.len() == BUFFERED_NUMBERS {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), LoadError> {
        if let Some((file, _, offset)) = &mut self.spill {
            let bytes: Vec<u8> = self.buffer.iter().flat_map(|number| number.to_le_bytes()).collect();
            file.write_at(&bytes, *offset)?;
            *offset += bytes.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    fn finish(mut self, batch: &Batch) -> Result<BatchNumbers, LoadError> {
        self.flush()?;
        let number = |rank: &u32| self.seen[rank];
        Ok(BatchNumbers {
            predicates: batch.predicates.iter().map(number).collect(),
            graphs: batch.graphs.iter().map(number).collect(),
            ends: batch.ends.map(|rank| number(&rank)),
            store: match self.spill {
                None => NumberStore::Memory(self.buffer),
                Some((_, run, _)) => NumberStore::Run(run, self.rank),
            },
        })
    }
}

/// Merges the vocabularies of `batches` and hands the distinct dictionary terms to `sink`.
///
/// `buffer_bytes` are read of each spilled vocabulary at a time; numbers are spilled to `space`, if given.
pub(super) fn number_terms(
    batches: &[Batch],
    sink: &mut impl TermSink,
    buffer_bytes: usize,
    space: Option<&Arc<TempSpace>>,
) -> Result<(TermNumbers, Vec<BatchNumbers>), LoadError> {
    let mut terms = TermNumbers::new();
    let file = space.map(|space| space.file("term numbers")).transpose()?;
    let mut writers = Vec::with_capacity(batches.len());
    for batch in batches {
        writers.push(NumberWriter::new(batch, file.as_ref())?);
    }
    let mut heads = Vec::new();
    for (index, batch) in batches.iter().enumerate() {
        let mut cursor = batch.vocabulary.cursor(buffer_bytes);
        if cursor.advance()? {
            heads.push((index, cursor));
        }
    }
    merge(&mut heads, &mut writers, &mut terms, sink)?;
    let numbers: Result<Vec<BatchNumbers>, LoadError> = writers
        .into_iter()
        .zip(batches)
        .map(|(writer, batch)| writer.finish(batch))
        .collect();
    Ok((terms, numbers?))
}

fn merge(
    heads: &mut Vec<(usize, KeyCursor<'_>)>,
    writers: &mut [NumberWriter],
    terms: &mut TermNumbers,
    sink: &mut impl TermSink,
) -> Result<(), LoadError> {
    let (mut span, mut spans) = (None, 0);
    let mut last: Vec<u8> = Vec::new();
    let mut number = 0;
    while !heads.is_empty() {
        let less = |heads: &[(usize, KeyCursor<'_>)], a: usize, b: usize| heads[a].1.key() < heads[b].1.key();
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
            writers[*batch].push(number)?;
            if !cursor.advance()? {
                heads.swap_remove(winner);
                break;
            }
            tree.replay(|a, b| less(heads, a, b));
        }
    }
    Ok(())
}
