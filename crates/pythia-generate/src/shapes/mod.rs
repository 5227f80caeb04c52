//! Data of known shapes for tests of query plans: stars, chains over sparse predicates, snowflakes, cliques, skewed and
//! correlated predicates, names that several people share, and values of all kinds of terms.
//!
//! A data set is a number of *works*, each with about 20 triples. Other entities belong to a work: every second has a
//! person, every fourth a student, every sixteenth a professor and a course, every 128th a department. Shares are exact:
//! they follow from numbers, not from draws.
//!
//! | shape | predicates |
//! |---|---|
//! | star of a work | `title`, `year`, `pages`, `creator` (1–3 people), `cites` (0–3 works), `tag`; articles (a third) have a `journal`, others a `venue` |
//! | skew | `tag` (half of the works have the first), `creator` (few people have most works) |
//! | sparse | `abstract` (1 %), `award` (1 ‰) |
//! | correlated | `draft1`, `draft2` and `draft3` of the same 5 %, `final` of 5 % others |
//! | chain | `step1` (10 %) to `step5` (0.6 %): each leads to a work that may have the next |
//! | clique | `linked`: six works in a row, all to all |
//! | snowflake | students: `memberOf` a department, `takes` courses, `advisor`; professors: `worksFor`, `teaches`; departments: `partOf` |
//! | value joins | `name` of people (each shared by four), `label` and `code` of departments |
//! | kinds | `value`: IRIs, blank nodes, integers, decimals, doubles, dates, booleans, plain strings and those of three languages |

use crate::random::Stream;
use crate::stream::{Pieces, write_pieces};
use crate::{GenerateError, Part, Summary, TripleReader};
use std::io::Write;
use std::ops::Range;

/// The IRI prefix of all names.
pub const NAMESPACE: &str = "http://example.org/shapes/";

const WORKS_MAX: u64 = 1 << 40;
const TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";
const XSD: &str = "http://www.w3.org/2001/XMLSchema#";
/// Works of a clique.
const CLIQUE: u64 = 6;
/// People who share a name.
const NAMESAKES: u64 = 4;
/// Works for each person, student, professor with a course, and department.
const PER_PERSON: u64 = 2;
const PER_STUDENT: u64 = 4;
const PER_PROFESSOR: u64 = 16;
const PER_DEPARTMENT: u64 = 128;

/// Streams of random numbers of a work.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Work = 201,
    Person,
    Student,
    Professor,
}

/// A data set to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    works: u64,
    seed: u64,
}

impl Config {
    /// Configures a data set of this many works (128 to 2^40).
    pub fn new(works: u64) -> Result<Self, GenerateError> {
        if !(PER_DEPARTMENT..=WORKS_MAX).contains(&works) {
            return Err(GenerateError::config(
                "the number of works",
                works,
                "from 128 to 2^40",
            ));
        }
        Ok(Self { works, seed: 1 })
    }

    /// Selects another data set of the same shapes.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

/// Writes a part of the data set as N-Triples.
///
/// Writes in large pieces: the writer needs no buffer.
pub fn write_ntriples(
    config: &Config,
    part: Part,
    out: &mut impl Write,
) -> Result<Summary, GenerateError> {
    write_pieces(&mut Generator::new(config, part), out)
}

/// Returns a reader of a part of the data set as N-Triples.
pub fn reader(config: &Config, part: Part) -> TripleReader<Generator> {
    TripleReader::over(Generator::new(config, part))
}

/// A generator of one part.
#[derive(Debug)]
pub struct Generator {
    config: Config,
    left: Range<u64>,
}

impl Generator {
    fn new(config: &Config, part: Part) -> Self {
        let range = part.of(u128::from(config.works));
        let own = |position: u128| u64::try_from(position).expect("at most the number of works");
        Self {
            config: config.clone(),
            left: own(range.start)..own(range.end),
        }
    }
}

impl Pieces for Generator {
    fn next_piece(&mut self, out: &mut Vec<u8>) -> Option<u64> {
        let work = self.left.next()?;
        let mut lines = Lines { out, count: 0 };
        self.config.work(work, &mut lines);
        self.config.person(work, &mut lines);
        self.config.student(work, &mut lines);
        self.config.professor(work, &mut lines);
        self.config.department(work, &mut lines);
        Some(lines.count)
    }
}

/// Writes triples about one subject after the other.
struct Lines<'o> {
    out: &'o mut Vec<u8>,
    count: u64,
}

impl Lines<'_> {
    fn triple(&mut self, subject: &str, predicate: &str, object: &str) {
        let line = match predicate {
            "type" => format!("<{NAMESPACE}{subject}> <{TYPE}> {object} .\n"),
            other => format!("<{NAMESPACE}{subject}> <{NAMESPACE}{other}> {object} .\n"),
        };
        self.out.extend_from_slice(line.as_bytes());
        self.count += 1;
    }
}

fn name(kind: &str, number: u64) -> String {
    format!("<{NAMESPACE}{kind}/{number}>")
}

fn class(name: &str) -> String {
    format!("<{NAMESPACE}{name}>")
}

fn typed(value: impl std::fmt::Display, datatype: &str) -> String {
    format!("\"{value}\"^^<{XSD}{datatype}>")
}

impl Config {
    /// Returns the number of entities of which one of `per` works has one.
    fn entities(&self, per: u64) -> u64 {
        self.works.div_ceil(per)
    }

    /// Draws one of `count` numbers; small ones are more likely.
    fn skewed(random: &mut Stream, count: u64) -> u64 {
        let fraction = random.fraction();
        ((fraction * fraction * fraction) * count as f64) as u64
    }

    fn work(&self, work: u64, lines: &mut Lines<'_>) {
        let mut random = Stream::new(self.seed, Kind::Work as u64, work);
        let subject = format!("work/{work}");
        let mut add = |predicate: &str, object: String| lines.triple(&subject, predicate, &object);
        let is_article = work.is_multiple_of(3);
        add("type", class(if is_article { "Article" } else { "Paper" }));
        add("title", format!("\"Title {work}\""));
        let year = 1960 + random.below(30) + random.below(35);
        add("year", typed(year, "integer"));
        add("pages", typed(1 + random.below(40), "integer"));
        for _ in 0..random.between(1, 3) {
            let person = Self::skewed(&mut random, self.entities(PER_PERSON));
            add("creator", name("person", person));
        }
        for _ in 0..random.below(4) {
            add("cites", name("work", random.below_u64(self.works)));
        }
        let tag = if work.is_multiple_of(2) {
            0
        } else {
            1 + random.below_u64(200)
        };
        add("tag", name("tag", tag));
        if is_article {
            add(
                "journal",
                name("journal", random.below_u64(self.works.div_ceil(300))),
            );
        } else {
            add(
                "venue",
                name("venue", random.below_u64(self.works.div_ceil(100))),
            );
        }
        if work % 100 == 7 {
            add("abstract", format!("\"Abstract of {work}\"@en"));
        }
        if work % 1000 == 11 {
            add("award", format!("\"Award {}\"", work / 1000 % 5));
        }
        if work % 20 == 3 {
            for predicate in ["draft1", "draft2", "draft3"] {
                add(predicate, typed(random.below(1000), "integer"));
            }
        }
        if work % 20 == 13 {
            add("final", typed(random.below(1000), "integer"));
        }
        for (step, per) in [(1, 10), (2, 20), (3, 40), (4, 80), (5, 160)] {
            if work % per == 5 {
                let next = random.below_u64(self.works);
                // Half of the steps lead to where the next step begins.
                let next = match random.below(2) {
                    0 => next,
                    _ => (next - next % (2 * per) + 5) % self.works,
                };
                add(&format!("step{step}"), name("work", next));
            }
        }
        let first = work - work % CLIQUE;
        for other in (first..first + CLIQUE).filter(|other| *other != work) {
            if other < self.works {
                add("linked", name("work", other));
            }
        }
        add("value", self.value(work, &mut random));
    }

    /// Returns a term of the kind that the work's number decides.
    fn value(&self, work: u64, random: &mut Stream) -> String {
        let number = random.below(10_000);
        match work % 16 {
            0..4 => typed(number, "integer"),
            4 => typed(format_args!("{number}.5"), "decimal"),
            5 => typed(format_args!("{number}.25"), "double"),
            6 => typed(
                format_args!(
                    "{}-{:02}-{:02}",
                    1990 + number % 30,
                    1 + number % 12,
                    1 + number % 28
                ),
                "date",
            ),
            7 => typed(number.is_multiple_of(2), "boolean"),
            8 => name("work", random.below_u64(self.works)),
            9 if work.is_multiple_of(5) => format!("_:b{work}"),
            10 => format!("\"chat {number}\"@fr"),
            11 => format!("\"cat {number}\"@en"),
            12 if work.is_multiple_of(5) => format!("\"Katze {number}\"@de"),
            _ => format!("\"string {number}\""),
        }
    }

    fn person(&self, work: u64, lines: &mut Lines<'_>) {
        if !work.is_multiple_of(PER_PERSON) {
            return;
        }
        let (person, people) = (work / PER_PERSON, self.entities(PER_PERSON));
        let mut random = Stream::new(self.seed, Kind::Person as u64, person);
        let subject = format!("person/{person}");
        let mut add = |predicate: &str, object: String| lines.triple(&subject, predicate, &object);
        add("type", class("Person"));
        // Namesakes are far apart.
        let names = people.div_ceil(NAMESAKES);
        add("name", format!("\"Name {}\"", person % names));
        add("age", typed(20 + random.below(60), "integer"));
        for _ in 0..random.below(5) {
            let near = person.saturating_sub(8) + random.below_u64(17);
            add("knows", name("person", near.min(people - 1)));
        }
        if person.is_multiple_of(10) {
            add("homepage", name("page", person));
        }
    }

    fn student(&self, work: u64, lines: &mut Lines<'_>) {
        if !work.is_multiple_of(PER_STUDENT) {
            return;
        }
        let student = work / PER_STUDENT;
        let mut random = Stream::new(self.seed, Kind::Student as u64, student);
        let subject = format!("student/{student}");
        let mut add = |predicate: &str, object: String| lines.triple(&subject, predicate, &object);
        let is_graduate = student.is_multiple_of(5);
        add(
            "type",
            class(if is_graduate {
                "Graduate"
            } else {
                "Undergraduate"
            }),
        );
        let department = random.below_u64(self.entities(PER_DEPARTMENT));
        add("memberOf", name("department", department));
        for _ in 0..random.between(1, 3) {
            let course = random.below_u64(self.entities(PER_PROFESSOR));
            add("takes", name("course", course));
        }
        if is_graduate {
            let professor = random.below_u64(self.entities(PER_PROFESSOR));
            add("advisor", name("professor", professor));
        }
    }

    fn professor(&self, work: u64, lines: &mut Lines<'_>) {
        if !work.is_multiple_of(PER_PROFESSOR) {
            return;
        }
        let number = work / PER_PROFESSOR;
        let mut random = Stream::new(self.seed, Kind::Professor as u64, number);
        let subject = format!("professor/{number}");
        let mut add = |predicate: &str, object: String| lines.triple(&subject, predicate, &object);
        add("type", class("Professor"));
        let department = random.below_u64(self.entities(PER_DEPARTMENT));
        add("worksFor", name("department", department));
        add("teaches", name("course", number));
        add("email", format!("\"professor{number}@example.org\""));
    }

    fn department(&self, work: u64, lines: &mut Lines<'_>) {
        if !work.is_multiple_of(PER_DEPARTMENT) {
            return;
        }
        let number = work / PER_DEPARTMENT;
        let subject = format!("department/{number}");
        let mut add = |predicate: &str, object: String| lines.triple(&subject, predicate, &object);
        add("type", class("Department"));
        add("partOf", name("university", number / 10));
        add("label", format!("\"Department {}\"", number % 40));
        // The same number in another form than `code` of the department after it.
        let code = match number % 3 {
            0 => typed(number / 2, "integer"),
            1 => typed(format_args!("{}.0", number / 2), "decimal"),
            _ => typed(format_args!("{}.0E0", number / 2), "double"),
        };
        add("code", code);
    }
}

#[cfg(test)]
mod tests;
