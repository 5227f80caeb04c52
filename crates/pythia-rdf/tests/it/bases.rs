//! Base IRIs lose their dot segments, and nothing else does.

use std::io::Cursor;

use pythia_rdf::RdfFormat;

use crate::collect::{Trickle, json_ld, options, parse_all, source};

/// Parses a text that arrives in pieces of a given size; returns the quads, sorted.
fn lines_in_pieces(text: &str, format: RdfFormat, piece: usize, lenient: bool) -> Vec<String> {
    let mut source = source(text, format);
    source.reader = Box::new(Trickle(Cursor::new(text.as_bytes().to_vec()), piece));
    let options = options(1 << 10).with_lenient(lenient);
    let (quads, _) = parse_all(vec![source], &options, 1).unwrap_or_else(|e| panic!("{e}: {text}"));
    let mut lines: Vec<String> = quads.iter().map(ToString::to_string).collect();
    lines.sort();
    lines
}

/// Checks that the text says this, in pieces of any size.
fn says(format: RdfFormat, text: &str, expected: &str) {
    for piece in [1, 2, 7, 4096] {
        let found = lines_in_pieces(text, format, piece, false).join("\n");
        assert_eq!(found, expected, "{text} in pieces of {piece}");
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
    let statements_in_xml = "<e:p r:resource='#f'/><e:p r:resource='?y'/><e:p r:resource=''/>\
                             <e:p r:resource='http://a/x/../y'/>";
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
            RdfFormat::RdfXml,
            xml("xml:base='http://a/c/../b'", statements_in_xml),
        ),
        (
            json_ld(),
            format!(
                "{{\"@context\": {{\"@base\" : \"http://a/c/../b\"}}, \"@id\": \"http://e/s\", {json}}}"
            ),
        ),
    ];
    for (format, text) in &cases {
        says(*format, text, &expected.join("\n"));
    }
    let given = source(statements, RdfFormat::Turtle);
    let given = given.with_base(Some("http://a/c/d/../../b".to_owned()));
    let (quads, _) = parse_all(vec![given], &options(1 << 10), 1).expect("valid");
    let mut lines: Vec<String> = quads.iter().map(ToString::to_string).collect();
    lines.sort();
    assert_eq!(lines, expected);
}

#[test]
fn what_only_looks_like_a_base_stays() {
    let text = "@prefix e: <http://e/> . \
                e:s e:p \"@base <http://a/../b>\" , \"\"\"\nBASE <http://a/../b>\n\"\"\" . \
                e:s e:base <http://a/../b> . # BASE <http://a/../c>\n";
    let found = lines_in_pieces(text, RdfFormat::Turtle, 64, false).concat();
    assert_eq!(found.matches("http://a/../b").count(), 3, "{found}");
    let json = "{\"@id\": \"http://e/s\", \"http://e/p\": [\"@base\", \"http://a/../b\", \
                \"\\\"@base\\\": \\\"http://a/../b\\\"\"]}";
    let found = lines_in_pieces(json, json_ld(), 64, false).concat();
    assert_eq!(found.matches("http://a/../b").count(), 2, "{found}");
}

/// A document in RDF/XML: what stands in its outermost tag, and in a description of `http://e/s`.
fn xml(attributes: &str, properties: &str) -> String {
    format!(
        "<?xml version='1.0'?>\n<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#' \
         xmlns:e='http://e/' {attributes}>\n<r:Description r:about='http://e/s'>{properties}\
         </r:Description></r:RDF>"
    )
}

const DOTS: &str = "<http://a/x/../y>";

#[test]
fn base_is_a_declaration_as_a_whole_token_only() {
    let object = "<http://e/s> <http://e/p> <http://a/x/../y>";
    for format in [RdfFormat::Turtle, RdfFormat::TriG] {
        let e = "@prefix e: <http://e/> . @prefix base: <http://e/> . @prefix : <http://e/> .\n";
        for (statement, expected) in [
            (
                "e:s e:v1.base IRI .",
                "<http://e/s> <http://e/v1.base> <http://a/x/../y>",
            ),
            ("_:a.base IRI 'v' .", "_:a.base <http://a/x/../y> \"v\""),
            (
                "_:a.base\r\n#\r\nIRI 'v' .",
                "_:a.base <http://a/x/../y> \"v\"",
            ),
            (
                "e:s e:\\.base IRI .",
                "<http://e/s> <http://e/.base> <http://a/x/../y>",
            ),
            (
                "e:s e:\\@base IRI .",
                "<http://e/s> <http://e/@base> <http://a/x/../y>",
            ),
            (
                "e:s :base IRI .",
                "<http://e/s> <http://e/base> <http://a/x/../y>",
            ),
            (
                "e:s base: IRI .",
                "<http://e/s> <http://e/> <http://a/x/../y>",
            ),
            (
                "e:s e::.base IRI .",
                "<http://e/s> <http://e/:.base> <http://a/x/../y>",
            ),
            ("<http://e/s> e:p 'x' . # BASE\ne:s e:p IRI .", ""),
            ("e:s e:p 'a'@base . IRI IRI IRI .", ""),
            ("e:s e:p IRI .", object),
        ] {
            let text = format!("{e}{}", statement.replace("IRI", DOTS));
            if expected.is_empty() {
                let found = lines_in_pieces(&text, format, 5, false).concat();
                let kept = statement.matches("IRI").count();
                assert_eq!(found.matches("/x/../y").count(), kept, "{text}");
            } else {
                says(format, &text, expected);
            }
        }
        for list in [
            "'a'@base IRI",
            "''@base IRI",
            "'''a'''@base#\r\nIRI",
            "'a' @base\nIRI",
        ] {
            let list = list.replace("IRI", DOTS);
            let text = format!("{e}e:s e:p ( {list} 'b'@version 'c'@base {DOTS} ) .");
            let found = lines_in_pieces(&text, format, 3, false).concat();
            assert_eq!(found.matches("/x/../y").count(), 2, "{text}");
        }
    }
}

#[test]
fn bases_are_found_wherever_one_may_be_declared() {
    for format in [RdfFormat::Turtle, RdfFormat::TriG] {
        for before in [
            "VERSION \"1.2\"\nBASE",
            "VERSION '1.2' @base",
            "@version \"1.2\" . BASE",
            "PREFIX a: <a:> BaSe",
            "@prefix a: <a:>.base",
            "@base <http://b/>.@base",
            "BASE <http://b/> #\r\n#\n base",
            "@prefix a: <a:> . a: a: a: .base",
            "@prefix a: <a:> . a: a: a:.base",
            "<a:> <a:> <a:>.base",
            "<a:> <a:> 1.base",
            "<a:> <a:> 1.5.base",
            "<a:> <a:> .5e7.@base",
            "<a:> <a:> 'a'.base",
            "<a:> <a:> ''@en.base",
            "<a:> <a:> 'a'@base.base",
            "<a:> <a:> true .base",
            "<a:> <a:> ().base",
            "<a:> <a:> [].base",
            "_:b <a:> _:b.@base",
        ] {
            let end = if before.contains("@base") && before.ends_with("@base") {
                " ."
            } else {
                ""
            };
            for iri in ["http://a/x/../y", "http://a/x/\\u002e\\U0000002E/y"] {
                let text = format!("{before}<{iri}>{end} <#a> <#p> <?q> .");
                for piece in [1, 3, 4096] {
                    let found = lines_in_pieces(&text, format, piece, false).join("\n");
                    let expected = "<http://a/y#a> <http://a/y#p> <http://a/y?q>";
                    assert!(found.contains(expected), "{text}: {found}");
                }
            }
        }
    }
    says(
        RdfFormat::TriG,
        "{}BASE<http://a/x/../y>{<#a><#p><?q>}",
        "<http://a/y#a> <http://a/y#p> <http://a/y?q>",
    );
}

#[test]
fn what_is_wrong_does_not_become_right() {
    for base in [
        "http://a/x y/../z",
        "http://a/%zz/../z",
        "http://a/\\u0020/../z",
        "http://a/\\uD800/../z",
    ] {
        let text = format!("BASE <{base}> <#a> <#p> <?q> .");
        let source = source(text, RdfFormat::Turtle);
        parse_all(vec![source], &options(1), 1).expect_err("no IRI");
    }
}

#[test]
fn json_literals_keep_what_looks_like_a_base() {
    let dots = r#"{"@base":"http://a/x/../y"}"#;
    let context = format!(r#"{{"@context":{dots}}}"#);
    for json in [dots, &context, &format!("[[{context}]]")] {
        for (terms, property) in [
            ("{}", r#""http://e/p": {"@type":"@json","@value":JSON}"#),
            ("{}", r#""http://e/p": {"@value":JSON,"@type":"@json"}"#),
            (
                "{}",
                r#""http://e/p": {"@value":JSON,"@type":"\u0040json"}"#,
            ),
            (
                r#"{"v":"@value"}"#,
                r#""http://e/p": {"v":JSON,"@type":"@json"}"#,
            ),
            (
                r#"{"v":"@value","j":"@type"}"#,
                r#""http://e/p": [{"v":JSON,"j":"@json"}]"#,
            ),
            (
                r#"{"p":{"@id":"http://e/p","@type":"@json"}}"#,
                r#""p": JSON"#,
            ),
        ] {
            for text in [
                format!(r#"{{"@context":{terms},"@id":"http://e/s",{property}}}"#),
                format!(r#"{{"@id":"http://e/s",{property},"@context":{terms}}}"#),
            ] {
                let text = text.replace("JSON", json);
                let found = lines_in_pieces(&text, json_ld(), 9, false).concat();
                assert!(found.contains("http://a/x/../y"), "{text}: {found}");
                assert!(found.contains("JSON"), "{text}: {found}");
            }
        }
    }
}

#[test]
fn contexts_of_any_depth_declare_bases() {
    let s = r##""@id":"#s","http://e/p":[]"##;
    let context = r#""@context":{"@base":"http:\/\/a/x/../y","t":{"@id":"http://e/t"}}"#;
    let json = r#""http://e/j":{"@type":"@json","@value":{"@base":"http://a/x/../y"}}"#;
    let node = format!(r##"{{{context},{s},"http://e/q":{{"@id":"?o"}}}}"##);
    for text in [
        node.clone(),
        format!("[{node}]"),
        node.replace("\"@context\":{", "\"@context\":[{},{")
            .replace("http://e/t\"}}", "http://e/t\"}}]"),
        node.replace("@context", "\\u0040context")
            .replace("@base", "@\\u0062ase"),
        format!(r#"{{"@graph":[{node}]}}"#),
        format!(r#"{{"http://e/x":[{{"http://e/y":{node}}}]}}"#),
        format!(r#"{{"http://e/x":{node},{json}}}"#),
        format!(r#"{{{json},"http://e/x":[{node},1]}}"#),
        format!(
            r#"{{"@context":{{"x":{{"@id":"http://e/x",{context}}}}},"x":{node}}}"#,
            node = node.replace(context, r#""@context":{}"#),
        ),
    ] {
        for piece in [1, 10, 4096] {
            let found = lines_in_pieces(&text, json_ld(), piece, false).join("\n");
            let expected = "<http://a/y#s> <http://e/q> <http://a/y?o>";
            assert!(found.contains(expected), "{text}: {found}");
            let literals = text.matches("\"@value\"").count();
            assert_eq!(
                found.matches("/x/../y").count(),
                literals,
                "{text}: {found}"
            );
        }
    }
}

#[test]
fn xml_bases_hold_but_in_literals() {
    let base = "xml:base='http://a/x/../y'";
    for base in [
        base,
        "xml:base = \"http://a/x/../y\"",
        "e:a='>' xml:base\n=\n'http://a/x/&#46;&#x2e;/y'",
        "xml:base='http://a/x&amp;/../y'",
    ] {
        let properties = "<e:p r:resource='z'/><e:p r:resource='#f'/>";
        says(
            RdfFormat::RdfXml,
            &xml(&base.replace("e:a='>' ", ""), properties),
            "<http://e/s> <http://e/p> <http://a/y#f>\n<http://e/s> <http://e/p> <http://a/z>",
        );
        let inner = format!("<e:p {base} r:resource='#f'/>").replace("e:a='>' ", "");
        let expected = "<http://e/s> <http://e/p> <http://a/y#f>";
        says(RdfFormat::RdfXml, &xml("", &inner), expected);
    }
    let literal = |kind: &str| {
        format!(
            "<e:l r:parseType='{kind}'>a<x {base}>b<y/></x><z {base}/></e:l>\
             <e:p {base} r:resource='#f'/><!-- <x {base}/> -->"
        )
    };
    for kind in ["Literal", "Liter&#97;l"] {
        let found = lines_in_pieces(&xml("", &literal(kind)), RdfFormat::RdfXml, 6, false).concat();
        assert_eq!(found.matches("http://a/x/../y").count(), 2, "{found}");
        assert!(found.contains("<http://a/y#f>"), "{found}");
    }
    // rdf:Description inside a resource is a property element.
    let nested = format!("<e:l r:parseType='Resource'><e:p {base} r:resource='#f'/></e:l>");
    let found = lines_in_pieces(&xml("", &nested), RdfFormat::RdfXml, 6, false).concat();
    assert!(found.contains("<http://a/y#f>"), "{found}");
}
