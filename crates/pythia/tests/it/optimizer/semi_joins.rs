//! EXISTS, NOT EXISTS and OPTIONAL without a match: which side is read first, and how rows are tested.

use super::*;
use crate::support::analyze_inside;

/// 400 people with names, of whom 40 share theirs with the author of one of 20 works with an award.
fn awarded() -> String {
    let mut text = String::new();
    for n in 0..400 {
        text.push_str(&format!(
            "<http://e/person{n}> <http://e/name> \"name {}\" .\n\
             <http://e/person{n}> <http://e/page> <http://e/page{n}> .\n",
            n % 200
        ));
    }
    for n in 0..1200 {
        text.push_str(&format!(
            "<http://e/work{n}> <http://e/by> <http://e/person{}> .\n",
            n % 400
        ));
        if n % 60 == 0 {
            text.push_str(&format!(
                "<http://e/work{n}> <http://e/award> <http://e/a{n}> .\n"
            ));
        }
    }
    text
}

#[test]
fn an_equality_with_the_rows_outside_links_an_exists() {
    let data = awarded();
    let inside = "?w e:award ?z ; e:by ?q . ?q e:name ?m FILTER(?m = ?n)";
    for (filter, operator) in [
        ("FILTER NOT EXISTS { INSIDE }", "HashMinus"),
        (
            "FILTER NOT EXISTS { ?w e:award ?z ; e:by ?q . ?q e:name ?m FILTER(sameTerm(?n, ?m) && ?q != ?z) }",
            "HashMinus",
        ),
        ("OPTIONAL { INSIDE } FILTER(!BOUND(?m))", "HashMinus"),
        ("FILTER EXISTS { INSIDE }", "Distinct"),
    ] {
        let filter = filter.replace("INSIDE", inside);
        let query =
            format!("PREFIX e: <http://e/> SELECT ?p ?n {{ ?p e:page ?h ; e:name ?n {filter} }}");
        let plan = checked(&data, &query);
        part(&plan, operator);
        assert!(!plan.to_string().contains("EXISTS"), "{plan}");
    }
}

#[test]
fn an_equality_that_is_not_identity_or_is_used_twice_stays_a_test() {
    let mut data = awarded();
    data.push_str(
        "<http://e/work0> <http://e/number> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n",
    );
    for n in 0..400 {
        data.push_str(&format!(
            "<http://e/person{n}> <http://e/age> \"{n}.0\"^^<http://www.w3.org/2001/XMLSchema#decimal> .\n"
        ));
    }
    for filter in [
        "FILTER NOT EXISTS { ?w e:number ?m FILTER(?m = ?n) }",
        "FILTER EXISTS { ?w e:number ?m FILTER(?m = ?n) }",
        "OPTIONAL { ?w e:number ?m FILTER(?m = ?n) } FILTER(!BOUND(?m))",
    ] {
        let query = format!("PREFIX e: <http://e/> SELECT ?p {{ ?p e:age ?n {filter} }}");
        let plan = checked(&data, &query);
        assert!(plan.to_string().contains("EXISTS"), "{plan}");
    }
    for filter in [
        "FILTER NOT EXISTS { ?w e:award ?z ; e:by ?q . ?q e:name ?m FILTER(?m = ?n && STRLEN(?m) > 6) }",
        "FILTER NOT EXISTS { ?w e:award ?z ; e:by ?q . ?q e:name ?m FILTER(?m = ?n && ?m = ?p) }",
        "FILTER NOT EXISTS { ?w e:award ?z ; e:by ?q . ?q e:name ?m FILTER(?m = ?n)
            FILTER NOT EXISTS { ?other e:name ?m FILTER(?other = ?p) } }",
    ] {
        let query =
            format!("PREFIX e: <http://e/> SELECT ?p ?n {{ ?p e:page ?h ; e:name ?n {filter} }}");
        checked(&data, &query);
    }
}

#[test]
fn optional_without_a_match_is_not_exists_only_where_that_is_the_same() {
    let data = items(60);
    for query in [
        "SELECT ?s ?n ?r { ?s <http://e/next> ?n OPTIONAL { ?s <http://e/rare> ?r } FILTER(!BOUND(?r)) }",
        "SELECT ?s ?n ?r { ?s <http://e/next> ?n OPTIONAL { ?n <http://e/rare> ?r FILTER(?s != ?n && ?r != ?s) }
            FILTER(!BOUND(?r) && ?n != <http://e/3>) }",
        "SELECT ?s ?n ?r ?l { ?s <http://e/next> ?n OPTIONAL { ?n <http://e/rare> ?r OPTIONAL { ?n <http://e/label> ?l } }
            FILTER(!BOUND(?r)) }",
        // A variable of the inner OPTIONAL does not decide.
        "SELECT ?s ?n ?l ?r { ?s <http://e/next> ?n OPTIONAL { ?n <http://e/label> ?l OPTIONAL { ?n <http://e/rare> ?r } }
            FILTER(!BOUND(?r)) }",
        "SELECT ?s ?n ?r { ?s <http://e/next> ?n OPTIONAL { { ?n <http://e/rare> ?r } UNION { ?s <http://e/rare> ?r } }
            FILTER(!BOUND(?r)) }",
        "SELECT ?s ?n ?r ?l { ?s <http://e/next> ?n OPTIONAL { { ?n <http://e/rare> ?r } UNION { ?s <http://e/label> ?l } }
            FILTER(!BOUND(?r)) }",
        "SELECT ?s ?n ?l ?r { ?s <http://e/next> ?n OPTIONAL { SELECT ?n (MIN(?l) AS ?r) { ?n <http://e/rare> ?l } GROUP BY ?n }
            FILTER(!BOUND(?r)) }",
        // The left side may leave what both share unbound.
        "SELECT ?s ?n ?x ?v { ?s <http://e/next> ?n OPTIONAL { ?n <http://e/rare> ?x } OPTIONAL { ?s <http://e/rare> ?x . ?s <http://e/value> ?v }
            FILTER(!BOUND(?v)) }",
        "SELECT ?s ?n ?r { ?s <http://e/next> ?n OPTIONAL { ?s <http://e/rare> ?r } FILTER(!BOUND(?r)) FILTER(!BOUND(?n)) }",
        "SELECT ?s ?n ?r ?q { ?s <http://e/next> ?n OPTIONAL { ?s <http://e/rare> ?r } OPTIONAL { ?n <http://e/rare> ?q }
            FILTER(!BOUND(?r) && !BOUND(?q)) }",
        "SELECT ?s ?v ?n ?r { ?s <http://e/value> ?v FILTER EXISTS { ?s <http://e/next> ?n OPTIONAL { ?n <http://e/rare> ?r } FILTER(!BOUND(?r)) } }",
        "SELECT (COUNT(*) AS ?c) { ?s <http://e/next> ?n OPTIONAL { ?n <http://e/next> ?m . ?m <http://e/rare> ?r } FILTER(!BOUND(?m)) }",
    ] {
        checked(&data, query);
    }
}

#[test]
fn few_rows_are_tested_in_one_round() {
    let data = items(200);
    let query = "SELECT ?s { ?s <http://e/value> ?v
        FILTER NOT EXISTS { ?s <http://e/next> ?n . ?n <http://e/label> ?l FILTER(STRLEN(?l) > 8) } }";
    let (_, plan) = analyze_inside(&database(&data), query);
    let tests = plan.parts();
    let mut expands = tests
        .iter()
        .filter(|part| part.operator.starts_with("Expand") && part.detail.contains("next"));
    let first = expands.next().expect("a test that visits nodes");
    assert_eq!(first.measured.expect("it was run").batches, 1, "{plan}");
}

#[test]
fn a_list_of_terms_is_looked_up_for_each_link() {
    let mut data = items(400);
    for n in 0..400 {
        for letter in 0..12 {
            data.push_str(&format!(
                "<http://e/{n}> <http://e/letter> \"{letter}\" .\n"
            ));
        }
    }
    let query = "SELECT ?s ?l { ?s <http://e/rare> ?r . ?s <http://e/letter> ?l FILTER(?l IN (\"3\", \"7\", \"none\")) }";
    let plan = checked(&data, query);
    let expand = plan
        .parts()
        .into_iter()
        .find(|part| part.detail.contains("letter"))
        .expect("a step that reads letters")
        .clone();
    assert!(expand.detail.contains("where"), "{plan}");
    assert_eq!(expand.measured.expect("it was run").rows, 20, "{plan}");
    assert!(!plan.to_string().contains("Values"), "{plan}");
    for query in [
        // Few matches: the list comes first.
        "SELECT ?s ?l { ?s <http://e/label> ?l . ?s <http://e/letter> ?k FILTER(?l IN (\"label 3\", \"label 7\")) }",
        "SELECT ?s ?v { ?s <http://e/rare> ?r . ?s <http://e/value> ?v FILTER(?v IN (0, 40, 80, 1.0)) }",
        "SELECT ?s ?p ?o { ?s <http://e/rare> ?r . ?s ?p ?o FILTER(?p IN (<http://e/value>, <http://e/label>)) FILTER(?o IN (0, \"label 40\")) }",
        "SELECT ?s ?l { ?s <http://e/rare> ?r OPTIONAL { ?s <http://e/letter> ?l FILTER(?l IN (\"3\", \"none\")) } }",
    ] {
        checked(&data, query);
    }
}
