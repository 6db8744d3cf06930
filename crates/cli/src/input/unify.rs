//! One schema for all inputs.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::{Input, OpenOptions, types};
use crate::failure::{Failure, Outcome};

/// A column on its way to the common schema, and who said what it is.
struct Column {
    name: String,
    data_type: DataType,
    from: usize,
    /// All who have it so far are text, so its type was inferred and may still widen.
    text: bool,
}

/// The schema that all inputs share: the columns of the first, in its order.
///
/// Types inferred from text widen (whole numbers to floats, nothing to something, timestamps to the finer unit), and rows
/// of NDJSON may leave out columns. Every other difference is a failure that names it. A column without any value is
/// what its use asks for, or text.
pub(crate) fn unify(inputs: &[Input], options: &OpenOptions<'_>) -> Outcome<SchemaRef> {
    let mut columns: Vec<Column> = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        for field in input.schema().fields() {
            match columns.iter_mut().find(|column| column.name == *field.name()) {
                Some(column) => merge(column, field, inputs, index)?,
                None => {
                    // Those before must be able to lack it.
                    if let Some(before) = inputs[..index].iter().find(|before| !before.may_lack_columns()) {
                        return Err(missing(before, field, input));
                    }
                    columns.push(Column {
                        name: field.name().clone(),
                        data_type: field.data_type().clone(),
                        from: index,
                        text: input.is_text(),
                    });
                }
            }
        }
        if !input.may_lack_columns() {
            let absent = columns.iter().find(|column| input.schema().index_of(&column.name).is_err());
            if let Some(column) = absent {
                let field = Field::new(&column.name, column.data_type.clone(), true);
                return Err(missing(input, &field, &inputs[column.from]));
            }
        }
    }
    let settled = |column: Column| {
        let data_type = match column.data_type {
            DataType::Null if options.times.contains(&column.name.as_str()) => DataType::Timestamp(
                options.time_unit.unwrap_or(TimeUnit::Millisecond),
                Some(types::UTC.into()),
            ),
            DataType::Null if (options.numeric)(&column.name) => DataType::Float64,
            DataType::Null => DataType::Utf8,
            known => known,
        };
        Field::new(column.name, data_type, true)
    };
    Ok(Arc::new(Schema::new(columns.into_iter().map(settled).collect::<Vec<_>>())))
}

fn merge(column: &mut Column, field: &Field, inputs: &[Input], index: usize) -> Outcome<()> {
    let input = &inputs[index];
    // Text without a value in a column says nothing of it.
    if input.is_text() && *field.data_type() == DataType::Null {
        return Ok(());
    }
    if column.text && column.data_type == DataType::Null {
        (column.data_type, column.from, column.text) = (field.data_type().clone(), index, input.is_text());
        return Ok(());
    }
    if column.text && input.is_text() {
        if let Some(wider) = types::widen(&column.data_type, field.data_type()) {
            column.data_type = wider;
            return Ok(());
        }
    } else if column.data_type == *field.data_type() {
        column.text = false;
        return Ok(());
    }
    Err(Failure::run(format_args!(
        "the inputs differ: column {:?} is {} in {}, and {} in {}",
        column.name,
        column.data_type,
        inputs[column.from].name,
        field.data_type(),
        input.name
    )))
}

fn missing(lacks: &Input, field: &Field, has: &Input) -> Failure {
    Failure::run(format_args!(
        "the inputs differ: {} has no column {:?}, which {} has as {}",
        lacks.name,
        field.name(),
        has.name,
        field.data_type()
    ))
}
