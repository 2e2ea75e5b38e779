//! Says what was measured: the storage, the machine, and when.

use maud::{Markup, html};

use crate::record::{Host, Run, Target};
use crate::shown::counted;

/// The heading of the page.
pub(crate) fn heading(runs: &[Run]) -> Markup {
    let began = || runs.iter().map(|run| run.began.as_str());
    let mut versions: Vec<&str> = runs.iter().map(|run| run.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    let mut sessions: Vec<&str> = runs.iter().map(|run| run.session.as_str()).collect();
    sessions.sort_unstable();
    sessions.dedup();
    html! {
        header {
            h1 { "Storage benchmark" }
            @match (began().min(), began().max()) {
                (Some(first), Some(last)) => p.note {
                    (counted(runs.len(), "run")) " in "
                    (counted(sessions.len(), "session")) ", begun "
                    @if first == last { (first) } @else { (first) " to " (last) }
                    ", gdelt-iobench " (versions.join(", "))
                },
                _ => p { "No runs." },
            }
        }
        @for (target, host) in storages(runs) { (storage(target, host)) }
    }
}

/// Each storage with the machine that measured it, once, in the order of the runs.
fn storages(runs: &[Run]) -> Vec<(&Target, &Host)> {
    let mut storages = Vec::new();
    for run in runs {
        let storage = (&run.target, &run.host);
        if !storages.contains(&storage) {
            storages.push(storage);
        }
    }
    storages
}

fn storage(target: &Target, host: &Host) -> Markup {
    html! {
        section.storage {
            h2 { code { (target.directory.display()) } }
            dl {
                dt { "Storage class" }
                dd { (target.class) @if !target.why.is_empty() { " \u{2013} " (target.why) } }
                dt { "Mounted" }
                dd {
                    code { (target.source) } " on " code { (target.mount_point.display()) }
                    ", " (target.fs_type)
                }
                dt { "Options" }
                dd { code { (target.mount_options) } }
                dt { "Host" }
                dd { "Linux " (host.kernel) ", " (counted(host.cpus, "processor")) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FileSize::Large;
    use crate::testing::raw;

    #[test]
    fn a_storage_is_described_once_and_again_where_it_was_mounted_otherwise() {
        let mut other = raw(Large, 1, 1, 1.0);
        other.target.mount_options = "ro".to_owned();
        let runs = [raw(Large, 1, 1, 1.0), raw(Large, 2, 1, 1.0), other];
        let page = heading(&runs).into_string();
        assert_eq!(page.matches("<code>/data/gdelt</code>").count(), 2);
        assert!(page.contains("3 runs in 1 session, begun 2026-11-30T10:00:00Z, gdelt-iobench"));
    }
}
