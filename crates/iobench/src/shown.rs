//! Writes figures and names in one way for the table and the report.
//!
//! Names come from file systems and mounts and may hold anything; characters that would act on a
//! terminal, or that HTML forbids, are shown as escapes.

use std::borrow::Cow;

use crate::statistics::real;

/// A figure with as many digits as are worth reading.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        "0".to_owned()
    } else if !(1e-3..1e7).contains(&size) {
        format!("{value:.1e}")
    } else if size >= 1e3 {
        format!("{value:.0}")
    } else if size >= 1.0 {
        format!("{value:.1}")
    } else if size >= 0.1 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// A figure, or a dash where there is none.
pub(crate) fn number_or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

/// A size in binary units, as request sizes are given.
pub(crate) fn binary(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    for (shift, unit) in units {
        let whole = bytes >> shift;
        if whole == 0 {
            continue;
        }
        if whole << shift == bytes {
            return format!("{whole} {unit}");
        }
        return format!("{:.1} {unit}", megabytes(bytes) / megabytes(1 << shift));
    }
    format!("{bytes} B")
}

/// Bytes in MB, which are 10^6 bytes.
#[expect(clippy::cast_precision_loss, reason = "sizes are for reading")]
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// A count with its noun: `1 run`, `2 runs`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// How many readers or writers, which may be more than anyone can read.
pub(crate) fn concurrency(n: usize) -> String {
    if n < 1_000_000 { n.to_string() } else { number(real(n)) }
}

/// The text with an escape for each character that acts instead of being seen.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if acts(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Whether a character acts on a terminal or on the direction of text, or is none at all in HTML.
fn acts(character: char) -> bool {
    let turns_text = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    let noncharacter = matches!(character, '\u{fdd0}'..='\u{fdef}')
        || matches!(u32::from(character) & 0xffff, 0xfffe | 0xffff);
    character.is_control() || turns_text || noncharacter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_the_digits_that_matter() {
        for (value, expected) in [
            (0.0, "0"),
            (0.08249, "0.082"),
            (0.254, "0.25"),
            (65.24, "65.2"),
            (999.94, "999.9"),
            (1260.4, "1260"),
            (0.000_04, "4.0e-5"),
            (2.5e9, "2.5e9"),
        ] {
            assert_eq!(number(value), expected);
        }
        assert_eq!(number_or_dash(None), "-");
    }

    #[test]
    fn sizes_of_requests_are_binary() {
        for (bytes, expected) in [
            (0, "0 B"),
            (512, "512 B"),
            (65_536, "64 KiB"),
            (1 << 20, "1 MiB"),
            (1_572_864, "1.5 MiB"),
            (u64::MAX, "17179869184.0 GiB"),
        ] {
            assert_eq!(binary(bytes), expected);
        }
    }

    #[test]
    fn characters_that_act_become_escapes() {
        assert_eq!(visible("/data/größe"), "/data/größe");
        assert_eq!(
            visible("a\u{1b}[2J\0\n\u{9b}b\u{202e}c\u{fffe}"),
            "a\\u{1b}[2J\\u{0}\\n\\u{9b}b\\u{202e}c\\u{fffe}"
        );
    }
}
