//! Reads `/proc/self/mountinfo`, proc(5). What a mount means is decided elsewhere.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One mount of this process's name space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The mount's id, which statx(2) gives for a file.
    pub id: u64,
    /// The id of the mount that it is mounted on.
    pub parent: u64,
    /// Major number of the file system's device; 0 where no block device is below.
    pub major: u32,
    /// Minor number of the file system's device.
    pub minor: u32,
    /// The directory of the file system that is the root of the mount.
    pub root: PathBuf,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Options of this mount, separated by commas.
    pub options: String,
    /// Type of the file system, as `nfs4` or `fuse.sshfs`.
    pub fs_type: String,
    /// What is mounted, as `nas:/export` or `/dev/sda1`.
    pub source: String,
    /// Options of the file system, separated by commas.
    pub super_options: String,
}

impl Mount {
    /// The device of the file system, which all its mounts share.
    pub(crate) fn device(&self) -> (u32, u32) {
        (self.major, self.minor)
    }

    /// The options of the mount and those of the file system.
    pub(crate) fn all_options(&self) -> String {
        format!("{},{}", self.options, self.super_options)
    }

    /// The largest read request that the file system sends, in bytes.
    pub(crate) fn read_bytes(&self) -> Option<u64> {
        match self.fs_type.as_str() {
            "nfs" | "nfs4" | "cifs" | "smb3" => self.super_option("rsize"),
            name if name.starts_with("fuse") => self.super_option("max_read"),
            _ => None,
        }
    }

    /// The largest write request that the file system sends, in bytes.
    pub(crate) fn write_bytes(&self) -> Option<u64> {
        match self.fs_type.as_str() {
            "nfs" | "nfs4" | "cifs" | "smb3" => self.super_option("wsize"),
            _ => None,
        }
    }

    /// A positive number among the file system's options.
    fn super_option(&self, name: &str) -> Option<u64> {
        let value = |option: &str| option.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
        self.super_options.split(',').find_map(value).filter(|bytes| *bytes > 0)
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let mut field = || fields.next();
        let id = number(field()?)?;
        let parent = number(field()?)?;
        let (major, minor) = std::str::from_utf8(field()?).ok()?.split_once(':')?;
        let root = path(field()?);
        let mount_point = path(field()?);
        let options = text(field()?);
        // Any number of tagged fields, then a dash.
        fields.find(|field| *field == b"-")?;
        let mut field = || fields.next();
        Some(Self {
            id,
            parent,
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
            root,
            mount_point,
            options,
            fs_type: text(field()?),
            source: text(field()?),
            super_options: text(field()?),
        })
    }
}

/// The mounts that `mountinfo` lists. A line of another form is passed over.
pub(crate) fn parse(mountinfo: &[u8]) -> Vec<Mount> {
    mountinfo.split(|byte| *byte == b'\n').filter_map(Mount::parse).collect()
}

/// The server of an NFS or SMB share.
pub(crate) fn server<'source>(fs_type: &str, source: &'source str) -> Option<&'source str> {
    let server = match fs_type {
        "nfs" | "nfs4" => match source.strip_prefix('[') {
            Some(bracketed) => bracketed.split_once(']')?.0,
            None => source.split_once(":/").or_else(|| source.split_once(':'))?.0,
        },
        "cifs" | "smb3" => source.trim_start_matches(['/', '\\']).split(['/', '\\']).next()?,
        _ => return None,
    };
    (!server.is_empty()).then_some(server)
}

/// Undoes the kernel's escapes: a backslash and three octal digits stand for a byte.
pub(crate) fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let (byte, after) = match after {
            [high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', after @ ..]
                if *first == b'\\' =>
            {
                (((high - b'0') << 6) | ((middle - b'0') << 3) | (low - b'0'), after)
            }
            _ => (*first, after),
        };
        bytes.push(byte);
        rest = after;
    }
    bytes
}

/// A path as the kernel escapes it.
pub(crate) fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape(field)))
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(field)).into_owned()
}

fn number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    const MOUNTINFO: &[u8] = include_bytes!("fixtures/mountinfo");

    fn mount(id: u64) -> Mount {
        parse(MOUNTINFO).into_iter().find(|mount| mount.id == id).expect("in the fixture")
    }

    #[test]
    fn all_fields_of_a_line_are_read() {
        let nfs = Mount {
            id: 60,
            parent: 27,
            major: 0,
            minor: 52,
            root: PathBuf::from("/"),
            mount_point: PathBuf::from("/mnt/nas"),
            options: String::from("rw,relatime"),
            fs_type: String::from("nfs4"),
            source: String::from("nas:/export"),
            super_options: String::from(
                "rw,vers=4.2,rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp,timeo=600,\
                 retrans=2,sec=sys,clientaddr=10.0.0.21,local_lock=none,addr=10.0.0.5",
            ),
        };
        assert_eq!(mount(60), nfs);
        assert_eq!(mount(60).read_bytes(), Some(1 << 20));
        assert_eq!(mount(60).write_bytes(), Some(1 << 20));
    }

    #[test]
    fn lines_of_another_form_are_passed_over() {
        let lines = MOUNTINFO.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
        // The fixture ends with a line that was cut off.
        assert_eq!(parse(MOUNTINFO).len(), lines - 1);
        assert_eq!(parse(b"\n- - -\n1 2 3 / / rw - ext4 /dev/sda1 rw\n"), []);
        assert_eq!(parse(b"1 2 99999999999:0 / / rw - ext4 /dev/sda1 rw"), []);
    }

    #[test]
    fn optional_fields_and_empty_sources_are_understood() {
        assert_eq!(mount(61).fs_type, "nfs4");
        let mounts = parse(b"9 1 0:9 / /x rw shared:1 master:2 unbindable - tmpfs  rw,size=4k");
        assert_eq!(
            (mounts[0].source.as_str(), mounts[0].super_options.as_str()),
            ("", "rw,size=4k")
        );
    }

    #[test]
    fn escapes_become_bytes() {
        assert_eq!(mount(61).mount_point, Path::new("/srv/my archive"));
        assert_eq!(unescape(br"a\040b\011c\012d\134e\043"), b"a b\tc\nd\\e#");
        assert_eq!(unescape(br"\377"), [0xFF]);
        assert_eq!(unescape(br"\400 \18 \04"), br"\400 \18 \04");
        let raw = parse(b"9 1 0:9 / /\xFF\\040 rw - tmpfs tmpfs rw");
        assert_eq!(raw[0].mount_point.as_os_str().as_bytes(), b"/\xFF ");
    }

    #[test]
    fn request_sizes_belong_to_the_file_systems_that_have_them() {
        assert_eq!((mount(63).read_bytes(), mount(63).write_bytes()), (Some(32_768), Some(32_768)));
        assert_eq!(
            (mount(64).read_bytes(), mount(64).write_bytes()),
            (Some(4 << 20), Some(4 << 20))
        );
        assert_eq!((mount(70).read_bytes(), mount(70).write_bytes()), (Some(131_072), None));
        assert_eq!((mount(71).read_bytes(), mount(71).write_bytes()), (None, None));
        let zero = Mount { super_options: String::from("rw,rsize=0,wsize=x"), ..mount(60) };
        assert_eq!((zero.read_bytes(), zero.write_bytes()), (None, None));
    }

    #[test]
    fn servers_are_read_off_sources() {
        assert_eq!(server("nfs4", "nas:/export"), Some("nas"));
        assert_eq!(server("nfs", "nas.example.org:/"), Some("nas.example.org"));
        assert_eq!(server("nfs4", "[fd00::5]:/export"), Some("fd00::5"));
        assert_eq!(server("nfs4", "fd00::5:/export"), Some("fd00::5"));
        assert_eq!(server("nfs", "nas:export"), Some("nas"));
        assert_eq!(server("nfs", "export"), None);
        assert_eq!(server("nfs", ":/export"), None);
        assert_eq!(server("nfs", "[fd00::5"), None);
        assert_eq!(server("cifs", "//files/team data"), Some("files"));
        assert_eq!(server("smb3", r"\\files\team"), Some("files"));
        assert_eq!(server("cifs", "//"), None);
        assert_eq!(server("ext4", "nas:/export"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, lines in "([0-9: /\\\\-]{0,40}\n?){0,4}") {
            parse(&bytes);
            parse(lines.as_bytes());
            prop_assert!(unescape(&bytes).len() <= bytes.len());
        }

        #[test]
        fn escaped_bytes_are_read_back(bytes: Vec<u8>) {
            let escape = |byte: &u8| format!("\\{byte:03o}");
            let escaped = bytes.iter().map(escape).collect::<Vec<_>>().concat();
            prop_assert_eq!(unescape(escaped.as_bytes()), bytes);
        }
    }
}
