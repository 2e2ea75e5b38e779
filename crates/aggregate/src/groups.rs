//! Which row groups of the sources become one row group of the output. A row group of a source is
//! never split.

use std::collections::VecDeque;
use std::iter::Fuse;

use catalog::Dataset;
use serde::Serialize;
use stage::format;

/// How row groups are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RowGroups {
    /// Join those of the sources to full ones: quick to read. Pages without a dictionary are joined
    /// as they are, columns with one are encoded again
    #[default]
    Splice,
    /// Append those of the sources as they are: the quickest merge, for larger files that are
    /// slower to read
    Copy,
}

impl RowGroups {
    /// What a row group may hold.
    pub(crate) fn limit(self, dataset: Dataset) -> Size {
        match self {
            Self::Splice => {
                let rows = format::group_rows(dataset) as u64;
                Size { rows, bytes: format::GROUP_BYTES as u64 }
            }
            // Nothing fits beside the first.
            Self::Copy => Size::default(),
        }
    }
}

/// What a row group holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

impl Size {
    fn and(self, other: Self) -> Self {
        let rows = self.rows.saturating_add(other.rows);
        Self { rows, bytes: self.bytes.saturating_add(other.bytes) }
    }

    fn fits(self, limit: Self) -> bool {
        self.rows <= limit.rows && self.bytes <= limit.bytes
    }

    /// Whether it is so small that it should not stand alone.
    fn is_small(self, limit: Self) -> bool {
        self.rows < limit.rows / 2 && self.bytes < limit.bytes / 2
    }
}

/// Row groups that become one.
#[derive(Debug)]
struct Group<P> {
    pieces: VecDeque<(P, Size)>,
}

impl<P> Group<P> {
    fn of(piece: P, size: Size) -> Self {
        Self { pieces: VecDeque::from([(piece, size)]) }
    }

    fn size(&self) -> Size {
        self.pieces.iter().fold(Size::default(), |sum, (_, size)| sum.and(*size))
    }

    fn into_pieces(self) -> Vec<P> {
        self.pieces.into_iter().map(|(piece, _)| piece).collect()
    }
}

/// Puts pieces, in their order, into groups. A group is full when the next piece would go beyond
/// the limit; a piece beyond it stands alone. Where a group is followed by a small one the two are
/// evened out.
#[derive(Debug)]
pub(crate) struct Groups<I: Iterator, P, F> {
    pieces: Fuse<I>,
    limit: Size,
    size: F,
    /// Full, and held back as long as the one after it is small.
    full: Option<Group<P>>,
    open: Option<(Group<P>, Size)>,
}

impl<I, P, E, F> Groups<I, P, F>
where
    I: Iterator<Item = Result<P, E>>,
    F: Fn(&P) -> Size,
{
    /// Groups within `limit`; `size` tells that of a piece.
    pub(crate) fn new(pieces: I, limit: Size, size: F) -> Self {
        Self { pieces: pieces.fuse(), limit, size, full: None, open: None }
    }

    /// Takes a piece; returns a group that is finished.
    fn add(&mut self, piece: P) -> Option<Group<P>> {
        let size = (self.size)(&piece);
        let Some((open, of_open)) = &mut self.open else {
            self.open = Some((Group::of(piece, size), size));
            return None;
        };
        if of_open.and(size).fits(self.limit) {
            open.pieces.push_back((piece, size));
            *of_open = of_open.and(size);
        } else {
            let (closed, _) = self.open.replace((Group::of(piece, size), size))?;
            if let Some(mut full) = self.full.replace(closed) {
                self.even_out(&mut full);
                return Some(full);
            }
        }
        match &self.open {
            Some((_, size)) if !size.is_small(self.limit) => self.full.take(),
            _ => None,
        }
    }

    /// Moves pieces from a group to the small one behind it, now full, while that makes the larger
    /// of the two smaller.
    fn even_out(&mut self, first: &mut Group<P>) {
        let Some(second) = &mut self.full else { return };
        let (mut left, mut right) = (first.size(), second.size());
        if !right.is_small(self.limit) {
            return;
        }
        while first.pieces.len() > 1
            && let Some((piece, size)) = first.pieces.pop_back()
        {
            let moved = right.and(size);
            if !moved.fits(self.limit) || moved.rows >= left.rows {
                first.pieces.push_back((piece, size));
                break;
            }
            left.rows = left.rows.saturating_sub(size.rows);
            right = moved;
            second.pieces.push_front((piece, size));
        }
    }
}

impl<I, P, E, F> Iterator for Groups<I, P, F>
where
    I: Iterator<Item = Result<P, E>>,
    F: Fn(&P) -> Size,
{
    type Item = Result<Vec<P>, E>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.pieces.next() {
                Some(Ok(piece)) => {
                    if let Some(group) = self.add(piece) {
                        return Some(Ok(group.into_pieces()));
                    }
                }
                Some(Err(error)) => return Some(Err(error)),
                None => break,
            }
        }
        let last = self.open.take().map(|(group, _)| group);
        if let Some(mut full) = self.full.take() {
            self.full = last;
            self.even_out(&mut full);
            return Some(Ok(full.into_pieces()));
        }
        last.map(|group| Ok(group.into_pieces()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: Size = Size { rows: 8_000, bytes: 1_000 };

    fn grouped(limit: Size, sizes: &[(u64, u64)]) -> Vec<Vec<(u64, u64)>> {
        let pieces = sizes.iter().map(|size| Ok::<_, ()>(*size));
        let groups =
            Groups::new(pieces, limit, |(rows, bytes)| Size { rows: *rows, bytes: *bytes });
        groups.collect::<Result<_, _>>().unwrap()
    }

    fn rows(sizes: &[u64]) -> Vec<Vec<u64>> {
        let sizes: Vec<_> = sizes.iter().map(|rows| (*rows, 1)).collect();
        let rows = |group: Vec<(u64, u64)>| group.into_iter().map(|(rows, _)| rows).collect();
        grouped(LIMIT, &sizes).into_iter().map(rows).collect()
    }

    #[test]
    fn a_group_is_closed_before_it_would_go_beyond_the_limit() {
        assert_eq!(rows(&[]), Vec::<Vec<u64>>::new());
        assert_eq!(
            rows(&[3_000, 5_000, 4_000, 4_001]),
            [vec![3_000, 5_000], vec![4_000], vec![4_001]]
        );
        assert_eq!(rows(&[20_000, 4_000, 4_000]), [vec![20_000], vec![4_000, 4_000]]);
        let by_bytes = grouped(LIMIT, &[(1, 600), (1, 500), (1, 400), (1, 5_000)]);
        assert_eq!(by_bytes, [vec![(1, 600)], vec![(1, 500), (1, 400)], vec![(1, 5_000)]]);
    }

    #[test]
    fn small_groups_at_the_seams_are_evened_out() {
        assert_eq!(rows(&[8, 7_990]), [vec![8, 7_990]]);
        assert_eq!(rows(&[7_990, 8]), [vec![7_990, 8]]);
        assert_eq!(rows(&[4_000, 3_990, 20, 7_990]), [vec![4_000], vec![3_990, 20], vec![7_990]]);
        let last: Vec<usize> = rows(&[600; 18]).iter().map(Vec::len).collect();
        assert_eq!(last, [9, 9]);
        // Nothing can be done: neither neighbour has room.
        assert_eq!(rows(&[7_995, 8, 7_995]), [vec![7_995], vec![8], vec![7_995]]);
    }

    #[test]
    fn copied_row_groups_stay_alone() {
        let limit = RowGroups::Copy.limit(Dataset::GkgV2);
        assert_eq!(grouped(limit, &[(1, 1), (2, 1)]), [vec![(1, 1)], vec![(2, 1)]]);
    }

    proptest! {
        #[test]
        fn pieces_keep_their_order_and_groups_their_limit(
            sizes in proptest::collection::vec((1_u64..9_000, 1_u64..400), 0..60),
        ) {
            let groups = grouped(LIMIT, &sizes);
            prop_assert_eq!(groups.concat(), sizes);
            for group in &groups {
                let sum = group.iter().fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
                prop_assert!(group.len() == 1 || (sum.0 <= 8_000 && sum.1 <= 1_000));
            }
        }
    }
}
