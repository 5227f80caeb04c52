//! Numbers of people, books, things and statements for a number of triples, and how statements are divided among them.

use crate::random::{Shuffle, Stream};
use std::ops::Range;

/// The number of properties that state a feeling (§6.3.3, join 5: "15,000-40,000" matches each).
pub const FEELINGS: u64 = 40;

/// Number of triples from which on the joins have the paper's cardinalities.
const FULL_TRIPLES: u64 = 2_000_000;
/// Those of a full data set. The number of readers is even: two of them like [`BOOKS_OF_A_READER`] books together.
const READERS: u64 = 8332;
const TITLES: u64 = 20_000;
const BOOKS: u64 = 6000;
const FEELING_STATEMENTS: [u64; 2] = [15_000, 40_000];

/// Fewest and most books that a reader likes (join 4: "2-10").
const BOOKS_OF_A_READER: [u64; 2] = [2, 10];
/// Fewest and most subjects of a value (join 1: "4-10"), and their mean.
const SUBJECTS_OF_A_VALUE: [u64; 2] = [4, 10];
const SUBJECTS_MEAN: u64 = 7;
const STATEMENTS_OF_A_PERSON: u64 = 20;

/// Streams of random numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Book = 301,
    Reader,
    Thing,
    Likes,
    Titles,
    Tasters,
    Cheeses,
    Towns,
    Feelings,
    Ordinary,
    Values,
}

/// Numbers of a data set. All entities are numbered from 0.
#[derive(Debug)]
pub(super) struct Scale {
    pub(super) seed: u64,
    pub(super) people: u64,
    /// People who like books and have interests.
    pub(super) readers: u64,
    /// Books that people like.
    pub(super) titles: u64,
    /// Those that are described.
    pub(super) books: u64,
    /// Values of each property of a book.
    pub(super) book_values: u64,
    pub(super) interests: u64,
    /// Readers with a second interest.
    second_interests: u64,
    /// People who like a cheese and live in a town.
    pub(super) tasters: u64,
    /// Things that people have feelings about.
    pub(super) things: u64,
    /// Statements of ordinary properties.
    pub(super) ordinary: u64,
    pub(super) ordinary_properties: u64,
    /// For each feeling, the statements up to its last.
    feeling_ends: Vec<u64>,
    likes: Groups,
    cheeses: Groups,
    towns: Groups,
    values: Groups,
    likes_order: Shuffle,
    tasters_order: Shuffle,
    feelings_order: Shuffle,
    ordinary_order: Shuffle,
}

impl Scale {
    pub(super) fn new(
        seed: u64,
        triples: u64,
        ordinary_properties: u64,
        statements_of_a_book: u64,
    ) -> Self {
        let scaled = |number: u64| number * triples.min(FULL_TRIPLES) / FULL_TRIPLES;
        let readers = scaled(READERS).next_multiple_of(2);
        let books = scaled(BOOKS);
        let feeling_ends = feeling_ends(scaled);
        let feelings = feeling_ends.last().copied().unwrap_or(0);
        let likes = readers * BOOKS_OF_A_READER.iter().sum::<u64>() / 2;
        let second_interests = readers * 2 / 5;
        let of_books = books * statements_of_a_book;
        let people = (triples - of_books) / STATEMENTS_OF_A_PERSON;
        let rest = triples - of_books - likes - readers - second_interests - feelings;
        // Two properties besides the ordinary ones share the rest; all their groups are complete.
        let pair = SUBJECTS_OF_A_VALUE.iter().sum::<u64>();
        let tasters = (rest / (ordinary_properties + 2)).clamp(pair, people) / pair * pair;
        let ordinary = rest - 2 * tasters;
        let groups = |kind: Kind| Groups::new(seed, kind, SUBJECTS_OF_A_VALUE);
        let order = |kind: Kind, count| Shuffle::new(seed, kind as u64, count);
        Self {
            seed,
            people,
            readers,
            titles: scaled(TITLES),
            books,
            book_values: (books / SUBJECTS_MEAN).max(1),
            interests: (readers + second_interests) / SUBJECTS_MEAN,
            second_interests,
            tasters,
            things: feelings / FEELINGS / SUBJECTS_MEAN,
            ordinary,
            ordinary_properties,
            feeling_ends,
            likes: Groups::new(seed, Kind::Likes, BOOKS_OF_A_READER),
            cheeses: groups(Kind::Cheeses),
            towns: groups(Kind::Towns),
            values: groups(Kind::Values),
            likes_order: order(Kind::Titles, likes),
            tasters_order: order(Kind::Tasters, tasters),
            feelings_order: order(Kind::Feelings, feelings),
            ordinary_order: order(Kind::Ordinary, ordinary),
        }
    }

    /// Returns a person's statements (or roles) out of `total`, which the people have in equal shares.
    pub(super) fn share(&self, total: u64, person: u64) -> Range<u64> {
        let start = |person: u64| {
            let start = u128::from(person) * u128::from(total) / u128::from(self.people);
            u64::try_from(start).expect("at most the total")
        };
        start(person)..start(person + 1)
    }

    /// Returns the numbers of the likes of a reader.
    pub(super) fn likes_of(&self, reader: u64) -> Range<u64> {
        self.likes.members(reader)
    }

    /// Returns the book of a like. A book has two or three likes.
    pub(super) fn title(&self, like: u64) -> u64 {
        self.likes_order.at(like) % self.titles
    }

    /// Returns the number of interests of a reader, 1.4 on average.
    pub(super) fn interests_of(&self, reader: u64) -> u64 {
        let before = |reader: u64| reader * self.second_interests / self.readers;
        1 + before(reader + 1) - before(reader)
    }

    /// Returns the cheese and the town of a taster. People who like the same cheese often live in the same town.
    pub(super) fn tastes(&self, taster: u64) -> (u64, u64) {
        let place = self.tasters_order.at(taster);
        let moved = (place + SUBJECTS_MEAN) % self.tasters;
        (self.cheeses.of(place), self.towns.of(moved))
    }

    /// Returns the number of statements of all feelings.
    pub(super) fn feelings(&self) -> u64 {
        self.feeling_ends.last().copied().unwrap_or(0)
    }

    /// Returns the feeling of a statement.
    pub(super) fn feeling(&self, statement: u64) -> u64 {
        let place = self.feelings_order.at(statement);
        self.feeling_ends.partition_point(|end| *end <= place) as u64
    }

    /// Returns the ordinary property of a statement, and its value's number among those of the property.
    pub(super) fn ordinary_statement(&self, statement: u64) -> (u64, u64) {
        let place = self.ordinary_order.at(statement);
        let subject = place / self.ordinary_properties;
        (place % self.ordinary_properties, self.values.of(subject))
    }
}

/// Returns the ends of the feelings' statements; the numbers of statements rise evenly from the smallest to the largest.
fn feeling_ends(scaled: impl Fn(u64) -> u64) -> Vec<u64> {
    let [fewest, most] = FEELING_STATEMENTS;
    let mut end = 0;
    (0..FEELINGS)
        .map(|feeling| {
            end += scaled(fewest + (most - fewest) * feeling / (FEELINGS - 1));
            end
        })
        .collect()
}

/// Members cut into groups of a smallest to a largest size. Two groups in a row have as many members as the smallest and
/// the largest together, so that the place of each group is known without those before it.
#[derive(Clone, Copy, Debug)]
struct Groups {
    seed: u64,
    kind: Kind,
    sizes: [u64; 2],
}

impl Groups {
    fn new(seed: u64, kind: Kind, sizes: [u64; 2]) -> Self {
        Self { seed, kind, sizes }
    }

    /// Returns the size of the first group of a pair.
    fn first_size(&self, pair: u64) -> u64 {
        let [smallest, largest] = self.sizes;
        let mut random = Stream::new(self.seed, self.kind as u64, pair);
        smallest + random.below_u64(largest - smallest + 1)
    }

    /// Returns the members of a group.
    fn members(&self, group: u64) -> Range<u64> {
        let both = self.sizes.iter().sum::<u64>();
        let start = group / 2 * both;
        let middle = start + self.first_size(group / 2);
        if group.is_multiple_of(2) {
            start..middle
        } else {
            middle..start + both
        }
    }

    /// Returns the group of a member.
    fn of(&self, member: u64) -> u64 {
        let both = self.sizes.iter().sum::<u64>();
        let pair = member / both;
        2 * pair + u64::from(member % both >= self.first_size(pair))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_follow_each_other_and_have_the_sizes() {
        let groups = Groups::new(5, Kind::Cheeses, [4, 10]);
        let mut next = 0;
        for group in 0..400 {
            let members = groups.members(group);
            assert_eq!(members.start, next);
            assert!((4..=10).contains(&(members.end - members.start)));
            assert!(members.clone().all(|member| groups.of(member) == group));
            next = members.end;
        }
    }
}
