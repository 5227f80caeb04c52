use std::sync::Arc;

use oxrdf::{BlankNode, Literal, NamedNode, Term, Triple};
use proptest::prelude::*;
use pythia_rdf::inline::inline_literal;

use super::*;
use crate::expression::TermReader;
use crate::expression::testing::{context, context_over, term};
use crate::limits::governor::Governor;

/// Returns terms in order; those in one group are equal.
fn ordered() -> Vec<Vec<Term>> {
    let literal = |text: &str| term(text);
    let triple = |object: &str| {
        Triple::new(
            NamedNode::new_unchecked("urn:s"),
            NamedNode::new_unchecked("urn:p"),
            term(object),
        )
    };
    vec![
        vec![BlankNode::new_unchecked("a").into()],
        vec![BlankNode::new_unchecked("b").into()],
        vec![literal("<urn:a>")],
        vec![literal("<urn:b>")],
        vec![literal("\"\"")],
        vec![literal("\"a\"")],
        vec![literal("\"a\"@en")],
        vec![literal("\"a\"@en--ltr")],
        vec![literal("\"a\"@fr")],
        vec![literal("\"a\\u0000\"")],
        vec![literal("\"a b\"")],
        vec![literal("\"b\"")],
        vec![literal("\"\u{10000}\"")],
        vec![literal("false")],
        vec![literal("true"), literal("\"1\"^^xsd:boolean")],
        vec![literal("\"NaN\"^^xsd:double")],
        vec![
            literal("\"-INF\"^^xsd:double"),
            literal("\"-INF\"^^xsd:float"),
        ],
        vec![literal("\"-12\"^^xsd:integer")],
        vec![literal("\"-0.5\"^^xsd:decimal")],
        vec![literal("0"), literal("\"-0\"^^xsd:double"), literal("0.00")],
        vec![
            literal("1"),
            literal("01"),
            literal("1.0"),
            literal("\"1\"^^xsd:byte"),
        ],
        vec![literal("9007199254740992"), literal("9007199254740992e0")],
        vec![literal("9007199254740993")],
        vec![literal("\"2023-12-31Z\"^^xsd:date")],
        vec![literal("\"2024-01-01\"^^xsd:date")],
        vec![literal("\"2024-01-01Z\"^^xsd:date")],
        vec![
            literal("\"2024-01-01T12:00:00Z\"^^xsd:dateTime"),
            literal("\"2024-01-01T14:00:00+02:00\"^^xsd:dateTime"),
        ],
        vec![literal("\"2024-01-01T12:00:00.5Z\"^^xsd:dateTime")],
        vec![literal("\"-0044\"^^xsd:gYear")],
        vec![literal("\"2024\"^^xsd:gYear")],
        vec![literal("\"12:00:00\"^^xsd:time")],
        vec![
            literal("\"P1D\"^^xsd:duration"),
            literal("\"PT24H\"^^xsd:dayTimeDuration"),
        ],
        vec![literal("\"P1M\"^^xsd:duration")],
        vec![literal("\"abc\"^^xsd:integer")],
        vec![literal("\"a\"^^<urn:datatype>")],
        vec![literal("\"b\"^^<urn:datatype>")],
        vec![triple("1").into(), triple("1.0").into()],
        vec![triple("2").into()],
    ]
}

/// Makes the keys of all rows in two parts.
fn keys_of(columns: &[SortColumn<'_>], context: &EvaluationContext) -> SortKeys {
    let mut kinds = vec![ColumnKinds::default(); columns.len()];
    for (kinds, column) in kinds.iter_mut().zip(columns) {
        kinds.observe(column.ids);
    }
    let mut keys = SortKeys::new(&kinds, context);
    let rows = columns[0].ids.len();
    for part in [0..rows / 2, rows / 2..rows] {
        let columns: Vec<_> = columns
            .iter()
            .map(|column| SortColumn {
                ids: &column.ids[part.clone()],
                ..*column
            })
            .collect();
        keys.extend(&columns, part.len(), context).expect("keys");
    }
    keys
}

fn order_of(columns: &[SortColumn<'_>], context: &EvaluationContext) -> Vec<u32> {
    keys_of(columns, context)
        .order(usize::MAX, context)
        .expect("order")
}

#[test]
fn keys_follow_the_documented_order() {
    let groups = ordered();
    let all: Vec<Term> = groups.iter().flatten().cloned().collect();
    for store_all in [true, false] {
        let stored = all.iter().filter(|_| store_all).cloned();
        let context = context(stored.collect::<Vec<_>>());
        let mut ids = vec![0];
        let mut ranks = vec![0];
        for (rank, group) in groups.iter().enumerate() {
            for term in group {
                ids.push(context.intern(term.clone()).expect("interned").0);
                ranks.push(rank + 1);
            }
        }
        let column = SortColumn {
            ids: &ids,
            descending: false,
        };
        let keys = keys_of(&[column], &context);
        for a in 0..ids.len() {
            for b in 0..ids.len() {
                let order = keys.key(a).cmp(keys.key(b));
                assert_eq!(
                    order,
                    ranks[a].cmp(&ranks[b]),
                    "rows {a}, {b}: {:?}",
                    all.get(a - a.min(1))
                );
            }
        }
        let order = order_of(&[column], &context);
        assert_eq!(order, (0..ids.len() as u32).collect::<Vec<_>>());
    }
}

#[test]
fn many_rows_are_sorted_in_chunks_and_merged() {
    let context = context([]);
    let rows = 3 * SORT_ROWS as u64 + 7;
    let ids: Vec<u64> = (0..rows)
        .map(|n| TermId::new(TermKind::Iri, n * 7919 % 1009).0)
        .collect();
    let column = SortColumn {
        ids: &ids,
        descending: true,
    };
    struct Sorted;
    impl crate::expression::TermResolver for Sorted {
        fn resolve(&self, _: oxrdf::TermRef<'_>) -> Result<Option<TermId>, QueryError> {
            Ok(None)
        }
        fn read(&self, _: &[TermId], _: &mut TermReader<'_>) -> Result<(), QueryError> {
            Ok(())
        }
        fn sorted_payloads(&self, _: TermKind) -> u64 {
            TermId::PAYLOAD_MAX
        }
    }
    let governor = Arc::new(Governor::unlimited().with_checks_max(1000));
    let context = context_over(Arc::new(Sorted)).with_now(context.now());
    let context = context.with_governor(Arc::clone(&governor));
    let keys = keys_of(&[column], &context);
    let before = governor.checks();
    let order = keys.order(usize::MAX, &context);
    let checks = governor.checks() - before;
    let mut expected: Vec<u32> = (0..rows as u32).collect();
    expected.sort_by_key(|&row| std::cmp::Reverse(ids[row as usize]));
    assert!(order.expect("order") == expected);
    assert!(checks > 4, "asked {checks} times");
}

#[test]
fn the_first_rows_are_those_of_the_whole_order() {
    let context = context([]);
    let ids: Vec<u64> = (0..3000_u64)
        .map(|n| Value::integer((n * 7 % 91) as i64).to_inline().unwrap().0)
        .collect();
    let column = SortColumn {
        ids: &ids,
        descending: true,
    };
    let keys = keys_of(&[column], &context);
    let all = keys.order(usize::MAX, &context).expect("order");
    for limit in [0, 1, 40, 2999, 3000, 5000] {
        let first = keys.order(limit, &context).expect("order");
        assert!(first == all[..limit.min(3000)], "{limit}");
    }
}

#[test]
fn values_compare_like_their_keys() {
    let groups = ordered();
    for (a_rank, a) in groups.iter().enumerate() {
        for (b_rank, b) in groups.iter().enumerate() {
            for (a, b) in a.iter().flat_map(|a| b.iter().map(move |b| (a, b))) {
                let order = compare_values(&Value::from_term(a), &Value::from_term(b));
                assert_eq!(order, a_rank.cmp(&b_rank), "{a} {b}");
            }
        }
    }
}

#[test]
fn later_columns_decide_between_equal_values() {
    let texts = ["\"b\"", "\"a\"", "\"ab\""];
    let context = context(texts.map(term));
    let id = |text: &str| context.intern(term(text)).expect("interned").0;
    let first = [id("1"), id("1.0"), id("01"), id("0"), 0];
    let second = [
        id("\"b\""),
        id("\"a\""),
        id("\"ab\""),
        id("\"a\""),
        id("\"a\""),
    ];
    let columns = |descending: [bool; 2]| {
        [
            SortColumn {
                ids: &first,
                descending: descending[0],
            },
            SortColumn {
                ids: &second,
                descending: descending[1],
            },
        ]
    };
    let order = |descending| order_of(&columns(descending), &context);
    assert_eq!(order([false, false]), [4, 3, 1, 2, 0]);
    assert_eq!(order([false, true]), [4, 3, 0, 2, 1]);
    assert_eq!(order([true, false]), [1, 2, 0, 3, 4]);
    assert_eq!(order([true, true]), [0, 2, 1, 3, 4]);
}

#[test]
fn a_sorted_dictionary_is_not_read() {
    struct Unreadable;
    impl crate::expression::TermResolver for Unreadable {
        fn resolve(&self, _: oxrdf::TermRef<'_>) -> Result<Option<TermId>, QueryError> {
            Ok(None)
        }
        fn read(&self, ids: &[TermId], _: &mut TermReader<'_>) -> Result<(), QueryError> {
            panic!("read {ids:?}");
        }
        fn sorted_payloads(&self, _: TermKind) -> u64 {
            10
        }
    }
    let now = "2024-01-01T00:00:00Z".parse().expect("a dateTime");
    let context = context_over(std::sync::Arc::new(Unreadable)).with_now(now);
    let date = context
        .intern(term("\"2024-01-01\"^^xsd:date"))
        .expect("interned")
        .0;
    let ids = [
        TermId::new(TermKind::String, 9).0,
        date,
        TermId::new(TermKind::Iri, 3).0,
        0,
        TermId::new(TermKind::String, 2).0,
    ];
    let column = SortColumn {
        ids: &ids,
        descending: false,
    };
    assert_eq!(order_of(&[column], &context), [3, 2, 4, 0, 1]);
}

proptest! {
    #[test]
    fn text_keys_sort_like_texts(a in "[\u{0}-\u{3}a\u{10ffff}]{0,4}", b in "[\u{0}-\u{3}a\u{10ffff}]{0,4}") {
        let key = |text: &str| {
            let mut bytes = Vec::new();
            write_value(&Value::String(text.into()), &mut bytes);
            bytes
        };
        prop_assert_eq!(key(&a).cmp(&key(&b)), a.cmp(&b));
    }

    #[test]
    fn number_keys_sort_like_numbers(a in -1000_i64..1000, b in -1000_i64..1000, scale in 0_u32..4) {
        let number = |value: i64| {
            Literal::new_typed_literal(format!("{value}e-{scale}"), oxrdf::vocab::xsd::DOUBLE)
        };
        let (first, second) = (Term::from(number(a)), Term::from(number(b)));
        let order = compare_values(&Value::from_term(&first), &Value::from_term(&second));
        prop_assert_eq!(order, a.cmp(&b));
    }
}

proptest! {
    /// Ids of dates and dateTimes compare like their values, whatever their timezones.
    #[test]
    fn ids_of_instants_compare_like_their_values(
        instants in prop::collection::vec((0..3_u8, 1_u8..4, 0..24_u8, 0..12_usize), 2),
    ) {
        let zones = ["", "Z", "-00:00", "+14:00", "-14:00", "+00:15", "-00:15", "+01:00", "-01:00", "+12:00", "-12:00", "+10:00"];
        let ids: Vec<TermId> = instants
            .iter()
            .map(|&(kind, day, hour, zone)| {
                let zone = zones[zone];
                let (lexical, datatype) = match kind {
                    0 => (format!("2024-01-0{day}{zone}"), "date"),
                    1 => (format!("2024-01-0{day}T{hour:02}:00:00{zone}"), "dateTime"),
                    _ => (format!("2024-01-0{day}T{hour:02}:00:00.5{zone}"), "dateTime"),
                };
                let datatype = format!("http://www.w3.org/2001/XMLSchema#{datatype}");
                inline_literal(&lexical, &datatype).expect("it is inlined")
            })
            .collect();
        let value = |id| Value::from_inline(id).expect("an inline value");
        let expected = compare_values(&value(ids[0]), &value(ids[1]));
        prop_assert_eq!(compare_ids(ids[0], ids[1], &context([])), Some(expected));
    }
}
