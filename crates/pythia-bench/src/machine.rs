//! The machine of a measurement.

use std::fs;

use serde::Serialize;

/// Facts about the machine; `None` if the system does not provide them.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Cores available to this process.
    pub cores: usize,
    /// The processor's name.
    pub processor: Option<String>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Load average of the last minute when the measurement began: above a few tenths, other programs were running and
    /// distort the figures.
    pub load_average: Option<f64>,
    /// Version of this program.
    pub version: &'static str,
    /// True for a debug build, whose figures are meaningless.
    pub debug_build: bool,
}

impl Machine {
    /// Describes this machine now.
    pub fn now() -> Self {
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: field("/proc/cpuinfo", "model name"),
            memory_bytes: field("/proc/meminfo", "MemTotal").and_then(|text| {
                let kibibytes: u64 = text.split_whitespace().next()?.parse().ok()?;
                Some(kibibytes << 10)
            }),
            load_average: fs::read_to_string("/proc/loadavg")
                .ok()
                .and_then(|text| text.split_whitespace().next()?.parse().ok()),
            version: env!("CARGO_PKG_VERSION"),
            debug_build: cfg!(debug_assertions),
        }
    }

    /// Returns the load average if it is high enough to distort the figures.
    pub fn busy(&self) -> Option<f64> {
        self.load_average
            .filter(|load| *load > self.cores as f64 / 2.0)
    }

    /// Formats the facts as one line.
    pub fn describe(&self) -> String {
        let mut parts = vec![format!("{} cores", self.cores)];
        parts.extend(self.processor.clone());
        if let Some(bytes) = self.memory_bytes {
            parts.push(format!(
                "{:.0} GiB of memory",
                bytes as f64 / (1_u64 << 30) as f64
            ));
        }
        if let Some(load) = self.load_average {
            parts.push(format!("load average {load:.1} before"));
        }
        parts.push(format!("pythia {}", self.version));
        if self.debug_build {
            parts.push("DEBUG BUILD: figures mean nothing".to_owned());
        }
        parts.join(" · ")
    }
}

/// Returns the value of the first `name : value` line of a file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_a_core_and_a_line() {
        let machine = Machine::now();
        assert!(machine.cores > 0);
        assert!(machine.describe().contains("cores"));
        let loaded = |load| Machine {
            cores: 4,
            load_average: load,
            ..machine.clone()
        };
        assert_eq!(loaded(Some(2.5)).busy(), Some(2.5));
        assert_eq!(loaded(Some(1.5)).busy(), None);
        assert_eq!(loaded(None).busy(), None);
    }
}
