//! The cardinalities of the joins, parts and seeds.

use super::*;
use std::collections::{HashMap, HashSet};

/// A tenth of a full data set.
const TENTH: u64 = 200_000;

fn text(config: &Config, part: Part) -> String {
    let mut out = Vec::new();
    let summary = write_ntriples(config, part, &mut out).expect("memory");
    assert_eq!(summary.bytes, out.len() as u64);
    let text = String::from_utf8(out).expect("ASCII");
    assert_eq!(summary.triples, text.lines().count() as u64);
    text
}

/// The subjects and objects of each property.
struct Data<'t>(HashMap<&'t str, Vec<(&'t str, &'t str)>>);

impl<'t> Data<'t> {
    fn of(text: &'t str) -> Self {
        let mut data: HashMap<&str, Vec<(&str, &str)>> = HashMap::new();
        for line in text.lines() {
            let mut terms = line.trim_end_matches(" .").splitn(3, ' ');
            let mut term = || terms.next().expect("three terms");
            let (subject, property) = (term(), term().trim_matches(['<', '>']));
            data.entry(property).or_default().push((subject, term()));
        }
        Self(data)
    }

    fn statements(&self, property: &str) -> &[(&'t str, &'t str)] {
        &self.0[property]
    }

    fn by_subject(&self, property: &str) -> HashMap<&'t str, Vec<&'t str>> {
        let pairs = self.statements(property).iter().copied();
        gather(pairs)
    }

    fn by_object(&self, property: &str) -> HashMap<&'t str, Vec<&'t str>> {
        gather(self.statements(property).iter().map(|(s, o)| (*o, *s)))
    }
}

fn gather<'t>(pairs: impl Iterator<Item = (&'t str, &'t str)>) -> HashMap<&'t str, Vec<&'t str>> {
    let mut gathered: HashMap<&str, Vec<&str>> = HashMap::new();
    for (key, value) in pairs {
        gathered.entry(key).or_default().push(value);
    }
    gathered
}

fn feels(feeling: u64) -> String {
    format!("{FEELS}{feeling}")
}

#[test]
fn parts_are_the_whole() {
    let config = Config::new(40_000).expect("enough");
    let parts: String = Part::all(3).map(|part| text(&config, part)).collect();
    assert_eq!(parts, text(&config, Part::WHOLE));
    assert_ne!(parts, text(&config.with_seed(2), Part::WHOLE));
}

#[test]
fn numbers_of_triples_and_properties_are_exact() {
    for (triples, properties) in [(40_000, 60), (40_000, 4000), (123_457, 1000)] {
        let config = Config::new(triples).and_then(|config| config.with_properties(properties));
        let text = text(&config.expect("enough"), Part::WHOLE);
        let distinct: HashSet<&str> = text.lines().collect();
        assert_eq!(distinct.len() as u64, triples);
        assert_eq!(Data::of(&text).0.len() as u64, properties);
    }
    assert!(Config::new(39_999).is_err());
    let config = Config::new(40_000).expect("enough");
    assert!(config.clone().with_properties(59).is_err());
    assert!(config.with_properties(4001).is_err());
}

#[test]
fn a_full_data_set_has_the_cardinalities_of_the_paper() {
    let text = text(&Config::new(2_000_000).expect("enough"), Part::WHOLE);
    let data = Data::of(&text);
    assert_eq!(data.0.len(), 4000);
    let (likes, interests) = (data.by_subject(LIKES_BOOK), data.by_subject(HAS_INTERESTS));
    assert_eq!(data.statements(LIKES_BOOK).len(), 49_992);
    assert_eq!((likes.len(), interests.len()), (8332, 8332));
    let join_2: usize = likes
        .iter()
        .map(|(person, books)| books.len() * interests[person].len())
        .sum();
    assert!((69_000..71_000).contains(&join_2), "{join_2}");
    let described = data.by_object(TYPE)[format!("<{BOOK}>").as_str()].len();
    assert_eq!(described, 6000);
    let of_books = text
        .lines()
        .filter(|line| line.starts_with("<http://example.org/people/book/"));
    assert_eq!(of_books.count(), 90_000);
    for feeling in 0..FEELINGS {
        let count = data.statements(&feels(feeling)).len();
        assert!((15_000..=40_000).contains(&count), "{feeling}: {count}");
    }
}

#[test]
fn smaller_data_sets_have_a_share_of_each_kind() {
    let text = text(&Config::new(TENTH).expect("enough"), Part::WHOLE);
    let data = Data::of(&text);
    assert!(data.statements(LIKES_BOOK).len().abs_diff(4999) < 12);
    assert_eq!(
        data.by_object(TYPE)[format!("<{BOOK}>").as_str()].len(),
        600
    );
    assert_eq!(data.statements(&feels(39)).len(), 4000);
}

#[test]
fn a_book_has_few_readers_and_a_reader_two_to_ten_books() {
    let text = text(&Config::new(TENTH).expect("enough"), Part::WHOLE);
    let data = Data::of(&text);
    for books in data.by_subject(LIKES_BOOK).values() {
        assert!((2..=10).contains(&books.len()));
    }
    let readers = data.by_object(LIKES_BOOK);
    let mean = data.statements(LIKES_BOOK).len() as f64 / readers.len() as f64;
    assert!((2.3..2.7).contains(&mean), "{mean}");
    assert!(readers.values().all(|readers| readers.len() <= 5));
}

#[test]
fn a_cheese_and_a_town_have_four_to_ten_people_and_some_in_common() {
    let config = Config::new(TENTH).and_then(|config| config.with_properties(100));
    let text = text(&config.expect("enough"), Part::WHOLE);
    let data = Data::of(&text);
    let (cheeses, towns) = (data.by_object(LIKES_CHEESE), data.by_object(LIVES_IN));
    for people in cheeses.values().chain(towns.values()) {
        assert!((4..=10).contains(&people.len()), "{}", people.len());
    }
    let town_of = data.by_subject(LIVES_IN);
    let mut both: HashMap<(&str, &str), u64> = HashMap::new();
    for (person, cheese) in data.statements(LIKES_CHEESE) {
        *both.entry((*cheese, town_of[person][0])).or_default() += 1;
    }
    let mean = data.statements(LIKES_CHEESE).len() as f64 / both.len() as f64;
    assert!((2.0..6.0).contains(&mean), "{mean}");
}

#[test]
fn a_person_feels_one_way_about_a_thing() {
    let text = text(&Config::new(TENTH).expect("enough"), Part::WHOLE);
    let data = Data::of(&text);
    let mut pairs = HashSet::new();
    for feeling in 0..FEELINGS {
        for pair in data.statements(&feels(feeling)) {
            assert!(pairs.insert(*pair), "{pair:?}");
        }
    }
}

#[test]
fn ordinary_properties_share_the_rest_evenly() {
    let config = Config::new(TENTH).and_then(|config| config.with_properties(260));
    let text = text(&config.expect("enough"), Part::WHOLE);
    let data = Data::of(&text);
    let counts: Vec<usize> = (0..200)
        .map(|number| data.statements(&format!("{PROPERTY}{number}")).len())
        .collect();
    let (fewest, most) = (counts.iter().min(), counts.iter().max());
    assert!(
        most.zip(fewest)
            .is_some_and(|(most, fewest)| most - fewest <= 1)
    );
    assert!(data.statements(LIVES_IN).len().abs_diff(counts[0]) <= 14);
    let values = data.by_object(&format!("{PROPERTY}0"));
    let mean = counts[0] as f64 / values.len() as f64;
    assert!((6.0..8.0).contains(&mean), "{mean}");
    assert!(values.values().all(|people| people.len() <= 10));
    let people: HashSet<&str> = text
        .lines()
        .filter(|line| line.starts_with("<http://example.org/people/person/"))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let mean = TENTH as f64 / people.len() as f64;
    assert!((19.0..22.0).contains(&mean), "{mean}");
}
