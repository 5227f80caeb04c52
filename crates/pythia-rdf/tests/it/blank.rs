//! Blank text is left out before the parser, and places stay those of the text.

use pythia_rdf::{ParseError, RdfFormat};

use crate::collect::{json_ld, options, parse_all, source};

fn lines(sources: Vec<pythia_rdf::Source>) -> Vec<String> {
    let (quads, _) = parse_all(sources, &options(1 << 10), 2).expect("valid");
    let mut lines: Vec<String> = quads.iter().map(ToString::to_string).collect();
    lines.sort();
    lines
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

#[test]
fn places_after_blank_text_of_any_kind_are_those_of_the_text() {
    for (unit, lines, columns) in [
        ("\n", 5000, 0),
        ("\r\n", 5000, 0),
        ("\r", 5000, 0),
        ("\n ", 5000, 1),
        ("#\n", 5000, 0),
        ("# é \"'<>\\\r\n", 5000, 0),
        (" ", 0, 5000),
        ("\t", 0, 5000),
    ] {
        let blank = unit.repeat(5000);
        for format in [RdfFormat::Turtle, RdfFormat::TriG] {
            // Twice in a line, behind characters of more than one byte.
            let text = format!("<a:s> <a:é> 'é'{blank}.{blank}<a:s> <a:p> nothing .");
            let (line, column) = place_of_error(&text, format);
            assert_eq!(line, 2 * lines + 1, "{unit:?}");
            let before = if lines == 0 { 16 } else { 0 };
            let twice = if lines == 0 { 2 * columns } else { columns };
            assert_eq!(column, before + twice + 13, "{unit:?}");
        }
        if unit.starts_with('#') {
            continue;
        }
        let text = format!("{{\"http://e/p\":{blank}[1,{blank}}}");
        let (line, column) = place_of_error(&text, json_ld());
        assert_eq!(line, 2 * lines + 1, "{unit:?}");
        let column_expected = if lines == 0 {
            18 + 2 * columns
        } else {
            columns + 1
        };
        assert_eq!(column, column_expected, "{unit:?}");
    }
}

fn place_of_error(text: &str, format: RdfFormat) -> (u64, u64) {
    let error = parse_all(vec![source(text, format)], &options(1 << 10), 1).unwrap_err();
    let ParseError::Syntax(problem) = &error else {
        panic!("{error}");
    };
    (problem.line, problem.column)
}

#[test]
fn lines_of_rdf_xml_are_those_of_the_text() {
    let blank = " \n\r\n".repeat(50_000);
    let start = "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>";
    for (text, expected) in [
        (
            format!("{blank}{start}{blank}<r:Description>{blank}</r:RDF>\n"),
            300_001,
        ),
        (
            format!("{start}\n{blank}<r:Description>\n</r:RDF>{blank}"),
            100_003,
        ),
    ] {
        assert_eq!(place_of_error(&text, RdfFormat::RdfXml), (expected, 0));
    }
}
