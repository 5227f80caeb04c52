//! Isolation levels of transactions.

use std::fmt;
use std::str::FromStr;

/// Protection of a transaction from others that run beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Snapshot isolation: of two transactions that change the same quad, the second to commit fails. What a
    /// transaction only reads may have changed by the time that it commits.
    #[default]
    Snapshot,
    /// As if transactions ran one after the other, in the order of their commits: a transaction also fails if a
    /// commit since its beginning has changed what it read.
    Serializable,
}

impl Isolation {
    /// Both levels, the default first.
    pub const ALL: [Self; 2] = [Self::Snapshot, Self::Serializable];

    /// Returns the name in commands and requests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Serializable => "serializable",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a name that no isolation level has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not an isolation level: write snapshot (the default) or serializable")]
pub struct UnknownIsolation {
    name: String,
}

impl FromStr for Isolation {
    type Err = UnknownIsolation;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|level| level.name() == name);
        found.ok_or_else(|| UnknownIsolation {
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names() {
        for level in Isolation::ALL {
            assert_eq!(level.name().parse(), Ok(level));
        }
        let error = "serialisable".parse::<Isolation>().expect_err("misspelt");
        assert_eq!(
            error.to_string(),
            "\"serialisable\" is not an isolation level: write snapshot (the default) or serializable"
        );
    }
}
