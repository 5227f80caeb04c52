//! Metrics as OpenMetrics text: counters, and values that are read from where they are kept.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use pythia::{ChangesReport, NextStep, Usage};

use super::{BOUNDS_US, Counts, Histogram, OPERATIONS, Process, STATUSES, ShedReason};
use crate::context::{Dataset, ServerContext};

/// The media type of OpenMetrics.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Renders all metrics of a server. Reads sizes of files, but no pages of stores.
pub(crate) fn render(context: &Arc<ServerContext>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ServerMetrics(Arc::clone(context))));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)
        .expect("a string takes any text");
    text
}

struct ServerMetrics(Arc<ServerContext>);

impl fmt::Debug for ServerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("All").finish_non_exhaustive()
    }
}

impl Collector for ServerMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = MetricsPage(encoder);
        page.requests(&self.0)?;
        page.server(&self.0)?;
        page.datasets(&self.0)?;
        page.process(&Process::read())
    }
}

/// A label's name and value.
type Label<'l> = (&'static str, &'l str);

struct MetricsPage<'e>(DescriptorEncoder<'e>);

impl MetricsPage<'_> {
    /// Writes one metric with all its values.
    fn family<'v, L: AsRef<[Label<'v>]>, T>(
        &mut self,
        (name, help): (&str, &str),
        kind: MetricType,
        values: impl IntoIterator<Item = (L, T)>,
        mut write: impl FnMut(&mut MetricEncoder<'_>, T) -> fmt::Result,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in values {
            let labels = labels.as_ref();
            match labels {
                [] => write(&mut metric, value)?,
                labels => write(&mut metric.encode_family(&labels)?, value)?,
            }
        }
        Ok(())
    }

    fn counters<'v, L: AsRef<[Label<'v>]>>(
        &mut self,
        what: (&str, &str),
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        self.family(what, MetricType::Counter, values, |metric, value| {
            metric.encode_counter::<NoLabelSet, _, f64>(&value, None)
        })
    }

    fn gauges<'v, L: AsRef<[Label<'v>]>>(
        &mut self,
        what: (&str, &str),
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        self.family(what, MetricType::Gauge, values, |metric, value| {
            metric.encode_gauge(&value)
        })
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.gauges((name, help), [([], value)])
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counters((name, help), [([], value)])
    }

    fn histograms<'v>(
        &mut self,
        what: (&str, &str),
        values: impl IntoIterator<Item = ([Label<'v>; 2], &'v Histogram)>,
    ) -> fmt::Result {
        self.family(what, MetricType::Histogram, values, |metric, histogram| {
            let (sum, buckets) = histogram.read();
            let count = buckets.iter().map(|(_, count)| count).sum();
            metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        })
    }

    /// Writes the metrics of requests.
    fn requests(&mut self, context: &ServerContext) -> fmt::Result {
        let metrics = &context.operations.metrics;
        let datasets = metrics.datasets.read().clone();
        let of_datasets = datasets.iter().map(|(name, counts)| (&**name, &**counts));
        let all: Vec<(&str, &Counts)> = of_datasets.chain([("", &metrics.server)]).collect();
        let used = || {
            all.iter().flat_map(|(dataset, counts)| {
                let operations = OPERATIONS.iter().zip(&counts.operations);
                let used = operations.filter(|(_, counts)| counts.total.is_used());
                used.map(|(name, counts)| ([("dataset", *dataset), ("operation", *name)], counts))
            })
        };
        let statuses = STATUSES.map(|status| status.to_string());
        let requests = used().flat_map(|([dataset, operation], counts)| {
            let counted = statuses.iter().zip(&counts.requests);
            let counted = counted.map(|(status, count)| (status.as_str(), count.load(Relaxed)));
            let counted = counted.filter(|(_, count)| *count > 0);
            counted.map(move |(status, count)| ([dataset, operation, ("status", status)], count))
        });
        self.counters(
            (
                "pythia_requests",
                "Requests answered, by operation and status",
            ),
            requests,
        )?;
        self.histograms(
            (
                "pythia_request_duration_seconds",
                "Time from the first byte of a request to the last of its answer",
            ),
            used().map(|(labels, counts)| (labels, &counts.total)),
        )?;
        let run = || used().filter(|(_, counts)| counts.run.is_used());
        self.histograms(
            (
                "pythia_queue_duration_seconds",
                "Time that requests waited for their turn",
            ),
            run().map(|(labels, counts)| (labels, &counts.queued)),
        )?;
        self.histograms(
            (
                "pythia_run_duration_seconds",
                "Time that requests ran; of updates, until their commit was durable",
            ),
            run().map(|(labels, counts)| (labels, &counts.run)),
        )?;
        self.counters(
            ("pythia_rows", "Results returned, and quads changed"),
            used().map(|(labels, counts)| (labels, counts.rows.load(Relaxed))),
        )?;
        self.counters(
            ("pythia_response_bytes", "Bytes of answers, as sent"),
            used().map(|(labels, counts)| (labels, counts.bytes.load(Relaxed))),
        )?;
        self.counters(
            (
                "pythia_responses_aborted",
                "Answers that were cut: the client went away, or the query failed",
            ),
            used().map(|(labels, counts)| (labels, counts.aborted.load(Relaxed))),
        )?;
        let unauthorized = STATUSES.binary_search(&401).expect("it is counted");
        let operations = all.iter().flat_map(|(_, counts)| &counts.operations);
        let failures = operations.map(|counts| counts.requests[unauthorized].load(Relaxed));
        self.counter(
            "pythia_auth_failures",
            "Requests refused with status 401",
            failures.sum(),
        )
    }

    /// Writes the metrics of the server as a whole.
    fn server(&mut self, context: &ServerContext) -> fmt::Result {
        let metrics = &context.operations.metrics;
        let shed = ShedReason::ALL.map(|reason| {
            let count = metrics.shed[reason as usize].load(Relaxed);
            ([("reason", reason.name())], count)
        });
        self.counters(
            ("pythia_requests_shed", "Requests refused before they ran"),
            shed,
        )?;
        let (running, waiting) = context.admission.load();
        self.gauge(
            "pythia_requests_running",
            "Queries and updates that are running",
            running as u64,
        )?;
        self.gauge(
            "pythia_requests_queued",
            "Queries and updates that wait for their turn",
            waiting as u64,
        )?;
        self.gauge(
            "pythia_answers_parked",
            "Answers that wait for their clients before they are computed further",
            context.admission.parked() as u64,
        )?;
        self.counter(
            "pythia_answers_given_up",
            "Answers that were cut because their clients read them too slowly",
            metrics.slow_readers.load(Relaxed),
        )?;
        self.counter(
            "pythia_connections",
            "Connections accepted",
            metrics.connections.load(Relaxed),
        )?;
        self.gauge(
            "pythia_connections_open",
            "Connections that are open",
            metrics.connections_open.load(Relaxed),
        )?;
        self.counter(
            "pythia_log_lines_lost",
            "Log lines dropped because too many were waiting",
            metrics.lines_lost.load(Relaxed),
        )?;
        self.gauge(
            "pythia_stopping",
            "1 once the server was asked to stop",
            u64::from(context.is_draining()),
        )?;
        self.gauges(
            ("pythia_build", "Version of the program, always 1"),
            [([("version", env!("CARGO_PKG_VERSION"))], 1)],
        )
    }

    /// Writes the metrics of the stores.
    fn datasets(&mut self, context: &ServerContext) -> fmt::Result {
        let datasets = context.datasets();
        let all: Vec<Sample> = datasets.by_name.values().map(Sample::of).collect();
        for (is_counter, what, value) in Sample::VALUES {
            let values = all
                .iter()
                .map(|s| ([("dataset", &*s.dataset.name)], value(s)));
            match is_counter {
                true => self.counters(*what, values)?,
                false => self.gauges(*what, values)?,
            }
        }
        let pages = |value: fn(&pythia::GroupCounters) -> u64| {
            all.iter().flat_map(move |sample| {
                let groups = sample.cache.groups.iter();
                groups.map(move |(file, counters)| {
                    let labels = [("dataset", &*sample.dataset.name), ("file", *file)];
                    (labels, value(counters))
                })
            })
        };
        self.counters(
            ("pythia_cache_hits", "Pages found in memory"),
            pages(|counters| counters.cache_hits),
        )?;
        self.counters(
            ("pythia_cache_misses", "Pages read from the device"),
            pages(|counters| counters.device_pages),
        )?;
        self.counters(
            ("pythia_device_read_bytes", "Bytes read from the device"),
            pages(|counters| counters.bytes),
        )
    }

    fn process(&mut self, process: &Process) -> fmt::Result {
        let seconds = process.cpu_seconds.map(|seconds| ([], seconds));
        self.family(
            ("process_cpu_seconds", "CPU time"),
            MetricType::Counter,
            seconds,
            |metric, value| metric.encode_counter::<NoLabelSet, _, f64>(&value, None),
        )?;
        let started = process.started.map(|started| ([], started));
        self.family(
            (
                "process_start_time_seconds",
                "Start time, in seconds since 1970",
            ),
            MetricType::Gauge,
            started,
            |metric, value| metric.encode_gauge(&value),
        )?;
        let numbers = [
            (
                "process_resident_memory_bytes",
                "Resident memory",
                process.resident_bytes,
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory",
                process.virtual_bytes,
            ),
            ("process_threads", "Threads", process.threads),
            (
                "process_open_fds",
                "Open files and connections",
                process.open_files,
            ),
            (
                "process_max_fds",
                "Limit on open files and connections",
                process.open_files_max,
            ),
        ];
        for (name, help, value) in numbers {
            self.gauges((name, help), value.map(|value| ([], value)))?;
        }
        Ok(())
    }
}

/// Values read from one dataset.
struct Sample {
    dataset: Arc<Dataset>,
    usage: Usage,
    cache: pythia::Counters,
    /// `None` if the log's files cannot be read.
    changes: Option<ChangesReport>,
    failing_tasks: u64,
    scrub_problems: u64,
    scrub_pages: u64,
}

/// True for a counter; name and help; function that gets the value.
type SampleValue = (bool, (&'static str, &'static str), fn(&Sample) -> u64);

impl Sample {
    const VALUES: &'static [SampleValue] = &[
        (false, ("pythia_quads", "Quads"), |s| {
            s.dataset.database.snapshot().statistics().quads
        }),
        (
            true,
            ("pythia_commits", "Commits since the store was loaded"),
            |s| s.dataset.database.store().position().0,
        ),
        (
            false,
            (
                "pythia_query_memory_bytes",
                "Memory that running queries hold",
            ),
            |s| s.usage.memory_bytes as u64,
        ),
        (
            false,
            (
                "pythia_query_memory_limit_bytes",
                "Limit on the memory of running queries",
            ),
            |s| s.dataset.config.memory_bytes as u64,
        ),
        (
            false,
            ("pythia_spill_bytes", "Bytes in temporary files"),
            |s| s.usage.spill_bytes,
        ),
        (
            true,
            ("pythia_spilled_bytes", "Bytes written to temporary files"),
            |s| s.usage.spilled_bytes,
        ),
        (
            false,
            ("pythia_cache_bytes", "Bytes of pages in memory"),
            |s| s.dataset.database.store().pool().bytes_in_use() as u64,
        ),
        (
            false,
            (
                "pythia_cache_limit_bytes",
                "Limit on the bytes of pages in memory",
            ),
            |s| s.dataset.config.cache_bytes as u64,
        ),
        (
            false,
            ("pythia_base_bytes", "Bytes of the base's files"),
            |s| s.change(|changes| changes.base_bytes),
        ),
        (
            false,
            (
                "pythia_changes_quads",
                "Quads added or removed since the base was written",
            ),
            |s| {
                s.change(|changes| {
                    let runs = changes.runs.iter().map(|run| run.added + run.removed);
                    changes.memory_changes + runs.sum::<u64>()
                })
            },
        ),
        (
            false,
            ("pythia_changes_memory_bytes", "Memory that changes use"),
            |s| s.change(|changes| changes.memory_bytes as u64),
        ),
        (
            false,
            ("pythia_changes_runs", "Runs of changes on the device"),
            |s| s.change(|changes| changes.runs.len() as u64),
        ),
        (
            false,
            ("pythia_log_bytes", "Bytes of the log's files"),
            |s| s.change(|changes| changes.log_bytes),
        ),
        (
            false,
            ("pythia_log_commits", "Commits that are only in the log"),
            |s| s.change(|changes| changes.log_commits),
        ),
        (
            false,
            (
                "pythia_maintenance_due",
                "1 if runs are due to be written or merged",
            ),
            |s| s.change(|changes| u64::from(changes.next != NextStep::Nothing)),
        ),
        (
            false,
            (
                "pythia_maintenance_failing",
                "Background tasks whose last attempt failed",
            ),
            |s| s.failing_tasks,
        ),
        (
            true,
            ("pythia_scrubbed_pages", "Pages read by the scrubber"),
            |s| s.scrub_pages,
        ),
        (false, ("pythia_bad_pages", "Bad pages found"), |s| {
            s.scrub_problems
        }),
    ];

    fn of(dataset: &Arc<Dataset>) -> Self {
        let database = &dataset.database;
        let options = dataset.config.maintenance();
        let scrubbed = database.store().scrubbed().unwrap_or_default();
        Self {
            dataset: Arc::clone(dataset),
            usage: database.usage(),
            cache: database.counters(),
            changes: ChangesReport::new(database.store(), &options).ok(),
            failing_tasks: database.store().failing_tasks().unwrap_or_default() as u64,
            scrub_problems: scrubbed.problems.len() as u64,
            scrub_pages: scrubbed.pages,
        }
    }

    fn change(&self, value: impl Fn(&ChangesReport) -> u64) -> u64 {
        self.changes.as_ref().map_or(0, value)
    }
}

impl Histogram {
    fn is_used(&self) -> bool {
        self.buckets.iter().any(|bucket| bucket.load(Relaxed) > 0)
    }

    /// Returns the sum in seconds, and the buckets with their bounds.
    fn read(&self) -> (f64, Vec<(f64, u64)>) {
        let bounds = BOUNDS_US.iter().map(|&us| us as f64 / 1e6);
        let bounds = bounds.chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|bucket| bucket.load(Relaxed));
        let sum = self.sum_us.load(Relaxed) as f64 / 1e6;
        (sum, bounds.zip(counts).collect())
    }
}
