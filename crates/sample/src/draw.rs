//! Draws rows of a whole population, or of those that match a filter.

use std::collections::BTreeMap;

use serde::Serialize;
use stage::{Error, Session};

use crate::bottom_k::BottomK;
use crate::filter::{self, Filter};
use crate::population::Population;
use crate::priority::Priorities;
use crate::scan::scan;

/// The rows drawn, and what they were drawn from.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Draw {
    /// Rows that could be drawn by their place in the archive.
    pub(crate) population: u64,
    /// Of those, rows that match the filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) matching: Option<u64>,
    /// What was drawn of each period: with its rows, the weight of a row in an estimate.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) strata: BTreeMap<u32, Stratum>,
    /// Positions of the rows drawn, in order.
    #[serde(skip)]
    pub(crate) positions: Vec<u64>,
    /// Counts of what is unusual, by name.
    #[serde(skip)]
    pub(crate) counts: BTreeMap<String, u64>,
}

/// A period of a stratified sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Stratum {
    /// Rows dated in it.
    pub(crate) rows: u64,
    /// Rows drawn.
    pub(crate) sampled: u64,
}

/// Draws `n` of all rows, without reading any.
///
/// # Errors
///
/// [`Error::Usage`] when there are fewer.
pub(crate) fn indexed(
    population: &Population,
    priorities: Priorities,
    n: usize,
) -> Result<Draw, Error> {
    refuse_more_than(n, population.rows, "rows in the files asked for")?;
    let mut drawn = BottomK::new(n);
    for position in population.positions() {
        drawn.push(priorities.of(position), position);
    }
    Ok(Draw { population: population.rows, positions: drawn.into_positions(), ..Draw::default() })
}

/// Draws `n` of the rows that match a filter, reading the filter's columns. No match is no error.
///
/// # Errors
///
/// [`Error::Usage`] when fewer match, and those of [`scan`].
pub(crate) fn filtered(
    session: &Session,
    population: &Population,
    priorities: Priorities,
    filter: &Filter,
    n: usize,
) -> Result<Draw, Error> {
    refuse_more_than(n, population.rows, "rows in the files asked for, before any filter")?;
    let (mut matching, mut drawn) = (0, BottomK::new(n));
    scan(
        session,
        population,
        &filter.columns(),
        || (0_u64, BottomK::new(n)),
        |(matching, drawn), batch, positions| {
            let matches = filter::matches(filter, batch)
                .map_err(|error| Error::Internal(format!("the filter failed: {error}")))?;
            for position in
                positions.iter().zip(matches).filter_map(|(p, matches)| p.filter(|_| matches))
            {
                *matching += 1;
                drawn.push(priorities.of(position), position);
            }
            Ok(())
        },
        |(found, kept)| {
            matching += found;
            drawn.merge(kept);
        },
    )?;
    if matching > 0 {
        refuse_more_than(n, matching, "rows that match the filter")?;
    }
    Ok(Draw {
        population: population.rows,
        matching: Some(matching),
        positions: drawn.into_positions(),
        ..Draw::default()
    })
}

fn refuse_more_than(n: usize, available: u64, what: &str) -> Result<(), Error> {
    if n as u64 <= available {
        return Ok(());
    }
    Err(Error::usage(
        format!("-n {n} is more than the {available} {what}"),
        "rows are drawn without replacement: ask for fewer rows, or take in more files",
    ))
}
