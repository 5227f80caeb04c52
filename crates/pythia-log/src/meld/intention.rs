//! An intention: what a transaction has read and wants to write, as bytes of the shared log.
//!
//! Integers are LEB128, byte strings have their length before them:
//!
//! | field | |
//! |---|---|
//! | version | one byte, 1 |
//! | flags | one byte; bit 0: reads follow |
//! | snapshot | the position of the first intention that the transaction has not seen |
//! | reads | the number of keys, the keys in ascending order, the number of ranges; of each a byte, the first key, and the end if the byte is 1 |
//! | writes | their number; of each, in ascending order of keys, a byte, the key, and the value if the byte is 1 |

use pythia_io::bytes::{ByteReader, BytesError, push_bytes, push_varint};

use crate::{LogError, Position};

/// The name in errors, before the position is known.
const NAME: &str = "intention";
/// The version of the encoding.
const VERSION: u8 = 1;
/// Flag of an intention with reads.
const HAS_READS: u8 = 1;

/// A transaction as it is appended to the shared log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intention<'a> {
    /// The position of the first intention that the transaction has not seen.
    pub snapshot: Position,
    /// The reads, if they must not have changed: the transaction is serializable. `None`: it has snapshot isolation.
    pub reads: Option<Reads<'a>>,
    /// The writes, in ascending order of keys.
    pub writes: Vec<Write<'a>>,
}

/// Everything that a transaction has read, also what it did not find.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads<'a> {
    /// Keys, in ascending order.
    pub keys: Vec<&'a [u8]>,
    /// Ranges of keys.
    pub ranges: Vec<Range<'a>>,
}

/// A range of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range<'a> {
    /// The first key.
    pub from: &'a [u8],
    /// The key after the last; `None`: the range has no end.
    pub to: Option<&'a [u8]>,
}

/// A write of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// The value after the transaction; `None` removes the item.
    pub value: Option<&'a [u8]>,
}

impl Range<'_> {
    /// The range of all keys.
    pub const ALL: Self = Range {
        from: &[],
        to: None,
    };

    /// Returns whether the range begins at a key or before it.
    pub(super) fn begins_by(&self, key: &[u8]) -> bool {
        self.from <= key
    }

    /// Returns whether the range ends after a key.
    pub(super) fn ends_after(&self, key: &[u8]) -> bool {
        self.to.is_none_or(|to| key < to)
    }
}

impl<'a> Intention<'a> {
    /// Returns the encoding.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, if self.reads.is_some() { HAS_READS } else { 0 }];
        push_varint(&mut out, self.snapshot.0);
        if let Some(reads) = &self.reads {
            push_varint(&mut out, reads.keys.len() as u64);
            reads.keys.iter().for_each(|key| push_bytes(&mut out, key));
            push_varint(&mut out, reads.ranges.len() as u64);
            for range in &reads.ranges {
                push_pair(&mut out, range.from, range.to);
            }
        }
        push_varint(&mut out, self.writes.len() as u64);
        for write in &self.writes {
            push_pair(&mut out, write.key, write.value);
        }
        out
    }

    /// Reads the intention at a position of the log.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] if [`Self::encode`] cannot have made these bytes, or if its snapshot is later than its
    /// position; [`LogError::Version`] if a later program has.
    pub fn decode(bytes: &'a [u8], position: Position) -> Result<Self, LogError> {
        let mut input = ByteReader::new(NAME, bytes);
        let intention = Self::read(&mut input, position);
        let intention = intention.and_then(|intention| input.finish().map(|()| intention));
        intention.map_err(|error| named(error, position).into())
    }

    fn read(input: &mut ByteReader<'a>, position: Position) -> Result<Self, BytesError> {
        let version = input.u8()?;
        if version != VERSION {
            return Err(BytesError::Version {
                file: NAME.to_owned(),
                found: version.into(),
                supported: VERSION.into(),
            });
        }
        let flags = input.u8()?;
        if flags & !HAS_READS != 0 {
            return Err(input.corrupt("known flags of an intention"));
        }
        let snapshot = Position(input.varint()?);
        if snapshot > position {
            return Err(input.corrupt("a snapshot of intentions before this one"));
        }
        let has_reads = flags & HAS_READS != 0;
        Ok(Self {
            snapshot,
            reads: has_reads.then(|| Reads::read(input)).transpose()?,
            writes: read_writes(input)?,
        })
    }
}

impl<'a> Reads<'a> {
    fn read(input: &mut ByteReader<'a>) -> Result<Self, BytesError> {
        let count = input.count(1)?;
        let mut keys = Vec::with_capacity(count);
        for _ in 0..count {
            let key = input.bytes()?;
            check_order(input, keys.last().copied(), key)?;
            keys.push(key);
        }
        let count = input.count(2)?;
        let mut ranges = Vec::with_capacity(count);
        for _ in 0..count {
            let (from, to) = read_pair(input)?;
            ranges.push(Range { from, to });
        }
        Ok(Self { keys, ranges })
    }
}

fn read_writes<'a>(input: &mut ByteReader<'a>) -> Result<Vec<Write<'a>>, BytesError> {
    let count = input.count(2)?;
    let mut writes: Vec<Write<'a>> = Vec::with_capacity(count);
    for _ in 0..count {
        let (key, value) = read_pair(input)?;
        check_order(input, writes.last().map(|write| write.key), key)?;
        writes.push(Write { key, value });
    }
    Ok(writes)
}

fn check_order(
    input: &ByteReader<'_>,
    before: Option<&[u8]>,
    key: &[u8],
) -> Result<(), BytesError> {
    match before {
        Some(before) if before >= key => Err(input.corrupt("keys in ascending order")),
        _ => Ok(()),
    }
}

fn push_pair(out: &mut Vec<u8>, first: &[u8], second: Option<&[u8]>) {
    out.push(second.is_some().into());
    push_bytes(out, first);
    if let Some(second) = second {
        push_bytes(out, second);
    }
}

fn read_pair<'a>(input: &mut ByteReader<'a>) -> Result<(&'a [u8], Option<&'a [u8]>), BytesError> {
    let has_second = match input.u8()? {
        0 => false,
        1 => true,
        _ => return Err(input.corrupt("0 or 1 before this place")),
    };
    let first = input.bytes()?;
    let second = has_second.then(|| input.bytes()).transpose()?;
    Ok((first, second))
}

/// Returns the error with the position of the intention.
fn named(mut error: BytesError, position: Position) -> BytesError {
    let (BytesError::Corrupt { file, .. } | BytesError::Version { file, .. }) = &mut error;
    *file = format!("{NAME} {position}");
    error
}
