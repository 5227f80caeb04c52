//! The generated Berlin SPARQL Benchmark data: valid, repeatable, cut into parts at will.

use oxrdf::{NamedNode, Term};
use oxttl::NTriplesParser;
use proptest::prelude::*;
use pythia_generate::bsbm::{Config, Parameters, expected_triples, reader, write_ntriples};
use pythia_generate::{GenerateError, Part, Summary};
use std::collections::{HashMap, HashSet};
use std::io::Read;

fn config(products: u64) -> Config {
    Config::new(products).expect("a valid number")
}

fn generate(config: &Config, part: Part) -> (Vec<u8>, Summary) {
    let mut bytes = Vec::new();
    let summary = write_ntriples(config, part, &mut bytes).expect("memory");
    (bytes, summary)
}

#[test]
fn data_are_valid_triples_without_duplicates() {
    for products in [1, 2, 60, 300] {
        let (bytes, summary) = generate(&config(products), Part::WHOLE);
        assert_eq!(summary.bytes, bytes.len() as u64);
        let mut triples = HashSet::new();
        for triple in NTriplesParser::new().for_slice(&bytes) {
            let triple = triple.expect("valid");
            assert!(!triples.contains(&triple), "{triple} is there twice");
            triples.insert(triple);
        }
        assert_eq!(triples.len() as u64, summary.triples);
    }
}

#[test]
fn every_instance_that_is_named_is_described() {
    let (bytes, _) = generate(&config(300), Part::WHOLE);
    let mut subjects = HashSet::new();
    let mut named: HashMap<String, String> = HashMap::new();
    for triple in NTriplesParser::new().for_slice(&bytes) {
        let triple = triple.expect("valid");
        subjects.insert(triple.subject.to_string());
        // Web pages are named, but not described, and so are publishers without data.
        let pages = ["offerWebpage", "publisher", "homepage"];
        let predicate = triple.predicate.as_str();
        if let Term::NamedNode(object) = &triple.object
            && object.as_str().contains("/instances/")
            && !pages.iter().any(|page| predicate.ends_with(page))
        {
            named.insert(object.to_string(), predicate.to_owned());
        }
    }
    for (object, predicate) in named {
        assert!(subjects.contains(&object), "{object} of {predicate}");
    }
}

#[test]
fn same_configuration_gives_same_bytes() {
    let config = config(50);
    let (first, _) = generate(&config, Part::WHOLE);
    assert!(first == generate(&config, Part::WHOLE).0);
    let other = config.with_seed(config.seed() + 1);
    let (second, _) = generate(&other, Part::WHOLE);
    assert!(first != second);
}

/// Changes of the generator must be deliberate: stores and results are compared by it.
#[test]
fn bytes_do_not_change_from_version_to_version() {
    let (bytes, summary) = generate(&config(100), Part::WHOLE);
    // FNV-1a
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let found = (summary.triples, summary.bytes, hash);
    assert_eq!(
        found,
        (40_813, 10_290_908, 0xba14_8e79_26a8_1550),
        "{hash:#x}"
    );
}

#[test]
fn reader_reads_what_is_written() {
    let config = config(40);
    let (written, summary) = generate(&config, Part::WHOLE);
    let mut reader = reader(&config, Part::WHOLE);
    let mut read = Vec::new();
    reader.read_to_end(&mut read).expect("memory");
    assert!(read == written);
    assert_eq!(reader.summary(), summary);
}

#[test]
fn expected_number_of_triples_is_close() {
    for (products, percent) in [(1, 20.0), (10, 5.0), (100, 2.0), (1000, 0.5), (5000, 0.3)] {
        let config = config(products);
        let mut reader = reader(&config, Part::WHOLE);
        std::io::copy(&mut reader, &mut std::io::sink()).expect("a sink");
        let triples = reader.summary().triples as f64;
        let error = (expected_triples(&config) as f64 / triples - 1.0) * 100.0;
        assert!(error.abs() <= percent, "{products}: {error} %");
    }
}

#[test]
fn larger_scales_are_as_large_as_officially() {
    // The official generator makes 10,095,035 triples of 28,480 products.
    let expected = expected_triples(&config(28_480)) as f64;
    assert!((expected / 10_095_035.0 - 1.0).abs() < 0.005, "{expected}");
}

#[test]
fn parts_of_a_huge_data_set_can_be_generated_alone() {
    // 50 billion triples: the first and the last part in a million.
    let config = config(141_000_000);
    for number in [1, 500_000, 1_000_000] {
        let part = Part::new(number, 1_000_000).expect("valid");
        let (bytes, summary) = generate(&config, part);
        assert!((20_000..80_000).contains(&summary.triples), "{summary:?}");
        assert!(bytes.ends_with(b" .\n"));
    }
}

#[test]
fn sizes_out_of_range_are_refused() {
    for products in [0, u64::MAX] {
        let result = Config::new(products);
        assert!(matches!(result, Err(GenerateError::Config { .. })));
    }
}

#[test]
fn parameters_name_what_is_in_the_data() {
    let config = config(300);
    let parameters = Parameters::new(&config);
    let (bytes, _) = generate(&config, Part::WHOLE);
    let mut subjects = HashSet::new();
    let mut features: HashMap<String, HashSet<String>> = HashMap::new();
    let mut types: HashMap<String, HashSet<String>> = HashMap::new();
    for triple in NTriplesParser::new().for_slice(&bytes) {
        let triple = triple.expect("valid");
        let subject = triple.subject.to_string();
        if let Term::NamedNode(object) = triple.object {
            let list = match triple.predicate.as_str() {
                name if name.ends_with("#type") => &mut types,
                name if name.ends_with("/productFeature") => &mut features,
                _ => continue,
            };
            list.entry(subject.clone())
                .or_default()
                .insert(object.into_string());
        }
        subjects.insert(subject);
    }
    let node = |iri: String| NamedNode::new(iri).expect("valid").to_string();
    let mut named = HashSet::new();
    type Iri = fn(&Parameters, u64) -> String;
    let kinds: [(u64, Iri); 8] = [
        (parameters.product_types(), Parameters::product_type_iri),
        (
            parameters.product_features(),
            Parameters::product_feature_iri,
        ),
        (parameters.producers(), Parameters::producer_iri),
        (parameters.products(), Parameters::product_iri),
        (parameters.vendors(), Parameters::vendor_iri),
        (parameters.offers(), Parameters::offer_iri),
        (parameters.reviewers(), Parameters::reviewer_iri),
        (parameters.reviews(), Parameters::review_iri),
    ];
    for (count, iri) in kinds {
        named.extend((1..=count).map(|number| node(iri(&parameters, number))));
    }
    assert!(named == subjects);
    for product in 1..=parameters.products() {
        let subject = node(parameters.product_iri(product));
        let own: HashSet<String> = parameters
            .features_of_product(product)
            .into_iter()
            .map(|feature| parameters.product_feature_iri(feature))
            .collect();
        assert_eq!(features.get(&subject), Some(&own));
        let leaf = parameters.type_of_product(product);
        assert!(parameters.leaf_types().contains(&leaf));
        let mut next = Some(leaf);
        let mut count = 1;
        while let Some(product_type) = next {
            assert!(types[&subject].contains(&parameters.product_type_iri(product_type)));
            next = parameters.parent_of_type(product_type);
            count += 1;
        }
        assert_eq!(types[&subject].len(), count);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    #[test]
    fn parts_are_the_whole(products in 1_u64..25, parts in 1_u32..40, seed: u64) {
        let config = config(products).with_seed(seed);
        let (whole, summary) = generate(&config, Part::WHOLE);
        let mut joined = Vec::new();
        let mut triples = 0;
        for part in Part::all(parts) {
            let (bytes, summary) = generate(&config, part);
            joined.extend_from_slice(&bytes);
            triples += summary.triples;
        }
        prop_assert!(joined == whole);
        prop_assert_eq!(triples, summary.triples);
    }
}
