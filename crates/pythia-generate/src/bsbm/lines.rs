//! Writing the N-Triples lines of one subject after the other into a buffer.

use super::schema::{
    COMMENT, COUNTRIES, COUNTRY, Country, DATE, INSTANCES, LABEL, PLAIN, PUBLISHER, XSD_DATE,
};
use crate::random::Stream;
use crate::text::{Vocabulary, push_number};
use std::ops::RangeInclusive;

/// The lines of one subject.
pub(super) struct Lines<'a> {
    pub(super) out: &'a mut Vec<u8>,
    /// The subject with its brackets.
    subject: &'a mut Vec<u8>,
    pub(super) triples: u64,
}

/// The owner of an instance: the first step of its IRI's path.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    Producer(u64),
    Vendor(u64),
    RatingSite(u64),
}

impl<'a> Lines<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>, subject: &'a mut Vec<u8>) -> Self {
        Self {
            out,
            subject,
            triples: 0,
        }
    }

    /// Begins the lines of `NAMEnumber`, a 0-based number.
    pub(super) fn subject(&mut self, origin: Option<Origin>, name: &str, number: u64) {
        self.subject.clear();
        push_instance(self.subject, origin, name, number);
    }

    /// Writes the subject's IRI with a suffix as the object: the name of its web page.
    pub(super) fn page_of_subject(&mut self, predicate: &[u8]) {
        self.open(predicate);
        self.out
            .extend_from_slice(&self.subject[..self.subject.len() - 1]);
        self.out.extend_from_slice(b"/> .\n");
    }

    /// Writes subject and predicate of the next line; the caller writes its object.
    #[inline]
    pub(super) fn open(&mut self, predicate: &[u8]) {
        self.out.extend_from_slice(self.subject);
        self.out.extend_from_slice(predicate);
        self.triples += 1;
    }

    #[inline]
    pub(super) fn close(&mut self) {
        self.out.extend_from_slice(b" .\n");
    }

    /// Writes a line; `object` includes the end of the line.
    #[inline]
    pub(super) fn line(&mut self, predicate: &[u8], object: &[u8]) {
        self.open(predicate);
        self.out.extend_from_slice(object);
    }

    /// Writes a literal and the end of the line: [`PLAIN`] or a datatype.
    #[inline]
    pub(super) fn literal(&mut self, predicate: &[u8], text: &[u8], end: &[u8]) {
        self.open(predicate);
        self.out.push(b'"');
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(end);
    }

    #[inline]
    pub(super) fn number(&mut self, predicate: &[u8], number: u64, end: &[u8]) {
        self.open(predicate);
        self.out.push(b'"');
        push_number(self.out, number);
        self.out.extend_from_slice(end);
    }

    #[inline]
    pub(super) fn instance(
        &mut self,
        predicate: &[u8],
        origin: Option<Origin>,
        name: &str,
        number: u64,
    ) {
        self.open(predicate);
        push_instance(self.out, origin, name, number);
        self.close();
    }

    /// Writes a literal of random words.
    #[inline]
    pub(super) fn text(
        &mut self,
        predicate: &[u8],
        random: &mut Stream,
        words: RangeInclusive<u32>,
        end: &[u8],
    ) {
        self.open(predicate);
        self.out.push(b'"');
        let count = random.between(*words.start(), *words.end());
        Vocabulary::get().push_text(random, count, self.out);
        self.out.extend_from_slice(end);
    }

    pub(super) fn label_and_comment(&mut self, random: &mut Stream, words: RangeInclusive<u32>) {
        self.text(LABEL, random, 1..=3, PLAIN);
        self.text(COMMENT, random, words, PLAIN);
    }

    pub(super) fn country(&mut self, country: Country) {
        self.open(COUNTRY);
        self.out.push(b'<');
        self.out.extend_from_slice(COUNTRIES.as_bytes());
        self.out.extend_from_slice(country.code.as_bytes());
        self.out.extend_from_slice(b"> .\n");
    }

    /// Writes publisher and date of the subject: the last lines of every subject.
    pub(super) fn published(
        &mut self,
        origin: Option<Origin>,
        name: &str,
        number: u64,
        date: &[u8],
    ) {
        self.instance(PUBLISHER, origin, name, number);
        self.literal(DATE, date, XSD_DATE);
    }
}

/// Appends the IRI, in brackets, of instance `NAMEnumber`, a 0-based number.
#[inline]
pub(super) fn push_instance(out: &mut Vec<u8>, origin: Option<Origin>, name: &str, number: u64) {
    out.push(b'<');
    out.extend_from_slice(INSTANCES.as_bytes());
    if let Some(origin) = origin {
        let (step, number) = match origin {
            Origin::Producer(number) => ("dataFromProducer", number),
            Origin::Vendor(number) => ("dataFromVendor", number),
            Origin::RatingSite(number) => ("dataFromRatingSite", number),
        };
        out.extend_from_slice(step.as_bytes());
        push_number(out, number + 1);
        out.push(b'/');
    }
    out.extend_from_slice(name.as_bytes());
    push_number(out, number + 1);
    out.push(b'>');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_named_from_one() {
        let mut out = Vec::new();
        push_instance(&mut out, Some(Origin::Producer(8)), "Product", 99);
        let expected = format!("<{INSTANCES}dataFromProducer9/Product100>");
        assert_eq!(out, expected.as_bytes());
    }
}
