//! The figures of the paper (§6, Tables 1–10) for standalone TDB and for Clustered TDB on one machine.

use super::Test;

/// Triples of the paper's data.
pub(super) const TRIPLES: u64 = 375_000_000;

/// Triples per second of a load (Table 1).
pub(super) const LOAD_RATES: [(&str, f64); 2] = [("standalone TDB", 6946.0), ("CTDB1", 4276.0)];

/// Milliseconds of standalone TDB and of CTDB1.
pub(super) type Times = [f64; 2];

/// A table of single triple patterns.
pub(super) struct PatternTable {
    pub(super) number: u32,
    pub(super) users: usize,
    pub(super) with_terms: bool,
    /// For each of [`Test::PATTERNS`].
    pub(super) times: [Times; 3],
}

/// Tables 2 to 5.
pub(super) const PATTERN_TABLES: [PatternTable; 4] = [
    PatternTable {
        number: 2,
        users: 1,
        with_terms: false,
        times: [[439.0, 361.0], [21_530.0, 1733.0], [512.0, 483.0]],
    },
    PatternTable {
        number: 3,
        users: 5,
        with_terms: false,
        times: [[1904.0, 1784.0], [65_602.0, 6648.0], [2205.0, 2053.0]],
    },
    PatternTable {
        number: 4,
        users: 1,
        with_terms: true,
        times: [[398.0, 700.0], [122_609.0, 229_453.0], [349.0, 550.0]],
    },
    PatternTable {
        number: 5,
        users: 5,
        with_terms: true,
        times: [[1715.0, 3208.0], [246_026.0, 813_783.0], [1006.0, 2183.0]],
    },
];

/// A table of a join, without terms.
pub(super) struct JoinTable {
    pub(super) number: u32,
    pub(super) test: Test,
    /// By 1 and by 5 users.
    pub(super) times: [(usize, Times); 2],
}

/// Tables 6 to 10. Tables 6 and 9 have the same times for one user, perhaps by mistake.
pub(super) const JOIN_TABLES: [JoinTable; 5] = [
    JoinTable {
        number: 6,
        test: Test::Join1,
        times: [(1, [379.0, 297.0]), (5, [201.0, 319.0])],
    },
    JoinTable {
        number: 7,
        test: Test::Join2,
        times: [(1, [131_273.0, 133_023.0]), (5, [155_147.0, 133_963.0])],
    },
    JoinTable {
        number: 8,
        test: Test::Join3,
        times: [(1, [1579.0, 3066.0]), (5, [18_414.0, 21_082.0])],
    },
    JoinTable {
        number: 9,
        test: Test::Join4,
        times: [(1, [379.0, 297.0]), (5, [1044.0, 1115.0])],
    },
    JoinTable {
        number: 10,
        test: Test::Join5,
        times: [(1, [3491.0, 696.0]), (5, [4530.0, 2446.0])],
    },
];
