//! Whether raw files are those that GDELT published, by the sizes and MD5 sums of its own lists.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::PathBuf;

use catalog::ListedFile;
use io_budget::{Budget, FileReader};
use md5::{Digest as _, Md5};
use serde::Serialize;
use stage::work::{Input, Task};
use stage::{Error, ExitStatus, Session, pool};

/// Bytes that are summed at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// What was found.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// Files that have the size and the MD5 sum listed.
    right: u64,
    /// Files of which the lists name the size only, and that have it.
    right_by_size: u64,
    /// Files that are in no list, and were not checked.
    not_listed: u64,
    /// Files that are others than those listed.
    wrong: Vec<Wrong>,
}

#[derive(Debug, Serialize)]
struct Wrong {
    file: PathBuf,
    reason: String,
}

/// What the lists say of a file: a size from one and a sum from the other, perhaps.
#[derive(Debug, Default)]
struct Expected {
    size: Option<u64>,
    md5: Option<String>,
}

/// Checks the inputs of tasks, and prints what was found.
///
/// # Errors
///
/// [`Error::Usage`] for a list that is none, [`Error::Io`] when one cannot be read or stdout is
/// closed, [`Error::Interrupted`].
pub(crate) fn verify(
    session: &Session,
    lists: &[PathBuf],
    tasks: &[Task],
) -> Result<ExitStatus, Error> {
    let inputs: Vec<&Input> = tasks.iter().flat_map(|task| &task.inputs).collect();
    let expected = read_lists(&session.budget, lists, &inputs)?;
    let jobs = session.waiting_jobs(inputs.first().map(|input| input.path.as_path()));
    let bar = session.printer.start_bar(inputs.len() as u64, "files");
    let mut report = Report::default();
    let check = |input: &Input| {
        session.interrupt.check()?;
        let found = expected.get(&input.name.to_ascii_lowercase());
        Ok((input.path.clone(), found.map(|found| check(&session.budget, input, found))))
    };
    pool::map_ordered(jobs, inputs, check, |checked: Result<_, Error>| {
        let (file, verdict) = checked?;
        match verdict {
            None => report.not_listed += 1,
            Some(Ok(By::Sum)) => report.right += 1,
            Some(Ok(By::Size)) => report.right_by_size += 1,
            Some(Err(reason)) => report.wrong.push(Wrong { file, reason }),
        }
        bar.advance(1);
        Ok::<_, Error>(())
    })?;
    drop(bar);
    if session.json {
        let json =
            serde_json::to_string(&report).map_err(|error| Error::Internal(error.to_string()))?;
        stage::print(&json)?;
    } else {
        stage::print(&told(&report))?;
    }
    Ok(if report.wrong.is_empty() { ExitStatus::Done } else { ExitStatus::FilesFailed })
}

/// What the lists say of these files, by lower-case name.
fn read_lists(
    budget: &Budget,
    lists: &[PathBuf],
    inputs: &[&Input],
) -> Result<HashMap<String, Expected>, Error> {
    let wanted: HashSet<String> =
        inputs.iter().map(|input| input.name.to_ascii_lowercase()).collect();
    let mut expected: HashMap<String, Expected> = HashMap::new();
    for list in lists {
        let bytes = budget.read_file(list)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut files = text.lines().filter_map(ListedFile::parse).peekable();
        if files.peek().is_none() {
            let message = format!("{} is no list of GDELT's files", list.display());
            let hint = "its lines are `SIZE MD5 URL`, `MD5 NAME` or `SIZE NAME`";
            return Err(Error::usage(message, hint));
        }
        for ListedFile { name, size, md5, .. } in files {
            let name = name.to_ascii_lowercase();
            if wanted.contains(&name) {
                let known = expected.entry(name).or_default();
                known.size = size.or(known.size);
                known.md5 = md5.or(known.md5.take());
            }
        }
    }
    Ok(expected)
}

/// By what a file was found to be the listed one.
#[derive(Debug, PartialEq, Eq)]
enum By {
    Size,
    Sum,
}

/// The size of a file comes with the listing, so that a file of another size is not read.
fn check(budget: &Budget, input: &Input, expected: &Expected) -> Result<By, String> {
    let found = input.stat.size;
    if let Some(size) = expected.size
        && size != found
    {
        return Err(format!("{found} bytes, the list says {size}: fetch it again"));
    }
    let Some(listed) = &expected.md5 else { return Ok(By::Size) };
    let sum = md5_sum(budget, input).map_err(|error| stage::describe(&error))?;
    if sum == *listed {
        Ok(By::Sum)
    } else {
        Err(format!("the MD5 sum is {sum}, the list says {listed}: fetch it again"))
    }
}

fn md5_sum(budget: &Budget, input: &Input) -> std::io::Result<String> {
    let file = budget.open_listed(&input.path, input.stat).map_err(std::io::Error::other)?.once();
    let mut reader = FileReader::new(file);
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut sum = Md5::new();
    loop {
        match reader.read(&mut buffer)? {
            0 => break,
            read => sum.update(&buffer[..read]),
        }
    }
    let mut text = String::with_capacity(32);
    for byte in sum.finalize() {
        // Writing to a string cannot fail.
        let _ok = write!(text, "{byte:02x}");
    }
    Ok(text)
}

fn told(report: &Report) -> String {
    let Report { right, right_by_size, not_listed, wrong } = report;
    let others = wrong.len() as u64;
    let checked = right + right_by_size + others;
    let mut text = format!(
        "checked {checked} of {} files: {right} with the size and MD5 sum listed, {right_by_size} \
         with the size (no sum is listed), {others} other than listed; {not_listed} in no list",
        checked + not_listed
    );
    for Wrong { file, reason } in wrong {
        let _ok = write!(text, "\n  {}: {reason}", file.display());
    }
    text
}
