use super::*;
use crate::parse::json::JsonText;
use crate::parse::turtle::TurtleText;

/// Returns the text that a parser receives.
fn seen(text: &str, watch: impl Watch) -> String {
    let position = Arc::new(Position::new(u64::MAX));
    let mut seen = String::new();
    Watched::new(text.as_bytes(), watch, Columns::Characters, position)
        .read_to_string(&mut seen)
        .expect("nothing is refused");
    seen
}

/// Text that is removed, and the text that replaces it.
const BLANK: [(&str, &str); 9] = [
    ("\n", "\n"),
    ("\r\n", "\n"),
    ("\r", "\n"),
    ("\n ", "\n"),
    (" \t \n", "\n"),
    (" ", " "),
    ("\t", " "),
    ("#\n", "\n"),
    ("  # é '\"<[\r\n", "\n"),
];

#[test]
fn a_parser_sees_one_byte_of_blank_text() {
    for (unit, instead) in BLANK {
        let blank = unit.repeat((1 << 20) / unit.len());
        let turtle = |text: &str| seen(text, TurtleText::new(false));
        assert_eq!(turtle(&blank), instead, "{unit:?}");
        assert_eq!(
            turtle(&format!("{blank}<a:s>{blank}a:p{blank}'o'{blank}.{blank}")),
            format!("{instead}<a:s>{instead}a:p{instead}'o'{instead}.{instead}"),
            "{unit:?}"
        );
        if !unit.contains('#') {
            let text = |blank: &str| format!("{blank}{{{blank}\"a\"{blank}:{blank}1}}{blank}");
            assert_eq!(
                seen(&text(&blank), JsonText::default()),
                text(instead),
                "{unit:?}"
            );
        }
    }
}

#[test]
fn a_parser_sees_all_of_what_is_not_blank() {
    for (unit, _) in BLANK {
        let text = unit.repeat(2000);
        for (open, close) in [
            ("'''", "'''"),
            ("\"\"\"", "\"\"\""),
            ("\"", "\""),
            ("<", ">"),
        ] {
            let text = format!("a:s {open}{}{close}", text.replace(['\'', '"'], ""));
            assert_eq!(seen(&text, TurtleText::new(false)), text);
        }
        let text = format!("[\"{}\"]", text.replace('"', ""));
        assert_eq!(seen(&text, JsonText::default()), text);
    }
    // Short runs stay unchanged.
    let text = "a:s  # a comment\r\n\ta:p\r 1 .\n\n";
    assert_eq!(seen(text, TurtleText::new(false)), text);
}

#[test]
fn blank_lines_of_xml_are_handed_out_at_once() {
    let text = format!("<a>\n{}  <b>\n</b>", " \n\r\n".repeat(1000));
    let mut lines = LineByLine::new(text.as_bytes());
    let mut buffer = vec![0; 1 << 16];
    let mut reads = 0;
    while lines.read(&mut buffer).expect("in memory") > 0 {
        reads += 1;
    }
    assert_eq!(reads, 4);
}
