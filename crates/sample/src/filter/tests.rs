//! Filters as typed, and the rows they match.

use std::sync::Arc;

use arrow::array::{Float64Array, Int64Array, RecordBatch, StringArray};

use super::*;
use crate::columns::schema_of;

const SET: Dataset = Dataset::Events;

#[test]
fn wrong_filters_are_refused_with_their_place_and_a_hint() {
    for (text, message, hint) in [
        ("{", "EOF", "one JSON object"),
        ("[]", "--filter: expected an object", "column"),
        ("{}", "--filter: is empty", "leave it out"),
        (r#"{"QuadClass": 1, "QuadClass": 2}"#, "`QuadClass` stands twice", "JSON"),
        (r#"{"OR": [{"Year": {"gt": 1, "gt": 2}}]}"#, "`gt` stands twice", "JSON"),
        (r#"{"quadclass": 1}"#, "`quadclass` is no column of events", "`QuadClass`"),
        (r#"{"EventCode": 10}"#, "--filter.EventCode: `EventCode` holds text", "in quotes"),
        (r#"{"EventCode": ["010", 11]}"#, "holds text", "\"010\""),
        (r#"{"QuadClass": "4"}"#, "`QuadClass` holds whole numbers", "without quotes"),
        (r#"{"QuadClass": 4.5}"#, "holds whole numbers", "as in 4"),
        (r#"{"AvgTone": "4"}"#, "`AvgTone` holds numbers", "without quotes"),
        (r#"{"AvgTone": true}"#, "holds numbers", "2.5"),
        (r#"{"AvgTone": null}"#, "null equals nothing", "is_null"),
        (r#"{"AvgTone": {"is_null": false}}"#, "AvgTone.is_null: expected true", "not_null"),
        (r#"{"AvgTone": {"over": 1}}"#, "unknown operator `over`", "gt"),
        (r#"{"AvgTone": {"between": [1]}}"#, "a list of two values", "[1, 5]"),
        (r#"{"AvgTone": {"between": [2, 1]}}"#, "first value is greater", "exchange"),
        (r#"{"AvgTone": []}"#, "is empty", ""),
        (r#"{"AvgTone": {}}"#, "is empty", ""),
        (r#"{"OR": []}"#, "--filter.OR: is empty", ""),
        (r#"{"OR": 1}"#, "expected an object or a list", "OR"),
        (r#"{"AND": [{"OR": [{"QuadClass": "x"}]}]}"#, "--filter.AND[0].OR[0].QuadClass", ""),
        (r#"{"NOT": [{"QuadClass": 1}, {"QuadClass": 2}]}"#, "a list of 2 leaves open", "none of"),
        (r#"{"Day": 2020}"#, "expected a day", "20200131"),
        (r#"{"Day": 20200230}"#, "expected a day", "20200131"),
        (r#"{"Day": 20200131000000}"#, "expected a day", "2020-01-31"),
        (r#"{"Day": "31.1.2020"}"#, "expected a day", "2020-01-31"),
        (r#"{"GlobalEventID": 18446744073709551615}"#, "beyond 64-bit", ""),
    ] {
        let error = Filter::parse(SET, text).unwrap_err();
        assert_eq!(error.status(), stage::ExitStatus::Usage);
        assert!(error.to_string().contains(message), "{text}: {error}");
        let given = error.hint().unwrap();
        assert!(given.contains(hint), "{text}: {given}");
    }
}

#[test]
fn days_are_spans_in_columns_of_seconds() {
    let test = |dataset, text: &str| match Filter::parse(dataset, text).unwrap() {
        Filter::All(members) => match members.into_iter().next().unwrap() {
            Filter::All(tests) => tests,
            other => vec![other],
        },
        other => panic!("{other:?}"),
    };
    let column = columns::find(Dataset::Mentions, "MentionTimeDate").unwrap();
    let mention = |test| vec![Filter::Test { column, test }];
    for (text, expected) in [
        (
            r#"{"MentionTimeDate": {"gt": "2020-01-31"}}"#,
            Test::Above(Literal::Whole(20_200_131_235_959)),
        ),
        (
            r#"{"MentionTimeDate": {"ge": 20200131}}"#,
            Test::AtLeast(Literal::Whole(20_200_131_000_000)),
        ),
        (
            r#"{"MentionTimeDate": {"lt": 20200131}}"#,
            Test::Below(Literal::Whole(20_200_131_000_000)),
        ),
        (
            r#"{"MentionTimeDate": {"le": "2020-01-31"}}"#,
            Test::AtMost(Literal::Whole(20_200_131_235_959)),
        ),
        (
            r#"{"MentionTimeDate": 20200131234500}"#,
            Test::In(vec![Literal::Whole(20_200_131_234_500)]),
        ),
    ] {
        assert_eq!(test(Dataset::Mentions, text), mention(expected), "{text}");
    }
    let day = columns::find(SET, "Day").unwrap();
    let expected =
        vec![Filter::Test { column: day, test: Test::In(vec![Literal::Whole(20_200_131)]) }];
    assert_eq!(test(SET, r#"{"Day": "2020-01-31"}"#), expected);
    assert_eq!(test(SET, r#"{"Day": 20200131}"#), expected);
}

/// Six rows: a row of ordinary values, its opposite, and missing ones.
fn matched(text: &str) -> Vec<usize> {
    let names = ["QuadClass", "AvgTone", "EventCode", "Day"];
    let columns: Vec<_> = names.map(|name| columns::find(SET, name).unwrap()).into();
    let batch = RecordBatch::try_new(
        schema_of(&columns),
        vec![
            Arc::new(Int64Array::from(vec![Some(1), Some(4), Some(3), None, Some(2), Some(4)])),
            Arc::new(Float64Array::from(vec![
                Some(1.0),
                Some(6.0),
                Some(f64::NAN),
                None,
                Some(-0.0),
                Some(f64::INFINITY),
            ])),
            Arc::new(StringArray::from(vec![
                Some("010"),
                Some("10"),
                Some("190"),
                None,
                Some(""),
                Some("010"),
            ])),
            Arc::new(Int64Array::from(vec![
                Some(20_200_101),
                Some(20_200_131),
                Some(20_200_201),
                None,
                Some(19_200_101),
                Some(20_200_101),
            ])),
        ],
    )
    .unwrap();
    let matches = matches(&Filter::parse(SET, text).unwrap(), &batch).unwrap();
    (0..6).filter(|row| matches[*row]).collect()
}

#[test]
fn filters_match_these_rows() {
    for (text, rows) in [
        (r#"{"QuadClass": 4}"#, &[1, 5][..]),
        (r#"{"QuadClass": [3, 4]}"#, &[1, 2, 5]),
        (r#"{"QuadClass": {"in_list": [1]}}"#, &[0]),
        (r#"{"QuadClass": {"ge": 2, "lt": 4}}"#, &[2, 4]),
        (r#"{"QuadClass": {"le": 1}}"#, &[0]),
        // NaN and null are never greater, nor equal, nor their opposite.
        (r#"{"AvgTone": {"gt": 5}}"#, &[1, 5]),
        (r#"{"NOT": {"AvgTone": {"gt": 5}}}"#, &[0, 4]),
        (r#"{"NOT": [{"AvgTone": {"le": 5}}]}"#, &[1, 5]),
        (r#"{"AvgTone": {"between": [-1, 6]}}"#, &[0, 1, 4]),
        (r#"{"AvgTone": 0}"#, &[4]),
        (r#"{"AvgTone": [1, 6.0]}"#, &[0, 1]),
        (r#"{"NOT": {"AvgTone": [1, 6.0]}}"#, &[4, 5]),
        (r#"{"AvgTone": {"is_null": true}}"#, &[3]),
        (r#"{"QuadClass": {"not_null": true}, "EventCode": {"ge": "10"}}"#, &[1, 2]),
        // Codes are text.
        (r#"{"EventCode": "010"}"#, &[0, 5]),
        (r#"{"EventCode": ["10", "190"]}"#, &[1, 2]),
        (r#"{"NOT": {"EventCode": ["10", "190"]}}"#, &[0, 4, 5]),
        (r#"{"EventCode": ""}"#, &[4]),
        (r#"{"Day": {"between": ["2020-01-01", "2020-01-31"]}}"#, &[0, 1, 5]),
        (r#"{"Day": {"lt": 19790101}}"#, &[4]),
        (r#"{"OR": {"QuadClass": 1, "EventCode": "190"}}"#, &[0, 2]),
        (
            r#"{"OR": [{"QuadClass": 1}, {"AND": [{"QuadClass": 4}, {"EventCode": "10"}]}]}"#,
            &[0, 1],
        ),
        (r#"{"AND": {"QuadClass": 4, "EventCode": "010"}}"#, &[5]),
        (r#"{"NOT": {"OR": {"QuadClass": 4, "EventCode": "190"}}}"#, &[0, 4]),
        // An unknown term leaves a conjunction false where another is false.
        (r#"{"NOT": {"QuadClass": 3, "AvgTone": 1}}"#, &[0, 1, 4, 5]),
        (r#"{"QuadClass": 9}"#, &[]),
    ] {
        assert_eq!(matched(text), rows, "{text}");
    }
}

#[test]
fn each_column_is_read_once() {
    let text =
        r#"{"QuadClass": {"gt": 1, "lt": 4}, "NOT": {"OR": {"Day": 20200101, "QuadClass": 2}}}"#;
    let columns = Filter::parse(SET, text).unwrap().columns();
    let names: Vec<_> = columns.iter().map(|column| column.name).collect();
    assert_eq!(names, ["QuadClass", "Day"]);
}
