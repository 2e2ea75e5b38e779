//! Finds or makes the directory in which the processes of a host meet, and opens files in it.
//!
//! Whoever can write to the directory can change the budget, so it belongs to this user alone, or
//! to a group of which this user is a member and whose members trust each other. What the files
//! hold is not known here.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid, getgroups};

/// A checked directory for one storage. Clones share the open directory.
#[derive(Debug, Clone)]
pub(crate) struct HostDirectory {
    handle: Arc<OwnedFd>,
    path: PathBuf,
    access: Access,
}

/// Why the processes of this host cannot share a budget. Each then keeps to one of its own.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unshared {
    /// The key cannot name a directory.
    #[error("the storage key {key:?} is not a plain file name; set another one")]
    Key {
        /// The key.
        key: String,
    },
    /// The operating system refused.
    #[error("cannot {operation} {} to share a budget; name another directory", path.display())]
    Failed {
        /// The attempt as a verb, as in "open".
        operation: &'static str,
        /// The directory.
        path: PathBuf,
        /// What the operating system answered.
        source: io::Error,
    },
    /// Others than those who share the budget could change it.
    #[error("the directory {} {fault}", path.display())]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// What is wrong with a directory; shown as the end of a sentence that says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is a file or a symbolic link.
    NotADirectory,
    /// Everyone may write to it.
    WorldWritable,
    /// It belongs to another user, whose id this is, and is not shared with a group.
    OtherOwner(u32),
    /// Its group may write to it, but new files would not belong to that group.
    NoSetgid,
    /// It is shared with a group, whose id this is, that this process is not in.
    OtherGroup(u32),
    /// It is shared in another way than the directory above it.
    UnlikeParent,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotADirectory => {
                formatter.write_str("is a file or a symbolic link; name the directory itself")
            }
            Self::WorldWritable => {
                formatter.write_str("may be written by everyone; forbid that with `chmod o-w`")
            }
            Self::OtherOwner(user) => write!(
                formatter,
                "belongs to user {user}; name one of your own, or one that is shared with a group"
            ),
            Self::NoSetgid => formatter.write_str(
                "may be written by its group but does not pass the group on; use `chmod g+s`, or \
                 `chmod g-w` to keep it to yourself",
            ),
            Self::OtherGroup(group) => write!(
                formatter,
                "is shared with group {group}, which this process is not in; name another one"
            ),
            Self::UnlikeParent => {
                formatter.write_str("has other rights than the one that holds it; remove it")
            }
        }
    }
}

/// Who may take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// The processes of this user.
    Private,
    /// The processes of the members of a group, by its id.
    Group(u32),
}

impl Access {
    fn directory_mode(self) -> Mode {
        Mode::from_raw_mode(match self {
            Self::Private => 0o700,
            Self::Group(_) => 0o2770,
        })
    }

    fn file_mode(self) -> Mode {
        Mode::from_raw_mode(match self {
            Self::Private => 0o600,
            Self::Group(_) => 0o660,
        })
    }
}

/// The user and the groups of a process.
#[derive(Debug)]
struct Identity {
    user: u32,
    groups: Vec<u32>,
}

impl Identity {
    fn of_this_process() -> Self {
        // A process that may not ask for its other groups is in its main one at least.
        let others = getgroups().unwrap_or_default();
        let groups = others.into_iter().chain([getegid()]).map(Gid::as_raw).collect();
        Self { user: geteuid().as_raw(), groups }
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How long, in tries and between them, to wait for another member of the group who has just made a
/// file to open it to the group. The user's mask makes these two steps.
const GROUP_TRIES: usize = 50;
const GROUP_PAUSE: Duration = Duration::from_millis(1);

/// The parent directory for users that named none: in memory, local to the host, one per user.
pub(crate) fn default_parent() -> PathBuf {
    PathBuf::from(format!("/dev/shm/gdelt-io.{}", geteuid().as_raw()))
}

impl HostDirectory {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the directory `key` in `parent`, and makes what is missing of the two.
    ///
    /// A parent that is writable to its group and passes the group on is shared with the group;
    /// any other is private. A parent that is made here is private.
    ///
    /// # Errors
    ///
    /// [`Unshared`] if the key is no file name, if either directory cannot be opened or made, or if
    /// others could change what is in it.
    pub(crate) fn open(parent: &Path, key: &str) -> Result<Self, Unshared> {
        if key.is_empty() || key == "." || key == ".." || key.contains('/') {
            return Err(Unshared::Key { key: key.to_owned() });
        }
        let identity = Identity::of_this_process();
        // A slash at the end would have a symbolic link followed.
        let parent: PathBuf = parent.components().collect();
        let (above, access) = Entry { at: CWD, name: &parent, path: &parent }
            .open_or_make(Access::Private, |stat| assess(stat, &identity))?;
        let path = parent.join(key);
        let (handle, _) = Entry { at: above.as_fd(), name: Path::new(key), path: &path }
            .open_or_make(access, |stat| match assess(stat, &identity)? {
                same if same == access => Ok(same),
                _ => Err(Fault::UnlikeParent),
            })?;
        Ok(Self { handle: Arc::new(handle), path, access })
    }

    /// Opens a file for reading and writing, and makes it if it is missing.
    ///
    /// # Errors
    ///
    /// As for [`open_existing`](Self::open_existing), except that the file need not exist.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<File> {
        loop {
            match self.open_existing(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => return other,
            }
            match self.create_file(name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => return other,
            }
        }
    }

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    ///
    /// What the operating system answers, and [`PermissionDenied`](io::ErrorKind::PermissionDenied)
    /// for anything but a regular file of those who share the directory.
    pub(crate) fn open_existing(&self, name: &str) -> io::Result<File> {
        let mut tries = 1;
        let file = loop {
            match rustix::fs::openat(&self.handle, name, FILE, Mode::empty()) {
                Err(Errno::ACCESS) if self.may_settle(tries) => tries += 1,
                opened => break opened?,
            }
            thread::sleep(GROUP_PAUSE);
        };
        if self.admits(&rustix::fs::fstat(&file)?) {
            return Ok(File::from(file));
        }
        let path = self.path.join(name);
        let message = format!("{} is no file of those who share the budget", path.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    }

    /// Makes a file that does not exist yet, and opens it for reading and writing.
    ///
    /// # Errors
    ///
    /// What the operating system answers.
    pub(crate) fn create_file(&self, name: &str) -> io::Result<File> {
        let (flags, mode) = (FILE | OFlags::CREATE | OFlags::EXCL, self.access.file_mode());
        let file = rustix::fs::openat(&self.handle, name, flags, mode)?;
        rustix::fs::fchmod(&file, mode)?;
        Ok(File::from(file))
    }

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// What the operating system answers.
    pub(crate) fn remove_file(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    /// The names in the directory, in no order.
    ///
    /// # Errors
    ///
    /// What the operating system answers.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            // Every file that is made here has a plain name.
            names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        }
        Ok(names)
    }

    fn may_settle(&self, tries: usize) -> bool {
        self.access != Access::Private && tries < GROUP_TRIES
    }

    /// Whether a file in the directory was made by one of those who share it. A second name would
    /// be a hard link, by which another file could be overwritten.
    fn admits(&self, stat: &Stat) -> bool {
        let maker_is_known = match self.access {
            Access::Private => is_trusted(stat.st_uid, geteuid().as_raw()),
            Access::Group(group) => stat.st_gid == group,
        };
        maker_is_known
            && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && stat.st_nlink <= 1
            && stat.st_mode & 0o002 == 0
    }
}

/// A directory by its name in another one; `path` is for messages.
struct Entry<'a, At> {
    at: At,
    name: &'a Path,
    path: &'a Path,
}

impl<At: AsFd> Entry<'_, At> {
    /// Opens the directory, which is made with the rights of `access` if it is missing.
    fn open_or_make(
        &self,
        access: Access,
        assess: impl Fn(&Stat) -> Result<Access, Fault>,
    ) -> Result<(OwnedFd, Access), Unshared> {
        let mode = access.directory_mode();
        match rustix::fs::mkdirat(&self.at, self.name, mode) {
            Ok(()) => {
                let directory = self.open()?;
                rustix::fs::fchmod(&directory, mode)
                    .map_err(|errno| self.failed("set up", errno))?;
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(self.failed("make", errno)),
        }
        let mut tries = 1;
        loop {
            let opened = self.open()?;
            let stat = rustix::fs::fstat(&opened).map_err(|errno| self.failed("look at", errno))?;
            match assess(&stat) {
                Ok(access) => return Ok((opened, access)),
                Err(_) if access != Access::Private && tries < GROUP_TRIES => tries += 1,
                Err(fault) => return Err(self.unsafe_because(fault)),
            }
            thread::sleep(GROUP_PAUSE);
        }
    }

    fn open(&self) -> Result<OwnedFd, Unshared> {
        match rustix::fs::openat(&self.at, self.name, DIRECTORY, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => Err(self.unsafe_because(Fault::NotADirectory)),
            opened => opened.map_err(|errno| self.failed("open", errno)),
        }
    }

    fn failed(&self, operation: &'static str, errno: Errno) -> Unshared {
        Unshared::Failed { operation, path: self.path.to_owned(), source: errno.into() }
    }

    fn unsafe_because(&self, fault: Fault) -> Unshared {
        Unshared::Unsafe { path: self.path.to_owned(), fault }
    }
}

/// Who may take part in what a directory holds.
fn assess(stat: &Stat, identity: &Identity) -> Result<Access, Fault> {
    let may = |bits| stat.st_mode & bits != 0;
    if may(0o002) {
        Err(Fault::WorldWritable)
    } else if may(0o020) {
        if !may(0o2000) {
            Err(Fault::NoSetgid)
        } else if identity.groups.contains(&stat.st_gid) {
            Ok(Access::Group(stat.st_gid))
        } else {
            Err(Fault::OtherGroup(stat.st_gid))
        }
    } else if is_trusted(stat.st_uid, identity.user) {
        Ok(Access::Private)
    } else {
        Err(Fault::OtherOwner(stat.st_uid))
    }
}

/// The administrator can change everything anyway.
fn is_trusted(owner: u32, user: u32) -> bool {
    owner == user || owner == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
    }

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).expect("it exists").mode() & 0o7777
    }

    fn fault(parent: &Path, key: &str) -> Option<Fault> {
        match HostDirectory::open(parent, key) {
            Err(Unshared::Unsafe { fault, .. }) => Some(fault),
            _ => None,
        }
    }

    #[test]
    fn a_missing_directory_is_made_for_this_user_alone() {
        let temporary = tempfile::tempdir().expect("a directory");
        let parent = temporary.path().join("parent");
        let directory = HostDirectory::open(&parent, "8:1").expect("a directory");
        let _file = directory.open_file("file").expect("a file");
        let modes = ["", "8:1", "8:1/file"].map(|path| mode(&parent.join(path)));
        assert_eq!(modes, [0o700, 0o700, 0o600]);
        let again = HostDirectory::open(&parent, "8:1").expect("the same");
        assert!(again.names().expect("names").contains(&String::from("file")));
        again.remove_file("file").expect("removed");
        let gone = directory.open_existing("file").map_err(|error| error.kind());
        assert_eq!(gone.err(), Some(io::ErrorKind::NotFound));
    }

    #[test]
    fn a_directory_shared_with_a_group_makes_shared_files() {
        let temporary = tempfile::tempdir().expect("a directory");
        set_mode(temporary.path(), 0o2770);
        let directory = HostDirectory::open(temporary.path(), "nas").expect("shared");
        assert_eq!(directory.access, Access::Group(getegid().as_raw()));
        let _file = directory.open_file("file").expect("a file");
        let modes = ["nas", "nas/file"].map(|path| mode(&temporary.path().join(path)));
        assert_eq!(modes, [0o2770, 0o660]);
        set_mode(&temporary.path().join("nas"), 0o700);
        assert_eq!(fault(temporary.path(), "nas"), Some(Fault::UnlikeParent));
    }

    #[test]
    fn directories_that_others_can_change_are_refused() {
        let temporary = tempfile::tempdir().expect("a directory");
        let parent = temporary.path().join("parent");
        std::fs::create_dir(&parent).expect("made");
        for (mode, expected) in [
            (0o777, Fault::WorldWritable),
            (0o1777, Fault::WorldWritable),
            (0o2777, Fault::WorldWritable),
            (0o770, Fault::NoSetgid),
        ] {
            set_mode(&parent, mode);
            assert_eq!(fault(&parent, "key"), Some(expected), "{mode:o}");
        }
        set_mode(&parent, 0o700);
        let key = parent.join("key");
        std::fs::create_dir(&key).expect("made");
        set_mode(&key, 0o777);
        assert_eq!(fault(&parent, "key"), Some(Fault::WorldWritable));
        set_mode(&key, 0o2770);
        assert_eq!(fault(&parent, "key"), Some(Fault::UnlikeParent));
    }

    #[test]
    fn other_users_and_groups_are_told_from_ours() {
        let temporary = tempfile::tempdir().expect("a directory");
        let mut stat = rustix::fs::stat(temporary.path()).expect("it exists");
        (stat.st_uid, stat.st_gid) = (1_000, 2_000);
        let us = Identity { user: 1_000, groups: vec![2_000] };
        let colleague = Identity { user: 1_001, groups: vec![3_000, 2_000] };
        let stranger = Identity { user: 1_002, groups: vec![3_000] };
        stat.st_mode = 0o755;
        assert_eq!(assess(&stat, &us), Ok(Access::Private));
        assert_eq!(assess(&stat, &colleague), Err(Fault::OtherOwner(1_000)));
        stat.st_mode = 0o2770;
        assert_eq!(assess(&stat, &us), Ok(Access::Group(2_000)));
        assert_eq!(assess(&stat, &colleague), Ok(Access::Group(2_000)));
        assert_eq!(assess(&stat, &stranger), Err(Fault::OtherGroup(2_000)));
        stat.st_uid = 0;
        stat.st_mode = 0o755;
        assert_eq!(assess(&stat, &stranger), Ok(Access::Private));
    }

    #[test]
    fn symbolic_links_are_not_followed() {
        let temporary = tempfile::tempdir().expect("a directory");
        let (real, link) = (temporary.path().join("real"), temporary.path().join("link"));
        let directory = HostDirectory::open(&real, "key").expect("a directory");
        symlink(&real, &link).expect("a link");
        assert_eq!(fault(&link, "key"), Some(Fault::NotADirectory));
        assert_eq!(fault(&link.join(""), "key"), Some(Fault::NotADirectory));
        symlink(real.join("key"), real.join("other")).expect("a link");
        assert_eq!(fault(&real, "other"), Some(Fault::NotADirectory));

        std::fs::write(real.join("victim"), "precious").expect("written");
        symlink(real.join("victim"), real.join("key/soft")).expect("a link");
        std::fs::hard_link(real.join("victim"), real.join("key/hard")).expect("a link");
        rustix::fs::mkfifoat(&directory.handle, "pipe", Mode::RWXU).expect("a pipe");
        std::fs::create_dir(real.join("key/folder")).expect("made");
        for name in ["soft", "hard", "pipe", "folder"] {
            assert!(directory.open_file(name).is_err(), "{name}");
        }
    }

    #[test]
    fn keys_that_lead_elsewhere_are_refused() {
        let temporary = tempfile::tempdir().expect("a directory");
        for key in ["", ".", "..", "a/b", "/"] {
            let refused = HostDirectory::open(temporary.path(), key);
            assert!(matches!(refused, Err(Unshared::Key { .. })), "{key}");
        }
        for key in ["nul\0nul", &"x".repeat(300)] {
            let refused = HostDirectory::open(temporary.path(), key);
            assert!(matches!(refused, Err(Unshared::Failed { .. })), "{key}");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let fault = Fault::OtherOwner(7);
        let message = Unshared::Unsafe { path: PathBuf::from("shared"), fault }.to_string();
        assert_eq!(
            message,
            "the directory shared belongs to user 7; name one of your own, or one that is shared \
             with a group"
        );
    }
}
