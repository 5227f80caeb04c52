use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

fn text(config: &Config, part: Part) -> String {
    let mut bytes = Vec::new();
    let summary = write_ntriples(config, part, &mut bytes).expect("memory");
    let text = String::from_utf8(bytes).expect("ASCII");
    assert_eq!(summary.triples, text.lines().count() as u64);
    assert_eq!(summary.bytes, text.len() as u64);
    text
}

fn edges(config: &Config) -> Vec<(u64, u64)> {
    let number = |iri: &str| {
        let text = iri.trim_start_matches('<').trim_end_matches('>');
        text.strip_prefix(config.namespace.as_str())
            .expect("in the namespace")
            .parse::<u64>()
            .expect("a number")
    };
    text(config, Part::WHOLE)
        .lines()
        .map(|line| {
            let terms: Vec<&str> = line.split(' ').collect();
            assert_eq!(terms[1], format!("<{}>", config.predicate_iri()));
            (number(terms[0]), number(terms[2]))
        })
        .collect()
}

fn degrees(ends: impl Iterator<Item = u64>) -> HashMap<u64, u32> {
    let mut degrees = HashMap::new();
    for end in ends {
        *degrees.entry(end).or_default() += 1;
    }
    degrees
}

fn power_law(nodes: u64) -> Config {
    Config::new(nodes)
        .and_then(|config| config.with_shape(Shape::PowerLaw { exponent: 2.3 }))
        .and_then(|config| config.with_degrees(1..=2000))
        .expect("valid")
}

#[test]
fn uniform_graph_has_the_degrees_of_the_experiment() {
    let config = Config::new(5000).expect("valid");
    let edges = edges(&config);
    let out = degrees(edges.iter().map(|edge| edge.0));
    assert_eq!(out.len(), 5000);
    assert_eq!(out.values().min(), Some(&3));
    assert_eq!(out.values().max(), Some(&30));
    let expected = expected_triples(&config) as f64;
    assert!((edges.len() as f64 / expected - 1.0).abs() < 0.02);
    let into = degrees(edges.iter().map(|edge| edge.1));
    assert!(into.values().max().is_some_and(|&degree| degree < 50));
}

#[test]
fn power_law_graph_has_hubs() {
    let config = power_law(20_000);
    let edges = edges(&config);
    let expected = expected_triples(&config) as f64;
    let error = edges.len() as f64 / expected - 1.0;
    assert!(error.abs() < 0.1, "{error}");
    let into = degrees(edges.iter().map(|edge| edge.1));
    let mut in_degrees: Vec<u32> = into.into_values().collect();
    in_degrees.sort_unstable();
    let top: u32 = in_degrees.iter().rev().take(200).sum();
    assert!(f64::from(top) > 0.2 * edges.len() as f64, "{top}");
    // The first numbers are not the hubs.
    let low = edges.iter().filter(|edge| edge.1 < 200).count();
    assert!((low as f64) < 0.1 * edges.len() as f64, "{low}");
}

#[test]
fn in_degrees_follow_the_exponent() {
    let config = Config::new(100_000)
        .and_then(|config| config.with_shape(Shape::PowerLaw { exponent: 2.5 }))
        .and_then(|config| config.with_degrees(4..=4000))
        .expect("valid");
    let into = degrees(edges(&config).iter().map(|edge| edge.1));
    let at_least = |degree| into.values().filter(|&&d| d >= degree).count() as f64;
    // The tail falls with the exponent less one.
    let slope = (at_least(50) / at_least(400)).ln() / 8_f64.ln();
    assert!((1.25..1.75).contains(&slope), "{slope}");
}

#[test]
fn settings_are_checked() {
    assert!(Config::new(0).is_err());
    let config = Config::new(10).expect("valid");
    #[expect(clippy::reversed_empty_ranges, reason = "what is to be refused")]
    let reversed = config.clone().with_degrees(5..=4);
    assert!(reversed.is_err());
    for exponent in [2.0, -1.0, 11.0, f64::NAN] {
        let shape = Shape::PowerLaw { exponent };
        assert!(config.clone().with_shape(shape).is_err());
    }
    for iri in ["", "no scheme", "http://a b", "http://a>", "1a:b", "a\\b:c"] {
        assert!(config.clone().with_predicate(iri).is_err(), "{iri}");
        assert!(config.clone().with_namespace(iri).is_err(), "{iri}");
    }
    assert!(config.with_predicate("urn:p").is_ok());
}

#[test]
fn labels_are_readable_and_different() {
    let config = Config::new(50).expect("valid").with_labels(true);
    let text = text(&config, Part::WHOLE);
    let labels: HashSet<&str> = text
        .lines()
        .filter(|line| line.contains("#label"))
        .map(|line| line.split('"').nth(1).expect("a literal"))
        .collect();
    assert_eq!(labels.len(), 50);
    assert!(labels.iter().all(|label| label.split(' ').count() == 3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn edges_are_simple_and_parts_are_the_whole(
        nodes in 1_u64..60, min in 0_u32..20, extra in 0_u32..70, parts in 1_u32..9,
        seed: u64, skewed: bool, labels: bool,
    ) {
        let mut config = Config::new(nodes)
            .and_then(|config| config.with_degrees(min..=min + extra))
            .expect("valid")
            .with_seed(seed);
        if skewed {
            config = config.with_shape(Shape::PowerLaw { exponent: 2.1 }).expect("valid");
        }
        let list = edges(&config);
        let mut distinct = HashSet::new();
        for edge in &list {
            prop_assert!(edge.0 < nodes && edge.1 < nodes && edge.0 != edge.1);
            prop_assert!(distinct.insert(*edge));
        }
        let config = config.with_labels(labels);
        let whole = text(&config, Part::WHOLE);
        let joined: String = Part::all(parts).map(|part| text(&config, part)).collect();
        prop_assert!(whole == joined);
    }
}
