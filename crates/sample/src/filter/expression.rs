//! Evaluates a filter on a table, with polars.

use arrow::array::RecordBatch;
use catalog::ColumnType;
use polars::prelude::{
    Expr, IntoLazy as _, NULL, NamedFrom as _, PlSmallStr, PolarsResult, Series, col, lit,
};

use super::{Filter, Literal, Test};
use crate::columns::DeclaredColumn;

const MATCHES: &str = "matches";

/// Whether each row of a batch matches; the batch has the filter's columns with their types.
///
/// # Errors
///
/// What polars says.
pub(crate) fn matches(filter: &Filter, batch: &RecordBatch) -> PolarsResult<Vec<bool>> {
    let frame = polars_bridge::table_to_polars(batch.schema_ref(), std::slice::from_ref(batch))?;
    let found =
        frame.lazy().select([expression(filter).fill_null(lit(false)).alias(MATCHES)]).collect()?;
    Ok(found.column(MATCHES)?.bool()?.iter().map(|matches| matches == Some(true)).collect())
}

/// Three-valued: null where it is unknown whether the filter holds.
fn expression(filter: &Filter) -> Expr {
    match filter {
        Filter::All(filters) => joined(filters.iter().map(expression), Expr::and),
        Filter::Any(filters) => joined(filters.iter().map(expression), Expr::or),
        Filter::Not(filter) => expression(filter).not(),
        Filter::Test { column, test } => tested(column, test),
    }
}

fn tested(column: &DeclaredColumn, test: &Test) -> Expr {
    let stored = col(column.name);
    // polars takes NaN for the greatest number; here it is a missing one.
    let value = match column.column_type {
        ColumnType::Float64 => stored.clone().fill_nan(lit(NULL)),
        ColumnType::Int64 | ColumnType::Text | ColumnType::Date => stored.clone(),
    };
    match test {
        Test::In(literals) => one_of(&value, literals),
        Test::Above(literal) => value.gt(constant(literal)),
        Test::AtLeast(literal) => value.gt_eq(constant(literal)),
        Test::Below(literal) => value.lt(constant(literal)),
        Test::AtMost(literal) => value.lt_eq(constant(literal)),
        Test::IsNull => stored.is_null(),
        Test::NotNull => stored.is_not_null(),
    }
}

fn one_of(value: &Expr, literals: &[Literal]) -> Expr {
    let mut wholes = Vec::new();
    let mut texts = Vec::new();
    for literal in literals {
        match literal {
            Literal::Whole(number) => wholes.push(*number),
            Literal::Text(text) => texts.push(text.as_str()),
            Literal::Fraction(_) => {}
        }
    }
    let listed = |series: Series| value.clone().is_in(lit(series).implode(false), false);
    let name = PlSmallStr::EMPTY;
    if literals.len() > 1 && wholes.len() == literals.len() {
        listed(Series::new(name, wholes))
    } else if literals.len() > 1 && texts.len() == literals.len() {
        listed(Series::new(name, texts))
    } else {
        joined(literals.iter().map(|literal| value.clone().eq(constant(literal))), Expr::or)
    }
}

fn constant(literal: &Literal) -> Expr {
    match literal {
        Literal::Whole(number) => lit(*number),
        Literal::Fraction(number) => lit(*number),
        Literal::Text(text) => lit(text.as_str()),
    }
}

/// The parser leaves no list empty; an empty one matches nothing.
fn joined(expressions: impl Iterator<Item = Expr>, join: fn(Expr, Expr) -> Expr) -> Expr {
    expressions.reduce(join).unwrap_or_else(|| lit(false))
}
