//! Writes cells as plain text tables for a terminal or a file.

use crate::cells::cells;
use crate::grid::{Column, Grid, grids};
use crate::record::Run;
use crate::shown::visible;

/// The tables of these runs, one for each kind on each directory, with a line end at the end.
pub(crate) fn table(runs: &[Run]) -> String {
    if runs.is_empty() {
        return "No runs.\n".to_owned();
    }
    let tables: Vec<String> = grids(&cells(runs)).iter().map(text).collect();
    tables.join("\n")
}

fn text(grid: &Grid) -> String {
    let rows: Vec<Vec<_>> =
        grid.rows.iter().map(|row| row.iter().map(|text| visible(text)).collect()).collect();
    let widths: Vec<usize> = grid
        .columns
        .iter()
        .enumerate()
        .map(|(column, Column { head, .. })| {
            let widest = rows.iter().map(|row| row[column].chars().count()).max();
            widest.unwrap_or(0).max(head.len())
        })
        .collect();
    let line = |texts: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> =
            texts
                .zip(grid.columns.iter().zip(&widths))
                .map(|(text, (column, &width))| {
                    if column.text { format!("{text:<width$}") } else { format!("{text:>width$}") }
                })
                .collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let head = line(&mut grid.columns.iter().map(|column| column.head));
    let rows = rows.iter().map(|row| line(&mut row.iter().map(|text| &**text)));
    let gap = (!grid.notes.is_empty()).then(|| "\n".to_owned());
    let notes = grid.notes.iter().map(|note| format!("{}\n", visible(note)));
    let title = format!("{}\n\n", visible(&grid.title));
    [title, head].into_iter().chain(rows).chain(gap).chain(notes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{FileSize::Large, Outcome};
    use crate::testing::{check, killed, not_measured, raw, stage};

    #[test]
    fn a_small_example_reads_like_this() {
        let refused = Outcome::Refused { cause: "7 % cached".to_owned() };
        let runs = [
            raw(Large, 16, 120, 185.0),
            killed(raw(Large, 16, 58, 185.0), 8),
            killed(raw(Large, 16, 59, 185.0), 21),
            raw(Large, 1, 66, 15.5),
            raw(Large, 1, 64, 14.5),
            not_measured(raw(Large, 1, 0, 0.0), refused),
            killed(raw(Large, 32, 30, 400.0), 9),
            check(Some(4), 4),
            stage("workers", "4", 50, 40),
        ];
        let expected = "\
Raw reads on /data/gdelt

Files   N  Request   MB/s  [least..greatest]   SD  RTT ms  worst 5 s  idle  Runs  Status
large   1    1 MiB   65.0       [64.0..66.0]  1.4    15.0       20.0  12.5     3  2 ok, 1 refused
large  16    1 MiB  120.0                       -   185.0      190.0  12.5     3  1 ok, 2 killed (58.5 MB/s est., after 8-21 s)
large  32    1 MiB  ~30.0                       -  ~400.0          -  12.5     1  1 killed (30.0 MB/s est., after 9 s)

~ of killed runs alone, until they were killed
large, 1 MiB, N 1: 1 refused: 7 % cached

Stages on /data/gdelt

Stage    Dataset  Settings   In MB/s  [least..greatest]  Out MB/s  [least..greatest]  Start s  Tail s  RTT ms  worst 5 s  In flight  Peak MB  Runs  Status
convert  gkg      workers=4     50.0                         40.0                        0.50     1.5    20.0       25.0          -    400.0     1  ok

Checks of the budget on /data/gdelt

Threads  Limit  In flight  most  kernel's  MB/s  [least..greatest]  RTT ms  worst 5 s  idle  Runs  Status
     16      4        3.5     4       3.2  80.0                       30.0       35.0  12.5     1  ok
";
        assert_eq!(table(&runs), expected);
    }

    #[test]
    fn without_runs_it_says_so() {
        assert_eq!(table(&[]), "No runs.\n");
    }

    #[test]
    fn names_cannot_act_on_the_terminal() {
        let mut run = stage("key\u{1b}[31m", "a\tb", 1, 1);
        run.target.directory = "/data/\u{7}bell\n".into();
        let table = table(&[run]);
        assert!(table.starts_with("Stages on /data/\\u{7}bell\\n\n\n"), "{table}");
        assert!(table.contains("key\\u{1b}[31m=a\\tb"), "{table}");
        assert!(table.chars().all(|character| character == '\n' || !character.is_control()));
    }
}
