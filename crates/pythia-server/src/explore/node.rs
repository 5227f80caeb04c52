//! The neighbourhood of a node: `GET /node?iri=…` returns its triples by direction and predicate.

use std::collections::HashMap;

use oxrdf::{BlankNode, NamedNode, Term};
use pythia::ids::{Component, Order, QuadPattern, TermId};
use pythia::{QueryError, write_json_term};
use serde::Serialize;
use serde_json::Value;

use super::find::types;
use super::labels::labels;
use super::reader::{Reader, Rows, from, to};
use crate::protocol::error::HttpError;
use crate::protocol::parameters::{Parameters, iri};

/// Limit on the types returned.
const TYPES: usize = 50;
/// Limit on groups of a direction.
const GROUPS: usize = 1000;
/// Limit on items of all groups together, if all groups are requested.
const ITEMS: usize = 4000;
/// Default number of items in a group: if all groups are requested, and if one is.
const FIRST_ITEMS: usize = 10;
const PAGE_ITEMS: usize = 50;
/// Maximum number of items in a group.
const ITEMS_MAX: usize = 1000;

/// A request for a node.
#[derive(Debug)]
pub(super) struct Request {
    node: Term,
    directions: Vec<Direction>,
    predicate: Option<NamedNode>,
    limit: usize,
    offset: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Direction {
    Out,
    In,
}

/// A node and its neighbourhood.
#[derive(Debug, Serialize)]
pub(super) struct Node {
    #[serde(skip_serializing_if = "Option::is_none")]
    iri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bnode: Option<String>,
    label: Option<String>,
    types: Vec<String>,
    groups: Vec<Neighbours>,
}

/// The triples of a node with one predicate in one direction.
#[derive(Debug, Serialize)]
struct Neighbours {
    predicate: String,
    direction: Direction,
    count: u64,
    items: Vec<Neighbour>,
    more: bool,
}

#[derive(Debug, Serialize)]
struct Neighbour {
    term: Value,
    label: Option<String>,
}

/// A group before its terms are decoded.
struct NeighbourIds {
    predicate: TermId,
    direction: Direction,
    count: u64,
    items: Vec<TermId>,
}

impl Request {
    pub(super) fn node(&self) -> &Term {
        &self.node
    }

    pub(super) fn of(parameters: &Parameters) -> Result<Self, HttpError> {
        let node: Term = match (parameters.one("iri")?, parameters.one("bnode")?) {
            (Some(text), None) => iri("iri", text)?.into(),
            (None, Some(label)) => BlankNode::new(label)
                .map_err(|_| {
                    HttpError::bad_request(format!("bnode={label}: not a blank node label"))
                })?
                .into(),
            _ => {
                let message = "missing parameter: iri=IRI or bnode=LABEL";
                return Err(HttpError::bad_request(message));
            }
        };
        let directions = match parameters.one("direction")? {
            None | Some("both") => vec![Direction::Out, Direction::In],
            Some("out") => vec![Direction::Out],
            Some("in") => vec![Direction::In],
            Some(other) => {
                let message = format!("direction={other}: expected out, in or both");
                return Err(HttpError::bad_request(message));
            }
        };
        let predicate = parameters.one("predicate")?;
        let predicate = predicate.map(|text| iri("predicate", text)).transpose()?;
        let usual = match predicate {
            Some(_) => PAGE_ITEMS,
            None => FIRST_ITEMS,
        };
        Ok(Self {
            node,
            directions,
            predicate,
            limit: number(parameters, "limit", usual)?.min(ITEMS_MAX),
            offset: number(parameters, "offset", 0)?,
        })
    }
}

/// Reads a numeric parameter.
pub(super) fn number(
    parameters: &Parameters,
    name: &str,
    usual: usize,
) -> Result<usize, HttpError> {
    let Some(text) = parameters.one(name)? else {
        return Ok(usual);
    };
    text.parse()
        .map_err(|_| HttpError::bad_request(format!("{name}={text}: expected a number")))
}

/// Returns the node and its groups. A node without visible triples has no groups.
pub(super) fn node(reader: &Reader, request: &Request) -> Result<Node, QueryError> {
    let mut groups = Vec::new();
    let id = reader.resolve(&request.node)?;
    if let Some(id) = id {
        for direction in &request.directions {
            match &request.predicate {
                Some(predicate) => groups.extend(page(reader, id, *direction, predicate, request)?),
                None => all_groups(reader, id, *direction, request, &mut groups)?,
            }
        }
    }
    let id = match id {
        Some(id) if reader.knows(id)? => Some(id),
        _ => None,
    };
    let nodes = groups.iter().flat_map(|group| group.items.iter().copied());
    let labels = labels(reader, &nodes.chain(id).collect::<Vec<_>>())?;
    let (iri, bnode) = match &request.node {
        Term::NamedNode(node) => (Some(node.as_str().to_owned()), None),
        Term::BlankNode(node) => (None, Some(node.as_str().to_owned())),
        _ => (None, None),
    };
    Ok(Node {
        iri,
        bnode,
        label: id.and_then(|id| labels.get(&id).cloned()),
        types: match id {
            Some(id) => types(reader, id, TYPES)?,
            None => Vec::new(),
        },
        groups: shown(reader, groups, &labels, request.offset)?,
    })
}

/// Returns the pattern of a node's triples in a direction, the order to read, and the component of the neighbour.
fn triples(
    node: TermId,
    direction: Direction,
    predicate: Option<TermId>,
) -> (QuadPattern, Order, Component) {
    match direction {
        Direction::Out => (from(node, predicate), Order::Spo, Component::Object),
        Direction::In => (to(node, predicate), Order::Ops, Component::Subject),
    }
}

/// Reads one page of one group.
fn page(
    reader: &Reader,
    node: TermId,
    direction: Direction,
    predicate: &NamedNode,
    request: &Request,
) -> Result<Option<NeighbourIds>, QueryError> {
    let Some(predicate) = reader.snapshot.resolve(predicate.as_ref().into())? else {
        return Ok(None);
    };
    let (pattern, order, other) = triples(node, direction, Some(predicate));
    let mut rows = reader.rows(&pattern, order, [Component::Predicate, other])?;
    let (mut items, mut count) = (Vec::new(), 0);
    while items.len() < request.limit
        && let Some([_, item]) = rows.next()?
    {
        count += 1;
        if count > request.offset as u64 {
            items.push(item);
        }
    }
    count = match reader.is_plain() {
        true => reader.snapshot.count(&pattern)?,
        false => {
            while rows.next()?.is_some() {
                count += 1;
            }
            count
        }
    };
    Ok((count > 0).then_some(NeighbourIds {
        predicate,
        direction,
        count,
        items,
    }))
}

/// Reads all groups of a direction, each with its first items.
fn all_groups(
    reader: &Reader,
    node: TermId,
    direction: Direction,
    request: &Request,
    groups: &mut Vec<NeighbourIds>,
) -> Result<(), QueryError> {
    let (pattern, order, other) = triples(node, direction, None);
    let mut rows = reader.rows(&pattern, order, [Component::Predicate, other])?;
    let mut head = rows.next()?;
    let mut room = ITEMS.saturating_sub(groups.iter().map(|group| group.items.len()).sum());
    let most = groups.len() + GROUPS;
    while let Some([predicate, first]) = head
        && groups.len() < most
    {
        let mut group = NeighbourIds {
            predicate,
            direction,
            count: 1,
            items: vec![first],
        };
        head = fill(reader, node, &mut rows, &mut group, request.limit.min(room))?;
        group.items.truncate(request.limit.min(room));
        room -= group.items.len();
        groups.push(group);
    }
    Ok(())
}

/// Reads a group to its end: its first items and its count. Returns the first row of the next group.
fn fill(
    reader: &Reader,
    node: TermId,
    rows: &mut Rows<'_>,
    group: &mut NeighbourIds,
    limit: usize,
) -> Result<Option<[TermId; 2]>, QueryError> {
    let mut head = rows.next()?;
    while let Some([predicate, item]) = head
        && predicate == group.predicate
    {
        group.count += 1;
        if group.items.len() < limit {
            group.items.push(item);
        } else if reader.is_plain() {
            // The count is known without reading the rest.
            let (pattern, ..) = triples(node, group.direction, Some(predicate));
            group.count = reader.snapshot.count(&pattern)?;
            rows.seek(TermId(predicate.0 + 1))?;
            return rows.next();
        }
        head = rows.next()?;
    }
    Ok(head)
}

/// Decodes the terms of the groups.
fn shown(
    reader: &Reader,
    groups: Vec<NeighbourIds>,
    labels: &HashMap<TermId, String>,
    offset: usize,
) -> Result<Vec<Neighbours>, QueryError> {
    let predicates: Vec<TermId> = groups.iter().map(|group| group.predicate).collect();
    let predicates = reader.snapshot.decode(&predicates)?;
    let items: Vec<TermId> = groups
        .iter()
        .flat_map(|group| group.items.clone())
        .collect();
    let mut terms = reader.snapshot.decode(&items)?.into_iter();
    let mut shown = Vec::new();
    for (group, predicate) in groups.into_iter().zip(predicates) {
        let Term::NamedNode(predicate) = predicate else {
            continue;
        };
        let seen = (offset + group.items.len()) as u64;
        let items = group.items.iter().zip(terms.by_ref());
        let items = items.map(|(id, term)| Neighbour {
            term: json(&term),
            label: labels.get(id).cloned(),
        });
        shown.push(Neighbours {
            predicate: predicate.into_string(),
            direction: group.direction,
            count: group.count,
            items: items.collect(),
            more: seen < group.count,
        });
    }
    Ok(shown)
}

/// Returns a term in the form of SPARQL's JSON results.
fn json(term: &Term) -> Value {
    let mut text = Vec::new();
    write_json_term(&mut text, term).expect("memory takes all");
    serde_json::from_slice(&text).expect("what was written is JSON")
}
