//! Column chunks made anew, of rows that were decoded, for the columns of a row group that cannot be
//! taken as they are.

use std::io;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{FieldRef, Schema};
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::TypePtr;

/// Chunks under construction, of one row group.
#[derive(Debug)]
pub struct Chunks {
    fields: Vec<FieldRef>,
    writers: Vec<ArrowColumnWriter>,
}

impl Chunks {
    /// Begins a chunk for each column; `root` is their Parquet schema. Only for these: a compression
    /// context a column is dear.
    ///
    /// # Errors
    ///
    /// [`ParquetError`] when fields and schema do not fit together.
    pub fn begin(
        fields: Vec<FieldRef>,
        root: TypePtr,
        properties: &WriterPropertiesPtr,
    ) -> Result<Self, ParquetError> {
        let schema = Arc::new(Schema::new(fields.clone()));
        // Writers of columns come from a writer of a file that has these columns only.
        let file = SerializedFileWriter::new(io::sink(), root, Arc::clone(properties))?;
        let writers = ArrowRowGroupWriterFactory::new(&file, schema).create_column_writers(0)?;
        Ok(Self { fields, writers })
    }

    /// Adds rows; an array for each column.
    ///
    /// # Errors
    ///
    /// [`ParquetError`] when an array is of another type than its field.
    pub fn write(&mut self, arrays: &[ArrayRef]) -> Result<(), ParquetError> {
        for ((field, array), writer) in self.fields.iter().zip(arrays).zip(&mut self.writers) {
            for leaf in compute_leaves(field, array)? {
                writer.write(&leaf)?;
            }
        }
        Ok(())
    }

    /// The chunks, in the order of the columns.
    ///
    /// # Errors
    ///
    /// [`ParquetError`] when one cannot be encoded.
    pub fn finish(self) -> Result<Vec<ArrowColumnChunk>, ParquetError> {
        self.writers.into_iter().map(ArrowColumnWriter::close).collect()
    }
}
