//! What is noted of a sample: in the file itself, and beside it the design as JSON and the files that it
//! was drawn from.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray, UInt64Array};
use catalog::{Dataset, FeedChoice, marks};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use stage::files::DataSource;
use stage::{Error, Session, format};

use crate::design::{Design, Method};
use crate::draw::{Draw, Stratum};
use crate::population::Population;
use crate::priority::ALGORITHM;

/// A sample: how it was drawn, and from what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DesignRecord {
    /// Program and version.
    pub(crate) tool: String,
    /// The algorithm, with its version.
    pub(crate) algorithm: String,
    pub(crate) dataset: Dataset,
    #[serde(flatten)]
    pub(crate) method: Method,
    pub(crate) seed: u64,
    /// The files that were read: converted, cleaned, or of a period.
    pub(crate) source: String,
    pub(crate) feed: FeedChoice,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) start_date: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) end_date: Option<String>,
    pub(crate) columns: Vec<String>,
    pub(crate) inputs: Inputs,
    /// Rows that could be drawn by their place in the archive.
    pub(crate) population: u64,
    /// Of those, rows that match the filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) matching: Option<u64>,
    /// Rows drawn.
    pub(crate) sampled: u64,
    pub(crate) strata: Vec<Stratum>,
    pub(crate) citation: String,
}

/// The files that were read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inputs {
    pub(crate) files: u64,
    /// Whether they were made of converted files, or of cleaned ones.
    pub(crate) made_of: String,
    /// Digest of their names, rows and sizes.
    pub(crate) digest: String,
}

/// Where the design of a sample stands.
pub(crate) fn design_path(sample: &Path) -> PathBuf {
    beside(sample, "design.json")
}

fn beside(sample: &Path, suffix: &str) -> PathBuf {
    let mut name = sample.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

impl DesignRecord {
    /// What is to be noted of a sample with these columns.
    pub(crate) fn of(
        session: &Session,
        design: &Design,
        source: DataSource,
        population: &Population,
        draw: &Draw,
        columns: Vec<String>,
    ) -> Result<Self, Error> {
        let is_cleaned = population.files.iter().any(|file| file.cleaned);
        let inputs = Inputs {
            files: population.files.len() as u64,
            made_of: String::from(if is_cleaned { "cleaned" } else { "converted" }),
            digest: stage::fingerprint(&inputs(population))?,
        };
        Ok(Self {
            tool: format!("gdelt-mill {}", stage::VERSION),
            algorithm: ALGORITHM.to_owned(),
            dataset: design.dataset,
            method: design.method.clone(),
            seed: design.seed,
            source: source.directory.to_string(),
            feed: session.settings.feed,
            start_date: session.range.start.map(|day| day.to_string()),
            end_date: session.range.end.map(|day| day.to_string()),
            columns,
            inputs,
            population: draw.population,
            matching: draw.matching,
            sampled: draw.sampled(),
            strata: draw.strata.clone(),
            citation: marks::CITATION_TEXT.to_owned(),
        })
    }

    /// How the sample is written, with this noted in it.
    pub(crate) fn properties(&self) -> Result<WriterProperties, Error> {
        let notes = [
            (marks::VERSION, stage::VERSION.to_owned()),
            (marks::STAGE, "sample".to_owned()),
            (marks::DATASET, self.dataset.name().to_owned()),
            (marks::STEPS, json(self)?),
            (marks::FINGERPRINT, stage::fingerprint(self)?),
        ];
        Ok(format::writer_properties(self.dataset, &notes))
    }

    /// Writes it and the list of the files beside the sample. The sample itself comes last: where it
    /// stands, what is noted of it stands too.
    pub(crate) fn write(
        &self,
        session: &Session,
        sample: &Path,
        population: &Population,
    ) -> Result<(), Error> {
        let path = design_path(sample);
        let mut staged = session.budget.stage(&path);
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::Internal(error.to_string()))?;
        writeln!(staged, "{text}")
            .map_err(|source| io_budget::Error::new("write", &path, source))?;
        staged.publish()?;
        write_inputs(session, &beside(sample, "inputs.parquet"), population)
    }

    /// Reads what is noted beside a sample.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] when there is nothing, or it is not of this program.
    pub(crate) fn read(session: &Session, sample: &Path) -> Result<Self, Error> {
        let path = design_path(sample);
        let bytes = session.budget.read_file(&path)?;
        serde_json::from_slice(&bytes).map_err(|error| {
            let message = format!("{} is no design of a sample: {error}", path.display());
            Error::input(message, "draw the sample again")
        })
    }
}

/// Name, rows and size of each file.
fn inputs(population: &Population) -> Vec<(String, u64, u64)> {
    let input = |file: &crate::population::PopulationFile| {
        let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name, file.rows, file.stat.size)
    };
    population.files.iter().map(input).collect()
}

fn write_inputs(session: &Session, path: &Path, population: &Population) -> Result<(), Error> {
    let inputs = inputs(population);
    let names: StringArray = inputs.iter().map(|(name, ..)| Some(name)).collect();
    let numbers = |of: fn(&(String, u64, u64)) -> u64| -> UInt64Array {
        inputs.iter().map(|input| Some(of(input))).collect()
    };
    let batch = RecordBatch::try_from_iter([
        ("file", Arc::new(names) as _),
        ("rows", Arc::new(numbers(|input| input.1)) as _),
        ("size", Arc::new(numbers(|input| input.2)) as _),
    ]);
    let encoding = |error| Error::encoding(path, error);
    let batch = batch.map_err(|error| encoding(error.into()))?;
    let mut staged = session.budget.stage(path);
    let mut writer = ArrowWriter::try_new(&mut staged, batch.schema(), None).map_err(encoding)?;
    writer.write(&batch).map_err(encoding)?;
    writer.close().map_err(encoding)?;
    staged.publish()?;
    Ok(())
}

fn json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::Internal(error.to_string()))
}
