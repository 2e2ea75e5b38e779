//! Files read and written past the page cache, so that a request is one request. The requests
//! themselves are made by those who have the file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{Advice, OFlags, fadvise};

/// What file systems ask of the place of a direct request, in memory and in the file.
const ALIGNMENT: usize = 4_096;

/// Memory that direct requests can use.
pub(crate) struct Buffer {
    memory: Vec<u8>,
    begin: usize,
    length: usize,
}

impl Buffer {
    /// At least `length` bytes, to the next multiple of the alignment.
    pub(crate) fn new(length: usize) -> Self {
        let length = length.next_multiple_of(ALIGNMENT);
        let memory = vec![0; length + ALIGNMENT - 1];
        let begin = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, begin, length }
    }

    /// The bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..self.begin + self.length]
    }
}

/// Opens a file to be read past the page cache; without read-ahead where that cannot be.
///
/// # Errors
///
/// When it cannot be opened.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    let file = match options.clone().custom_flags(direct_flag()).open(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => options.open(path)?,
        opened => opened?,
    };
    fadvise(&file, 0, None, Advice::Random)?;
    Ok(file)
}

/// Creates a file to be written past the page cache, where that can be.
///
/// # Errors
///
/// When it cannot be created.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // What cannot be opened that way may have been made all the same.
    options.write(true).create(true).truncate(true);
    match options.clone().custom_flags(direct_flag()).open(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => options.open(path),
        opened => opened,
    }
}

fn direct_flag() -> i32 {
    OFlags::DIRECT.bits().cast_signed()
}

/// Reads the last bytes of a file of `size` bytes, `length` of them at least where there are as
/// many; the answer begins at the offset that is given with it.
///
/// # Errors
///
/// When they cannot be read, or the file is shorter than `size`.
pub(crate) fn tail(file: &File, size: u64, length: u64) -> io::Result<(u64, Vec<u8>)> {
    let begin = size.saturating_sub(length);
    let begin = begin - begin % ALIGNMENT as u64;
    let wanted = usize::try_from(size - begin).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut buffer = Buffer::new(wanted);
    let mut done = 0;
    while done < wanted {
        match file.read_at(&mut buffer.bytes()[done..], begin + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((begin, buffer.bytes()[..wanted].to_vec()))
}
