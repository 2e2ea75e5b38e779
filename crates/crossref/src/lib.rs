//! Joins events with the GKG records of the articles that report them.
//!
//! Input: Parquet files of events, named on the command line; the converted, cleaned or aggregated
//! files of one generation of GKG and, for GKG 2.1, of Mentions. Output: one Parquet file.
//!
//! | module | holds |
//! |---|---|
//! | [`cli`] | the command line |
//! | `plan` | what it asks for, checked: events, files, output |
//! | `rows` | reading: one column of a row group, or some of its rows |
//! | `events` | ids and rows of the events |
//! | `archive` | a walk over files that goes on where one cannot be read |
//! | `mentions` | the mentions of the events |
//! | `gkg` | the records of event ids or articles |
//! | `join` | which event, mention and record make a row, and in which order |
//! | `output` | writes the rows |
//!
//! Invariants:
//!
//! - Every combination of an event row, a mention and a record whose keys are equal is a row. Null
//!   and empty keys equal nothing. A record of GKG 1.0 that lists an event twice gives two rows.
//!   Nothing is left out because of its time.
//! - Rows stand in the order of events (file, row), then of mentions (time, those without one
//!   last, then file, row), then of records (file, row). The same input and settings give the same
//!   bytes, whatever the number of workers.
//! - An unreadable file of GKG or Mentions is reported and gives no rows, and the others do; an
//!   unreadable file of events stops the run.
//! - Memory follows the matches: ids of the events, keys of their mentions, the matching records,
//!   and what a worker decodes of one row group.

mod archive;
pub mod cli;
mod events;
mod gkg;
mod join;
mod mentions;
mod output;
mod plan;
mod rows;

use stage::{Error, ExitStatus, Session, Summary};

use cli::{Args, GkgVersion};
use events::Events;
use gkg::{Records, Wanted};
use mentions::Mentions;
use output::Output;
use plan::Plan;

/// Joins as the command line asks.
///
/// # Errors
///
/// [`Error`] when the command line does not fit together, no input is found, the events cannot be
/// read or the output cannot be written.
#[expect(clippy::needless_pass_by_value, reason = "the shape of a stage's body")]
pub fn run(args: Args) -> Result<ExitStatus, Error> {
    plan::check(&args)?;
    let session = Session::start(&args.common, None, &[])?;
    if let Some(status) = session.explain_io([&args.events, &args.out])? {
        return Ok(status);
    }
    polars_bridge::limit_threads(session.jobs());
    cross_reference(&session, &args)?.finish(&session, session.jobs().get())
}

fn cross_reference(session: &Session, args: &Args) -> Result<Summary, Error> {
    let plan = Plan::make(session, args)?;
    let mut summary = Summary::new("crossref");
    (summary.files.planned, summary.files.made) = (1, 1);
    summary.outputs.push(plan.out.clone());
    let events = &Events::read(session, &plan.events)?;
    let schema = output::schema(&events.schema, plan.version)?;
    summary.counts = events.counts();
    summary.rows.read = events.rows;
    if session.dry_run {
        say_what_would_be_read(session, &plan, events, &mut summary);
        return Ok(summary);
    }
    say_what_is_read(session, &plan, events);
    let found = find(session, &plan, events, &mut summary)?;
    let joined = join::join(events, found.mentions.as_ref(), &found.records.links)?;
    let matched = joined.distinct_events();
    summary.rows.written = joined.len() as u64;
    for (name, count) in [
        ("events matched", matched.len()),
        ("largest fan out", joined.largest_fan_out()),
        ("rows", joined.len()),
    ] {
        summary.counts.insert(name.into(), count as u64);
    }
    if joined.is_empty() {
        session.printer.warn(format!(
            "none of {} events has a record: {} becomes a table without rows",
            events.rows,
            plan.out.display()
        ));
    }
    let event_rows = events.fetch(session, &matched)?;
    let output = Output { plan: &plan, schema, events, matched, event_rows, found, joined };
    summary.output_bytes = output.write(session, &summary.failures)?.size;
    summary.input_bytes = session.budget.report().reads.bytes;
    Ok(summary)
}

/// What the archive has of the events.
#[derive(Debug)]
struct Found {
    /// The mentions of the events; GKG 1.0 does without.
    mentions: Option<Mentions>,
    records: Records,
}

fn find(
    session: &Session,
    plan: &Plan,
    events: &Events,
    summary: &mut Summary,
) -> Result<Found, Error> {
    let schema = output::record_schema(plan.version.dataset());
    let records = |wanted: &Wanted<'_>, summary: &mut Summary| {
        Records::find(session, &plan.records, wanted, &schema, summary)
    };
    let mentions = match plan.version {
        GkgVersion::V1 => None,
        GkgVersion::V2 => Some(Mentions::find(session, &plan.mentions, events, summary)?),
    };
    let records = match &mentions {
        None => records(&Wanted::EventIds(events), summary)?,
        Some(mentions) => {
            let number = mentions.articles.len();
            session.printer.info(format!("looking for the records of {number} articles"));
            records(&Wanted::Articles(&mentions.articles), summary)?
        }
    };
    Ok(Found { mentions, records })
}

fn say_what_is_read(session: &Session, plan: &Plan, events: &Events) {
    session.printer.info(format!(
        "looking for the records of {} events in {}",
        events.rows,
        plan.archive_files()
    ));
    if session.range.start.is_some() || session.range.end.is_some() {
        session.printer.info("the dates narrow these files, not the events");
    }
    let counts = events.counts();
    for (name, said) in [
        ("event ids repeated", "events have the id of another one: each gives rows of its own"),
        ("events without id", "events have no GlobalEventID and match nothing"),
    ] {
        if let Some(count) = counts.get(name) {
            session.printer.warn(format!("{count} {said}"));
        }
    }
}

fn say_what_would_be_read(session: &Session, plan: &Plan, events: &Events, summary: &mut Summary) {
    let skipped = plan.mentions.iter().filter(|file| !mentions::may_match(file, events)).count();
    session.printer.info(format!(
        "would look for the records of {} events in {}; {skipped} of these files hold none of \
         their ids",
        events.rows,
        plan.archive_files()
    ));
    summary.counts.insert(mentions::SKIPPED.into(), skipped as u64);
}

#[cfg(test)]
mod tests;
