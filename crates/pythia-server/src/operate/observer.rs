//! Writes the access log, the log of slow queries and traces on a thread of its own, so that no request waits for
//! their readers.
//!
//! Events that come faster than they can be written are dropped and counted.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::record::Record;
use super::trace::Tracer;

/// Limit on requests that wait to be written.
const WAITING: usize = 8192;
/// Limit on the text of a slow query that is written, in bytes.
const TEXT_BYTES: usize = 4096;

/// Receives requests that have ended.
#[derive(Debug)]
pub(crate) struct Observer {
    /// `None` once the observer is dropped.
    sender: Option<SyncSender<EndedRequest>>,
    thread: Option<JoinHandle<()>>,
}

/// A request that has ended, and what to write about it.
pub(crate) struct EndedRequest {
    pub(crate) record: Arc<Record>,
    /// True if it goes into the access log.
    pub(crate) access: bool,
    /// True if it took longer than the limit for slow queries.
    pub(crate) slow: bool,
    /// True if its plan has warnings.
    pub(crate) warns: bool,
    pub(crate) tracer: Option<Arc<Tracer>>,
}

impl Observer {
    pub(crate) fn start() -> Self {
        let (sender, receiver) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("request log".to_owned());
        // Without a thread the channel is closed, and all events count as dropped.
        let thread = thread.spawn(move || write_all(&receiver)).ok();
        Self {
            sender: Some(sender),
            thread,
        }
    }

    /// Queues a request to be written. Returns false if the queue is full and the request is dropped.
    pub(crate) fn observe(&self, ended: EndedRequest) -> bool {
        let sender = self.sender.as_ref();
        sender.is_some_and(|sender| sender.try_send(ended).is_ok())
    }
}

/// Writes everything that is queued before it returns.
impl Drop for Observer {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn write_all(receiver: &Receiver<EndedRequest>) {
    for ended in receiver {
        let record = &ended.record;
        if ended.access {
            write_access(record);
        }
        if ended.slow {
            write_slow(record);
        }
        if ended.warns {
            write_warnings(record);
        }
        if let Some(tracer) = &ended.tracer {
            tracer.send(record);
        }
    }
}

fn write_access(record: &Record) {
    tracing::info!(
        target: "pythia::access",
        id = record.id.get().map(|id| &**id),
        client = %record.peer,
        user = record.user.get().map(|user| &**user),
        dataset = record.dataset.get().map(|dataset| &**dataset),
        operation = record.operation.get(),
        method = record.method.as_str(),
        // Without the query string, which may contain anything.
        path = record.uri.path(),
        status = record.status(),
        bytes = record.bytes(),
        rows = record.rows(),
        queued_ms = ms(record.queued()),
        run_ms = record.run().map(ms),
        total_ms = ms(record.total()),
        aborted = record.is_aborted().then_some(true),
        "request"
    );
}

fn write_slow(record: &Record) {
    let activity = record.activity.get();
    let plan = activity.and_then(|activity| activity.slow_plan());
    tracing::warn!(
        target: "pythia::slow",
        id = record.id.get().map(|id| &**id),
        client = %record.peer,
        user = record.user.get().map(|user| &**user),
        dataset = record.dataset.get().map(|dataset| &**dataset),
        operation = record.operation.get(),
        status = record.status(),
        rows = record.rows(),
        queued_ms = ms(record.queued()),
        prepare_ms = ms(record.prepared()),
        run_ms = record.run().map(ms),
        total_ms = ms(record.total()),
        text = activity.map(|activity| beginning(&activity.text)),
        plan = plan.as_deref(),
        "slow query"
    );
}

fn write_warnings(record: &Record) {
    let Some(activity) = record.activity.get() else {
        return;
    };
    for warning in activity.warnings() {
        tracing::warn!(
            target: "pythia::query",
            id = record.id.get().map(|id| &**id),
            client = %record.peer,
            user = record.user.get().map(|user| &**user),
            dataset = record.dataset.get().map(|dataset| &**dataset),
            text = beginning(&activity.text),
            "{warning}"
        );
    }
}

/// Returns milliseconds with three decimals.
fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES)]
}
