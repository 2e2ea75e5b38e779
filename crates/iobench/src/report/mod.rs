//! Writes runs as one HTML page that needs nothing else: no script, no image, no font.
//!
//! What comes from the records is escaped twice over: `maud` escapes what HTML gives a meaning,
//! and the finished body is passed through [`visible`], so that no control character of a record
//! can reach the page. The page forbids all that it does not use by its content security policy.

mod bars;
mod checks;
mod marks;
mod plot;
mod scale;
mod scaling;
mod series;
mod storage;
mod style;
mod summary;
mod tables;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::cells::{Cell, cells};
use crate::grid::{groups, kind};
use crate::record::{Run, Setting};
use crate::shown::visible;

/// The page for these runs.
pub(crate) fn html(runs: &[Run]) -> String {
    let cells = cells(runs);
    let body = html! {
        body { main {
            (storage::heading(runs))
            @if !cells.is_empty() {
                section {
                    h2 { "What this shows" }
                    (summary::paragraphs(&cells))
                }
                @for group in groups(&cells) { (figures(group)) }
                section {
                    h2 { "Cells" }
                    p.note {
                        "A cell is the repeats of one setting. Its figures are means over the \
                         runs that were not killed, refused or failed; SD is their sample \
                         standard deviation."
                    }
                    (tables::cells(&cells))
                }
                section {
                    h2 { "Every run" }
                    (tables::runs(&cells))
                }
                section {
                    h2 { "Time series" }
                    (series::all(&cells))
                }
            }
        } }
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy"
                    content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Storage benchmark" }
                style { (PreEscaped(style::STYLE)) }
            }
            (PreEscaped(visible(&body.into_string())))
        }
    };
    page.into_string()
}

/// The plots of the cells of one kind on one directory.
fn figures(group: &[Cell<'_>]) -> Markup {
    let plots = match group[0].setting {
        Setting::Raw(_) => scaling::figures(group),
        Setting::Stage(_) => bars::figures(group),
        Setting::Check(_) => checks::figures(group),
    };
    html! {
        section {
            h2 { (kind(group[0].setting)) " on " code { (group[0].directory.display()) } }
            (plots)
        }
    }
}

#[cfg(test)]
mod tests;
