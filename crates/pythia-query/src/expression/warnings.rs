//! What whoever wrote a query should know, though it is no error.

use std::collections::HashSet;

/// How many different warnings are kept.
const KEPT_MAX: usize = 20;

/// How much of a name is shown in one.
const NAME_BYTES: usize = 200;

/// Warnings, each once: the first few, and how many more there were.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings {
    kept: Vec<String>,
    /// Those that are kept, to find them.
    known: HashSet<String>,
    /// How often others were given.
    more: usize,
}

impl Warnings {
    /// Adds a warning, once.
    pub(crate) fn add(&mut self, warning: String) {
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

    /// Adds those of a part of the work.
    pub(crate) fn add_all(&mut self, others: Self) {
        others
            .kept
            .into_iter()
            .for_each(|warning| self.add(warning));
        self.more += others.more;
    }

    /// The warnings as lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more like these", self.more));
        self.kept.iter().cloned().chain(more).collect()
    }
}

/// A name as it is shown, cut if it is long.
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
