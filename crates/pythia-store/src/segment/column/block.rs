//! One column of one block: up to [`BLOCK_ROWS`] values in the smallest of six forms.
//!
//! A block's minimum is stored outside (in its minipage's index, which is searched); the body holds the rest. Sorted
//! columns become deltas or runs, unsorted ones frames of reference, columns of few values a dictionary, columns of
//! mixed term kinds one body for each kind.

use pythia_io::bytes::{push_varint, varint_bytes};

use super::format::{BLOCK_ROWS, BadPage, tag, take_byte, take_varint, unzigzag, zigzag};
use super::pack::{pack, packed_bytes, unpack};
use crate::segment::bits::width_of;

/// Limit of the distinct values for a dictionary in a block.
const DISTINCT_MAX: usize = 128;
const TABLE_SLOTS: usize = 512;

/// Encoder of blocks, with its scratch memory.
pub(super) struct BlockEncoder {
    run_values: Vec<u64>,
    run_lengths: Vec<u64>,
    table: Box<[u16; TABLE_SLOTS]>,
    distinct: Vec<u64>,
    body: Vec<u8>,
    alternative: Vec<u8>,
}

impl BlockEncoder {
    pub(super) fn new() -> Self {
        Self {
            run_values: Vec::with_capacity(BLOCK_ROWS),
            run_lengths: Vec::with_capacity(BLOCK_ROWS),
            table: Box::new([0; TABLE_SLOTS]),
            distinct: Vec::with_capacity(DISTINCT_MAX + 1),
            body: Vec::new(),
            alternative: Vec::new(),
        }
    }

    /// Appends the body of `values` (at least one) to `out` and returns their minimum and maximum.
    pub(super) fn encode(&mut self, values: &[u64], out: &mut Vec<u8>) -> (u64, u64) {
        debug_assert!(!values.is_empty() && values.len() <= BLOCK_ROWS);
        let survey = Survey::of(values);
        let range = (survey.min, survey.max);
        if survey.min == survey.max {
            return range;
        }
        let start = out.len();
        put_simple(values, &survey, out);
        self.body.clear();
        if survey.changes * 2 < values.len() {
            self.runs(values, survey.min);
            self.keep_smaller(start, out);
        }
        if survey.min >> 56 != survey.max >> 56 && survey.descents > 0 {
            self.kinds(values);
            self.keep_smaller(start, out);
        }
        let may_repeat = survey.descents > 0 && (out.len() - start) * 4 > values.len();
        if may_repeat && self.find_distinct(values) {
            self.dictionary(values, survey.min);
            self.keep_smaller(start, out);
        }
        range
    }

    /// Replaces the bytes from `start` by the candidate in `self.body` if there is one and it is smaller.
    fn keep_smaller(&mut self, start: usize, out: &mut Vec<u8>) {
        if !self.body.is_empty() && self.body.len() < out.len() - start {
            out.truncate(start);
            out.extend_from_slice(&self.body);
        }
        self.body.clear();
    }

    fn runs(&mut self, values: &[u64], min: u64) {
        self.run_values.clear();
        self.run_lengths.clear();
        for run in values.chunk_by(|a, b| a == b) {
            self.run_values.push(run[0]);
            self.run_lengths.push(run.len() as u64 - 1);
        }
        let longest = self.run_lengths.iter().copied().max().unwrap_or(0);
        let width = width_of(longest);
        // At least two runs, as the block is not constant; at most half as many as there are rows.
        self.body
            .extend([tag::RUNS, self.run_values.len() as u8, width as u8]);
        pack(self.run_lengths.iter().copied(), width, &mut self.body);
        let survey = Survey::of(&self.run_values);
        debug_assert_eq!(survey.min, min);
        put_simple(&self.run_values, &survey, &mut self.body);
    }

    fn kinds(&mut self, values: &[u64]) {
        let mut kinds: Vec<u8> = values.iter().map(|value| (value >> 56) as u8).collect();
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.len() > 16 {
            return;
        }
        let width = width_of(kinds.len() as u64 - 1);
        self.body.extend([tag::KINDS, kinds.len() as u8]);
        let selector = |value: u64| {
            kinds
                .iter()
                .position(|&kind| kind == (value >> 56) as u8)
                .expect("kinds were collected from these values") as u64
        };
        pack(
            values.iter().map(|&value| selector(value)),
            width,
            &mut self.body,
        );
        for &kind in &kinds {
            let group = &mut self.run_values;
            group.clear();
            group.extend(values.iter().filter(|&value| (value >> 56) as u8 == kind));
            let survey = Survey::of(group);
            self.alternative.clear();
            if survey.min != survey.max {
                put_simple(group, &survey, &mut self.alternative);
            }
            push_varint(&mut self.body, survey.min.rotate_left(8));
            push_varint(&mut self.body, self.alternative.len() as u64);
            self.body.extend_from_slice(&self.alternative);
        }
    }

    /// Collects the distinct values, sorted; returns false if there are too many.
    fn find_distinct(&mut self, values: &[u64]) -> bool {
        self.distinct.clear();
        self.table.fill(0);
        // A dictionary pays off if values occur about twice: stop early if they do not.
        let most = (values.len() / 2).min(DISTINCT_MAX);
        for &value in values {
            let mut slot = (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55) as usize;
            loop {
                match self.table[slot] {
                    0 => {
                        if self.distinct.len() == most {
                            return false;
                        }
                        self.distinct.push(value);
                        self.table[slot] = self.distinct.len() as u16;
                        break;
                    }
                    entry if self.distinct[usize::from(entry) - 1] == value => break,
                    _ => slot = (slot + 1) % TABLE_SLOTS,
                }
            }
        }
        self.distinct.sort_unstable();
        true
    }

    fn dictionary(&mut self, values: &[u64], min: u64) {
        let count = self.distinct.len();
        self.alternative.clear();
        let survey = Survey::of(&self.distinct);
        debug_assert_eq!(survey.min, min);
        put_simple(&self.distinct, &survey, &mut self.alternative);
        self.body.extend([tag::DISTINCT, count as u8]);
        push_varint(&mut self.body, self.alternative.len() as u64);
        self.body.extend_from_slice(&self.alternative);
        let distinct = &self.distinct;
        let index = |value: &u64| {
            distinct
                .binary_search(value)
                .expect("every value was collected") as u64
        };
        pack(
            values.iter().map(index),
            width_of(count as u64 - 1),
            &mut self.body,
        );
    }
}

/// The results of one pass over the values.
struct Survey {
    min: u64,
    max: u64,
    /// Rows that differ from the previous row.
    changes: usize,
    /// Rows smaller than the previous row.
    descents: usize,
}

impl Survey {
    fn of(values: &[u64]) -> Self {
        let mut survey = Self {
            min: values[0],
            max: values[0],
            changes: 0,
            descents: 0,
        };
        for pair in values.windows(2) {
            survey.changes += usize::from(pair[0] != pair[1]);
            survey.descents += usize::from(pair[0] > pair[1]);
            survey.min = survey.min.min(pair[1]);
            survey.max = survey.max.max(pair[1]);
        }
        survey
    }
}

/// Appends the smaller of the frame form and the delta form.
fn put_simple(values: &[u64], survey: &Survey, out: &mut Vec<u8>) {
    let delta = DeltaPlan::of(values, survey);
    let frame_width = width_of(survey.max - survey.min);
    // A divisor only helps if the frame is wide, and costs a division for each value.
    let divisor = if frame_width >= 8 && delta.bytes > values.len() {
        common_divisor(values, survey.min)
    } else {
        1
    };
    let width = width_of((survey.max - survey.min) / divisor);
    let frame_bytes = 2 + varint_bytes(divisor) + packed_bytes(values.len(), width);
    if frame_bytes <= delta.bytes {
        out.extend([tag::FRAME, width as u8]);
        push_varint(out, divisor);
        if divisor == 1 {
            pack(values.iter().map(|value| value - survey.min), width, out);
        } else {
            let quotient = |value: &u64| (value - survey.min) / divisor;
            pack(values.iter().map(quotient), width, out);
        }
    } else {
        delta.put(values, survey, out);
    }
}

/// Returns the greatest common divisor of all differences to `min`.
fn common_divisor(values: &[u64], min: u64) -> u64 {
    let mut divisor = 0u64;
    for value in values {
        let mut rest = value - min;
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        if divisor == 1 {
            return 1;
        }
    }
    divisor.max(1)
}

/// The best delta form of some values.
struct DeltaPlan {
    /// The number subtracted from each difference.
    smallest: i64,
    width: u32,
    patches: usize,
    patch_width: u32,
    bytes: usize,
}

impl DeltaPlan {
    fn of(values: &[u64], survey: &Survey) -> Self {
        let patch_width = width_of(survey.max - survey.min);
        let (mut least, mut most, mut least_ascent) = (i64::MAX, i64::MIN, i64::MAX);
        let mut descents = 0;
        for pair in values.windows(2) {
            let delta = difference(pair);
            least = least.min(delta);
            most = most.max(delta);
            if delta >= 0 {
                least_ascent = least_ascent.min(delta);
            } else {
                descents += 1;
            }
        }
        let plain = Self {
            smallest: least,
            width: width_of(most.wrapping_sub(least) as u64),
            patches: 0,
            patch_width,
            bytes: 0,
        };
        let plain = plain.measured(values, survey);
        if least_ascent == i64::MAX || descents * 2 > values.len() {
            return plain;
        }
        // Descents start new sorted lists and become patches, like rare wide ascents.
        let mut counts = [0usize; 65];
        for pair in values.windows(2) {
            let delta = difference(pair);
            if delta >= 0 {
                counts[width_of((delta - least_ascent) as u64) as usize] += 1;
            }
        }
        let mut patches = descents;
        let mut best = (usize::MAX, 0, 0);
        for width in (0..=63usize).rev() {
            patches += counts[width + 1];
            let bits = (values.len() - 1) * width + patches * (8 + patch_width as usize);
            if bits < best.0 {
                best = (bits, width, patches);
            }
        }
        let patched = Self {
            smallest: least_ascent,
            width: best.1 as u32,
            patches: best.2,
            patch_width,
            bytes: 0,
        };
        let patched = patched.measured(values, survey);
        if patched.bytes < plain.bytes && patched.patches < 256 {
            patched
        } else {
            plain
        }
    }

    fn measured(mut self, values: &[u64], survey: &Survey) -> Self {
        self.bytes = 3
            + varint_bytes(values[0] - survey.min)
            + varint_bytes(zigzag(self.smallest))
            + packed_bytes(values.len() - 1, self.width);
        if self.patches > 0 {
            self.bytes += 1 + self.patches + packed_bytes(self.patches, self.patch_width);
        }
        self
    }

    /// Returns the packed number of a difference, `None` if it needs a patch.
    fn packed(&self, pair: &[u64]) -> Option<u64> {
        let delta = difference(pair);
        let number = delta.wrapping_sub(self.smallest) as u64;
        let fits = self.patches == 0 || (delta >= self.smallest && width_of(number) <= self.width);
        fits.then_some(number)
    }

    fn put(&self, values: &[u64], survey: &Survey, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([tag::DELTA, self.width as u8]);
        push_varint(out, values[0] - survey.min);
        push_varint(out, zigzag(self.smallest));
        out.push(self.patches as u8);
        if self.patches > 0 {
            out.push(self.patch_width as u8);
            let patched = || {
                let rows = values.windows(2).enumerate();
                rows.filter(|(_, pair)| self.packed(pair).is_none())
            };
            out.extend(patched().map(|(index, _)| index as u8 + 1));
            let value = |(_, pair): (usize, &[u64])| pair[1] - survey.min;
            pack(patched().map(value), self.patch_width, out);
        }
        let number = |pair| self.packed(pair).unwrap_or(0);
        pack(values.windows(2).map(number), self.width, out);
        debug_assert_eq!(out.len() - start, self.bytes);
    }
}

/// Ids are below 2^63, so a difference fits; wrapping is undone by decoding.
fn difference(pair: &[u64]) -> i64 {
    pair[1].wrapping_sub(pair[0]) as i64
}

/// Decodes a body of `out.len()` values.
pub(super) fn decode(body: &[u8], min: u64, out: &mut [u64]) -> Result<(), BadPage> {
    let mut rest = body;
    if rest.is_empty() {
        out.fill(min);
        return Ok(());
    }
    let tag = take_byte(&mut rest)?;
    match tag {
        tag::RUNS => decode_runs(rest, min, out),
        tag::KINDS => decode_kinds(rest, out),
        tag::DISTINCT => decode_distinct(rest, min, out),
        _ => decode_simple(tag, rest, min, out),
    }
}

fn decode_simple(tag: u8, rest: &[u8], min: u64, out: &mut [u64]) -> Result<(), BadPage> {
    match tag {
        tag::FRAME => decode_frame(rest, min, out),
        tag::DELTA => decode_delta(rest, min, out),
        _ => Err(BadPage("a block of unknown form")),
    }
}

/// Decodes a nested body: constant, frame or delta.
fn decode_nested(mut body: &[u8], min: u64, out: &mut [u64]) -> Result<(), BadPage> {
    if body.is_empty() {
        out.fill(min);
        return Ok(());
    }
    let tag = take_byte(&mut body)?;
    decode_simple(tag, body, min, out)
}

fn decode_frame(mut rest: &[u8], min: u64, out: &mut [u64]) -> Result<(), BadPage> {
    let width = u32::from(take_byte(&mut rest)?);
    let divisor = take_varint(&mut rest)?;
    unpack(rest, width, out)?;
    if divisor == 1 {
        for value in out {
            *value = min.wrapping_add(*value);
        }
    } else {
        for value in out {
            *value = min.wrapping_add(value.wrapping_mul(divisor));
        }
    }
    Ok(())
}

fn decode_delta(mut rest: &[u8], min: u64, out: &mut [u64]) -> Result<(), BadPage> {
    let width = u32::from(take_byte(&mut rest)?);
    let first = min.wrapping_add(take_varint(&mut rest)?);
    let smallest = unzigzag(take_varint(&mut rest)?) as u64;
    let patch_count = usize::from(take_byte(&mut rest)?);
    let mut patches = [0u64; BLOCK_ROWS];
    let patches = &mut patches[..patch_count];
    let mut positions: &[u8] = &[];
    if patch_count > 0 {
        let patch_width = u32::from(take_byte(&mut rest)?);
        let split = rest.split_at_checked(patch_count);
        (positions, rest) = split.ok_or(BadPage("a block ends in its middle"))?;
        let used = unpack(rest, patch_width, patches)?;
        rest = &rest[used..];
    }
    let Some((head, deltas)) = out.split_first_mut() else {
        return Ok(());
    };
    unpack(rest, width, deltas)?;
    *head = first;
    let mut value = first;
    let mut done = 0;
    for (&position, &patch) in positions.iter().zip(&*patches) {
        let until = usize::from(position).wrapping_sub(1);
        if until < done || until >= deltas.len() {
            return Err(BadPage("a patch outside its block"));
        }
        accumulate(&mut deltas[done..until], value, smallest);
        value = min.wrapping_add(patch);
        deltas[until] = value;
        done = until + 1;
    }
    accumulate(&mut deltas[done..], value, smallest);
    Ok(())
}

/// Turns differences into the values after `value`.
fn accumulate(deltas: &mut [u64], mut value: u64, smallest: u64) {
    for delta in deltas {
        value = value.wrapping_add(*delta).wrapping_add(smallest);
        *delta = value;
    }
}

fn decode_runs(mut rest: &[u8], min: u64, out: &mut [u64]) -> Result<(), BadPage> {
    let count = usize::from(take_byte(&mut rest)?);
    let width = u32::from(take_byte(&mut rest)?);
    let (mut lengths, mut values) = ([0u64; BLOCK_ROWS], [0u64; BLOCK_ROWS]);
    let used = unpack(rest, width, &mut lengths[..count])?;
    decode_nested(&rest[used..], min, &mut values[..count])?;
    let mut row = 0;
    for (&length, &value) in lengths.iter().zip(&values).take(count) {
        let end = row + length.min(BLOCK_ROWS as u64) as usize + 1;
        let run = out
            .get_mut(row..end)
            .ok_or(BadPage("runs longer than their block"))?;
        run.fill(value);
        row = end;
    }
    if row < out.len() {
        return Err(BadPage("runs shorter than their block"));
    }
    Ok(())
}

fn decode_kinds(mut rest: &[u8], out: &mut [u64]) -> Result<(), BadPage> {
    let count = usize::from(take_byte(&mut rest)?);
    if !(1..=16).contains(&count) {
        return Err(BadPage("a block of too many kinds"));
    }
    let mut selectors = [0u64; BLOCK_ROWS];
    let selectors = &mut selectors[..out.len()];
    let used = unpack(rest, width_of(count as u64 - 1), selectors)?;
    rest = &rest[used..];
    let mut values = [0u64; BLOCK_ROWS];
    let mut seen = 0;
    for kind in 0..count as u64 {
        let min = take_varint(&mut rest)?.rotate_right(8);
        let bytes = take_varint(&mut rest)?;
        let split = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| rest.split_at_checked(bytes));
        let body;
        (body, rest) = split.ok_or(BadPage("a block ends in its middle"))?;
        let rows = selectors.iter().filter(|&&selector| selector == kind);
        let group = &mut values[..rows.count()];
        decode_nested(body, min, group)?;
        let mut group = group.iter();
        for (slot, _) in out
            .iter_mut()
            .zip(&*selectors)
            .filter(|(_, selector)| **selector == kind)
        {
            *slot = *group.next().expect("as many as there are rows");
            seen += 1;
        }
    }
    if seen < out.len() {
        return Err(BadPage("a row of no kind"));
    }
    Ok(())
}

fn decode_distinct(mut rest: &[u8], min: u64, out: &mut [u64]) -> Result<(), BadPage> {
    let count = usize::from(take_byte(&mut rest)?);
    let bytes = take_varint(&mut rest)?;
    let split = usize::try_from(bytes)
        .ok()
        .and_then(|bytes| rest.split_at_checked(bytes));
    let (body, rest) = split.ok_or(BadPage("a block ends in its middle"))?;
    if count == 0 {
        return Err(BadPage("a dictionary without values"));
    }
    let mut values = [0u64; BLOCK_ROWS];
    decode_nested(body, min, &mut values[..count])?;
    unpack(rest, width_of(count as u64 - 1), out)?;
    for slot in out {
        let index = *slot as usize;
        if index >= count {
            return Err(BadPage("a row of no value"));
        }
        *slot = values[index];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(values: &[u64]) -> usize {
        let mut bytes = vec![7, 7];
        let (min, max) = BlockEncoder::new().encode(values, &mut bytes);
        assert_eq!(Some(&min), values.iter().min());
        assert_eq!(Some(&max), values.iter().max());
        let mut back = vec![0; values.len()];
        assert_eq!(decode(&bytes[2..], min, &mut back), Ok(()));
        assert_eq!(back, values);
        bytes.len() - 2
    }

    #[test]
    fn forms_are_as_small_as_they_should_be() {
        let iri = 0x10u64 << 56;
        let string = 0x20u64 << 56;
        let scattered = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
        let block = |f: &dyn Fn(u64) -> u64| (0..256).map(f).collect::<Vec<_>>();
        assert_eq!(round_trip(&block(&|_| iri | 77)), 0);
        assert!(round_trip(&block(&|i| iri | (1000 + i))) < 8);
        assert!(round_trip(&block(&|i| iri | (1000 + i * 3 + i % 2))) < 72);
        assert!(round_trip(&block(&|i| iri | scattered(i))) <= 256 * 20 / 8 + 4);
        // Values that all are multiples of a day, such as times at midnight.
        assert!(round_trip(&block(&|i| iri | (86_400_000 * (scattered(i) % 1000)))) < 340);
        // Few values, far apart, in no order.
        assert!(round_trip(&block(&|i| iri | (scattered(scattered(i) % 4) << 20))) < 100);
        // Runs of equal values.
        assert!(round_trip(&block(&|i| iri | ((i / 16) * 100_000))) < 60);
        // Sorted lists, one after the other.
        assert!(round_trip(&block(&|i| iri | ((i % 32) * 50 + i % 3 + (i / 32) * 7))) < 256);
        // Two kinds, alternating.
        let mixed = block(&|i| [iri, string][(scattered(i) % 2) as usize] | (scattered(i) % 1000));
        assert!(round_trip(&mixed) < 256 * 11 / 8 + 20);
    }

    fn values() -> impl Strategy<Value = Vec<u64>> {
        let kind = prop::sample::select(vec![0x08u64, 0x10, 0x10, 0x20, 0x22, 0x29, 0x7f]);
        let payload = prop_oneof![0u64..4, 0u64..1000, 0u64..1 << 30, 0u64..1 << 56];
        let value = (kind, payload).prop_map(|(kind, payload)| kind << 56 | payload);
        let wild = prop_oneof![4 => value, 1 => any::<u64>()];
        (prop::collection::vec(wild, 1..=256), 0..4u8, 1..9usize).prop_map(
            |(mut values, shape, repeat)| {
                match shape {
                    0 => values.sort_unstable(),
                    1 => {
                        values = values
                            .iter()
                            .flat_map(|value| std::iter::repeat_n(*value, repeat))
                            .take(256)
                            .collect();
                    }
                    2 => values.iter_mut().for_each(|value| *value &= !0xffff_ffff),
                    _ => {}
                }
                values
            },
        )
    }

    proptest! {
        #[test]
        fn any_values_come_back(values in values()) {
            round_trip(&values);
        }

        #[test]
        fn damaged_bodies_do_not_panic(
            values in values(),
            hits in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4),
            cut in any::<usize>(),
        ) {
            let mut bytes = Vec::new();
            let (min, _) = BlockEncoder::new().encode(&values, &mut bytes);
            for (position, byte) in hits {
                if !bytes.is_empty() {
                    let position = position % bytes.len();
                    bytes[position] = byte;
                }
            }
            let mut back = vec![0; values.len()];
            let _ = decode(&bytes, min, &mut back);
            let _ = decode(&bytes[..cut % (bytes.len() + 1)], min, &mut back);
        }
    }
}
