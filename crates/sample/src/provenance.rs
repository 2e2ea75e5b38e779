//! Whether rows stand in their files as they stood in the converted ones.

use std::collections::{BTreeSet, HashMap};

use catalog::ledger::{Record, StageName};
use catalog::{Dataset, Layout};
use stage::{Error, Session};

use crate::population::Population;

/// Refuses a population in which cleaning has dropped rows: those behind them have moved, and nothing
/// says from where.
///
/// # Errors
///
/// [`Error::Input`] that names the first file.
pub(crate) fn check(
    session: &Session,
    layout: &Layout,
    dataset: Dataset,
    population: &Population,
) -> Result<(), Error> {
    let cleaned: BTreeSet<_> = population.sources().filter(|it| it.name.cleaned).collect();
    if cleaned.is_empty() {
        return Ok(());
    }
    let records = session.ledger(layout, dataset).load(StageName::Clean, session.range)?.records;
    let by_name = |(output, record): (String, Record)| {
        let name = output.rsplit('/').next().unwrap_or(&output).to_owned();
        (name, record)
    };
    let records: HashMap<String, Record> = records.into_iter().map(by_name).collect();
    for source in cleaned {
        let name = source.name.to_string();
        let record = records.get(&name).filter(|record| record.rows == source.rows);
        let problem = match record {
            Some(record) if record.rows_read == record.rows => continue,
            Some(record) => {
                format!("cleaning dropped {} rows of it", record.rows_read - record.rows)
            }
            None => String::from("the ledger does not say whether cleaning dropped rows of it"),
        };
        let message = format!("--provenance: {name}: {problem}");
        return Err(Error::input(
            message,
            "draw from the converted files, with --source converted",
        ));
    }
    Ok(())
}
