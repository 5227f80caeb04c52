//! Queries, updates and graphs as clients send them.

use crate::support::Served;

const DATA: &str = "
    PREFIX ex: <http://ex.org/>
    ex:a ex:p ex:b, ex:c . ex:b ex:p ex:c .
    GRAPH ex:g { ex:a ex:q 'é' }
";

#[test]
fn queries_are_answered_by_every_method() {
    let served = Served::with(DATA);
    let select = "SELECT ?o { <http://ex.org/a> <http://ex.org/p> ?o } ORDER BY ?o";
    let encoded = "query=SELECT%20%3Fo%20%7B%20%3Chttp%3A%2F%2Fex.org%2Fa%3E+%3Chttp://ex.org/p%3E%20?o%7D%20ORDER+BY+?o";
    let csv = "o\r\nhttp://ex.org/b\r\nhttp://ex.org/c\r\n";
    let accept = ("accept", "text/csv");
    for path in ["/query", "/sparql", "/ds/query", "/ds/sparql", "/ds"] {
        let get = served.get(&format!("{path}?{encoded}"), &[accept]);
        assert_eq!((get.status.as_u16(), get.text()), (200, csv), "{path}");
        assert_eq!(get.header("content-type"), Some("text/csv"));
        for (method, media_type, body) in [
            ("POST", "application/sparql-query", select),
            ("QUERY", "application/sparql-query; charset=UTF-8", select),
            ("POST", "application/x-www-form-urlencoded", encoded),
        ] {
            let headers = [accept, ("content-type", media_type)];
            let answer = served.send(method, path, &headers, body.as_bytes());
            assert_eq!(answer.text(), csv, "{method} {path} {media_type}");
        }
    }
}
