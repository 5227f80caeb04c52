use oxrdf::vocab::xsd;
use oxrdf::{NamedOrBlankNode, Triple};
use proptest::prelude::*;

use super::*;

/// Returns text with characters that keys treat specially.
fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![
            Just("\0".to_owned()),
            Just("\u{1}".to_owned()),
            Just("\\".to_owned()),
            Just("\"".to_owned()),
            Just("@en".to_owned()),
            Just("^^<".to_owned()),
            Just(" )>>".to_owned()),
            Just("\n\r\t".to_owned()),
            Just("\u{7f}\u{ffff}".to_owned()),
            "[a-c0-2 ]{0,3}",
            any::<char>().prop_map(String::from),
        ],
        0..6,
    )
    .prop_map(|parts| parts.concat())
}

fn iri() -> impl Strategy<Value = NamedNode> {
    prop_oneof![
        "http://example.com/[a-z]{0,8}".prop_map(NamedNode::new_unchecked),
        "http://example.com/é#[a-z<>\" \\\\]{0,4}".prop_map(NamedNode::new_unchecked),
    ]
}

fn blank() -> impl Strategy<Value = BlankNode> {
    "[A-Za-z_0-9][A-Za-z0-9:.é-]{0,6}[a-z]".prop_map(BlankNode::new_unchecked)
}

fn literal() -> impl Strategy<Value = Literal> {
    let language = prop::sample::select(&["en", "de-ch", "zh-hans-cn", "x-ltr"][..]);
    let direction = prop_oneof![Just(BaseDirection::Ltr), Just(BaseDirection::Rtl)];
    prop_oneof![
        text().prop_map(Literal::new_simple_literal),
        (text(), language.clone()).prop_map(|(value, language)| {
            Literal::new_language_tagged_literal_unchecked(value, language)
        }),
        (text(), language, direction).prop_map(|(value, language, direction)| {
            Literal::new_directional_language_tagged_literal_unchecked(value, language, direction)
        }),
        (text(), iri()).prop_map(|(value, iri)| Literal::new_typed_literal(value, iri)),
        text().prop_map(|value| Literal::new_typed_literal(value, xsd::DURATION)),
        "0{0,2}[0-9]{1,20}".prop_map(|value| Literal::new_typed_literal(value, xsd::INTEGER)),
        "[0-9]{1,3}\\.[0-9]{1,3}".prop_map(|value| Literal::new_typed_literal(value, xsd::DECIMAL)),
        Just(Literal::new_typed_literal("2020-01-01", xsd::DATE)),
    ]
}

fn term() -> impl Strategy<Value = Term> {
    let simple = prop_oneof![
        iri().prop_map(Term::from),
        blank().prop_map(Term::from),
        literal().prop_map(Term::from),
    ];
    let subject = prop_oneof![
        iri().prop_map(NamedOrBlankNode::from),
        blank().prop_map(NamedOrBlankNode::from),
    ]
    .boxed();
    simple.prop_recursive(3, 8, 1, move |inner| {
        (subject.clone(), iri(), inner).prop_map(|(subject, predicate, object)| {
            Triple {
                subject,
                predicate,
                object,
            }
            .into()
        })
    })
}

fn key_of(term: &Term) -> Result<OwnedKey, TermId> {
    let mut bytes = vec![1, 2, 3];
    match encode(term.as_ref(), &mut bytes) {
        Encoded::Key(kind) => Ok(OwnedKey { kind, bytes }),
        Encoded::Inline(id) => {
            assert!(bytes.is_empty());
            Err(id)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn every_term_comes_back(term in term()) {
        match key_of(&term) {
            Ok(key) => {
                prop_assert!(key.kind.is_dictionary());
                prop_assert_eq!(decode(key.as_key()).expect("a key that was made"), term);
            }
            Err(id) => {
                prop_assert_eq!(Term::from(inline::inline_to_literal(id).expect("inline")), term);
            }
        }
    }

    #[test]
    fn different_terms_have_different_keys(one in term(), two in term()) {
        prop_assert_eq!(key_of(&one) == key_of(&two), one == two);
    }

    #[test]
    fn keys_order_like_lexical_forms(one in text(), two in text()) {
        let typed = |value: &str| key_of(&Literal::new_typed_literal(value, xsd::DURATION).into()).expect("a key");
        let tagged = |value: &str, language: &str| {
            key_of(&Literal::new_language_tagged_literal_unchecked(value, language).into()).expect("a key")
        };
        let plain = |value: &str| key_of(&Literal::new_simple_literal(value).into()).expect("a key");
        prop_assert_eq!(plain(&one).cmp(&plain(&two)), one.cmp(&two));
        prop_assert_eq!(typed(&one).cmp(&typed(&two)), one.cmp(&two));
        if one != two {
            prop_assert_eq!(tagged(&one, "de").cmp(&tagged(&two, "en")), one.cmp(&two));
            prop_assert_eq!(tagged(&one, "en").cmp(&tagged(&two, "de")), one.cmp(&two));
        }
    }

    #[test]
    fn any_bytes_decode_or_fail(bytes in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(b'<'), Just(b'"'), any::<u8>()], 0..40),
        kind in prop::sample::select(&TermKind::DICTIONARY[..]), prefix in prop::sample::select(&["", "<<( <a> <b> ", "<<( _:a <b> \"x\\u00"][..])) {
        let mut all = prefix.as_bytes().to_vec();
        all.extend_from_slice(&bytes);
        let _ = decode(TermKey { kind, bytes: &all });
    }
}

#[test]
fn scope_goes_before_every_blank_node() {
    let blank = BlankNode::new_unchecked("x");
    let triple: Term = Triple::new(
        blank.clone(),
        NamedNode::new_unchecked("http://e/p"),
        Triple::new(blank.clone(), NamedNode::new_unchecked("http://e/p"), blank),
    )
    .into();
    let mut bytes = Vec::new();
    encode_scoped(triple.as_ref(), "d7_", &mut bytes);
    assert_eq!(
        String::from_utf8(bytes).expect("text"),
        "<<( _:d7_x <http://e/p> <<( _:d7_x <http://e/p> _:d7_x )>> )>>"
    );
}

#[test]
fn corrupt_keys_say_what_is_wrong() {
    let fails = |kind, bytes: &[u8]| {
        decode(TermKey { kind, bytes })
            .expect_err("corrupt")
            .to_string()
    };
    assert_eq!(
        fails(TermKind::LangString, b"no separator"),
        "key of kind LangString: no separator at byte 12"
    );
    assert_eq!(
        fails(TermKind::TypedLiteral, b"a\0b"),
        "key of kind TypedLiteral: a lone NUL at byte 1"
    );
    assert_eq!(
        fails(TermKind::Iri, b"http://\xff"),
        "key of kind Iri is not UTF-8 at byte 7"
    );
    assert!(fails(TermKind::Integer, b"1").contains("not a kind of dictionary key"));
    let deep = "<<( <a> <b> ".repeat(100_000);
    assert!(fails(TermKind::Triple, deep.as_bytes()).contains("less nesting"));
}
