//! What a user should know of the rows drawn.

use std::collections::BTreeMap;

use catalog::Directory;
use stage::Session;
use stage::files::DataSource;

use crate::design::{Design, Grouping};
use crate::draw::Draw;
use crate::population::Population;

/// The counts for the summary.
pub(crate) fn counts(draw: &Draw) -> BTreeMap<String, u64> {
    let mut counts = draw.counts.clone();
    counts.insert("population".into(), draw.population);
    counts.insert("sampled".into(), draw.sampled());
    counts.extend(draw.matching.map(|matching| ("matching".into(), matching)));
    if draw.strata.len() > 1 {
        counts.insert("strata".into(), draw.strata.len() as u64);
    }
    counts
}

/// Warns of what makes the sample another one than the user may think.
pub(crate) fn warn(session: &Session, design: &Design, draw: &Draw) {
    if draw.rows.is_empty() {
        let what = if draw.matching.is_some() { "matches the filter" } else { "has a date" };
        session.printer.warn(format!(
            "none of {} rows {what}: {} will be a table without rows",
            draw.population,
            design.out.display()
        ));
    }
    let date = match design.grouping {
        Grouping::Period { column, .. } => column.name,
        Grouping::Whole | Grouping::Values(_) => design.dataset.date_column(),
    };
    for (name, what, consequence) in [
        ("without_date", "no", "and were left out"),
        ("impossible_date", "an impossible", "and were left out"),
        (
            "before_1979",
            "a wrong",
            "before 1979 and make periods of their own; gdelt-clean repairs those of 1920",
        ),
        (
            "outside_range",
            "a",
            "outside the dates asked for and make periods of their own, of which files of other \
             dates hold more rows",
        ),
    ] {
        if let Some(count) = draw.counts.get(name) {
            session.printer.warn(format!("{count} rows have {what} {date} {consequence}"));
        }
    }
}

/// Says of aggregates that they are made of converted files, though cleaning is active: their rows
/// are not repaired.
pub(crate) fn warn_of_source(
    session: &Session,
    design: &Design,
    source: DataSource,
    population: &Population,
) {
    let is_aggregated = matches!(source.directory, Directory::Aggregated(_));
    let is_active = session.settings.clean(design.dataset).is_active(design.dataset);
    let is_converted = population.files.iter().any(|file| !file.cleaned);
    if is_aggregated && is_active && is_converted {
        session.printer.warn(format!(
            "{} of {} are made of converted files, though cleaning is active: their rows are not \
             repaired; run gdelt-clean and gdelt-aggregate for others",
            source.directory, design.dataset
        ));
    }
}
