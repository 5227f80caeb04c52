//! Parameters of requests that complement the text: the dataset of a query or update (SPARQL 1.1 Protocol
//! §2.1.4, §2.2.3), and the graph that an update changes (Graph Store Protocol §5.7).

use oxrdf::NamedNode;
use spargebra::Query as Algebra;
use spargebra::algebra::QueryDataset;
use spargebra::term::GraphNamePattern;

use crate::error::SparqlError;
use crate::query::Query;
use crate::update::{Action, Operation, Update};

impl Query {
    /// Sets the query's dataset, in place of the one in its text.
    pub fn set_dataset(&mut self, default: Vec<NamedNode>, named: Vec<NamedNode>) {
        let (Algebra::Select { dataset, .. }
        | Algebra::Ask { dataset, .. }
        | Algebra::Construct { dataset, .. }
        | Algebra::Describe { dataset, .. }) = &mut self.algebra;
        *dataset = Some(QueryDataset {
            default,
            named: Some(named),
        });
    }
}

impl Update {
    /// Sets the dataset of the update's WHERE clauses.
    ///
    /// # Errors
    /// If an operation has USING or WITH.
    pub fn set_using(
        &mut self,
        default: Vec<NamedNode>,
        named: Vec<NamedNode>,
    ) -> Result<(), SparqlError> {
        for operation in &mut self.operations {
            let Action::Modify(modify) = &mut operation.action else {
                continue;
            };
            if modify.using.is_some() {
                return Err(SparqlError::Syntax {
                    line: operation.line,
                    column: 1,
                    message: "the update has USING or WITH, so the request cannot set its dataset"
                        .to_owned(),
                });
            }
            modify.using = Some(QueryDataset {
                default: default.clone(),
                named: Some(named.clone()),
            });
        }
        Ok(())
    }

    /// Restricts the update to one graph, which replaces the default graph.
    ///
    /// # Errors
    /// If an operation names a graph, or works on whole graphs.
    pub fn set_graph(&mut self, graph: &NamedNode) -> Result<(), SparqlError> {
        let operations = &mut self.operations;
        operations.iter_mut().try_for_each(|operation| {
            let only = only(operation, graph);
            only.ok_or_else(|| SparqlError::Syntax {
                line: operation.line,
                column: 1,
                message: "an update of one graph has INSERT and DELETE that name no graph, and \
                          nothing else"
                    .to_owned(),
            })
        })
    }
}

/// Sets the graph of an operation. Returns `None` if the operation names a graph, or is not INSERT or DELETE.
fn only(operation: &mut Operation, graph: &NamedNode) -> Option<()> {
    let pattern = |name: &mut GraphNamePattern| {
        (*name == GraphNamePattern::DefaultGraph).then(|| *name = graph.clone().into())
    };
    match &mut operation.action {
        Action::InsertData(data) => data.set_graph(graph),
        Action::DeleteData(data) => data.set_graph(graph),
        Action::Modify(modify) => {
            let (delete, insert) = (modify.delete.iter_mut(), modify.insert.iter_mut());
            delete.map(|q| &mut q.graph_name).try_for_each(pattern)?;
            insert.map(|q| &mut q.graph_name).try_for_each(pattern)?;
            let using = QueryDataset {
                default: vec![graph.clone()],
                named: Some(Vec::new()),
            };
            modify.using.replace(using).is_none().then_some(())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> NamedNode {
        NamedNode::new_unchecked("http://ex.org/g")
    }

    #[test]
    fn an_update_of_one_graph_names_no_other() {
        for text in [
            "INSERT DATA { <urn:a> <urn:b> <urn:c> }",
            "DELETE DATA { <urn:a> <urn:b> <urn:c> } ; INSERT DATA { <urn:a> <urn:b> 1 }",
            "DELETE { ?s ?p 1 } INSERT { ?s ?p 2 } WHERE { ?s ?p 1 }",
        ] {
            let mut update = Update::parse(text, None).unwrap();
            update.set_graph(&graph()).unwrap();
        }
        for text in [
            "INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:b> <urn:c> } }",
            "WITH <urn:g> DELETE { ?s ?p 1 } WHERE { ?s ?p 1 }",
            "DELETE { ?s ?p 1 } USING <urn:g> WHERE { ?s ?p 1 }",
            "CLEAR DEFAULT",
            "LOAD <urn:x>",
        ] {
            let mut update = Update::parse(text, None).unwrap();
            assert!(update.set_graph(&graph()).is_err(), "{text}");
        }
    }

    #[test]
    fn using_is_said_once() {
        let mut update = Update::parse("INSERT { ?s ?p 2 } WHERE { ?s ?p 1 }", None).unwrap();
        update.set_using(vec![graph()], Vec::new()).unwrap();
        assert!(update.set_using(vec![graph()], Vec::new()).is_err());
    }
}
