//! The columns of an output, and how a row group of it is made of row groups of the sources.

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use bytes::Bytes;
use catalog::{Column, ParquetName};
use parquet::arrow::arrow_writer::ArrowColumnChunk;
use parquet::arrow::{ArrowSchemaConverter, add_encoded_arrow_schema_to_metadata};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::SchemaDescriptor;
use stage::chunks::Chunks;
use stage::work::{Input, Task, TaskError};
use stage::{Error, Session, format, pool};

use crate::pages::{self, Chunk};
use crate::source::Piece;
use crate::splice::Joined;

/// The column that names the source of each row.
const SOURCE_FILE: &str = "SourceFile";
/// Rows of it that are written at once.
const NAME_ROWS: usize = 16_384;

/// The columns of an output, and how they are written.
pub(crate) struct Layout<'a> {
    inputs: &'a [Input],
    output: PathBuf,
    /// The columns that every source must have. They come first.
    declared: Schema,
    fields: Vec<FieldRef>,
    columns: SchemaDescriptor,
    properties: WriterPropertiesPtr,
}

/// A column chunk that is made and not written yet.
enum MadeChunk {
    Joined(Joined),
    Encoded(ArrowColumnChunk),
}

impl MadeChunk {
    fn append_to<W: Write + Send>(
        self,
        output: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        match self {
            Self::Joined(joined) => joined.append_to(output),
            Self::Encoded(chunk) => chunk.append_to_row_group(output),
        }
    }
}

impl<'a> Layout<'a> {
    /// The layout of a task's output; `provenance` adds a column that names the source of each row.
    pub(crate) fn new(
        session: &Session,
        task: &'a Task,
        provenance: bool,
        notes: &[(&str, String)],
    ) -> Result<Self, TaskError> {
        let output = task.output_path();
        let encoding = |error| TaskError::encoding(&output, error);
        let mut fields = declared(session, task);
        let declared = Schema::new(fields.clone());
        if provenance {
            fields.push(Arc::new(Field::new(SOURCE_FILE, DataType::Utf8, true)));
        }
        let schema = Schema::new(fields.clone());
        let columns = ArrowSchemaConverter::new().convert(&schema).map_err(encoding)?;
        let mut properties = format::writer_properties(task.dataset, notes);
        add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
        let properties = Arc::new(properties);
        Ok(Self { inputs: &task.inputs, output, declared, fields, columns, properties })
    }

    /// The columns that every source must have.
    pub(crate) fn declared(&self) -> &Schema {
        &self.declared
    }

    /// Begins the file.
    pub(crate) fn begin<W: Write + Send>(
        &self,
        output: W,
    ) -> Result<SerializedFileWriter<W>, TaskError> {
        let root = self.columns.root_schema_ptr();
        let properties = Arc::clone(&self.properties);
        SerializedFileWriter::new(output, root, properties).map_err(|error| self.encoding(error))
    }

    /// A failure to write the file.
    pub(crate) fn encoding(&self, error: ParquetError) -> TaskError {
        TaskError::encoding(&self.output, error)
    }

    /// Makes a row group of pieces and writes it. What is decoded is shared out to the threads by
    /// columns, which changes no byte.
    pub(crate) fn write_group<W: Write + Send>(
        &self,
        writer: &mut SerializedFileWriter<W>,
        pieces: &[Piece],
        threads: NonZeroUsize,
    ) -> Result<(), TaskError> {
        let (joined, anew): (Vec<_>, Vec<_>) =
            (0..self.declared.fields().len()).partition(|column| {
                pages::can_be_joined(pieces, *column, &self.columns.column(*column))
            });
        let mut chunks: Vec<Option<MadeChunk>> = self.fields.iter().map(|_| None).collect();
        for (column, chunk) in joined.iter().zip(self.join(pieces, &joined)?) {
            chunks[*column] = Some(MadeChunk::Joined(chunk));
        }
        let share = anew.len().div_ceil(threads.get()).max(1);
        pool::map_ordered(
            threads,
            anew.chunks(share),
            |columns| Ok((columns, self.encode(pieces, columns)?)),
            |encoded: Result<(&[usize], Vec<ArrowColumnChunk>), TaskError>| {
                let (columns, encoded) = encoded?;
                for (column, chunk) in columns.iter().zip(encoded) {
                    chunks[*column] = Some(MadeChunk::Encoded(chunk));
                }
                Ok::<_, TaskError>(())
            },
        )?;
        if let Some(names @ None) = chunks.last_mut() {
            *names = self.names(pieces)?.map(MadeChunk::Encoded);
        }
        let encoding = |error| self.encoding(error);
        let mut output = writer.next_row_group().map_err(encoding)?;
        for chunk in chunks {
            let chunk = chunk.ok_or_else(|| Error::Internal("a column was not made".into()))?;
            chunk.append_to(&mut output).map_err(encoding)?;
        }
        output.close().map_err(encoding)?;
        Ok(())
    }

    /// Joins the pages of columns. Those of one piece are read together.
    fn join(&self, pieces: &[Piece], columns: &[usize]) -> Result<Vec<Joined>, TaskError> {
        let mut by_piece: Vec<std::vec::IntoIter<Bytes>> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let ranges = columns.iter().map(|column| pages::range(piece, *column));
            let ranges: Vec<_> =
                ranges.collect::<Result<_, _>>().map_err(|reason| piece.failure(&reason))?;
            let read = piece.source.file.read_ranges(&ranges);
            by_piece.push(read.map_err(|error| TaskError::reading(&error))?.into_iter());
        }
        let mut joined = Vec::with_capacity(columns.len());
        for column in columns {
            let mut chunks = Vec::with_capacity(pieces.len());
            for (piece, read) in pieces.iter().zip(&mut by_piece) {
                let bytes = read.next().unwrap_or_default();
                let chunk = Chunk::of(piece, *column, bytes);
                chunks.push(chunk.map_err(|reason| piece.failure(&reason))?);
            }
            let chunk = Joined::of(&self.columns.column(*column), &chunks);
            joined.push(chunk.map_err(|error| self.encoding(error))?);
        }
        Ok(joined)
    }

    /// Decodes columns and encodes them again, a batch at a time.
    fn encode(
        &self,
        pieces: &[Piece],
        columns: &[usize],
    ) -> Result<Vec<ArrowColumnChunk>, TaskError> {
        let encoding = |error| self.encoding(error);
        let fields = columns.iter().map(|column| Arc::clone(&self.fields[*column])).collect();
        let mut chunks = self.begin_chunks(fields)?;
        for piece in pieces {
            piece.for_each_batch(columns, |arrays| chunks.write(arrays).map_err(encoding))?;
        }
        chunks.finish().map_err(encoding)
    }

    /// Begins chunks of these columns.
    fn begin_chunks(&self, fields: Vec<FieldRef>) -> Result<Chunks, TaskError> {
        let root = ArrowSchemaConverter::new().convert(&Schema::new(fields.clone()));
        root.and_then(|root| Chunks::begin(fields, root.root_schema_ptr(), &self.properties))
            .map_err(|error| self.encoding(error))
    }

    /// The column that names the source of each row.
    fn names(&self, pieces: &[Piece]) -> Result<Option<ArrowColumnChunk>, TaskError> {
        let encoding = |error| self.encoding(error);
        let fields = self.fields.last().cloned().into_iter().collect();
        let mut chunks = self.begin_chunks(fields)?;
        for piece in pieces {
            let name = &self.inputs[piece.source.number].name;
            let mut left = usize::try_from(piece.rows()).unwrap_or(usize::MAX);
            while left > 0 {
                let rows = left.min(NAME_ROWS);
                let names = StringArray::from_iter_values(std::iter::repeat_n(name, rows));
                chunks.write(&[Arc::new(names) as ArrayRef]).map_err(encoding)?;
                left -= rows;
            }
        }
        Ok(chunks.finish().map_err(encoding)?.pop())
    }
}

/// The columns that every source must have: as the settings of conversion and, for cleaned files,
/// of cleaning shape them.
fn declared(session: &Session, task: &Task) -> Vec<FieldRef> {
    let is_cleaned = |input: &Input| {
        ParquetName::parse(task.dataset, &input.name).is_some_and(|name| name.cleaned)
    };
    if task.inputs.iter().any(is_cleaned) {
        return session.settings.cleaned_schema(task.dataset).fields().to_vec();
    }
    let columns = session.settings.convert.of(task.dataset).output_columns(task.dataset);
    let field =
        |column: &Column| Arc::new(Field::new(column.name, column.column_type.data_type(), true));
    columns.iter().map(field).collect()
}
