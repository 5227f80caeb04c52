//! The total order of `ORDER BY`, `MIN` and `MAX`, as bytes that compare like the terms.
//!
//! Unbound < blank nodes < IRIs < literals < triple terms. Blank nodes, IRIs and strings are sorted by code
//! point (strings then by language), booleans and numbers by value, dates and times by their instant (one
//! without a timezone as UTC, before one with), durations by length, and literals of unknown datatypes by
//! datatype and lexical form. Where SPARQL's `<` defines an order, this order agrees with it. Values that
//! are equal by `=` are equal here, so that later keys decide.
//!
//! The key of a row is one byte string: the keys of its columns are concatenated, those of descending
//! columns inverted.

use std::cmp::Ordering;
use std::ops::Range;

use oxrdf::BaseDirection;
use parking_lot::Mutex;
use pythia_rdf::inline::compare_instants;
use pythia_rdf::{TermId, TermKind};

use super::column::Column;
use super::context::EvaluationContext;
use super::decoded::Decoded;
use super::number::Number;
use super::temporal::Temporal;
use super::value::Value;
use super::{PART_ROWS, in_ranges};
use crate::error::QueryError;
use crate::limits::fork::fork;

/// Number of rows sorted at once, between checks of the deadline: about ten milliseconds.
const SORT_ROWS: usize = 1 << 18;
/// Minimum number of rows that one of several threads sorts at once.
const SORT_ROWS_MIN: usize = 1 << 13;
/// Number of parts that are sorted by several threads.
const PARTS: usize = 8;

/// One sort column.
#[derive(Clone, Copy, Debug)]
pub struct SortColumn<'a> {
    /// Raw ids, one per row.
    pub ids: &'a [u64],
    /// True to sort from the largest to the smallest.
    pub descending: bool,
}

/// The kinds of a column's ids and their largest payloads, which determine how ids become keys.
#[derive(Clone, Debug)]
pub struct ColumnKinds {
    kinds: u128,
    last: Box<[u64; 128]>,
}

impl Default for ColumnKinds {
    fn default() -> Self {
        Self {
            kinds: 0,
            last: Box::new([0; 128]),
        }
    }
}

impl ColumnKinds {
    /// Records some of the column's ids.
    pub fn observe(&mut self, ids: &[u64]) {
        for &id in ids {
            let number = usize::from(TermId(id).kind_number() & 127);
            self.kinds |= 1 << number;
            self.last[number] = self.last[number].max(TermId(id).payload());
        }
    }
}

/// Sort keys of some rows. Keys made for the same [`ColumnKinds`] compare with each other.
#[derive(Clone, Debug)]
pub struct SortKeys {
    encodings: Vec<Encoding>,
    keys: Keys,
}

/// Keys, one after the other.
#[derive(Clone, Debug, Default)]
struct Keys {
    bytes: Vec<u8>,
    /// End of each row's key in `bytes`.
    ends: Vec<usize>,
}

impl Keys {
    /// Adds the keys of some rows.
    fn write(
        &mut self,
        columns: &[SortColumn<'_>],
        encodings: &[Encoding],
        rows: Range<usize>,
        decoded: &Decoded,
    ) {
        for row in rows {
            for (column, encoding) in columns.iter().zip(encodings) {
                let start = self.bytes.len();
                encoding.write(TermId(column.ids[row]), decoded, &mut self.bytes);
                if column.descending {
                    self.bytes[start..]
                        .iter_mut()
                        .for_each(|byte| *byte = !*byte);
                }
            }
            self.ends.push(self.bytes.len());
        }
    }

    /// Adds keys behind the others.
    fn append(&mut self, other: &Self) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.ends.extend(other.ends.iter().map(|end| start + end));
    }
}

impl SortKeys {
    /// Makes an empty set of keys for columns whose ids were all observed. Texts are not read if the ids of
    /// a sorted dictionary can replace them.
    pub fn new(columns: &[ColumnKinds], context: &EvaluationContext) -> Self {
        Self {
            encodings: columns
                .iter()
                .map(|kinds| Encoding::choose(kinds, context))
                .collect(),
            keys: Keys::default(),
        }
    }

    /// Adds the keys of `rows` rows. Decodes the needed terms in one sorted batch, so some thousand rows at a time are best.
    pub fn extend(
        &mut self,
        columns: &[SortColumn<'_>],
        rows: usize,
        context: &EvaluationContext,
    ) -> Result<(), QueryError> {
        let Self { encodings, keys } = self;
        let mut decoded = Decoded::default();
        for (column, encoding) in columns.iter().zip(&*encodings) {
            let cells = Column::Ids(column.ids.into());
            decoded.require(context, &[&cells], |_, id| encoding.needs_text(id))?;
        }
        if decoded.is_empty() {
            keys.write(columns, encodings, 0..rows, &decoded);
            return Ok(());
        }
        let parts = in_ranges(rows, PART_ROWS, context, |rows| {
            let mut part = Keys::default();
            part.write(columns, encodings, rows, &decoded);
            Ok(part)
        })?;
        parts.iter().for_each(|part| keys.append(part));
        Ok(())
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.keys.ends.len()
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.keys.ends.is_empty()
    }

    /// Returns a row's key.
    pub fn key(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.keys.ends[row - 1] };
        &self.keys.bytes[start..self.keys.ends[row]]
    }

    /// Returns the first rows in order, no more than `limit`; the sort is stable.
    pub fn order(&self, limit: usize, context: &EvaluationContext) -> Result<Vec<u32>, QueryError> {
        let row_count = u32::try_from(self.len()).expect("fewer than 2^32 rows");
        let mut rows: Vec<(u64, u32)> = (0..row_count)
            .map(|row| (self.prefix(row as usize), row))
            .collect();
        if limit > 0 && limit < rows.len() && rows.len() <= SORT_ROWS {
            rows.select_nth_unstable_by(limit - 1, |a, b| self.compare(*a, *b));
            rows.truncate(limit);
        }
        let mut sorted = match context.governor().cores().are_free() {
            true => (rows.len() / PARTS).clamp(SORT_ROWS_MIN, SORT_ROWS),
            false => SORT_ROWS,
        };
        for_chunks(&mut rows, sorted, context, |chunk| {
            context.check()?;
            chunk.sort_unstable_by(|a, b| self.compare(*a, *b));
            Ok(())
        })?;
        while sorted < rows.len() {
            for_chunks(&mut rows, 2 * sorted, context, |pair| {
                match pair.len() > sorted {
                    true => self.merge(pair, sorted, context),
                    false => Ok(()),
                }
            })?;
            sorted *= 2;
        }
        Ok(rows.into_iter().take(limit).map(|(_, row)| row).collect())
    }

    /// Returns the bytes that [`Self::order`] needs for this many rows.
    pub fn order_bytes(rows: usize) -> usize {
        let merging = if rows > SORT_ROWS_MIN {
            rows / 2 + 1
        } else {
            0
        };
        (rows + merging) * size_of::<(u64, u32)>()
    }

    #[inline]
    fn compare(&self, a: (u64, u32), b: (u64, u32)) -> Ordering {
        a.0.cmp(&b.0).then_with(|| {
            let keys = (self.key(a.1 as usize), self.key(b.1 as usize));
            keys.0.cmp(keys.1).then(a.1.cmp(&b.1))
        })
    }

    /// Merges the sorted halves of `rows`. The first half has `middle` rows.
    fn merge(
        &self,
        rows: &mut [(u64, u32)],
        middle: usize,
        context: &EvaluationContext,
    ) -> Result<(), QueryError> {
        let left = rows[..middle].to_vec();
        let (mut l, mut r) = (0, middle);
        for place in 0..rows.len() {
            if place.is_multiple_of(SORT_ROWS) {
                context.check()?;
            }
            if l == left.len() {
                break;
            }
            if r < rows.len() && self.compare(rows[r], left[l]).is_lt() {
                rows[place] = rows[r];
                r += 1;
            } else {
                rows[place] = left[l];
                l += 1;
            }
        }
        Ok(())
    }

    /// Returns the first eight bytes of a row's key. Shorter keys have only one column, and none of them is
    /// a prefix of another.
    fn prefix(&self, row: usize) -> u64 {
        let key = self.key(row);
        match key.first_chunk::<8>() {
            Some(prefix) => u64::from_be_bytes(*prefix),
            None => {
                let mut prefix = [0; 8];
                prefix[..key.len()].copy_from_slice(key);
                u64::from_be_bytes(prefix)
            }
        }
    }

    /// Returns the bytes of the keys.
    pub fn memory_bytes(&self) -> usize {
        self.keys.bytes.capacity() + self.keys.ends.capacity() * size_of::<usize>()
    }
}

/// Works on chunks of rows, on all free cores.
fn for_chunks<T: Send>(
    rows: &mut [T],
    length: usize,
    context: &EvaluationContext,
    work: impl Fn(&mut [T]) -> Result<(), QueryError> + Sync,
) -> Result<(), QueryError> {
    if rows.len() <= length {
        return work(rows);
    }
    let chunks: Vec<_> = rows.chunks_mut(length).map(Mutex::new).collect();
    let work = |chunk: usize| work(*chunks[chunk].lock());
    fork(context.governor().cores(), chunks.len(), work).map(drop)
}

/// The encoding of the ids of one column as keys that compare with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    /// The ids themselves: all are of kinds whose ids sort like their terms.
    Id,
    /// Class and value. Dictionary ids of IRIs, blank nodes and strings replace their texts.
    ValueRanked,
    /// Class and value.
    Value,
}

impl Encoding {
    fn choose(column: &ColumnKinds, context: &EvaluationContext) -> Self {
        let ColumnKinds { kinds, last } = column;
        let has = |kind: TermKind| *kinds >> (kind as u8) & 1 == 1;
        let sorted = |kind: TermKind| {
            let limit = context.resolver().sorted_payloads(kind);
            !has(kind) || last[usize::from(kind as u8)] < limit
        };
        let ranked = [
            TermKind::BlankNode,
            TermKind::Iri,
            TermKind::String,
            TermKind::LangString,
        ]
        .into_iter()
        .all(sorted)
            && !has(TermKind::Computed)
            && !(has(TermKind::String) && has(TermKind::LangString));
        if !ranked {
            return Self::Value;
        }
        let in_id_order = [
            TermKind::Nothing,
            TermKind::BlankNode,
            TermKind::Iri,
            TermKind::String,
            TermKind::LangString,
            TermKind::Boolean,
            TermKind::Integer,
        ];
        let covered = in_id_order
            .iter()
            .fold(0, |mask, &kind| mask | 1_u128 << (kind as u8));
        if *kinds & !covered == 0 {
            Self::Id
        } else {
            Self::ValueRanked
        }
    }

    fn needs_text(self, id: TermId) -> bool {
        let ranked_kind = matches!(
            id.kind(),
            TermKind::BlankNode | TermKind::Iri | TermKind::String | TermKind::LangString
        );
        match self {
            Self::Id => false,
            Self::ValueRanked => !ranked_kind,
            Self::Value => true,
        }
    }

    fn write(self, id: TermId, decoded: &Decoded, out: &mut Vec<u8>) {
        if self == Self::Id {
            out.extend(id.0.to_be_bytes());
            return;
        }
        if !id.is_bound() {
            out.push(CLASS_UNBOUND);
        } else if id.kind().is_inline() || self.needs_text(id) {
            let value = decoded.value(id);
            write_value(&value.expect("a bound id has a value"), out);
        } else {
            out.push(match id.kind() {
                TermKind::BlankNode => CLASS_BLANK_NODE,
                TermKind::Iri => CLASS_IRI,
                _ => CLASS_TEXT,
            });
            out.extend(id.payload().to_be_bytes());
        }
    }
}

const CLASS_UNBOUND: u8 = 0;
const CLASS_BLANK_NODE: u8 = 1;
const CLASS_IRI: u8 = 2;
const CLASS_TEXT: u8 = 3;
const CLASS_BOOLEAN: u8 = 4;
const CLASS_NUMBER: u8 = 5;
const CLASS_TEMPORAL: u8 = 6;
const CLASS_DURATION: u8 = 20;
const CLASS_OTHER: u8 = 21;
const CLASS_TRIPLE: u8 = 22;

fn class(value: &Value<'_>) -> u8 {
    match value {
        Value::BlankNode(_) => CLASS_BLANK_NODE,
        Value::NamedNode(_) => CLASS_IRI,
        Value::String(_) | Value::LangString { .. } => CLASS_TEXT,
        Value::Boolean(_) => CLASS_BOOLEAN,
        Value::Number(_) | Value::Exact(_) => CLASS_NUMBER,
        Value::Temporal(value) => class_of(*value),
        Value::Duration(_) => CLASS_DURATION,
        Value::Other { .. } => CLASS_OTHER,
        Value::Triple(_) => CLASS_TRIPLE,
    }
}

fn class_of(value: Temporal) -> u8 {
    CLASS_TEMPORAL
        + match value {
            Temporal::Date(_) => 0,
            Temporal::DateTime(_) => 1,
            Temporal::GYear(_) => 2,
            Temporal::GYearMonth(_) => 3,
            Temporal::GMonth(_) => 4,
            Temporal::GMonthDay(_) => 5,
            Temporal::GDay(_) => 6,
            Temporal::Time(_) => 7,
        }
}

/// Writes a text, escaped so that its end sorts before every byte that could follow.
fn write_text(text: &str, out: &mut Vec<u8>) {
    for &byte in text.as_bytes() {
        out.push(byte);
        if byte == 0 {
            out.push(1);
        }
    }
    out.extend([0, 0]);
}

fn write_signed(value: i128, out: &mut Vec<u8>) {
    out.extend((value ^ i128::MIN).to_be_bytes());
}

fn write_value(value: &Value<'_>, out: &mut Vec<u8>) {
    out.push(class(value));
    match value {
        Value::BlankNode(text) | Value::NamedNode(text) => write_text(text, out),
        Value::String(text) => {
            write_text(text, out);
            write_text("", out);
            out.push(0);
        }
        Value::LangString {
            text,
            language,
            direction,
        } => {
            write_text(text, out);
            write_text(language, out);
            out.push(direction_rank(*direction));
        }
        Value::Boolean(value) => out.push((*value).into()),
        Value::Number(number) => {
            let (double, rest) = number.order_key();
            out.extend(double.to_be_bytes());
            write_signed(rest, out);
            write_text("", out);
        }
        Value::Exact(number) => {
            let (double, rest, digits) = number.order_key();
            out.extend(double.to_be_bytes());
            write_signed(rest, out);
            write_text(&digits, out);
        }
        Value::Temporal(value) => {
            let (instant, has_timezone) = value.instant();
            write_signed(instant, out);
            out.push(has_timezone.into());
        }
        Value::Duration(value) => {
            let (length, months) = value.order_key();
            write_signed(length, out);
            write_signed(months.into(), out);
        }
        Value::Other { lexical, datatype } => {
            write_text(datatype, out);
            write_text(lexical, out);
        }
        Value::Triple(triple) => {
            write_value(&Value::from_term(&triple.subject.clone().into()), out);
            write_value(&Value::from_term(&triple.predicate.clone().into()), out);
            write_value(&Value::from_term(&triple.object), out);
        }
    }
}

fn direction_rank(direction: Option<BaseDirection>) -> u8 {
    match direction {
        None => 0,
        Some(BaseDirection::Ltr) => 1,
        Some(BaseDirection::Rtl) => 2,
    }
}

/// Compares two values like their keys.
pub fn compare_values(a: &Value<'_>, b: &Value<'_>) -> Ordering {
    use Value as V;
    let text = |value| {
        super::text::Text::of(value).map(|text| {
            let (language, direction) = text.language.unwrap_or_default();
            (text.text, language, direction_rank(direction))
        })
    };
    match (a, b) {
        (V::Number(a), V::Number(b)) => a.total_cmp(*b),
        (V::Temporal(a), V::Temporal(b)) if class_of(*a) == class_of(*b) => {
            a.instant().cmp(&b.instant())
        }
        (V::BlankNode(a), V::BlankNode(b)) | (V::NamedNode(a), V::NamedNode(b)) => a.cmp(b),
        _ => class(a)
            .cmp(&class(b))
            .then_with(|| match (text(a), text(b)) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => {
                    let key = |value| {
                        let mut bytes = Vec::new();
                        write_value(value, &mut bytes);
                        bytes
                    };
                    key(a).cmp(&key(b))
                }
            }),
    }
}

/// Compares two bound ids; `None` if that needs their text.
pub(crate) fn compare_ids(a: TermId, b: TermId, context: &EvaluationContext) -> Option<Ordering> {
    let (a_kind, b_kind) = (a.kind(), b.kind());
    if a_kind.is_inline() && b_kind.is_inline() {
        if a == b || (a_kind == TermKind::Integer && b_kind == TermKind::Integer) {
            return Some(a.cmp(&b));
        }
        if let Some(order) = compare_instants(a, b) {
            return Some(order);
        }
        if let (Some(a), Some(b)) = (Number::from_inline(a), Number::from_inline(b)) {
            return Some(a.total_cmp(b));
        }
        return Some(compare_values(
            &Value::from_inline(a)?,
            &Value::from_inline(b)?,
        ));
    }
    if a == b {
        return Some(Ordering::Equal);
    }
    let ranked = |id: TermId| {
        matches!(
            id.kind(),
            TermKind::BlankNode | TermKind::Iri | TermKind::String | TermKind::LangString
        ) && id.payload() < context.resolver().sorted_payloads(id.kind())
    };
    (a_kind == b_kind && ranked(a) && ranked(b)).then(|| a.cmp(&b))
}

#[cfg(test)]
mod tests;
