use super::*;

/// Analyses the position of `¦` in a text.
fn at(text: &str) -> CompletionContext {
    let cursor = text.find('¦').expect("marked");
    CompletionContext::at(&text.replacen('¦', "", 1), cursor)
}

const PROLOGUE: &str = "PREFIX e: <http://e/>\nSELECT * {\n";

fn pattern(group: &str) -> String {
    let place = at(&format!("{PROLOGUE}{group}"));
    place.patterns.first().cloned().unwrap_or_default()
}

#[test]
fn what_is_expected_follows_from_what_is_open() {
    use Expected::{
        AfterTriple, Class, Clause, Expression, Graph, Nothing, Object, Predicate, PrefixName,
        Projection, Subject,
    };
    for (text, expected) in [
        ("¦", Clause),
        ("SEL¦", Clause),
        ("PREFIX f¦", PrefixName),
        ("PREFIX f: <http://x/> ¦", Clause),
        ("SELECT ?¦", Projection),
        ("SELECT ?x FROM ¦", Graph),
        ("SELECT * { ¦", Subject),
        ("SELECT * { OPT¦", Subject),
        ("SELECT * { ?x ¦", Predicate),
        ("SELECT * { ?x a ¦", Class),
        ("SELECT * { ?x foaf:knows ¦", Object),
        ("SELECT * { ?x foaf:knows/¦", Predicate),
        ("SELECT * { ?x (foaf:knows|¦", Predicate),
        ("SELECT * { ?x foaf:knows ?y ¦", AfterTriple),
        ("SELECT * { ?x foaf:knows ?y ; ¦", Predicate),
        ("SELECT * { ?x foaf:knows ?y , ¦", Object),
        ("SELECT * { ?x foaf:knows [ ¦", Predicate),
        ("SELECT * { ?x foaf:knows [] . ¦", Subject),
        ("SELECT * { ?x foaf:knows ?y . OPTIONAL { ?y ¦", Predicate),
        ("SELECT * { { ?x ?p ?y } UNION { ?y ¦", Predicate),
        ("SELECT * { GRAPH ¦", Graph),
        ("SELECT * { GRAPH ?g { ?x ¦", Predicate),
        ("SELECT * { SERVICE <http://x/> { ?x ¦", Nothing),
        ("SELECT * { ?x ?p ?o FILTER(¦", Expression),
        ("SELECT * { ?x ?p ?o FILTER(?x < ¦", Expression),
        ("SELECT * { ?x ?p ?o FILTER(?o > 3) ?o ¦", Predicate),
        ("SELECT * { ?x ?p ?o FILTER NOT EXISTS { ?o ¦", Predicate),
        ("SELECT * { VALUES (?x ?y) { (1 2) } ?x ¦", Predicate),
        ("SELECT * { VALUES ?x { ¦", Nothing),
        ("SELECT * { ?x ?p \"¦", Nothing),
        ("SELECT * { ?x # ¦", Nothing),
        ("SELECT * { ?x ?p 'a'@en ; ¦", Predicate),
        ("SELECT * { ?x ?p '1'^^xsd:integer ; ¦", Predicate),
        ("SELECT * { } ORDER BY ¦", Projection),
        ("SELECT * { } LIMIT 1 ¦", Clause),
        ("SELECT * { { SELECT (COUNT(*) AS ?n) { ?x ¦", Predicate),
        ("INSERT DATA { <http://a> ¦", Predicate),
        ("DELETE { ?x ?p ?o } WHERE { ?x ¦", Predicate),
    ] {
        assert_eq!(at(text).expected, expected, "{text}");
    }
}

#[test]
fn the_word_under_the_cursor_is_replaced_whole() {
    for (text, typed, replaced) in [
        ("SELECT * { ?x foaf:na¦me ?y }", "foaf:na", "foaf:name"),
        ("SELECT * { ?x foaf:¦ ?y }", "foaf:", "foaf:"),
        (
            "SELECT * { ?x <http://x/a¦ ?y }",
            "<http://x/a",
            "<http://x/a",
        ),
        (
            "SELECT * { ?x <http://x/a¦bc> ?y }",
            "<http://x/a",
            "<http://x/abc>",
        ),
        ("SELECT * { ?¦", "?", "?"),
        ("SELECT * { ?na¦me ", "?na", "?name"),
        ("SELECT * { ?x¦}", "?x", "?x"),
        ("SELECT * { ?x ¦ ?y", "", ""),
        ("SELECT * { FILTER(?x < ¦3)", "", ""),
        ("SELECT * { ?é wo¦rd", "wo", "word"),
    ] {
        let place = at(text);
        let text = text.replacen('¦', "", 1);
        assert_eq!(
            (place.typed.as_str(), &text[place.span]),
            (typed, replaced),
            "{text}"
        );
    }
}

#[test]
fn patterns_hold_what_is_linked_to_the_place() {
    for (group, expected) in [
        ("?x ¦", "?x ?pythiaSought ?pythia1 . "),
        ("?x ¦ ?y", "?x ?pythiaSought ?y . "),
        (
            "?a e:b ?c . ?x a e:T ; ¦ }",
            "?x <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://e/T> . ?x ?pythiaSought ?pythia1 . ",
        ),
        ("?x e:p ¦ . ?a e:b ?c", "?x <http://e/p> ?pythiaSought . "),
        (
            "?x e:p ¦ . ?x e:q 'v'@en, \"1\"^^e:d }",
            "?x <http://e/p> ?pythiaSought . ?x <http://e/q> 'v'@en . ?x <http://e/q> \"1\"^^<http://e/d> . ",
        ),
        (
            "?x e:p/e:q/¦",
            "?x <http://e/p>/<http://e/q> ?pythia1 . ?pythia1 ?pythiaSought ?pythia2 . ",
        ),
        ("?x ^¦", "?pythia1 ?pythiaSought ?x . "),
        (
            "?x e:p [ e:q ?y ; ¦ ]",
            "?x <http://e/p> ?pythia1 . ?pythia1 <http://e/q> ?y . ?pythia1 ?pythiaSought ?pythia2 . ",
        ),
        (
            "GRAPH ?g { ?x e:p ¦ } ?g e:q ?z",
            "?g <http://e/q> ?z . GRAPH ?g { ?x <http://e/p> ?pythiaSought . } ",
        ),
        (
            "?x e:p ?y OPTIONAL { ?y ¦ } ?y e:r ?z }",
            "?x <http://e/p> ?y . ?y <http://e/r> ?z . ?y ?pythiaSought ?pythia1 . ",
        ),
        (
            "¦ a e:T",
            "?pythiaSought <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://e/T> . ",
        ),
        ("¦", ""),
        ("?x unknown:p ?y . ?x ¦", "?x ?pythiaSought ?pythia1 . "),
        ("?x (e:a|¦)+ ?y", "?x ?pythiaSought ?pythia1 . "),
    ] {
        assert_eq!(pattern(group), expected, "{group}");
    }
}

#[test]
fn samples_go_on_from_some_of_what_is_around() {
    let sample = |group: &str| at(&format!("{PROLOGUE}{group}")).samples.first().cloned();
    let expected = |text: &str| Some(text.to_owned());
    assert_eq!(sample("?x ¦ ?y"), None);
    assert_eq!(
        sample("?x e:p ?y . ?x e:q 1 . ?y ¦ }"),
        expected(
            "{ SELECT ?y { ?x <http://e/p> ?y . ?x <http://e/q> 1 . } LIMIT 1000 } ?y ?pythiaSought ?pythia1 . "
        )
    );
    // Triples that depend on the sought term are matched after it.
    assert_eq!(
        sample("?x e:p ?y . ?y ¦ ?z . ?z e:q ?w }"),
        expected(
            "{ SELECT ?y { ?x <http://e/p> ?y . } LIMIT 1000 } ?y ?pythiaSought ?z . ?z <http://e/q> ?w . "
        )
    );
}

#[test]
fn a_triple_behind_the_place_may_belong_to_another_line() {
    let place = at(&format!("{PROLOGUE}?x ¦\n?y e:p ?z }}"));
    assert_eq!(
        place.patterns,
        ["?x ?pythiaSought ?y . ", "?x ?pythiaSought ?pythia1 . "]
    );
}

#[test]
fn declarations_and_variables_are_those_of_the_whole_text() {
    let place = at("BASE <http://b/> PREFIX a: <http://a/> SELECT ¦ { ?x a:p ?y . ?y ?p $x }");
    assert_eq!(place.variables, ["x", "y", "p"]);
    assert_eq!(place.prefixes, [("a".to_owned(), "http://a/".to_owned())]);
    assert_eq!(place.base.as_deref(), Some("http://b/"));
}

#[test]
fn any_text_and_place_is_taken() {
    let pieces = [
        "SELECT",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "?x",
        "e:p",
        "<http://e/",
        "<<",
        ">>",
        "\"",
        "#",
        "\n",
        ".",
        ";",
        "/",
        "^",
        "GRAPH",
        "FILTER",
        "é",
        "VALUES",
        "|}",
        "^^",
        "@en",
        "PREFIX",
        "SERVICE",
    ];
    let mut state = 7_u64;
    for _ in 0..3000 {
        let mut text = String::new();
        for _ in 0..12 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            text.push_str(pieces[(state >> 33) as usize % pieces.len()]);
            text.push_str(if state >> 62 == 0 { "" } else { " " });
        }
        for (cursor, _) in text.char_indices() {
            let place = CompletionContext::at(&text, cursor);
            assert!(
                text.is_char_boundary(place.span.start) && place.span.contains(&cursor)
                    || place.span.end == cursor
            );
        }
    }
    let deep = "SELECT * { ".repeat(5000);
    assert_eq!(
        CompletionContext::at(&deep, deep.len()).expected,
        Expected::Nothing
    );
}
