//! Statistics of chunks together: least and greatest value, numbers of nulls, by chunk and by page.
//! What one of them does not tell is not told of all.

use std::cmp::Ordering;

use parquet::basic::{BoundaryOrder, Type};
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::metadata::{ColumnIndexBuilder, LevelHistogram};
use parquet::file::page_index::column_index::{ColumnIndexIterators, ColumnIndexMetaData};
use parquet::file::statistics::{Statistics, ValueStatistics};

use crate::pages::Chunk;

/// The statistics of chunks that become one.
pub(crate) fn of_chunks(chunks: &[Chunk<'_>]) -> Option<Statistics> {
    let mut of_all = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        // The order of values is not known where only the old fields are there.
        let known = chunk.metadata.statistics().filter(|it| !it.is_min_max_deprecated());
        of_all.push((known?, chunk.nulls() == Some(chunk.rows)));
    }
    let nulls = chunks.iter().try_fold(0, |sum: i64, chunk| sum.checked_add(chunk.nulls()?));
    let nulls = nulls.and_then(|nulls| u64::try_from(nulls).ok());
    match of_all.first()?.0 {
        Statistics::Int64(_) => {
            let typed = typed(&of_all, |it| match it {
                Statistics::Int64(typed) => Some(typed),
                _ => None,
            })?;
            let compare = |one: &i64, other: &i64| Some(one.cmp(other));
            Some(Statistics::Int64(combined(&typed, nulls, compare)))
        }
        Statistics::Double(_) => {
            let typed = typed(&of_all, |it| match it {
                Statistics::Double(typed) => Some(typed),
                _ => None,
            })?;
            let mut nans = of_all.iter().filter(|(_, is_null)| !is_null);
            let nans = nans.try_fold(0, |sum: u64, (it, _)| sum.checked_add(it.nan_count_opt()?));
            let combined = combined(&typed, nulls, by_number).with_nan_count(nans);
            Some(Statistics::Double(combined))
        }
        Statistics::ByteArray(_) => {
            let typed = typed(&of_all, |it| match it {
                Statistics::ByteArray(typed) => Some(typed),
                _ => None,
            })?;
            let by_bytes = |one: &ByteArray, other: &ByteArray| Some(one.data().cmp(other.data()));
            Some(Statistics::ByteArray(combined(&typed, nulls, by_bytes)))
        }
        _ => None,
    }
}

/// The statistics of one type, each with whether all of its values are null.
fn typed<'a, T>(
    of_all: &[(&'a Statistics, bool)],
    of_type: impl Fn(&'a Statistics) -> Option<&'a ValueStatistics<T>>,
) -> Option<Vec<(&'a ValueStatistics<T>, bool)>> {
    of_all.iter().map(|(it, is_null)| Some((of_type(it)?, *is_null))).collect()
}

/// A bound of values, and whether it is one of them.
type Bound<T> = (T, bool);

fn combined<T: Clone>(
    of_all: &[(&ValueStatistics<T>, bool)],
    nulls: Option<u64>,
    compare: impl Fn(&T, &T) -> Option<Ordering>,
) -> ValueStatistics<T> {
    let unknown = ValueStatistics::new(None, None, None, nulls, false);
    let mut range: Option<(Bound<T>, Bound<T>)> = None;
    for (it, _) in of_all.iter().filter(|(_, is_null)| !is_null) {
        let (Some(least), Some(greatest)) = (it.min_opt(), it.max_opt()) else { return unknown };
        if compare(least, greatest).is_none_or(Ordering::is_gt) {
            return unknown;
        }
        let least = (least.clone(), it.min_is_exact());
        let greatest = (greatest.clone(), it.max_is_exact());
        range = Some(match range {
            None => (least, greatest),
            Some((low, high)) => (
                outermost(low, least, Ordering::Less, &compare),
                outermost(high, greatest, Ordering::Greater, &compare),
            ),
        });
    }
    let Some(((least, is_least), (greatest, is_greatest))) = range else { return unknown };
    ValueStatistics::new(Some(least), Some(greatest), None, nulls, false)
        .with_min_is_exact(is_least)
        .with_max_is_exact(is_greatest)
}

/// The bound further out on one side; of two alike, the one that is a value.
fn outermost<T>(
    one: Bound<T>,
    other: Bound<T>,
    side: Ordering,
    compare: impl Fn(&T, &T) -> Option<Ordering>,
) -> Bound<T> {
    match compare(&one.0, &other.0) {
        Some(Ordering::Equal) => (one.0, one.1 || other.1),
        Some(found) if found == side => one,
        _ => other,
    }
}

/// NaN has no place in the order of numbers.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "values of any type are compared by reference"
)]
fn by_number(one: &f64, other: &f64) -> Option<Ordering> {
    (!one.is_nan() && !other.is_nan()).then(|| one.total_cmp(other))
}

/// The statistics of all pages, for columns of numbers.
pub(crate) fn column_index(chunks: &[Chunk<'_>]) -> Result<Option<ColumnIndexMetaData>> {
    let indexes: Option<Vec<_>> = chunks.iter().map(|chunk| chunk.column_index).collect();
    let Some(indexes) = indexes else { return Ok(None) };
    if indexes.iter().all(|index| matches!(index, ColumnIndexMetaData::INT64(_))) {
        let compare = |one: &i64, other: &i64| Some(one.cmp(other));
        return joined(Type::INT64, chunks, &indexes, i64::to_le_bytes, compare);
    }
    // A page of floating-point numbers has to count those that are none.
    let counts_nans = |index: &&ColumnIndexMetaData| {
        matches!(index, ColumnIndexMetaData::DOUBLE(_)) && index.nan_counts().is_some()
    };
    if indexes.iter().all(counts_nans) {
        return joined(Type::DOUBLE, chunks, &indexes, f64::to_le_bytes, by_number);
    }
    Ok(None)
}

fn joined<T: ColumnIndexIterators<Item = T> + Copy>(
    column_type: Type,
    chunks: &[Chunk<'_>],
    indexes: &[&ColumnIndexMetaData],
    bytes: impl Fn(T) -> [u8; 8],
    compare: impl Fn(&T, &T) -> Option<Ordering>,
) -> Result<Option<ColumnIndexMetaData>> {
    let has_histogram =
        |index: &&ColumnIndexMetaData| index.definition_level_histogram(0).is_some();
    let have_histograms = indexes.iter().all(has_histogram);
    let mut builder = ColumnIndexBuilder::new(column_type);
    let mut ranges = Vec::new();
    for (chunk, index) in chunks.iter().zip(indexes) {
        let values = T::min_values_iter(index).zip(T::max_values_iter(index));
        for ((number, page), values) in chunk.pages.iter().enumerate().zip(values) {
            let Some(nulls) = index.null_count(number) else { return Ok(None) };
            let range = values.0.zip(values.1);
            let of_range = |value: Option<T>| value.map_or_else(Vec::new, |it| bytes(it).to_vec());
            let (least, greatest) = (of_range(values.0), of_range(values.1));
            builder.append(range.is_none(), least, greatest, nulls, index.nan_count(number));
            if have_histograms {
                builder.append_histograms(&None, &histogram(nulls, page.rows));
            }
            ranges.extend(range);
        }
    }
    builder.set_boundary_order(order(&ranges, compare));
    builder.build().map(Some)
}

/// How many values are null and how many are not.
pub(crate) fn histogram(nulls: i64, rows: i64) -> Option<LevelHistogram> {
    let mut histogram = LevelHistogram::try_new(1)?;
    histogram.increment_by(0, nulls);
    histogram.increment_by(1, rows.saturating_sub(nulls));
    Some(histogram)
}

/// Whether both the least and the greatest values of pages rise, or fall.
fn order<T>(ranges: &[(T, T)], compare: impl Fn(&T, &T) -> Option<Ordering>) -> BoundaryOrder {
    let never = |turn: Ordering| {
        ranges.windows(2).all(|pair| {
            let [(least, greatest), (next_least, next_greatest)] = pair else { return true };
            let found = [compare(least, next_least), compare(greatest, next_greatest)];
            found.iter().all(|found| found.is_some_and(|found| found != turn))
        })
    };
    if never(Ordering::Greater) {
        BoundaryOrder::ASCENDING
    } else if never(Ordering::Less) {
        BoundaryOrder::DESCENDING
    } else {
        BoundaryOrder::UNORDERED
    }
}
