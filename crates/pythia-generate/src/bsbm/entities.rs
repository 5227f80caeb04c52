//! The triples of each entity, in the order the official generator writes them.

use super::dates::{
    Dates, OFFER_DAYS, PRODUCER_DAYS, PRODUCT_DAYS, REVIEW_DAYS, REVIEWER_DAYS, STANDARD_DAYS,
    TODAY,
};
use super::lines::{Lines, Origin};
use super::scale::{Kind, Scale};
use super::schema::*;
use super::types::TypeTree;
use crate::math::HalfNormal;
use crate::random::{Spread, Stream, to_fraction};
use crate::text::names::push_person;
use crate::text::push_number;
use std::ops::RangeInclusive;

/// Words of comments, except those of products.
const COMMENT_WORDS: RangeInclusive<u32> = 20..=50;
const PRODUCT_COMMENT_WORDS: RangeInclusive<u32> = 50..=150;
const PROPERTY_WORDS: RangeInclusive<u32> = 3..=15;
const TITLE_WORDS: RangeInclusive<u32> = 4..=15;
const REVIEW_WORDS: RangeInclusive<u32> = 50..=200;

/// Values of the numeric properties are in `1..=2000`, small ones more frequent.
const NUMERIC_MAX: f64 = 2000.0;

/// Features of the average product, as a share of those of average types on each level. The official file has this
/// share; the specification requires a quarter.
const FEATURE_SHARE: f64 = 0.2333;
/// The probability that a review has a given rating, of 2^16.
const RATING_OF_65536: u64 = 45_875;

/// Offers of 2^16 delivered within 1, 2, … 9 days; the others take 10.
const DELIVERED_OF_65536: [u32; 9] = [
    4642, 15_763, 32_900, 49_481, 59_949, 64_259, 65_346, 65_519, 65_533,
];

/// Shares of the products that have optional properties, as measured in the official file: some
/// products have 4 and 5 of both kinds, some may have 4 and 5, the others may have 5 and 6.
const BOTH_SHARE: f64 = 0.4;
const FOUR_OR_FIVE_SHARE: f64 = 0.2;
/// Chance of the property 4, 5, 6 where it is optional: numeric, textual.
const FOUR_SHARES: [f64; 2] = [0.5386, 0.5597];
const FIVE_SHARES: [f64; 2] = [0.2439, 0.2644];
const SIX_SHARES: [f64; 2] = [0.4925, 0.5012];

/// Returns the average number of optional properties of a product.
pub(super) fn optional_properties_mean() -> f64 {
    let four = FOUR_OR_FIVE_SHARE * FOUR_SHARES.iter().sum::<f64>();
    let five = (1.0 - BOTH_SHARE) * FIVE_SHARES.iter().sum::<f64>();
    let six = (1.0 - BOTH_SHARE - FOUR_OR_FIVE_SHARE) * SIX_SHARES.iter().sum::<f64>();
    BOTH_SHARE * 4.0 + four + five + six
}

/// Returns the average number of ratings of a review.
pub(super) fn ratings_mean() -> f64 {
    RATING.len() as f64 * RATING_OF_65536 as f64 / 65_536.0
}

/// The data that determine an entity's triples.
#[derive(Clone, Debug)]
pub(super) struct Dataset {
    pub(super) scale: Scale,
    pub(super) tree: TypeTree,
    dates: Dates,
    half_normal: HalfNormal,
    options: Spread,
    /// The probability that a product has a given feature of one of its types, of 2^16.
    feature_of_65536: u64,
}

impl Dataset {
    pub(super) fn new(seed: u64, products: u64) -> Self {
        let tree = TypeTree::new(seed, products);
        // The few types near the root matter much: without this, their random numbers of features
        // would change the number of triples by some percent.
        let wanted = FEATURE_SHARE * tree.features_of_nominal_product();
        let probability = wanted / tree.features_of_average_product();
        Self {
            scale: Scale::new(seed, products),
            tree,
            feature_of_65536: (probability * 65_536.0) as u64,
            dates: Dates::new(),
            half_normal: HalfNormal::new(),
            options: Spread::new(seed, Kind::ProductOptions as u64),
        }
    }

    #[inline]
    fn stream(&self, kind: Kind, number: u64) -> Stream {
        Stream::new(self.scale.seed, kind as u64, number)
    }

    #[inline]
    fn date(&self, random: &mut Stream, days: RangeInclusive<u32>) -> &'static [u8; 10] {
        self.dates.text(random.between(*days.start(), *days.end()))
    }

    /// Returns the average number of features of a product.
    pub(super) fn features_mean(&self) -> f64 {
        FEATURE_SHARE * self.tree.features_of_nominal_product()
    }

    /// Returns the type of a product: one without children.
    pub(super) fn type_of_product(&self, product: u64) -> u64 {
        self.tree
            .random_leaf(&mut self.stream(Kind::ProductFeatures, product))
    }

    /// Visits the features of a product, its own type's first.
    pub(super) fn features_of_product(&self, product: u64, mut visit: impl FnMut(u64)) {
        let mut random = self.stream(Kind::ProductFeatures, product);
        let mut next = Some(self.tree.random_leaf(&mut random));
        while let Some(number) = next {
            let mut bits = 0;
            for (index, feature) in self.tree.features_of(number).enumerate() {
                // One draw decides on four features.
                bits = if index % 4 == 0 {
                    random.next()
                } else {
                    bits >> 16
                };
                if (bits & 0xffff) < self.feature_of_65536 {
                    visit(feature);
                }
            }
            next = self.tree.parent(number);
        }
    }

    pub(super) fn origin_of_product(&self, product: u64) -> Origin {
        Origin::Producer(self.scale.producers.of(product))
    }

    pub(super) fn country_of_reviewer(&self, reviewer: u64) -> Country {
        Country::at(self.stream(Kind::Reviewer, reviewer).below(100))
    }

    /// Draws a product for an offer or review: products in the middle have more, by a normal distribution over their
    /// numbers.
    #[inline]
    fn random_product(&self, random: &mut Stream) -> u64 {
        let bits = random.next();
        let away = self.half_normal.quantile(to_fraction(bits));
        let half = self.scale.products as f64 / 2.0;
        let position = if bits & 1 == 0 {
            half + away * half
        } else {
            half - away * half
        };
        (position as u64).min(self.scale.products - 1)
    }

    pub(super) fn product_type(&self, number: u64, lines: &mut Lines<'_>) {
        let mut random = self.stream(Kind::ProductType, number);
        let instance = |number: u64| (None, "ProductType", number - 1);
        let (origin, name, index) = instance(number);
        lines.subject(origin, name, index);
        lines.line(TYPE, CLASS_PRODUCT_TYPE);
        if let Some(parent) = self.tree.parent(number) {
            lines.label_and_comment(&mut random, COMMENT_WORDS);
            let (origin, name, index) = instance(parent);
            lines.instance(SUB_CLASS_OF, origin, name, index);
        } else {
            lines.literal(LABEL, b"Thing", PLAIN);
            lines.literal(COMMENT, b"The Product Type of all Products", PLAIN);
        }
        self.standardized(&mut random, lines);
    }

    pub(super) fn product_feature(&self, number: u64, lines: &mut Lines<'_>) {
        let mut random = self.stream(Kind::ProductFeature, number);
        lines.subject(None, "ProductFeature", number - 1);
        lines.line(TYPE, CLASS_PRODUCT_FEATURE);
        lines.label_and_comment(&mut random, COMMENT_WORDS);
        self.standardized(&mut random, lines);
    }

    fn standardized(&self, random: &mut Stream, lines: &mut Lines<'_>) {
        let date = self.date(random, STANDARD_DAYS);
        lines.published(None, "StandardizationInstitution", 0, date);
    }

    pub(super) fn producer(&self, number: u64, lines: &mut Lines<'_>) {
        let mut random = self.stream(Kind::Producer, number);
        let origin = Some(Origin::Producer(number));
        lines.subject(origin, "Producer", number);
        lines.line(TYPE, CLASS_PRODUCER);
        self.company(&mut random, b"<http://www.Producer", number, lines);
        let date = self.date(&mut random, PRODUCER_DAYS);
        lines.published(origin, "Producer", number, date);
    }

    pub(super) fn vendor(&self, number: u64, lines: &mut Lines<'_>) {
        let mut random = self.stream(Kind::Vendor, number);
        let origin = Some(Origin::Vendor(number));
        lines.subject(origin, "Vendor", number);
        lines.line(TYPE, CLASS_VENDOR);
        self.company(&mut random, b"<http://www.vendor", number, lines);
        let date = self.date(&mut random, OFFER_DAYS);
        lines.published(origin, "Vendor", number, date);
    }

    fn company(&self, random: &mut Stream, page: &[u8], number: u64, lines: &mut Lines<'_>) {
        let country = Country::at(random.below(100));
        lines.label_and_comment(random, COMMENT_WORDS);
        lines.open(HOMEPAGE);
        lines.out.extend_from_slice(page);
        push_number(lines.out, number + 1);
        lines.out.extend_from_slice(b".com/> .\n");
        lines.country(country);
    }

    pub(super) fn product(&self, number: u64, lines: &mut Lines<'_>) {
        let mut random = self.stream(Kind::Product, number);
        let producer = self.scale.producers.of(number);
        let origin = Some(Origin::Producer(producer));
        lines.subject(origin, "Product", number);
        lines.line(TYPE, CLASS_PRODUCT);
        lines.label_and_comment(&mut random, PRODUCT_COMMENT_WORDS);
        let mut next = Some(self.type_of_product(number));
        while let Some(product_type) = next {
            lines.instance(TYPE, None, "ProductType", product_type - 1);
            next = self.tree.parent(product_type);
        }
        lines.instance(PRODUCER, origin, "Producer", producer);
        let [numeric, textual] = self.properties_of_product(number);
        for (predicate, _) in NUMERIC.iter().zip(numeric).filter(|(_, has)| *has) {
            let value = self.half_normal.quantile(random.fraction()) * NUMERIC_MAX;
            lines.number(predicate, value as u64 + 1, XSD_INTEGER);
        }
        for (predicate, _) in TEXTUAL.iter().zip(textual).filter(|(_, has)| *has) {
            lines.text(predicate, &mut random, PROPERTY_WORDS, XSD_STRING);
        }
        self.features_of_product(number, |feature| {
            lines.instance(PRODUCT_FEATURE, None, "ProductFeature", feature - 1);
        });
        let date = self.date(&mut random, PRODUCT_DAYS);
        lines.published(origin, "Producer", producer, date);
    }

    /// Returns which numeric and which textual properties a product has.
    fn properties_of_product(&self, number: u64) -> [[bool; 6]; 2] {
        let mut point = self.options.at(number);
        let mut decide = |share: f64| decide(&mut point, share);
        let both = decide(BOTH_SHARE);
        let four_or_five = !both && decide(FOUR_OR_FIVE_SHARE / (1.0 - BOTH_SHARE));
        let [four, six] = if both {
            [[true; 2], [false; 2]]
        } else if four_or_five {
            [FOUR_SHARES.map(&mut decide), [false; 2]]
        } else {
            [[false; 2], SIX_SHARES.map(&mut decide)]
        };
        let five = FIVE_SHARES.map(|share| both || decide(share));
        [0, 1].map(|kind| [true, true, true, four[kind], five[kind], six[kind]])
    }

    pub(super) fn offer(&self, number: u64, lines: &mut Lines<'_>) {
        let mut random = self.stream(Kind::Offer, number);
        let vendor = self.scale.vendors.of(number);
        let origin = Some(Origin::Vendor(vendor));
        lines.subject(origin, "Offer", number);
        lines.line(TYPE, CLASS_OFFER);
        let product = self.random_product(&mut random);
        lines.instance(
            PRODUCT,
            Some(self.origin_of_product(product)),
            "Product",
            product,
        );
        lines.instance(VENDOR, origin, "Vendor", vendor);
        let cents = random.between(500, 999_999);
        lines.open(PRICE);
        lines.out.push(b'"');
        push_number(lines.out, u64::from(cents / 100));
        let digits = [
            b'.',
            b'0' + (cents / 10 % 10) as u8,
            b'0' + (cents % 10) as u8,
        ];
        lines.out.extend_from_slice(&digits);
        lines.out.extend_from_slice(USD);
        let day = random.between(*OFFER_DAYS.start(), *OFFER_DAYS.end());
        let from = day - random.between(0, 90);
        let to = day + random.between(7, 90);
        lines.literal(VALID_FROM, self.dates.text(from), XSD_DATE_TIME);
        lines.literal(VALID_TO, self.dates.text(to), XSD_DATE_TIME);
        let draw = random.below(1 << 16);
        let days = delivery_days(draw);
        lines.number(DELIVERY_DAYS, days, XSD_INTEGER);
        lines.page_of_subject(OFFER_WEBPAGE);
        lines.published(origin, "Vendor", vendor, self.dates.text(day));
    }

    pub(super) fn reviewer(&self, number: u64, lines: &mut Lines<'_>) {
        let mut random = self.stream(Kind::Reviewer, number);
        let country = Country::at(random.below(100));
        let site = self.scale.sites.of(number);
        let origin = Some(Origin::RatingSite(site));
        lines.subject(origin, "Reviewer", number);
        lines.line(TYPE, CLASS_PERSON);
        lines.open(NAME);
        lines.out.push(b'"');
        push_person(&mut random, lines.out);
        lines.out.extend_from_slice(PLAIN);
        lines.open(MBOX_SHA1SUM);
        lines.out.push(b'"');
        push_checksum(&mut random, lines.out);
        lines.out.extend_from_slice(PLAIN);
        lines.country(country);
        let date = self.date(&mut random, REVIEWER_DAYS);
        lines.published(origin, "RatingSite", site, date);
    }

    pub(super) fn review(&self, number: u64, lines: &mut Lines<'_>) {
        let mut random = self.stream(Kind::Review, number);
        let reviewer = self.scale.reviewers.of(number);
        let site = self.scale.sites.of(reviewer);
        let origin = Some(Origin::RatingSite(site));
        lines.subject(origin, "Review", number);
        lines.line(TYPE, CLASS_REVIEW);
        let product = self.random_product(&mut random);
        let of_product = Some(self.origin_of_product(product));
        lines.instance(REVIEW_FOR, of_product, "Product", product);
        lines.instance(REVIEWER, origin, "Reviewer", reviewer);
        let day = random.between(*REVIEW_DAYS.start(), *REVIEW_DAYS.end());
        lines.literal(REVIEW_DATE, self.dates.text(day), XSD_DATE_TIME);
        lines.text(TITLE, &mut random, TITLE_WORDS, PLAIN);
        lines.text(TEXT, &mut random, REVIEW_WORDS, b"\"@");
        let language = self.country_of_reviewer(reviewer).language;
        lines.out.extend_from_slice(language.as_bytes());
        lines.close();
        let mut bits = random.next();
        for predicate in RATING {
            if bits & 0xffff < RATING_OF_65536 {
                lines.number(predicate, u64::from(random.between(1, 10)), XSD_INTEGER);
            }
            bits >>= 16;
        }
        let published = random.between(day, TODAY - 1);
        lines.published(origin, "RatingSite", site, self.dates.text(published));
    }
}

/// Decides with the given probability by a point in `0.0..1.0`, and moves the point so that it decides the next
/// question independently.
///
/// Evenly spread points thus meet the share of every combination of answers almost exactly.
fn decide(point: &mut f64, share: f64) -> bool {
    let yes = *point < share;
    *point = if yes {
        *point / share
    } else {
        (*point - share) / (1.0 - share)
    };
    yes
}

/// Returns the days to deliver, by a draw in `0..2^16`.
fn delivery_days(draw: u32) -> u64 {
    let fewer = DELIVERED_OF_65536
        .iter()
        .take_while(|&&within| draw >= within)
        .count();
    fewer as u64 + 1
}

/// Appends a made-up mailbox checksum: twenty bytes in hexadecimal, a single digit for small ones, as the official
/// generator writes them.
fn push_checksum(random: &mut Stream, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut bits = 0;
    for index in 0..20 {
        bits = if index % 8 == 0 {
            random.next()
        } else {
            bits >> 8
        };
        let byte = (bits & 0xff) as usize;
        if byte >= 16 {
            out.push(DIGITS[byte / 16]);
        }
        out.push(DIGITS[byte % 16]);
    }
}
