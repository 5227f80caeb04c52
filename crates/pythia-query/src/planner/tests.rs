//! Tests that count the steps of planning.

use std::io::Cursor;
use std::sync::Arc;

use oxrdf::{LiteralRef, NamedNodeRef, TermRef};
use pythia_io::{MemoryStorage, Storage};
use pythia_rdf::{Compression, RdfFormat, Source};
use pythia_sparql::Query;
use pythia_sparql::pattern_of;
use pythia_sparql::scope::in_scope;
use pythia_store::load::{LoadOptions, load};
use pythia_store::{GraphFilter, OpenOptions, Snapshot, Store};

use super::Planner;
use super::element::{Element, FilterHint, PatternGraph, PatternTerm, Triple};
use super::join_method::Joined;
use super::sampled_link::Samples;
use super::set_estimate::SetEstimates;
use pythia_exec::error::QueryError;
use pythia_exec::expression::EvaluationContext;
use pythia_exec::limits::governor::Governor;
use pythia_exec::plan::counts::Counts;
use pythia_exec::plan::dataset::Dataset;

/// Returns a snapshot of a few quads with three predicates.
fn snapshot() -> Snapshot {
    let mut nquads = String::new();
    for n in 0..200 {
        let (next, value) = ((n + 1) % 200, n % 7);
        nquads.push_str(&format!(
            "<http://e/n{n}> <http://e/next> <http://e/n{next}> .\n\
             <http://e/n{n}> <http://e/value> \"{value}\" .\n\
             <http://e/n{n}> <http://e/name> \"name {n}\" .\n"
        ));
    }
    snapshot_of(nquads)
}

fn snapshot_of(nquads: String) -> Snapshot {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let reader = Cursor::new(nquads.into_bytes());
    let (format, compression) = (RdfFormat::NQuads, Compression::None);
    let source = Source::from_reader("test".to_owned(), reader, format, compression).unwrap();
    let options = LoadOptions {
        memory_bytes: 64 << 20,
        ..LoadOptions::default()
    };
    load(
        Arc::clone(&storage),
        vec![source],
        &options,
        &Arc::default(),
    )
    .unwrap();
    let open = OpenOptions {
        cache_bytes: 16 << 20,
    };
    Store::open_storage(storage, open).unwrap().snapshot()
}

/// Plans a query. Returns the number of deadline checks, or the error after `checks_max` checks.
fn checks(snapshot: &Snapshot, text: &str, checks_max: u64) -> Result<u64, QueryError> {
    let mut query = Query::parse(text, None).unwrap().algebra().clone();
    let pattern = pattern_of(&mut query);
    let governor = Arc::new(Governor::unlimited().with_checks_max(checks_max));
    let resolver = Arc::new(snapshot.clone());
    let evaluation = EvaluationContext::new(resolver, Arc::clone(&governor));
    let dataset = Dataset::of_query(None, false, &evaluation, None)?;
    let planner = Planner::new(snapshot, &evaluation, &dataset);
    planner.plan(pattern, &dataset.default, Some(&in_scope(pattern)))?;
    Ok(governor.checks())
}

fn chain(length: usize) -> String {
    let patterns = (0..length).map(|n| format!("?n{n} <http://e/next> ?n{} . ", n + 1));
    format!("SELECT * {{ {} }}", patterns.collect::<String>())
}

fn star(arms: usize) -> String {
    let predicate = |n: usize| ["next", "value", "name"][n % 3];
    let patterns = (0..arms).map(|n| format!("?s <http://e/{}> ?o{n} . ", predicate(n)));
    format!("SELECT * {{ {} }}", patterns.collect::<String>())
}

#[test]
fn planning_stops_when_the_query_is_cancelled_in_the_middle() {
    let snapshot = snapshot();
    let filters = (0..300).map(|n| format!("FILTER(?n{n} = ?n{}) ", n + 7));
    let filtered = chain(400).replace(" }", &format!(" {} }}", filters.collect::<String>()));
    let merged = chain(200).replace("{", "FROM <http://e/a> FROM <http://e/b> {");
    let texts = [
        chain(12),
        chain(60),
        chain(300),
        star(60),
        star(300),
        filtered,
        merged,
    ];
    for text in &texts {
        let all = checks(&snapshot, text, u64::MAX).unwrap();
        assert!(all > 10, "{all} checks for {text}");
        for part in 1..=10 {
            let cancelled = checks(&snapshot, text, all * part / 11);
            assert!(matches!(cancelled, Err(QueryError::Cancelled)), "{text}");
        }
    }
}

#[test]
fn planning_takes_steps_in_proportion_to_the_patterns() {
    let snapshot = snapshot();
    for of_length in [chain, star] {
        let [short, long] = [500, 4000].map(|n| checks(&snapshot, &of_length(n), u64::MAX));
        let (short, long) = (short.unwrap(), long.unwrap());
        assert!(
            long <= short * 10,
            "{short} checks for 500 patterns, {long} for 4,000"
        );
    }
}

/// Branches of a UNION, each of two patterns, joined with a pattern outside.
fn union(branches: usize) -> String {
    let branch = |n: usize| {
        format!(
            "{{ ?s <http://e/next> ?n . ?n <http://e/value> \"{}\" }}",
            n % 7
        )
    };
    let branches: Vec<String> = (0..branches).map(branch).collect();
    format!(
        "SELECT * {{ ?s <http://e/name> ?name . {} }}",
        branches.join(" UNION ")
    )
}

/// OPTIONALs, each inside the one before.
fn tower(floors: usize) -> String {
    let floor = |n: usize| format!("OPTIONAL {{ ?n{n} <http://e/next> ?n{} ", n + 1);
    let floors_up: String = (0..floors).map(floor).collect();
    format!(
        "SELECT * {{ ?n0 <http://e/name> ?name {floors_up} {} }}",
        "}".repeat(floors)
    )
}

/// OPTIONALs, one after the other.
fn options(count: usize) -> String {
    let option = |n: usize| format!("OPTIONAL {{ ?n{n} <http://e/next> ?n{} }} ", n + 1);
    let options: String = (0..count).map(option).collect();
    format!("SELECT * {{ ?n0 <http://e/name> ?name {options} }}")
}

/// All pairs of some nodes, of which each has an edge to every other.
fn clique(nodes: usize) -> String {
    let pairs = (0..nodes).flat_map(|a| (0..a).map(move |b| (a, b)));
    let patterns = pairs.map(|(a, b)| format!("?n{a} <http://e/next> ?n{b} . "));
    format!("SELECT * {{ {} }}", patterns.collect::<String>())
}

/// A star for each of some nodes, and filters that make all values equal to each other.
fn equal(nodes: usize) -> String {
    let patterns = (0..nodes).map(|n| format!("?n{n} <http://e/value> ?v{n} . "));
    let pairs = (0..nodes).flat_map(|a| (0..a).map(move |b| (a, b)));
    let filters = pairs.map(|(a, b)| format!("FILTER(?v{a} = ?v{b}) "));
    let (patterns, filters): (String, String) = (patterns.collect(), filters.collect());
    format!("SELECT * {{ {patterns} {filters} }}")
}

/// EXISTS and NOT EXISTS of the same group, by turns.
fn tests(count: usize) -> String {
    let test = |n: usize| {
        let not = if n.is_multiple_of(2) { "" } else { "NOT " };
        format!(
            "FILTER {not}EXISTS {{ ?s <http://e/next> ?n . ?n <http://e/value> \"{}\" }} ",
            n % 7
        )
    };
    let tests: String = (0..count).map(test).collect();
    format!("SELECT * {{ ?s <http://e/name> ?name . ?s <http://e/value> ?v {tests} }}")
}

#[test]
fn hostile_shapes_are_planned_in_few_steps() {
    let snapshot = snapshot();
    type Shape = fn(usize) -> String;
    // Name, shape, a size and the steps per part of the larger query that are allowed at most.
    let shapes: [(&str, Shape, usize, u64); 6] = [
        ("branches", union, 200, 60),
        ("tower", tower, 60, 60),
        ("options", options, 100, 60),
        ("clique", clique, 10, 4000),
        ("equal", equal, 12, 400),
        ("tests", tests, 60, 60),
    ];
    for (name, shape, size, allowed) in shapes {
        let [small, large] = [size, size * 2].map(|n| checks(&snapshot, &shape(n), u64::MAX));
        let (small, large) = (small.unwrap(), large.unwrap());
        eprintln!("{name}: {small} steps for {size}, {large} for {}", size * 2);
        assert!(
            large <= allowed * 2 * size as u64,
            "{name}: {small} steps for {size}, {large} for {}",
            size * 2
        );
    }
}

/// Slots of the random patterns.
const SLOTS: usize = 4;

/// Returns a stored term as a part of a pattern.
fn constant(snapshot: &Snapshot, term: TermRef<'_>) -> PatternTerm {
    PatternTerm::Constant(snapshot.resolve(term).unwrap().unwrap())
}

fn named(snapshot: &Snapshot, name: &str) -> PatternTerm {
    let iri = format!("http://e/{name}");
    let node = NamedNodeRef::new_unchecked(&iri);
    constant(snapshot, node.into())
}

/// A random triple pattern over a few slots, one of the snapshot's predicates, and sometimes a constant end.
fn random_pattern(snapshot: &Snapshot, mut random: impl FnMut(usize) -> usize) -> Element {
    let subject = match random(5) {
        4 => named(snapshot, "n7"),
        _ => PatternTerm::Slot(random(SLOTS)),
    };
    let predicate = named(snapshot, ["next", "value", "name"][random(3)]);
    let object = match random(6) {
        5 => named(snapshot, "n7"),
        4 => constant(snapshot, LiteralRef::new_simple_literal("3").into()),
        _ => PatternTerm::Slot(random(SLOTS)),
    };
    pattern(snapshot, [subject, predicate, object])
}

fn pattern(snapshot: &Snapshot, terms: [PatternTerm; 3]) -> Element {
    let graph = PatternGraph::Filter(GraphFilter::One(pythia_rdf::TermId::DEFAULT_GRAPH));
    let counts = Counts::new(snapshot, None);
    let triple = Triple::new(counts, terms, graph, |pattern| counts.expected(pattern));
    Element::Triple(triple.unwrap())
}

/// Estimates every subset of the elements; `order` is the place of each in the text.
fn estimates(
    snapshot: &Snapshot,
    elements: &[Element],
    filters: &[FilterHint],
    order: &[usize],
) -> Vec<(f64, Vec<f64>)> {
    let placed: Vec<Element> = order.iter().map(|&index| elements[index].clone()).collect();
    let statistics = Counts::new(snapshot, None).of_store();
    let sets = SetEstimates::new(&placed, filters, statistics);
    sets.sample(snapshot.estimates(), &Samples::default(), usize::MAX)
        .unwrap();
    let mut distinct = vec![0.0; SLOTS];
    distinct[0] = 3.0;
    sets.begin(&Joined {
        rows: 5.0,
        distinct,
        sorted: None,
        unit: false,
        scanned: false,
        reads: snapshot.estimates().read_costs(),
    });
    let set_of = |subset: u64| {
        let places = order.iter().enumerate();
        let chosen = places.filter(|(_, index)| subset >> **index & 1 == 1);
        chosen.fold(0, |set, (place, _)| set | 1 << place)
    };
    let subsets = 1..1_u64 << elements.len();
    subsets
        .map(|subset| {
            let estimate = sets.of_triples(set_of(subset));
            (estimate.rows(), estimate.distinct.clone())
        })
        .collect()
}

#[test]
fn estimates_of_sets_do_not_depend_on_the_order_of_patterns() {
    let snapshot = snapshot();
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    let filters = [FilterHint {
        slots: vec![1, 2],
        share: 0.3,
        cost: 0.1,
    }];
    for _ in 0..200 {
        let elements: Vec<Element> = (0..5)
            .map(|_| random_pattern(&snapshot, &mut random))
            .collect();
        let mut order: Vec<usize> = (0..elements.len()).collect();
        let as_written = estimates(&snapshot, &elements, &filters, &order);
        for place in (1..order.len()).rev() {
            order.swap(place, random(place + 1));
        }
        let shuffled = estimates(&snapshot, &elements, &filters, &order);
        for ((a, a_distinct), (b, b_distinct)) in as_written.iter().zip(&shuffled) {
            let differ = |a: f64, b: f64| (a - b).abs() > 1e-9 * a.abs().max(b.abs());
            assert!(!differ(*a, *b), "{a} and {b} for {elements:?}");
            let mut both = a_distinct.iter().zip(b_distinct);
            assert!(both.all(|(a, b)| !differ(*a, *b)), "{elements:?}");
        }
    }
}

/// Products with 20 makers, a tenth of them in the country `far`, where 300 people live, too; and shops that sell the
/// products. Products have three types that are kinds of products, people one that is not.
fn market() -> Snapshot {
    let mut nquads = String::new();
    let mut triple = |subject: String, predicate: &str, object: String| {
        let line = format!("<http://e/{subject}> <http://e/{predicate}> <http://e/{object}> .\n");
        nquads.push_str(&line);
    };
    for n in 0..1000 {
        triple(
            format!("product{n}"),
            "maker",
            format!("maker{}", n * 7 % 20),
        );
        triple(format!("shop{}", n % 50), "sells", format!("product{n}"));
        for kind in 0..3 {
            let kind = format!("kind{}", (n + kind * 10) % 40);
            triple(format!("product{n}"), "type", kind);
        }
    }
    for n in 0..20 {
        let country = if n % 10 == 3 { "far" } else { "near" };
        triple(format!("maker{n}"), "country", country.to_owned());
    }
    for n in 0..3000 {
        let country = if n % 10 == 0 { "far" } else { "near" };
        triple(format!("person{n}"), "country", country.to_owned());
        let job = format!("job{}", n % 300);
        triple(format!("person{n}"), "type", job);
    }
    (0..40).for_each(|n| triple(format!("kind{n}"), "type", "ProductKind".to_owned()));
    snapshot_of(nquads)
}

#[test]
fn constants_beyond_links_are_estimated_by_samples() {
    let snapshot = market();
    let named = |name| named(&snapshot, name);
    let [product, maker, kind, shop] = [0, 1, 2, 3].map(PatternTerm::Slot);
    let elements = [
        [product, named("maker"), maker],
        [maker, named("country"), named("far")],
        [product, named("type"), kind],
        [kind, named("type"), named("ProductKind")],
        [shop, named("sells"), product],
    ];
    let elements = elements.map(|terms| pattern(&snapshot, terms));
    let sets = SetEstimates::new(&elements, &[], Counts::new(&snapshot, None).of_store());
    let start = Joined {
        rows: 1.0,
        distinct: vec![0.0; SLOTS],
        sorted: None,
        unit: true,
        scanned: false,
        reads: snapshot.estimates().read_costs(),
    };
    let estimate = |set: u64| {
        sets.begin(&start);
        sets.of_triples(set).rows()
    };
    // The set, and its number of solutions.
    let found = [
        (0b00011, 100.0),
        (0b01100, 3000.0),
        (0b01101, 3000.0),
        (0b11100, 3000.0),
        (0b01111, 300.0),
        (0b11111, 300.0),
    ];
    let ratio = |(set, found): (u64, f64)| (estimate(set) / found, set);
    let (unsampled, _) = ratio(found[0]);
    assert!(
        unsampled > 9.0,
        "all makers could be among the people: {unsampled}"
    );
    let samples = Samples::default();
    assert!(
        sets.sample(snapshot.estimates(), &samples, usize::MAX)
            .unwrap()
    );
    for (ratio, set) in found.map(ratio) {
        assert!((0.4..=2.5).contains(&ratio), "{ratio} for {set:b}");
    }
}
