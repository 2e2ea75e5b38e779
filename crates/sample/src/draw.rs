//! Which rows are drawn: of each stratum those of least priority.
//!
//! Without replacement a stratum's sample are its n rows of least priority, a simple random sample.
//! With replacement each of the n draws picks a number below the stratum's rows; numbers below that
//! of the rows met so far stand for these, others for the next row in the order of priorities, which
//! is a random one of the rest. So each draw is any row with the same probability, and neither
//! depends on the layout of the files.

use std::collections::{BTreeMap, HashMap};

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use serde::{Deserialize, Serialize};
use stage::{Error, Session};

use crate::allocation::{Census, shared_out};
use crate::bottom_k::BottomK;
use crate::columns::DeclaredColumn;
use crate::design::{Design, Size};
use crate::filter;
use crate::population::Population;
use crate::priority::Priorities;
use crate::scan::scan;
use crate::strata::{Key, Oddities, classify};

/// The rows drawn, and what they were drawn from.
#[derive(Debug, Default)]
pub(crate) struct Draw {
    /// Rows that could be drawn by their place in the archive.
    pub(crate) population: u64,
    /// Of those, rows that match the filter.
    pub(crate) matching: Option<u64>,
    /// Those that there are, in order.
    pub(crate) strata: Vec<Stratum>,
    /// The rows drawn, in the order of their positions.
    pub(crate) rows: Vec<Drawn>,
    /// Counts of what is unusual, by name.
    pub(crate) counts: BTreeMap<String, u64>,
}

/// A row that was drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Drawn {
    /// Its place in the archive.
    pub(crate) position: u64,
    /// The place of its stratum.
    pub(crate) stratum: u32,
    /// How often it was drawn.
    pub(crate) times: u32,
}

/// A stratum, and what was drawn from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stratum {
    /// Its key: a period or a value.
    pub(crate) key: Key,
    /// Rows in it.
    pub(crate) population: u64,
    /// Rows drawn.
    pub(crate) sample: u64,
    /// The standard deviation by which rows were allocated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deviation: Option<f64>,
}

impl Stratum {
    /// What a row of the sample stands for: rows of the population for each of its draws.
    #[expect(clippy::cast_precision_loss, reason = "a weight is a quotient")]
    pub(crate) fn weight(&self) -> f64 {
        self.population as f64 / self.sample as f64
    }
}

impl Draw {
    /// Rows of the sample, repeated ones each time.
    pub(crate) fn sampled(&self) -> u64 {
        self.strata.iter().map(|stratum| stratum.sample).sum()
    }

    /// Positions of the rows drawn, each once.
    pub(crate) fn positions(&self) -> Vec<u64> {
        self.rows.iter().map(|row| row.position).collect()
    }
}

/// Draws rows. A design without strata and filter reads none; `None` in a dry run of another one.
///
/// # Errors
///
/// [`Error::Usage`] when fewer rows may be drawn than are asked for, and those of [`scan`].
pub(crate) fn draw(
    session: &Session,
    design: &Design,
    population: &Population,
) -> Result<Option<Draw>, Error> {
    let drawing = Drawing { session, design, population, priorities: Priorities::new(design.seed) };
    match design.method.size {
        Size::N(n) if design.filter.is_none() => drawing.of_all(n).map(Some),
        _ if session.dry_run => Ok(None),
        Size::N(n) => drawing.of_matching(n).map(Some),
        Size::PerStratum(each) => drawing.of_strata(&|_| each, &BTreeMap::new()).map(Some),
        Size::Allocated { n, allocation, minimum } => {
            let census = drawing.census()?;
            let counts: Vec<Census> = census.values().copied().collect();
            let replace = design.method.replace;
            let shares = if counts.is_empty() {
                Vec::new()
            } else {
                shared_out(n, allocation, minimum, replace, &counts)?
            };
            let shares: BTreeMap<&Key, u64> = census.keys().zip(shares).collect();
            drawing.of_strata(&|key| shares.get(key).copied().unwrap_or(0), &census).map(Some)
        }
    }
}

/// A draw under way.
struct Drawing<'a> {
    session: &'a Session,
    design: &'a Design,
    population: &'a Population,
    priorities: Priorities,
}

/// What is gathered of a stratum.
#[derive(Debug)]
struct Gathered {
    rows: u64,
    priorities: Priorities,
    drawn: BottomK,
}

/// What is gathered of each stratum, and of all.
struct Gathering<S> {
    strata: BTreeMap<Key, S>,
    matching: u64,
    oddities: Oddities,
}

impl<S> Default for Gathering<S> {
    fn default() -> Self {
        Self { strata: BTreeMap::new(), matching: 0, oddities: Oddities::default() }
    }
}

impl Drawing<'_> {
    /// Of all rows, without reading any.
    fn of_all(&self, n: u64) -> Result<Draw, Error> {
        self.refuse_more_than(n, self.population.rows, "rows in the files asked for")?;
        let mut drawn = BottomK::new(least(n, self.population.rows));
        for position in self.population.positions() {
            drawn.push(self.priorities.of(position), position);
        }
        let rows = self.population.rows;
        let gathered = Gathered { rows, priorities: self.priorities, drawn };
        Ok(self.finished(BTreeMap::from([(Key::None, gathered)]), &|_| n, &BTreeMap::new()))
    }

    /// Of the rows that match the filter. No match is no error.
    fn of_matching(&self, n: u64) -> Result<Draw, Error> {
        let rows = self.population.rows;
        self.refuse_more_than(n, rows, "rows in the files asked for, before any filter")?;
        let draw = self.of_strata(&|_| n, &BTreeMap::new())?;
        match draw.matching {
            Some(0) | None => {}
            Some(matching) => self.refuse_more_than(n, matching, "rows that match the filter")?,
        }
        Ok(draw)
    }

    /// Of each stratum as many as `quota` says, or all that it has.
    fn of_strata(
        &self,
        quota: &(dyn Fn(&Key) -> u64 + Sync),
        census: &BTreeMap<Key, Census>,
    ) -> Result<Draw, Error> {
        let start = |key: &Key| {
            let quota = least(quota(key), self.population.rows);
            let priorities = self.priorities.of_stratum(key);
            Gathered { rows: 0, priorities, drawn: BottomK::new(quota) }
        };
        let gathered = self.gather(
            None,
            start,
            |stratum: &mut Gathered, position, _| {
                stratum.rows += 1;
                stratum.drawn.push(stratum.priorities.of(position), position);
                Ok(())
            },
            |stratum, other| {
                stratum.rows += other.rows;
                stratum.drawn.merge(other.drawn);
            },
        )?;
        let mut draw = self.finished(gathered.strata, quota, census);
        draw.matching = self.design.filter.as_ref().map(|_| gathered.matching);
        draw.counts = gathered.oddities.counts();
        Ok(draw)
    }

    /// The strata with what an allocation needs to know of them.
    fn census(&self) -> Result<BTreeMap<Key, Census>, Error> {
        let variance = self.design.variance;
        let gathered = self.gather(
            variance,
            |_| Census::default(),
            |stratum: &mut Census, _, value| {
                stratum.add(value).map_err(|value| {
                    let name = variance.map_or("", |column| column.name);
                    let message = format!("{value} in {name} is too great for a deviation");
                    Error::input(message, "choose another --variance-column or --allocation")
                })
            },
            Census::merge,
        )?;
        Ok(gathered.strata)
    }

    /// Scans the rows that may be drawn and match, and gathers what `add` makes of them.
    fn gather<S: Send>(
        &self,
        value: Option<DeclaredColumn>,
        start: impl Fn(&Key) -> S + Sync,
        add: impl Fn(&mut S, u64, Option<f64>) -> Result<(), Error> + Sync,
        merge: impl Fn(&mut S, S),
    ) -> Result<Gathering<S>, Error> {
        let Design { filter, grouping, .. } = self.design;
        let mut columns = filter.as_ref().map(filter::Filter::columns).unwrap_or_default();
        for column in grouping.column().into_iter().chain(value) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        let mut all = Gathering::default();
        let visit =
            |gathering: &mut Gathering<S>, batch: &RecordBatch, positions: &[Option<u64>]| {
                let matches =
                    match filter {
                        None => None,
                        Some(filter) => Some(filter::matches(filter, batch).map_err(|error| {
                            Error::Internal(format!("the filter failed: {error}"))
                        })?),
                    };
                let is_drawable = |row: usize| {
                    positions[row].is_some() && matches.as_ref().is_none_or(|matches| matches[row])
                };
                let column = grouping.column().and_then(|it| batch.column_by_name(it.name));
                let column = column.map(AsRef::as_ref);
                let range = self.session.range;
                let rows = batch.num_rows();
                let found = classify(*grouping, column, rows, is_drawable, range);
                gathering.matching += (0..rows).filter(|row| is_drawable(*row)).count() as u64;
                gathering.oddities.merge(found.oddities);
                let value = value.map(|it| Numbers::of(batch, it.name)).transpose()?;
                let taken = |key: &Key| gathering.strata.remove(key).unwrap_or_else(|| start(key));
                let mut strata: Vec<S> = found.keys.iter().map(taken).collect();
                for (row, stratum) in found.rows.iter().enumerate() {
                    if let (Some(stratum), Some(position)) = (stratum, positions[row]) {
                        let value = value.as_ref().and_then(|value| value.at(row));
                        add(&mut strata[*stratum], position, value)?;
                    }
                }
                gathering.strata.extend(found.keys.into_iter().zip(strata));
                Ok(())
            };
        scan(self.session, self.population, &columns, Gathering::default, visit, |gathered| {
            all.matching += gathered.matching;
            all.oddities.merge(gathered.oddities);
            for (key, of_key) in gathered.strata {
                match all.strata.remove(&key) {
                    None => drop(all.strata.insert(key, of_key)),
                    Some(mut known) => {
                        merge(&mut known, of_key);
                        all.strata.insert(key, known);
                    }
                }
            }
        })?;
        Ok(all)
    }

    /// The rows drawn of all strata.
    fn finished(
        &self,
        strata: BTreeMap<Key, Gathered>,
        quota: &dyn Fn(&Key) -> u64,
        census: &BTreeMap<Key, Census>,
    ) -> Draw {
        let mut draw = Draw { population: self.population.rows, ..Draw::default() };
        for (number, (key, gathered)) in (0..).zip(strata) {
            let Gathered { rows, priorities, drawn } = gathered;
            let times: Vec<(u64, u32)> = if self.design.method.replace {
                with_replacement(&drawn.into_ranked(), rows, quota(&key), priorities)
            } else {
                drawn.into_positions().into_iter().map(|position| (position, 1)).collect()
            };
            let sample = times.iter().map(|(_, times)| u64::from(*times)).sum();
            let of_row = |(position, times)| Drawn { position, stratum: number, times };
            draw.rows.extend(times.into_iter().map(of_row));
            let deviation = census.get(&key).and_then(Census::deviation);
            let deviation = deviation.filter(|_| self.design.variance.is_some());
            draw.strata.push(Stratum { key, population: rows, sample, deviation });
        }
        draw.rows.sort_unstable();
        draw
    }

    fn refuse_more_than(&self, n: u64, available: u64, what: &str) -> Result<(), Error> {
        if n <= available || (self.design.method.replace && available > 0) {
            return Ok(());
        }
        Err(Error::usage(
            format!("-n {n} is more than the {available} {what}"),
            "ask for fewer rows, take in more files, or draw with --replace",
        ))
    }
}

/// How many rows have to be kept.
fn least(quota: u64, rows: u64) -> usize {
    usize::try_from(quota.min(rows)).unwrap_or(usize::MAX)
}

/// Draws `n` times of `rows` rows, of which the first in a random order are known; gives positions
/// with how often they were drawn.
fn with_replacement(ranked: &[u64], rows: u64, n: u64, priorities: Priorities) -> Vec<(u64, u32)> {
    let mut times: HashMap<u64, u32> = HashMap::new();
    let mut met: usize = 0;
    if rows == 0 {
        return Vec::new();
    }
    for draw in priorities.draws(rows).take(usize::try_from(n).unwrap_or(usize::MAX)) {
        let place = usize::try_from(draw).unwrap_or(usize::MAX).min(met);
        met += usize::from(place == met);
        if let Some(position) = ranked.get(place) {
            *times.entry(*position).or_default() += 1;
        }
    }
    times.into_iter().collect()
}

/// The values of a column of numbers.
enum Numbers<'a> {
    Whole(&'a arrow::array::Int64Array),
    Fractions(&'a arrow::array::Float64Array),
}

impl<'a> Numbers<'a> {
    fn of(batch: &'a RecordBatch, name: &str) -> Result<Self, Error> {
        let column = batch.column_by_name(name);
        let column = column.ok_or_else(|| Error::Internal(format!("{name} was not read")))?;
        Ok(match column.data_type() {
            DataType::Int64 => Self::Whole(column.as_primitive::<Int64Type>()),
            _ => Self::Fractions(column.as_primitive::<Float64Type>()),
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "greater numbers have no deviation here")]
    fn at(&self, row: usize) -> Option<f64> {
        match self {
            Self::Whole(values) => values.is_valid(row).then(|| values.value(row) as f64),
            Self::Fractions(values) => values.is_valid(row).then(|| values.value(row)),
        }
    }
}
