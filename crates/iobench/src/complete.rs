//! Whether a file is whole, and what it says of its content: the directory of a zip, the footer of
//! a Parquet file. Data are never read.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::{FooterTail, ParquetMetaData, ParquetMetaDataReader};
use zip::ZipArchive;

use crate::direct;
use crate::record::Content;

/// Bytes of a file's end that are read first: more than the footers and directories of most files.
const TAIL: u64 = 64 << 10;
/// Bytes of a footer or a directory that are believed.
const LARGEST_TAIL: u64 = 256 << 20;

/// What a file says of its content; `None` where its form is not known.
///
/// # Errors
///
/// Why it is not whole, or cannot be read.
pub(crate) fn content(path: &Path) -> Result<Option<Content>, String> {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let look = match extension.as_str() {
        "parquet" => parquet_content,
        "zip" => zip_content,
        _ => return Ok(None),
    };
    let read = || {
        let file = direct::open(path)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    };
    let (file, size) = read().map_err(|error: io::Error| error.to_string())?;
    look(&file, size).map(Some)
}

fn parquet_content(file: &File, size: u64) -> Result<Content, String> {
    let incomplete = |why: &str| format!("no whole Parquet file: {why}");
    let tail = |length| direct::tail(file, size, length).map_err(|error| error.to_string());
    if size < FOOTER_SIZE as u64 {
        return Err(incomplete("it is shorter than a footer"));
    }
    let (_, mut bytes) = tail(TAIL)?;
    let end = bytes.last_chunk().ok_or_else(|| incomplete("it is shorter than a footer"))?;
    let footer = FooterTail::try_new(end).map_err(|error| incomplete(&error.to_string()))?;
    let needed = footer.metadata_length() as u64 + FOOTER_SIZE as u64;
    if needed > size || needed > LARGEST_TAIL {
        return Err(incomplete("its footer is longer than the file may be"));
    }
    if needed > bytes.len() as u64 {
        (_, bytes) = tail(needed)?;
    }
    let begin = bytes.len() - footer.metadata_length() - FOOTER_SIZE;
    let metadata = &bytes[begin..bytes.len() - FOOTER_SIZE];
    let metadata = ParquetMetaDataReader::decode_metadata(metadata)
        .map_err(|error| incomplete(&error.to_string()))?;
    of_footer(&metadata, size - needed).ok_or_else(|| incomplete("a column chunk is cut off"))
}

/// The content of a Parquet file whose data may end at `end`; `None` where they do not.
fn of_footer(metadata: &ParquetMetaData, end: u64) -> Option<Content> {
    let mut content = Content { complete: 1, ..Content::default() };
    content.rows = u64::try_from(metadata.file_metadata().num_rows()).ok()?;
    for group in metadata.row_groups() {
        content.row_groups += 1;
        for chunk in group.columns() {
            let offset = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
            let bytes = u64::try_from(chunk.compressed_size()).ok()?;
            if u64::try_from(offset).ok()?.checked_add(bytes)? > end {
                return None;
            }
            let index = chunk.offset_index_offset().zip(chunk.offset_index_length());
            if let Some((offset, bytes)) = index {
                let offset = u64::try_from(offset).ok()?;
                if offset.checked_add(u64::try_from(bytes).ok()?)? > end {
                    return None;
                }
            }
            content.compressed_bytes += bytes;
            content.uncompressed_bytes += u64::try_from(chunk.uncompressed_size()).ok()?;
            let codec = chunk.compression().to_string().to_ascii_lowercase();
            *content.codecs.entry(codec).or_default() += 1;
        }
    }
    Some(content)
}

fn zip_content(file: &File, size: u64) -> Result<Content, String> {
    let reader = Windowed { file, size, at: 0, window: (0, Vec::new()) };
    members(reader, size).map_err(|why| format!("no whole zip: {why}"))
}

fn members(reader: Windowed<'_>, size: u64) -> Result<Content, String> {
    let mut archive = ZipArchive::new(reader).map_err(|error| error.to_string())?;
    let mut content = Content { complete: 1, ..Content::default() };
    for index in 0..archive.len() {
        let member = archive.by_index_raw(index).map_err(|error| error.to_string())?;
        let end = member.header_start().checked_add(member.compressed_size());
        if end.is_none_or(|end| end > size) {
            return Err(format!("member {} is cut off", index + 1));
        }
        content.compressed_bytes += member.compressed_size();
        content.uncompressed_bytes += member.size();
        let codec = member.compression().to_string().to_ascii_lowercase();
        *content.codecs.entry(codec).or_default() += 1;
    }
    Ok(content)
}

/// A file of which a part is in memory, the end first.
struct Windowed<'a> {
    file: &'a File,
    size: u64,
    at: u64,
    /// Where the part begins, and its bytes.
    window: (u64, Vec<u8>),
}

impl Windowed<'_> {
    /// The bytes from the current position on that are in memory.
    fn in_memory(&self) -> &[u8] {
        let (begin, bytes) = &self.window;
        let skip = self.at.checked_sub(*begin).and_then(|skip| usize::try_from(skip).ok());
        skip.and_then(|skip| bytes.get(skip..)).unwrap_or_default()
    }
}

impl Read for Windowed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.in_memory().is_empty() && self.at < self.size {
            let end = self.at.saturating_add(TAIL).min(self.size);
            self.window = direct::tail(self.file, end, end - self.at)?;
        }
        let read = self.in_memory().read(into)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Windowed<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(back) => self.size.checked_add_signed(back),
            SeekFrom::Current(on) => self.at.checked_add_signed(on),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        // The directory and its end stand together.
        if self.at + TAIL >= self.size && self.in_memory().is_empty() {
            self.window = direct::tail(self.file, self.size, TAIL)?;
        }
        Ok(self.at)
    }
}

/// Adds what another file says.
pub(crate) fn add(total: &mut Content, file: Content) {
    total.complete += file.complete;
    total.compressed_bytes += file.compressed_bytes;
    total.uncompressed_bytes += file.uncompressed_bytes;
    total.row_groups += file.row_groups;
    total.rows += file.rows;
    for (codec, uses) in file.codecs {
        *total.codecs.entry(codec).or_default() += uses;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use zip::write::SimpleFileOptions;

    fn content_of(name: &str, bytes: &[u8]) -> Result<Option<Content>, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        content(&path)
    }

    fn parquet_bytes() -> Vec<u8> {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50_000));
        let batch = RecordBatch::try_from_iter([("number", numbers)]).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.flush().unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    }

    fn zip_bytes(members: &[&[u8]]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        for (number, bytes) in members.iter().enumerate() {
            writer.start_file(format!("{number}.csv"), SimpleFileOptions::default()).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn a_footer_tells_rows_groups_and_codecs() {
        let content = content_of("a.parquet", &parquet_bytes()).unwrap().unwrap();
        assert_eq!((content.complete, content.rows, content.row_groups), (1, 100_000, 2));
        assert_eq!(content.codecs, [(String::from("uncompressed"), 2)].into());
        assert_eq!(content.compressed_bytes, content.uncompressed_bytes);
    }

    #[test]
    fn a_directory_tells_members_and_sizes() {
        // The members begin long before the part that is read first.
        let noise: Vec<u8> =
            (0..300_000_u32).flat_map(|i| i.wrapping_mul(i).to_le_bytes()).collect();
        let bytes = zip_bytes(&[&noise, &vec![b'a'; 100_000]]);
        assert!(bytes.len() as u64 > 2 * TAIL);
        let content = content_of("a.csv.ZIP", &bytes).unwrap().unwrap();
        assert_eq!((content.complete, content.uncompressed_bytes), (1, 1_300_000));
        assert!(content.compressed_bytes < bytes.len() as u64);
        assert_eq!(content.codecs, [(String::from("deflated"), 2)].into());
    }

    #[test]
    fn what_is_cut_off_is_not_whole() {
        let parquet = parquet_bytes();
        let zip = zip_bytes(&[b"some words"]);
        for (name, bytes) in [("a.parquet", &parquet), ("a.zip", &zip)] {
            for length in [0, 3, bytes.len() / 2, bytes.len() - 1] {
                let error = content_of(name, &bytes[..length]).unwrap_err();
                assert!(error.starts_with("no whole "), "{name} {length}: {error}");
            }
            // The end is there, and what it speaks of is not.
            let error = content_of(name, &bytes[10..]).unwrap_err();
            assert!(error.starts_with("no whole "), "{name}: {error}");
        }
        assert_eq!(content_of("a.csv", b"any").unwrap(), None);
    }

    #[test]
    fn a_footer_that_claims_too_much_is_refused() {
        let mut bytes = parquet_bytes();
        let end = bytes.len() - FOOTER_SIZE;
        bytes[end..end + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        let error = content_of("a.parquet", &bytes).unwrap_err();
        assert_eq!(error, "no whole Parquet file: its footer is longer than the file may be");
    }
}
