//! The pipeline with collecting sinks: the output is the sorted set of the input, regardless of the budget and the
//! number of threads.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pythia_rdf::{Compression, RdfFormat, Source, TermId, TermKind};

use super::numbering::TermSink;
use super::orders::{PerOrder, RowSink};
use super::pipeline::{Built, Parsed};
use super::{LoadError, LoadOptions, LoadProgress};

#[derive(Default)]
struct Terms(Vec<(TermKind, Vec<u8>)>);

impl TermSink for &mut Terms {
    fn term(&mut self, kind: TermKind, key: &[u8]) -> Result<(), LoadError> {
        self.0.push((kind, key.to_vec()));
        Ok(())
    }
    fn finish(&mut self) -> Result<Option<Vec<u64>>, LoadError> {
        Ok(None)
    }
}

/// Rows, of which there is only room for some.
struct Rows {
    rows: Vec<[u64; 4]>,
    room: usize,
}

impl RowSink for Rows {
    type Sealed = Vec<[u64; 4]>;
    fn row(&mut self, ids: [u64; 4]) -> Result<(), LoadError> {
        if self.rows.len() == self.room {
            return Err(LoadError::Refused("no room".into()));
        }
        self.rows.push(ids);
        Ok(())
    }
    fn seal(self) -> Result<Self::Sealed, LoadError> {
        Ok(self.rows)
    }
}

/// Statements with named graphs, repeats, all kinds of terms, and long shared prefixes.
pub(super) fn statement(number: u64) -> String {
    let mix = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let subject = match mix % 5 {
        0 => format!("_:b{}", mix % 301),
        _ => format!("<http://example.org/some/long/prefix/subject{}>", mix % 997),
    };
    let predicate = format!("<http://example.org/p{}>", mix % 13);
    let object = match mix % 7 {
        0 => format!(
            "\"{}\"^^<http://www.w3.org/2001/XMLSchema#integer>",
            mix % 5000
        ),
        1 => format!(
            "\"text {}\"@{}",
            mix % 1234,
            ["en", "de", "fr-CA"][(mix % 3) as usize]
        ),
        2 => format!("\"{}\"", "long ".repeat((mix % 40) as usize)),
        3 => format!("\"x{}\"^^<http://example.org/type>", mix % 77),
        4 => format!("<http://example.org/some/long/prefix/subject{}>", mix % 997),
        5 => format!(
            "\"00{}\"^^<http://www.w3.org/2001/XMLSchema#integer>",
            mix % 50
        ),
        _ => format!(
            "\"{}-01-0{}\"^^<http://www.w3.org/2001/XMLSchema#date>",
            1900 + mix % 150,
            1 + mix % 9
        ),
    };
    let graph = match mix % 3 {
        0 => String::new(),
        _ => format!(" <http://example.org/g{}>", mix % 4),
    };
    format!("{subject} {predicate} {object}{graph} .\n")
}

fn source(name: &str, text: &str) -> Source {
    let bytes = std::io::Cursor::new(text.to_owned().into_bytes());
    Source::from_reader(name.to_owned(), bytes, RdfFormat::NQuads, Compression::None)
        .expect("a source")
}

type Orders = PerOrder<Vec<[u64; 4]>>;

fn sinks() -> PerOrder<Rows> {
    let sink = || Rows {
        rows: Vec::new(),
        room: usize::MAX,
    };
    PerOrder {
        spo: sink(),
        ops: sink(),
        pso: sink(),
        pos: sink(),
        gpso: sink(),
    }
}

fn run(texts: &[String], memory_bytes: usize, threads: usize) -> (Built, Orders, Terms) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = LoadOptions {
        memory_bytes,
        tmp: folder.path().to_owned(),
        threads: NonZero::new(threads),
        ..LoadOptions::default()
    };
    let sources = texts
        .iter()
        .enumerate()
        .map(|(index, text)| source(&format!("{index}"), text));
    let mut terms = Terms::default();
    let progress = Arc::new(LoadProgress::default());
    let parsed = Parsed::new(sources.collect(), &options, &progress);
    let built = parsed.and_then(|parsed| parsed.write(&mut terms, sinks()));
    let (built, orders) = built.expect("loaded");
    let phase = progress.phase().expect("the last phase is not over");
    assert_eq!(phase.total, progress.done.load(Ordering::Relaxed));
    assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
    (built, orders, terms)
}

fn text_of(terms: &Terms, id: u64) -> String {
    let id = TermId(id);
    if id.kind().is_dictionary() {
        let first = terms
            .0
            .iter()
            .position(|(kind, _)| *kind == id.kind())
            .expect("a kind that occurs");
        let (kind, key) = &terms.0[first + id.payload() as usize];
        assert_eq!(*kind, id.kind());
        format!("{kind:?} {}", String::from_utf8_lossy(key))
    } else {
        format!("{id:?}")
    }
}

#[test]
fn the_result_depends_on_the_quads_alone() {
    let all: Vec<String> = (0..6000).map(statement).collect();
    let whole = [all.concat()];
    let (expected, expected_orders, expected_terms) = run(&whole, 1 << 30, 1);
    assert_eq!(expected.batches, 1);
    let mut shuffled = all.clone();
    shuffled.reverse();
    shuffled.extend_from_slice(&all[..500]);
    let parts: Vec<String> = shuffled.chunks(700).map(|part| part.concat()).collect();
    for (memory_bytes, threads) in [
        (1 << 30, 2),
        (1 << 30, 8),
        (1 << 20, 1),
        (1 << 20, 2),
        (1 << 16, 2),
        (1 << 14, 3),
    ] {
        let (built, orders, terms) = run(&parts, memory_bytes, threads);
        assert!(
            memory_bytes == 1 << 30 || built.batches > 1,
            "{} batches",
            built.batches
        );
        assert_eq!(built.parsed.quads, 6500);
        assert_eq!(built.quads, expected.quads);
        assert_eq!(built.terms, expected.terms);
        assert!(terms.0 == expected_terms.0, "other terms");
        for (orders, expected) in [
            (&orders.spo, &expected_orders.spo),
            (&orders.ops, &expected_orders.ops),
            (&orders.pso, &expected_orders.pso),
            (&orders.pos, &expected_orders.pos),
            (&orders.gpso, &expected_orders.gpso),
        ] {
            assert!(
                orders == expected,
                "other rows with {memory_bytes} bytes, {threads} threads"
            );
        }
    }
}

#[test]
fn every_order_holds_every_quad_once() {
    let statements: Vec<String> = (0..5000).map(statement).collect();
    let (built, sealed, terms) = run(&[statements.concat(), statements.concat()], 1 << 18, 2);
    assert!(terms.0.is_sorted());
    let spo: BTreeSet<[u64; 4]> = sealed.spo.iter().copied().collect();
    let distinct: BTreeSet<&String> = statements.iter().collect();
    assert_eq!(spo.len(), distinct.len());
    assert_eq!(built.quads, distinct.len() as u64);
    let orders = [
        (&sealed.spo, [0, 1, 2]),
        (&sealed.pso, [1, 0, 2]),
        (&sealed.ops, [2, 1, 0]),
        (&sealed.pos, [1, 2, 0]),
    ];
    for (rows, [a, b, c]) in orders {
        assert_eq!(rows.len(), spo.len());
        assert!(rows.is_sorted_by(|x, y| x < y));
        for row in rows {
            let mut quad = *row;
            (quad[a], quad[b], quad[c]) = (row[0], row[1], row[2]);
            assert!(spo.contains(&quad));
        }
    }
    assert!(sealed.gpso.is_sorted_by(|x, y| x < y));
    let of_named: BTreeSet<[u64; 4]> = sealed
        .gpso
        .iter()
        .map(|&[g, p, s, o]| [s, p, o, g])
        .collect();
    let named = spo.iter().filter(|quad| quad[3] != 0);
    assert!(!of_named.is_empty() && of_named.iter().eq(named));
    // The ids decode to the same texts.
    let texts: BTreeSet<String> = spo
        .iter()
        .map(|row| row.map(|id| text_of(&terms, id)).join(" "))
        .collect();
    assert_eq!(texts.len(), spo.len());
    assert!(
        texts
            .iter()
            .any(|text| text
                .contains("TypedLiteral 003\0\0http://www.w3.org/2001/XMLSchema#integer"))
    );
}

#[test]
fn nothing_in_is_nothing_out() {
    let (built, _, terms) = run(&[String::new()], 1 << 20, 2);
    assert_eq!((built.quads, built.terms, terms.0.len()), (0, 0, 0));
}

#[test]
fn an_order_that_cannot_be_written_is_an_error() {
    let text: String = (0..3000).map(statement).collect();
    for order in 0..5 {
        for room in [0, 1000] {
            for (memory_bytes, threads) in [(1 << 30, 1), (1 << 30, 2), (1 << 30, 8), (1 << 16, 2)]
            {
                let folder = tempfile::tempdir().expect("a temporary folder");
                let options = LoadOptions {
                    memory_bytes,
                    tmp: folder.path().to_owned(),
                    threads: NonZero::new(threads),
                    ..LoadOptions::default()
                };
                let mut sinks = sinks();
                let all = [
                    &mut sinks.spo,
                    &mut sinks.ops,
                    &mut sinks.pso,
                    &mut sinks.pos,
                    &mut sinks.gpso,
                ];
                all.into_iter().nth(order).expect("five orders").room = room;
                let progress = Arc::new(LoadProgress::default());
                let parsed = Parsed::new(vec![source("a", &text)], &options, &progress);
                let outcome = parsed.and_then(|parsed| parsed.write(&mut Terms::default(), sinks));
                let error = outcome.expect_err("no room");
                assert!(matches!(error, LoadError::Refused(_)), "{error}");
            }
        }
    }
}

#[test]
fn a_full_temporary_folder_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = LoadOptions {
        memory_bytes: 1 << 16,
        tmp: folder.path().to_owned(),
        tmp_bytes_max: Some(100_000),
        ..LoadOptions::default()
    };
    let text: String = (0..20_000).map(statement).collect();
    let progress = Arc::new(LoadProgress::default());
    let parsed = Parsed::new(vec![source("a", &text)], &options, &progress);
    let error = parsed.and_then(|parsed| parsed.write(&mut Terms::default(), sinks()));
    let error = error.expect_err("too little space");
    assert!(matches!(error, LoadError::TemporaryLimit { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains(&folder.path().display().to_string())
    );
}
