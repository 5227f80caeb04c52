//! Resource usage of this process on Linux.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// Ticks per second in `/proc`: fixed for programs (proc(5), `USER_HZ`).
const TICKS: f64 = 100.0;

/// Resource usage of this process. Values that the system does not provide are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Process {
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) virtual_bytes: Option<u64>,
    pub(crate) threads: Option<u64>,
    pub(crate) open_files: Option<u64>,
    pub(crate) open_files_max: Option<u64>,
    /// Seconds since 1970.
    pub(crate) started: Option<f64>,
}

impl Process {
    pub(crate) fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        // Fields after the program's name, which is in parentheses and may contain anything.
        let after = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = after.split_whitespace().collect();
        // Field numbers as in proc(5); the first of these is 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let ticks = field(14).zip(field(15)).map(|(user, system)| user + system);
        Self {
            cpu_seconds: ticks.map(|ticks| ticks / TICKS),
            resident_bytes: value_of(&status, "VmRSS:").map(|kib| kib << 10),
            virtual_bytes: value_of(&status, "VmSize:").map(|kib| kib << 10),
            threads: value_of(&status, "Threads:"),
            open_files: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|files| files.count() as u64),
            open_files_max: value_of(&limits, "Max open files"),
            started: field(22).and_then(started),
        }
    }
}

/// Returns the number after a name at the beginning of a line.
fn value_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns when the process started, given the ticks from boot to its start, in seconds since 1970.
fn started(ticks: f64) -> Option<f64> {
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(now.as_secs_f64() - uptime + ticks / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let process = Process::read();
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert!(process.open_files.is_some_and(|files| files >= 3));
        assert!(process.open_files_max > process.open_files);
        assert!(process.threads.is_some_and(|threads| threads >= 1));
        assert!(process.cpu_seconds.is_some());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("later");
        let age = now.as_secs_f64() - process.started.expect("it was started");
        assert!((-2.0..86_400.0).contains(&age), "{age}");
    }
}
