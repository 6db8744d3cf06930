//! Every format in, every format out: the same answer.

mod common;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMillisecondType};
use arrow_array::{
    Array, DictionaryArray, Float64Array, RecordBatch, StringArray, TimestampMillisecondArray,
    types::Int32Type,
};
use arrow_schema::SchemaRef;
use common::{FLAGS, Place, RESULTS, ROWS, csv, ndjson};

/// The rows as a batch; the tenant as a dictionary if asked for.
fn batch(dictionary: bool) -> RecordBatch {
    let time = |text: &str| arrow_cast::parse::string_to_timestamp_nanos(text).expect("a time") / 1_000_000;
    let times: TimestampMillisecondArray = ROWS.iter().map(|row| row.0.map(time)).collect();
    let tenants: Arc<dyn Array> = if dictionary {
        Arc::new(ROWS.iter().map(|row| row.1).collect::<DictionaryArray<Int32Type>>())
    } else {
        Arc::new(StringArray::from_iter_values(ROWS.iter().map(|row| row.1)))
    };
    let usd = Float64Array::from_iter_values(ROWS.iter().map(|row| row.2.parse::<f64>().expect("a number")));
    let times = times.with_timezone("UTC");
    RecordBatch::try_from_iter([
        ("ts", Arc::new(times) as _),
        ("tenant", tenants),
        ("usd", Arc::new(usd) as _),
    ])
    .expect("columns of one length")
}

fn parquet(batch: &RecordBatch) -> Vec<u8> {
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), None).expect("a writer");
    writer.write(batch).expect("written");
    writer.into_inner().expect("complete")
}

fn ipc_file(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema()).expect("a writer");
    writer.write(batch).expect("written");
    writer.into_inner().expect("complete")
}

fn ipc_stream(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).expect("a writer");
    writer.write(batch).expect("written");
    writer.into_inner().expect("complete")
}

fn all_inputs() -> Vec<(&'static str, Vec<u8>)> {
    let plain = batch(false);
    vec![
        ("rows.csv", csv().into_bytes()),
        ("rows.tsv", csv().replace(',', "\t").into_bytes()),
        ("rows.ndjson", ndjson().into_bytes()),
        ("rows.parquet", parquet(&plain)),
        ("rows.arrow", ipc_file(&plain)),
        ("rows.arrows", ipc_stream(&plain)),
        ("dictionary.arrow", ipc_file(&batch(true))),
    ]
}

#[test]
fn every_input_format_gives_the_same_answer() {
    for (name, content) in all_inputs() {
        let place = Place::new();
        place.file(name, &content);
        let results = place.run(&format!("window {name} {FLAGS} --format csv")).ok();
        assert_eq!(results, RESULTS, "{name}");
    }
}

#[test]
fn standard_input_is_recognised_by_its_first_bytes() {
    for (name, content) in all_inputs() {
        let flag = if name == "rows.tsv" { "--delimiter tab" } else { "" };
        let results = Place::new().run_with(&format!("window - {FLAGS} {flag} --format csv"), &content).ok();
        assert_eq!(results, RESULTS, "{name}");
    }
}

#[test]
fn a_format_by_flag_needs_no_extension() {
    let place = Place::new();
    place.file("rows.data", ndjson());
    assert_eq!(
        place.run(&format!("window rows.data --input-format ndjson {FLAGS} --format csv")).ok(),
        RESULTS
    );
}

#[test]
fn whole_numbers_with_a_unit_and_iso_text_agree() {
    let place = Place::new();
    let row = |row: &(Option<&str>, &str, &str)| {
        let nanos = row.0.map(|text| arrow_cast::parse::string_to_timestamp_nanos(text).expect("a time"));
        format!(
            "{},{},{}\n",
            nanos.map_or(String::new(), |nanos| (nanos / 1_000_000).to_string()),
            row.1,
            row.2
        )
    };
    place.file("ms.csv", format!("ts,tenant,usd\n{}", ROWS.iter().map(row).collect::<String>()));
    let results = place.run(&format!("window ms.csv --time-unit ms {FLAGS} --format csv")).ok();
    let ms = |text: &str| {
        (arrow_cast::parse::string_to_timestamp_nanos(text).expect("a time") / 1_000_000).to_string()
    };
    let mut expected = RESULTS.to_string();
    for minute in
        ["2024-05-01T10:00:00Z", "2024-05-01T10:01:00Z", "2024-05-01T10:02:00Z", "2024-05-01T10:03:00Z"]
    {
        expected = expected.replace(minute, &ms(minute));
    }
    assert_eq!(results, expected);
}

#[test]
fn the_table_lines_up() {
    let expected = "\
tenant  window_start          window_end               usd  count
------  --------------------  --------------------  ------  -----
acme    2024-05-01T10:00:00Z  2024-05-01T10:01:00Z   0.625      2
globex  2024-05-01T10:00:00Z  2024-05-01T10:01:00Z    0.25      1
acme    2024-05-01T10:01:00Z  2024-05-01T10:02:00Z     1.0      1
acme    2024-05-01T10:02:00Z  2024-05-01T10:03:00Z  0.0625      1
";
    assert_eq!(Place::with_rows().run(&format!("window rows.csv {FLAGS}")).ok(), expected);
    assert_eq!(Place::with_rows().run(&format!("window rows.csv {FLAGS} --format table")).ok(), expected);
}

#[test]
fn ndjson_has_one_object_per_result() {
    let results = Place::with_rows().run(&format!("window rows.csv {FLAGS} --format ndjson")).ok();
    let first = "{\"tenant\":\"acme\",\"window_start\":\"2024-05-01T10:00:00Z\",\
                 \"window_end\":\"2024-05-01T10:01:00Z\",\"usd\":0.625,\"count\":2}";
    assert_eq!(results.lines().count(), 4);
    assert_eq!(results.lines().next(), Some(first));
}

/// Checks the results of [`ROWS`] as batches.
fn check(batches: &[RecordBatch], schema: &SchemaRef) {
    let batch = arrow_select::concat::concat_batches(schema, batches).expect("batches of one schema");
    let tenants: Vec<_> = batch.column(0).as_string::<i32>().iter().flatten().collect();
    assert_eq!(tenants, ["acme", "globex", "acme", "acme"]);
    // 1714557600 is 2024-05-01T10:00:00Z
    let starts = batch.column(1).as_primitive::<TimestampMillisecondType>().values();
    assert_eq!(starts[..], [1_714_557_600_000, 1_714_557_600_000, 1_714_557_660_000, 1_714_557_720_000]);
    assert_eq!(batch.column(3).as_primitive::<Float64Type>().values()[..], [0.625, 0.25, 1.0, 0.0625]);
    assert_eq!(batch.column_by_name("count").expect("a column").len(), 4);
    let counts = arrow_cast::cast(batch.column(4), &arrow_schema::DataType::Int64).expect("a number");
    assert_eq!(counts.as_primitive::<Int64Type>().values()[..], [2, 1, 1, 1]);
}

#[test]
fn binary_outputs_can_be_read_back() {
    let place = Place::with_rows();
    place.run(&format!("window rows.csv {FLAGS} --out out.parquet")).ok();
    let file = std::fs::File::open(place.path("out.parquet")).expect("the output");
    let reader =
        parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet");
    let schema = reader.schema().clone();
    let batches: Vec<RecordBatch> =
        reader.build().expect("Parquet").map(|batch| batch.expect("a batch")).collect();
    check(&batches, &schema);

    let bytes = place.run(&format!("window rows.csv {FLAGS} --format arrow")).bytes;
    let reader =
        arrow_ipc::reader::FileReader::try_new(std::io::Cursor::new(bytes), None).expect("Arrow IPC");
    let schema = reader.schema();
    let batches: Vec<RecordBatch> = reader.map(|batch| batch.expect("a batch")).collect();
    check(&batches, &schema);
}

#[test]
fn the_extension_of_out_decides_and_format_overrides() {
    let place = Place::with_rows();
    place.run(&format!("window rows.csv {FLAGS} --out out.csv")).ok();
    assert_eq!(place.read("out.csv"), RESULTS);
    place.run(&format!("window rows.csv {FLAGS} --out out.data --format csv")).ok();
    assert_eq!(place.read("out.data"), RESULTS);
    assert_eq!(place.names(), ["out.csv", "out.data", "rows.csv"]);
}

#[test]
fn outputs_without_rows_are_whole() {
    let place = Place::new();
    place.file("rows.csv", "ts,tenant,usd\n");
    for format in ["table", "csv", "ndjson", "parquet", "arrow"] {
        place.run(&format!("window rows.csv {FLAGS} --format {format} --out none.{format}")).ok();
    }
    assert_eq!(place.read("none.csv"), "tenant,window_start,window_end,usd,count\n");
    assert_eq!(place.read("none.ndjson"), "");
    assert_eq!(place.read("none.table").lines().count(), 2);
    let again = place.run("window none.parquet --time window_end --tumble 1m --ascending --format csv").ok();
    assert_eq!(again, "window_start,window_end,count\n");
    let again = place.run("window none.arrow --time window_end --tumble 1m --ascending --format csv").ok();
    assert_eq!(again, "window_start,window_end,count\n");
}

#[test]
fn late_rows_of_dictionaries_are_written_in_every_format() {
    let place = Place::new();
    place.file("rows.arrow", ipc_file(&batch(true)));
    for extension in ["csv", "ndjson", "parquet", "arrow"] {
        let run = format!("window rows.arrow {FLAGS} --late late.{extension} --out out.csv");
        place.run(&run).ok();
        let back =
            format!("window late.{extension} --time ts --key tenant --tumble 1m --ascending --format csv");
        let expected = "tenant,window_start,window_end,count\n\
                        globex,2024-05-01T10:00:00Z,2024-05-01T10:01:00Z,1\n";
        assert_eq!(place.run(&back).ok(), expected, "{extension}");
    }
}
