//! Language tags in the form that RFC 5646 §2.1.1 recommends: `en-GB`, `zh-Hant-TW`. Dictionaries keep them in
//! lower case, so that tags that differ only in case are the same; they get this form when terms leave the store.

use std::borrow::Cow;

use oxrdf::{Literal, Term};

/// Returns a language tag in the form that RFC 5646 recommends. All parts are in lower case, except parts of two
/// letters (upper case) and of four letters (capitalized) that are neither first nor after a part of one letter,
/// which begins an extension.
pub fn recommended_form(tag: &str) -> Cow<'_, str> {
    if !tag.contains('-') && !tag.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Borrowed(tag);
    }
    let mut formed = String::with_capacity(tag.len());
    let mut is_extension = false;
    for part in tag.split('-') {
        let is_first = formed.is_empty();
        if !is_first {
            formed.push('-');
        }
        let start = formed.len();
        formed.push_str(part);
        let added = &mut formed[start..];
        added.make_ascii_lowercase();
        match part.len() {
            1 => is_extension = true,
            _ if is_first || is_extension => {}
            2 => added.make_ascii_uppercase(),
            4 => {
                if let Some(first) = added.get_mut(..1) {
                    first.make_ascii_uppercase();
                }
            }
            _ => {}
        }
    }
    Cow::Owned(formed)
}

/// Gives the language tags of a term, and of the triples in it, their recommended form.
pub fn recommend_form(term: &mut Term) {
    match term {
        Term::Literal(literal) => {
            let Some(Cow::Owned(language)) = literal.language().map(recommended_form) else {
                return;
            };
            let direction = literal.direction();
            let taken = std::mem::replace(literal, Literal::new_simple_literal(""));
            let value = taken.destruct().0;
            *literal = match direction {
                None => Literal::new_language_tagged_literal_unchecked(value, language),
                Some(direction) => Literal::new_directional_language_tagged_literal_unchecked(
                    value, language, direction,
                ),
            };
        }
        Term::Triple(triple) => recommend_form(&mut triple.object),
        Term::NamedNode(_) | Term::BlankNode(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use oxrdf::{NamedNode, Triple};

    use super::*;

    #[test]
    fn tags_have_the_form_that_rfc_5646_recommends() {
        for (tag, expected) in [
            ("en", "en"),
            ("EN", "en"),
            ("en-gb", "en-GB"),
            ("mn-cyrl-mn", "mn-Cyrl-MN"),
            ("zh-hant-tw", "zh-Hant-TW"),
            ("en-ca-x-ca", "en-CA-x-ca"),
            ("sgn-be-fr", "sgn-BE-FR"),
            ("az-latn-x-latn", "az-Latn-x-latn"),
            ("de-1996", "de-1996"),
            ("es-419", "es-419"),
            ("x-whatever-gb", "x-whatever-gb"),
            ("de-ch-u-co-phonebk", "de-CH-u-co-phonebk"),
        ] {
            assert_eq!(recommended_form(tag), expected, "{tag}");
        }
    }

    #[test]
    fn terms_get_the_form_also_within_triples() {
        let literal = Literal::new_language_tagged_literal_unchecked("a", "en-gb");
        let node = NamedNode::new_unchecked("http://e/");
        let mut term = Term::from(Triple::new(node.clone(), node, literal));
        recommend_form(&mut term);
        assert!(term.to_string().contains("\"a\"@en-GB"), "{term}");
        let mut directed = Term::from(Literal::new_directional_language_tagged_literal_unchecked(
            "a",
            "ar-eg",
            oxrdf::BaseDirection::Rtl,
        ));
        recommend_form(&mut directed);
        assert_eq!(directed.to_string(), "\"a\"@ar-EG--rtl");
    }
}
