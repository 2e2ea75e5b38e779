//! Draws the frame of a plot: the picture itself, its axes and their titles.
//!
//! Pictures have no size of their own; they fill what the page gives them. Colours and line
//! widths are those of the style sheet, so that a plot follows the reader's choice of light or
//! dark.

use maud::{Markup, html};

use super::scale::Linear;

/// Width of a plot, in units of the picture.
pub(crate) const WIDTH: f64 = 440.0;

/// The part of a picture between the axes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    /// Its left edge.
    pub(crate) left: f64,
    /// Its right edge.
    pub(crate) right: f64,
    /// Its upper edge.
    pub(crate) top: f64,
    /// Its lower edge.
    pub(crate) bottom: f64,
}

impl Area {
    /// Where a share of the width is.
    pub(crate) fn x(self, share: f64) -> f64 {
        self.left + share * (self.right - self.left)
    }

    /// Where a share of the height is, from below.
    pub(crate) fn y(self, share: f64) -> f64 {
        self.bottom - share * (self.bottom - self.top)
    }
}

/// A picture with a name and a description for those who do not see it.
pub(crate) fn svg(size: (f64, f64), title: &str, description: &str, content: &Markup) -> Markup {
    html! {
        svg viewBox={ "0 0 " (px(size.0)) " " (px(size.1)) } role="img" aria-label=(title) {
            title { (title) }
            desc { (description) }
            (content)
        }
    }
}

/// A vertical axis with lines across the area, and its title above.
pub(crate) fn vertical(area: Area, scale: Linear, title: &str) -> Markup {
    html! {
        text.title x=(px(4.0)) y=(px(area.top - 12.0)) { (title) }
        @for (share, label) in scale.ticks() {
            (line("grid", (area.left, area.y(share)), (area.right, area.y(share))))
            text.tick.end x=(px(area.left - 6.0)) y=(px(area.y(share) + 4.0)) { (label) }
        }
    }
}

/// A horizontal axis below the area, marked at these shares, and its title below.
pub(crate) fn horizontal(area: Area, ticks: &[(f64, String)], title: &str) -> Markup {
    html! {
        (line("axis", (area.left, area.bottom), (area.right, area.bottom)))
        @for (share, label) in ticks {
            (line("axis", (area.x(*share), area.bottom), (area.x(*share), area.bottom + 4.0)))
            text.tick.middle x=(px(area.x(*share))) y=(px(area.bottom + 17.0)) { (label) }
        }
        text.title.middle x=(px(area.x(0.5))) y=(px(area.bottom + 35.0)) { (title) }
    }
}

/// A straight line of this class.
pub(crate) fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> Markup {
    html! {
        line class=(class) x1=(px(from.0)) y1=(px(from.1)) x2=(px(to.0)) y2=(px(to.1)) {}
    }
}

/// A line through points, interrupted where one is missing; a point that is alone is a dot.
pub(crate) fn path(points: impl IntoIterator<Item = Option<(f64, f64)>>) -> String {
    let mut joined = false;
    let step = |point: Option<(f64, f64)>| {
        // A line of no length is drawn as a dot by its round ends.
        let (step, dot) = if joined { ("L", "") } else { ("M", "h0") };
        joined = point.is_some();
        point.map(|(x, y)| format!("{step}{} {}{dot}", px(x), px(y)))
    };
    points.into_iter().filter_map(step).collect()
}

/// A length or a place with one decimal, which is finer than can be seen.
pub(crate) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_interrupted_where_a_point_is_missing() {
        let points = [Some((1.0, 2.0)), Some((3.0, 4.5)), None, Some((5.0, 6.0)), None];
        assert_eq!(path(points), "M1 2h0L3 4.5M5 6h0");
        assert_eq!(path([]), "");
    }

    #[test]
    fn shares_are_counted_from_the_lower_left() {
        let area = Area { left: 10.0, right: 110.0, top: 20.0, bottom: 70.0 };
        assert_eq!((area.x(0.5), area.y(0.0), area.y(1.0)), (60.0, 70.0, 20.0));
    }
}
