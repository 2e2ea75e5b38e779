//! Reads the bundled real rows and cuts them into the pieces that made rows consist of.

use std::collections::HashSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use zip::ZipArchive;

use super::rng::Rng;
use super::text::Words;

/// A row and where its cells end.
#[derive(Debug)]
pub(crate) struct Row {
    line: Vec<u8>,
    ends: Vec<usize>,
}

impl Row {
    fn new(line: &[u8]) -> Self {
        let tabs = line.iter().enumerate().filter(|(_, byte)| **byte == b'\t').map(|(at, _)| at);
        Self { line: line.to_vec(), ends: tabs.chain([line.len()]).collect() }
    }

    /// Returns how many cells there are.
    pub(crate) fn width(&self) -> usize {
        self.ends.len()
    }

    /// Returns the cell of a column.
    pub(crate) fn cell(&self, column: usize) -> &[u8] {
        self.cells(column, column)
    }

    /// Returns the cells of a range of columns, with the tabs between them.
    pub(crate) fn cells(&self, first: usize, last: usize) -> &[u8] {
        let start = if first == 0 { 0 } else { self.ends[first - 1] + 1 };
        &self.line[start..self.ends[last]]
    }

    /// Returns the last cell, which in events is the URL.
    pub(crate) fn last(&self) -> &[u8] {
        self.cell(self.width() - 1)
    }
}

/// The lists that a column holds in the real rows, cut into elements.
#[derive(Debug)]
pub(crate) struct Lists(Vec<Vec<Vec<u8>>>);

impl Lists {
    fn new(rows: &[Row], column: usize, separator: u8) -> Self {
        let elements = |row: &Row| {
            let parts = row.cell(column).split(|&byte| byte == separator);
            parts.filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect()
        };
        Self(rows.iter().map(elements).collect())
    }

    /// Draws the list of one row.
    pub(crate) fn draw(&self, rng: &mut Rng) -> &[Vec<u8>] {
        rng.pick(&self.0).map_or(&[], Vec::as_slice)
    }

    /// Draws the list of one row, starts it anywhere, and drops, swaps or adds a few elements.
    pub(crate) fn shuffle<'a>(&'a self, rng: &mut Rng) -> Vec<&'a [u8]> {
        let list = self.draw(rng);
        let (tail, head) = list.split_at(rng.below(list.len()));
        let mut shuffled = Vec::with_capacity(list.len());
        for element in head.iter().chain(tail) {
            match rng.below(16) {
                0 => {}
                1 => shuffled.push(self.draw_element(rng).unwrap_or(element)),
                2 => {
                    shuffled.push(element);
                    shuffled.extend(self.draw_element(rng));
                }
                _ => shuffled.push(element),
            }
        }
        shuffled
    }

    fn draw_element(&self, rng: &mut Rng) -> Option<&[u8]> {
        let list = self.draw(rng);
        rng.pick(list).map(Vec::as_slice)
    }
}

/// The columns of GKG 2.1 that consist of lists.
#[derive(Debug)]
pub(crate) struct GkgLists {
    /// V2.1COUNTS.
    pub(crate) counts: Lists,
    /// V2ENHANCEDTHEMES.
    pub(crate) themes: Lists,
    /// V2ENHANCEDLOCATIONS.
    pub(crate) locations: Lists,
    /// V2ENHANCEDPERSONS.
    pub(crate) persons: Lists,
    /// V2ENHANCEDORGANIZATIONS.
    pub(crate) organizations: Lists,
    /// V2GCAM.
    pub(crate) gcam: Lists,
    /// V2.1ALLNAMES.
    pub(crate) names: Lists,
    /// V2.1AMOUNTS.
    pub(crate) amounts: Lists,
}

/// The columns of GKG 1.0 that consist of lists.
#[derive(Debug)]
pub(crate) struct Gkg1Lists {
    /// COUNTS, of the GKG and of the counts files.
    pub(crate) counts: Lists,
    /// THEMES.
    pub(crate) themes: Lists,
    /// LOCATIONS.
    pub(crate) locations: Lists,
    /// PERSONS.
    pub(crate) persons: Lists,
    /// ORGANIZATIONS.
    pub(crate) organizations: Lists,
}

/// What the bundled files hold.
#[derive(Debug)]
pub(crate) struct Fixtures {
    /// Events of 15-minute files, 61 columns.
    pub(crate) events: Vec<Row>,
    /// Events of daily files, 58 columns.
    pub(crate) daily_events: Vec<Row>,
    /// Mentions.
    pub(crate) mentions: Vec<Row>,
    /// GKG 2.1 records.
    pub(crate) gkg: Vec<Row>,
    /// The list columns of GKG 2.1.
    pub(crate) gkg_lists: GkgLists,
    /// The list columns of GKG 1.0.
    pub(crate) gkg1_lists: Gkg1Lists,
    /// Distinct URLs of mentioned documents.
    pub(crate) urls: Vec<Vec<u8>>,
    /// Identifiers of documents that are no web pages.
    pub(crate) citations: Vec<Vec<u8>>,
    /// Words of URLs and quotations.
    pub(crate) words: Words,
    /// Words of names.
    pub(crate) names: Words,
}

impl Fixtures {
    /// Reads the bundled files.
    pub(crate) fn load() -> Result<Self> {
        let mentions = rows("mentions", &[16])?;
        let gkg = rows("gkg-v2", &[27])?;
        let gkg1 = rows("gkg-v1", &[11])?;
        let counts = rows("gkg-v1-counts", &[15])?;
        let mut daily_events = rows("events", &[57, 58])?;
        daily_events.retain(|row| row.width() == 58);

        let (urls, citations) = identifiers(&mentions);
        let (mut words, mut names) = (Words::default(), Words::default());
        for url in &urls {
            words.add(url);
        }
        for row in &gkg {
            words.add(row.cell(22));
            names.add(row.cell(11));
            names.add(row.cell(23));
        }
        Ok(Self {
            events: rows("events-15min", &[61])?,
            daily_events,
            gkg_lists: GkgLists {
                counts: Lists::new(&gkg, 6, b';'),
                themes: Lists::new(&gkg, 8, b';'),
                locations: Lists::new(&gkg, 10, b';'),
                persons: Lists::new(&gkg, 12, b';'),
                organizations: Lists::new(&gkg, 14, b';'),
                gcam: Lists::new(&gkg, 17, b','),
                names: Lists::new(&gkg, 23, b';'),
                amounts: Lists::new(&gkg, 24, b';'),
            },
            gkg1_lists: Gkg1Lists {
                counts: counts_lists(&gkg1, &counts),
                themes: Lists::new(&gkg1, 3, b';'),
                locations: Lists::new(&gkg1, 4, b';'),
                persons: Lists::new(&gkg1, 5, b';'),
                organizations: Lists::new(&gkg1, 6, b';'),
            },
            mentions,
            gkg,
            urls,
            citations,
            words,
            names,
        })
    }
}

/// Joins the lists of the GKG with the rows of the counts files, which spread them over columns.
fn counts_lists(gkg1: &[Row], counts: &[Row]) -> Lists {
    let mut lists = Lists::new(gkg1, 2, b';');
    lists.0.retain(|list| !list.is_empty());
    let element =
        |row: &Row| (2..12).map(|column| row.cell(column)).collect::<Vec<_>>().join(&b'#');
    lists.0.extend(counts.iter().map(|row| vec![element(row)]));
    lists
}

/// Returns the distinct URLs and the other identifiers, in the order of the rows.
fn identifiers(mentions: &[Row]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let mut seen = HashSet::new();
    let distinct = mentions.iter().map(|row| row.cell(5)).filter(|cell| seen.insert(*cell));
    distinct.map(<[u8]>::to_vec).partition(|cell| cell.starts_with(b"http"))
}

/// Reads the rows of a dataset's files, in the order of their names, without header lines.
fn rows(dataset: &str, widths: &[usize]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for path in zips(dataset)? {
        let content = member(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines = content.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        rows.extend(lines.map(Row::new).filter(|row| row.cell(0) != b"DATE"));
    }
    ensure!(!rows.is_empty(), "no rows are bundled for {dataset}");
    if let Some(row) = rows.iter().find(|row| !widths.contains(&row.width())) {
        bail!("a bundled row of {dataset} has {} columns", row.width());
    }
    Ok(rows)
}

fn zips(dataset: &str) -> Result<Vec<PathBuf>> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/archive");
    let folder = Path::new(root).join(dataset).join("raw");
    let entries = fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "zip"));
    paths.sort();
    Ok(paths)
}

fn member(path: &Path) -> Result<Vec<u8>> {
    let mut archive = ZipArchive::new(fs::File::open(path)?)?;
    let mut content = Vec::new();
    archive.by_index(0)?.read_to_end(&mut content)?;
    Ok(content)
}
