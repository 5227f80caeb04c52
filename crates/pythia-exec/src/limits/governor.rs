//! Limits of one query: time, memory, and space for spilled rows.
//!
//! The planner, expressions and operators all ask the [`Governor`]. Memory comes from the [`MemoryBudget`] of
//! the query, which is part of the budget of the process. Both are hard limits: a failed reservation is an error,
//! or makes an operator spill its rows. Operators that spill hold a [`Share`], an equal part of the query's
//! budget, so that the first operator of a plan does not starve the later ones.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use pythia_sparql::{Charge, SparqlError};
use pythia_store::Room;

use crate::error::QueryError;
use crate::limits::cores::{Cores, is_helper};
use crate::limits::spill::SpillSpace;

/// Minimum and maximum size of the blocks in which temporary files are written and read, in bytes.
const BLOCK_BYTES: (usize, usize) = (1 << 10, 256 << 10);

/// Number of partitions into which rows are spilled. Two levels of them divide rows into 256 parts.
pub(super) const PARTITIONS: usize = 16;

/// Number of blocks that an operator has in memory at once.
const BUFFERS: usize = PARTITIONS + 2;

/// A count of held bytes with a limit; part of a larger budget if it has a parent.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: usize,
    used: AtomicUsize,
    parent: Option<Arc<MemoryBudget>>,
}

impl MemoryBudget {
    /// Creates a budget of this many bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            used: AtomicUsize::new(0),
            parent: None,
        }
    }

    /// Creates a budget whose bytes also count in this one.
    fn child(self: &Arc<Self>, limit: usize) -> Self {
        Self {
            limit: limit.min(self.limit),
            used: AtomicUsize::new(0),
            parent: Some(Arc::clone(self)),
        }
    }

    /// Returns the bytes held.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Reserves bytes here and in every parent; reserves nothing and returns false if one of them is full.
    fn try_grow(&self, bytes: usize) -> bool {
        let room = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
        if taken.is_err() {
            return false;
        }
        if self.parent.as_ref().is_some_and(|p| !p.try_grow(bytes)) {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        true
    }

    fn shrink(&self, bytes: usize) {
        let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(before >= bytes, "gives back no more than was taken");
        if let Some(parent) = &self.parent {
            parent.shrink(bytes);
        }
    }
}

/// An action that a query takes once, on its own thread, when it has run until a time. A server serves its connections from
/// another thread then.
pub struct Overstay {
    at: Instant,
    is_due: AtomicBool,
    action: Box<dyn Fn() + Send + Sync>,
}

impl Overstay {
    /// Creates an action for the first check after `at`.
    pub fn new(at: Instant, action: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            at,
            is_due: AtomicBool::new(true),
            action: Box::new(action),
        }
    }

    /// Takes the action now, unless it was taken. Helpers do not take it.
    pub fn act(&self) {
        if is_helper() {
            return;
        }
        if self.is_due.swap(false, Ordering::Relaxed) {
            (self.action)();
        }
    }
}

impl fmt::Debug for Overstay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overstay")
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

/// The limits of one query.
#[derive(Debug)]
pub struct Governor {
    cancelled: Arc<AtomicBool>,
    deadline: Option<Instant>,
    overstay: Option<Arc<Overstay>>,
    memory: MemoryBudget,
    /// Number of live [`Share`]s.
    shares: AtomicUsize,
    spill: Arc<SpillSpace>,
    cores: Arc<Cores>,
    /// Bytes held by the query's batches.
    working: Mutex<WorkingTotal>,
    /// A count of checks with a limit, for tests of deadlines without a clock.
    checks: Option<Checks>,
}

impl Governor {
    /// Creates the limits of a query that takes its memory from `process`.
    pub fn new(
        cancelled: Arc<AtomicBool>,
        deadline: Option<Instant>,
        process: &Arc<MemoryBudget>,
        memory_bytes: usize,
        spill: Arc<SpillSpace>,
    ) -> Self {
        Self {
            cancelled,
            deadline,
            overstay: None,
            memory: process.child(memory_bytes),
            shares: AtomicUsize::new(0),
            spill,
            cores: Cores::one(),
            working: Mutex::default(),
            checks: None,
        }
    }

    /// Adds an action for when the query runs long.
    #[must_use]
    pub fn with_overstay(mut self, overstay: Option<Arc<Overstay>>) -> Self {
        self.overstay = overstay;
        self
    }

    /// Lets the query use these cores, instead of one alone.
    #[must_use]
    pub fn with_cores(mut self, cores: &Arc<Cores>) -> Self {
        self.cores = Arc::clone(cores);
        self
    }

    /// Creates a governor without limits, for expressions outside a query.
    pub fn unlimited() -> Self {
        Self::new(
            Arc::default(),
            None,
            &Arc::new(MemoryBudget::new(usize::MAX)),
            usize::MAX,
            Arc::default(),
        )
    }

    /// Returns an error once the query is cancelled or past its deadline. Cheap enough to call every thousand
    /// rows.
    pub fn check(&self) -> Result<(), QueryError> {
        if let Some(checks) = &self.checks {
            checks.add(&self.cancelled);
        }
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(QueryError::Cancelled);
        }
        if self.deadline.is_none() && self.overstay.is_none() {
            return Ok(());
        }
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return Err(QueryError::Timeout);
        }
        if let Some(overstay) = self.overstay.as_ref().filter(|overstay| now >= overstay.at) {
            overstay.act();
        }
        Ok(())
    }

    /// Returns the time at which the query must end.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Reserves memory in the query's budget.
    pub fn reserve(&self, bytes: usize) -> Result<(), QueryError> {
        if self.memory.try_grow(bytes) {
            return Ok(());
        }
        Err(QueryError::Memory(format!(
            "{} more requested, {} of {} in use",
            kibibytes(bytes),
            kibibytes(self.memory.used()),
            kibibytes(self.memory.limit),
        )))
    }

    /// Returns an error if this many bytes cannot be reserved now. Reserves nothing.
    pub fn require_room(&self, bytes: usize) -> Result<(), QueryError> {
        self.reserve(bytes)?;
        self.release(bytes);
        Ok(())
    }

    /// Returns the bytes that the query could still reserve.
    pub fn memory_left(&self) -> usize {
        let mut left = usize::MAX;
        let mut budget = Some(&self.memory);
        while let Some(current) = budget {
            left = left.min(current.limit.saturating_sub(current.used()));
            budget = current.parent.as_deref();
        }
        left
    }

    /// Returns the maximum length of a text under construction. Growing the buffer copies it into one of
    /// twice its length, and the term is another copy: up to four copies exist at once.
    pub fn text_bytes_max(&self) -> usize {
        self.memory_left() / 4
    }

    /// Releases memory reserved with [`Self::reserve`].
    pub fn release(&self, bytes: usize) {
        self.memory.shrink(bytes);
    }

    /// Returns the bytes that the query holds now.
    #[cfg(test)]
    pub fn memory_used(&self) -> usize {
        self.memory.used()
    }

    /// Returns the cores that the query may use.
    pub fn cores(&self) -> &Arc<Cores> {
        &self.cores
    }

    /// Returns the space for spilled rows.
    pub fn spill(&self) -> &Arc<SpillSpace> {
        &self.spill
    }
}

impl Room for Governor {
    fn require(&self, bytes: usize) -> Result<(), String> {
        self.require_room(bytes).map_err(QueryError::into_request)
    }
}

/// Returns the remaining memory of the query to the process.
impl Drop for Governor {
    fn drop(&mut self) {
        self.memory.shrink(self.memory.used());
    }
}

fn kibibytes(bytes: usize) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}

/// Memory held by one part of a query, released on drop.
#[derive(Debug)]
pub struct Held {
    governor: Arc<Governor>,
    bytes: usize,
}

impl Held {
    /// Creates an empty reservation within the limits of a query.
    pub fn new(governor: &Arc<Governor>) -> Self {
        Self {
            governor: Arc::clone(governor),
            bytes: 0,
        }
    }

    /// Grows or shrinks the held memory to this many bytes; returns an error if it cannot grow.
    pub fn set(&mut self, bytes: usize) -> Result<(), QueryError> {
        if bytes > self.bytes {
            self.governor.reserve(bytes - self.bytes)?;
        } else {
            self.governor.release(self.bytes - bytes);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Grows the held memory by this many bytes.
    pub fn add(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.set(self.bytes.saturating_add(bytes))
    }

    /// Returns the bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Fails once the query has to end.
    pub fn check(&self) -> Result<(), QueryError> {
        self.governor.check()
    }

    /// Returns the bytes that could still be reserved.
    pub fn left(&self) -> usize {
        self.governor.memory_left()
    }
}

impl Charge for Held {
    fn check(&self) -> Result<(), SparqlError> {
        self.governor.check().map_err(limit_error)
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn set(&mut self, bytes: usize) -> Result<(), SparqlError> {
        Held::set(self, bytes).map_err(limit_error)
    }

    fn left(&self) -> usize {
        Held::left(self)
    }
}

/// Converts the error of a limit into one of parsing.
fn limit_error(error: QueryError) -> SparqlError {
    match error {
        QueryError::Cancelled => SparqlError::Cancelled,
        QueryError::Timeout => SparqlError::Timeout,
        QueryError::Memory(message) => SparqlError::Memory(message),
        other => unreachable!("not an error of a limit: {other}"),
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.governor.release(self.bytes);
    }
}

/// Memory that lasts for one batch: the batch itself, lists read for it, decoded texts. The first
/// [`WORKING_BYTES`] of a query are free, so that a small budget remains for long-lived data.
#[derive(Debug)]
pub struct Working {
    governor: Arc<Governor>,
    bytes: usize,
}

/// Bytes that the batches of a query may hold without being charged.
const WORKING_BYTES: usize = 2 << 20;

/// Minimum and maximum bytes of a batch.
const BATCH_BYTES: (usize, usize) = (32 << 10, 2 << 20);

/// A batch gets one of this many parts of the memory left.
const BATCH_SHARE: usize = 32;

/// Maximum rows of a batch.
const BATCH_ROWS_MAX: usize = 1 << 16;

/// Memory held by all batches of a query.
#[derive(Debug, Default)]
struct WorkingTotal {
    bytes: usize,
    /// Bytes of it that were reserved in the query's budget.
    charged: usize,
}

impl Working {
    /// Creates an empty reservation within the limits of a query.
    pub fn new(governor: &Arc<Governor>) -> Self {
        Self {
            governor: Arc::clone(governor),
            bytes: 0,
        }
    }

    /// Grows or shrinks the memory to this many bytes; returns an error if it cannot grow.
    pub fn set(&mut self, bytes: usize) -> Result<(), QueryError> {
        if bytes == self.bytes {
            return Ok(());
        }
        self.governor.work(self.bytes, bytes)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Grows the memory by this many bytes.
    pub fn add(&mut self, bytes: usize) -> Result<(), QueryError> {
        self.set(self.bytes.saturating_add(bytes))
    }

    /// Releases all memory.
    pub fn clear(&mut self) {
        let less = self.governor.work(self.bytes, 0);
        debug_assert!(less.is_ok(), "less can be had at any time");
        self.bytes = 0;
    }

    /// Returns the bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Governor {
    /// Changes the memory of one batch.
    fn work(&self, before: usize, after: usize) -> Result<(), QueryError> {
        let mut total = self.working.lock();
        let bytes = (total.bytes - before).saturating_add(after);
        let charged = bytes.saturating_sub(WORKING_BYTES);
        if charged > total.charged {
            self.reserve(charged - total.charged)?;
        } else {
            self.release(total.charged - charged);
        }
        *total = WorkingTotal { bytes, charged };
        Ok(())
    }

    /// Returns the rows that a batch of this many columns may have: a power of two, so that batches that get
    /// shorter from step to step leave no small remainders.
    pub fn batch_rows(&self, columns: usize) -> usize {
        let (least, most) = BATCH_BYTES;
        let bytes = (self.memory_left() / BATCH_SHARE).clamp(least, most);
        let rows = (bytes / (columns.max(1) * size_of::<u64>())).max(1);
        (1 << rows.ilog2()).min(BATCH_ROWS_MAX)
    }
}

/// Memory of one operator that can spill, or of one of its parts.
///
/// Most shares are created when a plan starts, before any row flows, so each share knows their number. Those of sets of DISTINCT
/// come with the first solutions.
#[derive(Debug)]
pub struct Share {
    held: Held,
    operator: Arc<OperatorMemory>,
    /// Number of parts of the operator that each have a fixed part of its limit, and files of their own.
    writers: usize,
}

/// The memory that all parts of an operator hold.
#[derive(Debug)]
struct OperatorMemory {
    governor: Arc<Governor>,
    bytes: AtomicUsize,
}

impl Share {
    /// Adds a share to those of a query.
    pub fn new(governor: &Arc<Governor>) -> Self {
        governor.shares.fetch_add(1, Ordering::Relaxed);
        let operator = OperatorMemory {
            governor: Arc::clone(governor),
            bytes: AtomicUsize::new(0),
        };
        Self {
            held: Held::new(governor),
            operator: Arc::new(operator),
            writers: 1,
        }
    }

    /// Returns a reservation of its own within the limits of this share, for a part of the operator that another thread may
    /// work on.
    pub fn part(&self) -> Self {
        Self {
            held: Held::new(self.governor()),
            operator: Arc::clone(&self.operator),
            writers: self.writers,
        }
    }

    /// Returns a reservation for one of `writers` parts, each of which may hold as much as any other and writes files of its
    /// own. What a part holds does not depend on the others, and so not on the speed of threads. All their buffers together
    /// take a quarter of the share at most.
    pub fn writer(&self, writers: usize) -> Self {
        let mut part = self.part();
        part.writers = writers;
        part
    }

    /// Returns the limits of the query.
    pub fn governor(&self) -> &Arc<Governor> {
        &self.held.governor
    }

    /// Returns the bytes that the operator may hold: three quarters of the query's budget, divided by the
    /// number of shares. The rest is for data that cannot be spilled: computed terms, paths.
    pub fn limit(&self) -> usize {
        let governor = self.governor();
        governor.memory.limit / 4 * 3 / governor.shares.load(Ordering::Relaxed).max(1)
    }

    /// Returns the bytes for rows and tables; the rest of the share is for file buffers.
    pub fn rows_limit(&self) -> usize {
        self.limit()
            .saturating_sub(self.writers * self.buffer_bytes())
    }

    /// Returns the size of a file's blocks: the blocks of all partitions and those being read and written
    /// take a quarter of the share together.
    pub fn block_bytes(&self) -> usize {
        let fitting = self.limit() / 4 / BUFFERS / self.writers;
        fitting.clamp(BLOCK_BYTES.0, BLOCK_BYTES.1)
    }

    /// Returns the bytes of the buffers while rows are distributed over the partitions.
    pub fn buffer_bytes(&self) -> usize {
        BUFFERS * self.block_bytes()
    }

    /// Resizes the held memory if rows and tables may take this many bytes; otherwise changes nothing and
    /// returns false.
    pub fn fits(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.held.bytes) else {
            return true;
        };
        let limit = self.rows_limit();
        let is_apart = self.writers > 1;
        if is_apart && bytes > limit / self.writers {
            return false;
        }
        let room = |all: usize| {
            let sum = all.checked_add(more);
            sum.filter(|sum| is_apart || *sum <= limit)
        };
        let all = &self.operator.bytes;
        let taken = all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
        if taken.is_err() {
            return more == 0;
        }
        let has_memory = self.held.set(bytes).is_ok();
        if !has_memory {
            all.fetch_sub(more, Ordering::Relaxed);
        }
        has_memory
    }

    /// Resizes the held memory; returns an error if it cannot grow.
    pub fn require(&mut self, bytes: usize) -> Result<(), QueryError> {
        let before = self.held.bytes;
        self.held.set(bytes)?;
        // Wraps around if it shrinks.
        let more = bytes.wrapping_sub(before);
        self.operator.bytes.fetch_add(more, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the bytes held.
    pub fn bytes(&self) -> usize {
        self.held.bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let held = self.held.bytes;
        self.operator.bytes.fetch_sub(held, Ordering::Relaxed);
    }
}

impl Drop for OperatorMemory {
    fn drop(&mut self) {
        self.governor.shares.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A number of deadline checks, and the most before the query is cancelled.
#[derive(Debug)]
struct Checks {
    count: AtomicU64,
    max: u64,
}

impl Checks {
    fn add(&self, cancelled: &AtomicBool) {
        if self.count.fetch_add(1, Ordering::Relaxed) >= self.max {
            cancelled.store(true, Ordering::Relaxed);
        }
    }
}

impl Governor {
    /// Cancels the query at the first deadline check after `max`, so that a test can stop it at any point
    /// whatever the speed of the machine.
    #[must_use]
    pub fn with_checks_max(mut self, max: u64) -> Self {
        let count = AtomicU64::new(0);
        self.checks = Some(Checks { count, max });
        self
    }

    /// Returns the number of deadline checks, if they are limited; otherwise 0.
    pub fn checks(&self) -> u64 {
        let checks = self.checks.as_ref();
        checks.map_or(0, |checks| checks.count.load(Ordering::Relaxed))
    }

    /// Creates a governor that limits only the memory.
    #[cfg(test)]
    pub(crate) fn with_memory(bytes: usize) -> Self {
        let process = Arc::new(MemoryBudget::new(bytes));
        Self::new(Arc::default(), None, &process, bytes, Arc::default())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_action_for_long_queries_is_taken_once_when_it_is_due() {
        let taken = Arc::new(AtomicUsize::new(0));
        let governor = |at: Instant| {
            let taken = Arc::clone(&taken);
            let action = move || {
                taken.fetch_add(1, Ordering::Relaxed);
            };
            Governor::unlimited().with_overstay(Some(Arc::new(Overstay::new(at, action))))
        };
        let later = governor(Instant::now() + Duration::from_secs(3600));
        later.check().unwrap();
        assert_eq!(taken.load(Ordering::Relaxed), 0);
        let due = governor(Instant::now());
        due.check().unwrap();
        due.check().unwrap();
        assert_eq!(taken.load(Ordering::Relaxed), 1);
    }

    fn governor(process: &Arc<MemoryBudget>, limit: usize) -> Arc<Governor> {
        Arc::new(Governor::new(
            Arc::default(),
            None,
            process,
            limit,
            Arc::default(),
        ))
    }

    #[test]
    fn budgets_nest_and_everything_goes_back() {
        let process = Arc::new(MemoryBudget::new(100));
        let (a, b) = (governor(&process, 80), governor(&process, 80));
        a.reserve(70).unwrap();
        assert!(matches!(a.reserve(20), Err(QueryError::Memory(_))));
        assert!(matches!(b.reserve(40), Err(QueryError::Memory(_))));
        assert_eq!(process.used(), 70);
        drop(a);
        b.reserve(40).unwrap();
        drop(b);
        assert_eq!(process.used(), 0);
    }

    #[test]
    fn the_parts_of_a_share_have_its_limit_together() {
        let governor = governor(&Arc::new(MemoryBudget::new(1_000_000)), 800_000);
        let whole = Share::new(&governor);
        let (mut a, mut b) = (whole.part(), whole.part());
        let other = Share::new(&governor);
        let limit = whole.rows_limit();
        assert_eq!((a.limit(), other.limit()), (300_000, 300_000));
        assert!(a.fits(limit / 2) && b.fits(limit / 2));
        assert!(!a.fits(limit / 2 + 2), "both together");
        a.require(limit / 4).unwrap();
        assert!(b.fits(limit / 4 * 3) && b.fits(100) && !b.fits(limit));
        drop(b);
        assert!(a.fits(limit) && a.bytes() == limit);
        drop((whole, a));
        assert_eq!((other.limit(), governor.memory_used()), (600_000, 0));
    }

    #[test]
    fn the_buffers_of_all_writers_take_a_quarter_of_the_share() {
        let process = Arc::new(MemoryBudget::new(64 << 20));
        let whole = Share::new(&governor(&process, 64 << 20));
        let writer = whole.writer(16);
        let buffers = 16 * writer.buffer_bytes();
        let quarter = whole.limit() / 4;
        assert!((quarter / 2..=quarter).contains(&buffers), "{buffers}");
        assert_eq!(writer.rows_limit(), whole.limit() - buffers);
        assert_eq!(writer.part().rows_limit(), writer.rows_limit());
        let (mut one, mut other) = (whole.writer(16), whole.writer(16));
        let each = writer.rows_limit() / 16;
        assert!(one.fits(each) && !one.fits(each + 1));
        assert!(other.fits(each));
    }

    #[test]
    fn shares_divide_the_budget_among_those_that_are_there() {
        let process = Arc::new(MemoryBudget::new(1_000_000));
        let governor = governor(&process, 800_000);
        let mut a = Share::new(&governor);
        let b = Share::new(&governor);
        assert_eq!(a.limit(), 300_000);
        assert!(a.fits(225_000));
        assert!(!a.fits(226_000));
        drop(b);
        assert!(a.fits(450_000));
        drop(a);
        assert_eq!((governor.memory_used(), process.used()), (0, 0));
    }
}
