//! Templates of CONSTRUCT and of updates: terms, variables, and blank nodes that are new in each solution.

use oxrdf::{BlankNode, NamedNode, NamedOrBlankNode, Term, Triple, Variable};
use pythia_rdf::TermId;
use spargebra::term::{NamedNodePattern, TermPattern, TriplePattern};

use crate::error::QueryError;
use crate::exec::context::QueryContext;

/// A position of a template.
#[derive(Clone)]
pub enum TemplateTerm {
    /// A constant term.
    Term(TermId),
    /// A column of the solutions.
    Column(usize),
    /// A blank node of the template, by number.
    NewNode(u64),
    /// A triple term inside a triple term.
    Triple(Box<[Self; 3]>),
}

/// The solution with which a template is instantiated.
pub struct Filling<'a> {
    /// The query.
    pub context: &'a QueryContext,
    /// The solutions by column.
    pub columns: &'a [Vec<u64>],
    /// The row of the solution.
    pub row: usize,
    /// Numbers of the query and the solution, for the labels of new blank nodes.
    pub name: (u64, u64),
}

/// Reader of a template's positions.
pub struct TemplateReader<'a> {
    context: &'a QueryContext,
    /// Variables of the solutions, in column order.
    variables: &'a [Variable],
    /// Blank nodes so far.
    labels: Vec<BlankNode>,
}

impl<'a> TemplateReader<'a> {
    /// Creates a reader of templates over solutions with these variables.
    pub fn new(context: &'a QueryContext, variables: &'a [Variable]) -> Self {
        Self {
            context,
            variables,
            labels: Vec::new(),
        }
    }

    /// Returns the three positions of a pattern, or `None` if one of its variables is never bound.
    pub fn places(
        &mut self,
        pattern: &TriplePattern,
    ) -> Result<Option<[TemplateTerm; 3]>, QueryError> {
        let subject = self.place(&pattern.subject)?;
        let predicate = self.name(&pattern.predicate)?;
        let object = self.place(&pattern.object)?;
        Ok(match (subject, predicate, object) {
            (Some(subject), Some(predicate), Some(object)) => Some([subject, predicate, object]),
            _ => None,
        })
    }

    /// Returns the position of an IRI or variable.
    pub fn name(&mut self, pattern: &NamedNodePattern) -> Result<Option<TemplateTerm>, QueryError> {
        match pattern {
            NamedNodePattern::NamedNode(node) => self.intern(node.clone().into()),
            NamedNodePattern::Variable(variable) => Ok(self.column(variable)),
        }
    }

    fn place(&mut self, pattern: &TermPattern) -> Result<Option<TemplateTerm>, QueryError> {
        match pattern {
            TermPattern::NamedNode(node) => self.intern(node.clone().into()),
            TermPattern::Literal(literal) => self.intern(literal.clone().into()),
            TermPattern::Variable(variable) => Ok(self.column(variable)),
            TermPattern::BlankNode(node) => {
                let known = self.labels.iter().position(|label| label == node);
                let number = known.unwrap_or_else(|| {
                    self.labels.push(node.clone());
                    self.labels.len() - 1
                });
                Ok(Some(TemplateTerm::NewNode(number as u64 + 1)))
            }
            TermPattern::Triple(triple) => {
                let places = self.places(triple)?;
                Ok(places.map(|places| TemplateTerm::Triple(Box::new(places))))
            }
        }
    }

    fn intern(&self, term: Term) -> Result<Option<TemplateTerm>, QueryError> {
        Ok(Some(TemplateTerm::Term(
            self.context.evaluation.intern(term)?,
        )))
    }

    fn column(&self, variable: &Variable) -> Option<TemplateTerm> {
        let column = self.variables.iter().position(|v| v == variable);
        column.map(TemplateTerm::Column)
    }
}

impl TemplateTerm {
    /// Returns whether the term is, or contains, a blank node of the template.
    pub fn has_new_node(&self) -> bool {
        match self {
            Self::NewNode(_) => true,
            Self::Triple(places) => places.iter().any(Self::has_new_node),
            Self::Term(_) | Self::Column(_) => false,
        }
    }

    /// Returns the id at this position in a solution, or the number of a new blank node. Returns `None` if a
    /// variable is unbound.
    pub fn id(&self, filling: &Filling<'_>) -> Result<Option<u64>, QueryError> {
        match self {
            Self::Term(id) => Ok(Some(id.0)),
            // Numbers of new nodes are small, so they are not ids of any kind.
            Self::NewNode(number) => Ok(Some(*number)),
            Self::Column(column) => {
                let id = filling.columns[*column][filling.row];
                Ok(Some(id).filter(|id| *id != 0))
            }
            Self::Triple(places) => {
                let [s, p, o] = &**places;
                let (Some(s), Some(p), Some(o)) =
                    (s.term(filling)?, p.term(filling)?, o.term(filling)?)
                else {
                    return Ok(None);
                };
                let Some(triple) = triple(s, p, o) else {
                    return Ok(None);
                };
                let id = filling.context.evaluation.intern(triple.into())?;
                Ok(Some(id.0))
            }
        }
    }

    fn term(&self, filling: &Filling<'_>) -> Result<Option<Term>, QueryError> {
        let Some(id) = self.id(filling)? else {
            return Ok(None);
        };
        if let Self::NewNode(number) = self {
            return Ok(Some(new_node(*number, filling.name).into()));
        }
        Ok(filling.context.evaluation.decode(&[TermId(id)])?.pop())
    }
}

/// Returns the blank node for a node of the template in one solution.
pub fn new_node(node: u64, (query, solution): (u64, u64)) -> BlankNode {
    BlankNode::new_unchecked(format!("c{query:016x}b{node}s{solution}"))
}

/// Returns the triple of three terms, or `None` if it is not valid RDF.
pub fn triple(subject: Term, predicate: Term, object: Term) -> Option<Triple> {
    let subject: NamedOrBlankNode = match subject {
        Term::NamedNode(node) => node.into(),
        Term::BlankNode(node) => node.into(),
        _ => return None,
    };
    let predicate: NamedNode = match predicate {
        Term::NamedNode(node) => node,
        _ => return None,
    };
    Some(Triple::new(subject, predicate, object))
}
