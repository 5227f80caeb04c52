//! Random expressions, fully bracketed so that a failing one can be cut down.
//!
//! The functions one by one are compared in `pythia-query`'s own differential test, with all kinds
//! of terms; here they meet joins, groups and scopes. Left out are what differs by design, which
//! that test names: dates of which one has a timezone, NaN, the order of booleans.

use super::generator::Generator;

const OPERATORS: [&str; 6] = ["=", "!=", "<", ">", "<=", ">="];

impl Generator {
    /// An expression of any type.
    pub(super) fn expression(&mut self, depth: u32) -> String {
        if depth == 0 {
            return match self.below(4) {
                0 => self.literal(),
                1 => self.node(),
                _ => self.any_variable(),
            };
        }
        let next = depth - 1;
        match self.below(12) {
            0 | 1 => self.boolean(depth),
            2 | 3 => self.number(depth),
            4 | 5 => self.string(depth),
            6 => {
                let (yes, no) = (self.expression(next), self.expression(next));
                format!("IF({}, {yes}, {no})", self.boolean(next))
            }
            7 => format!(
                "COALESCE({}, {})",
                self.expression(next),
                self.expression(next)
            ),
            8 => format!(
                "IRI(CONCAT(\"http://e/\", ENCODE_FOR_URI({})))",
                self.string(next)
            ),
            9 => format!("STRLANG({}, \"en\")", self.string(next)),
            10 => format!("STRDT({}, <http://e/datatype>)", self.string(next)),
            _ => self.triple_function(next),
        }
    }

    fn triple_function(&mut self, depth: u32) -> String {
        match self.below(4) {
            0 => format!("SUBJECT({})", self.any_variable()),
            1 => format!("OBJECT({})", self.any_variable()),
            2 => format!("PREDICATE({})", self.any_variable()),
            _ => {
                let (subject, predicate) = (self.node(), self.predicate());
                format!("TRIPLE({subject}, {predicate}, {})", self.expression(depth))
            }
        }
    }

    /// An expression that gives a boolean, mostly.
    pub(super) fn boolean(&mut self, depth: u32) -> String {
        if depth == 0 {
            return match self.below(4) {
                0 => format!("BOUND({})", self.variable()),
                1 => format!("ISIRI({})", self.any_variable()),
                _ => self.comparison(0),
            };
        }
        let next = depth - 1;
        match self.below(18) {
            0..=3 => self.comparison(next),
            15..=17 => self.confining(),
            4 | 5 => format!("({} && {})", self.boolean(next), self.boolean(next)),
            6 | 7 => format!("({} || {})", self.boolean(next), self.boolean(next)),
            8 => format!("(!{})", self.boolean(next)),
            9 => {
                let test =
                    self.choose(&["ISLITERAL", "ISBLANK", "ISNUMERIC", "ISTRIPLE", "HASLANG"]);
                format!("{test}({})", self.expression(next))
            }
            10 => {
                let test = self.choose(&["CONTAINS", "STRSTARTS", "STRENDS"]);
                format!("{test}({}, {})", self.string(next), self.string(0))
            }
            11 => {
                let pattern = self.choose(&["n.*1", "^text [0-3]$", "(e|x)", "[^a-z]", ""]);
                let flags = self.choose(&["", ", \"i\"", ", \"s\""]);
                format!("REGEX({}, \"{pattern}\"{flags})", self.string(next))
            }
            12 => {
                let range = self.choose(&["en", "*", "de", "EN"]);
                format!("LANGMATCHES(LANG({}), \"{range}\")", self.any_variable())
            }
            13 => {
                let negation = self.choose(&["IN", "NOT IN"]);
                let list = format!("{}, {}", self.expression(0), self.literal());
                format!("({} {negation} ({list}))", self.expression(0))
            }
            _ => format!("SAMETERM({}, {})", self.expression(0), self.expression(0)),
        }
    }

    /// A condition that a planner may turn into a join or a lookup.
    fn confining(&mut self) -> String {
        let (variable, other) = (self.variable(), self.variable());
        let term = match self.below(4) {
            0 => self.predicate(),
            1 => self.node(),
            _ => self.literal(),
        };
        match self.below(7) {
            0 | 1 => format!("({variable} = {other})"),
            2 => format!("SAMETERM({variable}, {other})"),
            3 => format!("({variable} = {term})"),
            4 => format!("SAMETERM({term}, {variable})"),
            5 => {
                let second = match self.chance(50) {
                    true => self.node(),
                    false => self.predicate(),
                };
                match self.chance(50) {
                    true => format!("({variable} IN ({term}, {second}))"),
                    false => format!("({variable} = {term} || {variable} = {second})"),
                }
            }
            _ => format!("(!BOUND({variable}))"),
        }
    }

    /// A comparison without the variables of BIND, which may be booleans.
    fn comparison(&mut self, depth: u32) -> String {
        let operator = self.choose(&OPERATORS);
        let made = std::mem::take(&mut self.made);
        let (left, right) = match self.below(4) {
            0 => (self.number(depth), self.number(depth)),
            1 => (self.string(depth), self.string(depth)),
            _ => (self.expression(0), self.expression(0)),
        };
        self.made = made;
        format!("({left} {operator} {right})")
    }

    /// An expression that gives a number, if its variables do.
    pub(super) fn number(&mut self, depth: u32) -> String {
        if depth == 0 {
            return match self.below(3) {
                0 => self.below(6).to_string(),
                _ => self.any_variable(),
            };
        }
        let next = depth - 1;
        match self.below(10) {
            0 | 1 => {
                let operator = self.choose(&["+", "*"]);
                format!("({} {operator} {})", self.number(next), self.number(next))
            }
            // No difference of dates: Oxigraph does not always add that to another date.
            2 => format!("({} - {})", self.number(next), self.below(6)),
            3 => format!("({} / {})", self.number(next), self.below(4)),
            4 => {
                let function = self.choose(&["ABS", "CEIL", "FLOOR", "ROUND", "-"]);
                format!("{function}({})", self.number(next))
            }
            5 => format!("STRLEN({})", self.string(next)),
            6 => {
                let cast = self.choose(&["integer", "decimal", "double", "float"]);
                format!("xsd:{cast}({})", self.expression(next))
            }
            7 => {
                let part = self.choose(&["YEAR", "MONTH", "DAY"]);
                format!("{part}({})", self.any_variable())
            }
            8 => format!(
                "IF(ISNUMERIC({0}), {0}, {1})",
                self.any_variable(),
                self.below(6)
            ),
            _ => self.number(0),
        }
    }

    /// An expression that gives a string, if its variables do.
    pub(super) fn string(&mut self, depth: u32) -> String {
        if depth == 0 {
            return match self.below(4) {
                0 => format!(
                    "\"{}\"",
                    self.choose(&["t", "text 1", "http://e/n", "", "1"])
                ),
                1 => format!("LANG({})", self.any_variable()),
                _ => format!("STR({})", self.any_variable()),
            };
        }
        let next = depth - 1;
        match self.below(9) {
            0 | 1 => format!("CONCAT({}, {})", self.string(next), self.string(next)),
            2 => format!(
                "SUBSTR({}, {}, {})",
                self.string(next),
                self.below(4),
                self.below(5)
            ),
            3 => {
                let function = self.choose(&["UCASE", "LCASE", "ENCODE_FOR_URI", "MD5", "SHA256"]);
                format!("{function}({})", self.string(next))
            }
            4 => {
                let function = self.choose(&["STRBEFORE", "STRAFTER"]);
                format!("{function}({}, {})", self.string(next), self.string(0))
            }
            5 => format!(
                "REPLACE({}, \"[e-t]([0-9]?)\", \"<$1>\")",
                self.string(next)
            ),
            6 => format!("STR(DATATYPE({}))", self.expression(next)),
            7 => format!("xsd:string({})", self.expression(next)),
            _ => self.string(0),
        }
    }
}
