//! `--where`: a condition as SQL has it, turned into the same tree as a filter in JSON.
//!
//! ```text
//! condition = term {OR term}           term = factor {AND factor}
//! factor = NOT factor | "(" condition ")" | test
//! test = column (= | <> | != | < | <= | > | >=) value
//!      | column [NOT] IN "(" value {"," value} ")"
//!      | column [NOT] BETWEEN value AND value
//!      | column IS [NOT] NULL
//! column = name | "name"               value = number | 'text'
//! ```
//!
//! Key words are known in any letter case; in text a quote is doubled; a name with other characters
//! than letters, digits, `_` and `.` stands in double quotes.

use stage::Error;

use super::json::Json;

/// Conditions in one another, at most: deeper ones are no question that somebody asks.
const DEPTH: usize = 100;

/// Reads a condition.
///
/// # Errors
///
/// [`Error::Usage`] that says where it cannot be understood.
pub(super) fn parse(text: &str) -> Result<Json, Error> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let condition = parser.condition()?;
    match parser.peek() {
        None => Ok(condition),
        Some(_) => Err(parser.expected("AND, OR or the end")),
    }
}

/// A word, sign or value, and where it begins.
#[derive(Debug, Clone, PartialEq)]
struct Token {
    kind: Kind,
    /// Its first character, counted from 1.
    at: usize,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// A name or a key word.
    Word(String),
    /// A name in double quotes.
    Name(String),
    Value(Json),
    Sign(&'static str),
}

const SIGNS: [&str; 10] = ["<=", ">=", "<>", "!=", "=", "<", ">", "(", ")", ","];

fn tokens(text: &str) -> Result<Vec<Token>, Error> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let at = text[..text.len() - rest.len()].chars().count() + 1;
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let wrong = |what: &str| wrong(at, what);
        let (kind, length) = if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign))
        {
            (Kind::Sign(sign), sign.len())
        } else if first == '\'' || first == '"' {
            let (value, length) =
                quoted(rest, first).ok_or_else(|| wrong(&format!("{first} is not closed")))?;
            let kind =
                if first == '"' { Kind::Name(value) } else { Kind::Value(Json::Text(value)) };
            (kind, length)
        } else {
            let is_end = |it: char| it.is_whitespace() || "<>=!(),'\"".contains(it);
            let length = rest.find(is_end).unwrap_or(rest.len());
            let word = &rest[..length];
            if length == 0 {
                return Err(wrong(&format!("`{first}` means nothing here")));
            }
            let kind = if first.is_ascii_digit() || "+-.".contains(first) {
                Kind::Value(number(word).ok_or_else(|| wrong(&format!("`{word}` is no number")))?)
            } else {
                Kind::Word(word.to_owned())
            };
            (kind, length)
        };
        tokens.push(Token { kind, at });
        rest = &rest[length..];
    }
}

/// What stands between quotes at the beginning of a text, and its length with them. A quote in it is
/// doubled.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character != quote {
            value.push(character);
        } else if characters.next_if(|(_, next)| *next == quote).is_some() {
            value.push(quote);
        } else {
            return Some((value, at + quote.len_utf8()));
        }
    }
    None
}

fn number(word: &str) -> Option<Json> {
    match word.parse() {
        Ok(whole) => Some(Json::Whole(whole)),
        Err(_) => word.parse().ok().filter(|it: &f64| it.is_finite()).map(Json::Fraction),
    }
}

fn wrong(at: usize, what: &str) -> Error {
    Error::usage(
        format!("--where, character {at}: {what}"),
        r#"write conditions as in "QuadClass IN (3, 4) AND ActionGeo_CountryCode = 'US'""#,
    )
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Kind> {
        self.tokens.get(self.next).map(|token| &token.kind)
    }

    fn expected(&self, what: &str) -> Error {
        let after = |token: &Token| token.at;
        let at = self
            .tokens
            .get(self.next)
            .map_or_else(|| self.tokens.last().map_or(1, |token| after(token) + 1), after);
        wrong(at, &format!("expected {what}"))
    }

    /// Passes a key word.
    fn takes(&mut self, word: &str) -> bool {
        let is = matches!(self.peek(), Some(Kind::Word(it)) if it.eq_ignore_ascii_case(word));
        self.next += usize::from(is);
        is
    }

    fn takes_sign(&mut self, sign: &str) -> bool {
        let is = matches!(self.peek(), Some(Kind::Sign(it)) if *it == sign);
        self.next += usize::from(is);
        is
    }

    fn need(&mut self, word: &str) -> Result<(), Error> {
        if self.takes(word) { Ok(()) } else { Err(self.expected(word)) }
    }

    fn need_sign(&mut self, sign: &str) -> Result<(), Error> {
        if self.takes_sign(sign) { Ok(()) } else { Err(self.expected(&format!("`{sign}`"))) }
    }

    fn condition(&mut self) -> Result<Json, Error> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.expected("fewer conditions in one another"));
        }
        let mut terms = vec![self.term()?];
        while self.takes("OR") {
            terms.push(self.term()?);
        }
        self.depth -= 1;
        Ok(joined("OR", terms))
    }

    fn term(&mut self) -> Result<Json, Error> {
        let mut factors = vec![self.factor()?];
        while self.takes("AND") {
            factors.push(self.factor()?);
        }
        Ok(joined("AND", factors))
    }

    fn factor(&mut self) -> Result<Json, Error> {
        let mut is_negated = false;
        while self.takes("NOT") {
            is_negated = !is_negated;
        }
        let factor = if self.takes_sign("(") {
            let condition = self.condition()?;
            self.need_sign(")")?;
            condition
        } else {
            self.test()?
        };
        Ok(if is_negated { negated(factor) } else { factor })
    }

    fn test(&mut self) -> Result<Json, Error> {
        let column = match self.peek() {
            Some(Kind::Word(name) | Kind::Name(name)) => name.clone(),
            _ => return Err(self.expected("a column")),
        };
        self.next += 1;
        let operator =
            |name: &str, value| object(&column, Json::Object(vec![(name.to_owned(), value)]));
        if self.takes("IS") {
            let name = if self.takes("NOT") { "not_null" } else { "is_null" };
            self.need("NULL")?;
            return Ok(operator(name, Json::Bool(true)));
        }
        let is_negated = self.takes("NOT");
        let test = if self.takes("IN") {
            self.need_sign("(")?;
            let mut values = vec![self.value()?];
            while self.takes_sign(",") {
                values.push(self.value()?);
            }
            self.need_sign(")")?;
            operator("in_list", Json::List(values))
        } else if self.takes("BETWEEN") {
            let first = self.value()?;
            self.need("AND")?;
            operator("between", Json::List(vec![first, self.value()?]))
        } else if is_negated {
            return Err(self.expected("IN or BETWEEN"));
        } else {
            let Some(Kind::Sign(sign)) = self.peek().cloned() else {
                return Err(self.expected("an operator such as =, IN or IS NULL"));
            };
            let name = match sign {
                "=" | "<>" | "!=" => "equals",
                "<" => "lt",
                "<=" => "le",
                ">" => "gt",
                ">=" => "ge",
                _ => return Err(self.expected("an operator such as =, IN or IS NULL")),
            };
            self.next += 1;
            let test = operator(name, self.value()?);
            if matches!(sign, "<>" | "!=") { negated(test) } else { test }
        };
        Ok(if is_negated { negated(test) } else { test })
    }

    fn value(&mut self) -> Result<Json, Error> {
        let Some(Kind::Value(value)) = self.peek().cloned() else {
            return Err(self.expected("a number or a text in single quotes"));
        };
        self.next += 1;
        Ok(value)
    }
}

fn object(key: &str, value: Json) -> Json {
    Json::Object(vec![(key.to_owned(), value)])
}

fn negated(condition: Json) -> Json {
    object("NOT", condition)
}

fn joined(key: &str, mut conditions: Vec<Json>) -> Json {
    match conditions.pop() {
        Some(only) if conditions.is_empty() => only,
        last => object(key, Json::List(conditions.into_iter().chain(last).collect())),
    }
}

#[cfg(test)]
mod tests {
    use crate::filter::Filter;
    use catalog::Dataset;
    use proptest::prelude::*;

    fn same(condition: &str, json: &str) {
        let parse = |text: &str, is_json| {
            let parse = if is_json { Filter::parse } else { Filter::parse_condition };
            parse(Dataset::Events, text).unwrap_or_else(|error| panic!("{text}: {error}"))
        };
        assert_eq!(simple(parse(condition, false)), simple(parse(json, true)), "{condition}");
    }

    /// Without the lists of one that the JSON form has more of.
    fn simple(filter: Filter) -> Filter {
        match filter {
            Filter::All(mut all) if all.len() == 1 => simple(all.remove(0)),
            Filter::All(all) => Filter::All(all.into_iter().map(simple).collect()),
            Filter::Any(any) => Filter::Any(any.into_iter().map(simple).collect()),
            Filter::Not(not) => Filter::Not(Box::new(simple(*not))),
            test @ Filter::Test { .. } => test,
        }
    }

    #[test]
    fn conditions_are_the_filters_that_json_says() {
        same("QuadClass = 4", r#"{"QuadClass": 4}"#);
        same(
            "QuadClass IN (3,4) AND ActionGeo_CountryCode = 'US'",
            r#"{"AND": [{"QuadClass": [3, 4]}, {"ActionGeo_CountryCode": "US"}]}"#,
        );
        same(
            "QuadClass=1 or AvgTone >= -2.5 and not Day is null",
            r#"{"OR": [{"QuadClass": 1},
                {"AND": [{"AvgTone": {"ge": -2.5}}, {"NOT": {"Day": {"is_null": true}}}]}]}"#,
        );
        same(
            "(QuadClass=1 OR QuadClass<>2) AND \"Day\" NOT BETWEEN '2020-01-01' AND 20200131",
            r#"{"AND": [{"OR": [{"QuadClass": 1}, {"NOT": {"QuadClass": 2}}]},
                {"NOT": {"Day": {"between": ["2020-01-01", 20200131]}}}]}"#,
        );
        same("Actor1Name = 'O''Brien'", r#"{"Actor1Name": "O'Brien"}"#);
        same("NOT NOT AvgTone < 1e1", r#"{"AvgTone": {"lt": 10.0}}"#);
        same("EventCode NOT IN ('010')", r#"{"NOT": {"EventCode": ["010"]}}"#);
        same("Actor1Code IS NOT NULL", r#"{"Actor1Code": {"not_null": true}}"#);
    }

    #[test]
    fn what_cannot_be_understood_is_told_by_its_place() {
        for (condition, said) in [
            ("", "character 1: expected a column"),
            ("QuadClass", "character 2: expected an operator"),
            ("QuadClass = ", "expected a number or a text"),
            ("QuadClass = US", "character 13: expected a number or a text"),
            ("QuadClass = 4 4", "character 15: expected AND, OR or the end"),
            ("(QuadClass = 4", "expected `)`"),
            ("QuadClass IN ()", "character 15: expected a number"),
            ("QuadClass NOT = 4", "character 15: expected IN or BETWEEN"),
            ("EventCode = 'x", "character 13: ' is not closed"),
            ("EventCode = 1.2.3", "character 13: `1.2.3` is no number"),
            ("EventCode = 010", "`EventCode` holds text"),
            ("Dai = 1", "`Dai` is no column of events"),
            ("QuadClass ; 4", "expected an operator"),
            (&"(".repeat(10_000), "fewer conditions"),
        ] {
            let error = Filter::parse_condition(Dataset::Events, condition).unwrap_err();
            assert!(error.to_string().contains(said), "{condition}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_much(text in "[ -~é\t]{0,60}") {
            let _filter = Filter::parse_condition(Dataset::Events, &text);
        }
    }
}
