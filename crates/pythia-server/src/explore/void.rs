//! Contents of a dataset as VoID (<https://www.w3.org/TR/void/>): counts that the store keeps, of what the user
//! sees.

use std::cmp::Reverse;

use oxrdf::{NamedNode, Term, vocab::rdf};
use pythia::QueryError;
use pythia::ids::{Component, GraphFilter, Order, QuadPattern, TermId, TermKind};

use super::graph::{Description, Subject, VOID};
use super::reader::{Reader, to};

/// Limit on predicates and on classes that have parts of their own.
const PARTS: usize = 1000;
/// Limit on graphs that are listed.
const GRAPHS: usize = 10_000;

/// Describes the dataset, which is queried at `endpoint`. Leaves out what cannot be counted in time.
pub(super) fn describe(
    reader: &Reader,
    dataset: NamedNode,
    endpoint: NamedNode,
) -> Result<Description, QueryError> {
    let mut out = Description::default();
    let subject: Subject = dataset.into();
    let void = |name: &str| format!("{VOID}{name}");
    out.is_a(&subject, void("Dataset"));
    out.say(&subject, &void("sparqlEndpoint"), endpoint);
    for format in ["Turtle", "N-Triples", "RDF_XML", "JSON-LD"] {
        out.name(
            &subject,
            &void("feature"),
            format!("{}{format}", super::graph::FORMATS),
        );
    }
    if let Some(quads) = visible_quads(reader)? {
        out.count(&subject, &void("triples"), quads);
    }
    let statistics = reader.snapshot.statistics();
    if reader.sees_all() && statistics.distinct_exact {
        out.count(&subject, &void("entities"), statistics.subjects);
        out.count(&subject, &void("distinctSubjects"), statistics.subjects);
        out.count(&subject, &void("distinctObjects"), statistics.objects);
    }
    match properties(reader) {
        Ok(properties) => say_properties(reader, &mut out, &subject, &properties)?,
        Err(QueryError::Timeout) => {}
        Err(error) => return Err(error),
    }
    let exact = |pattern: &QuadPattern| reader.count(pattern, u64::MAX);
    say_classes(reader, &mut out, &subject, &classes(reader, exact)?)?;
    Ok(out)
}

/// Returns the number of quads in all visible graphs, if it is known.
fn visible_quads(reader: &Reader) -> Result<Option<u64>, QueryError> {
    let graphs = &reader.snapshot.statistics().graphs;
    if reader.sees_all() {
        return Ok(Some(reader.snapshot.statistics().quads));
    }
    let mut sum = 0;
    for (graph, quads) in &graphs.graphs {
        if reader.sees(*graph)? {
            sum += quads;
        }
    }
    Ok(graphs.is_complete().then_some(sum))
}

/// Returns the visible predicates with their numbers of triples.
pub(super) fn properties(reader: &Reader) -> Result<Vec<(TermId, u64)>, QueryError> {
    let statistics = reader.snapshot.statistics();
    let mut visible = Vec::new();
    if !reader.sees_all() {
        for (graph, _) in &statistics.graphs.graphs {
            if reader.sees(*graph)? {
                visible.push(GraphFilter::One(*graph));
            }
        }
    }
    let mut properties = Vec::new();
    for known in &statistics.predicates {
        let mut quads = 0;
        if reader.sees_all() {
            quads = known.quads;
        }
        for graph in &visible {
            reader.check()?;
            let pattern = QuadPattern {
                predicate: Some(known.predicate),
                graph: *graph,
                ..QuadPattern::default()
            };
            quads += reader.snapshot.count(&pattern)?;
        }
        if quads > 0 {
            properties.push((known.predicate, quads));
        }
    }
    properties.sort_by_key(|(predicate, quads)| (Reverse(*quads), *predicate));
    Ok(properties)
}

/// Returns the visible classes with their instances as counted by `count`, the largest first, and whether the list
/// is complete. Stops at [`PARTS`] classes or when the time is over.
pub(super) fn classes(
    reader: &Reader,
    count: impl Fn(&QuadPattern) -> Result<u64, QueryError>,
) -> Result<(Vec<(TermId, u64)>, bool), QueryError> {
    let mut classes = Vec::new();
    let is_all = match collect_classes(reader, count, &mut classes) {
        Err(QueryError::Timeout) => false,
        outcome => outcome?,
    };
    classes.sort_by_key(|(class, instances)| (Reverse(*instances), *class));
    Ok((classes, is_all))
}

/// Collects classes. Returns false if there are more.
fn collect_classes(
    reader: &Reader,
    count: impl Fn(&QuadPattern) -> Result<u64, QueryError>,
    classes: &mut Vec<(TermId, u64)>,
) -> Result<bool, QueryError> {
    let Some(is_a) = reader.snapshot.resolve(rdf::TYPE.into())? else {
        return Ok(true);
    };
    let pattern = QuadPattern {
        predicate: Some(is_a),
        ..QuadPattern::default()
    };
    let wanted = [Component::Object, Component::Subject];
    let mut rows = reader.rows(&pattern, Order::Pos, wanted)?;
    while let Some([class, _]) = rows.next()? {
        if classes.len() == PARTS {
            return Ok(false);
        }
        reader.check()?;
        if class.kind() == TermKind::Iri {
            classes.push((class, count(&to(class, Some(is_a)))?));
        }
        rows.seek(TermId(class.0 + 1))?;
    }
    Ok(true)
}

/// Returns the visible named graphs with their numbers of triples, up to [`GRAPHS`].
pub(super) fn graphs(reader: &Reader) -> Result<Vec<(TermId, u64)>, QueryError> {
    let known = reader.snapshot.statistics().graphs.graphs.iter();
    let mut visible = Vec::new();
    for (graph, quads) in known.filter(|(graph, quads)| graph.is_bound() && *quads > 0) {
        if reader.sees(*graph)? {
            visible.push((*graph, *quads));
        }
        if visible.len() == GRAPHS {
            break;
        }
    }
    Ok(visible)
}

fn say_properties(
    reader: &Reader,
    out: &mut Description,
    subject: &Subject,
    properties: &[(TermId, u64)],
) -> Result<(), QueryError> {
    let void = |name: &str| format!("{VOID}{name}");
    out.count(subject, &void("properties"), properties.len() as u64);
    let properties = &properties[..properties.len().min(PARTS)];
    let names: Vec<TermId> = properties.iter().map(|(predicate, _)| *predicate).collect();
    let names = reader.snapshot.decode(&names)?;
    for ((predicate, quads), name) in properties.iter().zip(names) {
        let part = out.part(subject, &void("propertyPartition"));
        out.say(&part, &void("property"), name);
        out.count(&part, &void("triples"), *quads);
        let known = reader.snapshot.statistics().predicate(*predicate);
        if let Some(known) = known.filter(|known| known.distinct_exact && reader.sees_all()) {
            out.count(&part, &void("distinctSubjects"), known.subjects);
            out.count(&part, &void("distinctObjects"), known.objects);
        }
    }
    Ok(())
}

fn say_classes(
    reader: &Reader,
    out: &mut Description,
    subject: &Subject,
    (classes, is_all): &(Vec<(TermId, u64)>, bool),
) -> Result<(), QueryError> {
    let void = |name: &str| format!("{VOID}{name}");
    if *is_all {
        out.count(subject, &void("classes"), classes.len() as u64);
    }
    let names: Vec<TermId> = classes.iter().map(|(class, _)| *class).collect();
    for ((_, instances), name) in classes.iter().zip(reader.snapshot.decode(&names)?) {
        if let Term::NamedNode(class) = name {
            let part = out.part(subject, &void("classPartition"));
            out.say(&part, &void("class"), class);
            out.count(&part, &void("entities"), *instances);
        }
    }
    Ok(())
}
