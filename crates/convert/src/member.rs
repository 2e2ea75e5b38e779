//! Opens a raw file: the one member of a zip, or bare text. Everything in a zip is untrusted: a
//! member's name never becomes a path, sizes are bounded before memory is asked for, and the data
//! count only once length and checksum are right.

use std::io::{Cursor, Read, Seek, SeekFrom};

use bytes::Bytes;
use crc32fast::Hasher;
use flate2::read::DeflateDecoder;
use io_budget::{Budget, BudgetFile, FileReader};
use stage::work::Input;
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use crate::problem::Problem;

/// Text up to which a member is unpacked at once, with the faster decoder: more than nearly all
/// files have.
const WHOLE_MEMBER_BYTES: u64 = 16 << 20;
/// Bytes unpacked at a time beyond that.
const CHUNK_BYTES: usize = 4 << 20;
/// A member up to this length may be any number of times its compressed length.
const EXPANSION_FROM_BYTES: u64 = 16 << 20;

/// What a member may have at most, unpacked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Times its compressed length.
    pub(crate) expansion: u64,
    /// Bytes.
    pub(crate) bytes: u64,
}

impl Limits {
    fn check(self, compressed: u64, size: u64) -> Result<(), Problem> {
        let expanded = EXPANSION_FROM_BYTES.max(compressed.saturating_mul(self.expansion));
        let limit = if size > self.bytes {
            format!("the {} allowed", self.bytes)
        } else if size > expanded {
            format!("the {} times allowed", self.expansion)
        } else {
            return Ok(());
        };
        Err(Problem::TooLarge { compressed, size, limit })
    }
}

/// Some of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Text<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// What follows the pieces before.
    Piece(&'a [u8]),
}

/// A raw file, open: in memory where it is small enough for its storage to be read at once.
#[derive(Debug)]
pub(crate) struct RawFile {
    name: String,
    data: Data,
}

#[derive(Debug)]
enum Data {
    Memory(Bytes),
    File(BudgetFile),
}

impl RawFile {
    /// Opens a file, and reads it at once if it is small.
    pub(crate) fn open(budget: &Budget, input: &Input) -> Result<Self, Problem> {
        // What stands in a raw file is not read again, the Parquet made of it is.
        let file = budget.open_listed(&input.path, input.stat)?.once();
        let data =
            if file.is_read_whole() { Data::Memory(file.read_all()?) } else { Data::File(file) };
        Ok(Self { name: input.name.clone(), data })
    }

    /// Gives the text to `take`, whole or in pieces. An error of `take` ends the reading.
    /// Returns the length of the text; only then may anything be made of it.
    pub(crate) fn read_text<E: From<Problem>>(
        self,
        limits: Limits,
        mut take: impl FnMut(Text<'_>) -> Result<(), E>,
    ) -> Result<u64, E> {
        let zipped = self.name.to_ascii_lowercase().ends_with(".zip");
        match self.data {
            Data::Memory(bytes) if bytes.is_empty() => Err(Problem::NoBytes.into()),
            Data::Memory(bytes) if !zipped => {
                stream(Cursor::new(bytes), Expected::Nothing, &mut take)
            }
            Data::File(file) if !zipped => {
                stream(FileReader::new(file), Expected::Nothing, &mut take)
            }
            Data::Memory(bytes) => read_zip(&bytes, &self.name, limits, &mut take),
            Data::File(file) => {
                let start = file.read_range(0..16).map_err(Problem::from)?;
                stream_zip(FileReader::new(file), &start, &self.name, limits, &mut take)
            }
        }
    }
}

/// Reads the member of a zip that is in memory.
pub(crate) fn read_zip<E: From<Problem>>(
    bytes: &Bytes,
    name: &str,
    limits: Limits,
    take: &mut impl FnMut(Text<'_>) -> Result<(), E>,
) -> Result<u64, E> {
    let member = find_member(Cursor::new(bytes.clone()), name, bytes, limits)?;
    read_member(bytes, member, take)
}

/// Reads the member of a zip that begins with `start`, some of it at a time.
pub(crate) fn stream_zip<E: From<Problem>>(
    mut reader: impl Read + Seek,
    start: &[u8],
    name: &str,
    limits: Limits,
    take: &mut impl FnMut(Text<'_>) -> Result<(), E>,
) -> Result<u64, E> {
    let member = find_member(&mut reader, name, start, limits)?;
    reader.seek(SeekFrom::Start(member.start)).map_err(damaged_data)?;
    unpack(reader.take(member.compressed), member, take)
}

/// Where the one member of a zip stands and what its directory says of it.
#[derive(Debug, Clone, Copy)]
struct Member {
    start: u64,
    compressed: u64,
    size: u64,
    checksum: u32,
    deflated: bool,
}

fn find_member(
    mut reader: impl Read + Seek,
    archive_name: &str,
    start: &[u8],
    limits: Limits,
) -> Result<Member, Problem> {
    let mut archive = ZipArchive::new(&mut reader).map_err(|error| zip_problem(error, start))?;
    if archive.is_empty() {
        return Err(Problem::NoMembers);
    }
    let (before, directory) = (archive.offset(), archive.central_directory_start());
    if before > 0 {
        let what = format!("{before} bytes stand before its beginning");
        return Err(Problem::Directory(what));
    }
    let member = archive.by_index_raw(0).map_err(|error| zip_problem(error, start))?;
    let name = member.name().map_err(|error| Problem::Directory(error.to_string()))?;
    if !is_named_alike(archive_name, &name) {
        return Err(Problem::ForeignMember { member: name.into_owned() });
    }
    drop(name);
    if member.encrypted() {
        return Err(Problem::Encrypted);
    }
    let deflated = match member.compression() {
        CompressionMethod::Deflated => true,
        CompressionMethod::Stored => false,
        other => return Err(Problem::Method(other.to_string())),
    };
    let (compressed, size) = (member.compressed_size(), member.size());
    limits.check(compressed, size)?;
    let (checksum, start) = (member.crc32(), member.data_start());
    let start =
        start.ok_or_else(|| Problem::Directory("the member's place is not known".into()))?;
    drop(member);
    // The library keeps one member of each name.
    if has_several_entries(&mut reader, directory).map_err(damaged_data)? {
        return Err(Problem::SeveralMembers);
    }
    let length = reader.seek(SeekFrom::End(0)).map_err(damaged_data)?;
    if start.saturating_add(compressed) > length {
        return Err(Problem::Directory("the member goes beyond the end".into()));
    }
    Ok(Member { start, compressed, size, checksum, deflated })
}

/// Whether a directory that begins here has more than one entry: whether another one follows the
/// first, which is of 46 bytes, a name, extra fields and a comment (APPNOTE.TXT, 4.3.12).
fn has_several_entries(mut reader: impl Read + Seek, directory: u64) -> std::io::Result<bool> {
    let mut entry = [0; 46];
    reader.seek(SeekFrom::Start(directory))?;
    reader.read_exact(&mut entry)?;
    let length = |at: usize| i64::from(u16::from_le_bytes([entry[at], entry[at + 1]]));
    reader.seek(SeekFrom::Current(length(28) + length(30) + length(32)))?;
    let mut signature = [0; 4];
    reader.read_exact(&mut signature)?;
    Ok(signature == *b"PK\x01\x02")
}

/// What is wrong with a file whose directory cannot be read. A zip without an end record, which
/// stands last, is cut short.
fn zip_problem(error: ZipError, start: &[u8]) -> Problem {
    match error {
        ZipError::Io(error) => damaged_data(error),
        _ if !start.starts_with(b"PK") => {
            Problem::NotAZip(start[..start.len().min(16)].escape_ascii().to_string())
        }
        ZipError::InvalidArchive(message) if message.starts_with("Could not find EOCD") => {
            Problem::Truncated(message.into_owned())
        }
        error => Problem::Directory(error.to_string()),
    }
}

/// Whether a member belongs to its zip: the same name but for extensions and letter case. The
/// reduced events file leaves its years away.
fn is_named_alike(archive: &str, member: &str) -> bool {
    fn stem(name: &str) -> String {
        let mut stem = name.to_ascii_lowercase();
        for extension in [".zip", ".csv", ".txt", ".1979-2013"] {
            stem.truncate(stem.strip_suffix(extension).map_or(stem.len(), str::len));
        }
        stem
    }
    stem(archive) == stem(member)
}

fn read_member<E: From<Problem>>(
    bytes: &Bytes,
    member: Member,
    take: &mut impl FnMut(Text<'_>) -> Result<(), E>,
) -> Result<u64, E> {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let data = &bytes[place(member.start)..place(member.start + member.compressed)];
    if member.size > WHOLE_MEMBER_BYTES {
        return unpack(data, member, take);
    }
    let inflated;
    let text = if member.deflated {
        inflated = inflate(data, place(member.size))?;
        &inflated[..]
    } else {
        data
    };
    let mut check = Check::default();
    check.add(text);
    check.finish(Expected::Member(member))?;
    take(Text::Whole(text))?;
    Ok(check.length)
}

fn inflate(data: &[u8], size: usize) -> Result<Vec<u8>, Problem> {
    let mut text = vec![0; size];
    match libdeflater::Decompressor::new().deflate_decompress(data, &mut text) {
        Ok(found) if found == size => Ok(text),
        Ok(found) => Err(Problem::WrongSize { stated: size as u64, found: found as u64 }),
        Err(libdeflater::DecompressionError::InsufficientSpace) => {
            Err(Problem::DamagedData(format!("it holds more than the {size} bytes stated")))
        }
        Err(error) => Err(Problem::DamagedData(error.to_string())),
    }
}

fn unpack<E: From<Problem>>(
    data: impl Read,
    member: Member,
    take: &mut impl FnMut(Text<'_>) -> Result<(), E>,
) -> Result<u64, E> {
    if member.deflated {
        stream(DeflateDecoder::new(data), Expected::Member(member), take)
    } else {
        stream(data, Expected::Member(member), take)
    }
}

/// What a text has to be, if that is known.
#[derive(Clone, Copy)]
enum Expected {
    Nothing,
    Member(Member),
}

#[derive(Default)]
struct Check {
    length: u64,
    hasher: Hasher,
}

impl Check {
    fn add(&mut self, text: &[u8]) {
        self.length += text.len() as u64;
        self.hasher.update(text);
    }

    fn finish(&self, expected: Expected) -> Result<(), Problem> {
        let Expected::Member(member) = expected else { return Ok(()) };
        if self.length != member.size {
            return Err(Problem::WrongSize { stated: member.size, found: self.length });
        }
        let found = self.hasher.clone().finalize();
        if found != member.checksum {
            return Err(Problem::WrongChecksum { stated: member.checksum, found });
        }
        Ok(())
    }
}

fn stream<E: From<Problem>>(
    mut reader: impl Read,
    expected: Expected,
    take: &mut impl FnMut(Text<'_>) -> Result<(), E>,
) -> Result<u64, E> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut check = Check::default();
    loop {
        let mut filled = 0;
        // Pieces of one length, so that they do not depend on how the storage answers.
        while filled < buffer.len() {
            match reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(damaged_data(error).into()),
            }
        }
        if filled == 0 {
            break;
        }
        check.add(&buffer[..filled]);
        if let Expected::Member(member) = expected
            && check.length > member.size
        {
            return Err(Problem::WrongSize { stated: member.size, found: check.length }.into());
        }
        take(Text::Piece(&buffer[..filled]))?;
    }
    check.finish(expected)?;
    Ok(check.length)
}

/// A storage error passed through a reader keeps its file and operation.
fn damaged_data(error: std::io::Error) -> Problem {
    let text = error.to_string();
    match error.downcast::<io_budget::Error>() {
        Ok(storage) => Problem::Io(storage),
        Err(_) => Problem::DamagedData(text),
    }
}
