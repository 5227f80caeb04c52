//! The parts of a group before ordering: triple patterns with their estimates, paths, operands and filters.

use std::ops::Range;
use std::sync::Arc;

use pythia_rdf::{TermId, TermKind};
use pythia_store::statistics::KindSet;
use pythia_store::{End, GraphFilter, Order, PredicateStatistics, QuadPattern, StoreError};

use pythia_exec::error::QueryError;
use pythia_exec::plan::counts::Counts;
use pythia_exec::plan::step::{PathStep, Position};

/// A term of a pattern before ordering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternTerm {
    Constant(TermId),
    Slot(usize),
}

/// A triple pattern before ordering.
#[derive(Clone, Debug)]
pub(crate) struct Triple {
    pub(crate) subject: PatternTerm,
    pub(crate) predicate: PatternTerm,
    pub(crate) object: PatternTerm,
    pub(crate) graph: PatternGraph,
    /// Number of quads that match its constants: exact, unless the query sees only some graphs and these are
    /// many.
    pub(crate) count: f64,
    pub(super) distinct_subjects: f64,
    pub(super) distinct_objects: f64,
    pub(super) distinct_predicates: f64,
    pub(super) object_kinds: Kinds,
    /// Ids to which filters restrict the subject or object, if the pattern is scanned.
    pub(crate) confined: Option<Confined>,
    /// Slots for which VALUES list terms, each with the number of matches that have one of these terms.
    pub(crate) listed: Vec<(usize, f64)>,
}

/// The graph of a pattern before ordering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternGraph {
    /// Graphs that have no triple in common, such as one graph.
    Filter(GraphFilter),
    /// A variable over the graphs that pass the filter.
    Slot(usize, GraphFilter),
}

/// A part of a group to be joined.
#[derive(Clone, Debug)]
pub(crate) enum Element {
    Triple(Triple),
    /// Its positions name only the slots; whether each is new or bound is decided when the path is placed.
    Path(PathStep),
    Operand(Operand),
}

/// An operand before ordering.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    /// Place among the operands of its group.
    pub(crate) place: usize,
    /// Slots that each solution binds, with the estimated number of distinct terms.
    pub(crate) slots: Vec<(usize, f64)>,
    pub(crate) inside: Inside,
}

#[derive(Clone, Debug)]
pub(crate) enum Inside {
    /// VALUES with this number of rows.
    Rows(f64),
    /// The branches that may have solutions.
    Branches(Vec<Branch>),
}

/// The parts of a branch that its estimate counts: triple patterns, paths and operands, but nothing that OPTIONAL adds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Branch {
    pub(crate) elements: Vec<Element>,
    pub(crate) filters: Vec<FilterHint>,
}

impl Branch {
    /// Returns the number of distinct terms that a slot can have.
    pub(crate) fn distinct(&self, slot: usize) -> f64 {
        let mut least = f64::MAX;
        for element in &self.elements {
            element.each_slot(|other, distinct| {
                if other == slot {
                    least = least.min(distinct);
                }
            });
        }
        least
    }
}

impl Element {
    /// Calls `each` with every slot that the element binds, and the number of distinct terms that it can have.
    pub(crate) fn each_slot(&self, mut each: impl FnMut(usize, f64)) {
        match self {
            Self::Triple(triple) => triple
                .slots()
                .for_each(|(slot, distinct)| each(slot, distinct)),
            Self::Path(path) => [path.subject, path.object]
                .into_iter()
                .filter_map(Position::slot)
                .for_each(|slot| each(slot, f64::MAX)),
            Self::Operand(operand) => operand
                .slots
                .iter()
                .for_each(|(slot, distinct)| each(*slot, *distinct)),
        }
    }

    /// Returns whether the element has at most one solution.
    pub(crate) fn is_single(&self) -> bool {
        match self {
            Self::Triple(triple) => triple.count <= 1.0,
            Self::Operand(operand) => matches!(operand.inside, Inside::Rows(rows) if rows <= 1.0),
            Self::Path(_) => false,
        }
    }
}

impl Triple {
    pub(crate) fn new(
        counts: Counts<'_>,
        [subject, predicate, object]: [PatternTerm; 3],
        graph: PatternGraph,
        count: impl FnOnce(&QuadPattern) -> Result<f64, StoreError>,
    ) -> Result<Self, QueryError> {
        let pattern = constants(subject, predicate, object, graph);
        let count = count(&pattern)?;
        if count == 0.0 {
            // The pattern is not read then.
            counts.depend_on(&pattern);
        }
        let mut object_kinds = Kinds::ANY;
        let (subjects, objects) = match pattern.predicate {
            Some(predicate) => match counts.predicate(predicate)? {
                Some(p) => {
                    object_kinds = Kinds::of_objects(&p);
                    (p.subjects as f64, p.objects as f64)
                }
                None => (0.0, 0.0),
            },
            None => {
                let (_, subjects, objects) = counts.all();
                (subjects, objects)
            }
        };
        Ok(Self {
            subject,
            predicate,
            object,
            graph,
            count,
            distinct_subjects: subjects.min(count).max(1.0),
            distinct_objects: objects.min(count).max(1.0),
            confined: None,
            listed: Vec::new(),
            object_kinds,
            distinct_predicates: counts.predicates().min(count).max(1.0),
        })
    }

    /// Returns the pattern of the quads that match its constants.
    pub(super) fn constants(&self) -> QuadPattern {
        constants(self.subject, self.predicate, self.object, self.graph)
    }

    /// Returns the share of the matches that pass the filters over this one slot, if it was counted.
    pub(crate) fn share_of(&self, slots: &[usize]) -> Option<f64> {
        let confined = self.confined.as_ref()?;
        let end = match confined.end {
            End::Subject => self.subject,
            End::Object => self.object,
        };
        let is_its = matches!((end, slots), (PatternTerm::Slot(slot), [only]) if slot == *only);
        is_its.then(|| (confined.count / self.count).clamp(1e-9, 1.0))
    }

    /// Returns the ids to which a scan in this order is restricted, unless they are those of all matches of its predicate.
    pub(crate) fn ranges_in(&self, order: Order) -> Option<&Confined> {
        let confined = self.confined.as_ref()?;
        let is_all =
            matches!(self.predicate, PatternTerm::Constant(_)) && confined.count >= self.count;
        (confined.is_read_by(order) && !is_all).then_some(confined)
    }

    /// Returns the share of the matches that VALUES for a slot keep, and the number of the slot's distinct terms.
    pub(crate) fn share_listed(&self, slot: usize) -> Option<(f64, f64)> {
        let (_, count) = self.listed.iter().find(|(listed, _)| *listed == slot)?;
        let (_, distinct) = self.slots().find(|(other, _)| *other == slot)?;
        Some(((count / self.count).clamp(1e-9, 1.0), distinct))
    }

    /// Returns the variables, each with the number of distinct terms that it can have.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (usize, f64)> {
        [
            (self.subject, self.distinct_subjects),
            (self.predicate, self.distinct_predicates),
            (self.object, self.distinct_objects),
        ]
        .into_iter()
        .filter_map(|(place, distinct)| match place {
            PatternTerm::Slot(slot) => Some((slot, distinct)),
            PatternTerm::Constant(_) => None,
        })
    }

    /// Returns whether its subject or its object is a constant.
    pub(super) fn has_constant_end(&self) -> bool {
        let is_constant = |place: PatternTerm| matches!(place, PatternTerm::Constant(_));
        is_constant(self.subject) || is_constant(self.object)
    }
}

/// Returns the pattern of the quads that match the constants among these.
fn constants(
    subject: PatternTerm,
    predicate: PatternTerm,
    object: PatternTerm,
    graph: PatternGraph,
) -> QuadPattern {
    let constant = |place: PatternTerm| match place {
        PatternTerm::Constant(id) => Some(id),
        PatternTerm::Slot(_) => None,
    };
    QuadPattern {
        subject: constant(subject),
        predicate: constant(predicate),
        object: constant(object),
        graph: match graph {
            PatternGraph::Filter(filter) | PatternGraph::Slot(_, filter) => filter,
        },
    }
}

/// Properties of a group's filter that the join order uses.
#[derive(Clone, Debug)]
pub(crate) struct FilterHint {
    /// Slots that the filter reads.
    pub(crate) slots: Vec<usize>,
    /// Share of solutions that pass.
    pub(crate) share: f64,
    /// Cost of testing a solution, in microseconds.
    pub(crate) cost: f64,
}

/// Ids to which a scan of a pattern restricts its subjects or objects.
#[derive(Clone, Debug)]
pub(crate) struct Confined {
    pub(crate) end: End,
    pub(crate) ids: Arc<[Range<u64>]>,
    /// Matches within the ranges.
    pub(crate) count: f64,
}

impl Confined {
    /// Returns whether a scan in this order can seek to the ids.
    pub(crate) fn is_read_by(&self, order: Order) -> bool {
        order
            == match self.end {
                End::Subject => Order::Pso,
                End::Object => Order::Pos,
            }
    }
}

/// Kinds of the terms that a variable is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kinds {
    pub(crate) set: KindSet,
    /// The predicate whose objects they are, if that is how they are known.
    pub(crate) predicate: Option<TermId>,
}

impl Kinds {
    pub(crate) const ANY: Self = Self {
        set: KindSet(u128::MAX),
        predicate: None,
    };
    pub(crate) const RESOURCES: Self = Self {
        set: KindSet(1 << TermKind::Iri as u32 | 1 << TermKind::BlankNode as u32),
        predicate: None,
    };

    /// Returns the kinds of a predicate's objects.
    pub(crate) fn of_objects(statistics: &PredicateStatistics) -> Self {
        Self {
            set: statistics.object_kinds,
            predicate: Some(statistics.predicate),
        }
    }

    pub(crate) fn count(self) -> u32 {
        self.set.0.count_ones()
    }
}
