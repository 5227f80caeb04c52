//! The names of the schema, as pieces of N-Triples lines.
//!
//! A predicate includes the space before and after it; an object and a datatype include the end of the line.

/// The prefix of the path of every instance, after the opening bracket.
pub(super) const INSTANCES: &str = "http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/instances/";

macro_rules! vocabulary {
    ($name:expr) => {
        concat!(
            "http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/vocabulary/",
            $name
        )
    };
}
macro_rules! predicate {
    ($iri:expr) => {
        concat!(" <", $iri, "> ").as_bytes()
    };
}
macro_rules! object {
    ($iri:expr) => {
        concat!("<", $iri, "> .\n").as_bytes()
    };
}
macro_rules! datatype {
    ($iri:expr) => {
        concat!("\"^^<", $iri, "> .\n").as_bytes()
    };
}
macro_rules! property {
    ($kind:literal, $($number:literal)*) => {
        [$(predicate!(vocabulary!(concat!("productProperty", $kind, $number)))),*]
    };
}

pub(super) const TYPE: &[u8] = predicate!("http://www.w3.org/1999/02/22-rdf-syntax-ns#type");
pub(super) const LABEL: &[u8] = predicate!("http://www.w3.org/2000/01/rdf-schema#label");
pub(super) const COMMENT: &[u8] = predicate!("http://www.w3.org/2000/01/rdf-schema#comment");
pub(super) const SUB_CLASS_OF: &[u8] =
    predicate!("http://www.w3.org/2000/01/rdf-schema#subClassOf");
pub(super) const PUBLISHER: &[u8] = predicate!("http://purl.org/dc/elements/1.1/publisher");
pub(super) const DATE: &[u8] = predicate!("http://purl.org/dc/elements/1.1/date");
pub(super) const TITLE: &[u8] = predicate!("http://purl.org/dc/elements/1.1/title");
pub(super) const NAME: &[u8] = predicate!("http://xmlns.com/foaf/0.1/name");
pub(super) const MBOX_SHA1SUM: &[u8] = predicate!("http://xmlns.com/foaf/0.1/mbox_sha1sum");
pub(super) const HOMEPAGE: &[u8] = predicate!("http://xmlns.com/foaf/0.1/homepage");
pub(super) const TEXT: &[u8] = predicate!("http://purl.org/stuff/rev#text");
pub(super) const REVIEWER: &[u8] = predicate!("http://purl.org/stuff/rev#reviewer");

pub(super) const COUNTRY: &[u8] = predicate!(vocabulary!("country"));
pub(super) const PRODUCER: &[u8] = predicate!(vocabulary!("producer"));
pub(super) const PRODUCT_FEATURE: &[u8] = predicate!(vocabulary!("productFeature"));
pub(super) const PRODUCT: &[u8] = predicate!(vocabulary!("product"));
pub(super) const VENDOR: &[u8] = predicate!(vocabulary!("vendor"));
pub(super) const PRICE: &[u8] = predicate!(vocabulary!("price"));
pub(super) const VALID_FROM: &[u8] = predicate!(vocabulary!("validFrom"));
pub(super) const VALID_TO: &[u8] = predicate!(vocabulary!("validTo"));
pub(super) const DELIVERY_DAYS: &[u8] = predicate!(vocabulary!("deliveryDays"));
pub(super) const OFFER_WEBPAGE: &[u8] = predicate!(vocabulary!("offerWebpage"));
pub(super) const REVIEW_FOR: &[u8] = predicate!(vocabulary!("reviewFor"));
pub(super) const REVIEW_DATE: &[u8] = predicate!(vocabulary!("reviewDate"));
pub(super) const NUMERIC: [&[u8]; 6] = property!("Numeric", 1 2 3 4 5 6);
pub(super) const TEXTUAL: [&[u8]; 6] = property!("Textual", 1 2 3 4 5 6);
pub(super) const RATING: [&[u8]; 4] = [
    predicate!(vocabulary!("rating1")),
    predicate!(vocabulary!("rating2")),
    predicate!(vocabulary!("rating3")),
    predicate!(vocabulary!("rating4")),
];

pub(super) const CLASS_PRODUCT_TYPE: &[u8] = object!(vocabulary!("ProductType"));
pub(super) const CLASS_PRODUCT_FEATURE: &[u8] = object!(vocabulary!("ProductFeature"));
pub(super) const CLASS_PRODUCER: &[u8] = object!(vocabulary!("Producer"));
pub(super) const CLASS_PRODUCT: &[u8] = object!(vocabulary!("Product"));
pub(super) const CLASS_VENDOR: &[u8] = object!(vocabulary!("Vendor"));
pub(super) const CLASS_OFFER: &[u8] = object!(vocabulary!("Offer"));
pub(super) const CLASS_PERSON: &[u8] = object!("http://xmlns.com/foaf/0.1/Person");
pub(super) const CLASS_REVIEW: &[u8] = object!("http://purl.org/stuff/rev#Review");

pub(super) const PLAIN: &[u8] = b"\" .\n";
pub(super) const XSD_INTEGER: &[u8] = datatype!("http://www.w3.org/2001/XMLSchema#integer");
pub(super) const XSD_STRING: &[u8] = datatype!("http://www.w3.org/2001/XMLSchema#string");
pub(super) const XSD_DATE: &[u8] = datatype!("http://www.w3.org/2001/XMLSchema#date");
/// The rest of a literal after a date: midnight of that day.
pub(super) const XSD_DATE_TIME: &[u8] = concat!(
    "T00:00:00\"^^<",
    "http://www.w3.org/2001/XMLSchema#dateTime",
    "> .\n"
)
.as_bytes();
pub(super) const USD: &[u8] = datatype!(vocabulary!("USD"));

/// The IRI prefix of country codes.
pub(super) const COUNTRIES: &str = "http://downlode.org/rdf/iso-3166/countries#";

/// A country of producers, vendors and reviewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Country {
    /// Its ISO 3166 code.
    pub code: &'static str,
    /// The language of its reviewers.
    pub language: &'static str,
    /// Its share, in percent.
    pub percent: u32,
}

impl Country {
    /// All countries.
    pub const ALL: [Self; 10] = [
        Self::new("US", "en", 40),
        Self::new("GB", "en", 10),
        Self::new("JP", "ja", 10),
        Self::new("CN", "zh", 10),
        Self::new("DE", "de", 5),
        Self::new("FR", "fr", 5),
        Self::new("ES", "es", 5),
        Self::new("RU", "ru", 5),
        Self::new("KR", "ko", 5),
        Self::new("AT", "de", 5),
    ];

    const fn new(code: &'static str, language: &'static str, percent: u32) -> Self {
        Self {
            code,
            language,
            percent,
        }
    }

    /// Returns its IRI.
    pub fn iri(self) -> String {
        format!("{COUNTRIES}{}", self.code)
    }

    /// Returns the country at this percentile of the population, in `0..100`.
    pub(super) fn at(mut percentile: u32) -> Self {
        for country in Self::ALL {
            if percentile < country.percent {
                return country;
            }
            percentile -= country.percent;
        }
        Self::ALL[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn countries_share_the_population() {
        let mut counts = [0; Country::ALL.len()];
        for percentile in 0..100 {
            let country = Country::at(percentile);
            let index = Country::ALL.iter().position(|&other| other == country);
            counts[index.expect("one of all")] += 1;
        }
        assert_eq!(counts, Country::ALL.map(|country| country.percent));
    }
}
