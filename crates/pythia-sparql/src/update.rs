//! Parsing of updates: from the text to operations.

use std::cell::RefCell;
use std::sync::Arc;

use oxiri::Iri;
use oxrdf::{NamedNode, NamedOrBlankNode};
use pythia_rdf::term_text_bytes;
use spargebra::GraphUpdateOperation;
use spargebra::algebra::{GraphPattern, GraphTarget, QueryDataset};
use spargebra::term::{
    GraphName, GraphNamePattern, GroundQuad, GroundQuadPattern, Quad, QuadPattern,
};

use crate::charge::{Charge, Unlimited};
use crate::data::{Data, LongData};
use crate::error::SparqlError;
use crate::grammar::Language;
use crate::parser::{Failure, for_the_parser, parser, read};
use crate::paths::Rewritten;
use crate::position::{Lines, syntax};
use crate::service_check::check_services;
use crate::size::{FREE_BYTES, text_tree_bytes};
use crate::statements::{DataVerb, Section, Statement, Verb, sections};
use crate::{aggregates, limits, validate};

/// A parsed update: a sequence of operations that are applied together or not at all.
#[derive(Clone, Debug)]
pub struct Update {
    pub(crate) operations: Vec<Operation>,
    /// Memory held by the update, if charged.
    held: Option<Arc<dyn Charge>>,
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Line on which it starts, from 1.
    pub line: usize,
    /// Base IRI of its expressions.
    pub base_iri: Option<Arc<Iri<String>>>,
    /// Its effect.
    pub action: Action,
}

/// The effect of an operation.
#[derive(Clone, Debug)]
pub enum Action {
    /// INSERT DATA.
    InsertData(Data<Quad>),
    /// DELETE DATA.
    DeleteData(Data<GroundQuad>),
    /// DELETE and INSERT for each solution.
    Modify(Box<Modify>),
    /// LOAD.
    Load {
        /// True if errors are ignored.
        silent: bool,
        /// Document to load.
        source: NamedNode,
        /// Graph that receives its triples.
        graph: GraphName,
    },
    /// CLEAR and DROP, which are the same because empty graphs do not exist.
    Clear {
        /// True if errors are ignored.
        silent: bool,
        /// Graphs to remove.
        graph: GraphTarget,
    },
    /// CREATE.
    Create {
        /// True if errors are ignored.
        silent: bool,
        /// Graph to create.
        graph: NamedNode,
    },
    /// ADD, COPY and MOVE.
    Transfer {
        /// True if errors are ignored.
        silent: bool,
        /// Quads that the transfer removes.
        verb: Transfer,
        /// Source and destination, or `None` if they are the same.
        graphs: Option<(GraphName, GraphName)>,
    },
}

/// The quads that a transfer removes, besides inserting the source's quads into the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Removes nothing.
    Add,
    /// Removes the former quads of the destination.
    Copy,
    /// Also removes the quads of the source.
    Move,
}

/// DELETE and INSERT for each solution.
#[derive(Clone, Debug)]
pub struct Modify {
    /// Template of the quads to delete.
    pub delete: Vec<GroundQuadPattern>,
    /// Template of the quads to insert.
    pub insert: Vec<QuadPattern>,
    /// Dataset of the pattern.
    pub using: Option<QueryDataset>,
    /// Pattern of the WHERE clause.
    pub pattern: GraphPattern,
}

impl Update {
    /// Parses an update. Relative IRIs are resolved against `base`.
    pub fn parse(text: &str, base: Option<&str>) -> Result<Self, SparqlError> {
        Self::parse_charged(text, base, &mut Unlimited::default())
    }

    /// Parses an update within limits. A large update is charged before it is built, until it is dropped;
    /// small data is charged when the update runs.
    pub fn parse_within(
        text: &str,
        base: Option<&str>,
        mut charge: Box<dyn Charge>,
    ) -> Result<Self, SparqlError> {
        charge.check()?;
        let mut update = Self::parse_charged(text, base, &mut *charge)?;
        update.held = (charge.bytes() > 0).then(|| charge.into());
        Ok(update)
    }

    fn parse_charged(
        text: &str,
        base: Option<&str>,
        charge: &mut dyn Charge,
    ) -> Result<Self, SparqlError> {
        limits::check(text).map_err(|excess| syntax(text, excess.at, excess.message))?;
        // Copies of the text, and labels of blank nodes, until parsing ends.
        let labels = text.matches("_:").count().saturating_mul(LABEL_BYTES);
        let meanwhile = TEXT_COPIES * text.len() + labels;
        charge.add(meanwhile)?;
        let operations = read(text, base, Language::Update, |standard| {
            charge.set(meanwhile)?;
            operations(text, standard, base, charge)
        })?;
        Ok(Self {
            operations,
            held: None,
        })
    }

    /// Returns the operations.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Estimates the bytes of the quads to insert or delete that were not charged during parsing.
    pub fn data_bytes(&self) -> usize {
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

/// Returns the operations of a text in standard SPARQL. At the end, releases the bytes charged for copies of the text
/// and for labels; only the operations stay charged.
fn operations(
    text: &str,
    rewritten: &Rewritten<'_>,
    base: Option<&str>,
    charge: &mut dyn Charge,
) -> Result<Vec<Operation>, Failure> {
    let standard = for_the_parser(&rewritten.text);
    let original = |at: usize| rewritten.original(at);
    let mut operations = Vec::new();
    let lines = RefCell::new(Lines::of(text));
    let sections =
        sections(&standard).map_err(|fault| syntax(text, original(fault.at), fault.message))?;
    let repeated = sections.iter().map(|section| section.prologue.len());
    charge.add(repeated.sum())?;
    let meanwhile = charge.bytes();
    // The size of a short text is estimated as a whole, that of a long one by section.
    let is_short = standard.len() <= FREE_BYTES;
    if charge.is_limited() && is_short {
        let bytes = text_tree_bytes(&standard, base);
        if bytes > FREE_BYTES {
            charge.add(bytes)?;
        }
    }
    for section in sections {
        charge.check()?;
        let reader = Reader {
            text,
            standard: &standard,
            base,
            section: &section,
            original: &original,
            lines: &lines,
        };
        if charge.is_limited() && !is_short && !section.is_long_data {
            charge.add(text_tree_bytes(&section.source(&standard), base))?;
        }
        operations.append(&mut match section.is_long_data {
            true => reader.long_data(charge)?,
            false => reader.operations()?,
        });
    }
    charge.set(charge.bytes() - meanwhile)?;
    Ok(operations)
}

/// Number of copies of the text during parsing, besides the original.
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
    let texts = subject + quad.predicate.as_str().len() + term_text_bytes(&quad.object) + graph;
    size_of::<Quad>() + texts + 3 * ALLOCATION_BYTES
}

/// A reader of one section: of the operations after one prologue.
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
    fn operations(&self) -> Result<Vec<Operation>, Failure> {
        let source = self.section.source(self.standard);
        let parser = aggregates::for_text(parser(self.text, self.base)?, &source);
        let update = parser.parse_update(&source)?;
        let base_iri = update.base_iri.map(Arc::new);
        let loops = self.loops(update.operations.len())?;
        let mut parts = update.operations.into_iter();
        let mut operations = Vec::new();
        for (statement, is_loop) in self.section.statements.iter().zip(loops) {
            let count = if is_loop { 0 } else { statement.verb.parts() };
            let at = (self.original)(statement.range.start);
            let Some(mut action) = action(statement, parts.by_ref().take(count)) else {
                return Err(self.mixed_up(at).into());
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
            Some(_) => Err(self.mixed_up(self.text.len()).into()),
            None => Ok(operations),
        }
    }

    /// Returns the operation of a section whose only statement is long data.
    fn long_data(&self, charge: &mut dyn Charge) -> Result<Vec<Operation>, Failure> {
        let statement = &self.section.statements[0];
        let at = (self.original)(statement.range.start);
        let long = LongData::new(
            (self.standard, statement.range.clone()),
            &self.section.prologue,
            self.base,
            charge,
        )?;
        let Some(long) = long else {
            let message = "the prologue is too long to be read again for each part of this data; declare shorter prefixes";
            return Err(syntax(self.text, at, message).into());
        };
        let long = Box::new(long);
        let action = match statement.data {
            Some(DataVerb::Delete) => {
                long.check::<GroundQuad>(charge)?;
                Action::DeleteData(Data::Long(long))
            }
            _ => {
                long.check::<Quad>(charge)?;
                Action::InsertData(Data::Long(long))
            }
        };
        Ok(vec![Operation {
            line: self.lines.borrow_mut().of_byte(at),
            base_iri: None,
            action,
        }])
    }

    /// Returns the error for a text that the parser and [`crate::statements`] read differently.
    fn mixed_up(&self, at: usize) -> SparqlError {
        let message = "the operations of this update cannot be separated; run them one at a time";
        syntax(self.text, at, message)
    }

    /// Finds the transfers from a graph to itself, for which the parser produces no operations.
    fn loops(&self, parts: usize) -> Result<Vec<bool>, SparqlError> {
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
    fn finish(&self, pattern: &mut GraphPattern, statement: &Statement) -> Result<(), Failure> {
        validate::finish(pattern)?;
        let range = (self.original)(statement.range.start)..(self.original)(statement.range.end);
        check_services(self.text, range, pattern)?;
        validate::endpoints::arrange(pattern);
        Ok(())
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
