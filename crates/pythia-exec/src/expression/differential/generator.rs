//! Random expressions as text, over the columns `?n ?s ?d ?x ?y`, and random rows for them.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// Terms by the expressions that use them. All are canonical.
const INTEGERS: &[&str] = &["0", "1", "2", "-3", "7", "100", "9223372036854775807"];
const NUMBERS: &[&str] = &[
    "\"1\"^^xsd:decimal",
    "1.5",
    "-0.25",
    "\"1\"^^xsd:double",
    "\"2.5\"^^xsd:double",
    "\"-0\"^^xsd:double",
    "\"1.5\"^^xsd:float",
    "\"INF\"^^xsd:double",
    "\"NaN\"^^xsd:double",
    "0.000000000000000001",
    "\"16777217\"^^xsd:integer",
    "\"16777216\"^^xsd:float",
];
const STRINGS: &[&str] = &[
    "\"\"",
    "\"a\"",
    "\"abc\"",
    "\"Abc d\"",
    "\"日本語\"",
    "\"b.c\"",
    "\"2\"",
    "\"1.5e3\"",
    "\"true\"",
    "\"2024-02-28\"",
    "\"2024-02-28T12:00:00Z\"",
    "\"en\"",
    "\"http://example.org/x\"",
    "\"x\\ny\"",
    "\"P1D\"",
];
const LANGUAGE_STRINGS: &[&str] = &[
    "\"a\"@en",
    "\"abc\"@en",
    "\"abc\"@fr",
    "\"abc\"@en-gb",
    "\"abc\"@ar--rtl",
    "\"b\"@ar--ltr",
];
const DATES: &[&str] = &[
    "\"2024-02-28\"^^xsd:date",
    "\"2024-02-28Z\"^^xsd:date",
    "\"2024-03-01+02:00\"^^xsd:date",
    "\"2024-02-28T12:00:00Z\"^^xsd:dateTime",
    "\"2024-02-28T12:00:00\"^^xsd:dateTime",
    "\"2024-02-28T14:00:00.25+02:00\"^^xsd:dateTime",
    "\"1999-12-31T23:59:59-05:00\"^^xsd:dateTime",
    "\"12:00:00\"^^xsd:time",
    "\"12:00:00Z\"^^xsd:time",
    "\"2024\"^^xsd:gYear",
    "\"2025Z\"^^xsd:gYear",
    "\"2024-02\"^^xsd:gYearMonth",
    "\"--02\"^^xsd:gMonth",
    "\"--02-28\"^^xsd:gMonthDay",
    "\"---31\"^^xsd:gDay",
];
const DURATIONS: &[&str] = &[
    "\"P1Y2M\"^^xsd:yearMonthDuration",
    "\"P1DT1H\"^^xsd:dayTimeDuration",
    "\"-PT30M\"^^xsd:dayTimeDuration",
    "\"P1Y1D\"^^xsd:duration",
];
const OTHERS: &[&str] = &[
    "true",
    "false",
    "<http://example.org/a>",
    "<http://example.org/b>",
    "\"x\"^^<urn:datatype>",
    "\"y\"^^<urn:datatype>",
    "\"abc\"^^xsd:integer",
    "<<( <urn:s> <urn:p> 1 )>>",
    "<<( <urn:s> <urn:p> \"1\"^^xsd:decimal )>>",
    "<<( <urn:s> <urn:p> \"a\" )>>",
];

/// The usual type of an expression's result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Boolean,
    Number,
    Text,
    Date,
    Any,
}

pub(super) struct Generator {
    pub(super) random: StdRng,
}

impl Generator {
    pub(super) fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts.choose(&mut self.random).expect("a choice")
    }

    fn constant(&mut self, wanted: Wanted) -> String {
        let groups: &[&[&str]] = match wanted {
            Wanted::Boolean => &[&["true", "false"]],
            Wanted::Number => &[INTEGERS, NUMBERS],
            Wanted::Text => &[STRINGS, LANGUAGE_STRINGS],
            Wanted::Date => &[DATES, DURATIONS],
            Wanted::Any => &[
                INTEGERS,
                NUMBERS,
                STRINGS,
                LANGUAGE_STRINGS,
                DATES,
                DURATIONS,
                OTHERS,
            ],
        };
        let group = groups.choose(&mut self.random).expect("a choice");
        self.pick(group).to_owned()
    }

    fn leaf(&mut self, wanted: Wanted) -> String {
        if self.random.random_bool(0.4) && wanted != Wanted::Boolean {
            return match wanted {
                Wanted::Number => "?n".to_owned(),
                Wanted::Text => "?s".to_owned(),
                Wanted::Date => "?d".to_owned(),
                Wanted::Boolean | Wanted::Any => self.pick(&["?x", "?y", "?s", "?n"]).to_owned(),
            };
        }
        self.constant(wanted)
    }

    pub(super) fn expression(&mut self, depth: u32, wanted: Wanted) -> String {
        if depth == 0 || self.random.random_bool(0.15) {
            return self.leaf(wanted);
        }
        let wanted = if self.random.random_bool(0.08) {
            Wanted::Any
        } else {
            wanted
        };
        let wanted = match wanted {
            Wanted::Any => *[Wanted::Boolean, Wanted::Number, Wanted::Text, Wanted::Date]
                .choose(&mut self.random)
                .expect("a choice"),
            wanted => wanted,
        };
        if self.random.random_bool(0.1) {
            let condition = self.expression(depth - 1, Wanted::Boolean);
            let yes = self.expression(depth - 1, wanted);
            let no = self.expression(depth - 1, wanted);
            return match self.random.random_range(0..2) {
                0 => format!("IF({condition}, {yes}, {no})"),
                _ => format!("COALESCE({yes}, {no})"),
            };
        }
        match wanted {
            Wanted::Boolean => self.boolean(depth - 1),
            Wanted::Number => self.number(depth - 1),
            Wanted::Text => self.text(depth - 1),
            Wanted::Date | Wanted::Any => self.date(depth - 1),
        }
    }

    fn boolean(&mut self, depth: u32) -> String {
        match self.random.random_range(0..9) {
            0 | 1 => {
                let operator = self.pick(&["&&", "||"]);
                let a = self.expression(depth, Wanted::Boolean);
                let b = self.expression(depth, Wanted::Boolean);
                format!("({a} {operator} {b})")
            }
            2 => format!("!{}", self.leaf_or_parentheses(depth, Wanted::Boolean)),
            3 | 4 => {
                let operator = self.pick(&["=", "!=", "<", "<=", ">", ">="]);
                let kind = *[Wanted::Number, Wanted::Text, Wanted::Date, Wanted::Any]
                    .choose(&mut self.random)
                    .expect("a choice");
                let a = self.expression(depth, kind);
                let b = self.expression(depth, kind);
                format!("({a} {operator} {b})")
            }
            5 => {
                let (a, b, c) = (
                    self.expression(depth, Wanted::Any),
                    self.leaf(Wanted::Any),
                    self.leaf(Wanted::Any),
                );
                let not = self.pick(&["", "NOT "]);
                format!("({a} {not}IN ({b}, {c}))")
            }
            6 => {
                let name = self.pick(&["CONTAINS", "STRSTARTS", "STRENDS", "LANGMATCHES"]);
                let a = self.expression(depth, Wanted::Text);
                let b = self.leaf(Wanted::Text);
                format!("{name}({a}, {b})")
            }
            7 => {
                let name = self.pick(&[
                    "isIRI",
                    "isBLANK",
                    "isLITERAL",
                    "isNUMERIC",
                    "isTRIPLE",
                    "hasLANG",
                    "hasLANGDIR",
                    "xsd:boolean",
                ]);
                format!("{name}({})", self.expression(depth, Wanted::Any))
            }
            _ => match self.random.random_range(0..3) {
                0 => format!("BOUND({})", self.pick(&["?x", "?y", "?missing"])),
                1 => {
                    let a = self.expression(depth, Wanted::Any);
                    format!("sameTerm({a}, {})", self.leaf(Wanted::Any))
                }
                _ => {
                    let text = self.expression(depth, Wanted::Text);
                    let pattern =
                        self.pick(&["\"b\"", "\"^a\"", "\"[a-c]+$\"", "\"A.*\"", "\"(\""]);
                    let flags = self.pick(&["", ", \"i\"", ", \"q\"", ", \"sx\"", ", \"z\""]);
                    format!("REGEX({text}, {pattern}{flags})")
                }
            },
        }
    }

    fn leaf_or_parentheses(&mut self, depth: u32, wanted: Wanted) -> String {
        format!("({})", self.expression(depth, wanted))
    }

    fn number(&mut self, depth: u32) -> String {
        match self.random.random_range(0..6) {
            0 | 1 => {
                let operator = self.pick(&["+", "-", "*", "/"]);
                let a = self.expression(depth, Wanted::Number);
                let b = self.expression(depth, Wanted::Number);
                format!("({a} {operator} {b})")
            }
            2 => {
                let name = self.pick(&["ABS", "CEIL", "FLOOR", "ROUND", "-", "+"]);
                format!("{name}({})", self.expression(depth, Wanted::Number))
            }
            3 => {
                let name = self.pick(&["xsd:integer", "xsd:decimal", "xsd:float", "xsd:double"]);
                format!("{name}({})", self.expression(depth, Wanted::Any))
            }
            4 => {
                let name = self.pick(&["YEAR", "MONTH", "DAY", "HOURS", "MINUTES", "SECONDS"]);
                format!("{name}({})", self.expression(depth, Wanted::Date))
            }
            _ => format!("STRLEN({})", self.expression(depth, Wanted::Text)),
        }
    }

    fn text(&mut self, depth: u32) -> String {
        match self.random.random_range(0..9) {
            0 => {
                let name = self.pick(&["STR", "LANG", "LANGDIR", "DATATYPE", "xsd:string", "IRI"]);
                format!("{name}({})", self.expression(depth, Wanted::Any))
            }
            1 => {
                let name = self.pick(&["UCASE", "LCASE", "ENCODE_FOR_URI", "MD5", "SHA256"]);
                format!("{name}({})", self.expression(depth, Wanted::Text))
            }
            2 => {
                let parts: Vec<String> = (0..self.random.random_range(0..4))
                    .map(|_| self.expression(depth, Wanted::Text))
                    .collect();
                format!("CONCAT({})", parts.join(", "))
            }
            3 => {
                let text = self.expression(depth, Wanted::Text);
                let start = self.pick(&["0", "1", "2", "-3", "7", "1.5"]);
                let length = self.pick(&["", ", 2", ", 0", ", 100", ", -1"]);
                format!("SUBSTR({text}, {start}{length})")
            }
            4 => {
                let name = self.pick(&["STRBEFORE", "STRAFTER"]);
                let a = self.expression(depth, Wanted::Text);
                format!("{name}({a}, {})", self.leaf(Wanted::Text))
            }
            5 => {
                let text = self.expression(depth, Wanted::Text);
                let pattern = self.pick(&["\"b\"", "\"(a)(b)?\"", "\"[^a]\"", "\"c$\""]);
                let replacement = self.pick(&["\"Z\"", "\"\"", "\"${1}\"", "\"x y\""]);
                let replacement = if replacement.contains('{') {
                    "\"[$1]\""
                } else {
                    replacement
                };
                format!("REPLACE({text}, {pattern}, {replacement})")
            }
            6 => {
                let a = self.expression(depth, Wanted::Text);
                match self.random.random_range(0..3) {
                    0 => format!(
                        "STRLANG({a}, {})",
                        self.pick(&["\"en\"", "\"FR\"", "\"-\"", "?s"])
                    ),
                    1 => format!(
                        "STRLANGDIR({a}, \"ar\", {})",
                        self.pick(&["\"ltr\"", "\"up\""])
                    ),
                    _ => format!(
                        "STRDT({a}, {})",
                        self.pick(&["xsd:string", "<urn:datatype>"])
                    ),
                }
            }
            7 => format!("TZ({})", self.expression(depth, Wanted::Date)),
            _ => {
                let object = self.expression(depth, Wanted::Any);
                let triple = format!("TRIPLE(?x, <urn:p>, {object})");
                let name = self.pick(&["SUBJECT", "PREDICATE", "OBJECT", ""]);
                format!("{name}({triple})")
            }
        }
    }

    fn date(&mut self, depth: u32) -> String {
        match self.random.random_range(0..3) {
            0 => {
                let operator = self.pick(&["+", "-"]);
                let a = self.expression(depth, Wanted::Date);
                let b = self.expression(depth, Wanted::Date);
                format!("({a} {operator} {b})")
            }
            1 => {
                let name = self.pick(&[
                    "xsd:date",
                    "xsd:dateTime",
                    "xsd:time",
                    "xsd:gYear",
                    "xsd:gYearMonth",
                    "xsd:gMonth",
                    "xsd:gMonthDay",
                    "xsd:gDay",
                    "xsd:duration",
                ]);
                format!("{name}({})", self.expression(depth, Wanted::Any))
            }
            _ => format!("TIMEZONE({})", self.expression(depth, Wanted::Date)),
        }
    }

    /// Returns rows of terms for `?n ?s ?d ?x ?y`, occasionally `UNDEF`.
    pub(super) fn rows(&mut self, count: usize) -> Vec<[String; 5]> {
        let kinds = [
            Wanted::Number,
            Wanted::Text,
            Wanted::Date,
            Wanted::Any,
            Wanted::Any,
        ];
        (0..count)
            .map(|_| {
                kinds.map(|kind| {
                    if self.random.random_bool(0.05) {
                        "UNDEF".to_owned()
                    } else {
                        self.constant(kind)
                    }
                })
            })
            .collect()
    }
}
