//! The Pythia paper's six parameterised queries and its three fixed ones (§4.3, appendix A), in SPARQL 1.1: a path of
//! one predicate is `predicate+` instead of the paper's `pathfilter(containsOnly(??path, <predicate>))`.

/// Prefixes of the queries.
pub(crate) const PROLOGUE: &str = "PREFIX y: <http://yago-knowledge.org/resource/>\n";

/// A query with parameters, written `%name%` in its text.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) parameters: &'static [&'static str],
    pub(crate) text: &'static str,
    pub(crate) draw: Draw,
}

/// The source of parameter values: queries whose rows all have an answer.
#[derive(Debug)]
pub(crate) enum Draw {
    /// Each row of this query is one set of values.
    Rows(&'static str),
    /// Each row of the first query gives the last parameter; the second query, with that parameter filled in, gives the
    /// other one. Used if one query would be too large.
    Stepwise {
        last: &'static str,
        other: &'static str,
        /// Number of drawn values of the last parameter.
        last_max: usize,
    },
}

/// The six templates, numbered as in the paper.
pub(crate) const TEMPLATES: [Template; 6] = [
    Template {
        name: "1 citizens",
        title: "citizens of a country with a gender",
        parameters: &["country", "gender"],
        text: "SELECT ?s WHERE { ?s y:isCitizenOf %country% . ?s y:hasGender %gender% }",
        draw: Draw::Rows(
            "SELECT DISTINCT ?country ?gender WHERE \
             { ?s y:isCitizenOf ?country . ?s y:hasGender ?gender }",
        ),
    },
    Template {
        name: "2 events",
        title: "events of a type a country participated in",
        parameters: &["country", "type"],
        text: "SELECT ?s WHERE { %country% y:participatedIn ?s . ?s a %type% }",
        draw: Draw::Rows(
            "SELECT DISTINCT ?country ?type WHERE { ?country y:participatedIn ?s . ?s a ?type }",
        ),
    },
    Template {
        name: "3 movies",
        title: "movies of a type an actor acted in",
        parameters: &["actor", "type"],
        text: "SELECT ?s WHERE { ?s a %type% . %actor% y:actedIn ?s }",
        draw: Draw::Rows("SELECT DISTINCT ?actor ?type WHERE { ?actor y:actedIn ?s . ?s a ?type }"),
    },
    Template {
        name: "4 places",
        title: "places of a type located, directly or ultimately, in a country",
        parameters: &["type", "country"],
        text: "SELECT ?s WHERE { ?s a %type% . ?s y:isLocatedIn+ %country% }",
        draw: Draw::Stepwise {
            last: "SELECT DISTINCT ?country WHERE \
                   { ?citizen y:isCitizenOf ?country . ?place y:isLocatedIn ?country }",
            other: "SELECT DISTINCT ?type WHERE { ?s y:isLocatedIn+ %country% . ?s a ?type }",
            last_max: 64,
        },
    },
    Template {
        name: "5 ancestors",
        title: "all ancestors of a person",
        parameters: &["person"],
        text: "SELECT ?s WHERE { ?s y:hasChild+ %person% }",
        draw: Draw::Rows("SELECT DISTINCT ?person WHERE { ?s y:hasChild ?person }"),
    },
    Template {
        name: "6 ancestors, gender",
        title: "ancestors of a person with a gender",
        parameters: &["person", "gender"],
        text: "SELECT ?s WHERE { ?s y:hasChild+ %person% . ?s y:hasGender %gender% }",
        draw: Draw::Rows(
            "SELECT DISTINCT ?person ?gender WHERE \
             { ?s y:hasChild ?person . ?s y:hasGender ?gender }",
        ),
    },
];

/// A query without parameters, and the paper's result for it.
#[derive(Debug)]
pub(crate) struct FixedQuery {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) text: &'static str,
    /// RDF-3X's time divided by Pythia's in the paper (§4.5, Figure 11), which gives no times.
    pub(crate) paper_speed_up: f64,
    /// RDF-3X's time in milliseconds on all 665,000 triples of the available sample, where it was measured: apart from
    /// Pythia, on a machine like this one (2 cores), on 2026-11-21.
    pub(crate) rdf_3x_ms: Option<f64>,
}

/// Q1–Q3. The available YAGO samples lack the classes of the paper's Q2 (OECD member economies) and Q3 (mafia films,
/// with Al Pacino); the nearest classes with answers replace them.
pub(crate) const FIXED: [FixedQuery; 3] = [
    FixedQuery {
        name: "Q1",
        title: "male citizens of Greece",
        text: "SELECT ?s WHERE { ?s y:hasGender y:male . ?s y:isCitizenOf y:Greece }",
        paper_speed_up: 4.45,
        rdf_3x_ms: Some(3.1),
    },
    FixedQuery {
        name: "Q2",
        title: "members of NATO that Switzerland deals with",
        text: "SELECT ?s WHERE \
               { ?s a y:wikicat_Member_states_of_NATO . y:Switzerland y:dealsWith ?s }",
        paper_speed_up: 4.69,
        rdf_3x_ms: None,
    },
    FixedQuery {
        name: "Q3",
        title: "movies that Henry Fonda acted in",
        text: "SELECT ?s WHERE { ?s a y:wordnet_movie_106613686 . y:Henry_Fonda y:actedIn ?s }",
        paper_speed_up: 0.97,
        rdf_3x_ms: None,
    },
];

/// Replaces the parameters of a text with values in N-Triples syntax.
pub(crate) fn fill(text: &str, parameters: &[&str], values: &[String]) -> String {
    let mut filled = format!("{PROLOGUE}{text}");
    for (parameter, value) in parameters.iter().zip(values) {
        filled = filled.replace(&format!("%{parameter}%"), value);
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_parses_once_its_parameters_are_filled() {
        let iri = "<http://example.com/%41>".to_owned();
        for template in &TEMPLATES {
            let values = vec![iri.clone(); template.parameters.len()];
            let text = fill(template.text, template.parameters, &values);
            pythia::Query::parse(&text, None).expect(template.name);
            let queries = match template.draw {
                Draw::Rows(rows) => vec![rows],
                Draw::Stepwise { last, other, .. } => vec![last, other],
            };
            for query in queries {
                let text = fill(query, template.parameters, &values);
                pythia::Query::parse(&text, None).expect(template.name);
            }
        }
        for fixed in &FIXED {
            pythia::Query::parse(&fill(fixed.text, &[], &[]), None).expect(fixed.name);
        }
    }
}
