//! What the service description tests ask for. Their manifest has names only.

use std::net::SocketAddr;

use oxrdf::vocab::rdf;
use oxrdf::{Graph, NamedNodeRef, NamedOrBlankNodeRef, TermRef, TripleRef};

use crate::wire::Request;

const SD: &str = "http://www.w3.org/ns/sparql-service-description#";

/// The properties of the vocabulary: domain, and range unless that is any resource.
const PROPERTIES: [(&str, &str, &str); 19] = [
    ("endpoint", "Service", ""),
    ("feature", "Service", "Feature"),
    ("propertyFeature", "Service", "Feature"),
    ("defaultEntailmentRegime", "Service", "EntailmentRegime"),
    ("entailmentRegime", "NamedGraph", "EntailmentRegime"),
    (
        "defaultSupportedEntailmentProfile",
        "Service",
        "EntailmentProfile",
    ),
    (
        "supportedEntailmentProfile",
        "NamedGraph",
        "EntailmentProfile",
    ),
    ("extensionFunction", "Service", "Function"),
    ("extensionAggregate", "Service", "Aggregate"),
    ("languageExtension", "Service", "Feature"),
    ("supportedLanguage", "Service", "Language"),
    ("resultFormat", "Service", ""),
    ("inputFormat", "Service", ""),
    ("defaultDataset", "Service", "Dataset"),
    ("availableGraphs", "Service", "GraphCollection"),
    ("defaultGraph", "Dataset", "Graph"),
    ("namedGraph", "GraphCollection", "NamedGraph"),
    ("name", "NamedGraph", ""),
    ("graph", "NamedGraph", "Graph"),
];

/// The classes of the vocabulary. A dataset is a collection of graphs too.
const CLASSES: [&str; 11] = [
    "Service",
    "Feature",
    "Language",
    "Function",
    "Aggregate",
    "EntailmentRegime",
    "EntailmentProfile",
    "GraphCollection",
    "Dataset",
    "Graph",
    "NamedGraph",
];

/// Instances that the vocabulary names.
const INSTANCES: [(&str, &str); 8] = [
    ("SPARQL10Query", "Language"),
    ("SPARQL11Query", "Language"),
    ("SPARQL11Update", "Language"),
    ("DereferencesURIs", "Feature"),
    ("UnionDefaultGraph", "Feature"),
    ("RequiresDataset", "Feature"),
    ("EmptyGraphs", "Feature"),
    ("BasicFederatedQuery", "Feature"),
];

/// Runs the test of this name; gives what is wrong.
pub(super) fn run(test: &str, address: SocketAddr, path: &str) -> Result<(), String> {
    let graph = fetch(address, path)?;
    match test {
        "returns-rdf" => Ok(()),
        "has-endpoint-triple" => {
            let endpoint = format!("http://{address}{path}");
            let found = services(&graph, &endpoint);
            match found.len() {
                1 => Ok(()),
                count => Err(format!(
                    "{count} services have the endpoint {endpoint}:\n{graph}"
                )),
            }
        }
        "conforms-to-schema" => conforms(&graph).map_err(|error| format!("{error}:\n{graph}")),
        other => Err(format!("what {other} asks for is not written here")),
    }
}

fn fetch(address: SocketAddr, path: &str) -> Result<Graph, String> {
    let answer = Request::new("GET", path)
        .send(address)
        .map_err(|error| error.to_string())?;
    if answer.status != 200 {
        return Err(format!("{}: {}", answer.status, answer.text()));
    }
    super::graph_of(&answer)
}

fn services<'a>(graph: &'a Graph, endpoint: &str) -> Vec<NamedOrBlankNodeRef<'a>> {
    let property = format!("{SD}endpoint");
    let endpoint = NamedNodeRef::new_unchecked(endpoint);
    let property = NamedNodeRef::new_unchecked(&property);
    let service = format!("{SD}Service");
    let service = NamedNodeRef::new_unchecked(&service);
    let typed = graph.subjects_for_predicate_object(rdf::TYPE, service);
    let of_it =
        |node: &NamedOrBlankNodeRef<'_>| graph.contains(TripleRef::new(*node, property, endpoint));
    typed.filter(of_it).collect()
}

/// Every term of the vocabulary is one, and stands where the vocabulary wants it.
fn conforms(graph: &Graph) -> Result<(), String> {
    for triple in graph {
        if triple.predicate == rdf::TYPE {
            if let Some(class) = local(triple.object) {
                is_class(class)?;
            }
            continue;
        }
        let Some(name) = triple.predicate.as_str().strip_prefix(SD) else {
            continue;
        };
        let property = PROPERTIES.iter().find(|(property, ..)| *property == name);
        let (_, domain, range) = property.ok_or_else(|| format!("there is no sd:{name}"))?;
        is_a(graph, triple.subject.into(), domain)?;
        is_a(graph, triple.object, range)?;
        let one_only = ["name", "graph", "defaultGraph", "defaultDataset"];
        let values = graph.objects_for_subject_predicate(triple.subject, triple.predicate);
        if one_only.contains(&name) && values.count() > 1 {
            return Err(format!("{} has more than one sd:{name}", triple.subject));
        }
    }
    Ok(())
}

fn is_class(class: &str) -> Result<(), String> {
    match CLASSES.contains(&class) {
        true => Ok(()),
        false => Err(format!("there is no class sd:{class}")),
    }
}

/// A node may be of a class: it is no literal, and where it has types of the vocabulary, one of them
/// is the class or below it. One that the vocabulary itself names must be an instance.
fn is_a(graph: &Graph, node: TermRef<'_>, class: &str) -> Result<(), String> {
    let resource: NamedOrBlankNodeRef<'_> = match node {
        TermRef::NamedNode(node) => node.into(),
        TermRef::BlankNode(node) => node.into(),
        _ => return Err(format!("{node} is no resource")),
    };
    if class.is_empty() {
        return Ok(());
    }
    if let Some(name) = local(node) {
        return match INSTANCES.contains(&(name, class)) {
            true => Ok(()),
            false => Err(format!("sd:{name} is no sd:{class}")),
        };
    }
    let types = graph.objects_for_subject_predicate(resource, rdf::TYPE);
    let types: Vec<&str> = types.filter_map(local).collect();
    let below = |name: &&str| *name == class || (*name, class) == ("Dataset", "GraphCollection");
    match types.is_empty() || types.iter().any(below) {
        true => Ok(()),
        false => Err(format!("{node} is {types:?} and no sd:{class}")),
    }
}

fn local(term: TermRef<'_>) -> Option<&str> {
    match term {
        TermRef::NamedNode(node) => node.as_str().strip_prefix(SD),
        _ => None,
    }
}
