//! The threads that serve connections.
//!
//! Each is a runtime of its own with one thread, and a connection stays with its worker. Threads of one runtime wake each
//! other for nearly every request, to share work that is done before the other thread is awake.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::admission::PARKED_MAX;

/// The workers, one for each core.
pub(crate) struct Workers(Vec<Worker>);

struct Worker {
    runtime: Runtime,
    /// Number of connections that it serves.
    connections: Arc<AtomicUsize>,
}

/// A connection in the count of its worker.
struct Counted(Arc<AtomicUsize>);

impl Workers {
    /// Starts the workers of a server that runs up to `running` requests at once.
    pub(crate) fn start(running: usize) -> io::Result<Self> {
        let worker = |_| {
            Ok(Worker {
                runtime: runtime(running)?,
                connections: Arc::default(),
            })
        };
        Ok(Self((0..number()).map(worker).collect::<io::Result<_>>()?))
    }

    /// Serves a connection by the worker that has the fewest.
    pub(crate) fn serve(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let count = |worker: &&Worker| worker.connections.load(Ordering::Relaxed);
        let worker = self.0.iter().min_by_key(count).expect("there is a core");
        worker.connections.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(Arc::clone(&worker.connections));
        worker.runtime.spawn(async move {
            connection.await;
            drop(counted);
        });
    }

    /// Ends the workers. Their threads have some time to end, or none.
    pub(crate) fn shutdown(self, time: Option<Duration>) {
        for Worker { runtime, .. } in self.0 {
            match time {
                Some(time) => runtime.shutdown_timeout(time),
                None => runtime.shutdown_background(),
            }
        }
    }
}

/// Returns the number of workers.
pub(crate) fn number() -> usize {
    static CORES: LazyLock<usize> =
        LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
    *CORES
}

/// Makes a runtime with one thread for tasks. It gets another one if the first runs a long query.
pub(crate) fn runtime(running: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        // Threads that compute, that wait for readers, and that do other short work.
        .max_blocking_threads(running + PARKED_MAX + 64)
        // Deeply nested queries are planned by recursion.
        .thread_stack_size(16 << 20)
        .thread_name("pythia")
        .build()
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
