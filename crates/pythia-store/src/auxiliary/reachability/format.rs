//! The pages of reachability labels and their in-memory directory: `docs/format/auxiliary.md`.

use pythia_io::bytes::{ByteReader, ByteWriter, push_varint};

use crate::StoreError;
use crate::segment::bits::{BitWriter, bytes_for, read_bits, width_of};
use crate::segment::tuple::PageSink;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Bytes before a page's contents: seal, kind, widths, count, first number, first id.
const HEADER_BYTES: usize = 24;
/// Links on a page.
pub(crate) const LINKS_PER_PAGE: usize = (PAGE_BYTES - HEADER_BYTES) / 4;
const MAGIC: &[u8; 8] = b"pythiare";
const VERSION: u32 = 1;

/// The contents of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PageKind {
    /// Terms, each with its component.
    Nodes = 1,
    /// Components with their labels.
    Labels = 2,
    /// Components that edges lead to.
    Links = 3,
}

/// The in-memory directory of a file of labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directory {
    /// The predicate.
    pub(crate) predicate: u64,
    /// Whether labels describe the nodes that reach a node instead of those that it reaches.
    pub(crate) reversed: bool,
    /// Most intervals of a component.
    pub(crate) intervals_max: u32,
    /// Edges of the predicate.
    pub(crate) edges: u64,
    /// Terms at their ends.
    pub(crate) nodes: u64,
    /// Strongly connected components.
    pub(crate) components: u32,
    /// Intervals of all components together.
    pub(crate) intervals: u64,
    /// Components whose intervals are all exact.
    pub(crate) exact: u32,
    /// Edges between components that are kept for searching.
    pub(crate) links: u64,
    /// First term of every page of nodes.
    pub(crate) node_pages: Vec<u64>,
    /// First component of every page of labels.
    pub(crate) label_pages: Vec<u32>,
}

impl Directory {
    /// Returns the number of the first page of links, and of all pages.
    pub(crate) fn link_pages(&self) -> std::ops::Range<u64> {
        let first = (self.node_pages.len() + self.label_pages.len()) as u64;
        first..first + self.links.div_ceil(LINKS_PER_PAGE as u64)
    }

    /// Returns the `directory` file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = ByteWriter::new();
        out.varint(self.predicate);
        out.u8(u8::from(self.reversed));
        out.varint(self.intervals_max.into());
        out.varint(self.edges);
        out.varint(self.nodes);
        out.varint(self.components.into());
        out.varint(self.intervals);
        out.varint(self.exact.into());
        out.varint(self.links);
        write_ascending(&self.node_pages, &mut out);
        let firsts: Vec<u64> = self.label_pages.iter().map(|&n| n.into()).collect();
        write_ascending(&firsts, &mut out);
        out.framed(MAGIC, VERSION)
    }

    /// Reads the output of [`Self::to_bytes`]; `file` is for messages.
    pub(crate) fn from_bytes(file: &str, bytes: &[u8]) -> Result<Self, StoreError> {
        let (_, mut input) = ByteReader::framed(file, bytes, MAGIC, VERSION..=VERSION)?;
        let short = |input: &mut ByteReader<'_>| -> Result<u32, StoreError> {
            let value = input.varint()?;
            u32::try_from(value).map_err(|_| input.corrupt::<StoreError>("a number of 32 bits"))
        };
        let directory = Self {
            predicate: input.varint()?,
            reversed: input.u8()? != 0,
            intervals_max: short(&mut input)?,
            edges: input.varint()?,
            nodes: input.varint()?,
            components: short(&mut input)?,
            intervals: input.varint()?,
            exact: short(&mut input)?,
            links: input.varint()?,
            node_pages: read_ascending(&mut input)?,
            label_pages: read_ascending(&mut input)?
                .into_iter()
                .map(|first| {
                    u32::try_from(first).map_err(|_| input.corrupt::<StoreError>("components"))
                })
                .collect::<Result<_, _>>()?,
        };
        if directory.links > u64::from(u32::MAX) * LINKS_PER_PAGE as u64 {
            return Err(input.corrupt("a possible number of links"));
        }
        input.finish()?;
        Ok(directory)
    }
}

fn write_ascending(numbers: &[u64], out: &mut ByteWriter) {
    out.varint(numbers.len() as u64);
    let mut last = 0;
    for &number in numbers {
        out.varint(number - last);
        last = number;
    }
}

fn read_ascending(input: &mut ByteReader<'_>) -> Result<Vec<u64>, StoreError> {
    let count = input.count(1)?;
    let mut numbers = Vec::with_capacity(count);
    let mut last = 0_u64;
    for index in 0..count {
        let step = input.varint()?;
        let number = last.checked_add(step).filter(|_| step > 0 || index == 0);
        last = number.ok_or_else(|| input.corrupt::<StoreError>("numbers in order"))?;
        numbers.push(last);
    }
    Ok(numbers)
}

/// A term's component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeComponent {
    pub(crate) component: u32,
    /// Whether the component has an edge within.
    pub(crate) cyclic: bool,
}

/// A component's label, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Label {
    /// The length of the longest path from it.
    pub(crate) level: u32,
    /// Ascending.
    pub(crate) intervals: Vec<Interval>,
    /// The range of its links; empty if its intervals are exact.
    pub(crate) links: std::ops::Range<u64>,
}

/// ByteWriter of the three kinds of pages, each at once.
pub(crate) struct Pages<'s, S> {
    sink: &'s mut S,
    page: Vec<u8>,
}

impl<'s, S: PageSink> Pages<'s, S> {
    pub(crate) fn new(sink: &'s mut S) -> Self {
        let page = Vec::with_capacity(PAGE_BYTES);
        Self { sink, page }
    }

    fn begin(&mut self, kind: PageKind, widths: [u32; 2], count: usize, first: u32, id: u64) {
        self.page.clear();
        self.page.resize(4, 0);
        self.page.push(kind as u8);
        self.page.extend(widths.map(|width| width as u8));
        self.page.push(0);
        self.page.extend_from_slice(&(count as u32).to_le_bytes());
        self.page.extend_from_slice(&first.to_le_bytes());
        self.page.extend_from_slice(&id.to_le_bytes());
        debug_assert_eq!(self.page.len(), HEADER_BYTES);
    }

    fn end(&mut self) -> Result<(), StoreError> {
        self.page.resize(PAGE_BYTES, 0);
        self.sink.push_page(&mut self.page)?;
        Ok(())
    }

    /// Writes all terms, sorted, with their components; returns the first term of each page.
    pub(crate) fn nodes(
        &mut self,
        nodes: impl Iterator<Item = (u64, NodeComponent)>,
    ) -> Result<Vec<u64>, StoreError> {
        let mut firsts = Vec::new();
        let mut entries: Vec<(u64, u64)> = Vec::new();
        let mut widths = [0; 2];
        for (id, place) in nodes {
            let code = u64::from(place.component) << 1 | u64::from(place.cyclic);
            let first = entries.first().map_or(id, |entry| entry.0);
            let wider = [width_of(id - first), widths[1].max(width_of(code))];
            let bits = (entries.len() + 1) * (wider[0] + wider[1]) as usize;
            if HEADER_BYTES + bytes_for(bits) > PAGE_BYTES {
                self.node_page(&entries, widths, &mut firsts)?;
                entries.clear();
                widths = [0, width_of(code)];
            } else {
                widths = wider;
            }
            entries.push((id, code));
        }
        if !entries.is_empty() {
            self.node_page(&entries, widths, &mut firsts)?;
        }
        Ok(firsts)
    }

    fn node_page(
        &mut self,
        entries: &[(u64, u64)],
        widths: [u32; 2],
        firsts: &mut Vec<u64>,
    ) -> Result<(), StoreError> {
        let first = entries[0].0;
        firsts.push(first);
        self.begin(PageKind::Nodes, widths, entries.len(), 0, first);
        let mut bits = BitWriter::with_capacity(PAGE_BYTES);
        let ids = entries.iter().map(|entry| (entry.0 - first, widths[0]));
        let codes = entries.iter().map(|entry| (entry.1, widths[1]));
        ids.chain(codes)
            .for_each(|(value, width)| bits.append(value, width));
        self.page.extend_from_slice(&bits.into_bytes());
        self.end()
    }

    /// Writes the labels of components 0, 1, …; returns the first component of each page.
    pub(crate) fn labels(
        &mut self,
        labels: impl Iterator<Item = Label>,
    ) -> Result<Vec<u32>, StoreError> {
        let mut firsts = Vec::new();
        let (mut offsets, mut records) = (Vec::<u16>::new(), Vec::new());
        let mut first = 0;
        for label in labels {
            let start = records.len();
            write_label(first + offsets.len() as u32, &label, &mut records);
            if HEADER_BYTES + 2 * (offsets.len() + 1) + records.len() > PAGE_BYTES {
                let next = records.split_off(start);
                self.label_page(first, &offsets, &records)?;
                firsts.push(first);
                first += offsets.len() as u32;
                offsets.clear();
                records = next;
                offsets.push(0);
            } else {
                offsets.push(start as u16);
            }
        }
        if !offsets.is_empty() {
            self.label_page(first, &offsets, &records)?;
            firsts.push(first);
        }
        Ok(firsts)
    }

    fn label_page(
        &mut self,
        first: u32,
        offsets: &[u16],
        records: &[u8],
    ) -> Result<(), StoreError> {
        self.begin(PageKind::Labels, [0; 2], offsets.len(), first, 0);
        let offsets = offsets.iter().flat_map(|offset| offset.to_le_bytes());
        self.page.extend(offsets);
        self.page.extend_from_slice(records);
        self.end()
    }

    /// Writes the links of all components.
    pub(crate) fn links(&mut self, links: impl Iterator<Item = u32>) -> Result<(), StoreError> {
        let mut links = links.peekable();
        while links.peek().is_some() {
            let here: Vec<u32> = links.by_ref().take(LINKS_PER_PAGE).collect();
            self.begin(PageKind::Links, [0; 2], here.len(), 0, 0);
            self.page
                .extend(here.iter().flat_map(|link| link.to_le_bytes()));
            self.end()?;
        }
        Ok(())
    }
}

/// Writes intervals from the highest down, as differences: the highest ends at the component or below it.
fn write_label(component: u32, label: &Label, out: &mut Vec<u8>) {
    push_varint(out, label.level.into());
    push_varint(out, label.intervals.len() as u64);
    let mut above = component;
    for interval in label.intervals.iter().rev() {
        push_varint(out, (above - interval.high()).into());
        push_varint(
            out,
            (interval.len() - 1) << 1 | u64::from(interval.is_exact()),
        );
        above = interval.low;
    }
    if label.intervals.iter().any(|interval| !interval.is_exact()) {
        push_varint(out, label.links.start);
        push_varint(out, label.links.end - label.links.start);
    }
}

/// A page of one kind whose header was checked.
pub(crate) struct PageView<'p> {
    bytes: &'p [u8],
    widths: [u32; 2],
    count: usize,
    first: u32,
    first_id: u64,
}

impl<'p> PageView<'p> {
    /// Parses the page, if it is of this kind and large enough for its counts.
    pub(crate) fn new(bytes: &'p [u8], kind: PageKind) -> Result<Self, &'static str> {
        let field = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
        let view = Self {
            bytes: &bytes[HEADER_BYTES..],
            widths: [bytes[5].into(), bytes[6].into()],
            count: field(8) as usize,
            first: field(12),
            first_id: u64::from(field(20)) << 32 | u64::from(field(16)),
        };
        if bytes[4] != kind as u8 {
            return Err("it is a page of another kind");
        }
        let needed = match kind {
            PageKind::Nodes if view.widths.iter().any(|&width| width > 64) => usize::MAX,
            PageKind::Nodes => {
                bytes_for(view.count.min(1 << 20) * (view.widths[0] + view.widths[1]) as usize)
            }
            PageKind::Labels => view.count.saturating_mul(2),
            PageKind::Links => view.count.saturating_mul(4),
        };
        if needed > view.bytes.len() || view.count > 1 << 20 {
            return Err("it is too short for what it says it holds");
        }
        Ok(view)
    }

    fn node(&self, index: usize) -> u64 {
        let width = self.widths[0];
        let delta = read_bits(self.bytes, index * width as usize, width);
        self.first_id.wrapping_add(delta)
    }

    /// Returns a term's place, on a page of nodes.
    pub(crate) fn place(&self, id: u64) -> Option<NodeComponent> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if self.node(middle) < id {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low == self.count || self.node(low) != id {
            return None;
        }
        let [ids, codes] = self.widths;
        let offset = self.count * ids as usize + low * codes as usize;
        let code = read_bits(self.bytes, offset, codes);
        Some(NodeComponent {
            component: (code >> 1) as u32,
            cyclic: code & 1 == 1,
        })
    }

    /// Reads a component's label into `label`, on a page of labels.
    pub(crate) fn label(&self, component: u32, label: &mut Label) -> Result<(), &'static str> {
        const CUT: &str = "a label is cut short";
        let index = component
            .checked_sub(self.first)
            .map(|index| index as usize);
        let index = index.filter(|&index| index < self.count);
        let index = index.ok_or("it does not have the component the directory says it has")?;
        let offset = u16::from_le_bytes([self.bytes[2 * index], self.bytes[2 * index + 1]]);
        let records = &self.bytes[2 * self.count..];
        let record = records.get(usize::from(offset)..).ok_or(CUT)?;
        let mut input = ByteReader::new("", record);
        let mut next = || input.varint().map_err(|_| CUT);
        label.level = next()? as u32;
        label.intervals.clear();
        let mut above = u64::from(component);
        let mut is_exact = true;
        for _ in 0..next()? {
            let (gap, code) = (next()?, next()?);
            let high = above.checked_sub(gap);
            let low = high.and_then(|high| high.checked_sub(code >> 1));
            let (Some(low), Some(high)) = (low, high) else {
                return Err("an interval begins below 0");
            };
            is_exact &= code & 1 == 1;
            label
                .intervals
                .push(Interval::new(low as u32, high as u32, code & 1 == 1));
            above = low;
        }
        label.intervals.reverse();
        label.links = 0..0;
        if !is_exact {
            let (start, count) = (next()?, next()?);
            label.links = start..start.checked_add(count).ok_or(CUT)?;
        }
        Ok(())
    }

    /// Returns all links, on a page of links.
    pub(crate) fn links(&self) -> impl Iterator<Item = u32> + '_ {
        let bytes = self.bytes[..4 * self.count].chunks_exact(4);
        bytes.map(|link| u32::from_le_bytes([link[0], link[1], link[2], link[3]]))
    }
}

/// The numbers from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) low: u32,
    /// The last number, and in the lowest bit whether the interval is exact.
    code: u32,
}

impl Interval {
    pub(crate) fn new(low: u32, high: u32, exact: bool) -> Self {
        Self {
            low,
            code: high << 1 | u32::from(exact),
        }
    }

    pub(crate) fn high(self) -> u32 {
        self.code >> 1
    }

    pub(crate) fn is_exact(self) -> bool {
        self.code & 1 == 1
    }

    pub(crate) fn contains(self, number: u32) -> bool {
        (self.low..=self.high()).contains(&number)
    }

    /// Returns how many numbers it holds.
    pub(crate) fn len(self) -> u64 {
        u64::from(self.high() - self.low) + 1
    }
}
