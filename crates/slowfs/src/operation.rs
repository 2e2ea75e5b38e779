//! Names of the requests that the kernel sends, as traces and fault rules spell them.

use std::fmt;

/// A request that is put before the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Finds a name in a directory.
    Lookup,
    /// Asks for attributes.
    Getattr,
    /// Changes attributes or truncates.
    Setattr,
    /// Reads a symbolic link.
    Readlink,
    /// Makes a special file.
    Mknod,
    /// Makes a directory.
    Mkdir,
    /// Removes a file.
    Unlink,
    /// Removes a directory.
    Rmdir,
    /// Makes a symbolic link.
    Symlink,
    /// Renames.
    Rename,
    /// Makes a hard link.
    Link,
    /// Opens a file.
    Open,
    /// Makes and opens a file.
    Create,
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Closes a file that has writes which were not synced.
    Flush,
    /// Syncs a file.
    Fsync,
    /// Allocates space.
    Fallocate,
    /// Opens a directory.
    Opendir,
    /// Lists a directory.
    Readdir,
    /// Syncs a directory.
    Fsyncdir,
    /// Asks for free space.
    Statfs,
}

impl Operation {
    /// All of them, in the order of the declaration.
    pub const ALL: [Self; 22] = [
        Self::Lookup,
        Self::Getattr,
        Self::Setattr,
        Self::Readlink,
        Self::Mknod,
        Self::Mkdir,
        Self::Unlink,
        Self::Rmdir,
        Self::Symlink,
        Self::Rename,
        Self::Link,
        Self::Open,
        Self::Create,
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Fsync,
        Self::Fallocate,
        Self::Opendir,
        Self::Readdir,
        Self::Fsyncdir,
        Self::Statfs,
    ];

    /// The name in traces and fault rules.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Getattr => "getattr",
            Self::Setattr => "setattr",
            Self::Readlink => "readlink",
            Self::Mknod => "mknod",
            Self::Mkdir => "mkdir",
            Self::Unlink => "unlink",
            Self::Rmdir => "rmdir",
            Self::Symlink => "symlink",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::Open => "open",
            Self::Create => "create",
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Fsync => "fsync",
            Self::Fallocate => "fallocate",
            Self::Opendir => "opendir",
            Self::Readdir => "readdir",
            Self::Fsyncdir => "fsyncdir",
            Self::Statfs => "statfs",
        }
    }

    /// The operation of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_its_name_and_stands_at_its_index() {
        for (index, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(Operation::from_name(operation.name()), Some(operation));
            assert_eq!(operation as usize, index);
        }
        assert_eq!(Operation::from_name("forget"), None);
    }
}
