//! Results in every format, read back by the readers of others.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Cursor, Write};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};
use arrow_ipc::reader::StreamReader;
use oxigraph::io::{RdfFormat, RdfParser};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pythia::{
    Database, Options, QueryError, QueryOptions, ResultFormat, Results, WriteError, write_results,
};
use sparesults::{QueryResultsFormat, QueryResultsParser, ReaderQueryResultsParserOutput};

use crate::support::{database, database_with};

const DATA: &str = r#"
<http://e/a> <http://e/name> "Zoë, \"Z\"" .
<http://e/a> <http://e/age> "41"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e/a> <http://e/born> "1983-02-28"^^<http://www.w3.org/2001/XMLSchema#date> .
<http://e/a> <http://e/seen> "2024-01-01T12:00:00.5Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> .
<http://e/a> <http://e/price> "1.50"^^<http://www.w3.org/2001/XMLSchema#decimal> .
<http://e/a> <http://e/size> "1.5e3"^^<http://www.w3.org/2001/XMLSchema#double> .
<http://e/a> <http://e/label> "ab\tc"@en .
<http://e/a> <http://e/part> _:x .
<http://e/a> <http://e/odd> "x"^^<http://e/type> .
<http://e/b,c> <http://e/name> "a\nb\r" .
<http://e/b,c> <http://e/age> "7"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e/b,c> <http://e/price> "-20"^^<http://www.w3.org/2001/XMLSchema#decimal> .
<http://e/b,c> <http://e/label> "fin"@en .
<http://e/b,c> <http://e/odd> "y"^^<http://e/type> .
<http://e/b,c> <http://e/mix> "y" .
<http://e/a> <http://e/mix> <http://e/a> .
<http://e/a> <http://e/says> "שלום"@he--rtl .
<http://e/a> <http://e/states> <<( <http://e/a> <http://e/p> "q\"" )>> .
<http://e/a> <http://e/control> "\u0001" .
"#;

const WIDE: &str = "PREFIX e: <http://e/> SELECT * {
    ?node e:age ?age ; e:name ?name ; e:price ?price ; e:label ?label ; e:odd ?odd ; e:mix ?mix
    OPTIONAL { ?node e:born ?born ; e:seen ?seen ; e:size ?size ; e:part ?part }
    OPTIONAL { ?node e:nothing ?none }
} ORDER BY DESC(?age)";

fn written(database: &Database, query: &str, format: ResultFormat) -> Vec<u8> {
    let mut out = Vec::new();
    write_results(database.query(query).unwrap(), format, &mut out)
        .unwrap_or_else(|error| panic!("{format:?}: {error}"));
    out
}

fn text(query: &str, format: ResultFormat) -> String {
    String::from_utf8(written(&database(DATA), query, format)).unwrap()
}

fn columns(database: &Database, query: &str, format: ResultFormat) -> Vec<RecordBatch> {
    let bytes = written(database, query, format);
    match format {
        ResultFormat::Arrow => {
            let reader = StreamReader::try_new(Cursor::new(bytes), None).unwrap();
            reader.map(Result::unwrap).collect()
        }
        _ => {
            let file = bytes::Bytes::from(bytes);
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            reader.build().unwrap().map(Result::unwrap).collect()
        }
    }
}

#[test]
fn uniform_columns_have_native_types() {
    let database = database(DATA);
    for format in [ResultFormat::Arrow, ResultFormat::Parquet] {
        let batches = columns(&database, WIDE, format);
        let [batch] = &batches[..] else {
            panic!("{format:?}: {} batches", batches.len())
        };
        let column = |name: &str| batch.column_by_name(name).unwrap().clone();
        let field = |name: &str| batch.schema().field_with_name(name).unwrap().clone();
        let strings = |name: &str| -> Vec<Option<String>> {
            let column = column(name);
            column
                .as_string::<i32>()
                .iter()
                .map(|v| v.map(str::to_owned))
                .collect()
        };
        assert_eq!(
            column("age").as_primitive::<Int64Type>().values()[..],
            [41, 7]
        );
        let price = column("price");
        assert_eq!(*price.data_type(), DataType::Decimal128(3, 1));
        assert_eq!(
            price.as_primitive::<Decimal128Type>().values()[..],
            [15, -200]
        );
        assert_eq!(column("born").as_primitive::<Date32Type>().value(0), 4806);
        assert!(column("born").is_null(1));
        let seen = column("seen");
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        assert_eq!(*seen.data_type(), utc);
        let micros = seen.as_primitive::<TimestampMicrosecondType>().value(0);
        assert_eq!(micros, 1_704_110_400_500_000);
        assert!((column("size").as_primitive::<Float64Type>().value(0) - 1500.0).abs() < 1e-9);
        assert_eq!(strings("node")[1].as_deref(), Some("http://e/b,c"));
        assert_eq!(strings("name")[0].as_deref(), Some("Zoë, \"Z\""));
        assert_eq!(strings("odd")[0].as_deref(), Some("x"));
        assert_eq!(
            strings("mix"),
            [Some("<http://e/a>".into()), Some("\"y\"".into())]
        );
        assert_eq!(strings("none"), [None, None]);
        for (name, kind, datatype, language) in [
            ("node", "iri", None, None),
            (
                "age",
                "literal",
                Some("http://www.w3.org/2001/XMLSchema#integer"),
                None,
            ),
            (
                "name",
                "literal",
                Some("http://www.w3.org/2001/XMLSchema#string"),
                None,
            ),
            ("label", "literal", None, Some("en")),
            ("odd", "literal", Some("http://e/type"), None),
            ("mix", "term", None, None),
            ("part", "blank", None, None),
            ("none", "none", None, None),
        ] {
            let field = field(name);
            let entry = |key: &str| field.metadata().get(key).map(String::as_str);
            assert_eq!(entry("rdf.kind"), Some(kind), "{name}");
            assert_eq!(entry("rdf.datatype"), datatype, "{name}");
            assert_eq!(entry("rdf.language"), language, "{name}");
        }
    }
}

#[test]
fn a_column_whose_last_value_does_not_fit_is_not_native() {
    let xsd = "http://www.w3.org/2001/XMLSchema#";
    let of = |last: &str| {
        let data: String = (0..6000)
            .map(|n| format!("<http://e/{n:05}> <http://e/p> \"{n}\"^^<{xsd}integer> .\n"))
            .chain([format!("<http://e/z> <http://e/p> {last} .\n")])
            .collect();
        let query = "SELECT ?o { ?s <http://e/p> ?o } ORDER BY ?s";
        let batches = columns(&database(&data), query, ResultFormat::Arrow);
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(rows, 6001);
        let batch = batches.last().unwrap().clone();
        let column = batch.column(0).as_string::<i32>();
        (
            batch.schema().field(0).metadata()["rdf.kind"].clone(),
            column.value(column.len() - 1).to_owned(),
        )
    };
    let big = "18446744073709551616";
    assert_eq!(
        of(&format!("\"{big}\"^^<{xsd}integer>")),
        ("literal".into(), big.into())
    );
    assert_eq!(of("\"x\""), ("term".into(), "\"x\"".into()));
    assert_eq!(
        of("\"1\"^^<http://www.w3.org/2001/XMLSchema#int>").0,
        "term"
    );
}

#[test]
fn repeated_texts_are_dictionaries_in_arrow() {
    let data: String = (0..90_000)
        .map(|n| format!("<http://e/{n:05}> <http://e/p> \"v{}\" .\n", n % 3))
        .collect();
    let query =
        "SELECT ?s ?o ?none { ?s <http://e/p> ?o OPTIONAL { ?s <http://e/q> ?none } } ORDER BY ?s";
    let database = database(&data);
    let mut rows = 0;
    for batch in columns(&database, query, ResultFormat::Arrow) {
        assert_eq!(*batch.column(0).data_type(), DataType::Utf8);
        assert_eq!(*batch.column(2).data_type(), DataType::Utf8);
        let column = batch.column(1).as_dictionary::<Int32Type>();
        assert_eq!(column.values().len(), 3);
        let values = column.values().as_string::<i32>();
        for (row, key) in column.keys().iter().enumerate() {
            let value = values.value(key.unwrap() as usize);
            assert_eq!(value, format!("v{}", (rows + row) % 3));
        }
        rows += batch.num_rows();
    }
    assert_eq!(rows, 90_000);
    let both = "SELECT ?s ?o { ?s <http://e/p> ?o } ORDER BY ?s";
    let arrow = written(&database, both, ResultFormat::Arrow).len();
    let without = written(
        &database,
        "SELECT ?s { ?s <http://e/p> ?o } ORDER BY ?s",
        ResultFormat::Arrow,
    );
    assert!(arrow < without.len() + 90_000 * 6, "{arrow}");
    for batch in columns(&database, query, ResultFormat::Parquet) {
        assert_eq!(*batch.column(1).data_type(), DataType::Utf8);
    }
}

#[test]
fn tables_without_rows_or_columns_and_answers_of_ask_can_be_written() {
    let database = database(DATA);
    for format in [ResultFormat::Arrow, ResultFormat::Parquet] {
        let none = columns(&database, "SELECT ?x { ?x <http://e/nothing> ?y }", format);
        assert_eq!(none.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
        let ask = columns(&database, "ASK { ?x <http://e/age> 7 }", format);
        assert!(
            ask[0]
                .column_by_name("boolean")
                .unwrap()
                .as_boolean()
                .value(0)
        );
    }
    let unit = columns(&database, "SELECT * {}", ResultFormat::Arrow);
    assert_eq!(unit.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    let empty = "SELECT ?x { ?x <http://e/nothing> ?y }";
    assert_eq!(text(empty, ResultFormat::Csv), "x\r\n");
    assert_eq!(text(empty, ResultFormat::Tsv), "?x\n");
    assert_eq!(
        text(empty, ResultFormat::Json),
        r#"{"head":{"vars":["x"]},"results":{"bindings":[]}}"#
    );
    assert_eq!(text("SELECT * {}", ResultFormat::Csv), "\r\n\r\n");
    assert_eq!(text("SELECT * {}", ResultFormat::Tsv), "\n\n");
    assert_eq!(
        text("SELECT * {}", ResultFormat::Json),
        r#"{"head":{"vars":[]},"results":{"bindings":[{}]}}"#
    );
    for format in [ResultFormat::Csv, ResultFormat::Tsv] {
        assert_eq!(text("ASK {}", format).trim_end(), "true");
    }
    assert_eq!(
        text("ASK {}", ResultFormat::Json),
        r#"{"head":{},"boolean":true}"#
    );
    assert!(text("ASK {}", ResultFormat::Xml).contains("<boolean>true</boolean>"));
}

#[test]
fn cells_are_quoted_where_the_formats_say() {
    let query = "SELECT ?s ?o { ?s <http://e/name> ?o } ORDER BY ?s";
    assert_eq!(
        text(query, ResultFormat::Csv),
        "s,o\r\nhttp://e/a,\"Zoë, \"\"Z\"\"\"\r\n\"http://e/b,c\",\"a\nb\r\"\r\n"
    );
    assert_eq!(
        text(query, ResultFormat::Tsv),
        "?s\t?o\n<http://e/a>\t\"Zoë, \\\"Z\\\"\"\n<http://e/b,c>\t\"a\\nb\\r\"\n"
    );
    let labels = "SELECT ?o ?n { <http://e/a> <http://e/label> ?o ; <http://e/age> ?n }";
    assert_eq!(
        text(labels, ResultFormat::Tsv),
        "?o\t?n\n\"ab\\tc\"@en\t41\n"
    );
}

#[test]
fn terms_of_rdf_1_2_are_written() {
    let says = "SELECT ?o { ?s <http://e/says> ?o }";
    let json = text(says, ResultFormat::Json);
    assert!(
        json.contains(r#""xml:lang":"he","its:dir":"rtl""#),
        "{json}"
    );
    let xml = text(says, ResultFormat::Xml);
    assert!(xml.contains(r#"xml:lang="he" its:dir="rtl""#), "{xml}");
    assert!(
        xml.contains(r#"xmlns:its="http://www.w3.org/2005/11/its""#),
        "{xml}"
    );
    assert!(text(says, ResultFormat::Tsv).contains("@he--rtl"));
    let states = "SELECT ?o { ?s <http://e/states> ?o }";
    let json = text(states, ResultFormat::Json);
    assert!(
        json.contains(r#""type":"triple","value":{"subject":{"#),
        "{json}"
    );
    assert!(text(states, ResultFormat::Xml).contains("<triple><subject><uri>http://e/a</uri>"));
    assert!(text(states, ResultFormat::Tsv).contains(r#"<<( <http://e/a> <http://e/p> "q\"" )>>"#));
    let csv = text(states, ResultFormat::Csv);
    assert!(
        csv.contains(r#""<<( <http://e/a> <http://e/p> ""q\"""" )>>""#),
        "{csv}"
    );
}

#[test]
fn text_tables_can_be_read_back() {
    let database = database(DATA);
    let query = "SELECT ?s ?p ?o { ?s ?p ?o FILTER(?p != <http://e/control>) }";
    let read = |ours, theirs| -> BTreeSet<Vec<String>> {
        let bytes = written(&database, query, ours);
        let parser = QueryResultsParser::from_format(theirs);
        let parsed = parser.for_reader(&bytes[..]).unwrap();
        let ReaderQueryResultsParserOutput::Solutions(solutions) = parsed else {
            panic!("not a table");
        };
        let line = |solution: Result<sparesults::QuerySolution, _>| {
            solution
                .unwrap()
                .iter()
                .map(|(_, term)| term.to_string())
                .collect()
        };
        solutions.map(line).collect()
    };
    let json = read(ResultFormat::Json, QueryResultsFormat::Json);
    assert_eq!(json.len(), 18);
    assert_eq!(json, read(ResultFormat::Xml, QueryResultsFormat::Xml));
    assert_eq!(json, read(ResultFormat::Tsv, QueryResultsFormat::Tsv));
}

#[test]
fn graphs_can_be_read_back_in_every_format() {
    let database = database(DATA);
    let plain =
        "CONSTRUCT WHERE { ?s <http://e/age> ?n ; <http://e/name> ?o ; <http://e/label> ?l }";
    for (ours, theirs) in [
        (ResultFormat::NTriples, RdfFormat::NTriples),
        (ResultFormat::NQuads, RdfFormat::NQuads),
        (ResultFormat::Turtle, RdfFormat::Turtle),
        (ResultFormat::TriG, RdfFormat::TriG),
        (ResultFormat::RdfXml, RdfFormat::RdfXml),
        (
            ResultFormat::JsonLd,
            RdfFormat::JsonLd {
                profile: Default::default(),
            },
        ),
    ] {
        let bytes = written(&database, plain, ours);
        let parser = RdfParser::from_format(theirs).for_slice(&bytes);
        let quads: BTreeMap<String, usize> = parser.fold(BTreeMap::new(), |mut counts, quad| {
            *counts.entry(quad.unwrap().to_string()).or_default() += 1;
            counts
        });
        assert_eq!(quads.len(), 6, "{ours:?}: {quads:?}");
        assert!(
            quads.contains_key("<http://e/b,c> <http://e/label> \"fin\"@en"),
            "{quads:?}"
        );
    }
}

#[test]
fn a_format_for_something_else_says_what_to_use() {
    let database = database(DATA);
    for (query, format, instead) in [
        ("SELECT * {}", ResultFormat::Turtle, "parquet"),
        ("ASK {}", ResultFormat::NQuads, "json"),
        ("CONSTRUCT {} {}", ResultFormat::Arrow, "trig"),
        ("SELECT * {}", ResultFormat::Parquet, "arrow"),
    ] {
        let error = write_results(database.query(query).unwrap(), format, Vec::new())
            .unwrap_err()
            .to_string();
        assert!(error.contains(instead), "{error}");
    }
}

#[test]
fn a_character_that_xml_cannot_hold_is_an_error() {
    let database = database(DATA);
    let select = "SELECT ?o { ?s <http://e/control> ?o }";
    let construct = "CONSTRUCT WHERE { ?s <http://e/control> ?o }";
    for (query, format) in [
        (select, ResultFormat::Xml),
        (construct, ResultFormat::RdfXml),
    ] {
        let error = write_results(database.query(query).unwrap(), format, Vec::new());
        assert!(matches!(
            error,
            Err(WriteError::Character {
                character: '\u{1}',
                ..
            })
        ));
    }
}

#[test]
fn constructed_triples_come_once_and_blank_nodes_are_shared_within_a_solution() {
    let database = database(DATA);
    let lines = |query: &str| -> Vec<String> {
        let bytes = written(&database, query, ResultFormat::NTriples);
        String::from_utf8(bytes)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    };
    let repeated = "CONSTRUCT { ?s a <http://e/T> . ?s ?p <http://e/o> } { ?s ?p ?o . ?x ?y ?z }";
    assert_eq!(lines(repeated).len(), 2 + 19);
    let nested = "CONSTRUCT { <http://e/r> <http://e/is> <<( ?s <http://e/p> <http://e/o> )>> } { ?s ?p ?o }";
    assert_eq!(lines(nested).len(), 2);
    let literals = "CONSTRUCT { ?o ?p ?s . ?s ?o ?p } { ?s ?p ?o }";
    assert_eq!(
        lines(literals).len(),
        3,
        "only nodes are subjects, only IRIs are predicates"
    );
    let fresh = "CONSTRUCT { _:b <http://e/of> ?s . _:b <http://e/of> ?s . _:b <http://e/is> \
        <<( _:b <http://e/p> <<( _:b <http://e/q> 1 )>> )>> } { ?s <http://e/age> ?n }";
    let found = lines(fresh);
    assert_eq!(found.len(), 4, "{found:?}");
    let node = found[0].split(' ').next().unwrap();
    assert_eq!(found[1].matches(node).count(), 3, "{found:?}");
    let unbound = "CONSTRUCT { ?s <http://e/p> ?nothing . ?s <http://e/q> ?none } \
        { ?s <http://e/age> ?n OPTIONAL { ?s <http://e/nothing> ?none } }";
    assert_eq!(lines(unbound).len(), 0);
}

/// Counts how often it is flushed before the end.
struct Flushes(Vec<usize>, usize);

impl Write for Flushes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.push(self.1);
        Ok(())
    }
}

#[test]
fn the_first_rows_leave_before_the_last_are_computed() {
    let data: String = (0..200_000)
        .map(|n| format!("<http://e/{n}> <http://e/p> <http://e/o> .\n"))
        .collect();
    let database = database(&data);
    for (query, format) in [
        ("SELECT * { ?s ?p ?o }", ResultFormat::Json),
        ("SELECT * { ?s ?p ?o }", ResultFormat::Csv),
        ("CONSTRUCT WHERE { ?s ?p ?o }", ResultFormat::Turtle),
    ] {
        let mut out = Flushes(Vec::new(), 0);
        write_results(database.query(query).unwrap(), format, &mut out).unwrap();
        assert!(out.0[0] < out.1 / 2, "{format:?}: {:?} of {}", out.0, out.1);
    }
}

#[test]
fn an_error_among_the_results_says_that_the_output_is_cut() {
    let data: String = (0..200_000)
        .map(|n| format!("<http://e/{n}> <http://e/p> <http://e/o> .\n"))
        .collect();
    let database = database_with(&data, Options::default());
    let cancel = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let options = pythia::QueryOptions {
        cancel: Some(cancel.clone()),
        ..Default::default()
    };
    struct Canceller(std::sync::Arc<std::sync::atomic::AtomicBool>);
    impl Write for Canceller {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for (query, format) in [
        ("SELECT * { ?s ?p ?o }", ResultFormat::Json),
        ("CONSTRUCT WHERE { ?s ?p ?o }", ResultFormat::NTriples),
        ("SELECT * { ?s ?p ?o }", ResultFormat::Arrow),
    ] {
        cancel.store(false, std::sync::atomic::Ordering::Relaxed);
        let results = database
            .prepare(query, &options)
            .unwrap()
            .execute()
            .unwrap();
        let error = write_results(results, format, Canceller(cancel.clone())).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert!(
            error.to_string().contains("cut after"),
            "{format:?}: {error}"
        );
        assert_eq!(source.as_deref(), Some("the query was cancelled"));
    }
}

#[test]
fn dumps_keep_the_limits_of_their_options() {
    let database = database(DATA);
    let dump = |options: QueryOptions| {
        let snapshot = database.snapshot();
        let error = pythia::dump_within(
            &snapshot,
            database.cores(),
            &options,
            RdfFormat::NQuads,
            io::sink(),
        );
        error
            .map(|report| report.rows)
            .map_err(|error| match error {
                WriteError::Query(error) | WriteError::Cut { error, .. } => error,
                other => panic!("{other}"),
            })
    };
    let all = dump(QueryOptions::default()).unwrap();
    let rows = |row_limit| {
        dump(QueryOptions {
            row_limit: Some(row_limit),
            ..QueryOptions::default()
        })
    };
    assert_eq!(rows(all).unwrap(), all);
    assert!(matches!(rows(all - 1), Err(QueryError::RowLimit(limit)) if limit == all - 1));
    let timeout = Some(std::time::Duration::ZERO);
    let late = dump(QueryOptions {
        timeout,
        ..QueryOptions::default()
    });
    assert!(matches!(late, Err(QueryError::Timeout)), "{late:?}");
    let cancel = Some(std::sync::Arc::new(true.into()));
    let cancelled = dump(QueryOptions {
        cancel,
        ..QueryOptions::default()
    });
    assert!(matches!(cancelled, Err(QueryError::Cancelled)));
}

/// A text counts for each row that has it, since each row is written.
#[test]
fn rows_with_long_texts_are_few_at_a_time() {
    let text = "x".repeat(1 << 20);
    let mut data = format!("<http://e/d> <http://e/text> \"{text}\" .\n");
    for n in 0..100 {
        data += &format!("<http://e/s{n}> <http://e/p> <http://e/o> .\n");
    }
    let database = database(&data);
    let query = "SELECT ?s ?d { ?s <http://e/p> <http://e/o> . <http://e/d> <http://e/text> ?d }";
    let Results::Solutions(mut solutions) = database.query(query).unwrap() else {
        panic!("a SELECT");
    };
    let mut rows = 0;
    while let Some(batch) = solutions.next_batch().unwrap() {
        assert!((1..=8).contains(&batch.len()), "{} MiB", batch.len());
        rows += batch.len();
    }
    assert_eq!(rows, 100);
}

#[test]
fn dumps_have_only_what_their_format_can_hold() {
    let database = database("<http://e/a> <http://e/p> \"x\\u0001y\" .\n");
    let (snapshot, cores) = (database.snapshot(), database.cores());
    let options = QueryOptions::default();
    let graph = oxrdf::GraphNameRef::DefaultGraph;
    let all = pythia::dump(&snapshot, cores, RdfFormat::RdfXml, io::sink());
    let one = pythia::dump_graph(
        &snapshot,
        cores,
        &options,
        graph,
        RdfFormat::RdfXml,
        io::sink(),
    );
    for outcome in [all, one] {
        let message = outcome.unwrap_err().to_string();
        assert!(message.contains("U+0001"), "{message}");
    }
    assert!(pythia::dump(&snapshot, cores, RdfFormat::Turtle, io::sink()).is_ok());
}

#[test]
fn dumps_without_graphs_are_refused_before_their_first_byte() {
    let dump = |data: &str, format| {
        let mut bytes = Vec::new();
        let database = database(data);
        let outcome = pythia::dump(&database.snapshot(), database.cores(), format, &mut bytes);
        (outcome.map_err(|error| error.to_string()), bytes)
    };
    let triples =
        "<http://e/a> <http://e/p> \"x\"@en .\n<http://e/b> <http://e/p> <http://e/a> .\n";
    let (outcome, bytes) = dump(triples, RdfFormat::NTriples);
    assert_eq!(outcome.unwrap().rows, 2);
    assert_eq!(String::from_utf8(bytes).unwrap(), triples);
    let (outcome, bytes) = dump(triples, RdfFormat::Turtle);
    assert!(outcome.is_ok() && String::from_utf8(bytes).unwrap().contains("<http://e/a>"));
    let graph = format!("{triples}<http://e/c> <http://e/p> <http://e/a> <http://e/g> .\n");
    for format in [RdfFormat::NTriples, RdfFormat::Turtle] {
        let (outcome, bytes) = dump(&graph, format);
        let message = outcome.unwrap_err();
        assert!(
            message.contains(".trig") && message.contains(".nq"),
            "{message}"
        );
        assert!(bytes.is_empty());
    }
    let (outcome, bytes) = dump(&graph, RdfFormat::TriG);
    assert!(outcome.is_ok() && String::from_utf8(bytes).unwrap().contains("<http://e/g>"));
}
