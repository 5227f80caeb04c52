//! Turtle, TriG, RDF/XML and JSON-LD, several sources at once, and what a source says of its terms.

use oxrdf::NamedNode;
use pythia_rdf::{
    ParseError, Progress, QuadSink, RdfFormat, SinkError, TermError, TermId, TermKey, parse_sources,
};

use crate::collect::{json_ld, options, parse_all, source};

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

/// Counts the chunks of a source, and its ends.
#[derive(Default)]
struct Chunks {
    quads: u64,
    chunks: u64,
    ends: u64,
}

impl QuadSink for Chunks {
    type Term = ();

    fn key(
        &mut self,
        _: TermKey<'_>,
        validate: impl FnOnce() -> Result<(), TermError>,
    ) -> Result<(), TermError> {
        validate()
    }

    fn inline(&mut self, _: TermId) {}

    fn default_graph(&mut self) {}

    fn quad(&mut self, (): (), (): (), (): (), (): ()) -> Result<(), SinkError> {
        self.quads += 1;
        Ok(())
    }

    fn end_batch(&mut self) -> Result<(), SinkError> {
        assert_eq!(self.ends, 0);
        self.chunks += 1;
        Ok(())
    }

    fn end_input(&mut self) -> Result<(), SinkError> {
        self.ends += 1;
        Ok(())
    }
}

#[test]
fn each_sink_sees_the_end_of_a_valid_input() {
    let ends = |sources: Vec<pythia_rdf::Source>| {
        let mut sinks: [Chunks; 3] = Default::default();
        let parsed = parse_sources(sources, &options(1), &mut sinks, &Progress::default());
        (parsed.is_ok(), sinks.map(|sink| sink.ends))
    };
    let valid = "<e:s> <e:p> <e:o> .\n";
    let triples = |text: &str| source(text.to_owned(), RdfFormat::NTriples);
    assert_eq!(ends(vec![triples(valid), triples(valid)]), (true, [1; 3]));
    assert_eq!(ends(Vec::new()), (true, [1; 3]));
    let mut sink = [Chunks::default()];
    let sources = vec![triples("<e:s> <e:p> .\n")];
    parse_sources(sources, &options(1), &mut sink, &Progress::default()).expect_err("invalid");
    assert_eq!(sink[0].ends, 0);
}

#[test]
fn turtle_and_trig_are_cut_between_statements() {
    let statements: String = (0..2000)
        .map(|number| format!("e:s.{number} e:p \"\"\" . \n{number}. \"\"\"; e:q 1.5 .\n"))
        .collect();
    let declared = "@prefix e: <http://e/> .\n";
    // More declarations than statements in a chunk.
    let declarations: String = (0..2000)
        .map(|number| format!("PREFIX e{number}: <http://e/{number}>\n"))
        .collect();
    for (format, text, least, most) in [
        (
            RdfFormat::Turtle,
            format!("{declared}{statements}"),
            2000,
            2002,
        ),
        (
            RdfFormat::TriG,
            format!("{declared}e:g {{{statements}}}"),
            2000,
            2003,
        ),
        (
            RdfFormat::TriG,
            format!("{declared}{{{statements}}} {statements}"),
            4000,
            4004,
        ),
        (
            RdfFormat::Turtle,
            format!("{declarations}{declared}{statements}"),
            1,
            300,
        ),
    ] {
        let mut sink = [Chunks::default()];
        let sources = vec![source(text, format)];
        parse_sources(sources, &options(1), &mut sink, &Progress::default()).expect("valid");
        let [Chunks { quads, chunks, .. }] = sink;
        assert!(
            quads >= 4000 && (least..=most).contains(&chunks),
            "{quads} in {chunks}"
        );
    }
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
