//! All paths from one start node, found by a sequence of searches.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use super::cost::Cost;
use super::depth_first::Walkers;
use super::frontier::{Course, Frontier, Limit, Priority, Space, Step};
use super::remaining::Remaining;
use crate::error::QueryError;
use crate::limits::governor::Held;
use crate::plan::path_search::Rules;
use pythia_sparql::path_search::{Mode, Restrictor};

/// The end nodes of paths.
#[derive(Clone, Debug)]
pub(crate) enum Ends {
    Any,
    /// These nodes, without duplicates.
    Some(Vec<u32>),
}

/// A search to run.
enum Task {
    /// Finds the cheapest walk to each end. Ends whose walk the restrictor forbids get a search of their own.
    Spread(Option<FxHashSet<u32>>),
    /// Finds only the reachable ends; each gets a search of its own.
    Reach,
    /// Finds all wanted paths to any end.
    Whole,
    /// Finds all wanted paths to one end.
    Pair(u32),
}

/// A running search.
struct Active {
    task: Task,
    walkers: Walkers,
    remaining: Option<Remaining>,
    quota: Quota,
    /// For each end, the number of paths found and the cost of the first.
    found: FxHashMap<u32, (u32, Cost)>,
}

/// The number of paths wanted for one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quota {
    First(u32),
    Cheapest,
    All,
}

/// The paths from one start node.
pub(crate) struct StartSearch {
    rules: Rules,
    start: u32,
    tasks: VecDeque<Task>,
    active: Option<Active>,
    held: Held,
}

impl StartSearch {
    pub(crate) fn new(rules: Rules, start: u32, ends: Ends, space: &Space) -> Self {
        let is_walk = rules.restrictor == Restrictor::Walk;
        let tasks = match (rules.mode, ends) {
            (Mode::AnyShortest, Ends::Any) => vec![Task::Spread(None)],
            (Mode::AnyShortest, Ends::Some(ends)) if ends.len() > 1 || !is_walk => {
                vec![Task::Spread(Some(ends.into_iter().collect()))]
            }
            (_, Ends::Some(ends)) => ends.into_iter().map(Task::Pair).collect(),
            (Mode::All, Ends::Any) => vec![Task::Whole],
            (_, Ends::Any) if is_walk => vec![Task::Whole],
            (_, Ends::Any) => vec![Task::Reach],
        };
        Self {
            rules,
            start,
            tasks: tasks.into(),
            active: None,
            held: Held::new(space.context.governor()),
        }
    }

    /// Returns the next path, step by step from the start. Paths to the same end are in order of cost, unless
    /// all are wanted.
    pub(crate) fn next(&mut self, space: &mut Space) -> Result<Option<Vec<Step>>, QueryError> {
        loop {
            let mut active = match self.active.take() {
                Some(active) => active,
                None => match self.tasks.pop_front() {
                    Some(task) => self.begin(task, space)?,
                    None => return Ok(None),
                },
            };
            let remaining = active.remaining.as_mut();
            let next = active.walkers.next(space, remaining)?;
            let Some(number) = next else {
                continue;
            };
            let step = *active.walkers.last().step(number);
            let is_path = space.product.accepts(step.state) && step.length >= self.rules.length_min;
            let found = is_path && active.accept(&step);
            let path = (found && !self.is_task(&active, step.node))
                .then(|| active.walkers.last().path(number))
                .filter(|path| self.check(&active, path));
            if !active.is_done() {
                let ends = active.found.capacity() * 48;
                self.held
                    .set(ends + self.tasks.capacity() * size_of::<Task>())?;
                self.active = Some(active);
            }
            if path.is_some() {
                return Ok(path);
            }
        }
    }

    /// Returns true if the end only starts another search, and queues that search.
    fn is_task(&mut self, active: &Active, end: u32) -> bool {
        let reached = matches!(active.task, Task::Reach);
        if reached {
            self.tasks.push_back(Task::Pair(end));
        }
        reached
    }

    /// Returns whether the restrictor allows a cheapest walk; if not, queues a search for its end.
    fn check(&mut self, active: &Active, path: &[Step]) -> bool {
        let passes = !matches!(active.task, Task::Spread(_)) || passes(self.rules.restrictor, path);
        if !passes {
            let end = path.last().expect("a path has a node").node;
            self.tasks.push_back(Task::Pair(end));
        }
        passes
    }

    fn begin(&self, task: Task, space: &mut Space) -> Result<Active, QueryError> {
        let rules = &self.rules;
        let (quota, walks) = match rules.mode {
            Mode::AnyShortest => (Quota::First(1), Limit::First(1)),
            Mode::Shortest(count) => (Quota::First(count), Limit::First(count)),
            Mode::AllShortest => (Quota::Cheapest, Limit::Cheapest),
            Mode::All => (Quota::All, Limit::All),
        };
        let (quota, limit, restrictor) = match task {
            Task::Spread(_) | Task::Reach => (Quota::First(1), Limit::First(1), Restrictor::Walk),
            Task::Whole | Task::Pair(_) => match rules.restrictor {
                Restrictor::Walk => (quota, walks, Restrictor::Walk),
                restrictor => (quota, Limit::All, restrictor),
            },
        };
        let mut course = Course::of(rules, limit, restrictor);
        let mut remaining = None;
        let target = match &task {
            Task::Pair(target) => Some(*target),
            Task::Spread(Some(ends)) if ends.len() == 1 => ends.iter().next().copied(),
            Task::Spread(_) | Task::Reach | Task::Whole => None,
        };
        if let Some(target) = target {
            if target == self.start && restrictor == Restrictor::Acyclic {
                // Only the empty path returns to its start without visiting a node twice.
                course.length_max = Some(0);
            }
            let length_max = course.length_max.filter(|_| !rules.weighted);
            let mut to_target = Remaining::new(target, length_max, space);
            if rules.mode == Mode::All {
                to_target.finish(space)?;
            }
            remaining = Some(to_target);
        }
        let mut walkers = 1;
        if rules.mode == Mode::All && rules.prioritized {
            course.priority = Priority::Greatest;
        } else if rules.mode == Mode::All {
            course.priority = Priority::Newest;
            walkers = space.batch_nodes;
        }
        let mut frontier = Frontier::new(course, space);
        frontier.start(self.start, 0);
        Ok(Active {
            task,
            walkers: Walkers::new(frontier, walkers),
            remaining,
            quota,
            found: FxHashMap::default(),
        })
    }
}

impl Active {
    /// Returns whether a path is wanted and within the quota.
    fn accept(&mut self, step: &Step) -> bool {
        let end = step.node;
        let is_wanted = match &self.task {
            Task::Pair(target) => end == *target,
            Task::Spread(Some(ends)) => ends.contains(&end),
            Task::Spread(None) | Task::Reach | Task::Whole => true,
        };
        if !is_wanted || self.quota == Quota::All {
            return is_wanted;
        }
        let (count, first) = self.found.entry(end).or_insert((0, step.cost));
        let accepted = match self.quota {
            Quota::First(most) => *count < most,
            Quota::Cheapest => step.cost == *first,
            Quota::All => true,
        };
        *count = count.saturating_add(u32::from(accepted));
        if self.quota == Quota::Cheapest && matches!(self.task, Task::Pair(_)) {
            self.walkers.last().end_beyond(*first);
        }
        accepted
    }

    /// Returns whether no more paths are wanted.
    fn is_done(&self) -> bool {
        let Quota::First(most) = self.quota else {
            return false;
        };
        let wanted = match &self.task {
            Task::Pair(_) => 1,
            Task::Spread(Some(ends)) => ends.len(),
            Task::Spread(None) | Task::Reach | Task::Whole => return false,
        };
        self.found.len() == wanted && self.found.values().all(|(count, _)| *count >= most)
    }
}

/// Returns whether a restrictor allows a path.
fn passes(restrictor: Restrictor, path: &[Step]) -> bool {
    let mut nodes = FxHashSet::default();
    let mut edges = FxHashSet::default();
    match restrictor {
        Restrictor::Walk => true,
        Restrictor::Acyclic => path.iter().all(|step| nodes.insert(step.node)),
        Restrictor::Simple => {
            let is_cycle = path.len() > 1 && path[0].node == path[path.len() - 1].node;
            let once = &path[usize::from(is_cycle)..];
            once.iter().all(|step| nodes.insert(step.node))
        }
        Restrictor::Trail => path
            .windows(2)
            .all(|pair| edges.insert(pair[1].taken(&pair[0]))),
    }
}
