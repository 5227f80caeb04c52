//! The line parser must do what oxttl does: the same quads, or an error at the same place.

use std::hash::{Hash, Hasher};

use oxrdf::Quad;
use oxttl::NQuadsParser;
use oxttl::NTriplesParser;
use proptest::prelude::*;
use pythia_rdf::{ParseError, RdfFormat};

use crate::collect::{options, parse_all, source};

/// Oxttl's quads, and the lines (from 1) that have errors.
fn oxttl(text: &[u8], format: RdfFormat) -> (Vec<Quad>, Vec<u64>) {
    let (mut quads, mut bad_lines) = (Vec::new(), Vec::new());
    // Line by line, as a reader does when it skips bad lines: oxttl may run on over a line end inside a bad token.
    let mut number = 0;
    for line in text.split(|byte| *byte == b'\n') {
        number += 1;
        let results: Vec<Result<Quad, _>> = if format == RdfFormat::NQuads {
            NQuadsParser::new().for_slice(line).collect()
        } else {
            NTriplesParser::new()
                .for_slice(line)
                .map(|triple| triple.map(|triple| triple.in_graph(oxrdf::GraphName::DefaultGraph)))
                .collect()
        };
        match results.into_iter().collect::<Result<Vec<_>, _>>() {
            Ok(found) => quads.extend(found),
            Err(_) => bad_lines.push(number),
        }
    }
    (quads, bad_lines)
}

/// What oxttl makes of the whole text in one go.
fn oxttl_accepts(text: &[u8], format: RdfFormat) -> Option<Vec<Quad>> {
    if format == RdfFormat::NQuads {
        NQuadsParser::new()
            .for_slice(text)
            .collect::<Result<_, _>>()
            .ok()
    } else {
        NTriplesParser::new()
            .for_slice(text)
            .map(|triple| triple.map(|triple| triple.in_graph(oxrdf::GraphName::DefaultGraph)))
            .collect::<Result<_, _>>()
            .ok()
    }
}

fn sorted(quads: &[Quad]) -> Vec<String> {
    let mut lines: Vec<String> = quads.iter().map(ToString::to_string).collect();
    lines.sort();
    lines
}

/// Compares strict and lenient parsing with oxttl, with chunks of several sizes.
pub(crate) fn check(text: &[u8], format: RdfFormat) {
    let whole = oxttl_accepts(text, format);
    let by_line = (!text.contains(&b'\r')).then(|| oxttl(text, format));
    for (chunk_bytes, workers) in [(1 << 20, 1), (64, 2), (1, 3)] {
        let strict = parse_all(vec![source(text, format)], &options(chunk_bytes), workers);
        match (&strict, &whole) {
            (Ok((quads, report)), Some(expected)) => {
                assert_eq!(sorted(quads), sorted(expected));
                assert_eq!(report.bytes, text.len() as u64);
                assert_eq!(report.skipped, 0);
            }
            (Err(ParseError::Syntax(problem)), None) => {
                if let Some((_, bad_lines)) = &by_line {
                    assert_eq!(problem.line, bad_lines[0], "{problem}");
                }
                assert!(problem.column > 0);
            }
            (ours, theirs) => panic!(
                "{:?}: ours {ours:?}, oxttl's {theirs:?}",
                String::from_utf8_lossy(text)
            ),
        }
        if let Some((expected, bad_lines)) = &by_line {
            let lenient = options(chunk_bytes).with_lenient(true);
            let (quads, report) = parse_all(vec![source(text, format)], &lenient, workers)
                .expect("lenient parsing goes on");
            assert_eq!(sorted(&quads), sorted(expected));
            assert_eq!(report.skipped, bad_lines.len() as u64);
            let lines: Vec<u64> = report.first_skipped.iter().map(|p| p.line).collect();
            assert_eq!(lines, bad_lines[..bad_lines.len().min(10)]);
        }
    }
}

fn iri() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "<http://e/[a-c]{1,2}>",
        1 => "<http://e/[a-z é\\\\u0041%<>\"{}|^`#]{0,6}>",
        1 => Just("<http://e/\\u0061>".to_owned()),
        1 => Just("<http://e/\\U00000061\\u00E9>".to_owned()),
        1 => prop::sample::select(&["<relative>", "<>", "<a:>", "<http://e/\\u0020>", "<http://e/\\u003E>", "<http://[::1]/>", "<http://[x]/>", "<http://e:99x/>", "<<http://e/a>", "<http://e/%zz>", "<http://e/\\t>", "<http://e/\\u12>"][..]).prop_map(str::to_owned),
    ]
}

fn blank() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "_:[a-c]",
        1 => "_:[a-z0-9_.éàß·:-]{0,5}",
        1 => prop::sample::select(&["_:", "_", "_:a..", "_:-a", "_:.a", "_:a.b", "_:·a", "_:a·", "_:1", "_:a\u{300}", "_:𐐀"][..]).prop_map(str::to_owned),
    ]
}

fn literal() -> impl Strategy<Value = String> {
    let lexical = prop_oneof![
        3 => "[a-c ]{0,5}",
        2 => "-?[0-9]{1,3}(\\.[0-9]{1,2})?",
        1 => prop::sample::select(&["\\n\\t\\b\\r\\f\\\"\\'\\\\", "\\u00e9\\U0001F600", "é😀", "\\x", "\\u12", "\\uD800", "\\U00110000", "\\", "'", "#", "a\u{0}b", "\\u0000", "<http://e/a>", "\"", "true", "2020-01-01", "<<(", "\u{7f}\u{ffff}", "\\u003E \\u0022"][..]).prop_map(str::to_owned),
    ];
    let suffix = prop_oneof![
        3 => Just(String::new()),
        1 => prop::sample::select(&["@en", "@EN", "@en-GB", "@de-DE-1996", "@en--ltr", "@en--rtl", "@EN--ltr", "@en--foo", "@en--", "@en-", "@", "@1", "@a-b-c-d-e", "@i-default", "@x-private", "@123", "@abcdefghi", "@e", " @en", "@en_US"][..]).prop_map(str::to_owned),
        2 => prop::sample::select(&["integer", "decimal", "string", "date", "boolean", "double", "anyURI", "byte"][..]).prop_map(|name| format!("^^<http://www.w3.org/2001/XMLSchema#{name}>")),
        1 => iri().prop_map(|iri| format!("^^{iri}")),
        1 => prop::sample::select(&["^^", "^", "^^a:b", "^^ <http://e/d>", " ^^<http://e/d>", "^^\"x\"", "^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>", "^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#dirLangString>", "^^<http://www.w3.org/1999/02/22-rdf-syntax-ns#HTML>", "^^<relative>"][..]).prop_map(str::to_owned),
    ];
    (lexical, suffix).prop_map(|(lexical, suffix)| format!("\"{lexical}\"{suffix}"))
}

fn term() -> impl Strategy<Value = String> {
    let simple = prop_oneof![4 => iri(), 2 => blank(), 4 => literal()];
    simple.prop_recursive(2, 6, 3, |inner| {
        (
            inner.clone(),
            iri(),
            inner,
            prop::sample::select(&["<<( ", "<<(", "<< "][..]),
        )
            .prop_map(|(s, p, o, open)| format!("{open}{s} {p} {o} )>>"))
    })
}

fn line() -> impl Strategy<Value = String> {
    let space = || prop_oneof![8 => Just(" "), 1 => Just(""), 1 => Just("\t "), 1 => Just("  ")];
    let end = prop_oneof![
        12 => Just(" ."), 4 => Just("."), 1 => Just(""), 1 => Just(" . # comment"), 1 => Just(".#"), 1 => Just(" . ."),
        1 => Just(" . <http://e/a>"), 1 => Just(" ;"), 1 => Just("..")
    ];
    let graph = prop_oneof![6 => Just(String::new()), 2 => iri(), 1 => blank(), 1 => literal()];
    let statement = (
        (
            space(),
            prop_oneof![6 => iri(), 3 => blank(), 1 => literal()],
            space(),
        ),
        (
            prop_oneof![9 => iri(), 1 => blank()],
            space(),
            term(),
            space(),
            graph,
        ),
        end,
    )
        .prop_map(|((s0, s, s1), (p, s2, o, s3, g), end)| {
            format!("{s0}{s}{s1}{p}{s2}{o}{s3}{g}{end}")
        });
    prop_oneof![
        20 => statement,
        1 => Just(String::new()),
        1 => "# [a-z<>\". ]{0,8}",
        1 => "[ \t]{0,3}",
        1 => "[a-z<>\"_:.@^# \\\\]{0,12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_lines_parse_as_by_oxttl(
        lines in prop::collection::vec(line(), 1..6),
        newline in prop_oneof![3 => Just("\n"), 1 => Just("\r\n"), 1 => Just("\r")],
        last in any::<bool>(),
        n_quads in any::<bool>(),
    ) {
        let mut text = lines.join(newline);
        if last {
            text.push_str(newline);
        }
        check(text.as_bytes(), if n_quads { RdfFormat::NQuads } else { RdfFormat::NTriples });
    }

    #[test]
    fn damaged_statements_parse_as_by_oxttl(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), insert in any::<bool>(), n_quads in any::<bool>(),
    ) {
        let mut text = "<http://e/s> <http://e/p> \"é\\n\\u0041\"@en-GB .\n_:a.b <http://e/p> \"1\"^^<http://e/d> <http://e/g> .\n".as_bytes().to_vec();
        let at = at.index(text.len());
        if insert {
            text.insert(at, byte);
        } else {
            text[at] = byte;
        }
        check(&text, if n_quads { RdfFormat::NQuads } else { RdfFormat::NTriples });
    }
}

#[test]
fn a_raw_line_end_is_not_taken_for_its_escape() {
    // The literal is known from its escaped form; the raw one must still be refused.
    check(
        b"<a:a> <a:a> \"x\\ry\" .\n<a:a> <a:a> \"x\ry\" .\n",
        RdfFormat::NTriples,
    );
    check(
        b"<a:a> <a:a> \"x\\ny\" .\n<a:a> <a:a> \"x\ny\" .\n",
        RdfFormat::NTriples,
    );
}

#[test]
fn comments_may_hold_any_bytes() {
    check(
        b"<a:a> <a:a> <a:a> . # \xff\n# \xff\xfe\n<a:a> <a:a> \"\xff\" .\n",
        RdfFormat::NTriples,
    );
}

#[test]
fn a_blank_node_is_not_taken_for_one_that_it_begins_with() {
    check(b"_:a <a:p> _:a .\n_:ab <a:p> _:ab .\n_:a.<a:p> _:a.\n_:a<a:p>_:a.\n_:a\xc2\xb7 <a:p> _:a\xc2\xb7.\n", RdfFormat::NTriples);
}

/// A number that depends on the quads but not on their order.
fn fingerprint(quads: impl Iterator<Item = Quad>) -> (u64, u64) {
    let hash = |quad: Quad| {
        let mut hasher = std::hash::DefaultHasher::new();
        quad.hash(&mut hasher);
        hasher.finish()
    };
    quads.fold((0, 0), |(count, sum), quad| {
        (count + 1, sum.wrapping_add(hash(quad)))
    })
}

#[test]
fn real_data_parses_as_by_oxttl() {
    for name in [
        "rdf-vocabularies.nq.zst",
        "yago-temporal.rdf12.nt.zst",
        "nomisma.nt.zst",
    ] {
        let Some(path) = crate::w3c::data(name) else {
            continue;
        };
        let text = zstd::decode_all(std::fs::File::open(&path).expect("readable")).expect("whole");
        // N-Triples are N-Quads.
        let expected = fingerprint(
            NQuadsParser::new()
                .for_slice(&text)
                .map(|quad| quad.expect("valid")),
        );
        let source =
            pythia_rdf::Source::from_path(&path, Some(RdfFormat::NQuads), None).expect("readable");
        let (quads, report) = parse_all(vec![source], &options(1 << 18), 2).expect("valid");
        assert_eq!(report.bytes, text.len() as u64);
        assert_eq!(fingerprint(quads.into_iter()), expected, "{name}");
    }
}
