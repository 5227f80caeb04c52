//! People, what they like and what they feel about things: data with the cardinalities of the experiment of "Clustered
//! TDB: A Clustered Triple Store for Jena" (§6), whose own data was never published.
//!
//! The paper's §6.3.3 gives the numbers of matches of its five joins. They hold for every number of triples from two
//! million on; smaller data sets have a proportional share of each. All other statements grow with the data set.
//!
//! | statements | number | join |
//! |---|---|---|
//! | `likes-cheese`, `lives-in` | as many as of an ordinary property; 4 to 10 people each like a cheese and live in a town | 1 |
//! | `likes-book`, `has-interests` | 49,992 by 8,332 people, 2 to 10 each, of 20,000 titles; 1.4 interests each | 2, 4 |
//! | `type` and 14 others of a book | 15 for each of 6,000 books | 3 |
//! | `feels/0` to `feels/39` | 15,000 to 40,000 each; a person feels one way about a thing | 5 |
//! | `property/0` and further, the ordinary properties | all others, in equal shares; 4 to 10 people have the same value | |
//!
//! A person is the subject of about 20 statements. Statements of each row are divided evenly among the people. Two or three people
//! like a book (one or four, if one of the draws is repeated), which gives join 4 about the paper's "up to 25" results: at most 30.

mod scale;
#[cfg(test)]
mod tests;

use crate::random::Stream;
use crate::stream::{Pieces, write_pieces};
use crate::text::push_number;
use crate::{GenerateError, Part, Summary, TripleReader};
use scale::{Kind, Scale};
use std::io::Write;
use std::ops::Range;

pub use scale::FEELINGS;

macro_rules! iri {
    ($name:literal) => {
        concat!("http://example.org/people/", $name)
    };
}

/// The property of a book's class.
pub const TYPE: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type";
/// The class of the described books.
pub const BOOK: &str = iri!("Book");
/// The property from a person to a cheese.
pub const LIKES_CHEESE: &str = iri!("likes-cheese");
/// The property from a person to a town.
pub const LIVES_IN: &str = iri!("lives-in");
/// The property from a person to a book.
pub const LIKES_BOOK: &str = iri!("likes-book");
/// The property from a person to an interest.
pub const HAS_INTERESTS: &str = iri!("has-interests");
/// The prefix of the properties from a person to a thing; a number below [`FEELINGS`] follows it.
pub const FEELS: &str = iri!("feels/");
/// The prefix of the ordinary properties; a number follows it.
pub const PROPERTY: &str = iri!("property/");

/// The default number of distinct properties (§6: "approximately 4,000").
pub const PROPERTIES: u64 = 4000;

/// Properties of a book besides its class.
const BOOK_PROPERTIES: [&str; 14] = [
    iri!("title"),
    iri!("author"),
    iri!("publisher"),
    iri!("printer"),
    iri!("translator"),
    iri!("illustrator"),
    iri!("genre"),
    iri!("language"),
    iri!("series"),
    iri!("edition"),
    iri!("format"),
    iri!("year"),
    iri!("place"),
    iri!("shelf"),
];
const PERSON: &str = iri!("person/");
const BOOK_NUMBER: &str = iri!("book/");
const BOOK_VALUE: &str = iri!("book-value/");
const CHEESE: &str = iri!("cheese/");
const TOWN: &str = iri!("town/");
const INTEREST: &str = iri!("interest/");
const THING: &str = iri!("thing/");
const VALUE: &str = iri!("value/");
/// Properties that are not ordinary: those of books, of tastes, of interests and of feelings.
const OTHER_PROPERTIES: u64 = 1 + BOOK_PROPERTIES.len() as u64 + 4 + FEELINGS;

const TRIPLES_MIN: u64 = 40_000;
const TRIPLES_MAX: u64 = 1 << 40;
/// Smallest mean number of statements of a property.
const STATEMENTS_MIN: u64 = 10;

/// A data set to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    triples: u64,
    properties: u64,
    seed: u64,
}

impl Config {
    /// Configures a data set of exactly this many triples (40,000 to 2^40) with 4,000 properties.
    pub fn new(triples: u64) -> Result<Self, GenerateError> {
        if !(TRIPLES_MIN..=TRIPLES_MAX).contains(&triples) {
            return Err(GenerateError::config(
                "the number of triples",
                triples,
                "from 40,000 to 2^40",
            ));
        }
        Ok(Self {
            triples,
            properties: PROPERTIES,
            seed: 1,
        })
    }

    /// Sets the number of distinct properties (60 to a tenth of the number of triples).
    pub fn with_properties(mut self, properties: u64) -> Result<Self, GenerateError> {
        if !(OTHER_PROPERTIES + 1..=self.triples / STATEMENTS_MIN).contains(&properties) {
            return Err(GenerateError::config(
                "the number of properties",
                properties,
                "from 60 to a tenth of the number of triples",
            ));
        }
        self.properties = properties;
        Ok(self)
    }

    /// Selects another data set of the same cardinalities.
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

/// A generator of one part: described books, then people.
#[derive(Debug)]
pub struct Generator {
    scale: Scale,
    left: Range<u64>,
    subject: Vec<u8>,
}

impl Generator {
    fn new(config: &Config, part: Part) -> Self {
        let ordinary_properties = config.properties - OTHER_PROPERTIES;
        let statements_of_a_book = BOOK_PROPERTIES.len() as u64 + 1;
        let scale = Scale::new(
            config.seed,
            config.triples,
            ordinary_properties,
            statements_of_a_book,
        );
        let range = part.of(u128::from(scale.books + scale.people));
        let own = |position: u128| u64::try_from(position).expect("at most the number of triples");
        Self {
            left: own(range.start)..own(range.end),
            scale,
            subject: Vec::new(),
        }
    }
}

impl Pieces for Generator {
    fn next_piece(&mut self, out: &mut Vec<u8>) -> Option<u64> {
        let number = self.left.next()?;
        let mut lines = Lines {
            out,
            subject: &mut self.subject,
            count: 0,
        };
        match number.checked_sub(self.scale.books) {
            None => self.scale.book(number, &mut lines),
            Some(person) => self.scale.person(person, &mut lines),
        }
        Some(lines.count)
    }
}

/// An IRI: a fixed text, and a number after it.
#[derive(Clone, Copy)]
struct Iri(&'static str, Option<u64>);

impl Iri {
    fn push(self, out: &mut Vec<u8>) {
        out.push(b'<');
        out.extend_from_slice(self.0.as_bytes());
        if let Some(number) = self.1 {
            push_number(out, number);
        }
        out.push(b'>');
    }
}

/// Writes triples about one subject after the other.
struct Lines<'o> {
    out: &'o mut Vec<u8>,
    /// The subject and the space after it.
    subject: &'o mut Vec<u8>,
    count: u64,
}

impl Lines<'_> {
    fn about(&mut self, subject: Iri) {
        self.subject.clear();
        subject.push(self.subject);
        self.subject.push(b' ');
    }

    fn open(&mut self, property: Iri) {
        self.out.extend_from_slice(self.subject);
        property.push(self.out);
        self.out.push(b' ');
        self.count += 1;
    }

    fn resource(&mut self, property: Iri, object: Iri) {
        self.open(property);
        object.push(self.out);
        self.out.extend_from_slice(b" .\n");
    }

    fn text(&mut self, property: Iri, text: &str, number: u64) {
        self.open(property);
        self.out.push(b'"');
        self.out.extend_from_slice(text.as_bytes());
        push_number(self.out, number);
        self.out.extend_from_slice(b"\" .\n");
    }
}

impl Scale {
    fn book(&self, book: u64, lines: &mut Lines<'_>) {
        let mut random = Stream::new(self.seed, Kind::Book as u64, book);
        lines.about(Iri(BOOK_NUMBER, Some(book)));
        lines.resource(Iri(TYPE, None), Iri(BOOK, None));
        for (place, property) in BOOK_PROPERTIES.into_iter().enumerate() {
            let property = Iri(property, None);
            if place == 0 {
                lines.text(property, "Title ", book);
            } else {
                let value = random.below_u64(self.book_values);
                let number = value * BOOK_PROPERTIES.len() as u64 + place as u64;
                lines.resource(property, Iri(BOOK_VALUE, Some(number)));
            }
        }
    }

    fn person(&self, person: u64, lines: &mut Lines<'_>) {
        lines.about(Iri(PERSON, Some(person)));
        for reader in self.share(self.readers, person) {
            self.reader(reader, lines);
        }
        for taster in self.share(self.tasters, person) {
            let (cheese, town) = self.tastes(taster);
            lines.resource(Iri(LIKES_CHEESE, None), Iri(CHEESE, Some(cheese)));
            lines.resource(Iri(LIVES_IN, None), Iri(TOWN, Some(town)));
        }
        self.feelings_of(person, lines);
        self.ordinary_statements_of(person, lines);
    }

    /// Writes the books and the interests of someone who reads.
    fn reader(&self, reader: u64, lines: &mut Lines<'_>) {
        let mut random = Stream::new(self.seed, Kind::Reader as u64, reader);
        let mut books = Vec::new();
        for like in self.likes_of(reader) {
            let book = add_distinct(&mut books, self.title(like), self.titles);
            lines.resource(Iri(LIKES_BOOK, None), Iri(BOOK_NUMBER, Some(book)));
        }
        let mut interests = Vec::new();
        for _ in 0..self.interests_of(reader) {
            let drawn = random.below_u64(self.interests);
            let interest = add_distinct(&mut interests, drawn, self.interests);
            lines.resource(Iri(HAS_INTERESTS, None), Iri(INTEREST, Some(interest)));
        }
    }

    /// Writes feelings about different things.
    fn feelings_of(&self, person: u64, lines: &mut Lines<'_>) {
        let mut random = Stream::new(self.seed, Kind::Thing as u64, person);
        let mut things = Vec::new();
        for statement in self.share(self.feelings(), person) {
            let drawn = random.below_u64(self.things);
            let thing = add_distinct(&mut things, drawn, self.things);
            let feeling = self.feeling(statement);
            lines.resource(Iri(FEELS, Some(feeling)), Iri(THING, Some(thing)));
        }
    }

    /// Writes statements of ordinary properties: the values of even ones are IRIs, those of odd ones texts.
    fn ordinary_statements_of(&self, person: u64, lines: &mut Lines<'_>) {
        let mut written = Vec::new();
        for statement in self.share(self.ordinary, person) {
            let (property, mut value) = self.ordinary_statement(statement);
            while written.contains(&(property, value)) {
                value += 1;
            }
            written.push((property, value));
            let number = value * self.ordinary_properties + property;
            let named = Iri(PROPERTY, Some(property));
            if property.is_multiple_of(2) {
                lines.resource(named, Iri(VALUE, Some(number)));
            } else {
                lines.text(named, "Value ", number);
            }
        }
    }
}

/// Adds a number below `count` to the list: `drawn`, or the next one that the list does not have. Returns it.
fn add_distinct(list: &mut Vec<u64>, drawn: u64, count: u64) -> u64 {
    let mut number = drawn;
    while list.contains(&number) {
        number = (number + 1) % count;
    }
    list.push(number);
    number
}
