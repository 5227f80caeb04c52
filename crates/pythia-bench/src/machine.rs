//! The machine a measurement was made on: a figure without it says nothing.

use std::fs;

use serde::Serialize;

/// What is recorded of the machine. What the system does not tell is left out.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Cores this process may use.
    pub cores: usize,
    /// The processor's name.
    pub processor: Option<String>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// Load average of the last minute when the measurement began: above a few tenths, something
    /// else was running and the figures suffer.
    pub load_average: Option<f64>,
    /// Version of this program.
    pub version: &'static str,
    /// Whether this is a debug build, whose figures mean nothing.
    pub debug_build: bool,
}

impl Machine {
    /// Looks at this machine now.
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

    /// The load average, if so much else was running that figures suffer.
    pub fn busy(&self) -> Option<f64> {
        self.load_average
            .filter(|load| *load > self.cores as f64 / 2.0)
    }

    /// One line for people.
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

/// The value of the first `name : value` line of a file.
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
