//! Rows that outlive their batch: chosen columns of each, as bytes in Arrow's row format.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, NullArray, RecordBatch, UInt32Array, new_null_array};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::take::take;

use crate::error::{Error, Result};
use crate::snapshot::{Checked, Record, record};

/// A row's chosen columns.
pub(crate) type Bytes = Arc<[u8]>;

/// Columns of a schema that rows are kept of.
#[derive(Debug)]
pub(crate) struct Stored {
    columns: Vec<usize>,
    /// As they come out: a dictionary as its values.
    pub(crate) fields: Vec<Field>,
    /// None without columns.
    converter: Option<RowConverter>,
    /// A row of nulls, for where there is none.
    null: Bytes,
}

/// Rows of one batch.
#[derive(Debug)]
pub(crate) struct Encoded(Option<Rows>);

impl Encoded {
    /// A row, counted among those that were encoded.
    pub(crate) fn get(&self, row: usize) -> Bytes {
        self.0.as_ref().map_or_else(|| Arc::from([]), |rows| Arc::from(rows.row(row).data()))
    }
}

impl Stored {
    /// `parameter` chose the columns.
    pub(crate) fn new(parameter: &str, schema: &Schema, columns: Vec<usize>) -> Result<Self> {
        for &column in &columns {
            let field = schema.field(column);
            if !RowConverter::supports_fields(&[SortField::new(field.data_type().clone())]) {
                return Err(Error::ColumnType {
                    parameter: parameter.into(),
                    column: field.name().clone(),
                    given: field.data_type().to_string(),
                    allowed: "all types that Arrow's row format holds".into(),
                });
            }
        }
        if columns.is_empty() {
            return Ok(Stored { columns, fields: vec![], converter: None, null: Arc::from([]) });
        }
        let types = || columns.iter().map(|&column| schema.field(column).data_type().clone());
        let converter = RowConverter::new(types().map(SortField::new).collect())?;
        let nulls: Vec<_> = types().map(|data_type| new_null_array(&data_type, 1)).collect();
        let null = Arc::from(converter.convert_columns(&nulls)?.row(0).data());
        // what comes out of no rows has the types of what comes out of any
        let arrays = converter.convert_rows(std::iter::empty())?;
        let fields = columns.iter().zip(&arrays).map(|(&column, array)| {
            let field = schema.field(column);
            // a dictionary without nulls can have a null among its values
            let nullable = field.is_nullable() || matches!(field.data_type(), DataType::Dictionary(..));
            Field::new(field.name(), array.data_type().clone(), nullable)
        });
        Ok(Stored { fields: fields.collect(), columns, converter: Some(converter), null })
    }

    /// Encodes rows of a batch.
    pub(crate) fn encode(&self, batch: &RecordBatch, rows: &[u32]) -> Result<Encoded> {
        let Some(converter) = &self.converter else { return Ok(Encoded(None)) };
        let rows = UInt32Array::from(rows.to_vec());
        let taken = self.columns.iter().map(|&column| take(batch.column(column), &rows, None));
        let columns = taken.collect::<Result<Vec<_>, _>>()?;
        Ok(Encoded(Some(converter.convert_columns(&columns)?)))
    }

    /// Encodes all rows of a batch.
    pub(crate) fn encode_all(&self, batch: &RecordBatch) -> Result<Encoded> {
        let Some(converter) = &self.converter else { return Ok(Encoded(None)) };
        let columns: Vec<_> = self.columns.iter().map(|&column| batch.column(column).clone()).collect();
        Ok(Encoded(Some(converter.convert_columns(&columns)?)))
    }

    /// The columns of rows, null where there is none.
    pub(crate) fn decode<'a>(
        &self,
        rows: impl Iterator<Item = Option<&'a Bytes>> + Clone,
    ) -> Result<Vec<ArrayRef>> {
        let Some(converter) = &self.converter else { return Ok(vec![]) };
        let parser = converter.parser();
        // not by taking nulls from what there is: of runs, those would be values
        Ok(converter.convert_rows(rows.map(|row| parser.parse(row.unwrap_or(&self.null))))?)
    }
}

impl Stored {
    /// Rows as a struct of their columns, to be saved; a null struct's columns where there is none.
    pub(crate) fn save<'a>(
        &self,
        rows: impl Iterator<Item = Option<&'a Bytes>> + Clone,
    ) -> Checked<ArrayRef> {
        if self.converter.is_none() {
            return Ok(Arc::new(NullArray::new(rows.count())));
        }
        let columns = self.decode(rows).map_err(|error| error.to_string())?;
        let names = self.fields.iter().map(|field| field.name().as_str());
        record(names.zip(columns).collect())
    }

    /// The rows that [`save`](Stored::save) made an array of.
    pub(crate) fn restore(&self, saved: &ArrayRef) -> Checked<Vec<Bytes>> {
        if self.converter.is_none() {
            return Ok(vec![Arc::from([]); saved.len()]);
        }
        let saved = Record::of(saved)?;
        let columns = self.fields.iter().map(|field| saved.column(field.name()).cloned());
        let columns = columns.collect::<Checked<Vec<_>>>()?;
        let mut of_fields = self.fields.iter().zip(&columns);
        if let Some((field, _)) =
            of_fields.find(|(field, column)| !field.is_nullable() && column.null_count() > 0)
        {
            return Err(format!("column {:?} has nulls", field.name()));
        }
        // dictionaries have come out as their values, and those are encoded to the same bytes
        let types = self.fields.iter().map(|field| SortField::new(field.data_type().clone()));
        let converter = RowConverter::new(types.collect()).map_err(|error| error.to_string())?;
        let rows = converter.convert_columns(&columns).map_err(|error| error.to_string())?;
        Ok(rows.iter().map(|row| Arc::from(row.data())).collect())
    }

    /// What is kept of a row, in words.
    pub(crate) fn describe(&self) -> String {
        let names: Vec<String> = self.fields.iter().map(|field| format!("{:?}", field.name())).collect();
        names.join(", ")
    }
}

/// A failure to save or to restore, as that of a process.
pub(crate) fn unsaved(message: String) -> Error {
    Error::Process { message }
}

/// Gives the columns of two sides names of their own: one whose name is reserved, or the other side's too, gets its side's
/// prefix. `may_be_null` says whose columns are null where the side is missing.
pub(crate) fn two_sides(
    reserved: &[&str],
    sides: [(&str, &Stored); 2],
    may_be_null: [bool; 2],
) -> Result<Vec<Field>> {
    let has = |stored: &Stored, name: &str| stored.fields.iter().any(|field| field.name() == name);
    let mut fields: Vec<Field> = Vec::new();
    for (number, &(prefix, stored)) in sides.iter().enumerate() {
        for field in &stored.fields {
            let other = sides[1 - number].1;
            let clashes = reserved.contains(&field.name().as_str()) || has(other, field.name());
            let name = if clashes { format!("{prefix}_{}", field.name()) } else { field.name().clone() };
            if reserved.contains(&name.as_str()) || fields.iter().any(|known| *known.name() == name) {
                let twice = stored.fields.iter().filter(|other| other.name() == field.name()).count() > 1;
                let (given, allowed) = match twice {
                    true => (format!("{:?} twice", field.name()), "each column once".into()),
                    false => (
                        format!("{:?}", field.name()),
                        format!("a column whose name, or {name:?}, is not taken in the results"),
                    ),
                };
                return Err(Error::invalid(format!("{prefix}_columns"), given, allowed));
            }
            let nullable = field.is_nullable() || may_be_null[number];
            fields.push(Field::new(name, field.data_type().clone(), nullable));
        }
    }
    Ok(fields)
}

/// A text column in any of Arrow's forms.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}
