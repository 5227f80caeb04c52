use std::str::FromStr;

use oxsdatatypes::{Date, DateTime, Decimal, Double, Float, GYear};
use proptest::prelude::*;

use super::*;

fn id_of(lexical: &str, name: &str) -> Option<TermId> {
    inline_literal(lexical, &format!("http://www.w3.org/2001/XMLSchema#{name}"))
}

/// Returns the id, after checking that it gives the literal back.
fn inlined(lexical: &str, name: &str) -> TermId {
    let id = id_of(lexical, name).unwrap_or_else(|| panic!("{lexical} is not inlined as {name}"));
    check_exact(id, lexical, name);
    id
}

fn check_exact(id: TermId, lexical: &str, name: &str) {
    let literal = inline_to_literal(id).expect("an id that was made is one of a literal");
    assert_eq!(literal.value(), lexical);
    assert_eq!(
        literal.datatype().as_str(),
        format!("http://www.w3.org/2001/XMLSchema#{name}")
    );
    assert!(id.kind().is_inline());
    assert!(inline_value(id).is_some(), "{lexical} has no value");
}

fn assert_ascending(lexicals: &[&str], name: &str) {
    let ids: Vec<TermId> = lexicals.iter().map(|l| inlined(l, name)).collect();
    for (index, pair) in ids.windows(2).enumerate() {
        assert!(pair[0] < pair[1], "{:?}", &lexicals[index..index + 2]);
    }
}

#[test]
fn forms_that_would_not_come_back_are_not_inlined() {
    let cases: [(&str, &[&str]); 9] = [
        ("boolean", &["1", "0", "TRUE", "", " true"]),
        (
            "integer",
            &[
                "01",
                "+1",
                "-0",
                "",
                "-",
                "1.0",
                " 1",
                "36028797018963968",
                "9999999999999999999",
            ],
        ),
        ("byte", &["128", "-129", "01"]),
        ("unsignedInt", &["-1", "4294967296"]),
        (
            "decimal",
            &[
                ".5",
                "5.",
                "+1.5",
                "-0.0",
                "01.5",
                "1.5.5",
                "1e3",
                "",
                "-",
                ".",
                "99999999999999.99",
            ],
        ),
        (
            "double",
            &[
                ".5", "5.", "+1.5", "1e+3", "1e03", "1e-0", "1e", "e1", "+INF", "inf", "nan",
                "1e200", "",
            ],
        ),
        (
            "date",
            &[
                "2020-02-30",
                "2019-02-29",
                "2020-13-01",
                "2020-00-10",
                "20-01-01",
                "02020-01-01",
                "-0000-01-01",
                "2020-01-01+14:15",
                "2020-01-01+01:07",
                "2020-01-01z",
                "2020-01-1",
                "2020-01-01 ",
                "+2020-01-01",
            ],
        ),
        (
            "dateTime",
            &[
                "2020-01-01T24:00:00",
                "2020-01-01T23:59:60",
                "2020-01-01T23:60:00",
                "2020-01-01",
                "2020-01-01T00:00",
                "2020-01-01T00:00:00.",
                "2020-01-01T00:00:00.1234",
                "9999999-01-01T00:00:00Z",
                "2020-01-01t00:00:00",
            ],
        ),
        (
            "gYear",
            &["20", "02020", "-0000", "2020+15:00", "2020-", ""],
        ),
    ];
    for (name, lexicals) in cases {
        for lexical in lexicals {
            assert_eq!(id_of(lexical, name), None, "{lexical:?} as {name}");
        }
    }
    assert_eq!(id_of("1", "string"), None);
    assert_eq!(id_of("PT1S", "duration"), None);
    assert_eq!(inline_literal("1", "http://example.com/integer"), None);
}

#[test]
fn values_come_without_text() {
    let value = |lexical, name| inline_value(inlined(lexical, name)).expect("inline");
    assert_eq!(value("true", "boolean"), InlineValue::Boolean(true));
    assert_eq!(
        value("-36028797018963968", "integer"),
        InlineValue::Integer(-(1 << 55))
    );
    assert_eq!(value("255", "unsignedByte"), InlineValue::Integer(255));
    assert_eq!(
        value("-1.50", "decimal"),
        InlineValue::Decimal {
            mantissa: -150,
            scale: 2
        }
    );
    assert_eq!(value("1.5E3", "double"), InlineValue::Double(1500.0));
    assert_eq!(
        value("-INF", "double"),
        InlineValue::Double(f64::NEG_INFINITY)
    );
    assert_eq!(value("0.1", "float"), InlineValue::Float(0.1));
    assert!(matches!(value("NaN", "float"), InlineValue::Float(v) if v.is_nan()));
    assert!(
        matches!(value("-0.0", "double"), InlineValue::Double(v) if v == 0.0 && v.is_sign_negative())
    );
}

#[test]
fn ids_are_made_of_values() {
    for value in [0, 1, -1, 42, (1 << 55) - 1, -(1 << 55)] {
        assert_eq!(inline_integer(value), id_of(&value.to_string(), "integer"));
    }
    assert_eq!(inline_integer(1 << 55), None);
    assert_eq!(Some(inline_boolean(true)), id_of("true", "boolean"));
}

#[test]
fn ids_order_like_values() {
    assert_ascending(
        &[
            "-36028797018963968",
            "-12",
            "-1",
            "0",
            "1",
            "9",
            "10",
            "36028797018963967",
        ],
        "integer",
    );
    assert_ascending(&["-128", "-1", "0", "127"], "byte");
    assert_ascending(&["-2.50", "-0.01", "0.00", "0.10", "11.00"], "decimal");
    assert_ascending(&["false", "true"], "boolean");
    assert_ascending(
        &[
            "-0044-03-15",
            "0000-01-01",
            "1969-12-31",
            "1970-01-01+14:00",
            "1970-01-01",
            "1970-01-01Z",
            "1970-01-01-05:00",
            "1970-01-02",
            "12020-01-01",
        ],
        "date",
    );
    assert_ascending(
        &[
            "-0044-03-15T00:00:00",
            "1970-01-01T00:00:00+00:15",
            "1969-12-31T23:59:59.999Z",
            "1970-01-01T00:00:00",
            "1970-01-01T00:00:00.0",
            "1970-01-01T00:00:00.00",
            "1970-01-01T00:00:00.001",
            "1970-01-01T00:00:00.05",
            "1970-01-01T00:00:00.5",
            "1970-01-01T00:00:00.500",
            "1970-01-01T00:00:01Z",
            "1970-01-01T00:00:00-00:15",
        ],
        "dateTime",
    );
    assert_ascending(
        &[
            "-0500",
            "0001",
            "1999",
            "2000+14:00",
            "2000+00:00",
            "2000",
            "2000Z",
            "2000-00:00",
            "2000-14:00",
            "2001",
        ],
        "gYear",
    );
}

#[test]
fn every_fraction_and_zone_comes_back() {
    let mut last = None;
    for thousandths in 0..1000 {
        for digits in 0..=3_u32 {
            if thousandths % 10_u32.pow(3 - digits) != 0 {
                continue;
            }
            let fraction = format!("{thousandths:03}")[..digits as usize].to_owned();
            let point = if digits > 0 { "." } else { "" };
            let id = inlined(
                &format!("1999-12-31T23:59:59{point}{fraction}Z"),
                "dateTime",
            );
            assert!(last < Some(id));
            last = Some(id);
        }
    }
    for quarter in -56..=56_i32 {
        let sign = if quarter < 0 { '-' } else { '+' };
        let (hour, minute) = (quarter.abs() / 4, quarter.abs() % 4 * 15);
        let zone = format!("{sign}{hour:02}:{minute:02}");
        inlined(&format!("2000-02-29T12:00:00{zone}"), "dateTime");
        inlined(&format!("2000-02-29{zone}"), "date");
        inlined(&format!("2000{zone}"), "gYear");
    }
}

#[test]
fn payloads_of_no_literal_are_refused() {
    for kind in [
        TermKind::Boolean,
        TermKind::DerivedInteger,
        TermKind::Date,
        TermKind::DateTime,
        TermKind::GYear,
    ] {
        assert_eq!(
            inline_to_literal(TermId::new(kind, TermId::PAYLOAD_MAX)),
            None,
            "{kind:?}"
        );
    }
    let special = TermId::new(TermKind::Double, 3 << 53 | 7);
    assert_eq!(inline_to_literal(special), None);
    assert_eq!(inline_value(special), None);
    for kind in [TermKind::Iri, TermKind::Nothing, TermKind::Computed] {
        assert_eq!(inline_to_literal(TermId::new(kind, 1)), None);
        assert_eq!(inline_value(TermId::new(kind, 1)), None);
    }
}

/// Checks that a literal, if it is inlined, comes back exactly, and with the value that `oxsdatatypes` reads from
/// the text.
fn check_value(lexical: &str, name: &str) {
    let Some(id) = id_of(lexical, name) else {
        return;
    };
    check_exact(id, lexical, name);
    match inline_value(id).expect("inline") {
        InlineValue::Integer(value) => assert_eq!(value.to_string(), lexical),
        InlineValue::Decimal { mantissa, scale } => {
            let value = Decimal::new(i128::from(mantissa), scale.into()).expect("small");
            assert_eq!(value, Decimal::from_str(lexical).expect("valid"));
        }
        InlineValue::Double(value) => {
            assert!(
                Double::from(value).is_identical_with(Double::from_str(lexical).expect("valid")),
                "{lexical}"
            );
        }
        InlineValue::Float(value) => {
            assert!(
                Float::from(value).is_identical_with(Float::from_str(lexical).expect("valid")),
                "{lexical}"
            );
        }
        InlineValue::Date(value) => {
            let fields = calendar_fields(id).expect("a date");
            let date = (value.month().into(), value.day().into());
            assert_eq!((fields.year, fields.date), (value.year(), Some(date)));
            assert_eq!(fields.time, None);
            assert!(
                value.is_identical_with(Date::from_str(lexical).expect("valid")),
                "{lexical}"
            );
        }
        InlineValue::DateTime(value) => {
            let fields = calendar_fields(id).expect("a dateTime");
            let date = (value.month().into(), value.day().into());
            let time = (value.hour().into(), value.minute().into());
            assert_eq!((fields.year, fields.date), (value.year(), Some(date)));
            assert_eq!(fields.time, Some(time));
            assert!(
                value.is_identical_with(DateTime::from_str(lexical).expect("valid")),
                "{lexical}"
            );
        }
        InlineValue::GYear(value) => {
            let fields = calendar_fields(id).expect("a year");
            assert_eq!((fields.year, fields.date), (value.year(), None));
            assert!(
                value.is_identical_with(GYear::from_str(lexical).expect("valid")),
                "{lexical}"
            );
        }
        InlineValue::Boolean(value) => assert_eq!(value.to_string(), lexical),
    }
}

const NAMES: [&str; 20] = [
    "boolean",
    "integer",
    "decimal",
    "double",
    "float",
    "date",
    "dateTime",
    "gYear",
    "long",
    "int",
    "short",
    "byte",
    "nonNegativeInteger",
    "positiveInteger",
    "unsignedLong",
    "unsignedInt",
    "unsignedShort",
    "unsignedByte",
    "nonPositiveInteger",
    "negativeInteger",
];

const ZONE: &str = "(Z|[+-](0[0-9]|1[0-3]):(00|15|30|45|59)|[+-]14:00)?";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_exact_or_refused(lexical in "[-+]?[0-9TZ:.eE+-]{0,24}", name in prop::sample::select(&NAMES[..])) {
        check_value(&lexical, name);
    }

    #[test]
    fn numbers_are_exact(lexical in "-?[0-9]{1,14}(\\.[0-9]{1,16})?([eE]-?[0-9]{1,3})?", name in prop::sample::select(&NAMES[..])) {
        check_value(&lexical, name);
    }

    #[test]
    fn shortest_doubles_are_exact(value in any::<f64>(), coordinate in -180.0..180.0_f64) {
        for text in [value.to_string(), format!("{value:e}"), format!("{coordinate:.6}"), format!("{coordinate}")] {
            check_value(&text, "double");
            check_value(&text, "float");
        }
    }

    #[test]
    fn times_are_exact(
        year in "-?([0-9]{4}|[1-9][0-9]{4,8})", month in 1..=12_u8, day in 1..=31_u8,
        time in "([01][0-9]|2[0-4]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,4})?", zone in ZONE,
    ) {
        check_value(&format!("{year}{zone}"), "gYear");
        check_value(&format!("{year}-{month:02}-{day:02}{zone}"), "date");
        check_value(&format!("{year}-{month:02}-{day:02}T{time}{zone}"), "dateTime");
    }

    #[test]
    fn date_times_order_like_values(
        a in "(19|20)[0-9][0-9]-0[1-9]-[01][1-8]T[01][0-9]:[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,3})?(Z|[+-]0[0-9]:(00|30))",
        b in "(19|20)[0-9][0-9]-0[1-9]-[01][1-8]T[01][0-9]:[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,3})?(Z|[+-]0[0-9]:(00|30))",
    ) {
        let (one, two) = (inlined(&a, "dateTime"), inlined(&b, "dateTime"));
        let (one_value, two_value) = (DateTime::from_str(&a).expect("valid"), DateTime::from_str(&b).expect("valid"));
        if one_value < two_value {
            prop_assert!(one < two);
        } else if one_value > two_value {
            prop_assert!(one > two);
        }
    }

    #[test]
    fn any_id_gives_back_itself_or_nothing(bits in any::<u64>(), kind in 0x28..=0x32_u8) {
        let Some(kind) = TermKind::from_u8(kind) else { return Ok(()) };
        let id = TermId::new(kind, bits & TermId::PAYLOAD_MAX);
        let literal = inline_to_literal(id);
        let _ = inline_value(id);
        if let Some(literal) = literal
            && let Some(again) = inline_literal(literal.value(), literal.datatype().as_str())
        {
            prop_assert_eq!(inline_to_literal(again), Some(literal));
        }
    }
}
