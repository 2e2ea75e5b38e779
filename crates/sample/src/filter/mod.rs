//! Which rows may be drawn: a small language in JSON, checked against the dataset's schema before
//! anything is read.
//!
//! ```text
//! filter = {member, …}                  all members hold
//! member = "column": value              equal to
//!        | "column": [value, …]         one of
//!        | "column": {"gt": value, …}   equals in_list gt ge lt le between is_null not_null
//!        | "AND" | "OR": {member, …}    or [filter, …]
//!        | "NOT": filter                or [filter]
//! ```
//!
//! A null and a NaN never match a comparison, and since that leaves it unknown, neither the `NOT`
//! of one. Dates are numbers as the column has them, or days as `20200131` or `"2020-01-31"`; in a
//! column of seconds a day means all of its seconds.

mod codes;
mod condition;
mod expression;
mod json;

use catalog::{ColumnType, Dataset};
use chrono::NaiveDate;
use stage::Error;

pub(crate) use codes::unknown as unknown_codes;
pub(crate) use expression::matches;

use crate::columns::{self, DeclaredColumn};
use json::Json;

/// Which rows may be drawn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Filter {
    /// All hold; there is at least one.
    All(Vec<Filter>),
    /// One of these holds; there is at least one.
    Any(Vec<Filter>),
    /// This does not hold.
    Not(Box<Filter>),
    /// A test of a column.
    Test {
        /// The column.
        column: DeclaredColumn,
        /// What its value is to be.
        test: Test,
    },
}

/// What a value is to be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    /// One of these; there is at least one.
    In(Vec<Literal>),
    /// Greater than this.
    Above(Literal),
    /// This or greater.
    AtLeast(Literal),
    /// Less than this.
    Below(Literal),
    /// This or less.
    AtMost(Literal),
    /// Null.
    IsNull,
    /// Not null.
    NotNull,
}

/// A value of a column's type.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub(crate) enum Literal {
    Whole(i64),
    Fraction(f64),
    Text(String),
}

impl Filter {
    /// Reads a filter for a dataset.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] that says where in the filter what is wrong.
    pub(crate) fn parse(dataset: Dataset, text: &str) -> Result<Self, Error> {
        let json = serde_json::from_str(text).map_err(|error| {
            Error::usage(format!("--filter: {error}"), "give one JSON object, in single quotes")
        })?;
        Parser { dataset }.filter(&json, "--filter")
    }

    /// Reads a condition as SQL has it.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] that says where in the condition what is wrong.
    pub(crate) fn parse_condition(dataset: Dataset, text: &str) -> Result<Self, Error> {
        Parser { dataset }.filter(&condition::parse(text)?, "--where")
    }

    /// The columns it looks at, each once, in the order of their first use.
    pub(crate) fn columns(&self) -> Vec<DeclaredColumn> {
        let mut columns = Vec::new();
        self.collect_columns(&mut columns);
        columns
    }

    fn collect_columns(&self, columns: &mut Vec<DeclaredColumn>) {
        match self {
            Self::All(filters) | Self::Any(filters) => {
                for filter in filters {
                    filter.collect_columns(columns);
                }
            }
            Self::Not(filter) => filter.collect_columns(columns),
            Self::Test { column, .. } => {
                if !columns.contains(column) {
                    columns.push(*column);
                }
            }
        }
    }
}

struct Parser {
    dataset: Dataset,
}

impl Parser {
    fn filter(&self, json: &Json, place: &str) -> Result<Filter, Error> {
        let Json::Object(members) = json else {
            return Err(Error::usage(
                format!("{place}: expected an object"),
                r#"write {"column": value}, as in {"QuadClass": 4}"#,
            ));
        };
        Ok(Filter::All(self.members(members, place)?))
    }

    fn members(&self, members: &[(String, Json)], place: &str) -> Result<Vec<Filter>, Error> {
        if members.is_empty() {
            return Err(empty(place));
        }
        let member = |(key, value): &(String, Json)| {
            let place = format!("{place}.{key}");
            match key.as_str() {
                "AND" => Ok(Filter::All(self.terms(value, &place)?)),
                "OR" => Ok(Filter::Any(self.terms(value, &place)?)),
                "NOT" => Ok(Filter::Not(Box::new(self.negated(value, &place)?))),
                name => self.column(name, value, &place),
            }
        };
        members.iter().map(member).collect()
    }

    fn terms(&self, json: &Json, place: &str) -> Result<Vec<Filter>, Error> {
        match json {
            Json::Object(members) => self.members(members, place),
            Json::List(filters) if filters.is_empty() => Err(empty(place)),
            Json::List(filters) => (filters.iter().enumerate())
                .map(|(index, filter)| self.filter(filter, &format!("{place}[{index}]")))
                .collect(),
            _ => Err(Error::usage(
                format!("{place}: expected an object or a list of objects"),
                r#"write {"OR": [{"QuadClass": 4}, {"EventRootCode": "14"}]}"#,
            )),
        }
    }

    fn negated(&self, json: &Json, place: &str) -> Result<Filter, Error> {
        match json {
            Json::List(filters) => match filters.as_slice() {
                [filter] => self.filter(filter, &format!("{place}[0]")),
                _ => Err(Error::usage(
                    format!("{place}: a list of {} leaves open what is negated", filters.len()),
                    r#"write {"NOT": {"OR": […]}} for none of them, {"NOT": {"AND": […]}} for not all"#,
                )),
            },
            other => self.filter(other, place),
        }
    }

    fn column(&self, name: &str, json: &Json, place: &str) -> Result<Filter, Error> {
        let column = columns::find(self.dataset, name)
            .ok_or_else(|| columns::unknown(self.dataset, name, place))?;
        if column.column_type == ColumnType::Date {
            let message = format!("{place}: `{name}` is made of another column");
            return Err(Error::usage(message, "filter by that, as in Day"));
        }
        match json {
            Json::List(_) => self.operator(&column, "in_list", json, place),
            Json::Object(operators) if operators.is_empty() => Err(empty(place)),
            Json::Object(operators) => {
                let mut tests = Vec::new();
                for (operator, value) in operators {
                    let place = format!("{place}.{operator}");
                    tests.push(self.operator(&column, operator, value, &place)?);
                }
                Ok(Filter::All(tests))
            }
            _ => self.operator(&column, "equals", json, place),
        }
    }

    fn operator(
        &self,
        column: &DeclaredColumn,
        operator: &str,
        json: &Json,
        place: &str,
    ) -> Result<Filter, Error> {
        let test = |test| Filter::Test { column: *column, test };
        let span = |json| self.span(column, json, place);
        Ok(match (operator, json) {
            ("equals", json) => within(column, span(json)?),
            ("gt", json) => test(Test::Above(span(json)?.last)),
            ("ge", json) => test(Test::AtLeast(span(json)?.first)),
            ("lt", json) => test(Test::Below(span(json)?.first)),
            ("le", json) => test(Test::AtMost(span(json)?.last)),
            ("in_list", Json::List(values)) => {
                if values.is_empty() {
                    return Err(empty(place));
                }
                let spans = values.iter().map(span).collect::<Result<Vec<_>, _>>()?;
                if spans.iter().all(|span| span.first == span.last) {
                    test(Test::In(spans.into_iter().map(|span| span.first).collect()))
                } else {
                    Filter::Any(spans.into_iter().map(|span| within(column, span)).collect())
                }
            }
            ("between" | "range", Json::List(ends)) if ends.len() == 2 => {
                let (first, last) = (span(&ends[0])?.first, span(&ends[1])?.last);
                if first > last {
                    let message = format!("{place}: the first value is greater than the second");
                    return Err(Error::usage(message, "exchange the two values"));
                }
                within(column, Span { first, last })
            }
            ("is_null", Json::Bool(true)) => test(Test::IsNull),
            ("not_null", Json::Bool(true)) => test(Test::NotNull),
            ("in_list", _) => return Err(shape(place, "a list of values", r#"["18", "19"]"#)),
            ("between" | "range", _) => return Err(shape(place, "a list of two values", "[1, 5]")),
            ("is_null" | "not_null", _) => {
                return Err(shape(place, "true", r#"{"is_null": true}, or {"not_null": true}"#));
            }
            _ => {
                return Err(Error::usage(
                    format!("{place}: unknown operator `{operator}`"),
                    "operators are equals, in_list, gt, ge, lt, le, between, is_null, not_null",
                ));
            }
        })
    }

    /// The first and last value that a JSON value stands for in a column.
    fn span(&self, column: &DeclaredColumn, json: &Json, place: &str) -> Result<Span, Error> {
        if let Some(digits) = date_digits(self.dataset, column.name) {
            return date_span(digits, json).ok_or_else(|| {
                let (kind, example) = match digits {
                    DateDigits::Day => ("a day", ""),
                    DateDigits::Second => ("a day or a second", " or 20200131234500"),
                };
                let message = format!("{place}: expected {kind}");
                Error::usage(message, format!(r#"write "2020-01-31" or 20200131{example}"#))
            });
        }
        let name = column.name;
        let wrong = |expected: &str, hint: &str| {
            Error::usage(format!("{place}: `{name}` holds {expected}"), hint)
        };
        let literal = match (column.column_type, json) {
            (_, Json::Null) => {
                let hint = r#"write {"is_null": true}"#;
                return Err(Error::usage(format!("{place}: null equals nothing"), hint));
            }
            (ColumnType::Int64, Json::Whole(value)) => Literal::Whole(*value),
            #[expect(clippy::cast_precision_loss, reason = "the column has that precision")]
            (ColumnType::Float64, Json::Whole(value)) => Literal::Fraction(*value as f64),
            (ColumnType::Float64, Json::Fraction(value)) => Literal::Fraction(*value),
            (ColumnType::Text, Json::Text(value)) => Literal::Text(value.clone()),
            (ColumnType::Int64, _) => {
                return Err(wrong("whole numbers", "write a whole number without quotes, as in 4"));
            }
            (ColumnType::Float64, _) => {
                return Err(wrong("numbers", "write a number without quotes, as in 2.5"));
            }
            (ColumnType::Text | ColumnType::Date, _) => {
                let hint = r#"write it in quotes, as in "010": 010 and 10 are different codes"#;
                return Err(wrong("text", hint));
            }
        };
        Ok(Span { first: literal.clone(), last: literal })
    }
}

/// The values that a JSON value stands for, both ends included.
#[derive(Debug, PartialEq)]
struct Span {
    first: Literal,
    last: Literal,
}

fn within(column: &DeclaredColumn, span: Span) -> Filter {
    let test = |test| Filter::Test { column: *column, test };
    if span.first == span.last {
        test(Test::In(vec![span.first]))
    } else {
        Filter::All(vec![test(Test::AtLeast(span.first)), test(Test::AtMost(span.last))])
    }
}

fn empty(place: &str) -> Error {
    Error::usage(format!("{place}: is empty"), "leave it out, or say what is to hold")
}

fn shape(place: &str, expected: &str, example: &str) -> Error {
    Error::usage(format!("{place}: expected {expected}"), format!("write {example}"))
}

/// How a column writes dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DateDigits {
    /// 8 digits.
    Day,
    /// 14 digits.
    Second,
}

/// Whether a column holds dates.
pub(crate) fn is_date_column(dataset: Dataset, column: &str) -> bool {
    date_digits(dataset, column).is_some()
}

fn date_digits(dataset: Dataset, column: &str) -> Option<DateDigits> {
    match (dataset, column) {
        (Dataset::Events15Min, "DATEADDED")
        | (Dataset::GkgV2, "V2.1DATE")
        | (Dataset::Mentions, "EventTimeDate" | "MentionTimeDate") => Some(DateDigits::Second),
        (Dataset::Events, "DATEADDED" | "Day_original")
        | (Dataset::Events15Min, "Day_original") => Some(DateDigits::Day),
        (dataset, column) => (column == dataset.date_column()).then_some(DateDigits::Day),
    }
}

fn date_span(digits: DateDigits, json: &Json) -> Option<Span> {
    let (day, second) = match json {
        Json::Text(text) => (NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?, None),
        Json::Whole(number) => match catalog::Period::parse(&number.to_string())? {
            catalog::Period::Day(day) => (day, None),
            catalog::Period::Slot(moment) if digits == DateDigits::Second => {
                (moment.date(), Some(*number))
            }
            _ => return None,
        },
        _ => return None,
    };
    let number = day.format("%Y%m%d").to_string().parse::<i64>().ok()?;
    let (first, last) = match (digits, second) {
        (_, Some(second)) => (second, second),
        (DateDigits::Day, None) => (number, number),
        (DateDigits::Second, None) => (number * 1_000_000, number * 1_000_000 + 235_959),
    };
    Some(Span { first: Literal::Whole(first), last: Literal::Whole(last) })
}

#[cfg(test)]
mod tests;
