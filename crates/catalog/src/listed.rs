//! The lines of GDELT's own lists of its files: the master file lists and `lastupdate.txt` of the
//! 15-minute datasets, `md5sums` and `filesizes` of the others.

/// What a list says of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// File name, without directory or address.
    pub name: String,
    /// Length in bytes.
    pub size: Option<u64>,
    /// MD5 sum, as 32 lower-case hexadecimal digits.
    pub md5: Option<String>,
    /// Where it is fetched from, exactly as listed: `https` shows a certificate of another name.
    pub url: Option<String>,
}

impl ListedFile {
    /// Parses a line: `SIZE MD5 URL`, `SIZE NAME` or `MD5 NAME`. `None` for any other.
    pub fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (size, md5, place) = match fields[..] {
            [size, md5, place] => (Some(size.parse().ok()?), Some(md5_sum(md5)?), place),
            [first, place] => match md5_sum(first) {
                Some(md5) => (None, Some(md5), place),
                None => (Some(first.parse().ok()?), None, place),
            },
            _ => return None,
        };
        let (url, name) = match place.rsplit_once('/') {
            Some((_, name)) => (Some(place.to_owned()), name),
            None => (None, place),
        };
        Some(Self { name: name.to_owned(), size, md5, url })
    }
}

fn md5_sum(text: &str) -> Option<String> {
    let is_sum = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_sum.then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_lists_are_read_as_they_are() {
        // DL-04: the address keeps its scheme.
        let url = "http://data.gdeltproject.org/gdeltv2/20201229090000.export.CSV.zip";
        let line = format!("59535 76ABE2743a3f95d7a269ebd10b13fb9a {url}\r");
        let expected = ListedFile {
            name: String::from("20201229090000.export.CSV.zip"),
            size: Some(59_535),
            md5: Some(String::from("76abe2743a3f95d7a269ebd10b13fb9a")),
            url: Some(url.to_owned()),
        };
        assert_eq!(ListedFile::parse(&line), Some(expected));
        let sum = ListedFile::parse("7fb1b6ff781aea3d441abf512dc5e0f9  1979.zip").unwrap();
        assert_eq!((sum.name.as_str(), sum.size, sum.url), ("1979.zip", None, None));
        assert_eq!(sum.md5.as_deref(), Some("7fb1b6ff781aea3d441abf512dc5e0f9"));
        let size = ListedFile::parse("14276482 1979.zip").unwrap();
        assert_eq!((size.name.as_str(), size.size, size.md5), ("1979.zip", Some(14_276_482), None));
        for other in ["", "1979.zip", "x 1979.zip", "1 2 3 4", "7 7fb1 http://a/b"] {
            assert_eq!(ListedFile::parse(other), None, "{other}");
        }
    }
}
