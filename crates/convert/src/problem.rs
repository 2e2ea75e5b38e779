//! Why a raw file cannot be converted.

use catalog::ledger::{Damage, Outcome};

/// What is wrong with a raw file. The message says what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error(transparent)]
    Io(#[from] io_budget::Error),
    #[error("the file has 0 bytes: fetch it again")]
    NoBytes,
    #[error("not a zip file, it begins with `{0}`: fetch it again")]
    NotAZip(String),
    #[error("the zip is cut short ({0}): fetch it again")]
    Truncated(String),
    #[error("damaged zip ({0}): fetch it again")]
    Directory(String),
    #[error("the zip has no members: fetch it again")]
    NoMembers,
    #[error(
        "the zip has several members where one is expected: extract the right one and convert that"
    )]
    SeveralMembers,
    #[error("the zip holds `{member}`, which does not belong to its name: fetch it again")]
    ForeignMember { member: String },
    #[error("the member is encrypted: fetch it again")]
    Encrypted,
    #[error("the member is packed with {0}, only deflate and stored are read: pack it again")]
    Method(String),
    #[error(
        "the member would grow from {compressed} to {size} bytes, more than {limit}: \
         look at it, and raise convert.max_expansion or convert.max_member_bytes if you trust it"
    )]
    TooLarge { compressed: u64, size: u64, limit: String },
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

impl Problem {
    /// In which way the file is damaged; `None` if something else is wrong.
    fn damage(&self) -> Option<Damage> {
        Some(match self {
            Self::NoBytes => Damage::NoBytes,
            Self::NotAZip(_) => Damage::NotAZip,
            Self::Truncated(_) => Damage::Truncated,
            Self::Directory(_) => Damage::Directory,
            Self::NoMembers => Damage::NoMember,
            Self::SeveralMembers => Damage::SeveralMembers,
            Self::ForeignMember { .. } => Damage::ForeignMember,
            Self::Encrypted => Damage::Encrypted,
            Self::Method(_) => Damage::Method,
            Self::WrongSize { .. } => Damage::Size,
            Self::WrongChecksum { .. } => Damage::Checksum,
            Self::DamagedData(_) => Damage::Data,
            Self::Io(_)
            | Self::TooLarge { .. }
            | Self::Width { .. }
            | Self::TooManyRejects { .. } => return None,
        })
    }

    /// The status of the file.
    pub(crate) fn outcome(&self) -> Outcome {
        let reason = stage::describe(self);
        match (self, self.damage()) {
            (_, Some(kind)) => Outcome::Damaged { kind, reason },
            (Self::TooLarge { .. }, None) => Outcome::TooLarge(reason),
            (_, None) => Outcome::Failed(reason),
        }
    }
}
