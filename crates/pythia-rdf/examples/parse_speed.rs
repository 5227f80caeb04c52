//! Measures the parser: `parse_speed FILE [THREADS] [count|check|hash|oxttl]`.
//!
//! `count` takes every key unchecked, `check` is what `pythia load --parse-only` does, `hash` keeps every
//! key in a hash table as a loader does, and `oxttl` is the library alone, on one thread, on a slice in memory.

use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use oxttl::{NQuadsParser, NTriplesParser};
use pythia_rdf::{
    CountingSink, ParseOptions, Progress, QuadSink, RdfFormat, SinkError, Source, TermError,
    TermId, TermKey, parse_sources,
};
use rustc_hash::FxBuildHasher;

/// Takes everything.
#[derive(Default)]
struct Count {
    quads: u64,
}

impl QuadSink for Count {
    type Term = ();

    fn key(
        &mut self,
        _: TermKey<'_>,
        _: impl FnOnce() -> Result<(), TermError>,
    ) -> Result<(), TermError> {
        Ok(())
    }

    fn inline(&mut self, _: TermId) {}

    fn default_graph(&mut self) {}

    fn quad(&mut self, (): (), (): (), (): (), (): ()) -> Result<(), SinkError> {
        self.quads += 1;
        Ok(())
    }
}

/// Numbers the keys by an open-addressing table of hashes over one arena of bytes, and keeps the quads.
struct Intern {
    slots: Vec<(u64, u32)>,
    starts: Vec<usize>,
    arena: Vec<u8>,
    quads: Vec<[u64; 4]>,
}

impl Intern {
    fn new() -> Self {
        Self {
            slots: vec![(0, u32::MAX); 1 << 16],
            starts: vec![0],
            arena: Vec::new(),
            quads: Vec::new(),
        }
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![(0, u32::MAX); old.len() * 2];
        let mask = self.slots.len() - 1;
        for (hash, number) in old {
            if number != u32::MAX {
                let mut at = (hash >> 20) as usize & mask;
                while self.slots[at].1 != u32::MAX {
                    at = (at + 1) & mask;
                }
                self.slots[at] = (hash, number);
            }
        }
    }
}

impl QuadSink for Intern {
    type Term = u64;

    fn key(
        &mut self,
        key: TermKey<'_>,
        validate: impl FnOnce() -> Result<(), TermError>,
    ) -> Result<u64, TermError> {
        let mut hasher = FxBuildHasher.build_hasher();
        hasher.write(key.bytes);
        hasher.write_u8(key.kind as u8);
        let hash = hasher.finish();
        let mask = self.slots.len() - 1;
        let mut at = (hash >> 20) as usize & mask;
        loop {
            let (known, number) = self.slots[at];
            if number == u32::MAX {
                break;
            }
            let range = self.starts[number as usize]..self.starts[number as usize + 1];
            if known == hash && &self.arena[range] == key.bytes {
                return Ok(u64::from(number));
            }
            at = (at + 1) & mask;
        }
        validate()?;
        let number = u32::try_from(self.starts.len() - 1).expect("fewer than 2^32 terms");
        self.arena.extend_from_slice(key.bytes);
        self.starts.push(self.arena.len());
        self.slots[at] = (hash, number);
        if self.starts.len() * 2 > self.slots.len() {
            self.grow();
        }
        Ok(u64::from(number))
    }

    fn inline(&mut self, id: TermId) -> u64 {
        id.0
    }

    fn default_graph(&mut self) -> u64 {
        0
    }

    fn quad(&mut self, s: u64, p: u64, o: u64, g: u64) -> Result<(), SinkError> {
        self.quads.push([s, p, o, g]);
        Ok(())
    }
}

fn run<S: QuadSink + Send>(path: &str, threads: usize, new: impl Fn() -> S) -> (u64, u64) {
    let source = Source::from_path(Path::new(path), None, None).expect("a file");
    let mut sinks: Vec<S> = (0..threads).map(|_| new()).collect();
    let report = parse_sources(
        vec![source],
        &ParseOptions::default(),
        &mut sinks,
        &Progress::default(),
    )
    .expect("valid");
    (report.quads, report.bytes)
}

fn library_alone(path: &str) -> (u64, u64) {
    let text = std::fs::read(path).expect("a plain file");
    let (format, _) = pythia_rdf::format::detect(Path::new(path));
    let start = Instant::now();
    let quads = if format == Some(RdfFormat::NQuads) {
        NQuadsParser::new()
            .for_slice(&text)
            .filter(Result::is_ok)
            .count()
    } else {
        NTriplesParser::new()
            .for_slice(&text)
            .filter(Result::is_ok)
            .count()
    };
    println!(
        "without reading the file: {:.3} s",
        start.elapsed().as_secs_f64()
    );
    (quads as u64, text.len() as u64)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(path) = arguments.first() else {
        eprintln!("usage: parse_speed FILE [THREADS] [count|check|hash|oxttl]");
        return ExitCode::from(2);
    };
    let threads = arguments
        .get(1)
        .map_or(1, |threads| threads.parse().expect("a number"));
    let modes: Vec<&str> = match arguments.get(2) {
        Some(mode) => vec![mode.as_str()],
        None => vec!["count", "check", "hash", "oxttl"],
    };
    for mode in modes {
        let start = Instant::now();
        let (quads, bytes) = match mode {
            "count" => run(path, threads, Count::default),
            "check" => run(path, threads, CountingSink::new),
            "hash" => run(path, threads, Intern::new),
            _ => library_alone(path),
        };
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{mode:6} {threads} threads: {quads} quads, {seconds:.3} s, {:.0} MB/s, {:.2} M quads/s",
            bytes as f64 / 1e6 / seconds,
            quads as f64 / 1e6 / seconds
        );
    }
    ExitCode::SUCCESS
}
