//! Each step, its counts, and what it may delete.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Date32Type, Float32Type, Float64Type};
use catalog::marks;
use parquet::file::properties::WriterProperties;
use stage::ExitStatus;

use super::{NAME, Root, events, ints, ordinary, read};
use crate::steps::places;

const OUTPUT: &str = "20200102.export_cleaned.parquet";

/// The events with other values in some columns.
fn with(events: &RecordBatch, columns: &[(&str, ArrayRef)]) -> RecordBatch {
    let mut arrays = events.columns().to_vec();
    for (name, array) in columns {
        arrays[events.schema().index_of(name).unwrap()] = Arc::clone(array);
    }
    RecordBatch::try_new(events.schema(), arrays).unwrap()
}

fn text(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn fractions(values: &[Option<f64>]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn whole(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn texts<'a>(batch: &'a RecordBatch, name: &str) -> Vec<Option<&'a str>> {
    batch.column_by_name(name).unwrap().as_string::<i32>().iter().collect()
}

fn counts(root: &Root) -> BTreeMap<String, u64> {
    root.ledger().records.remove(OUTPUT).unwrap().counts
}

/// Cleans these events and returns them with what was counted.
fn clean(settings: &str, events: &RecordBatch) -> (Root, RecordBatch, BTreeMap<String, u64>) {
    let root = Root::new(&format!("[clean.events]\n{settings}"));
    root.write_converted(NAME, events);
    assert_eq!(root.run(&[]).unwrap(), ExitStatus::Done, "{settings}");
    let cleaned = read(&root.open_cleaned(NAME));
    let counts = counts(&root);
    (root, cleaned, counts)
}

#[test]
fn markers_are_counted_and_go_when_asked() {
    // CL-07
    let codes = |values: [&str; 4]| text(&values.map(Some));
    let batch = with(
        &events(&ordinary(4)),
        &[
            ("EventCode", codes(["---", "X", "010", "---"])),
            ("EventBaseCode", codes(["---", "X", "010", "010"])),
            ("EventRootCode", codes(["--", "X", "01", "01"])),
        ],
    );
    let (_, cleaned, counted) = clean("", &batch);
    assert_eq!(cleaned.num_rows(), 4);
    assert_eq!(counted.get("rows whose event code is a marker"), Some(&2));
    let (root, cleaned, counted) = clean("event_markers = 'drop'", &batch);
    assert_eq!(texts(&cleaned, "EventCode"), [Some("010"), Some("---")]);
    assert_eq!(counted.get("rows dropped, event code is a marker"), Some(&2));
    let record = root.ledger().records.remove(OUTPUT).unwrap();
    assert_eq!((record.rows_read, record.rows), (4, 2));
    assert_eq!(root.open_cleaned(NAME).key_value(marks::ROWS_READ), Some("4"));
}

#[test]
fn padded_values_are_counted_and_change_only_when_asked() {
    // CL-04
    let values = [Some(" USA"), Some(" "), Some("USA"), None];
    let batch = with(&events(&ordinary(4)), &[("Actor2Code", text(&values))]);
    let (_, cleaned, counted) = clean("", &batch);
    assert_eq!(texts(&cleaned, "Actor2Code"), values);
    assert_eq!(counted.get("padded values in Actor2Code"), Some(&2));

    let (_, cleaned, counted) = clean("trim_strings = true\nblank_to_null = true", &batch);
    assert_eq!(texts(&cleaned, "Actor2Code"), [Some("USA"), None, Some("USA"), None]);
    assert_eq!(counted.get("text values trimmed"), Some(&1));
    assert_eq!(counted.get("blank text values made null"), Some(&1));

    // Blanks become null before rows with nulls go.
    let (_, cleaned, counted) = clean("blank_to_null = true\nrequire = ['Actor2Code']", &batch);
    assert_eq!(texts(&cleaned, "Actor2Code"), [Some(" USA"), Some("USA")]);
    assert_eq!(counted.get("rows dropped, null in a required column"), Some(&2));
}

#[test]
fn points_become_the_places_of_the_table() {
    let root = Root::new("");
    root.write("places.parquet", &places::tests::rows(), WriterProperties::new());
    let table = root.path("places.parquet").display().to_string();
    let batch = with(
        &events(&ordinary(5)),
        &[
            (
                "ActionGeo_FeatureID",
                text(&[None, Some("FR"), Some("9"), Some("449676"), Some("x")]),
            ),
            ("ActionGeo_Lat", fractions(&[Some(48.8), Some(0.0), Some(7.0), Some(5.0), None])),
            (
                "ActionGeo_Long",
                fractions(&[Some(2.3), Some(-0.0), Some(8.0), Some(5.0), Some(1.0)]),
            ),
            ("ActionGeo_Type", whole(&[Some(4), Some(1), Some(4), Some(4), Some(4)])),
            (
                "ActionGeo_FullName",
                text(&[Some("Paris"), Some("?"), Some("N"), Some("K?la"), Some("y")]),
            ),
            ("Actor1Geo_FeatureID", text(&[None; 5])),
            ("Actor1Geo_Lat", fractions(&[None; 5])),
            ("Actor1Geo_Long", fractions(&[None; 5])),
            ("Actor1Geo_Type", whole(&[Some(0); 5])),
            ("Actor1Geo_FullName", text(&[None; 5])),
        ],
    );
    let settings = format!("places_table = '{table}'\nrequire = ['ActionGeo_Lat']");
    let (_, cleaned, counted) = clean(&settings, &batch);
    let ids = [Some("-2"), Some("FR"), Some("9"), Some("gns:449676")];
    assert_eq!(texts(&cleaned, "ActionGeo_FeatureID"), ids);
    let names = [Some("Paris"), Some("France"), Some("N"), Some("Kula")];
    assert_eq!(texts(&cleaned, "ActionGeo_FullName"), names);
    assert_eq!(ints(&cleaned, "ActionGeo_Type"), [4, 1, 4, 4].map(Some));
    let lats = cleaned.column_by_name("ActionGeo_Lat").unwrap();
    assert_eq!(lats.as_primitive::<Float64Type>().values()[..], [48.8, 46.0, 7.0, 34.5]);
    let places: Vec<_> = counted
        .iter()
        .filter(|(name, _)| name.starts_with("places") || name.starts_with("rows"))
        .map(|(name, count)| (name.as_str(), *count))
        .collect();
    // Of the third point, which stands at 0.5 degrees in all rows, nothing is known either.
    assert_eq!(
        places,
        [
            ("places: cleared, no location", 1),
            ("places: found by id, no location", 1),
            ("places: id of several gazetteers", 1),
            ("places: kept, not in the table", 6),
            ("places: name damaged", 2),
            ("places: no id", 1),
            ("places: point not in the table", 1),
            ("places: resolved", 3),
            ("places: resolved, id or point changed", 3),
            ("rows dropped, null in a required column", 1),
        ]
    );
}

#[test]
fn a_table_of_places_that_is_none_stops_the_run() {
    let root = Root::new("");
    root.write_converted(NAME, &events(&ordinary(2)));
    let events_file = root.path(&format!("events/converted/{NAME}.parquet")).display().to_string();
    let config = root.path("other.toml").display().to_string();
    for (table, part) in [(events_file.as_str(), "no column `FeatureID`"), ("/nowhere", "/nowhere")]
    {
        let mut file = root.budget.stage(&root.path("other.toml"));
        let settings = format!("[clean.events]\nplaces_table = '{table}'");
        std::io::Write::write_all(&mut file, settings.as_bytes()).unwrap();
        file.publish().unwrap();
        let error = root.run_with(&config, &[]).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(error.status(), ExitStatus::Usage);
    }
}

#[test]
fn dates_and_labels_are_made_of_what_the_other_steps_leave() {
    let batch = with(
        &events(&[
            (Some(1920_01_02), Some(2020_01_02)),
            (Some(2020_02_30), Some(2020_02_29)),
            (None, None),
        ]),
        &[("Actor1EthnicCode", text(&[Some("KUR"), Some(" kur"), Some("no code")]))],
    );
    let settings = "event_date = true\nlabels = ['Actor1EthnicCode']\ntrim_strings = true";
    let (root, cleaned, counted) = clean(settings, &batch);
    let dates = cleaned.column_by_name("EventDate").unwrap().as_primitive::<Date32Type>().clone();
    assert_eq!(dates.value(0), 18_263, "2020-01-02");
    assert_eq!(dates.iter().skip(1).collect::<Vec<_>>(), [None, None]);
    assert_eq!(counted.get("days that are no date"), Some(&1));
    let labels = texts(&cleaned, "Actor1EthnicCode_Label");
    assert_eq!(labels[0], labels[1]);
    assert!(labels[0].is_some_and(|label| label.contains("Kurd")), "{labels:?}");
    assert_eq!(labels[2], None);
    let record = root.ledger().records.remove(OUTPUT).unwrap();
    let unknown = &record.unknown_codes["Actor1EthnicCode"];
    assert_eq!(
        unknown.iter().collect::<Vec<_>>(),
        [(&String::from(" kur"), &1), (&String::from("no code"), &1)]
    );
}

#[test]
fn narrow_fractions_have_32_bits_and_others_stay() {
    // CL-10
    let (_, cleaned, _) = clean("narrow = ['AvgTone']", &events(&ordinary(3)));
    let schema = cleaned.schema();
    assert_eq!(schema.field_with_name("AvgTone").unwrap().data_type(), &DataType::Float32);
    assert_eq!(schema.field_with_name("GoldsteinScale").unwrap().data_type(), &DataType::Float64);
    let tones = cleaned.column_by_name("AvgTone").unwrap().as_primitive::<Float32Type>();
    assert_eq!(tones.value(0).to_bits(), (-3.257_329_f32).to_bits());
}

#[test]
fn the_order_of_the_settings_changes_nothing() {
    let batch = events(&ordinary(20));
    let one = "trim_strings = true\nrequire = ['Actor1Code', 'Day']\ncolumns = ['Day', 'AvgTone']";
    let other =
        "columns = ['AvgTone', 'Day']\nrequire = ['Day', 'Actor1Code']\ntrim_strings = true";
    let [one, other] = [one, other].map(|settings| {
        let (root, _, _) = clean(settings, &batch);
        super::bytes(&root.budget, root.open_cleaned(NAME).path())
    });
    assert!(one == other);
}

#[test]
fn files_note_their_steps_and_what_these_lose() {
    let (root, _, _) = clean("require = ['Day']\nevent_date = true", &events(&ordinary(2)));
    let file = root.open_cleaned(NAME);
    let steps: serde_json::Value =
        serde_json::from_str(file.key_value(marks::STEPS).unwrap()).unwrap();
    let noted: Vec<_> =
        steps.as_array().unwrap().iter().map(|step| (&step["step"], &step["lossy"])).collect();
    assert_eq!(
        noted,
        [
            (&"errata".into(), &false.into()),
            (&"require".into(), &true.into()),
            (&"derive".into(), &false.into()),
        ]
    );
    let (root, _, _) = clean("keep_original = false", &events(&ordinary(2)));
    let file = root.open_cleaned(NAME);
    let steps: serde_json::Value =
        serde_json::from_str(file.key_value(marks::STEPS).unwrap()).unwrap();
    assert_eq!(steps[0]["lossy"], true);
    assert_eq!(file.schema().fields().len(), 58);
}

#[test]
fn sources_go_only_where_no_step_loses_anything() {
    // RS-14
    let batch = events(&ordinary(3));
    for (settings, may_go) in [
        ("", true),
        ("event_date = true", true),
        ("keep_original = false", false),
        ("columns = ['Day', 'GlobalEventID']", false),
        ("require = ['Day']", false),
        ("trim_strings = true", false),
        ("narrow = ['AvgTone']", false),
        ("require = ['Day']\nallow_lossy_delete_source = true", true),
    ] {
        let root = Root::new(&format!("[clean.events]\n{settings}"));
        root.write_converted(NAME, &batch);
        root.write_converted("20200103.export", &batch.slice(0, 0));
        let source = |stem| root.path(&format!("events/converted/{stem}.parquet"));
        let is_there = |stem| root.budget.stat(&source(stem)).unwrap().is_some();
        let ended = root.run(&["--delete-source"]);
        if may_go {
            assert_eq!(ended.unwrap(), ExitStatus::Done, "{settings}");
            assert!(is_there("20200103.export"), "an output without rows vouches for nothing");
            assert_eq!(
                root.run(&["--delete-source", "--delete-despite", "empty"]).unwrap(),
                ExitStatus::Done
            );
            assert!(!is_there("20200103.export"));
            assert_eq!(root.open_cleaned(NAME).rows(), 3);
        } else {
            let error = ended.unwrap_err();
            assert_eq!(error.status(), ExitStatus::Usage);
            assert!(error.hint().unwrap().contains("allow_lossy_delete_source"), "{error}");
            assert_eq!(root.budget.stat(&root.path("events/cleaned")).unwrap(), None);
        }
        assert_eq!(is_there(NAME), !may_go, "{settings}");
    }
}

#[test]
fn a_report_measures_and_writes_nothing() {
    // CL-05, CL-08, DL-08, DL-09
    let root = Root::new("[clean.events]\nrequire = ['Actor1Code']");
    let batch = with(
        &events(&ordinary(4)),
        &[
            ("GlobalEventID", whole(&[Some(1), Some(1), Some(2), Some(2)])),
            ("ActionGeo_FeatureID", text(&[Some("0"), Some("GA"), None, None])),
            ("ActionGeo_Lat", fractions(&[Some(0.0), Some(0.0), Some(0.0), Some(0.0)])),
            ("ActionGeo_Long", fractions(&[Some(0.0), Some(-0.0), Some(0.0), Some(0.0)])),
            (
                "ActionGeo_FullName",
                text(&[Some("?alab, Syria"), Some("Pre\u{9a}ovsk\u{fd}"), Some("Ré"), None]),
            ),
        ],
    );
    let last = batch.slice(3, 1);
    let batch = arrow::compute::concat_batches(&batch.schema(), [&batch, &last]).unwrap();
    root.write_converted(NAME, &batch);
    let report = root.report();
    for (name, count) in [
        ("rows dropped, null in a required column", 3),
        ("points at (0, 0) without an id", 4),
        ("points at (0, 0) with an id", 1),
        ("place names damaged", 2),
        ("event ids that stood in the file before", 3),
        ("rows equal to one before in the file", 1),
    ] {
        assert_eq!(report.counts.get(name), Some(&count), "{name} in {:?}", report.counts);
    }
    assert_eq!((report.rows.read, report.rows.written), (5, 2));
    for made in ["events/cleaned", "events/catalog"] {
        assert_eq!(root.budget.stat(&root.path(made)).unwrap(), None);
    }
}
