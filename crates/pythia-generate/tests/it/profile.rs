//! What is to be compared of two data sets: counts, value ranges, lengths of texts.

use std::collections::BTreeMap;
use std::fmt;
use std::io::BufRead;

/// A class and a predicate, by their local names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Property {
    pub(crate) class: String,
    pub(crate) predicate: String,
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.predicate, self.class)
    }
}

/// The values of one property.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    pub(crate) triples: u64,
    /// Of literals: characters and words.
    pub(crate) chars: u64,
    pub(crate) words: u64,
    pub(crate) words_min: u64,
    pub(crate) words_max: u64,
    /// Of numbers, dates and times: the smallest and the largest, dates as days.
    pub(crate) range: Option<(f64, f64)>,
    pub(crate) languages: BTreeMap<String, u64>,
    /// Of IRIs: their shapes, numbers left out.
    pub(crate) shapes: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Profile {
    pub(crate) bytes: u64,
    pub(crate) triples: u64,
    /// Subjects, and their triples, by class.
    pub(crate) classes: BTreeMap<String, (u64, u64)>,
    pub(crate) properties: BTreeMap<Property, Values>,
}

impl Profile {
    /// Reads N-Triples without escapes, the triples of a subject one after the other.
    pub(crate) fn read(mut input: impl BufRead) -> Self {
        let mut profile = Self::default();
        // By address of nothing: a list is faster than a map for some tens of properties.
        let mut properties: Vec<(Property, Values)> = Vec::new();
        let mut line = String::new();
        let mut subject = String::new();
        let mut class = String::new();
        while input.read_line(&mut line).expect("readable") > 0 {
            profile.bytes += line.len() as u64;
            profile.triples += 1;
            let (own, rest) = line.split_once(' ').expect("a subject");
            let (predicate, object) = rest.split_once(' ').expect("a predicate");
            let object = object.strip_suffix(" .\n").expect("an end");
            let new = own != subject;
            if new {
                own.clone_into(&mut subject);
                class = local_name(own)
                    .trim_end_matches(|c: char| c.is_ascii_digit())
                    .to_owned();
            }
            let count = profile.classes.entry(class.clone()).or_default();
            count.0 += u64::from(new);
            count.1 += 1;
            let predicate = local_name(predicate);
            let found = properties
                .iter()
                .position(|(known, _)| known.predicate == predicate && known.class == class);
            let index = found.unwrap_or_else(|| {
                let property = Property {
                    class: class.clone(),
                    predicate: predicate.to_owned(),
                };
                properties.push((property, Values::default()));
                properties.len() - 1
            });
            properties[index].1.add(object);
            line.clear();
        }
        profile.properties = properties.into_iter().collect();
        profile
    }

    /// Triples by predicate, whatever the class.
    pub(crate) fn predicates(&self) -> BTreeMap<String, u64> {
        let mut predicates = BTreeMap::new();
        for (property, values) in &self.properties {
            *predicates.entry(property.predicate.clone()).or_default() += values.triples;
        }
        predicates
    }
}

impl Values {
    fn add(&mut self, object: &str) {
        self.triples += 1;
        let Some(literal) = object.strip_prefix('"') else {
            *count_of(&mut self.shapes, &shape(object)) += 1;
            return;
        };
        let (text, kind) = literal.rsplit_once('"').expect("a closing quote");
        self.chars += text.len() as u64;
        let words = text.split(' ').count() as u64;
        self.words += words;
        self.words_max = self.words_max.max(words);
        self.words_min = if self.triples == 1 {
            words
        } else {
            self.words_min.min(words)
        };
        if let Some(language) = kind.strip_prefix('@') {
            *count_of(&mut self.languages, language) += 1;
        }
        let value = if kind.ends_with("#integer>") || kind.ends_with("/USD>") {
            text.parse::<f64>().expect("a number")
        } else if kind.ends_with("#date>") || kind.ends_with("#dateTime>") {
            day(text)
        } else {
            return;
        };
        let (min, max) = self.range.unwrap_or((value, value));
        self.range = Some((min.min(value), max.max(value)));
    }
}

fn count_of<'a>(counts: &'a mut BTreeMap<String, u64>, key: &str) -> &'a mut u64 {
    if !counts.contains_key(key) {
        counts.insert(key.to_owned(), 0);
    }
    counts.get_mut(key).expect("just inserted")
}

/// What stands behind the last slash or hash of an IRI in brackets.
fn local_name(iri: &str) -> &str {
    let iri = iri.trim_matches(['<', '>']);
    let start = iri.rfind(['/', '#']).map_or(0, |position| position + 1);
    &iri[start..]
}

/// An IRI with every number but the namespaces' replaced by one sign.
fn shape(iri: &str) -> String {
    let rest = iri
        .trim_matches(['<', '>'])
        .trim_start_matches("http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/");
    let mut shape = String::with_capacity(rest.len());
    for c in rest.chars() {
        if !c.is_ascii_digit() {
            shape.push(c);
        } else if !shape.ends_with('0') {
            shape.push('0');
        }
    }
    shape
}

/// A date as a number of days; a year is taken as 372.
fn day(date: &str) -> f64 {
    let number = |range| {
        date.get(range)
            .and_then(|text: &str| text.parse::<f64>().ok())
    };
    let (Some(year), Some(month), Some(day)) = (number(0..4), number(5..7), number(8..10)) else {
        panic!("{date} is no date");
    };
    year * 372.0 + month * 31.0 + day
}
