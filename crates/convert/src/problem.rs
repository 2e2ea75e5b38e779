//! Why a raw file cannot be converted.

/// What is wrong with a raw file. The message says what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error(transparent)]
    Io(#[from] io_budget::Error),
    #[error("the file has 0 bytes: fetch it again")]
    NoBytes,
    #[error("not a zip file, it begins with `{0}`: fetch it again")]
    NotAZip(String),
    #[error("damaged zip ({0}): fetch it again")]
    DamagedZip(String),
    #[error("the zip has no members: fetch it again")]
    NoMembers,
    #[error(
        "the zip has {0} members where one is expected: extract the right one and convert that"
    )]
    SeveralMembers(usize),
    #[error("the zip holds `{member}`, which does not belong to its name: fetch it again")]
    ForeignMember { member: String },
    #[error("the member is encrypted: fetch it again")]
    Encrypted,
    #[error("the member is packed with {0}, only deflate and stored are read: pack it again")]
    Method(String),
    #[error(
        "the member would grow from {compressed} to {size} bytes, more than any GDELT file does: \
         look at it before you trust it"
    )]
    TooLarge { compressed: u64, size: u64 },
    #[error("the member has {found} bytes where its zip says {stated}: fetch it again")]
    WrongSize { stated: u64, found: u64 },
    #[error(
        "the checksum is wrong (CRC-32 {found:08x}, the zip says {stated:08x}): fetch it again"
    )]
    WrongChecksum { stated: u32, found: u32 },
    #[error("the compressed data are damaged ({0}): fetch it again")]
    DamagedData(String),
    #[error(
        "records have {found} fields, {dataset} has {expected}{}",
        belongs_to.as_ref().map(|other| format!("; this is the width of {other}")).unwrap_or_default()
    )]
    Width { found: usize, dataset: catalog::Dataset, expected: String, belongs_to: Option<String> },
    #[error(
        "{rejected} of {records} records were rejected, more than the share of {share} allowed: \
         look at the rejects, or raise --max-rejects; the first: {example}"
    )]
    TooManyRejects { rejected: u64, records: u64, share: f64, example: String },
}
