//! The rows of the output: those that were fetched, as often as they were drawn, with their weight and
//! their place in a converted file beside them.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use catalog::ParquetName;
use stage::Error;

use crate::design::Design;
use crate::draw::{Draw, Drawn};
use crate::population::Population;

/// The column of weights.
pub(crate) const WEIGHT: &str = "SamplingWeight";
/// The columns that say where a row stands: the converted file, and its place there, from 0.
pub(crate) const SOURCE: [&str; 2] = ["SourceFile", "SourceRow"];

/// Makes rows of the output of fetched ones.
pub(crate) struct Rows<'a> {
    population: &'a Population,
    draw: &'a Draw,
    /// Those that are still to come.
    left: std::slice::Iter<'a, Drawn>,
    weights: bool,
    provenance: bool,
    schema: SchemaRef,
}

impl<'a> Rows<'a> {
    /// For a draw, of which columns of this schema are fetched.
    pub(crate) fn new(
        design: &Design,
        population: &'a Population,
        draw: &'a Draw,
        fetched: &Schema,
    ) -> Self {
        let Design { weights, provenance, .. } = *design;
        let mut fields: Vec<_> = fetched.fields().iter().cloned().collect();
        let mut add = |name, data_type| fields.push(Arc::new(Field::new(name, data_type, true)));
        if weights {
            add(WEIGHT, DataType::Float64);
        }
        if provenance {
            add(SOURCE[0], DataType::Utf8);
            add(SOURCE[1], DataType::Int64);
        }
        let schema = Arc::new(Schema::new(fields));
        Self { population, draw, left: draw.rows.iter(), weights, provenance, schema }
    }

    /// The schema of the output.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Makes rows of the next fetched ones, which come in the order of their positions.
    pub(crate) fn make(&mut self, fetched: &RecordBatch) -> Result<RecordBatch, Error> {
        let drawn: Vec<&Drawn> = self.left.by_ref().take(fetched.num_rows()).collect();
        let places = drawn.iter().zip(0_u64..).flat_map(|(row, place)| {
            std::iter::repeat_n(place, usize::try_from(row.times).unwrap_or(usize::MAX))
        });
        let places: UInt64Array = places.collect();
        let at = |place: &u64| usize::try_from(*place).ok().and_then(|at| drawn.get(at).copied());
        let rows: Vec<&Drawn> = places.values().iter().filter_map(at).collect();
        let failed = |error: ArrowError| Error::Internal(format!("cannot repeat rows: {error}"));
        let repeat = |column: &ArrayRef| {
            if places.len() == fetched.num_rows() {
                Ok(Arc::clone(column))
            } else {
                take(column, &places, None).map_err(failed)
            }
        };
        let mut columns: Vec<ArrayRef> =
            fetched.columns().iter().map(repeat).collect::<Result<_, _>>()?;
        if self.weights {
            let weight = |row: &&Drawn| {
                let stratum = usize::try_from(row.stratum).unwrap_or(usize::MAX);
                self.draw.strata.get(stratum).map(crate::draw::Stratum::weight)
            };
            columns.push(Arc::new(rows.iter().map(weight).collect::<Float64Array>()));
        }
        if self.provenance {
            let origins: Vec<_> =
                rows.iter().map(|row| self.population.origin(row.position)).collect();
            let converted = |name: ParquetName| ParquetName { cleaned: false, ..name }.to_string();
            let files = origins.iter().map(|origin| origin.map(|(name, _)| converted(name)));
            columns.push(Arc::new(files.collect::<StringArray>()));
            let numbers = origins.iter().map(|origin| i64::try_from((*origin)?.1).ok());
            columns.push(Arc::new(numbers.collect::<Int64Array>()));
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(failed)
    }
}
