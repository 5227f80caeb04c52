//! Random Turtle and TriG, right and wrong, is read as oxttl reads it, but for dot segments of base IRIs.

use std::io::Cursor;

use oxrdfio::RdfParser;
use proptest::prelude::*;
use pythia_rdf::{ParseError, RdfFormat};

use crate::collect::{Trickle, options, parse_all, source};

const DOTS: &str = "<http://a/x/../y>";

/// A piece of Turtle or TriG, such that most sequences are wrong and many right.
fn token() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(DOTS.to_owned()),
        3 => prop::sample::select(vec![
            "ns:v1.base", "base:base", "base:", ":base", "ns:", "_:a.base", "_:base", "ns:a\\.base",
            "ns:a%2Ebase", "ns:\\", "ns:%", "BASE", "base", "@base", "@base--ltr", "VERSION", "PREFIX",
            "@prefix", "@version", "\u{e9}:base", "GRAPH", "a", "true",
        ]).prop_map(str::to_owned),
        3 => prop::sample::select(vec![
            "'a'", "\"base\"", "''", "\"\"\"@base <http://a/x/../y>\n\"\"\"", "'''\\''@base'''", "'a'@base",
            "\"BASE <http://a/x/../y>\"", "'\\u0040base'", "'\\q base'", "\"", "'\n", "'''", "\\", "'\\uD800'",
            "^^", "<http://a/\\u0041/../b>", "<http://a/\\q/../b>", "<",
        ]).prop_map(str::to_owned),
        4 => prop::sample::select(vec![
            "\"a\"", "\"\"", "\"a\\n\\u00e9\"", "\"a\n\"", "\"\\n\n\"", "\"\\q\"", "\"a\"@en-GB", "\"a\"@en--ltr", "\"a\"@1",
            "\"1\"^^ns:int", "\"a\"^^<http://a/b>", "\"a\"^^<c>", "\"a\"^^no:where", "\"\"\"a\n\"\" b\"\"\"",
            "\"\"\"a\\t\"\"\"", "\"\"\"a\"\"\"\"", "<http://a/b>", "<http://a/ b>", "<c>", "<http://a:80>", "ns:a:b", "ns:a.b",
            "ns:-a", "ns:a..", "no:where", "host:80x", "host:a", "-ns:a", "ns-1.x:a", "ns.:a", "true", "false.", "trueish",
            "+1", "-1.5e+3", "1.e3", "1e", "007", "_:a-b", "_:a.", "_:-", "a", "a:", "prefix", "PREFIX ns: <http://ns3/>",
            "@prefix ns: <http://ns4#> .", "@prefix host: <http://h> .",
        ]).prop_map(str::to_owned),
        3 => prop::sample::select(vec!["1", "1.5", "1e5", "+.5e-7", "1.", "-"]).prop_map(str::to_owned),
        5 => prop::sample::select(vec![
            ".", ";", ",", "(", ")", "[", "]", "{", "}", "<<", ">>", "<<(", ")>>", "{|", "|}", "~", "#base\n",
        ]).prop_map(str::to_owned),
        1 => prop::sample::select(vec![" ", "\n", "\r\n", " \r", "#\n", "# '\r\n\t", "é\n"])
            .prop_map(|unit| match unit {
                "é\n" => format!("#{}\n", "é".repeat(400)),
                unit => unit.repeat(600),
            }),
    ]
}

fn separator() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "",
        " ",
        " ",
        " ",
        "\n",
        "\r\n",
        "#base\n",
        " # 'BASE'\r\n ",
    ])
}

/// A statement that is right, with the names that might be taken for a declaration.
fn statement() -> impl Strategy<Value = String> {
    let subject = prop::sample::select(vec!["ns:v1.base", "_:a.base", DOTS, "base:base", ":base"]);
    let predicate = prop::sample::select(vec!["ns:v1.base", "base:", DOTS, "a"]);
    let object = prop::sample::select(vec![
        "'a'@base",
        "ns:v1.base",
        "_:a.base",
        DOTS,
        "1",
        "1.5",
        "'BASE'",
        "true",
        "[]",
        "ns:",
        "( 'a'@base <http://a/x/../y> )",
        "[ base: <http://a/x/../y> ; ns:base <http://a/x/../y> ]",
        "'''\n@base <http://a/x/../y> .\n'''",
        "'''a'''@base , <http://a/x/../y>",
        "'base'^^base:base ; ns:a.base <http://a/x/../y>",
        "\"a\" , \"b\\n\"@base , \"\" ;",
        "\"a\"^^ns:base ; a ns:a.base, -1.5e3 , 1",
        "\"\"\"a\n\"\"\"^^<http://a/b> ; ns:p _:a.base;",
        "true , \"1\"^^<http://www.w3.org/2001/XMLSchema#integer>",
        "\"apart\" @en, \"7\" #\n^^base:int",
    ]);
    let end = prop::sample::select(vec![".", " .", "\n.", " #\n."]);
    (subject, separator(), predicate, separator(), object, end).prop_map(
        |(subject, first, predicate, second, object, end)| {
            let first = if first.is_empty() { "\t" } else { first };
            let second = if second.is_empty() { "\t" } else { second };
            format!("{subject}{first}{predicate}{second}{object}{end} ")
        },
    )
}

/// What oxttl itself says, without anonymous names, and the place of its first error.
fn as_oxttl(text: &str, format: RdfFormat) -> (Vec<String>, Option<(u64, u64)>) {
    let (mut lines, mut place) = (Vec::new(), None);
    for quad in RdfParser::from_format(format).for_reader(text.as_bytes()) {
        match quad {
            Ok(quad) => lines.push(without_labels(&quad.to_string())),
            Err(oxrdfio::RdfParseError::Syntax(error)) => {
                let found = error
                    .location()
                    .map(|at| (at.start.line + 1, at.start.column + 1));
                place = place.or(found);
            }
            Err(error) => panic!("{error}"),
        }
    }
    lines.sort();
    (lines, place)
}

fn without_labels(line: &str) -> String {
    let mut parts = line.split("_:");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("_:");
        text.push_str(part.trim_start_matches(|c: char| c.is_ascii_alphanumeric()));
    }
    text
}

fn as_loaded(text: &str, format: RdfFormat, piece: usize) -> (Vec<String>, Option<(u64, u64)>) {
    let mut source = source(text, format);
    source.reader = Box::new(Trickle(Cursor::new(text.as_bytes().to_vec()), piece));
    let options = options(1 << 10).with_lenient(true);
    let (quads, report) = parse_all(vec![source], &options, 1).expect("lenient");
    let mut lines: Vec<String> = quads
        .iter()
        .map(|q| without_labels(&q.to_string()))
        .collect();
    lines.sort();
    let place = report.first_skipped.first();
    (lines, place.map(|problem| (problem.line, problem.column)))
}

/// Loads a text with two workers, up to the first error. Returns the quads, or the place of the error. Chunks are of one statement, or of all that the source gives at a time if `is_long`.
fn as_cut(
    text: &str,
    format: RdfFormat,
    piece: usize,
    is_long: bool,
) -> Result<Vec<String>, (u64, u64)> {
    let mut source = source(text, format);
    source.reader = Box::new(Trickle(Cursor::new(text.as_bytes().to_vec()), piece));
    let chunk_bytes = if is_long { 1 << 20 } else { 1 };
    match parse_all(vec![source], &options(chunk_bytes), 2) {
        Ok((quads, _)) => {
            let lines = quads.iter().map(|q| without_labels(&q.to_string()));
            let mut lines: Vec<String> = lines.collect();
            lines.sort();
            Ok(lines)
        }
        Err(ParseError::Syntax(problem)) => Err((problem.line, problem.column)),
        Err(error) => panic!("{error}"),
    }
}

/// What oxttl says of a text as a whole.
fn as_whole(text: &str, format: RdfFormat) -> Result<Vec<String>, (u64, u64)> {
    let (lines, place) = as_oxttl(text, format);
    place.map_or(Ok(lines), Err)
}

/// A statement, a declaration or, in TriG, a graph.
fn part(has_graphs: bool) -> impl Strategy<Value = String> {
    let declaration = prop::sample::select(vec![
        "@prefix ns: <http://ns2/> . ",
        "PREFIX base: <http://b2/>\n",
        "@prefix ns: <n/>.",
        "@base <http://a/y/> . ",
        "BASE <z/>",
        "base<#>",
        "VERSION '1.2' ",
        "@version \"1.2\" .\n",
    ]);
    let ends = prop::sample::select(vec!["}", " } ", "}\n", "<#a> a <#b>}"]);
    let begins = prop::sample::select(vec![
        "{",
        "GRAPH <#g> {",
        "ns:v1.base{ ",
        "_:g #{\n {",
        "<g> { <<( <#a> a 1. )>> a 1.",
        "<http://empty/> { } <http://full/>{",
        "ns:empty{",
    ]);
    let inner = prop::collection::vec(statement(), 0..4);
    let graph = (begins, inner, ends)
        .prop_map(|(begin, inner, end)| format!("{begin}{}{end}", inner.concat()));
    let graph = match has_graphs {
        true => graph.boxed(),
        false => statement().boxed(),
    };
    let annotated = "<#a> a <#b> {| a 1.5 |} . <#a> a 'x'@en.[] a _:a.";
    prop_oneof![
        4 => statement(),
        2 => declaration.prop_map(str::to_owned),
        1 => Just(annotated.to_owned()),
        2 => graph,
    ]
}

const PREFIXES: &str = "@prefix ns: <http://ns/> . PREFIX base: <http://b/x/../y#>\n\
                        @prefix : <http://c/x/../y/> .\n";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn a_load_changes_no_iri_that_is_no_base(
        statements in prop::collection::vec(statement(), 1..8),
        piece in 1_usize..80,
    ) {
        let text = format!("{PREFIXES}{}", statements.concat());
        for format in [RdfFormat::Turtle, RdfFormat::TriG] {
            let expected = as_oxttl(&text, format);
            prop_assert_eq!(&expected.1, &None, "{}", text);
            prop_assert_eq!(as_loaded(&text, format, piece), expected, "{}", text);
        }
    }

    #[test]
    fn a_base_between_statements_is_the_one_change(
        before in prop::collection::vec(statement(), 0..4),
        declaration in prop::sample::select(vec!["@base IRI .", "BASE IRI", "base#\nIRI", "VERSION '1.2' BASE IRI"]),
        after in prop::collection::vec(statement(), 0..4),
        piece in 1_usize..80,
    ) {
        let text = |iri: &str| {
            let declaration = declaration.replace("IRI", iri);
            let (before, after) = (before.concat(), after.concat());
            format!("{PREFIXES}{before}{declaration}\n<#a> <?q> <> . {after}")
        };
        for format in [RdfFormat::Turtle, RdfFormat::TriG] {
            let (given, plain) = (text(DOTS), text("<http://a/y>"));
            prop_assert_eq!(as_loaded(&given, format, piece), as_oxttl(&plain, format), "{}", given);
        }
    }

    #[test]
    fn what_is_wrong_is_read_as_oxttl_reads_it(
        tokens in prop::collection::vec((token(), separator()), 1..40),
        piece in 1_usize..80,
    ) {
        let mut text = PREFIXES.to_owned();
        let mut last = "";
        for (token, separator) in &tokens {
            // A load changes the IRI of a declared base, which other tests look at: none is declared here.
            let declares = last.trim_start_matches('@').eq_ignore_ascii_case("base");
            if declares && token.starts_with('<') {
                text.push('.');
            }
            if !token.starts_with('#') && !token.trim().is_empty() {
                last = token;
            }
            text.push_str(token);
            text.push_str(separator);
        }
        for format in [RdfFormat::Turtle, RdfFormat::TriG] {
            prop_assert_eq!(as_loaded(&text, format, piece), as_oxttl(&text, format), "{}", text);
        }
    }

    #[test]
    fn parts_that_are_parsed_by_themselves_are_those_of_the_whole(
        turtle in prop::collection::vec(part(false), 1..12),
        trig in prop::collection::vec(part(true), 1..12),
        piece in 1_usize..80,
    ) {
        for (parts, format) in [(turtle, RdfFormat::Turtle), (trig, RdfFormat::TriG)] {
            let text = format!("{}{}", PREFIXES.replace("x/../", ""), parts.concat());
            let text = text.replace(DOTS, "<http://a/y>");
            for is_long in [false, true] {
                let cut = as_cut(&text, format, piece, is_long);
                prop_assert_eq!(cut, as_whole(&text, format), "{}", text);
            }
        }
    }

    #[test]
    fn the_first_error_of_all_parts_is_that_of_the_whole(
        before in prop::collection::vec(statement(), 0..4),
        tokens in prop::collection::vec((token(), separator()), 1..20),
        piece in 1_usize..80,
    ) {
        let tokens: String = tokens.iter().map(|(token, separator)| format!("{token}{separator}")).collect();
        let text = format!("{PREFIXES}{}{tokens}", before.concat()).replace("x/../", "");
        for format in [RdfFormat::Turtle, RdfFormat::TriG] {
            for is_long in [false, true] {
                let cut = as_cut(&text, format, piece, is_long);
                prop_assert_eq!(cut, as_whole(&text, format), "{}", text);
            }
        }
    }
}
