//! Processes for the tests: this test program, started again for one of its tests.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{self, ChildStdout, Command, Stdio};

use tempfile::TempDir;

use super::directory::HostDirectory;
use super::ring::Ring;
use super::{Board, Slots};

const PARENT: &str = "IO_BUDGET_TEST_PARENT";

/// A directory in which the processes of a test meet.
#[derive(Debug)]
pub(super) struct Meeting {
    pub(super) directory: HostDirectory,
    parent: PathBuf,
    _temporary: Option<TempDir>,
}

impl Meeting {
    pub(super) fn new() -> Self {
        let temporary = tempfile::tempdir().expect("a directory");
        let meeting = Self::at(temporary.path().join("parent"));
        Self { _temporary: Some(temporary), ..meeting }
    }

    /// The place where a child was told to meet; none in a process that is no child.
    pub(super) fn of_child() -> Option<Self> {
        std::env::var_os(PARENT).map(|parent| Self::at(parent.into()))
    }

    fn at(parent: PathBuf) -> Self {
        let directory = HostDirectory::open(&parent, "key").expect("a directory");
        Self { directory, parent, _temporary: None }
    }

    pub(super) fn slots(&self) -> Slots {
        Slots::open(&self.directory, "reads")
    }

    pub(super) fn board(&self, lane: &'static str) -> Board {
        Board::open(&self.directory, lane).expect("a board")
    }

    pub(super) fn ring(&self, lane: &str) -> Ring {
        Ring::create(&self.directory, lane).expect("a ring")
    }

    /// Tells the parent a line. The test harness may have begun one.
    pub(super) fn say(line: &str) {
        println!("\n{line}");
    }

    /// Waits until the parent lets the child go on, or is gone.
    pub(super) fn wait_for_parent() {
        std::io::stdin().read_line(&mut String::new()).expect("a line or the end");
    }
}

/// A test that runs in a process of its own; killed when dropped.
#[derive(Debug)]
pub(super) struct Child {
    process: process::Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// Starts the ignored test `name` of a module, as `module_path!` tells it.
    pub(super) fn start(module: &str, name: &str, meeting: &Meeting) -> Self {
        let (_crate, module) = module.split_once("::").expect("a module of a crate");
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args([&format!("{module}::{name}"), "--exact", "--ignored", "--nocapture"])
            .env(PARENT, &meeting.parent)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        Self { process, lines }
    }

    /// Waits until the child has told this line.
    pub(super) fn expect_line(&mut self, expected: &str) {
        let told = self.lines.any(|line| line.expect("text") == expected);
        assert!(told, "the child ended without telling {expected:?}");
    }

    /// Lets the child go on.
    pub(super) fn release(&mut self) {
        self.process.stdin.as_ref().expect("piped").write_all(b"\n").expect("it listens");
    }

    /// What the child tells until it ends.
    pub(super) fn remaining_lines(&mut self) -> Vec<String> {
        self.lines.by_ref().map(|line| line.expect("text")).collect()
    }

    /// Kills the child, and waits until the kernel has taken back what it held.
    pub(super) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.process.kill().expect("a child of ours");
        self.process.wait().expect("a child of ours");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}
