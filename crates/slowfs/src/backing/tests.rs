use super::*;

const MODE: Mode = Mode::from_raw_mode(0o640);

fn owner() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

#[test]
fn a_file_is_made_written_read_renamed_behind_its_handle_and_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let backing = Backing::new(dir.path()).unwrap();
    let root = INodeNo::ROOT;
    let (made, handle) =
        backing.create(owner(), root, name("a"), OFlags::RDWR | OFlags::CLOEXEC, MODE).unwrap();
    let file = backing.file(handle).unwrap();
    file.write(3, b"data").unwrap();
    backing.with(root, |fd| rfs::renameat(fd, name("a"), fd, name("b"))).unwrap();
    assert_eq!(file.read(0, 100).unwrap(), b"\0\0\0data");
    assert_eq!(file.read(7, 100).unwrap(), b"");
    assert_eq!(file.read(u64::MAX, 100), Err(Errno::INVAL));
    assert_eq!(backing.find(root, name("a")).map(|found| found.ino), Err(Errno::NOENT));
    let found = backing.find(root, name("b")).unwrap();
    assert_eq!((found.ino, found.size, found.perm), (made.ino, 7, 0o640));
    backing.forget(made.ino, 1);
    assert!(backing.stat(made.ino).is_ok());
    backing.forget(made.ino, 1);
    assert_eq!(backing.stat(made.ino).map(|stat| stat.size), Err(Errno::STALE));
    backing.close(handle);
    assert!(matches!(backing.file(handle), Err(Errno::BADF)));
    backing.forget(root, 1_000);
    assert!(backing.stat(root).is_ok());
}

#[test]
fn writes_are_unsynced_until_a_sync_or_a_close_takes_note() {
    let dir = tempfile::tempdir().unwrap();
    let backing = Backing::new(dir.path()).unwrap();
    let (_, handle) =
        backing.create(owner(), INodeNo::ROOT, name("a"), OFlags::RDWR, MODE).unwrap();
    let file = backing.file(handle).unwrap();
    assert!(!file.take_unsynced());
    file.write(0, b"1").unwrap();
    file.sync(true).unwrap();
    assert!(!file.take_unsynced());
    file.write(0, b"2").unwrap();
    assert!(file.take_unsynced());
    assert!(!file.take_unsynced());
}

#[test]
fn attributes_change_and_directories_list_what_they_held_when_opened() {
    let dir = tempfile::tempdir().unwrap();
    let backing = Backing::new(dir.path()).unwrap();
    let root = INodeNo::ROOT;
    let made = backing
        .make(owner(), root, name("d"), |fd| rfs::mkdirat(fd, name("d"), Mode::RWXU))
        .unwrap();
    let (file, _) = backing.create(owner(), made.ino, name("f"), OFlags::WRONLY, MODE).unwrap();
    let changes = Changes { mode: Some(0o600), size: Some(10), ..Changes::default() };
    let after = backing.change(file.ino, None, &changes).unwrap();
    assert_eq!((after.perm, after.size), (0o600, 10));
    let linked = backing.link(file.ino, root, name("g")).unwrap();
    assert_eq!((linked.ino, linked.nlink), (file.ino, 2));

    let handle = backing.open_directory(made.ino).unwrap();
    backing.create(owner(), made.ino, name("later"), OFlags::WRONLY, MODE).unwrap();
    let mut names: Vec<_> =
        backing.listing(handle).unwrap().iter().map(|entry| entry.0.clone()).collect();
    names.sort();
    assert_eq!(names, [".", "..", "f"]);
    backing.sync_directory(made.ino).unwrap();
    backing.close_directory(handle);
    assert!(backing.listing(handle).is_err());
    assert_eq!(backing.open_directory(file.ino), Err(Errno::NOTDIR));
}
