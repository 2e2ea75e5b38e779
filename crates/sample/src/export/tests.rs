use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Schema};
use catalog::marks;
use io_budget::Budget;
use parquet::file::metadata::KeyValue;
use proptest::prelude::*;
use stage::Error;

use super::{csv, description, lines};

/// The records of a CSV file. An empty field is `None`; empty text has quotes.
fn records(text: &str) -> Vec<Vec<Option<String>>> {
    let mut records = Vec::new();
    let mut record = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let field;
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut value = String::new();
            rest = quoted;
            loop {
                let (before, behind) = rest.split_once('"').unwrap();
                value.push_str(before);
                rest = behind;
                match rest.strip_prefix('"') {
                    Some(behind) => rest = behind,
                    None => break,
                }
                value.push('"');
            }
            field = Some(value);
        } else {
            let (value, behind) = rest.split_at(rest.find([',', '\n']).unwrap());
            assert!(!value.contains(['"', '\r']), "{value:?}");
            field = (!value.is_empty()).then(|| value.to_owned());
            rest = behind;
        }
        record.push(field);
        if let Some(next) = rest.strip_prefix('\n') {
            records.push(std::mem::take(&mut record));
            rest = next;
        } else {
            rest = rest.strip_prefix(',').unwrap();
        }
    }
    assert_eq!(record, []);
    records
}

fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
        .unwrap()
}

fn text_of(batch: &RecordBatch) -> String {
    String::from_utf8(lines::lines(batch).unwrap()).unwrap()
}

#[track_caller]
fn check(array: impl arrow::array::Array + 'static, expected: &str) {
    assert_eq!(text_of(&table(vec![("c", Arc::new(array))])), expected);
}

#[test]
fn values_have_one_form_each() {
    check(Int64Array::from(vec![Some(0), None, Some(i64::MIN)]), "0\n\n-9223372036854775808\n");
    let fractions = vec![0.1, 1.0, -0.0, 5e-324, f64::MAX, f64::NAN, f64::INFINITY, -f64::INFINITY];
    check(
        Float64Array::from(fractions),
        "0.1\n1.0\n-0.0\n5e-324\n1.7976931348623157e+308\nNaN\ninf\n-inf\n",
    );
    let days = vec![Some(0), None, Some(-1), Some(16_484), Some(-719_528), Some(-719_529)];
    check(
        Date32Array::from(days),
        "1970-01-01\n\n1969-12-31\n2015-02-18\n0000-01-01\n-0001-12-31\n",
    );
    check(Date32Array::from(vec![2_932_896, 2_932_897]), "9999-12-31\n+10000-01-01\n");
    check(
        StringArray::from(vec![Some("a"), None, Some(""), Some("a b; 'c'"), Some("é\t")]),
        "a\n\n\"\"\na b; 'c'\né\t\n",
    );
    check(
        StringArray::from(vec!["a,b", "\"", "say \"so\"", "\n", "a\rb", "\"\",\"", "plain"]),
        "\"a,b\"\n\"\"\"\"\n\"say \"\"so\"\"\"\n\"\n\"\n\"a\rb\"\n\"\"\"\"\",\"\"\"\nplain\n",
    );
}

#[test]
fn text_of_any_length_is_whole() {
    for length in [1, 15, 31, 32, 33, 64, 1000] {
        let (one, other) = ("x".repeat(length), "é".repeat(length));
        let array = StringArray::from(vec![&*one, "a,b", &*other, &*one]);
        check(array, &format!("{one}\n\"a,b\"\n{other}\n{one}\n"));
    }
}

#[test]
fn what_lies_outside_the_rows_of_an_array_is_not_looked_at() {
    let array = StringArray::from(vec!["x,y", "plain", "a\"b", "last", "\r"]);
    let batch = table(vec![("c", Arc::new(array))]);
    assert_eq!(text_of(&batch.slice(1, 1)), "plain\n");
    assert_eq!(text_of(&batch.slice(2, 2)), "\"a\"\"b\"\nlast\n");
    assert_eq!(text_of(&batch.slice(0, 0)), "");
    // Under a null.
    let offsets = OffsetBuffer::from_lengths([1, 3, 1]);
    let nulls = NullBuffer::from(vec![true, false, true]);
    check(StringArray::new(offsets, Buffer::from(b"a,\"\nb"), Some(nulls)), "a\n\nb\n");
}

#[test]
fn names_of_columns_are_quoted_as_text_is() {
    let names = ["plain", "a,b", "say \"so\""];
    let columns = names.map(|name| (name, Arc::new(Int64Array::from(vec![1])) as ArrayRef));
    let header = lines::header(table(columns.to_vec()).schema_ref());
    assert_eq!(header, b"plain,\"a,b\",\"say \"\"so\"\"\"\n");
}

#[test]
fn what_has_no_text_is_an_error_that_names_the_column() {
    let days = table(vec![("Day", Arc::new(Date32Array::from(vec![0, i32::MAX])))]);
    assert_eq!(
        lines::lines(&days).unwrap_err(),
        "column `Day` holds day 2147483647, which has no date"
    );
    let flags = arrow::array::new_null_array(&DataType::Boolean, 1);
    let problem = lines::lines(&table(vec![("Flag", flags)])).unwrap_err();
    assert_eq!(problem, "column `Flag` has the type Boolean, which has no text");
}

const NAMES: [&str; 4] = ["GlobalEventID", "Tone, average", "Day", "Name"];

fn threads(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap()
}

type Row = (Option<i64>, Option<f64>, Option<i32>, Option<String>);

fn rows(rows: &[Row]) -> RecordBatch {
    let columns: [ArrayRef; 4] = [
        Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| row.2).collect::<Date32Array>()),
        Arc::new(rows.iter().map(|row| row.3.as_deref()).collect::<StringArray>()),
    ];
    table(NAMES.into_iter().zip(columns).collect())
}

fn any_row() -> impl Strategy<Value = Row> {
    let number = any::<u64>().prop_map(f64::from_bits);
    let text = prop_oneof![".{0,40}", "[,\"\r\na ]{0,5}", "[a-z]{0,40}"];
    let option = proptest::option::of::<proptest::strategy::BoxedStrategy<_>>;
    (
        proptest::option::of(any::<i64>()),
        proptest::option::of(prop_oneof![number, (-1000..1000).prop_map(|n| f64::from(n) / 8.0)]),
        proptest::option::of(-1_000_000..4_000_000),
        option(text.boxed()),
    )
}

proptest! {
    // Each case syncs six files.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_values_read_back_and_threads_and_batches_change_no_byte(
        values in proptest::collection::vec(any_row(), 0..80), batch_rows in 1_usize..30,
    ) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("table.csv");
        let budget = Budget::private();
        let batch = rows(&values);
        let mut files = Vec::new();
        for (number, batch_rows) in [(1, 100), (2, batch_rows), (7, batch_rows)] {
            csv::write(&budget, threads(number), &path, batch.schema_ref(), &[], |deliver| {
                let starts = (0..batch.num_rows()).step_by(batch_rows);
                let mut cut = starts
                    .map(|start| batch.slice(start, batch_rows.min(batch.num_rows() - start)));
                cut.try_for_each(deliver)
            })
            .unwrap();
            files.push(budget.read_file(&path).unwrap());
        }
        prop_assert!(files.windows(2).all(|pair| pair[0] == pair[1]));
        let text = String::from_utf8(files.swap_remove(0).to_vec()).unwrap();
        let mut read = records(&text).into_iter();
        let names: Vec<_> = read.next().unwrap().into_iter().flatten().collect();
        prop_assert_eq!(names, NAMES);
        prop_assert_eq!(read.len(), values.len());
        for (record, (whole, fraction, day, name)) in read.zip(values) {
            prop_assert_eq!(record[0].as_ref().map(|text| text.parse().unwrap()), whole);
            let bits = |number: f64| if number.is_nan() { f64::NAN } else { number }.to_bits();
            let number = record[1].as_ref().map(|text| bits(text.parse().unwrap()));
            prop_assert_eq!(number, fraction.map(bits));
            let date = record[2].as_ref().map(|text| text.parse::<chrono::NaiveDate>().unwrap());
            prop_assert_eq!(date.map(|date| date.to_epoch_days()), day);
            prop_assert_eq!(&record[3], &name);
        }
    }
}

#[test]
fn the_description_says_what_a_reader_has_to_know() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("table.csv");
    let budget = Budget::private();
    let batch =
        rows(&[(Some(1), Some(0.5), Some(0), None), (None, None, None, Some(String::new()))]);
    let notes = [KeyValue::new(marks::STAGE.to_owned(), "sample".to_owned())];
    let published = csv::write(&budget, threads(2), &path, batch.schema_ref(), &notes, |deliver| {
        deliver(batch.clone())
    });
    let text = budget.read_file(&path).unwrap();
    assert_eq!(
        text,
        b"GlobalEventID,\"Tone, average\",Day,Name\n1,0.5,1970-01-01,\n,,,\"\"\n".as_slice()
    );
    assert_eq!(published.unwrap().size, text.len() as u64);
    let json = budget.read_file(&root.path().join("table.csv.schema.json")).unwrap();
    let said: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((&said["rows"], &said["encoding"]), (&2.into(), &"UTF-8".into()));
    assert_eq!(
        (&said["separator"], &said["quote"], &said["line_end"], &said["header"]),
        (&",".into(), &"\"".into(), &"\n".into(), &true.into())
    );
    assert_eq!(said["null"], "an empty field without quotes; empty text has quotes");
    assert_eq!(said["citation"], marks::CITATION_TEXT);
    assert_eq!(said["notes"], serde_json::json!({ marks::STAGE: "sample" }));
    let columns = said["columns"].as_array().unwrap().iter();
    let columns: Vec<_> = columns.map(|column| (&column["name"], &column["type"])).collect();
    let types = ["Int64", "Float64", "Date32", "Utf8"].map(serde_json::Value::from);
    let names = NAMES.map(serde_json::Value::from);
    assert_eq!(columns, names.iter().zip(&types).collect::<Vec<_>>());
}

#[test]
fn a_table_that_ends_in_an_error_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("out");
    let path = directory.join("table.csv");
    let budget = Budget::private();
    let batch = rows(&vec![(Some(1), None, Some(0), None); 1000]);
    let bad = rows(&[(None, None, Some(i32::MAX), None)]);
    let write = |produce: &(dyn Fn(&mut super::Deliver<'_>) -> Result<(), Error> + Sync)| {
        let error = csv::write(&budget, threads(2), &path, &Schema::empty(), &[], produce);
        assert!(budget.stat(&path).unwrap().is_none());
        assert!(budget.stat(&description::path_of(&path)).unwrap().is_none());
        error.unwrap_err()
    };
    let interrupted = write(&|deliver| {
        (0..500).try_for_each(|_| deliver(batch.clone()))?;
        Err(Error::Interrupted { signal: 2 })
    });
    assert!(matches!(interrupted, Error::Interrupted { signal: 2 }), "{interrupted}");
    // The error of a value, not that of the deliveries behind it.
    let problem = write(&|deliver| {
        deliver(bad.clone())?;
        (0..500).try_for_each(|_| deliver(batch.clone()))
    });
    assert!(problem.to_string().contains("table.csv: column `Day` holds day"), "{problem}");
}
