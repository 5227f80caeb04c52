//! Parsing of updates: from the text to operations.

use std::cell::RefCell;
use std::sync::Arc;

use oxiri::Iri;
use oxrdf::{NamedNode, NamedOrBlankNode};
use spargebra::GraphUpdateOperation;
use spargebra::algebra::{GraphPattern, GraphTarget, QueryDataset};
use spargebra::term::{
    GraphName, GraphNamePattern, GroundQuad, GroundQuadPattern, Quad, QuadPattern,
};

use super::data::{Data, DataQuad, Fault, LongData, Refused, inside};
use super::grammar::Language;
use super::lines::Lines;
use super::size::{FREE_BYTES, text_tree_bytes};
use super::statements::{DataVerb, Section, Statement, Verb, sections};
use super::{by_parser, byte_of, check_searches, limits, parser, rewrite, syntax};
use super::{for_the_parser, grammar};
use crate::error::QueryError;
use crate::expression::text_bytes;
use crate::governor::{Governor, Held};
use crate::validate;

/// A parsed update: a sequence of operations that are applied together or not at all.
#[derive(Clone, Debug)]
pub struct Update {
    pub(crate) operations: Vec<Operation>,
    /// Memory held by the update, if charged.
    held: Option<Arc<Held>>,
}

/// One operation with its base IRI and the line on which it starts.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) line: usize,
    pub(crate) base_iri: Option<Arc<Iri<String>>>,
    pub(crate) action: Action,
}

/// The effect of an operation.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    InsertData(Data<Quad>),
    DeleteData(Data<GroundQuad>),
    Modify(Box<Modify>),
    Load {
        silent: bool,
        source: NamedNode,
        graph: GraphName,
    },
    /// CLEAR and DROP, which are the same because empty graphs do not exist.
    Clear {
        silent: bool,
        graph: GraphTarget,
    },
    Create {
        silent: bool,
        graph: NamedNode,
    },
    /// ADD, COPY and MOVE; `graphs` is `None` if source and destination are the same.
    Transfer {
        silent: bool,
        verb: Transfer,
        graphs: Option<(GraphName, GraphName)>,
    },
}

/// The quads that a transfer removes, besides inserting the source's quads into the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    Add,
    /// Removes the former quads of the destination.
    Copy,
    /// Also removes the quads of the source.
    Move,
}

/// DELETE and INSERT for each solution.
#[derive(Clone, Debug)]
pub(crate) struct Modify {
    pub(crate) delete: Vec<GroundQuadPattern>,
    pub(crate) insert: Vec<QuadPattern>,
    pub(crate) using: Option<QueryDataset>,
    pub(crate) pattern: GraphPattern,
}

impl Update {
    /// Parses an update. Relative IRIs are resolved against `base`.
    pub fn parse(text: &str, base: Option<&str>) -> Result<Self, QueryError> {
        let governor = Arc::new(Governor::unlimited());
        let mut update = Self::parse_charged(text, base, &mut Held::new(&governor))?;
        update.held = None;
        Ok(update)
    }

    /// Parses an update within limits. A large update is charged before it is built, until it is dropped.
    pub(crate) fn parse_within(
        text: &str,
        base: Option<&str>,
        governor: &Arc<Governor>,
    ) -> Result<Self, QueryError> {
        governor.check()?;
        let mut held = Held::new(governor);
        if text.len() <= FREE_BYTES && text_tree_bytes(text, base) <= FREE_BYTES {
            // Small data is charged when the update runs.
            return Self::parse(text, base);
        }
        let mut update = Self::parse_charged(text, base, &mut held)?;
        update.held = Some(Arc::new(held));
        Ok(update)
    }

    fn parse_charged(text: &str, base: Option<&str>, held: &mut Held) -> Result<Self, QueryError> {
        limits::check(text).map_err(|excess| syntax(text, excess.at, excess.message))?;
        // Copies of the text, and labels of blank nodes, until parsing ends.
        let labels = text.matches("_:").count().saturating_mul(LABEL_BYTES);
        let meanwhile = TEXT_COPIES * text.len() + labels;
        held.add(meanwhile)?;
        let rewritten = rewrite(text, base.is_some(), Language::Update)?;
        let standard = rewritten.as_ref().map_or(text, |new| new.text.as_str());
        let standard = for_the_parser(standard);
        let original = |at: usize| rewritten.as_ref().map_or(at, |new| new.original(at));
        let mut operations = Vec::new();
        let lines = RefCell::new(Lines::of(text));
        let sections =
            sections(&standard).map_err(|fault| syntax(text, original(fault.at), fault.message))?;
        let repeated = sections.iter().map(|section| section.prologue.len());
        let meanwhile = meanwhile + repeated.sum::<usize>();
        held.set(meanwhile)?;
        for section in sections {
            held.check()?;
            let reader = Reader {
                text,
                standard: &standard,
                base,
                section: &section,
                original: &original,
                lines: &lines,
            };
            operations.append(&mut match section.is_long_data {
                true => reader.long_data(held)?,
                false => reader.operations(rewritten.is_some(), held)?,
            });
        }
        held.set(held.bytes() - meanwhile)?;
        Ok(Self {
            operations,
            held: None,
        })
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Estimates the bytes of the quads to insert or delete that were not charged during parsing.
    pub(crate) fn data_bytes(&self) -> usize {
        if self.held.is_some() {
            return 0;
        }
        let of_action = |operation: &Operation| match &operation.action {
            Action::InsertData(Data::Parsed(quads)) => quads.iter().map(quad_bytes).sum(),
            Action::DeleteData(Data::Parsed(quads)) => quads.len() * GROUND_QUAD_BYTES,
            Action::InsertData(Data::Long(long)) | Action::DeleteData(Data::Long(long)) => {
                long.memory_bytes()
            }
            _ => 0,
        };
        self.operations.iter().map(of_action).sum()
    }

    /// Returns whether the update has no operations.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}

/// Copies of the text during parsing, besides the original.
const TEXT_COPIES: usize = 2;
/// Bytes of a blank node's label while labels are compared.
const LABEL_BYTES: usize = 64;
/// Overhead of an allocated text.
const ALLOCATION_BYTES: usize = 16;
/// Approximate bytes of a quad without variables.
const GROUND_QUAD_BYTES: usize = size_of::<GroundQuad>() + 3 * 48;

fn quad_bytes(quad: &Quad) -> usize {
    let graph = match &quad.graph_name {
        GraphName::NamedNode(node) => node.as_str().len() + ALLOCATION_BYTES,
        GraphName::DefaultGraph => 0,
    };
    let subject = match &quad.subject {
        NamedOrBlankNode::NamedNode(node) => node.as_str().len(),
        NamedOrBlankNode::BlankNode(node) => node.as_str().len(),
    };
    let texts = subject + quad.predicate.as_str().len() + text_bytes(&quad.object) + graph;
    size_of::<Quad>() + texts + 3 * ALLOCATION_BYTES
}

/// Reader of one section.
struct Reader<'a, 't> {
    /// The original text, and the text in standard SPARQL.
    text: &'a str,
    standard: &'a str,
    base: Option<&'a str>,
    section: &'a Section,
    /// Maps positions in the standard text to the original.
    original: &'a dyn Fn(usize) -> usize,
    /// Lines of the original text.
    lines: &'a RefCell<Lines<'t>>,
}

impl Reader<'_, '_> {
    fn operations(
        &self,
        is_rewritten: bool,
        held: &mut Held,
    ) -> Result<Vec<Operation>, QueryError> {
        let source = self.section.source(self.standard);
        held.add(text_tree_bytes(&source, self.base))?;
        let update = match parser(self.text, self.base)?.parse_update(&source) {
            Ok(update) => update,
            Err(error) => return Err(self.refused(&source, &error.to_string(), is_rewritten)),
        };
        let base_iri = update.base_iri.map(Arc::new);
        let loops = self.loops(update.operations.len())?;
        let mut parts = update.operations.into_iter();
        let mut operations = Vec::new();
        for (statement, is_loop) in self.section.statements.iter().zip(loops) {
            let count = if is_loop { 0 } else { statement.verb.parts() };
            let at = (self.original)(statement.range.start);
            let Some(mut action) = action(statement, parts.by_ref().take(count)) else {
                return Err(self.mixed_up(at));
            };
            if let Action::Modify(modify) = &mut action {
                self.finish(&mut modify.pattern, statement)?;
            }
            operations.push(Operation {
                line: self.lines.borrow_mut().of_byte(at),
                base_iri: base_iri.clone(),
                action,
            });
        }
        match parts.next() {
            Some(_) => Err(self.mixed_up(self.text.len())),
            None => Ok(operations),
        }
    }

    /// Returns the operation of a section whose only statement is long data.
    fn long_data(&self, held: &mut Held) -> Result<Vec<Operation>, QueryError> {
        let statement = &self.section.statements[0];
        let long = LongData::new(
            (self.standard, statement.range.clone()),
            &self.section.prologue,
            self.base,
            held,
        );
        let long = Box::new(long.map_err(|fault| self.long_fault(fault))?);
        let action = match statement.data {
            Some(DataVerb::Delete) => {
                self.check_long::<GroundQuad>(&long, held)?;
                Action::DeleteData(Data::Long(long))
            }
            _ => {
                self.check_long::<Quad>(&long, held)?;
                Action::InsertData(Data::Long(long))
            }
        };
        let at = (self.original)(statement.range.start);
        Ok(vec![Operation {
            line: self.lines.borrow_mut().of_byte(at),
            base_iri: None,
            action,
        }])
    }

    fn check_long<Q: DataQuad>(&self, long: &LongData, held: &mut Held) -> Result<(), QueryError> {
        long.check::<Q>(held)
            .map_err(|fault| self.long_fault(fault))
    }

    /// Converts an error in long data.
    fn long_fault(&self, fault: Fault) -> QueryError {
        let Refused {
            source,
            before_bytes,
            start,
            message,
        } = match fault {
            Fault::Limit(error) => return error,
            Fault::Repeated => {
                let at = (self.original)(self.section.statements[0].range.start);
                let message = "the prologue is too long to be read again for each part of this data; declare shorter prefixes";
                return syntax(self.text, at, message);
            }
            Fault::Refused(refused) => *refused,
        };
        let fault = grammar::first_fault(self.text, self.base.is_some(), Language::Update);
        if let Some(fault) = fault {
            return syntax(self.text, fault.at, fault.message);
        }
        let QueryError::Syntax {
            line,
            column,
            message,
        } = by_parser(&source, &message)
        else {
            unreachable!("it is an error of syntax");
        };
        let statement = self.section.statements[0].range.clone();
        let body = inside(self.standard, statement);
        let at = byte_of(&source, line, column).saturating_sub(before_bytes);
        let at = (body.start + start + at).min(body.end);
        syntax(self.text, (self.original)(at), message)
    }

    /// Returns the error for a text that the parser and [`super::statements`] read differently.
    fn mixed_up(&self, at: usize) -> QueryError {
        let message = "the operations of this update cannot be separated; run them one at a time";
        syntax(self.text, at, message)
    }

    /// Returns the error for a section that the parser refuses.
    fn refused(&self, source: &str, message: &str, is_rewritten: bool) -> QueryError {
        let fault = match is_rewritten {
            true => None,
            false => grammar::first_fault(self.text, self.base.is_some(), Language::Update),
        };
        if let Some(fault) = fault {
            return syntax(self.text, fault.at, fault.message);
        }
        match by_parser(source, message) {
            QueryError::Syntax {
                line,
                column,
                message,
            } => {
                let at = self.section.original(byte_of(source, line, column));
                syntax(self.text, (self.original)(at), message)
            }
            other => other,
        }
    }

    /// Finds the transfers from a graph to itself, for which the parser produces no operations.
    fn loops(&self, parts: usize) -> Result<Vec<bool>, QueryError> {
        /// Maximum bytes that may be parsed again for this.
        const BYTES_MAX: usize = 64 << 20;
        let statements = &self.section.statements;
        let mut loops: Vec<bool> = statements.iter().map(|s| s.is_loop).collect();
        let counted = |(statement, is_loop): (&Statement, &bool)| match is_loop {
            true => 0,
            false => statement.verb.parts(),
        };
        if statements.iter().zip(&loops).map(counted).sum::<usize>() == parts {
            return Ok(loops);
        }
        // Some transfers name one graph in two ways.
        let mut bytes = 0;
        let transfers = statements.iter().zip(&mut loops);
        for (statement, is_loop) in transfers.filter(|(s, _)| s.verb != Verb::Other) {
            let source = self.section.source_of(statement, self.standard);
            bytes += source.len();
            if bytes > BYTES_MAX {
                let message = "too many operations name one graph in two ways; write both alike";
                let at = (self.original)(statement.range.start);
                return Err(syntax(self.text, at, message));
            }
            let parsed = parser(self.text, self.base)?.parse_update(&source);
            *is_loop = parsed.is_ok_and(|update| update.operations.is_empty());
        }
        Ok(loops)
    }

    /// Finishes a WHERE clause after the grammar has accepted it.
    fn finish(&self, pattern: &mut GraphPattern, statement: &Statement) -> Result<(), QueryError> {
        let range = (self.original)(statement.range.start)..(self.original)(statement.range.end);
        validate::finish(pattern)
            .map_err(|fault| syntax(self.text, range.start, fault.to_owned()))?;
        check_searches(self.text, range, pattern)
    }
}

/// Returns the action of a statement from the parser's operations, or `None` if they do not match.
fn action(
    statement: &Statement,
    mut parts: impl Iterator<Item = GraphUpdateOperation>,
) -> Option<Action> {
    let silent = statement.silent;
    let verb = match statement.verb {
        Verb::Add => Transfer::Add,
        Verb::Copy => Transfer::Copy,
        Verb::Move => Transfer::Move,
        Verb::Other => return simple(parts.next()?),
    };
    let mut graphs = None;
    for part in parts {
        if let GraphUpdateOperation::DeleteInsert {
            insert, pattern, ..
        } = part
        {
            graphs = Some(ends(&pattern, &insert)?);
        }
    }
    Some(Action::Transfer {
        silent,
        verb,
        graphs,
    })
}

/// Returns the source and destination graphs of a transfer.
fn ends(pattern: &GraphPattern, insert: &[QuadPattern]) -> Option<(GraphName, GraphName)> {
    let named = |name: &GraphNamePattern| match name {
        GraphNamePattern::NamedNode(node) => Some(node.clone().into()),
        GraphNamePattern::DefaultGraph => Some(GraphName::DefaultGraph),
        GraphNamePattern::Variable(_) => None,
    };
    let from = match pattern {
        GraphPattern::Graph { name, .. } => named(&name.clone().into())?,
        _ => GraphName::DefaultGraph,
    };
    Some((from, named(&insert.first()?.graph_name)?))
}

fn simple(operation: GraphUpdateOperation) -> Option<Action> {
    Some(match operation {
        GraphUpdateOperation::InsertData { data } => Action::InsertData(Data::Parsed(data)),
        GraphUpdateOperation::DeleteData { data } => Action::DeleteData(Data::Parsed(data)),
        GraphUpdateOperation::DeleteInsert {
            delete,
            insert,
            using,
            pattern,
        } => Action::Modify(Box::new(Modify {
            delete,
            insert,
            using,
            pattern: *pattern,
        })),
        GraphUpdateOperation::Load {
            silent,
            source,
            destination,
        } => Action::Load {
            silent,
            source,
            graph: destination,
        },
        GraphUpdateOperation::Clear { silent, graph }
        | GraphUpdateOperation::Drop { silent, graph } => Action::Clear { silent, graph },
        GraphUpdateOperation::Create { silent, graph } => Action::Create { silent, graph },
    })
}
