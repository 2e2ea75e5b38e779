//! Makes new text of the look of real text: other words, other numbers, the same shape.

use super::rng::Rng;

/// The shortest run of letters or digits that is varied; shorter ones are mostly grammar.
const WORD_LENGTH: usize = 4;
const NUMBER_LENGTH: usize = 3;
/// The length of a time stamp, `YYYYMMDDHHMMSS`.
const STAMP_LENGTH: usize = 14;

/// Words of real text, each as often as it occurs there, so that drawn ones keep its frequencies.
#[derive(Debug, Default)]
pub(crate) struct Words(Vec<Vec<u8>>);

impl Words {
    /// Adds the words of `text`.
    pub(crate) fn add(&mut self, text: &[u8]) {
        let words = text.split(|byte| !byte.is_ascii_alphabetic());
        let long = words.filter(|word| word.len() >= WORD_LENGTH && !is_scheme(word));
        self.0.extend(long.map(<[u8]>::to_ascii_lowercase));
    }
}

/// How text is varied.
#[derive(Debug)]
pub(crate) struct Remix<'a> {
    /// The words to put in.
    pub(crate) words: &'a Words,
    /// How many of 16 words are replaced.
    pub(crate) share: usize,
    /// What takes the place of a time stamp.
    pub(crate) stamp: &'a [u8],
}

impl Remix<'_> {
    /// Appends `text` with some words and most digits replaced; tags and entities stay.
    pub(crate) fn write(&self, out: &mut Vec<u8>, text: &[u8], rng: &mut Rng) {
        let mut rest = text;
        let mut before = b' ';
        while let Some(&first) = rest.first() {
            let length = match first {
                b'<' => rest.iter().position(|&byte| byte == b'>').map_or(rest.len(), |at| at + 1),
                _ if first.is_ascii_alphabetic() => run(rest, u8::is_ascii_alphabetic),
                _ if first.is_ascii_digit() => run(rest, u8::is_ascii_digit),
                _ => 1,
            };
            let (token, after) = rest.split_at(length);
            match first {
                _ if first.is_ascii_digit() => self.write_number(out, token, rng),
                _ if first.is_ascii_alphabetic() && before != b'&' => {
                    self.write_word(out, token, rng);
                }
                _ => out.extend(token),
            }
            before = first;
            rest = after;
        }
    }

    fn write_word(&self, out: &mut Vec<u8>, word: &[u8], rng: &mut Rng) {
        let varied = word.len() >= WORD_LENGTH && !is_scheme(word) && rng.below(16) < self.share;
        let drawn = if varied { rng.pick(&self.words.0) } else { None };
        let start = out.len();
        out.extend(drawn.map_or(word, Vec::as_slice));
        if drawn.is_some() && word.first().is_some_and(u8::is_ascii_uppercase) {
            out[start].make_ascii_uppercase();
        }
    }

    fn write_number(&self, out: &mut Vec<u8>, number: &[u8], rng: &mut Rng) {
        if number.len() == STAMP_LENGTH && number.starts_with(b"20") {
            out.extend(self.stamp);
        } else if number.len() >= NUMBER_LENGTH {
            write_digits(out, number, 1, rng);
        } else {
            out.extend(number);
        }
    }
}

/// Appends `number` with every digit after the first `kept` bytes drawn anew.
pub(crate) fn write_digits(out: &mut Vec<u8>, number: &[u8], kept: usize, rng: &mut Rng) {
    let (head, tail) = number.split_at(kept.min(number.len()));
    out.extend(head);
    let mut bits = rng.next();
    for &byte in tail {
        if byte.is_ascii_digit() {
            out.push(b'0' + (bits % 10) as u8);
            bits /= 10;
        } else {
            out.push(byte);
        }
    }
}

/// Appends `number` in decimal digits.
pub(crate) fn write_number(out: &mut Vec<u8>, mut number: u64) {
    let start = out.len();
    loop {
        out.push(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out[start..].reverse();
}

/// Reads decimal digits; anything else is 0.
pub(crate) fn read_number(digits: &[u8]) -> u64 {
    std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Splits at the last `mark`, which belongs to neither part.
pub(crate) fn split_at_last(text: &[u8], mark: u8) -> (&[u8], &[u8]) {
    match text.iter().rposition(|&byte| byte == mark) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, b""),
    }
}

fn run(text: &[u8], belongs: fn(&u8) -> bool) -> usize {
    text.iter().take_while(|byte| belongs(byte)).count()
}

fn is_scheme(word: &[u8]) -> bool {
    word == b"http" || word == b"https"
}

#[cfg(test)]
mod tests {
    use super::{Remix, Rng, Words};
    use crate::make_archive::rng::Part;

    fn check(input: &str, expected: &str) {
        let mut words = Words::default();
        words.add(b"zebra");
        let remix = Remix { words: &words, share: 16, stamp: b"20200601001500" };
        let mut out = Vec::new();
        remix.write(&mut out, input.as_bytes(), &mut Rng::new(1, Part::Gkg, [0, 0]));
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn replaces_words_in_their_case() {
        check("the Quick brown", "the Zebra zebra");
    }

    #[test]
    fn keeps_tags_entities_and_schemes() {
        check("<TITLE>https:&quot;22", "<TITLE>https:&quot;22");
    }

    #[test]
    fn puts_in_the_stamp() {
        check("20190102030405", "20200601001500");
    }
}
