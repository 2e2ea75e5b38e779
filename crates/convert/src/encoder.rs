//! Encodes batches of rows into the files of a task: on the thread that parses, or beside it where
//! the run has a thread to spare.

use std::thread::{Builder, Scope, ScopedJoinHandle};

use arrow::array::RecordBatch;
use catalog::Dataset;
use crossbeam_channel::{Receiver, Sender, bounded};
use stage::settings::DatasetConversion;
use stage::work::{Crew, MadeFile, Task, TaskError};
use stage::{Error, Session};

use crate::output::Output;
use crate::years::Years;

/// The files that rows go to.
pub(crate) enum Files {
    /// One file.
    One(Box<Output>),
    /// A file for each year.
    Years(Box<Years>),
}

impl Files {
    pub(crate) fn begin(
        session: &Session,
        task: &Task,
        settings: &DatasetConversion,
    ) -> Result<Self, TaskError> {
        if task.dataset == Dataset::EventsReduced {
            let years = Years::new(&session.budget, task, settings);
            return Ok(Self::Years(Box::new(years)));
        }
        let output = Output::begin(&session.budget, task, &task.output, settings)?;
        Ok(Self::One(Box::new(output)))
    }

    /// Writes rows, of a year where there is a file for each.
    fn write(&mut self, year: Option<i32>, batch: &RecordBatch) -> Result<(), TaskError> {
        match (self, year) {
            (Self::One(output), _) => output.write(batch),
            (Self::Years(years), Some(year)) => years.write(year, batch),
            (Self::Years(_), None) => Err(Error::Internal("rows without a year".into()).into()),
        }
    }

    pub(crate) fn close(self, source: &str) -> Result<Vec<MadeFile>, TaskError> {
        match self {
            Self::One(output) => Ok(vec![output.close(source)?]),
            Self::Years(years) => years.close(source),
        }
    }
}

type Batch = (Option<i32>, RecordBatch);

/// Encodes batches.
pub(crate) enum Encoder<'scope> {
    /// On this thread.
    Here(Files),
    /// On another one, which takes a batch when it is done with the one before.
    Beside { batches: Sender<Batch>, thread: ScopedJoinHandle<'scope, Result<Files, TaskError>> },
}

impl<'scope> Encoder<'scope> {
    /// An encoder on a thread of its own where the crew has one to spare and the system grants it.
    /// What is written does not depend on that.
    pub(crate) fn new(
        scope: &'scope Scope<'scope, '_>,
        crew: Crew<'_>,
        begin: impl FnOnce() -> Result<Files, TaskError>,
    ) -> Result<Self, TaskError> {
        let files = begin()?;
        if crew.threads().get() == 1 {
            return Ok(Self::Here(files));
        }
        // The files go after the thread, which the system may refuse.
        let (hand_over, taken) = bounded::<Files>(1);
        let (batches, received) = bounded(0);
        let encode = move || match taken.recv() {
            Ok(files) => encode(files, &received),
            Err(_) => Err(Error::Internal("an encoder without files".into()).into()),
        };
        match Builder::new().name("encoder".into()).spawn_scoped(scope, encode) {
            Ok(thread) => {
                // It takes them: it waits for nothing else.
                let _sent = hand_over.send(files);
                Ok(Self::Beside { batches, thread })
            }
            Err(_) => Ok(Self::Here(files)),
        }
    }

    /// Encodes rows, of a year where there is a file for each.
    pub(crate) fn write(&mut self, year: Option<i32>, batch: RecordBatch) -> Result<(), TaskError> {
        match self {
            Self::Here(files) => files.write(year, &batch),
            // An encoder that has failed says why when it is finished.
            Self::Beside { batches, .. } => batches
                .send((year, batch))
                .map_err(|_| TaskError::Failed(String::from("its rows could not be encoded"))),
        }
    }

    /// The files with all that was written.
    pub(crate) fn finish(self) -> Result<Files, TaskError> {
        match self {
            Self::Here(files) => Ok(files),
            Self::Beside { batches, thread } => {
                drop(batches);
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
        }
    }
}

fn encode(mut files: Files, batches: &Receiver<Batch>) -> Result<Files, TaskError> {
    for (year, batch) in batches {
        files.write(year, &batch)?;
    }
    Ok(files)
}
