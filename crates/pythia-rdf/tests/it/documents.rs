//! Turtle, TriG, RDF/XML and JSON-LD, several sources at once, and what a source says of its terms.

use oxrdf::NamedNode;
use pythia_rdf::{ParseError, RdfFormat};

use crate::collect::{options, parse_all, source};

fn json_ld() -> RdfFormat {
    RdfFormat::from_extension("jsonld").expect("known")
}

fn lines(sources: Vec<pythia_rdf::Source>) -> Vec<String> {
    let (quads, _) = parse_all(sources, &options(1 << 10), 2).expect("valid");
    let mut lines: Vec<String> = quads.iter().map(ToString::to_string).collect();
    lines.sort();
    lines
}

#[test]
fn every_format_says_the_same() {
    let expected = ["<http://e/s> <http://e/p> \"o\"@en"];
    for (format, text) in [
        (RdfFormat::NTriples, "<http://e/s> <http://e/p> \"o\"@EN ."),
        (RdfFormat::NQuads, "<http://e/s> <http://e/p> \"o\"@en ."),
        (
            RdfFormat::Turtle,
            "@prefix e: <http://e/> . e:s <p> \"o\"@en .",
        ),
        (RdfFormat::TriG, "{ <s> <http://e/p> \"o\"@en }"),
        (
            RdfFormat::RdfXml,
            "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://e/'><r:Description r:about='s'><p xml:lang='en'>o</p></r:Description></r:RDF>",
        ),
        (
            json_ld(),
            "{\"@id\": \"s\", \"http://e/p\": {\"@value\": \"o\", \"@language\": \"en\"}}",
        ),
    ] {
        let source = source(text, format).with_base(Some("http://e/".to_owned()));
        assert_eq!(lines(vec![source]), expected, "{format}");
    }
}

/// Gives a few bytes at a time.
struct Trickle(std::io::Cursor<Vec<u8>>, usize);

impl std::io::Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.1);
        std::io::Read::read(&mut self.0, &mut buffer[..length])
    }
}

#[test]
fn base_iris_have_no_dot_segments() {
    let expected = [
        "<http://e/s> <http://e/p> <http://a/b#f>",
        "<http://e/s> <http://e/p> <http://a/b>",
        "<http://e/s> <http://e/p> <http://a/b?y>",
        "<http://e/s> <http://e/p> <http://a/x/../y>",
    ];
    let statements = "<http://e/s> <http://e/p> <#f> , <?y> , <> , <http://a/x/../y> .";
    let json = "\"http://e/p\": [{\"@id\": \"#f\"}, {\"@id\": \"?y\"}, {\"@id\": \"\"}, \
                {\"@id\": \"http://a/x/../y\"}]";
    let cases = [
        (
            RdfFormat::Turtle,
            format!("@base <http://a/c/../b> . {statements}"),
        ),
        (
            RdfFormat::Turtle,
            format!("# BASE <x>\nBaSe\n <http://a/./b>\n{statements}"),
        ),
        (
            RdfFormat::TriG,
            format!("PREFIX e: <http://e/> BASE <http://a/../b> {{ {statements} }}"),
        ),
        (
            json_ld(),
            format!(
                "{{\"@context\": {{\"@base\" : \"http://a/c/../b\"}}, \"@id\": \"http://e/s\", {json}}}"
            ),
        ),
    ];
    for (format, text) in &cases {
        for piece in [1, 7, 4096] {
            let mut source = source(text.as_str(), *format);
            source.reader = Box::new(Trickle(
                std::io::Cursor::new(text.clone().into_bytes()),
                piece,
            ));
            assert_eq!(lines(vec![source]), expected, "{text} in pieces of {piece}");
        }
    }
    let given = source(statements, RdfFormat::Turtle);
    let given = given.with_base(Some("http://a/c/d/../../b".to_owned()));
    assert_eq!(lines(vec![given]), expected);
}

#[test]
fn what_only_looks_like_a_base_stays() {
    let text = "@prefix e: <http://e/> . \
                e:s e:p \"@base <http://a/../b>\" , \"\"\"\nBASE <http://a/../b>\n\"\"\" . \
                e:s e:base <http://a/../b> . # BASE <http://a/../c>\n";
    let found = lines(vec![source(text, RdfFormat::Turtle)]).concat();
    assert_eq!(found.matches("http://a/../b").count(), 3, "{found}");
    let json = "{\"@id\": \"http://e/s\", \"http://e/p\": [\"@base\", \"http://a/../b\", \
                \"\\\"@base\\\": \\\"http://a/../b\\\"\"]}";
    let found = lines(vec![source(json, json_ld())]).concat();
    assert_eq!(found.matches("http://a/../b").count(), 2, "{found}");
}

#[test]
fn the_graph_of_a_source_takes_its_triples_only() {
    let graph = Some(NamedNode::new_unchecked("http://e/g"));
    for format in [RdfFormat::NQuads, RdfFormat::TriG] {
        let text = if format == RdfFormat::NQuads {
            "<a:s> <a:p> 1 .\n<a:s> <a:p> <a:o> .\n<a:s> <a:p> <a:o> <a:h> .\n<a:s> <a:p> \"\\u0041\" .\n<a:s> <a:p> <<( <a:s> <a:p> <a:o> )>> .\n".replace("<a:s> <a:p> 1 .\n", "")
        } else {
            "<a:s> <a:p> <a:o>, \"A\", <<( <a:s> <a:p> <a:o> )>> . <a:h> { <a:s> <a:p> <a:o> }"
                .to_owned()
        };
        assert_eq!(
            lines(vec![source(text, format).with_graph(graph.clone())]),
            [
                "<a:s> <a:p> \"A\" <http://e/g>",
                "<a:s> <a:p> <<( <a:s> <a:p> <a:o> )>> <http://e/g>",
                "<a:s> <a:p> <a:o> <a:h>",
                "<a:s> <a:p> <a:o> <http://e/g>",
            ]
        );
    }
}

#[test]
fn scopes_keep_blank_nodes_apart() {
    let text = "_:x <a:p> _:x .\n_:x <a:p> <<( _:x <a:p> _:x )>> .\n_:é <a:p> <a:p> .\n";
    let scoped = |scope, format| source(text, format).with_blank_node_scope(scope);
    let expected = [
        "_:d0_x <a:p> <<( _:d0_x <a:p> _:d0_x )>>",
        "_:d0_x <a:p> _:d0_x",
        "_:d0_é <a:p> <a:p>",
        "_:d1_x <a:p> <<( _:d1_x <a:p> _:d1_x )>>",
        "_:d1_x <a:p> _:d1_x",
        "_:d1_é <a:p> <a:p>",
        "_:x <a:p> <<( _:x <a:p> _:x )>>",
        "_:x <a:p> _:x",
        "_:é <a:p> <a:p>",
    ];
    for format in [RdfFormat::NTriples, RdfFormat::NQuads, RdfFormat::Turtle] {
        let sources = vec![
            scoped(Some(0), format),
            scoped(Some(1), format),
            scoped(None, format),
        ];
        assert_eq!(lines(sources), expected);
    }
}

#[test]
fn errors_name_their_place() {
    for (format, text, line, column) in [
        (
            RdfFormat::Turtle,
            "<a:s> <a:p> <a:o> .\n<a:s> <a:p> ; <a:o> ,, .\n",
            2,
            13,
        ),
        (RdfFormat::TriG, "<a:g> { <a:s> <a:p>\n  <a:o> ] }\n", 2, 9),
        (
            RdfFormat::RdfXml,
            "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>\n<r:Description>\n</r:RDF>\n",
            3,
            0,
        ),
        (json_ld(), "{\"http://e/p\":\n  [1, }", 2, 7),
    ] {
        for lenient in [false, true] {
            if lenient && matches!(format, RdfFormat::Turtle | RdfFormat::TriG) {
                continue;
            }
            let error = parse_all(
                vec![source(text, format)],
                &options(1).with_lenient(lenient),
                1,
            )
            .expect_err("invalid");
            let ParseError::Syntax(problem) = &error else {
                panic!("{error}")
            };
            assert_eq!((problem.line, problem.column), (line, column), "{error}");
            assert!(!problem.message.contains("at line"), "{error}");
            assert_eq!(problem.message.contains("cannot go on"), lenient, "{error}");
        }
    }
}

#[test]
fn lenient_turtle_goes_on_after_an_error() {
    let text = "<a:s> <a:p> <a:o1> .\n<a:s> <a:p> nonsense: .\n<a:s> <a:p> <a:o2> .\n";
    let (quads, report) = parse_all(
        vec![source(text, RdfFormat::Turtle)],
        &options(1).with_lenient(true),
        1,
    )
    .expect("lenient");
    assert_eq!(quads.len(), 2);
    assert!(report.skipped >= 1);
    assert_eq!(report.first_skipped[0].line, 2);
}

#[test]
fn a_base_must_be_an_iri() {
    let source = source("<a> <b> <c> .", RdfFormat::Turtle).with_base(Some("no base".to_owned()));
    let error = parse_all(vec![source], &options(1), 1).expect_err("bad base");
    assert!(error.to_string().contains("base IRI <no base>"), "{error}");
}

#[test]
fn large_documents_come_in_batches() {
    let mut text = String::from("@prefix e: <http://e/> .\n");
    for number in 0..20_000 {
        text.push_str(&format!("e:s{number} e:p {number}, [ e:q ({number}) ] .\n"));
    }
    let (quads, report) = parse_all(
        vec![source(text.clone(), RdfFormat::Turtle)],
        &options(1),
        2,
    )
    .expect("valid");
    assert_eq!(quads.len(), 20_000 * 5);
    assert_eq!(report.bytes, text.len() as u64);
}

#[test]
fn no_source_is_no_quad() {
    assert_eq!(
        parse_all(Vec::new(), &options(1), 1)
            .expect("nothing")
            .1
            .quads,
        0
    );
}

#[test]
fn empty_lines_are_left_out_and_lines_are_still_those_of_the_text() {
    let empty = "\n".repeat(100_000);
    let statement = "<a:s> <a:p> '''a\n\n\nb''' .";
    for format in [RdfFormat::Turtle, RdfFormat::TriG] {
        let text = format!("{empty}{statement}{empty}{statement} # {empty}");
        let expected = ["<a:s> <a:p> \"a\\n\\n\\nb\""; 2];
        assert_eq!(lines(vec![source(text, format)]), expected);

        // Line ends inside a string are a part of it.
        let text = format!("{empty}<a:s> <a:p> '''{empty}''' .");
        let (quads, _) =
            parse_all(vec![source(text, format)], &options(1 << 10), 1).expect("valid");
        assert_eq!(quads[0].object.to_string().matches("\\n").count(), 100_000);

        let text = format!("{empty}{statement}\n{empty}\n  <a:s> <a:p> nothing .");
        let error = parse_all(vec![source(text, format)], &options(1 << 10), 1).unwrap_err();
        let ParseError::Syntax(problem) = &error else {
            panic!("{error}");
        };
        assert_eq!(problem.line, 200_006, "{error}");
    }
}
