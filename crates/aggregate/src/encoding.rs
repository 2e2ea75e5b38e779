//! Column chunks made anew, of rows that were decoded.

use std::io;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{FieldRef, Schema};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::SerializedFileWriter;

/// Chunks under construction, of one row group.
pub(crate) struct Chunks {
    fields: Vec<FieldRef>,
    writers: Vec<ArrowColumnWriter>,
}

impl Chunks {
    /// Begins a chunk for each column. Only for these: a compression context a column is dear.
    pub(crate) fn begin(
        fields: Vec<FieldRef>,
        properties: &WriterPropertiesPtr,
    ) -> Result<Self, ParquetError> {
        let schema = Arc::new(Schema::new(fields.clone()));
        let root = ArrowSchemaConverter::new().convert(&schema)?.root_schema_ptr();
        // Writers of columns come from a writer of a file that has these columns only.
        let file = SerializedFileWriter::new(io::sink(), root, Arc::clone(properties))?;
        let writers = ArrowRowGroupWriterFactory::new(&file, schema).create_column_writers(0)?;
        Ok(Self { fields, writers })
    }

    /// Adds rows; an array for each column.
    pub(crate) fn write(&mut self, arrays: &[ArrayRef]) -> Result<(), ParquetError> {
        for ((field, array), writer) in self.fields.iter().zip(arrays).zip(&mut self.writers) {
            for leaf in compute_leaves(field, array)? {
                writer.write(&leaf)?;
            }
        }
        Ok(())
    }

    /// The chunks, in the order of the columns.
    pub(crate) fn finish(self) -> Result<Vec<ArrowColumnChunk>, ParquetError> {
        self.writers.into_iter().map(ArrowColumnWriter::close).collect()
    }
}
