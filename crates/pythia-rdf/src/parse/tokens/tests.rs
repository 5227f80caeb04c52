use super::*;

fn recognised(object: &str) -> Option<String> {
    let (mut at, mut unescaped) = (0, Vec::new());
    let object = super::object(object.as_bytes(), &mut at, &mut unescaped)?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    Some(match object {
        Object::Node(node) => text(node.content()),
        Object::Literal(lexical, suffix) => {
            let lexical = text(lexical.unwrap_or(&unescaped));
            match suffix {
                Suffix::None => lexical,
                Suffix::Language(tag) => format!("{lexical}@{}", text(tag)),
                Suffix::Datatype(iri) => format!("{lexical}^{}", text(iri)),
            }
        }
    })
}

#[test]
fn common_objects_are_recognised() {
    assert_eq!(recognised("<a:b> ."), Some("a:b".to_owned()));
    assert_eq!(recognised("_:a.b. "), Some("a.b".to_owned()));
    assert_eq!(recognised("\"a\" ."), Some("a".to_owned()));
    assert_eq!(
        recognised("\"a\\n\\u00e9\\U0001F600\\\"\"@de-CH ."),
        Some("a\né😀\"@de-CH".to_owned())
    );
    assert_eq!(recognised("\"\"^^<a:b> ."), Some("^a:b".to_owned()));
}

#[test]
fn what_is_uncertain_is_left_to_oxttl() {
    for object in [
        "<<( <a:b> ",
        "<a:b",
        "_:é ",
        "_:-a ",
        "_:",
        "_ ",
        "\"a",
        "\"a\\",
        "\"\\x\" ",
        "\"\\u12\" ",
        "\"\\uD800\" ",
        "\"a\"@ ",
        "\"a\"@1 ",
        "\"a\"@en--ltr ",
        "\"a\"@en- ",
        "\"a\"@en",
        "\"a\"^ ",
        "\"a\"^^a ",
        "\"a\"^^<<( ",
        "1 ",
        "'a' ",
        "",
    ] {
        assert_eq!(recognised(object), None, "{object}");
    }
}

#[test]
fn line_ends_are_told_apart() {
    assert_eq!(line_end(b"ab\ncd", false), (2, 1));
    assert_eq!(line_end(b"ab\r\ncd", true), (2, 2));
    assert_eq!(line_end(b"ab\rcd\n", true), (2, 1));
    assert_eq!(line_end(b"ab", true), (2, 0));
}
