//! Draws what stands for a cell: a marker with a colour and a shape of its own, and error bars.
//!
//! Colours differ in lightness too, and no two of the first six have the same shape, so that
//! neither colour nor shape alone carries a meaning. A hollow marker and dashes stand for killed
//! runs.

use maud::{Markup, html};

use super::plot::{line, px};
use crate::statistics::real;

/// Colours of the style sheet, and shapes.
const KINDS: usize = 6;

/// Half the size of a marker.
const SIZE: f64 = 4.5;

/// The class that gives a line its colour.
pub(crate) fn colour(index: usize) -> String {
    format!("c{}", index % KINDS)
}

/// The marker of a line at a place; a hollow one for killed runs.
pub(crate) fn marker(index: usize, (x, y): (f64, f64), hollow: bool) -> Markup {
    let class = if hollow { "mark hollow" } else { "mark" };
    // The seventh line has the first one's colour but the second one's shape.
    let corners: &[(f64, f64)] = match (index + index / KINDS) % KINDS {
        0 => return html! { circle class=(class) cx=(px(x)) cy=(px(y)) r=(px(SIZE)) {} },
        1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        2 => &[(0.0, -1.2), (1.15, 0.9), (-1.15, 0.9)],
        3 => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        4 => &[(0.0, 1.2), (1.15, -0.9), (-1.15, -0.9)],
        _ => &[(-0.6, -1.1), (0.6, -1.1), (1.2, 0.0), (0.6, 1.1), (-0.6, 1.1), (-1.2, 0.0)],
    };
    let places: Vec<String> = corners
        .iter()
        .map(|(right, down)| format!("{},{}", px(x + right * SIZE), px(y + down * SIZE)))
        .collect();
    html! { polygon class=(class) points=(places.join(" ")) {} }
}

/// A vertical error bar between two heights.
pub(crate) fn error_bar(x: f64, (from, to): (f64, f64), dashed: bool) -> Markup {
    let class = if dashed { "error dashed" } else { "error" };
    html! {
        (line(class, (x, from), (x, to)))
        (line("error", (x - 3.0, from), (x + 3.0, from)))
        (line("error", (x - 3.0, to), (x + 3.0, to)))
    }
}

/// How far the line of this index is moved aside, so that error bars at one place stay apart.
pub(crate) fn aside(index: usize, lines: usize) -> f64 {
    let distance = (24.0 / real(lines.max(1))).min(7.0);
    (real(index) - (real(lines) - 1.0) / 2.0) * distance
}

/// What a line is drawn with, for a legend.
pub(crate) fn swatch(index: usize) -> Markup {
    html! {
        svg.swatch.(colour(index)) viewBox="0 0 28 14" aria-hidden="true" {
            (line("curve", (1.0, 7.0), (27.0, 7.0)))
            (marker(index, (14.0, 7.0), false))
        }
    }
}

/// The marker of killed runs, for a legend.
pub(crate) fn swatch_killed() -> Markup {
    html! {
        svg.swatch.plain viewBox="0 0 28 14" aria-hidden="true" {
            (line("curve dashed", (1.0, 7.0), (27.0, 7.0)))
            (marker(0, (14.0, 7.0), true))
        }
    }
}

/// The bar of killed runs, for a legend.
pub(crate) fn swatch_killed_bar() -> Markup {
    html! {
        svg.swatch.plain viewBox="0 0 28 14" aria-hidden="true" {
            rect.bar.hollow x="1" y="2" width="26" height="10" {}
        }
    }
}

/// An error bar, for a legend.
pub(crate) fn swatch_error() -> Markup {
    html! {
        svg.swatch.plain viewBox="0 0 28 14" aria-hidden="true" {
            (error_bar(14.0, (1.0, 13.0), false))
        }
    }
}

/// A line without markers, for a legend.
pub(crate) fn swatch_line(class: &str) -> Markup {
    html! {
        svg.swatch.plain viewBox="0 0 28 14" aria-hidden="true" {
            (line(class, (1.0, 7.0), (27.0, 7.0)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_differ_in_colour_and_shape_and_no_two_in_neither() {
        let drawn = |index: usize| {
            let shape = marker(index, (0.0, 0.0), false).into_string();
            (colour(index), shape)
        };
        let all: std::collections::BTreeSet<_> = (0..36).map(drawn).collect();
        assert_eq!(all.len(), 36);
        let shapes: std::collections::BTreeSet<_> = (0..6).map(|index| drawn(index).1).collect();
        assert_eq!(shapes.len(), 6);
    }

    #[test]
    fn lines_move_aside_evenly() {
        let places = [(0, 3), (1, 3), (2, 3), (0, 1)].map(|(index, lines)| px(aside(index, lines)));
        assert_eq!(places, ["-7", "0", "7", "0"]);
    }
}
