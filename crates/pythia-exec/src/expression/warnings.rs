//! Hints for a query's author that are not errors.

use std::collections::HashSet;

/// The most different warnings that are kept.
const KEPT_MAX: usize = 20;

/// The most bytes of a name that are shown in a warning.
const NAME_BYTES: usize = 200;

/// Distinct warnings: the first few, and the number of further ones.
#[derive(Clone, Debug, Default)]
pub struct Warnings {
    kept: Vec<String>,
    /// The kept warnings, to find them.
    known: HashSet<String>,
    /// Number of other warnings, including repetitions.
    more: usize,
}

impl Warnings {
    /// Adds a warning unless it was added before.
    pub fn add(&mut self, warning: String) {
        if self.known.contains(&warning) {
            return;
        }
        if self.kept.len() == KEPT_MAX {
            self.more += 1;
            return;
        }
        self.known.insert(warning.clone());
        self.kept.push(warning);
    }

    /// Adds the warnings of a part of the work.
    pub fn add_all(&mut self, others: Self) {
        others
            .kept
            .into_iter()
            .for_each(|warning| self.add(warning));
        self.more += others.more;
    }

    /// Returns the warnings as lines.
    pub fn lines(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more like these", self.more));
        self.kept.iter().cloned().chain(more).collect()
    }
}

/// Returns a name for display, truncated if it is long.
pub(crate) fn shown(name: &str) -> String {
    match name.len() > NAME_BYTES {
        true => format!("{}…", &name[..name.floor_char_boundary(NAME_BYTES)]),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_kept_once_and_up_to_a_number() {
        let mut warnings = Warnings::default();
        for n in 0..1000 {
            warnings.add(format!("{}", n % 500));
        }
        let mut all = Warnings::default();
        all.add("0".to_owned());
        all.add_all(warnings);
        assert_eq!(all.lines().len(), KEPT_MAX + 1);
        assert_eq!(all.lines()[..2], ["0", "1"]);
        assert_eq!(all.lines()[KEPT_MAX], "and 960 more like these");
        assert!(shown(&"é".repeat(1000)).len() < NAME_BYTES + 8);
    }
}
