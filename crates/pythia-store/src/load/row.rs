//! Quads as single integers: subject, predicate, object and graph packed into as few bits as their largest values
//! need, the first component of an order in the highest bits. Integers then sort like quads, in one comparison.
//!
//! Subjects and objects are term numbers: ranks among all distinct terms of the load, including inline values.
//! Predicates and graphs are positions in their short lists. Each fits in 32 bits, so a row fits in a `u64` or, at
//! worst, a `u128`.

use std::fmt::Debug;
use std::ops::Range;

use super::radix;

/// A row that can be sorted externally.
pub(crate) trait SortRow: Copy + Ord + Debug + Send + Sync + 'static {
    /// The least row.
    const ZERO: Self;
    /// The most bytes that [`Self::write_after`] appends.
    const CODED_BYTES_MAX: usize;
    /// Sorts rows that are already in order except for `bits`. The content of `scratch` is undefined afterwards.
    fn sort(rows: &mut Vec<Self>, scratch: &mut Vec<Self>, bits: Range<u32>);
    /// Appends the encoding of the row relative to `before`, which is not greater.
    fn write_after(self, before: Self, out: &mut Vec<u8>);
    /// Decodes the row after `before`, and returns the bytes it took; `None` if `bytes` ends too early.
    fn read_after(before: Self, bytes: &[u8]) -> Option<(Self, usize)>;
}

/// An integer that holds a quad.
pub(super) trait Row: SortRow {
    /// Bytes of the integer.
    const BYTES: usize;
    /// Returns the row with `value` in the bits from `shift`, where it has zeros.
    fn with(self, value: u32, shift: u32) -> Self;
    /// Returns the bits from `shift`, masked by `mask`.
    fn get(self, shift: u32, mask: u32) -> u32;
}

macro_rules! row {
    ($integer:ty) => {
        impl Row for $integer {
            const BYTES: usize = size_of::<$integer>();
            #[inline]
            fn with(self, value: u32, shift: u32) -> Self {
                // A component of no bits may begin beyond the last one: its value is zero.
                self | <$integer>::from(value).wrapping_shl(shift)
            }
            #[inline]
            fn get(self, shift: u32, mask: u32) -> u32 {
                self.wrapping_shr(shift) as u32 & mask
            }
        }

        /// Encoded as the difference from the previous row, in LEB128 of this width (up to 128 bits, so not
        /// [`pythia_io::bytes::push_varint`]).
        impl SortRow for $integer {
            const ZERO: Self = 0;
            const CODED_BYTES_MAX: usize = (size_of::<$integer>() * 8).div_ceil(7);
            fn sort(rows: &mut Vec<Self>, scratch: &mut Vec<Self>, bits: Range<u32>) {
                radix::sort(rows, scratch, bits);
            }
            #[inline]
            fn write_after(self, before: Self, out: &mut Vec<u8>) {
                let mut distance = self - before;
                while distance >= 0x80 {
                    out.push(distance as u8 | 0x80);
                    distance >>= 7;
                }
                out.push(distance as u8);
            }
            #[inline]
            fn read_after(before: Self, bytes: &[u8]) -> Option<(Self, usize)> {
                let mut distance = 0;
                for (index, &byte) in bytes.iter().enumerate() {
                    distance |= Self::from(byte & 0x7f).checked_shl(7 * index as u32)?;
                    if byte < 0x80 {
                        return Some((before.checked_add(distance)?, index + 1));
                    }
                }
                None
            }
        }
    };
}
row!(u64);
row!(u128);

/// Ids of a quad in some order. Encoded as the number of components equal to those of the previous row, the
/// difference of the next one, and the rest unchanged.
impl SortRow for [u64; 4] {
    const ZERO: Self = [0; 4];
    const CODED_BYTES_MAX: usize = 1 + 4 * u64::CODED_BYTES_MAX;

    fn sort(rows: &mut Vec<Self>, _scratch: &mut Vec<Self>, _bits: Range<u32>) {
        rows.sort_unstable();
    }

    fn write_after(self, before: Self, out: &mut Vec<u8>) {
        let same = self.iter().zip(before).take_while(|(a, b)| **a == *b);
        let same = same.count();
        out.push(same as u8);
        for (place, value) in self.into_iter().enumerate().skip(same) {
            value.write_after(if place == same { before[place] } else { 0 }, out);
        }
    }

    fn read_after(before: Self, bytes: &[u8]) -> Option<(Self, usize)> {
        let same = usize::from(*bytes.first()?);
        let mut row = before;
        let mut used = 1;
        for (place, value) in row.iter_mut().enumerate().skip(same) {
            let from = if place == same { *value } else { 0 };
            let (next, taken) = u64::read_after(from, bytes.get(used..)?)?;
            *value = next;
            used += taken;
        }
        Some((row, used))
    }
}

/// A quad of term numbers (subject, object) and list positions (predicate, graph).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quad {
    pub(super) subject: u32,
    pub(super) predicate: u32,
    pub(super) object: u32,
    pub(super) graph: u32,
}

/// Bits of each component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Widths {
    pub(super) subject: u32,
    pub(super) predicate: u32,
    pub(super) object: u32,
    pub(super) graph: u32,
}

impl Widths {
    /// Returns the bits of components up to these values.
    pub(super) fn of(max: Quad) -> Self {
        let bits = |value: u32| u32::BITS - value.leading_zeros();
        Self {
            subject: bits(max.subject),
            predicate: bits(max.predicate),
            object: bits(max.object),
            graph: bits(max.graph),
        }
    }

    /// Returns the bits of a row.
    pub(super) fn total(self) -> u32 {
        self.subject + self.predicate + self.object + self.graph
    }
}

/// The order of the components in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowOrder {
    Spo,
    Pso,
    Ops,
    Pos,
    Gpso,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    shift: u32,
    mask: u32,
}

/// The places of the components in the rows of an order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    subject: Field,
    predicate: Field,
    object: Field,
    graph: Field,
}

impl Layout {
    /// Returns the layout of `order`.
    pub(super) fn new(order: RowOrder, widths: Widths) -> Self {
        let Widths {
            subject: s,
            predicate: p,
            object: o,
            graph: g,
        } = widths;
        let field = |bits: u32, after: u32| Field {
            shift: after,
            mask: u32::MAX.checked_shr(u32::BITS - bits).unwrap_or(0),
        };
        let (subject, predicate, object, graph) = match order {
            RowOrder::Spo => (p + o + g, o + g, g, 0),
            RowOrder::Pso => (o + g, s + o + g, g, 0),
            RowOrder::Ops => (g, s + g, p + s + g, 0),
            RowOrder::Pos => (g, o + s + g, s + g, 0),
            RowOrder::Gpso => (o, s + o, 0, p + s + o),
        };
        Self {
            subject: field(s, subject),
            predicate: field(p, predicate),
            object: field(o, object),
            graph: field(g, graph),
        }
    }

    /// Packs a quad into a row.
    #[inline]
    pub(super) fn pack<R: Row>(&self, quad: Quad) -> R {
        R::ZERO
            .with(quad.subject, self.subject.shift)
            .with(quad.predicate, self.predicate.shift)
            .with(quad.object, self.object.shift)
            .with(quad.graph, self.graph.shift)
    }

    /// Returns a row's quad.
    #[inline]
    pub(super) fn unpack<R: Row>(&self, row: R) -> Quad {
        let get = |field: Field| row.get(field.shift, field.mask);
        Quad {
            subject: get(self.subject),
            predicate: get(self.predicate),
            object: get(self.object),
            graph: get(self.graph),
        }
    }
}

/// Returns the bits, from the lowest, by which a stable sort brings rows from SPO order into `order`: the others are
/// in order already.
pub(super) fn bits_to_sort(order: RowOrder, widths: Widths) -> std::ops::Range<u32> {
    let Widths {
        subject: s,
        predicate: _,
        object: o,
        graph: g,
    } = widths;
    let from = match order {
        RowOrder::Spo => 0,
        RowOrder::Pso => s + o + g,
        RowOrder::Ops | RowOrder::Pos => s + g,
        RowOrder::Gpso => s + o,
    };
    from..widths.total()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check<R: Row>(quads: &[Quad], widths: Widths) {
        use RowOrder::{Gpso, Ops, Pos, Pso, Spo};
        for order in [Spo, Pso, Ops, Pos, Gpso] {
            let layout = Layout::new(order, widths);
            let key = |quad: &Quad| {
                let Quad {
                    subject: s,
                    predicate: p,
                    object: o,
                    graph: g,
                } = *quad;
                match order {
                    Spo => [s, p, o, g],
                    Pso => [p, s, o, g],
                    Ops => [o, p, s, g],
                    Pos => [p, o, s, g],
                    Gpso => [g, p, s, o],
                }
            };
            for a in quads {
                let row: R = layout.pack(*a);
                assert_eq!(layout.unpack(row), *a);
                for b in quads {
                    let other: R = layout.pack(*b);
                    assert_eq!(row.cmp(&other), key(a).cmp(&key(b)));
                    if row <= other {
                        let mut bytes = Vec::new();
                        other.write_after(row, &mut bytes);
                        assert_eq!(R::read_after(row, &bytes), Some((other, bytes.len())));
                        assert_eq!(R::read_after(row, &bytes[..bytes.len() - 1]), None);
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn rows_sort_like_quads(
            numbers in prop::collection::vec(any::<[u32; 4]>(), 1..8),
            bits in prop::array::uniform4(0_u32..=32),
        ) {
            let quads: Vec<Quad> = numbers
                .iter()
                .map(|numbers| {
                    let low = |index: usize| numbers[index].checked_shr(32 - bits[index]).unwrap_or(0);
                    Quad { subject: low(0), predicate: low(1), object: low(2), graph: low(3) }
                })
                .collect();
            let max = quads.iter().fold(quads[0], |max, quad| Quad {
                subject: max.subject.max(quad.subject),
                predicate: max.predicate.max(quad.predicate),
                object: max.object.max(quad.object),
                graph: max.graph.max(quad.graph),
            });
            let widths = Widths::of(max);
            check::<u128>(&quads, widths);
            if widths.total() <= 64 {
                check::<u64>(&quads, widths);
            }
        }
    }
}
