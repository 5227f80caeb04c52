//! Description of an endpoint: its features and graphs (SPARQL 1.1 Service Description).

use oxrdf::{NamedNode, Term};
use pythia::QueryError;
use pythia::ids::TermId;

use super::graph::{Description, FORMATS, SD, Subject, VOID};
use super::reader::Reader;
use super::void::graphs;

/// Facts about an endpoint.
pub(super) struct Endpoint {
    /// The endpoint's URL, as the request has it.
    pub(super) url: NamedNode,
    /// True if this user may send updates.
    pub(super) updates: bool,
    /// True if SERVICE may reach any address.
    pub(super) federated: bool,
    /// True if the default graph of queries is the union of all graphs.
    pub(super) union: bool,
}

/// Describes the endpoint with the visible graphs.
pub(super) fn describe(reader: &Reader, endpoint: &Endpoint) -> Result<Description, QueryError> {
    let mut out = Description::default();
    let service: Subject = endpoint.url.clone().into();
    let sd = |name: &str| format!("{SD}{name}");
    out.is_a(&service, sd("Service"));
    out.say(&service, &sd("endpoint"), endpoint.url.clone());
    let mut languages = vec!["SPARQL11Query"];
    languages.extend(endpoint.updates.then_some("SPARQL11Update"));
    for language in languages {
        out.name(&service, &sd("supportedLanguage"), sd(language));
    }
    for format in [
        "SPARQL_Results_JSON",
        "SPARQL_Results_XML",
        "SPARQL_Results_CSV",
        "SPARQL_Results_TSV",
        "Turtle",
        "N-Triples",
        "RDF_XML",
        "JSON-LD",
    ] {
        out.name(&service, &sd("resultFormat"), format!("{FORMATS}{format}"));
    }
    if endpoint.updates {
        for format in [
            "Turtle",
            "N-Triples",
            "N-Quads",
            "TriG",
            "RDF_XML",
            "JSON-LD",
        ] {
            out.name(&service, &sd("inputFormat"), format!("{FORMATS}{format}"));
        }
    }
    if endpoint.federated {
        out.name(&service, &sd("feature"), sd("BasicFederatedQuery"));
    }
    if endpoint.union {
        out.name(&service, &sd("feature"), sd("UnionDefaultGraph"));
    }
    let dataset = out.part(&service, &sd("defaultDataset"));
    out.is_a(&dataset, sd("Dataset"));
    say_graphs(reader, &mut out, &dataset)?;
    Ok(out)
}

/// Adds the visible graphs with their numbers of triples.
fn say_graphs(reader: &Reader, out: &mut Description, dataset: &Subject) -> Result<(), QueryError> {
    let sd = |name: &str| format!("{SD}{name}");
    let triples = format!("{VOID}triples");
    let default = out.part(dataset, &sd("defaultGraph"));
    out.is_a(&default, sd("Graph"));
    if reader.sees(TermId::DEFAULT_GRAPH)? {
        out.count(
            &default,
            &triples,
            reader.snapshot.statistics().graphs.default_graph_quads(),
        );
    }
    let visible = graphs(reader)?;
    let names: Vec<TermId> = visible.iter().map(|(graph, _)| *graph).collect();
    for ((_, quads), name) in visible.iter().zip(reader.snapshot.decode(&names)?) {
        if let Term::NamedNode(name) = name {
            let named = out.part(dataset, &sd("namedGraph"));
            out.is_a(&named, sd("NamedGraph"));
            out.say(&named, &sd("name"), name);
            let graph = out.part(&named, &sd("graph"));
            out.is_a(&graph, sd("Graph"));
            out.count(&graph, &triples, *quads);
        }
    }
    Ok(())
}
