//! Writes a zip file of one deflated member, as GDELT's own files are.
//!
//! The time stamp is fixed, so equal rows give equal bytes. It does not write zip64: a member of
//! 4 GiB is refused.

use anyhow::{Context as _, Result};
use libdeflater::{CompressionLvl, Compressor, Crc};

/// The DOS date of 2020-06-01, at midnight.
const DOS_DATE: u16 = (40 << 9) | (6 << 5) | 1;
/// The version of the zip format that introduced deflate.
const VERSION: u16 = 20;
const DEFLATE: u16 = 8;

/// Makes zip files, with the working memory that takes.
pub(crate) struct Zipper(Compressor);

impl Zipper {
    /// Makes a zipper that compresses about as hard as GDELT does.
    pub(crate) fn new() -> Self {
        Self(Compressor::new(CompressionLvl::default()))
    }

    /// Returns the zip file that holds `content` as the member `name`.
    pub(crate) fn zip(&mut self, name: &str, content: &[u8]) -> Result<Vec<u8>> {
        let mut deflated = vec![0; self.0.deflate_compress_bound(content.len())];
        let length = self.0.deflate_compress(content, &mut deflated).context("cannot deflate")?;
        deflated.truncate(length);

        let mut crc = Crc::new();
        crc.update(content);
        let described = describe(name, crc.sum(), size(deflated.len())?, size(content.len())?)?;

        let mut file = Vec::with_capacity(deflated.len() + 2 * name.len() + 128);
        file.extend(b"PK\x03\x04");
        file.extend(&described);
        file.extend(name.as_bytes());
        file.extend(&deflated);

        let directory_start = size(file.len())?;
        file.extend(b"PK\x01\x02");
        file.extend(VERSION.to_le_bytes());
        file.extend(&described);
        // Comment length, disk, attributes and the offset of the member: all zero.
        file.extend([0; 14]);
        file.extend(name.as_bytes());
        let directory_size = size(file.len())? - directory_start;

        file.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
        file.extend(directory_size.to_le_bytes());
        file.extend(directory_start.to_le_bytes());
        file.extend([0; 2]);
        Ok(file)
    }
}

/// Returns the fields that the local header and the central directory have in common.
fn describe(name: &str, crc: u32, deflated: u32, inflated: u32) -> Result<Vec<u8>> {
    let name_length = u16::try_from(name.len()).context("the name is too long")?;
    let mut fields = Vec::with_capacity(26);
    for field in [VERSION, 0, DEFLATE, 0, DOS_DATE] {
        fields.extend(field.to_le_bytes());
    }
    for field in [crc, deflated, inflated] {
        fields.extend(field.to_le_bytes());
    }
    for field in [name_length, 0] {
        fields.extend(field.to_le_bytes());
    }
    Ok(fields)
}

fn size(bytes: usize) -> Result<u32> {
    u32::try_from(bytes).context("a file of 4 GiB is too large: ask for fewer rows")
}
