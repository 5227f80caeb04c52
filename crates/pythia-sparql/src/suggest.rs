//! Suggestions for misspelt words.

/// Well-known prefixes and their IRIs.
const PREFIXES: [(&str, &str); 37] = [
    ("agg", "http://jena.apache.org/ARQ/function/aggregate#"),
    ("bd", "http://www.bigdata.com/rdf#"),
    ("dbo", "http://dbpedia.org/ontology/"),
    ("dbp", "http://dbpedia.org/property/"),
    ("dbr", "http://dbpedia.org/resource/"),
    ("dc", "http://purl.org/dc/elements/1.1/"),
    ("dcat", "http://www.w3.org/ns/dcat#"),
    ("dct", "http://purl.org/dc/terms/"),
    ("dcterms", "http://purl.org/dc/terms/"),
    ("foaf", "http://xmlns.com/foaf/0.1/"),
    ("fn", "http://www.w3.org/2005/xpath-functions#"),
    ("geo", "http://www.opengis.net/ont/geosparql#"),
    ("geof", "http://www.opengis.net/def/function/geosparql/"),
    ("gr", "http://purl.org/goodrelations/v1#"),
    ("math", "http://www.w3.org/2005/xpath-functions/math#"),
    ("org", "http://www.w3.org/ns/org#"),
    ("owl", "http://www.w3.org/2002/07/owl#"),
    ("p", "http://www.wikidata.org/prop/"),
    ("pq", "http://www.wikidata.org/prop/qualifier/"),
    ("prov", "http://www.w3.org/ns/prov#"),
    ("ps", "http://www.wikidata.org/prop/statement/"),
    ("qb", "http://purl.org/linked-data/cube#"),
    ("rdf", "http://www.w3.org/1999/02/22-rdf-syntax-ns#"),
    ("rdfs", "http://www.w3.org/2000/01/rdf-schema#"),
    ("schema", "http://schema.org/"),
    ("sh", "http://www.w3.org/ns/shacl#"),
    ("sioc", "http://rdfs.org/sioc/ns#"),
    ("skos", "http://www.w3.org/2004/02/skos/core#"),
    ("sosa", "http://www.w3.org/ns/sosa/"),
    ("time", "http://www.w3.org/2006/time#"),
    ("vcard", "http://www.w3.org/2006/vcard/ns#"),
    ("void", "http://rdfs.org/ns/void#"),
    ("wd", "http://www.wikidata.org/entity/"),
    ("wdt", "http://www.wikidata.org/prop/direct/"),
    ("wikibase", "http://wikiba.se/ontology#"),
    ("xsd", "http://www.w3.org/2001/XMLSchema#"),
    ("yago", "http://yago-knowledge.org/resource/"),
];

/// Returns the well-known prefixes with their IRIs, sorted.
pub fn well_known_prefixes() -> &'static [(&'static str, &'static str)] {
    &PREFIXES
}

/// Returns the names of SPARQL's functions.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|function| function.name)
}

/// Returns the usual IRI of a prefix.
pub(crate) fn prefix_iri(prefix: &str) -> Option<&'static str> {
    let known = PREFIXES.iter().find(|(name, _)| *name == prefix)?;
    Some(known.1)
}

/// A built-in function with its number of arguments.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) arguments: (usize, usize),
}

const fn function(name: &'static str, from: usize, to: usize) -> Function {
    let arguments = (from, to);
    Function { name, arguments }
}

/// The functions of SPARQL 1.2. `COALESCE` and `CONCAT` take any number.
const FUNCTIONS: [Function; 67] = [
    function("ABS", 1, 1),
    function("BNODE", 0, 1),
    function("BOUND", 1, 1),
    function("CEIL", 1, 1),
    function("COALESCE", 0, usize::MAX),
    function("CONCAT", 0, usize::MAX),
    function("CONTAINS", 2, 2),
    function("DATATYPE", 1, 1),
    function("DAY", 1, 1),
    function("ENCODE_FOR_URI", 1, 1),
    function("FLOOR", 1, 1),
    function("HASLANG", 1, 1),
    function("HASLANGDIR", 1, 1),
    function("HOURS", 1, 1),
    function("IF", 3, 3),
    function("IRI", 1, 1),
    function("ISBLANK", 1, 1),
    function("ISIRI", 1, 1),
    function("ISLITERAL", 1, 1),
    function("ISNUMERIC", 1, 1),
    function("ISTRIPLE", 1, 1),
    function("ISURI", 1, 1),
    function("LANG", 1, 1),
    function("LANGDIR", 1, 1),
    function("LANGMATCHES", 2, 2),
    function("LCASE", 1, 1),
    function("MD5", 1, 1),
    function("MINUTES", 1, 1),
    function("MONTH", 1, 1),
    function("NOW", 0, 0),
    function("OBJECT", 1, 1),
    function("PREDICATE", 1, 1),
    function("RAND", 0, 0),
    function("REGEX", 2, 3),
    function("REPLACE", 3, 4),
    function("ROUND", 1, 1),
    function("SAMETERM", 2, 2),
    function("SECONDS", 1, 1),
    function("SHA1", 1, 1),
    function("SHA256", 1, 1),
    function("SHA384", 1, 1),
    function("SHA512", 1, 1),
    function("STR", 1, 1),
    function("STRAFTER", 2, 2),
    function("STRBEFORE", 2, 2),
    function("STRDT", 2, 2),
    function("STRENDS", 2, 2),
    function("STRLANG", 2, 2),
    function("STRLANGDIR", 3, 3),
    function("STRLEN", 1, 1),
    function("STRSTARTS", 2, 2),
    function("STRUUID", 0, 0),
    function("SUBJECT", 1, 1),
    function("SUBSTR", 2, 3),
    function("TIMEZONE", 1, 1),
    function("TRIPLE", 3, 3),
    function("TZ", 1, 1),
    function("UCASE", 1, 1),
    function("URI", 1, 1),
    function("UUID", 0, 0),
    function("YEAR", 1, 1),
    // Aggregates; their arguments are parsed separately.
    function("COUNT", 1, 1),
    function("SUM", 1, 1),
    function("MIN", 1, 1),
    function("MAX", 1, 1),
    function("AVG", 1, 1),
    function("SAMPLE", 1, 1),
];

/// The aggregates; `GROUP_CONCAT` may have a separator.
const AGGREGATES: [&str; 7] = [
    "COUNT",
    "SUM",
    "MIN",
    "MAX",
    "AVG",
    "SAMPLE",
    "GROUP_CONCAT",
];

/// Returns the built-in function of this name, ignoring case.
pub(crate) fn built_in(name: &str) -> Option<&'static Function> {
    FUNCTIONS
        .iter()
        .find(|known| known.name.eq_ignore_ascii_case(name))
}

/// Returns whether a name is an aggregate.
pub(crate) fn is_aggregate(name: &str) -> bool {
    AGGREGATES
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

/// Returns the function that a name probably misspells.
pub(crate) fn nearest_function(name: &str) -> Option<&'static str> {
    let aggregate = std::iter::once("GROUP_CONCAT");
    nearest(
        name,
        FUNCTIONS.iter().map(|known| known.name).chain(aggregate),
    )
}

/// Returns the word of `words` that was probably meant. The words are in upper case; `GROUP BY` counts as
/// one.
pub fn nearest<'w>(word: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let word = word.to_ascii_uppercase();
    let distance = |known: &&str| {
        let glued = known.replace(' ', "");
        let first = known.split(' ').next().unwrap_or_default();
        let by_letter = strsim::osa_distance(&word, &glued);
        if first.len() < glued.len() {
            by_letter.min(strsim::osa_distance(&word, first))
        } else {
            by_letter
        }
    };
    let (distance, known) = words
        .into_iter()
        .map(|known| (distance(&known), known))
        .min_by_key(|(distance, _)| *distance)?;
    // One typing error in a short word, two in a longer one.
    let slips = match word.len() {
        0..=2 => 0,
        3..=4 => 1,
        _ => 2,
    };
    (distance <= slips).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised() {
        let keywords = [
            "SELECT", "FILTER", "OPTIONAL", "GROUP BY", "UNION", "LIMIT", "BIND",
        ];
        for (word, meant) in [
            ("SELCT", Some("SELECT")),
            ("fitler", Some("FILTER")),
            ("OPTINAL", Some("OPTIONAL")),
            ("GROUPBY", Some("GROUP BY")),
            ("GORUP", Some("GROUP BY")),
            ("UNOIN", Some("UNION")),
            ("LIMTI", Some("LIMIT")),
            ("banana", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, keywords), meant, "{word}");
        }
        assert_eq!(nearest_function("STRLN"), Some("STRLEN"));
        assert_eq!(nearest_function("GROUPCONCAT"), Some("GROUP_CONCAT"));
    }
}
