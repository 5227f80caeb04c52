//! A modelled device under several clients, each of which reads, processes, and reads again.
//!
//! Reads in flight share the device evenly: with `n` of them, each advances by `1 / latency(n)` of a read in a
//! microsecond, so they complete in order of arrival. The clock advances from event to event; nothing is random or
//! rounded. Clients begin one after the other, spread over the time of a read and its processing: clients that begin
//! together would stay in step for ever, unlike real ones.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use pythia_io::DeviceModel;

use super::{Device, Measurement, Parameters};
use crate::latency::Latencies;

/// Uncounted reads of each client.
const WARM_UP_ROUNDS: usize = 20;

/// A read in flight.
struct InFlight {
    client: usize,
    /// The device's progress, in reads each, at which this read is done.
    done_at: f64,
    started_us: f64,
}

/// Microseconds that compare; they are never NaN.
#[derive(Clone, Copy, PartialEq)]
struct Time(f64);

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Simulates about `reads` reads.
pub fn run(device: Device, model: &DeviceModel, setting: Parameters, reads: u64) -> Measurement {
    let processing = setting.processing_us as f64;
    let bytes = setting.page_bytes as u64;
    let (mut now, mut progress) = (0.0, 0.0);
    let mut in_flight: VecDeque<InFlight> = VecDeque::new();
    // The time of each client's next read.
    let mut waiting: BinaryHeap<Reverse<(Time, usize)>> = BinaryHeap::new();
    let spread = (model.read_us(bytes, 1) + processing) / setting.clients as f64;
    let starts = (0..setting.clients).map(|client| Reverse((Time(client as f64 * spread), client)));
    waiting.extend(starts);
    let mut latencies = Latencies::default();
    let mut read_us = 0.0;
    // Not all clients are active until the first rounds are over.
    let mut early = WARM_UP_ROUNDS * setting.clients;
    let mut begun = 0.0;
    while latencies.count() < reads.max(setting.clients as u64) {
        let latency = model.read_us(bytes, in_flight.len() as u32);
        let completion = in_flight.front().map_or(f64::INFINITY, |read| {
            now + (read.done_at - progress) * latency
        });
        match waiting.peek() {
            Some(Reverse((due, client))) if due.0 <= completion => {
                let client = *client;
                progress += (due.0 - now) / latency;
                now = due.0;
                waiting.pop();
                in_flight.push_back(InFlight {
                    client,
                    done_at: progress + 1.0,
                    started_us: now,
                });
            }
            _ => {
                let done = in_flight.pop_front().expect("a client waits or reads");
                (now, progress) = (completion, done.done_at);
                if early > 0 {
                    early -= 1;
                    begun = now;
                } else {
                    let us = now - done.started_us;
                    read_us += us;
                    latencies.record(Duration::from_nanos((us * 1e3).round() as u64));
                }
                waiting.push(Reverse((Time(now + processing), done.client)));
            }
        }
    }
    let count = latencies.count() as f64;
    Measurement {
        device,
        setting,
        read: latencies.summary(),
        bandwidth_bytes: count * bytes as f64 * 1e6 / (now - begun),
        query_us: setting.path_length as f64 * (read_us / count + processing),
    }
}
