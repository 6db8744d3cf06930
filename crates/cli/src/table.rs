//! Results in columns for people.
//!
//! Widths are those of the first rows; a later value that is wider moves its line, as columns of a program that cannot
//! look ahead do.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, SchemaRef};
use unicode_width::UnicodeWidthStr;

use crate::text::tame;

/// Rows that are held back to find the widths.
const SAMPLE: usize = 10_000;
const GAP: &str = "  ";

struct Column {
    name: String,
    right: bool,
    width: usize,
}

/// A table that is being written.
pub(crate) struct Table<W> {
    writer: W,
    columns: Vec<Column>,
    held: Vec<Vec<String>>,
    settled: bool,
}

impl<W: Write> Table<W> {
    pub(crate) fn new(writer: W, schema: &SchemaRef) -> Self {
        let column = |field: &arrow_schema::FieldRef| {
            let name = tame(field.name());
            Column { width: name.width(), name, right: is_number(field.data_type()) }
        };
        Table {
            writer,
            columns: schema.fields().iter().map(column).collect(),
            held: Vec::new(),
            settled: false,
        }
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let options = FormatOptions::new().with_null("null").with_display_error(true);
        let formatters =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let formatters = formatters.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
        for row in 0..batch.num_rows() {
            let cells: Vec<String> =
                formatters.iter().map(|formatter| tame(&formatter.value(row).to_string())).collect();
            if self.settled {
                self.line(&cells)?;
            } else {
                self.held.push(cells);
                if self.held.len() == SAMPLE {
                    self.settle()?;
                }
            }
        }
        if self.settled { self.writer.flush() } else { Ok(()) }
    }

    /// Fixes the widths and writes what was held back.
    fn settle(&mut self) -> io::Result<()> {
        self.settled = true;
        let held = std::mem::take(&mut self.held);
        for cells in &held {
            for (column, cell) in self.columns.iter_mut().zip(cells) {
                column.width = column.width.max(cell.width());
            }
        }
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        let rules: Vec<String> = self.columns.iter().map(|column| "-".repeat(column.width)).collect();
        self.line(&names)?;
        self.line(&rules)?;
        held.iter().try_for_each(|cells| self.line(cells))
    }

    fn line(&mut self, cells: &[String]) -> io::Result<()> {
        let mut line = String::new();
        for (number, (column, cell)) in self.columns.iter().zip(cells).enumerate() {
            let padding = " ".repeat(column.width.saturating_sub(cell.width()));
            let gap = if number > 0 { GAP } else { "" };
            let (before, after) = if column.right { (padding.as_str(), "") } else { ("", padding.as_str()) };
            line.extend([gap, before, cell, after]);
        }
        writeln!(self.writer, "{}", line.trim_end())
    }

    /// Writes what is there, in the widths that it has; what comes later must fit in.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if !self.settled && !self.held.is_empty() {
            self.settle()?;
        }
        self.writer.flush()
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        if !self.settled {
            self.settle()?;
        }
        Ok(self.writer)
    }
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float64Array, StringArray};

    use super::*;

    #[test]
    fn columns_line_up() {
        let names = StringArray::from(vec![Some("größe"), None, Some("a\nb\u{1b}[31m"), Some("日本")]);
        let values = Float64Array::from(vec![Some(1.5), Some(-20.25), None, Some(3.0)]);
        let batch =
            RecordBatch::try_from_iter([("name", Arc::new(names) as _), ("usd", Arc::new(values) as _)])
                .unwrap();
        let mut table = Table::new(Vec::new(), &batch.schema());
        table.write(&batch).unwrap();
        let text = String::from_utf8(table.finish().unwrap()).unwrap();
        let expected = "\
name               usd
--------------  ------
größe              1.5
null            -20.25
a\\nb\\u{1b}[31m    null
日本               3.0
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_table_without_rows_has_a_header() {
        let batch =
            RecordBatch::try_from_iter([("usd", Arc::new(Float64Array::from(Vec::<f64>::new())) as _)])
                .unwrap();
        let table = Table::new(Vec::new(), &batch.schema());
        assert_eq!(String::from_utf8(table.finish().unwrap()).unwrap(), "usd\n---\n");
    }
}
