//! The times of writes and erases.

use std::time::Duration;

/// The write speed of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteModel {
    /// Bytes of a write, and the microseconds that it takes on an idle device: one or more, ascending, with linear
    /// interpolation between two. A smaller write takes as long as the first; each byte beyond the last takes its time at
    /// the bandwidth.
    pub latencies: &'static [(u64, f32)],
    /// Bytes per second.
    pub bandwidth_bytes: u64,
    /// Least microseconds for which a write keeps the device busy, but never longer than it takes.
    pub busy_us: f32,
    /// Erases; `None` if the device erases on its own.
    pub erase: Option<EraseModel>,
    /// Writes that take longer.
    pub slow: Option<SlowWrites>,
}

/// Erases of a chip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EraseModel {
    /// Bytes that are erased at once.
    pub block_bytes: u64,
    /// Microseconds of an erase.
    pub us: f32,
}

/// Writes that take longer than the others, as when a device erases meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowWrites {
    /// Every `every`-th write of the device is slow; at least 1.
    pub every: u64,
    /// Writes by which the first slow one comes earlier: devices with other numbers are slow at other times.
    pub earlier: u64,
    /// Time of a slow write.
    pub time: Duration,
}

impl WriteModel {
    /// Returns the bytes of the smallest write.
    pub fn smallest_bytes(&self) -> u64 {
        self.latencies[0].0
    }

    /// Returns the time in microseconds of a write on an idle device.
    pub(super) fn write_us(&self, bytes: u64) -> f64 {
        let above = self
            .latencies
            .partition_point(|(known, _)| *known < bytes)
            .min(self.latencies.len() - 1);
        let (high, high_us) = self.latencies[above];
        let (low, low_us) = self.latencies[above.saturating_sub(1)];
        let part = bytes.clamp(low, high) - low;
        let share = part as f64 / (high - low).max(1) as f64;
        let known = if low == high {
            f64::from(high_us)
        } else {
            f64::from(low_us) + share * f64::from(high_us - low_us)
        };
        known + self.transfer_us(bytes.saturating_sub(high))
    }

    /// Returns the time in microseconds to erase the blocks that hold this many bytes.
    pub(super) fn erase_us(&self, bytes: u64) -> f64 {
        let us = |erase: EraseModel| bytes.div_ceil(erase.block_bytes) as f64 * f64::from(erase.us);
        self.erase.map_or(0.0, us)
    }

    /// Returns the time of a write on an idle device, by its number among all writes.
    pub(super) fn time(&self, bytes: u64, number: u64) -> Duration {
        match self.slow {
            Some(slow) if (number + slow.earlier).is_multiple_of(slow.every) => slow.time,
            _ => duration(self.write_us(bytes)),
        }
    }

    /// Returns the time for which a write keeps the device busy.
    pub(super) fn busy(&self, bytes: u64) -> Duration {
        let smallest = bytes.max(self.smallest_bytes());
        let busy_us = self.transfer_us(smallest).max(f64::from(self.busy_us));
        duration(busy_us.min(self.write_us(bytes)))
    }

    fn transfer_us(&self, bytes: u64) -> f64 {
        bytes as f64 * 1e6 / self.bandwidth_bytes.max(1) as f64
    }
}

fn duration(us: f64) -> Duration {
    Duration::from_nanos((us * 1e3).round() as u64)
}
