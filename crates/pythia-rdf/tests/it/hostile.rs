//! Input made to hurt: endless lines, huge literals, bad bytes, endless nesting.

use std::io::{self, Read};

use pythia_rdf::{
    Compression, CountingSink, ParseError, ParseOptions, Progress, RdfFormat, Source, parse_sources,
};

use crate::collect::{options, parse_all, source};

/// A text that begins with `start` and repeats `unit`, a number of times or endlessly.
struct Repeat {
    start: io::Cursor<Vec<u8>>,
    unit: Vec<u8>,
    at: usize,
    left: u64,
}

impl Read for Repeat {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let started = self.start.read(buffer)?;
        if started > 0 {
            return Ok(started);
        }
        let wanted = (buffer.len() as u64).min(self.left) as usize;
        for byte in &mut buffer[..wanted] {
            *byte = self.unit[self.at];
            self.at = (self.at + 1) % self.unit.len();
        }
        self.left -= wanted as u64;
        Ok(wanted)
    }
}

fn endless(start: &str, unit: &str, bytes: u64, format: RdfFormat) -> Source {
    let reader = Repeat {
        start: io::Cursor::new(start.into()),
        unit: unit.into(),
        at: 0,
        left: bytes,
    };
    Source::from_reader("hostile".to_owned(), reader, format, Compression::None).expect("plain")
}

fn count(source: Source, options: &ParseOptions) -> Result<u64, ParseError> {
    let mut sinks = [CountingSink::new()];
    parse_sources(vec![source], options, &mut sinks, &Progress::default())
        .map(|report| report.quads)
}

#[test]
fn a_line_of_a_billion_characters_is_refused() {
    let mut options = options(1 << 16);
    options.line_bytes_max = 1 << 20;
    let source = endless(
        "<a:a> <a:a> <a:a> .\n<a:a> <a:a> \"",
        "x",
        1_000_000_000,
        RdfFormat::NTriples,
    );
    let error = count(source, &options).expect_err("too long");
    let ParseError::LineTooLong {
        line,
        offset,
        limit,
        ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((line, offset, limit), (2, 20, 1 << 20));
}

#[test]
fn a_literal_of_ten_megabytes_is_fine() {
    for (format, tail) in [
        (RdfFormat::NTriples, "\" .\n"),
        (RdfFormat::Turtle, "\" .\n"),
    ] {
        let text = format!("<a:a> <a:a> \"{}{tail}", "x".repeat(10 << 20));
        assert_eq!(
            count(source(text, format), &ParseOptions::default()).expect("fine"),
            1
        );
    }
    let escaped = format!("<a:a> <a:a> \"{}\" .\n", "\\n".repeat(5 << 20));
    assert_eq!(
        count(
            source(escaped, RdfFormat::NTriples),
            &ParseOptions::default()
        )
        .expect("fine"),
        1
    );
}

#[test]
fn an_endless_token_of_turtle_is_refused() {
    let source = endless("<a:a> <a:a> \"\"\"", "x\n", 1 << 30, RdfFormat::Turtle);
    let error = count(source, &ParseOptions::default()).expect_err("too long");
    assert!(
        error.to_string().contains("a token longer than 16 MiB"),
        "{error}"
    );
}

#[test]
fn nesting_is_bounded() {
    for (format, unit) in [
        (RdfFormat::NTriples, "<<( <a:a> <a:a> "),
        (RdfFormat::NQuads, "<<(<a:a><a:a>"),
        (RdfFormat::Turtle, "<<( <a:a> <a:a> "),
        (RdfFormat::Turtle, "<< <a:a> <a:a> "),
        (RdfFormat::Turtle, "[ <a:a> "),
        (RdfFormat::Turtle, "( "),
        (RdfFormat::TriG, "( "),
        (RdfFormat::Turtle, "<a:a> {| <a:a> "),
    ] {
        let start = "<a:a> <a:a> <a:a> .\n<a:a> <a:a> ";
        let source = endless(start, unit, 50_000_000, format);
        let error = count(source, &ParseOptions::default()).expect_err("too deep");
        assert!(error.to_string().contains("hostile:2:"), "{unit}: {error}");
        assert!(error.to_string().contains("nest deeper"), "{unit}: {error}");
    }
}

#[test]
fn nesting_within_the_bounds_is_fine() {
    let deep = |open: &str, core: &str, close: &str, depth: usize| {
        format!(
            "<a:a> <a:a> {}{core}{} .\n",
            open.repeat(depth),
            close.repeat(depth)
        )
    };
    for (format, text) in [
        (
            RdfFormat::NTriples,
            deep("<<( <a:a> <a:a> ", "<a:a>", " )>>", 100),
        ),
        (
            RdfFormat::Turtle,
            deep("<<( <a:a> <a:a> ", "<a:a>", " )>>", 100),
        ),
        (RdfFormat::Turtle, deep("[ <a:a> ", "<a:a>", " ]", 3000)),
        (RdfFormat::Turtle, deep("( ", "<a:a>", " )", 3000)),
        // Brackets in strings, IRIs, comments and escapes do not count.
        (
            RdfFormat::Turtle,
            format!(
                "<a:a> <a:((((> \"{0}\", '{0}', \"\"\"{0}\"{0}\"\"\", '''\\'{0}''' . # {0}\n",
                "([<<(".repeat(3000)
            ),
        ),
        (
            RdfFormat::NTriples,
            format!(
                "<a:a> <a:a> \"\\U00000041{0}\" . # {0}\n",
                "<<(".repeat(3000)
            ),
        ),
        (
            RdfFormat::Turtle,
            "<a:a> <a:a> \"\", '' , <> .\n".repeat(10_000),
        ),
        (
            RdfFormat::Turtle,
            "@prefix a: <a:> . a:x\\(y a:p ( 1 2 ) , [ a:q 1<2> ] .\n"
                .replace("1<2>", "1")
                .repeat(5_000),
        ),
    ] {
        let source = source(text, format).with_base(Some("http://e/".to_owned()));
        count(source, &ParseOptions::default()).expect("fine");
    }
}

const XML: &str = "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://e/'>";

fn json_ld() -> RdfFormat {
    RdfFormat::from_extension("jsonld").expect("known")
}

#[test]
fn deep_documents_of_other_formats_are_refused() {
    for (format, start, unit) in [
        (RdfFormat::RdfXml, XML, "<a><b>"),
        (
            RdfFormat::RdfXml,
            XML,
            "<a xmlns:n='http://n/' n:x='>/' n:y=\"/>&gt;\"><!-- > -->\n<b>",
        ),
        (json_ld(), "{\"http://e/p\": ", "[[{\"http://e/p\": "),
        (json_ld(), "", "["),
        (json_ld(), "{\"@context\": ", "{\"a\\\"\": "),
    ] {
        let source = endless(start, unit, 10_000_000, format);
        let error = count(source, &ParseOptions::default()).expect_err("no end");
        assert!(error.to_string().contains("nest deeper"), "{unit}: {error}");
    }
}

#[test]
fn documents_within_the_bounds_are_fine() {
    let xml = |body: &str| {
        format!(
            "<?xml version='1.0'?>\n<!DOCTYPE r:RDF [<!ENTITY e \"http://e/\"> <!ENTITY f \"&e;f\">]>\n{XML}{body}</r:RDF>"
        )
    };
    let nested = format!("{}<a/>{}", "<a><b>".repeat(400), "</b></a>".repeat(400));
    let siblings = "<a r:about='&f;/'><p>&e;<!-- <<< --></p><q><![CDATA[ <a><b> ]]></q><s r:resource=\"&f;\"/><?pi <a> ?></a>\n".repeat(5000);
    assert_eq!(
        count(
            source(xml(&nested), RdfFormat::RdfXml),
            &ParseOptions::default()
        )
        .expect("fine"),
        801
    );
    assert_eq!(
        count(
            source(xml(&siblings), RdfFormat::RdfXml),
            &ParseOptions::default()
        )
        .expect("fine"),
        20_000
    );
    let deep = format!("{}1{}", "{\"http://e/p\": ".repeat(500), "}".repeat(500));
    assert_eq!(
        count(source(deep, json_ld()), &ParseOptions::default()).expect("fine"),
        500
    );
}

#[test]
fn entities_do_not_explode() {
    let mut doctype =
        String::from("<?xml version='1.0'?><!DOCTYPE a [<!ENTITY e0 \"xxxxxxxxxxxxxxxx\">");
    for level in 1..12 {
        let reference = format!("&e{};", level - 1).repeat(16);
        doctype.push_str(&format!("<!ENTITY e{level} \"{reference}\">"));
    }
    doctype.push_str("]>");
    let error =
        count(source(doctype, RdfFormat::RdfXml), &ParseOptions::default()).expect_err("too long");
    assert!(error.to_string().contains("entities longer"), "{error}");
    // One entity of 64 KiB, used without end.
    let start = format!(
        "<!DOCTYPE a [<!ENTITY e \"{}\">]>{XML}<a><p>",
        "x".repeat(1 << 16)
    );
    let error = count(
        endless(&start, "&e;", 1 << 24, RdfFormat::RdfXml),
        &ParseOptions::default(),
    )
    .expect_err("too long");
    assert!(
        error.to_string().contains("before the next statement"),
        "{error}"
    );
}

#[test]
fn endless_text_in_other_formats_is_refused() {
    for (format, start, unit) in [
        (RdfFormat::RdfXml, format!("{XML}<a><p>"), "xxxxxxx\n"),
        (
            RdfFormat::RdfXml,
            format!("{XML}<a><p r:parseType='Literal'>"),
            "<x/>",
        ),
        (json_ld(), "{\"http://e/p\": \"".to_owned(), "xxxxxxx"),
        (json_ld(), "{\"http://e/p\": [".to_owned(), "[], "),
    ] {
        let mut options = ParseOptions::default();
        options.document_bytes_max = 1 << 20;
        let error = count(endless(&start, unit, 1 << 30, format), &options).expect_err("too long");
        assert!(
            error.to_string().contains("more than 1048576 bytes"),
            "{unit}: {error}"
        );
    }
}

#[test]
fn json_ld_of_any_length_is_read_by_the_streaming_profile() {
    let streaming = pythia_rdf::format::format_from_name("streaming-json-ld").expect("known");
    let text = format!(
        "{{\"@context\": {{}}, \"@graph\": [{}{{}}]}}",
        "{\"@id\": \"a:a\", \"http://e/p\": 1}, ".repeat(50_000)
    );
    let mut options = ParseOptions::default();
    options.document_bytes_max = 1 << 20;
    assert_eq!(
        count(source(text.clone(), streaming), &options).expect("streamed"),
        50_000
    );
    assert!(count(source(text.clone(), json_ld()), &options).is_err());
    assert_eq!(
        count(source(text, json_ld()), &ParseOptions::default()).expect("held"),
        50_000
    );
}

#[test]
fn invalid_utf8_names_its_place() {
    let text = b"<a:a> <a:a> <a:a> .\n<a:a> <a:a> \"abc\xff\" .\n".to_vec();
    for format in [RdfFormat::NTriples, RdfFormat::NQuads, RdfFormat::Turtle] {
        let error = parse_all(vec![source(text.clone(), format)], &options(1 << 20), 1)
            .expect_err("bad bytes");
        let ParseError::Syntax(problem) = &error else {
            panic!("{error}")
        };
        assert_eq!(problem.line, 2, "{error}");
        assert!(problem.message.to_lowercase().contains("utf-8"), "{error}");
    }
}

#[test]
fn the_first_error_is_reported_whatever_the_threads() {
    let mut text = String::new();
    for line in 0..5000 {
        text.push_str(&format!("<a:a> <a:a> \"{line}\" .\n"));
        if line % 1000 == 700 {
            text.push_str("<a:a> <a:a> broken .\n");
        }
    }
    for workers in 1..4 {
        for _ in 0..10 {
            let error = parse_all(
                vec![source(text.clone(), RdfFormat::NTriples)],
                &options(512),
                workers,
            )
            .expect_err("broken");
            let ParseError::Syntax(problem) = error else {
                panic!("{error}")
            };
            assert_eq!((problem.line, problem.column), (702, 13));
        }
    }
}

#[test]
fn an_endless_file_is_not_read_ahead_of_the_workers() {
    // A sink that fails stops the reader of a text without end.
    struct Full;
    impl pythia_rdf::QuadSink for Full {
        type Term = ();
        fn key(
            &mut self,
            _: pythia_rdf::TermKey<'_>,
            _: impl FnOnce() -> Result<(), pythia_rdf::TermError>,
        ) -> Result<(), pythia_rdf::TermError> {
            Ok(())
        }
        fn inline(&mut self, _: pythia_rdf::TermId) {}
        fn default_graph(&mut self) {}
        fn quad(&mut self, (): (), (): (), (): (), (): ()) -> Result<(), pythia_rdf::SinkError> {
            Err(pythia_rdf::SinkError::new(io::Error::other(
                "the disk is full",
            )))
        }
    }
    for format in [RdfFormat::NTriples, RdfFormat::Turtle] {
        let source = endless("", "<a:a> <a:a> <a:a> .\n", u64::MAX, format);
        let error = parse_sources(
            vec![source],
            &ParseOptions::default(),
            &mut [Full, Full],
            &Progress::default(),
        )
        .expect_err("full");
        let ParseError::Sink(error) = error else {
            panic!("{error}")
        };
        assert_eq!(
            error
                .downcast::<io::Error>()
                .expect("what was put in")
                .to_string(),
            "the disk is full"
        );
    }
}
